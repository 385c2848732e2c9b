"""Queries: terms, limits as Go reads integers, modes, and whatever else a client may send."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.fault import Fault
from app.search.query import Query, parse_query, task_query


def test_defaults() -> None:
    assert parse_query("/", {"query": "winch", "colour": "red"}) == Query(
        scope="/", text="winch", terms=("winch",)
    )


@pytest.mark.parametrize(
    ("text", "trimmed", "terms"),
    [
        ("  Winch  pump WINCH ", "Winch  pump WINCH", ("winch", "pump")),
        ("a\u3000b\u00a0a", "a\u3000b\u00a0a", ("a", "b")),
        ("a\x1cb", "a\x1cb", ("a\x1cb",)),
        ("ΛΟΓΟΣ λογοσ λογος", "ΛΟΓΟΣ λογοσ λογος", ("λογοσ", "λογος")),
        ("İstanbul", "İstanbul", ("istanbul",)),
        ("* winch.", "* winch.", ("*", "winch.")),
        ("**", "**", ("**",)),
    ],
)
def test_terms(text: str, trimmed: str, terms: tuple[str, ...]) -> None:
    query = parse_query("/", {"query": text})
    assert (query.text, query.terms, query.match_all) == (trimmed, terms, False)


def test_match_all() -> None:
    assert parse_query("/", {"query": "\t*\n"}).match_all


@pytest.mark.parametrize(("scope", "prefix"), [("/", "/"), ("/docs", "/docs/"), ("/docs/a b", "/docs/a b/")])
def test_prefix(scope: str, prefix: str) -> None:
    assert parse_query(scope, {"query": "*"}).prefix == prefix


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("", 10),
        ("1", 1),
        ("+1", 1),
        ("0" * 60_000 + "7", 7),
        ("999", 999),
        ("1000", 1000),
        ("9223372036854775807", 1000),
    ],
)
def test_limit(text: str, limit: int) -> None:
    assert parse_query("/", {"query": "*", "limit": text}).limit == limit


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "-0",
        "+0",
        "-1",
        "-9223372036854775808",
        "9223372036854775808",
        "9" * 60_000,
        "+",
        "-",
        "++1",
        "+-1",
        "1+",
        "0+1",
        "1 ",
        "1\n",
        "1_0",
        "1.",
        "0x1",
        "٣",
        "²",
        "1e1",
        "0" * 60_000,
    ],
)
def test_no_limit(text: str) -> None:
    with pytest.raises(Fault) as caught:
        parse_query("/", {"query": "*", "limit": text})
    assert (caught.value.status, caught.value.message) == ("bad-request", "invalid limit")


def test_terms_are_counted_before_anything_else_is_looked_at() -> None:
    words = " ".join(f"t{number}" for number in range(40))
    with pytest.raises(Fault, match="query has too many terms: 40 > 32"):
        parse_query("/", {"query": words, "limit": "x", "filter": "x", "match": "x"})


@pytest.mark.parametrize(
    ("match", "shown"), [("fuzzy", '"fuzzy"'), ('a"b', r'"a\"b"'), ("catalog ", '"catalog "')]
)
def test_unknown_mode(match: str, shown: str) -> None:
    with pytest.raises(Fault) as caught:
        parse_query("/", {"query": "*", "match": match})
    assert caught.value.message == f'match must be "catalog" or "body", got {shown}'


@pytest.mark.parametrize(
    ("metadata", "mode", "echo"),
    [
        ({}, "catalog", False),
        ({"match": ""}, "catalog", True),
        ({"match": "catalog"}, "catalog", True),
        ({"match": "body"}, "body", True),
    ],
)
def test_mode_and_echo(metadata: dict[str, str], mode: str, echo: bool) -> None:
    query = parse_query("/", {"query": "*"} | metadata)
    assert (query.mode, query.echo) == (mode, echo)


KEYS = st.sampled_from(["query", "limit", "filter", "match", "auth"])


@settings(deadline=None)
@given(st.dictionaries(KEYS, st.text() | st.sampled_from(["*", "ab", "7", "tag=x", "body"])))
def test_any_metadata_is_a_query_or_a_fault(metadata: dict[str, str]) -> None:
    try:
        query = parse_query("/", metadata)
    except Fault as fault:
        outcome = fault.status == "bad-request"
    else:
        outcome = 1 <= query.limit <= 1000 and len(query.terms) <= 32 and query.text == query.text.strip(" ")
    assert outcome


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"query": "x", "limit": "x", "filter": "x"}, "query must be at least 2 characters"),
        ({"query": "é" * 2049, "limit": "x", "filter": "x"}, "query must be at most 4096 bytes"),
        ({"query": "a b", "limit": "x", "filter": "x"}, "invalid limit"),
        ({"query": "a b", "filter": "x"}, 'invalid filter clause "x": must be key=value'),
        ({"query": "a b"}, "query has no word to look for"),
        ({"query": "*"}, "query has no word to look for"),
    ],
)
def test_checks_of_a_task_in_their_order(metadata: dict[str, str], message: str) -> None:
    with pytest.raises(Fault) as caught:
        parse_query("/", metadata | {"match": "task"}).require_terms()
    assert (caught.value.status, caught.value.message) == ("bad-request", message)
    with pytest.raises(Fault) as caught:
        task_query(metadata["query"], limit=metadata.get("limit", ""), filters=metadata.get("filter", ""))
    assert caught.value.message == message


def test_a_task_has_no_cap_of_words_and_five_rows() -> None:
    words = " ".join(f"t{number}" for number in range(40))
    query = parse_query("/d", {"query": words, "match": "task", "limit": "9", "filter": "tag=x"})
    assert (query.limit, query.mode, query.echo, query.filter.tags) == (5, "task", True, ("x",))
    assert task_query(words, "/d", document="/d/a.md").document == "/d/a.md"
