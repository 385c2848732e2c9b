"""Headings, anchors, extents, and sections by anchor (lookup §7.1–§7.6)."""

import pytest
from hypothesis import given, settings

from app.markdown.outline import Heading, find, nearest, outline, section, slug
from app.protocol.runes import fold
from tests.unit.markdown.documents import BODIES


def anchors(body: str) -> list[str]:
    return [heading.anchor for heading in outline(body.encode())]


def atx(*texts: str) -> bytes:
    return "".join(f"## {text}\n\nbelow {number}\n\n" for number, text in enumerate(texts)).encode()


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["Notes", "Notes", "Notes-1"], ["notes", "notes-1", "notes-1-1"]),
        (["foo-1", "foo", "foo"], ["foo-1", "foo", "foo-2"]),
        (["a", "a", "a-1", "a", "a-1-1", "a-1"], ["a", "a-1", "a-1-1", "a-2", "a-1-1-1", "a-1-2"]),
        (["!!!", "!!!", "-1"], ["", "-1", "-1-1"]),
    ],
)
def test_generated_anchors_count_as_taken(texts: list[str], expected: list[str]) -> None:
    body = atx(*texts)
    assert [heading.anchor for heading in outline(body)] == expected
    for number, anchor in enumerate(expected):
        found = section(body, anchor)
        assert found is not None
        assert f"below {number}".encode() in found


@pytest.mark.parametrize(
    ("source", "anchor"),
    [
        ("## Heading with [link](https://x.com)", "heading-with-link"),
        ("# ヘディング", "ヘディング"),
        ("# A &amp; B", "a-amp-b"),
        ("# See <https://x.y>", "see-"),
        ("Deck\nplan\n====", "deckplan"),
        ("# 🗃️ File Cabinet", "-file-cabinet"),
        ("# I ♥ unicode", "i--unicode"),
        ("## Title {#custom}", "title-custom"),
        ("> # Quoted", "quoted"),
        ("- # In list", "in-list"),
        ("# a\u00a0b  c ##", "a-b--c"),
        ("# Semicolon insertion (ASI)", "semicolon-insertion-asi"),
        ("# !!!", ""),
    ],
)
def test_anchor_of_one_heading(source: str, anchor: str) -> None:
    assert anchors(source) == [anchor]
    assert section(source.encode(), anchor) == source.encode()
    assert "\ufe0f" not in anchor


def test_empty_headings_use_no_suffix() -> None:
    assert anchors("#\n\n# !!!\n\n##   \n\n# !!!\n\n# # #\n") == ["", "-1", "-2"]
    assert [heading.text for heading in outline(b"# #\n\n# a\n")] == ["a"]


def test_line_ends_change_no_anchor_and_no_section() -> None:
    lf = "# One\n\nfirst\n\nTwo\nlines\n-----\n\nsecond\n\n> # Three\n> third\n"
    crlf = lf.replace("\n", "\r\n")
    assert anchors(crlf) == anchors(lf)
    for anchor in anchors(lf):
        found = section(lf.encode(), anchor)
        assert found is not None
        assert section(crlf.encode(), anchor) == found.replace(b"\n", b"\r\n")


@pytest.mark.parametrize(
    "odd", [b"\0", b"\xff", b"\xed\xa0\x80", b"\xc3", b"\xf0\x9f", "\ufeff".encode(), b"\r", b"\xe2\x82"]
)
def test_odd_bytes_shift_no_section(odd: bytes) -> None:
    body = b"x" + odd + b"\n\n# A" + odd + b"b\n\n" + odd * 3 + b"\n# Next\n\nend" + odd
    heading, following = outline(body)
    assert body[heading.start : heading.own_start] == b"# A" + odd + b"b\n"
    assert body[heading.own_start : heading.own_end] == b"\n" + odd * 3 + b"\n"
    assert section(body, following.anchor) == b"# Next\n\nend" + odd


def test_a_byte_order_mark_hides_the_first_atx_heading() -> None:
    assert anchors("\ufeff# Title\n\n## Next\n") == ["next"]


