"""The bytes of version files (store §3)."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol.limits import BODY_MAX
from app.world.errors import BadDocument, TooLarge
from app.world.versionfile import (
    FILE_MAX,
    Content,
    encode,
    fault_of,
    hash_of,
    is_whole,
    number_of,
    previous_hash_of,
    read,
)
from tests.unit.world.roots import PUMP_1, PUMP_2, PUMP_METADATA

BODY_1 = b"# Pump log\n\nStarted.\n"
BODY_2 = b"# Pump log\n\nStarted.\nStopped.\n"


def test_the_example_of_the_contract_to_the_byte() -> None:
    first = encode(1, "", PUMP_METADATA, BODY_1)
    second = encode(2, hash_of(first), PUMP_METADATA, BODY_2)
    assert (first, second) == (PUMP_1, PUMP_2)
    assert (len(first), len(second)) == (153, 249)
    assert (
        hashlib.sha256(first).hexdigest()
        == "285b49e14e520431dcef0e8a412ab0d0e0e0ed8bb941df74f9e828075374bbd5"
    )
    assert (
        hashlib.sha256(second).hexdigest()
        == "bb2edd604fd2a3cb6a3a115420936b96682d03f854cda2d060ec6fde9928e17c"
    )
    assert hash_of(BODY_1) == "sha256-69a61cb614f75e58b624f3c3e4c22c8d971ddfa825e9d0b1cf69b269472a14e4"
    assert hash_of(BODY_2) == "sha256-9f4c511f62107ef80f51b95c955455080c4b8bfb7c5ac601517159e20fd7939a"
    assert read(first) == Content(PUMP_METADATA, BODY_1)
    assert fault_of(first, 1) == fault_of(second, 2) == ""
    assert (previous_hash_of(first), previous_hash_of(second)) == ("", hash_of(first))


KEYS = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True).filter(
    lambda key: key not in {"version", "archived", "previous-hash", "tags", "retention"}
)
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12)


@given(st.dictionaries(KEYS, VALUES, max_size=6), st.binary(max_size=60), st.integers(1, 9))
def test_what_is_written_is_read_back(metadata: dict[str, str], body: bytes, number: int) -> None:
    data = encode(number, hash_of(b""), metadata, body)
    assert read(data) == Content(metadata, body)
    assert is_whole(data)


@given(st.binary(max_size=200) | st.binary(max_size=80).map(lambda rest: b"---\nversion: 1\n" + rest))
def test_no_bytes_upset_a_reader(data: bytes) -> None:
    content = read(data)
    assert data.endswith(content.body)
    "".join(content.metadata).encode()
    assert isinstance(fault_of(data, 1), str)
    assert isinstance(is_whole(data), bool)
    previous_hash_of(data)


@pytest.mark.parametrize(
    ("block", "metadata"),
    [
        (b"title: a: b", {"title": "a: b"}),
        (b" title : a\r", {"title": "a"}),
        (b"title: a\ntitle: b", {"title": "b"}),
        (b"meta.title: a", {"title": "a"}),
        (b"meta.tags: a, b ,,c", {"tags": "a,b,c"}),
        (b"tags: [a, b c, site:x]", {"tags": "a,b c,site:x"}),
        (b"tags: []", {"tags": ""}),
        (b"meta.version: 9\nmeta.archived: true\nmeta.previous-hash: x", {}),
        (b"unknown: a\nno separator\nkey:value", {}),
        (b"title:  two blanks", {"title": " two blanks"}),
        (b"title: \xff\ndescription: fine", {"description": "fine"}),
        ("title: Größe ☃".encode(), {"title": "Größe ☃"}),
    ],
)
def test_lenient_reading_of_the_block(block: bytes, metadata: dict[str, str]) -> None:
    assert read(b"---\nversion: 1\n" + block + b"\n---\nbody") == Content(metadata, b"body")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"plain\n",
        b"---\nversion: 1\n",
        b"---\nversion: 1\n---",
        b"----\na: b\n---\n",
        b" ---\n\n---\n",
        b"---\r\n\n---\n",
    ],
)
def test_without_a_closed_block_all_is_body(data: bytes) -> None:
    assert read(data) == Content({}, data)


def test_the_block_ends_at_the_first_fence() -> None:
    assert read(b"---\nversion: 1\n---\n---\ntitle: x\n---\n").body == b"---\ntitle: x\n---\n"


def test_the_legacy_archived_line() -> None:
    assert read(b"---\nversion: 1\narchived: true\n---\n").archived
    assert not read(b"---\nversion: 1\nmeta.archived: true\n---\n").archived


def test_keys_are_sorted_without_their_prefix() -> None:
    data = encode(1, "", {"zeta": "1", "title": "t", "alpha": "2", "tags": "b,a"}, b"")
    assert (
        data
        == b"---\nversion: 1\narchived: false\nmeta.alpha: 2\ntags: [b, a]\ntitle: t\nmeta.zeta: 1\n---\n"
    )


@pytest.mark.parametrize(
    "metadata", [{"a": "x\ny"}, {"a": "x\r"}, {"A": "x"}, {"": "x"}, {"version": "1"}, {"a": "\udc80"}]
)
def test_metadata_that_a_line_cannot_hold(metadata: dict[str, str]) -> None:
    with pytest.raises(BadDocument):
        encode(1, "", metadata, b"")


def test_the_size_limits() -> None:
    encode(1, "", {}, b"x" * BODY_MAX)
    with pytest.raises(TooLarge):
        encode(1, "", {}, b"x" * (BODY_MAX + 1))
    with pytest.raises(TooLarge):
        encode(1, "", {"a": "x" * (FILE_MAX - BODY_MAX)}, b"x" * BODY_MAX)


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (b"", False),
        (b"-", False),
        (b"---\nvers", False),
        (b"---\nversion: ", False),
        (b"---\nversion: 3\narchived: fa", False),
        (b"---\nversion: 3\narchived: false\n---", False),
        (b"\0" * 500, False),
        (PUMP_1, True),
        (b"---\nversion: 3\n---\n", True),
        (b"# Foreign text without a block\n", True),
        (b"---\ntitle: foreign front matter", True),
        (b"x", True),
    ],
)
def test_what_a_power_cut_leaves(data: bytes, whole: bool) -> None:
    assert is_whole(data) is whole


def test_every_cut_within_the_header_is_torn() -> None:
    header = PUMP_1.index(b"\n---\n") + 5
    assert [is_whole(PUMP_1[:length]) for length in range(header + 1)] == [False] * header + [True]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"version: 2", b"version: 02"),
        (b"version: 2", b"version: 3"),
        (b"archived: false", b"archived: no"),
        (b"previous-hash: sha256-28", b"previous-hash: sha256-2B"),
        (b"previous-hash: sha256-285b49e14e520431dcef0e8a412ab0d0e0e0ed8bb941df74f9e828075374bbd5\n", b""),
        (b"meta.agent", b"agent"),
        (b"meta.agent: bench-1\nmeta.importance: 0.8", b"meta.importance: 0.8\nmeta.agent: bench-1"),
        (b"meta.importance", b"meta.agent"),
        (b"[pump, site:north]", b"pump, site:north"),
        (b"[pump, site:north]", b"[pump,site:north]"),
        (b"title: Pump log", b"title:Pump log"),
        (b"title: Pump log", b"title: \xff"),
        (b"meta.agent", b"meta.aGent"),
        (b"title: Pump log", b"title: " + b"x" * 1024),
        (b"---\nversion", b"--\nversion"),
        (b"meta.agent: bench-1", b"meta.previous-hash: x"),
    ],
)
def test_the_strict_check_finds(old: bytes, new: bytes) -> None:
    assert old in PUMP_2
    assert fault_of(PUMP_2.replace(old, new, 1), 2) != ""


def test_the_strict_check_of_a_first_version() -> None:
    hashed = PUMP_1.replace(b"meta.agent", b"previous-hash: sha256-" + b"0" * 64 + b"\nmeta.agent")
    assert fault_of(hashed, 1) != ""
    assert fault_of(PUMP_1.replace(b"archived: false", b"archived: true"), 1) == ""
    assert fault_of(PUMP_1.replace(b"[pump, site:north]", b"[]"), 1) == ""


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("v1", 1),
        ("v01", 1),
        ("v12", 12),
        ("v2147483647", 2**31 - 1),
        ("v2147483648", 0),
        ("v0", 0),
        ("v", 0),
        ("v-1", 0),
        ("v1 ", 0),
        ("v١", 0),
        ("v²", 0),
        ("V1", 0),
        ("w1", 0),
        ("v1.torn", 0),
        ("", 0),
    ],
)
def test_names_of_version_files(name: str, number: int) -> None:
    assert number_of(name) == number
