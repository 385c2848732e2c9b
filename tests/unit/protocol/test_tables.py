"""The markdown of answers: listings with their caps, histories, LOOKUP tables, and a client reading them back."""

from urllib.parse import unquote_to_bytes

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.limits import LIST_BYTES_MAX, LIST_PAGE_MAX
from app.protocol.tables import (
    LookupRow,
    escape,
    listing_page,
    lookup_body,
    parse_listing,
    parse_lookup_body,
    parse_versions,
    percent,
    unescape,
    versions_body,
)

NOTE = b"\n*...truncated, too many entries*\n"


class Child(msgspec.Struct, frozen=True):
    name: str
    is_directory: bool = False


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain text-1.0+2 <b> & !{}", "plain text-1.0+2 <b> & !{}"),
        (r"\[]()*_`~#|", r"\\\[\]\(\)\*\_\`\~\#\|"),
        ("a_b\n", "a\\_b\n"),
    ],
)
def test_escape(text: str, escaped: str) -> None:
    assert escape(text) == escaped
    assert unescape(escaped) == text


def test_percent() -> None:
    everything = bytes(range(256)).decode("utf-8", "surrogateescape")
    kept = "$&+-.0123456789:=@ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"
    assert [char for char in everything if percent(char) == char] == list(kept)
    assert percent("a b/c,d;é\udcff") == "a%20b%2Fc%2Cd%3B%C3%A9%FF"
    assert unquote_to_bytes(percent(everything)) == bytes(range(256))


@pytest.mark.parametrize(
    ("path", "entries", "body"),
    [
        ("/logs", [Child("pump.md")], b"\n# Index of /logs/\n\n- [pump.md](pump.md)\n"),
        ("/", [], b"\n# Index of /\n\n"),
        ("/", [Child("a"), Child("b", True)], b"\n# Index of /\n\n- [a](a)\n- [b/](b/)\n"),
        ("/a_b", [Child("c_d (1).md")], b"\n# Index of /a_b/\n\n- [c\\_d \\(1\\).md](c_d%20%281%29.md)\n"),
        ("/\udcff", [Child("\udcfe é", True)], b"\n# Index of /\xff/\n\n- [\xfe \xc3\xa9/](%FE%20%C3%A9/)\n"),
    ],
)
def test_a_whole_listing(path: str, entries: list[Child], body: bytes) -> None:
    page = listing_page(path, entries, LIST_PAGE_MAX)
    assert page.body == body
    assert (page.entries, page.complete) == (len(entries), True)
    assert page.last == (entries[-1].name if entries else "")


def test_the_pages_of_a_listing() -> None:
    entries = [Child(f"{i}.md") for i in range(5)]
    page = listing_page("/logs", entries, 2)
    assert page.body == b"\n# Index of /logs/\n\n- [0.md](0.md)\n- [1.md](1.md)\n" + NOTE
    assert (page.entries, page.complete, page.last) == (2, False, "1.md")
    page = listing_page("/logs", entries, 5)
    assert (page.entries, page.complete, page.last) == (5, True, "4.md")
    assert listing_page("/logs", entries[:1], 1).complete


def test_the_cap_in_bytes_keeps_room_for_the_note() -> None:
    """The room is kept as long as entries follow, even if all of them would have fitted without the note."""
    entries = [Child(f"{i}.md") for i in range(5)]
    head, line = len(b"\n# Index of /logs/\n\n"), len(b"- [0.md](0.md)\n")
    fits_four = head + 4 * line + len(NOTE)
    assert listing_page(
        "/logs", entries, 9, bytes_max=fits_four
    ).complete  # the last one needs no note behind it
    page = listing_page("/logs", entries, 9, bytes_max=fits_four - 1)
    assert (page.entries, page.complete, page.last) == (3, False, "2.md")
    assert len(page.body) == head + 3 * line + len(NOTE)
    page = listing_page("/logs", entries, 9, bytes_max=1)
    assert (page.entries, page.complete, page.last) == (1, False, "0.md")


def test_the_largest_names_fill_a_page_to_the_cap() -> None:
    entries = [Child(f"{i:03}" + "\udcff" * 250) for i in range(LIST_PAGE_MAX + 10)]
    page = listing_page("/" + "(" * 4000, entries, LIST_PAGE_MAX)
    assert not page.complete
    assert page.entries == 1000
    entries = [Child(f"{i:04}" + "(" * 400) for i in range(LIST_PAGE_MAX)]
    page = listing_page("/", entries, LIST_PAGE_MAX)
    assert not page.complete
    assert LIST_BYTES_MAX - 2100 < len(page.body) <= LIST_BYTES_MAX


names = st.binary(min_size=1, max_size=12).map(
    lambda b: b.replace(b"/", b"\n").decode("utf-8", "surrogateescape")
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.builds(Child, names, st.booleans()), max_size=8),
    st.integers(1, 9),
    st.integers(1, 300),
)
def test_pages_join_to_the_whole_and_are_read_back(entries: list[Child], size: int, bytes_max: int) -> None:
    rest, read = list(entries), []
    while True:
        page = listing_page("/[x](y)/z", rest, size, bytes_max)
        assert page.entries <= size
        assert len(page.body) <= bytes_max or page.entries <= 1
        assert page.body.endswith(NOTE) is not page.complete
        read += parse_listing(page.body)
        if page.complete:
            break
        assert page.entries > 0
        rest = rest[page.entries :]
    assert read == [entry.name + "/" * entry.is_directory for entry in entries]


