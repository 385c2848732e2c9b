"""Text primitives against their definitions, over every code point (lookup §2)."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol.runes import WHITE, WORD, fields, fold, is_word, lower, separators, trim

RUNES = [chr(code) for code in range(0x110000)]


def test_white_space_is_the_set_of_the_contract() -> None:
    ranges = [(0x09, 0x0D), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)]
    ranges += [(0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)]
    assert set(WHITE) == {chr(code) for first, last in ranges for code in range(first, last + 1)}
    assert len(WHITE) == 25


def test_python_knows_the_same_white_space_and_four_separators() -> None:
    assert {rune for rune in RUNES if rune.isspace()} == {*WHITE, "\x1c", "\x1d", "\x1e", "\x1f"}


def test_word_characters_are_letters_numbers_and_underscore() -> None:
    expected = {rune for rune in RUNES if unicodedata.category(rune)[0] in "LN" or rune == "_"}
    assert {rune for rune in RUNES if is_word(rune)} == expected
    assert {rune for rune in RUNES if WORD.fullmatch(rune)} == expected


def test_lower_case_is_one_rune_for_one_rune() -> None:
    assert {rune for rune in RUNES if len(lower(rune)) != 1} == set()
    assert {rune for rune in RUNES if lower(rune) != rune.lower()} == {"\u0130"}


@pytest.mark.parametrize(
    ("text", "lowered"),
    [
        ("ΟΔΟΣ ΛΙΜΕΝΑΣ", "οδοσ λιμενασ"),
        ("\u0130SKELE", "iskele"),
        ("ẞ ß", "ß ß"),
        ("\u01c5", "\u01c6"),
        ("\u212a", "k"),
        ("MAX_Draft", "max_draft"),
    ],
)
def test_lower(text: str, lowered: str) -> None:
    assert lower(text) == lowered


@pytest.mark.parametrize("equal", ["σςΣ", "sSſ", "kK\u212a", "ßẞ", "åÅ\u212b"])
def test_fold_makes_equal(equal: str) -> None:
    assert len({fold(rune) for rune in equal}) == 1


@pytest.mark.parametrize(("one", "other"), [("ß", "ss"), ("\u0130", "i"), ("é", "e\u0301"), ("ﬁ", "fi")])
def test_fold_keeps_apart(one: str, other: str) -> None:
    assert fold(one) != fold(other)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("a\u00a0b\u0085c\u3000d", ["a", "b", "c", "d"]),
        (" a\x1cb\t\x1d ", ["a\x1cb", "\x1d"]),
        ("x\u200by \ufeffz", ["x\u200by", "\ufeffz"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_fields(text: str, cut: list[str]) -> None:
    assert fields(text) == cut


def test_trim() -> None:
    assert trim("\u2003 \x1f a\u00a0b\x1f\u3000\n") == "\x1f a\u00a0b\x1f"


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\x1c\x1f \u00a0\u0130Σς"))))
def test_properties(text: str) -> None:
    assert len(lower(text)) == len(text)
    assert lower(text) == "".join(lower(rune) for rune in text)
    assert fold(text) == "".join(fold(rune) for rune in text)
    assert fold(lower(text)) == fold(text) or "\u0130" in text
    assert trim(" ".join(fields(text))) == " ".join(fields(text))
    if not separators(text):
        assert (fields(text), trim(text)) == (text.split(), text.strip())
