"""Filters: clauses that collapse, instants, the fault's text, and whatever else a client may send."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.fault import Fault
from app.search.entry import entry_of
from app.search.filters import Filter, parse_filter

NOON = 1_777_593_600  # 2026-05-01T00:00:00Z


def test_no_clause_is_no_filter() -> None:
    assert parse_filter(" ,, ") == Filter()
    assert Filter().matches(entry_of("/a.md", {}, b"", 0))


def test_repeated_clauses_count_once_and_times_keep_the_narrowest() -> None:
    text = "tag=A,tag=a,x=1,x=1,modified-after=2026-05-01,modified-after=2026-04-01,modified-before=2026-06-01,modified-before=2026-05-01"
    assert parse_filter(text) == Filter(tags=("a",), declared=(("x", "1"),), after=NOON, before=NOON)


@pytest.mark.parametrize(
    ("clause", "modified"),
    [
        ("modified-after=2026-05-01T00:00:00.9Z", {1: True, 0: False}),
        ("modified-before=2026-05-01T00:00:00.1Z", {0: True, 1: False}),
        ("modified-after=2026-05-01T02:00:00+02:00", {1: True, 0: False}),
        ("modified-before=2026-04-30T20:00:00-04:00", {-1: True, 0: False}),
        ("modified-after=0000-01-01", {0: True}),
        ("modified-before=9999-12-31T23:59:59.999999999Z", {0: True}),
    ],
)
def test_instants(clause: str, modified: dict[int, bool]) -> None:
    found = parse_filter(clause)
    for seconds, verdict in modified.items():
        assert found.matches(entry_of("/a.md", {}, b"", NOON + seconds)) is verdict


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a,b="', 'invalid filter clause "a": must be key=value'),
        ("x=1, a b = ", 'invalid filter clause "a b =": must be key=value'),
        (
            "modified-after=1\t2",
            r'invalid filter time "1\t2" for modified-after: must be YYYY-MM-DD or an RFC 3339 time',
        ),
        (
            "modified-before=2026-05-01T",
            'invalid filter time "2026-05-01T" for modified-before: must be YYYY-MM-DD or an RFC 3339 time',
        ),
    ],
)
def test_faults(text: str, message: str) -> None:
    with pytest.raises(Fault) as caught:
        parse_filter(text)
    assert (caught.value.status, caught.value.message) == ("bad-request", message)


@pytest.mark.parametrize(
    ("declared", "text", "verdict"),
    [
        ({"tags": "Σίσυφος"}, "tag=σίσυφοσ", True),
        ({"tags": "straße"}, "tag=STRAẞE", True),
        ({"tags": "straße"}, "tag=strasse", False),
        ({"tags": "rope,chain"}, "tag=chain,tag=rope", True),
        ({"tags": "rope"}, "tag=rope,tag=chain", False),
        ({"type": "Document"}, "type=Document", True),
        ({"TAG": "rope"}, "TAG=rope", True),
    ],
)
def test_matches(declared: dict[str, str], text: str, verdict: bool) -> None:
    assert parse_filter(text).matches(entry_of("/a.md", declared, b"# T\n", 0)) is verdict


@settings(deadline=None)
@given(
    st.text(st.characters(codec="utf-8"))
    | st.lists(st.sampled_from(["tag", "=", ",", "modified-after", "2026-05-01", "T", "a"])).map("".join)
)
def test_any_text_is_a_filter_or_a_fault(text: str) -> None:
    try:
        found = parse_filter(text)
    except Fault as fault:
        outcome = fault.status
    else:
        stored = dict(found.declared) | {"tags": ",".join(found.tags)}
        outcome = str(found.matches(entry_of("/a.md", stored, b"", NOON)))
    assert outcome in ("bad-request", "True", "False")