def test_a_history() -> None:
    body = b"""
# Version History: /logs/pump\\_1.md

- [v2](%2Flogs%2Fpump_1.md/v2) - 2026-10-05T09:30:00Z
- [v1](%2Flogs%2Fpump_1.md/v1) - 2026-10-05T08:00:00Z
"""
    versions = [(2, 1_791_192_600), (1, 1_791_187_200)]
    assert versions_body("/logs/pump_1.md", versions) == body
    assert parse_versions(body) == versions


def test_odd_lines_of_a_history_are_passed_over() -> None:
    assert parse_versions(
        b"- [v1](x/v1) - yesterday\n- [v0x](a) - 2026-10-05T08:00:00Z\n# a\n\n- [v3](\xff) - 1970-01-01T00:00:00Z"
    ) == [(3, 0)]


def test_a_heading_cannot_be_broken_by_the_query() -> None:
    body = lookup_body("a\n| b\r\nc", "/", [], "catalog")
    assert body.startswith(b'\n# Lookup matches for "a \\| b c" in /\n\n| Path |')


def test_the_query_of_a_task_is_cut_in_the_heading() -> None:
    body = lookup_body(" ".join(["word"] * 30), "/", [], "task")
    assert body.startswith(b'\n# Lookup matches for "%b\xe2\x80\xa6" in /\n' % (b"word " * 24))
    assert lookup_body("x" * 120, "/", [], "task").startswith(
        b'\n# Lookup matches for "%b" in' % (b"x" * 120)
    )


def test_a_path_that_is_not_utf8() -> None:
    row = LookupRow("/\udcff.md", "", 0.5, "t", (), "")
    assert b"| /\xff.md | 0.50 | t |  |\n" in lookup_body("q", "/", [row], "catalog")
    assert parse_lookup_body(lookup_body("q", "/", [row], "catalog")) == [row]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "|",
        "| a |",
        "x",
        "| a | b | c | d |",
        "| a | 0.5 | c | d",
        "| a | 0.5 | c | d | e | f |",
        "a | /p | 0.5 | c | d |",
        "| a \\| 0.5 | c | d |",
    ],
)
def test_odd_lines_of_a_table_are_passed_over(line: str) -> None:
    body = lookup_body("q", "/", [LookupRow("/a", "", 0.5, "t", ("x",), "")], "catalog")
    expected = parse_lookup_body(body)
    assert len(expected) == 1
    assert parse_lookup_body(body + line.encode() + b"\n") == expected


def test_what_holds_no_table_gives_no_rows() -> None:
    assert parse_lookup_body(b"") == []
    assert parse_lookup_body(b"| /a | 0.50 | t |  |\n") == []
    assert parse_lookup_body(b"\xff" * 10) == []


def test_long_odd_bodies_are_read_in_no_long_time() -> None:
    head = lookup_body("q", "/", [], "body")
    for noise in (b"\\" * 300_000, b"x" * 300_000, b"|" * 300_000, b"| " * 150_000, b"#" * 300_000):
        assert parse_lookup_body(head + noise) == []
    for noise in (b"- [" * 100_000, b"- [" + b"](" * 150_000):
        assert parse_listing(noise) == []


cells = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\n") | st.sampled_from("\\|#*_ "), max_size=20
)
rows = st.builds(
    LookupRow,
    path=st.binary(max_size=12)
    .map(lambda b: "/" + b.decode("utf-8", "surrogateescape"))
    .filter(lambda p: "\n" not in p and "\r" not in p),
    anchor=st.text(
        st.characters(codec="utf-8", exclude_characters="\r\n|") | st.sampled_from("-_#\\"), max_size=12
    ),
    importance=st.integers(0, 100).map(lambda n: n / 100),
    title=cells,
    tags=st.lists(cells.map(lambda t: t.replace(",", "").strip(" ")).filter(bool), max_size=4).map(tuple),
    snippet=cells,
)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=20), st.lists(rows, max_size=4))
def test_rows_are_read_back(query: str, table: list[LookupRow]) -> None:
    assert parse_lookup_body(lookup_body(query, "/a|b", table, "body")) == table
    bare = [msgspec.structs.replace(row, snippet="") for row in table]
    assert parse_lookup_body(lookup_body(query, "/a|b", bare, "catalog")) == bare
    labelled = [msgspec.structs.replace(row, match="partial") for row in table]
    assert parse_lookup_body(lookup_body(query, "/a|b", labelled, "task")) == labelled


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=80) | st.text(st.sampled_from("|\\# 0.5a\n"), max_size=60).map(str.encode))
def test_any_bytes_are_read(noise: bytes) -> None:
    for body in (noise, lookup_body("q", "/", [], "body") + noise):
        parse_lookup_body(body)
        parse_listing(body)
        parse_versions(body)
