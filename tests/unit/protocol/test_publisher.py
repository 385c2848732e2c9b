"""Publisher metadata: what is stored, each row of the table of faults, the default type, what comes back (wire §8)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.fault import Fault
from app.protocol.publisher import (
    CONTROL,
    RESERVED,
    join_tags,
    merged,
    publisher_metadata,
    readable,
    split_tags,
    with_default_type,
)


def message_of(metadata: dict[str, str]) -> str:
    with pytest.raises(Fault) as caught:
        publisher_metadata(metadata)
    assert caught.value.status == "bad-request"
    return caught.value.message


def test_control_keys_are_not_stored_and_all_others_are() -> None:
    steering = {"auth": "t", "expected-version": "1", "if-none-match": "e", "if-modified-since": "x"}
    assert set(steering) == CONTROL
    stored = {
        "agent": "a", "complete": "true", "cursor": "c", "filter": "f", "importance": "not a number", "limit": "1",
        "next-cursor": "n", "page-size": "1", "query": "q", "rel-part-of": "/x.md", "since": "s", "timestamp": "",
    }  # fmt: skip
    assert publisher_metadata(steering | stored) == stored


@pytest.mark.parametrize(
    ("tags", "stored"),
    [
        ("pump,site:north", "pump,site:north"),
        (" pump ,\u00a0, site:north,,", "pump,site:north"),
        ("a b, c", "a b,c"),
        ("", ""),
        (" , ", ""),
        ("a,a", "a,a"),
        ("\x1f", "\x1f"),
    ],
)
def test_tags_are_normalised(tags: str, stored: str) -> None:
    assert publisher_metadata({"tags": tags}) == {"tags": stored}
    assert join_tags(split_tags(tags)) == stored


@pytest.mark.parametrize("key", sorted(RESERVED))
def test_reserved_keys(key: str) -> None:
    assert message_of({key: ""}) == f'metadata key "{key}" is reserved'


def test_the_reserved_keys_are_those_of_the_contract() -> None:
    assert len(RESERVED) == 16
    assert not RESERVED & {"complete", "next-cursor", "type", "title", "tags", "retention", "agent"}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"": "x"}, 'metadata key "" contains invalid characters'),
        ({"Title": "x"}, 'metadata key "Title" contains invalid characters'),
        ({"a_b": "x"}, 'metadata key "a_b" contains invalid characters'),
        ({"a b": "x"}, 'metadata key "a b" contains invalid characters'),
        ({"é": "x"}, 'metadata key "é" contains invalid characters'),
        ({"a\n": "x"}, r'metadata key "a\n" contains invalid characters'),
        ({'"\udcff': "x"}, r'metadata key "\"\xff" contains invalid characters'),
        ({"\u0661": "x"}, 'metadata key "\u0661" contains invalid characters'),
        ({"a": "x\ny"}, 'metadata value for key "a" contains newlines'),
        ({"a": "x\r"}, 'metadata value for key "a" contains newlines'),
        ({"a": "\udcff"}, 'metadata value for key "a" contains newlines'),
        ({"tags": "a,\nb"}, 'metadata value for key "tags" contains newlines'),
        ({f"k{i}": "" for i in range(51)}, "too many metadata keys (max 50)"),
        ({"a": "x" * 1024}, "metadata too large (max 1024 bytes)"),
        ({"previous-hash": "x"}, 'invalid publisher metadata: key "previous-hash" is reserved by the store'),
        (
            {"retention": "0"},
            'invalid publisher metadata: key "retention" must be a positive integer, got "0"',
        ),
        ({"retention": ""}, 'invalid publisher metadata: key "retention" must be a positive integer, got ""'),
        (
            {"retention": '1"'},
            r'invalid publisher metadata: key "retention" must be a positive integer, got "1\""',
        ),
    ],
)
def test_faults(metadata: dict[str, str], message: str) -> None:
    assert message_of(metadata) == message
    assert message_of({**metadata, "zz": "fine"}) == message


@pytest.mark.parametrize(
    ("metadata", "start"),
    [
        ({"status": "a\nb"}, 'metadata key "status" is reserved'),
        ({"A": "a\nb"}, 'metadata key "A" contains'),
        ({"B": "", "a": "x\n"}, 'metadata key "B"'),  # keys in sorted order, whatever the request's
        ({"a": "x\n", "b_": ""}, 'metadata value for key "a"'),
        ({"retention": "x", "z": "\n"}, 'metadata value for key "z"'),
        ({"previous-hash": "x" * 2000}, "metadata too large"),
        ({f"k{i}": "x" * 100 for i in range(60)}, "too many"),
    ],
)
def test_the_order_of_checks(metadata: dict[str, str], start: str) -> None:
    assert message_of(metadata).startswith(start)
    assert message_of(dict(reversed(metadata.items()))).startswith(start)


def test_limits_to_the_byte() -> None:
    assert len(publisher_metadata({f"k{i}": "" for i in range(50)})) == 50
    assert publisher_metadata({"a": "é" * 511 + "x"})
    assert message_of({"a": "é" * 512}) == "metadata too large (max 1024 bytes)"
    assert publisher_metadata({"auth": "x" * 5000, "a": "b"}) == {"a": "b"}
    # Tags count as the store writes them, `[a, b]`: two bytes for the brackets and one more for each comma.
    assert publisher_metadata({"tags": "a," + "b" * 1015})
    assert message_of({"tags": "a," + "b" * 1016}) == "metadata too large (max 1024 bytes)"
    assert publisher_metadata({"tags": "a , " + "b" * 1015 + "," * 3000})


@pytest.mark.parametrize("value", ["1", "20", "+5", "007", "9223372036854775807"])
def test_retention(value: str) -> None:
    assert publisher_metadata({"retention": value}) == {"retention": value}


@pytest.mark.parametrize(
    "value", ["-1", "1.0", " 1", "1 ", "1e3", "0x1", "00", "+", "9223372036854775808", "٣", "9" * 900]
)
def test_no_retention(value: str) -> None:
    assert "must be a positive integer" in message_of({"retention": value})


@pytest.mark.parametrize(
    ("path", "metadata", "typed"),
    [
        ("/a.md", {}, {"type": "Document"}),
        ("/a/b.md", {"title": "t"}, {"title": "t", "type": "Document"}),
        ("/a.md", {"type": ""}, {"type": "Document"}),
        ("/a.md", {"type": "\u00a0 "}, {"type": "Document"}),
        ("/a.md", {"type": "Guide"}, {"type": "Guide"}),
        ("/index.md", {}, {}),
        ("/a/log.md", {"type": ""}, {"type": ""}),
        ("/a/Index.md", {}, {"type": "Document"}),
        ("/index.md/a.md", {}, {"type": "Document"}),
    ],
)
def test_the_default_type(path: str, metadata: dict[str, str], typed: dict[str, str]) -> None:
    before = dict(metadata)
    assert with_default_type(path, metadata) == typed
    assert metadata == before


def test_the_default_type_counts_against_the_limits() -> None:
    with pytest.raises(Fault, match="too many metadata keys"):
        with_default_type("/a.md", {f"k{i}": "" for i in range(50)})
    assert with_default_type("/a.md", {"a": "x" * 1011})
    with pytest.raises(Fault, match="metadata too large"):
        with_default_type("/a.md", {"a": "x" * 1012})


def test_append_overlays_the_base_and_forgets_its_retention() -> None:
    base = {"retention": "3", "title": "old", "tags": "a"}
    assert merged("/a.md", base, {"title": "new"}) == {"title": "new", "tags": "a", "type": "Document"}
    assert merged("/log.md", base, {"retention": "2", "tags": ""}) == {
        "title": "old",
        "tags": "",
        "retention": "2",
    }


@pytest.mark.parametrize(
    ("base", "added", "message"),
    [
        ({f"k{i}": "" for i in range(50)}, {}, "invalid publisher metadata: too many metadata keys (max 50)"),
        (
            {"a": "x" * 600},
            {"b": "x" * 600},
            "invalid publisher metadata: metadata too large (max 1024 bytes)",
        ),
        (
            {},
            {"retention": "x"},
            'invalid publisher metadata: key "retention" must be a positive integer, got "x"',
        ),
    ],
)
def test_append_checks_the_whole(base: dict[str, str], added: dict[str, str], message: str) -> None:
    with pytest.raises(Fault) as caught:
        merged("/a.md", base, added)
    assert (caught.value.status, caught.value.message) == ("bad-request", message)


def test_what_comes_back_of_an_edited_file() -> None:
    stored = {
        "title": "t", "retention": "3", "tags": "",
        "etag": "x", "status": "x", "auth": "x", "previous-hash": "x", "Bad": "x", "": "x", "lines": "a\nb", "raw": "\udcff",
    }  # fmt: skip
    assert readable(stored) == {"title": "t", "retention": "3", "tags": ""}
    assert readable({"retention": "none"}) == {}


keys = st.sampled_from(
    ["a", "b-1", "tags", "type", "retention", "auth", "status", "A", "", "previous-hash"]
) | st.text(max_size=5)
values = st.text(st.sampled_from("a1,, \n\udcffé\u00a0"), max_size=8)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(keys, values, max_size=5))
def test_what_is_accepted_comes_back_whole_and_is_accepted_again(metadata: dict[str, str]) -> None:
    try:
        stored = publisher_metadata(metadata)
    except Fault:
        stored = {}
    assert readable(stored) == stored
    assert publisher_metadata(stored) == stored
