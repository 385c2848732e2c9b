"""A query taken apart: units, fillers, singular and plural, fallback, and where a text has a unit (task §5, §6)."""

import time
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.search.wording import (
    FILLERS,
    Kind,
    Unit,
    folded,
    in_a_row,
    occurrences,
    settle,
    times,
    variants,
    wording,
)


def units(query: str) -> list[str]:
    found = wording(query)
    return [f"{unit.kind}:{unit.text}" for unit in found.units] if found else []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Token 404 50MB maxIdleTime", ["word:token", "word:404", "word:50mb", "word:maxidletime"]),
        ("read-only x86\u2010 64\u2011bit", ["joined:read-only", "literal:x86\u2010", "joined:64\u2011bit"]),
        ("2026-05-01 a--b read-", ["joined:2026-05-01", "literal:a--b", "word:read"]),
        ("board's don’t", ["word:board", "word:don"]),
        ("net.core --log /etc/hosts v1.2 c++ k=v r_m #tag @me $HOME", None),
        ("(rotate), token! done... x: “yes”", ["word:rotate", "word:token", "word:done", "quoted:yes"]),
        ('say "second  card" and `a b`', ["word:say", "quoted:second card", "quoted:a b"]),
        ('an "unpaired mark', ["word:unpaired", "word:mark"]),
        ('foo"bar', ['literal:foo"bar']),
        ('"..." word', ["word:word"]),
        ("the a of", ["word:the", "word:of"]),
        ("the pump", ["word:pump"]),
        ('"the" pump', ["quoted:the", "word:pump"]),
        ("token tokens TOKEN", ["word:token"]),
        ("tokens token", ["word:tokens"]),
        ("boxe boxes box", ["word:boxe", "word:box"]),
        ('"ab" "ab" AB', ["quoted:ab", "word:ab"]),
        ("a b", []),
        ("*", []),
        ("?! .. \x1c", []),
        ("İSKELE ΟΔΟΣ", ["word:iskele", "word:οδοσ"]),
        ("日本 日", ["word:日本"]),
    ],
)
def test_units(query: str, expected: list[str] | None) -> None:
    if expected is None:
        expected = [f"literal:{word.lower()}" for word in query.split()]
    assert units(query) == expected


def test_fillers() -> None:
    assert len(FILLERS) == 81
    assert FILLERS.isdisjoint(
        [
            "no",
            "not",
            "off",
            "out",
            "over",
            "under",
            "up",
            "down",
            "before",
            "after",
            "between",
            "without",
            "all",
            "each",
            "only",
            "same",
            "about",
            "us",
        ]
    )


@pytest.mark.parametrize(
    ("query", "kind", "text", "technical"),
    [
        ("How to Rotate?", "joined", "how to rotate", False),
        ("token", "word", "token", False),
        ("(token).", "word", "token", False),
        ('"second cards".', "quoted", "second cards", False),
        ('"a.b"', "quoted", "a.b", True),
        ("read-only", "literal", "read-only", True),
        ("board's swap", "literal", "board's swap", True),
        ("--log  level", "literal", "--log level", True),
    ],
)
def test_phrase(query: str, kind: str, text: str, technical: bool) -> None:
    found = wording(query)
    assert found is not None
    assert (found.phrase.unit, found.phrase.technical) == (Unit(kind, text), technical)  # type: ignore[arg-type]


def settled(query: str, *held: str) -> tuple[list[str], int]:
    found = wording(query)
    assert found is not None
    terms, ignored = settle(found.units, lambda unit: unit.text in held)
    return [unit.text for unit in terms], ignored


def test_exact_units_that_nobody_has_become_words_in_place() -> None:
    assert settled("x1 read-only x2", "read-only") == (["x1", "read-only", "x2"], 0)
    assert settled("x1 read-only x2") == (["x1", "read", "only", "x2"], 0)
    assert settled("only read-only") == (["only", "read"], 0)
    assert settled("and/or") == (["and", "or"], 0)
    assert settled("and/or pump") == (["pump"], 0)
    assert settled('"to be" "the pump"') == (["pump"], 0)
    assert settled("c++ pump") == (["c++", "pump"], 0)


def test_the_ninth_exact_unit_becomes_words() -> None:
    exact = [f"a{number}.b{number}" for number in range(9)]
    assert settled(" ".join(exact), *exact) == ([*exact[:8], "a8", "b8"], 0)


def test_more_than_32_terms() -> None:
    words = [f"word{number}" for number in range(40)]
    assert settled(" ".join(words)) == (words[:32], 8)
    joined = " ".join(f"{one}-{other}" for one, other in zip(words[::2], words[1::2], strict=True))
    assert settled(joined) == (words[:32], 8)


@given(st.text(st.sampled_from("abeioushxzy"), min_size=1, max_size=9))
def test_variants_are_mutual_and_few(word: str) -> None:
    found = variants(word)
    assert found[0] == word
    assert len(found) == len(set(found)) <= 7
    assert all(word in variants(other) for other in found)


