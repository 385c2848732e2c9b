"""Markup stripping against the letter of lookup §7.8, written down a second time without any care for speed."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.markdown.strip import joined, own_text, strip, wide_words
from app.protocol.runes import WHITE
from tests.unit.markdown.documents import MARKDOWN, PIECES


def by_the_letter(line: str) -> str:
    line = line.strip(WHITE)
    if not line or line.startswith(("```", "~~~")) or re.fullmatch("=+|-+", line):
        return ""
    if re.fullmatch(r"\|[|:\-\t\n\f\r ]*", line):
        return ""
    if line.startswith(">"):
        line = re.sub(r"^(?:>[\t\n\f\r ]?)+", "", line)
    line = re.sub(r"^(?:[-*+]|[0-9]+[.)])[\t\n\f\r ]+(?:\[[ xX]\][\t\n\f\r ]+)?", "", line)
    if "](" in line:
        line = re.sub(r"!\[([^\]]*)\]\([^)]*\)", r"\1", line)
        line = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line)
    line = re.sub(r"</?[A-Za-z][^>]*>", "", line)
    line = re.sub(r"`|\*|~~", "", line).replace("|", " ")
    return " ".join(re.findall(f"[^{WHITE}]+", line))


PACKED = st.lists(st.sampled_from([piece for piece in PIECES if "\n" not in piece]), max_size=25).map("".join)
"""One line on which markup of every kind stands close."""


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(MARKDOWN, st.lists(PACKED, max_size=4).map("\n".join), st.text("[]()!<>/a*~`|- \t\x1c\xa0\n"))
)
def test_every_line_is_stripped_by_the_letter(text: str) -> None:
    lines, lost = strip(text)
    assert lines == [by_the_letter(line) for line in text.split("\n")]
    assert len(lost) == len(lines)
    assert own_text(text.encode()) == "\n".join(line for line in lines if line)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("- [\t] a", "[ ] a"),
        ("-\u00a0a", "- a"),
        ("\x1c a \x1c", "\x1c a \x1c"),
        ("> \u2003> a", "> a"),
        ("10) [X]\t[ ] a", "[ ] a"),
        ("٣. a", "٣. a"),
        ("[ ] a", "[ ] a"),
        ("> ---", "---"),
        ("![a](b)[c](d)![e](f", "ac![e](f"),
        ("[![a](b)](c)", "a"),
        ("[a [b](c) d](e)", "a [b d](e)"),
        ("](a) [b](c)", "](a) b"),
        ("Vec<Option<String>> x", "Vec> x"),
        ("a <b", "a <b"),
        ("</> </a> < a>", "</> < a>"),
        ("~*~ ~~~x~", "~~ ~x~"),
        ("a\v\f\rb", "a b"),
    ],
)
def test_line(line: str, text: str) -> None:
    assert own_text(line.encode()) == text == by_the_letter(line)


@pytest.mark.parametrize(
    ("line", "wide"),
    [
        ("plain words", ""),
        ("_important_ __init__ max_draft_m", "important init max draft m"),
        ("see net.max_wave!", "max wave"),
        ("___ a", ""),
        ("Vec<Widget> and Map<my_key>", "Widget my_key my key"),
        ("if (a <b && c> d)", "b && c"),
        ("<https://x.y/z> <m@n.o>", "https://x.y/z m@n.o"),
        ('[a](https://secret.example "The Title") b', '"The Title"'),
        ("[a](<my secret.md> 'T') ![b](secret.png (P))", "(P 'T'"),
        ("[a](  secret  )", ""),
        ('<img src="secret.png" alt="Red buoy">', 'img   alt="Red buoy"'),
        ("<a HREF='secret'>x</a> <a href=secret>", "a   /a a  "),
        ("[a](b_c) `d_e`", "d e"),
    ],
)
def test_wide(line: str, wide: str) -> None:
    assert wide_words(line.encode()).split() == wide.split()
    assert "secret" not in wide_words(line.encode())


def test_joined_leaves_out_dropped_lines() -> None:
    assert joined(["", "a", "", "b", ""]) == "a\nb"
    assert joined([]) == ""


def test_bad_utf_8_is_read_with_replacement_runes() -> None:
    assert own_text(b"a \xff b\n\n\xe2\x82") == "a \ufffd b\n\ufffd"