def test_extents() -> None:
    body = b"intro\n# A\na\n## B\nb\n- # C\n  c\n\nD\nd\n---\nend"
    cut = [
        (heading.anchor, body[heading.start : heading.end], body[heading.own_start : heading.own_end])
        for heading in outline(body)
    ]
    assert cut == [
        ("a", b"# A\na\n## B\nb\n", b"a\n"),
        ("b", b"## B\nb\n", b"b\n"),
        ("c", b"- # C\n  c\n\nD\nd\n---\nend", b"  c\n\n"),
        ("dd", b"D\nd\n---\nend", b"d\n---\nend"),
    ]


def test_a_body_with_leaked_metadata_is_plain_markdown() -> None:
    """No frontmatter rule exists (lookup §7.1): the block is a rule and a heading of level two."""
    body = b"---\nsecret: 1\n---\n# T\n"
    assert [(heading.level, heading.text) for heading in outline(body)] == [(2, "secret: 1"), (1, "T")]
    assert section(body, "t") == b"# T\n"


@pytest.mark.parametrize(
    ("anchor", "found"),
    [
        ("  #STRASSE ", None),
        ("Straße", "straße"),
        ("STRAẞE", "straße"),
        ("οδος", "οδοσ"),
        ("#ΟΔΟΣ", "οδοσ"),
        ("What's below?", "whats-below"),
        ("# What's below?", None),
        ("", ""),
        (" # ", ""),
        ("nope", None),
    ],
)
def test_find(anchor: str, found: str | None) -> None:
    headings = outline("# Straße\n\n# ΟΔΟΣ\n\n# What's below?\n\n# !!!\n".encode())
    heading = find(headings, anchor)
    assert (None if heading is None else heading.anchor) == found


def test_of_equal_anchors_the_first_wins() -> None:
    headings = outline("# ς\n\n# σ\n".encode())
    assert [heading.anchor for heading in headings] == ["ς", "σ"]
    assert find(headings, "σ") is headings[0]


@pytest.mark.parametrize(
    ("wanted", "suggested"),
    [
        ("#instalation", ["installation", "installation-1"]),
        ("Install", ["installation", "installation-1", "install-from-source"]),
        ("from source", ["install-from-source"]),
        ("zzz", []),
        ("#", []),
    ],
)
def test_nearest(wanted: str, suggested: list[str]) -> None:
    headings = outline(b"# Installation\n\n# Install from source\n\n# Usage\n\n# Installation\n\n# !!!\n")
    assert nearest(headings, wanted) == suggested


def test_nearest_gives_at_most_the_limit() -> None:
    headings = outline(b"# step\n\n" * 2000)
    assert nearest(headings, "step") == ["step", "step-1", "step-2", "step-3", "step-4"]
    assert nearest(headings, "steps", 1) == ["step"]


def test_slug_of_separators() -> None:
    assert slug("a\x1cb\u0085c\u2028d\tE") == "ab-c-d-e"


@settings(max_examples=200, deadline=None)
@given(BODIES)
def test_headings_of_any_body(body: bytes) -> None:
    headings = outline(body)
    seen: list[Heading] = []
    for heading, after in zip(headings, [*(other.start for other in headings[1:]), len(body)], strict=False):
        assert heading.start < heading.own_start <= heading.own_end == after <= heading.end <= len(body)
        assert heading.start == 0 or body[heading.start - 1 : heading.start] == b"\n"
        assert body.count(b"\n", 0, heading.start) == heading.line - 1
        assert heading.anchor not in {other.anchor for other in seen}
        found = section(body, heading.anchor)
        first = next((other for other in seen if fold(other.anchor) == fold(heading.anchor)), heading)
        assert found == body[first.start : first.end]
        seen.append(heading)
    for heading in headings:
        inner = [other for other in headings if heading.start < other.start < heading.end]
        assert all(other.level > heading.level for other in inner)
        assert heading.end in {
            len(body),
            *(other.start for other in headings if other.level <= heading.level),
        }