@pytest.mark.parametrize(
    ("kind", "wanted", "text", "times"),
    [
        ("word", "log", "log logs catalog", 1),
        ("word", "token", "token tokens", 2),
        ("joined", "read-only", "read-only read only read_only only read", 3),
        ("joined", "x-x", "x x x", 2),
        ("quoted", "read only", "read-only reads only", 1),
        ("literal", "v1.2", "v1.20 rev1.2 v1.2 (v1.2)", 2),
        ("literal", "core.rmem", "net.core.rmem_max", 0),
        ("literal", "rmem_max", "net.core.rmem_max", 1),
        ("literal", "--log", "--log-level a--log", 2),
        ("literal", ".a.", ".a.a. .a.", 3),
        ("quoted", "a: b", "a: b a: bc", 1),
    ],
)
def test_where_a_text_has_a_unit(kind: str, wanted: str, text: str, times: int) -> None:
    unit = Unit(kind, wanted)  # type: ignore[arg-type]
    found = list(occurrences(unit, text))
    assert len(found) == times
    assert all(0 <= start < end <= len(text) for start, end in found)


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("aB1 -_.'’\"“”`?/:\u2010é日\x1c\t"), max_size=40) | st.text(max_size=40))
def test_any_text_is_units_or_nothing(text: str) -> None:
    found = wording(text)
    if found is None:
        return
    assert found.units
    for unit in found.units:
        assert len(unit.text) > 1
        assert unit.tokens
        assert unit.text == folded(unit.text)
        assert list(occurrences(unit, folded(f"x {unit.text} x")))
    terms, ignored = settle(found.units, lambda _: False)
    assert 1 <= len(terms) <= 32
    assert ignored >= 0


@pytest.mark.parametrize("piece", ['"', "“", "`", "-", ".", "a ", "a-", "a.a ", "ab'", "(", "’a", "日"])
def test_the_longest_query_takes_no_long_time(piece: str) -> None:
    started = time.thread_time()
    found = wording(piece * 4096)
    if found is not None:
        settle(found.units, lambda _: False)
        list(occurrences(found.phrase.unit, "ab " * 20_000))
    assert time.thread_time() - started < 1


@given(st.text("ab.-_ ", min_size=1, max_size=6), st.text("ab.-_ ", max_size=40))
@settings(max_examples=300, deadline=None)
def test_occurrences_at_boundaries_are_those_of_a_plain_look_at_every_place(literal: str, text: str) -> None:
    unit = Unit("literal", literal)
    plain = [
        (at, at + len(literal))
        for at in range(len(text))
        if text.startswith(literal, at)
        and not (literal[0] in "ab_" and at and text[at - 1] in "ab_")
        and not (literal[-1] in "ab_" and text[at + len(literal) :][:1] in tuple("ab_"))
    ]
    assert list(occurrences(unit, text)) == plain
    assert times(unit, text, 3) == min(len(plain), 3)


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        ("a." * 1_500 + "a", "a." * 400_000),  # overlaps itself everywhere
        ("ab." * 1_000 + "a", "ab." * 300_000),  # and every occurrence ends within a word
        ("." * 3_000, "." * 800_000),
        ("a." * 1_000 + "b." * 500, ("a." * 1_000 + "b." * 499 + "a.") * 250),
    ],
)
def test_long_literals_in_periodic_texts_take_linear_time(literal: str, text: str) -> None:
    """Quadratic, each of these takes a minute."""
    assert times(Unit("literal", literal), text, 31) in (0, 31)


@pytest.mark.parametrize("times_a", [1_999, 500])
def test_long_rows_of_words_that_nearly_match_take_linear_time(times_a: int) -> None:
    """Compared at every place anew, these take a minute."""
    unit = Unit("quoted", " ".join(["a"] * 2_000))
    text = ("a " * times_a + "b ") * (300_000 // times_a)
    assert times(unit, text, 31) == 0
    assert list(occurrences(unit, text)) == []


_PLACES = st.lists(st.sets(st.sampled_from("abc"), min_size=1), min_size=1, max_size=5)


@given(_PLACES, st.lists(st.sampled_from("abcd"), max_size=30))
def test_rows_of_items_are_those_of_a_plain_look_at_every_place(
    choices: list[set[str]], met: list[str]
) -> None:
    plain = [
        at + len(choices) - 1
        for at in range(len(met) - len(choices) + 1)
        if all(item in choice for item, choice in zip(met[at:], choices, strict=False))
    ]
    assert list(in_a_row(choices, met)) == plain


@given(st.text("ab _.", max_size=200))
def test_tokens_are_counted_alike_however_a_text_is_cut(text: str) -> None:
    unit = Unit("joined", "a-b")
    with patch("app.search.tokens._PIECE", 7):
        assert times(unit, text, 1_000) == len(list(occurrences(unit, text)))


@pytest.mark.parametrize("kind", ["joined", "quoted"])
def test_counting_stops_where_more_does_not_matter(kind: Kind) -> None:
    unit = Unit(kind, "a-b" if kind == "joined" else "a b")
    assert times(unit, "a b " * 10, 31) == len(list(occurrences(unit, "a b " * 10))) == 10
    assert times(unit, "a b " * 10, 3) == 3
