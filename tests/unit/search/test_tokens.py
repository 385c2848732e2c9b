"""Counting the words of a text agrees with cutting its fields one by one, for any text."""

from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.protocol.runes import WORD, fields, lower
from app.search.tokens import Words, body_terms, tokens

PIECES = [
    "pump", "Pump", "a", "9", "_", "__", "max_wave", ".", "..", "...", "....", ",", "-", "(", ")", "’", "“", "é", "e\u0301", "İ", "Σ", "日",
    "本", "½", "\u200b", " ", "\n", "\t", "\x1c", "\x85", "\u00a0", "\x00", "x" * 33, "é" * 17, "\udcff", "🚢",
]  # fmt: skip
TEXTS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=20).map("".join), st.text(max_size=40))


@given(TEXTS)
@example("".join(map(chr, range(0x80, 0xC0))))  # more odd characters than are looked at one by one
@example("ab.cd " + "".join(map(chr, range(0x2000, 0x2030))) + " ef")  # and all of them signs
@example("ab....cd....ef ab....  ....cd")
@example("pump a.b " * 12_000)  # in pieces
@settings(max_examples=300, deadline=None)
def test_words_of_a_text_are_those_of_its_fields(text: str) -> None:
    counted = Words(text)
    assert counted.own == Counter(token for field in fields(text) for token in tokens(field))
    assert counted.order == [part for run in WORD.findall(lower(text)) for part in run.split("_") if part]
    assert all("_" not in piece and len(piece) > 1 for piece in counted.pieces)


def test_parts_of_underscored_words_are_kept_apart() -> None:
    counted = Words("max_wave.height max_wave __init__ a_b")
    assert counted.own == {"max_wave.height": 1, "max_wave": 2, "height": 1, "__init__": 1, "a_b": 1}
    assert counted.pieces == {"max": 2, "wave": 2, "init": 1}
    assert counted.length == 2 + 1 + 2 + 1 + 2


def test_composed_forms_are_kept_apart() -> None:
    counted = Words("cafe\u0301s cafe\u0301 naïve")
    assert counted.own == {"cafe\u0301s": 1, "cafe": 2, "naïve": 1}
    assert counted.composed == {"cafés": 1, "café": 1}


@given(TEXTS)
@settings(max_examples=200, deadline=None)
def test_wide_terms_are_the_contracts_first_and_alternatives_behind(text: str) -> None:
    narrow, wide = body_terms(text, "reference"), body_terms(text, "wide")
    assert [term[0] for term in wide] == [term[0] for term in narrow]
    assert all(len(term) == 1 for term in narrow)


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("cafe\u0301", (("cafe", "café"),)),
        ("cafe\u0301s", (("cafe\u0301s", "cafés"),)),
        ("cafe cafe\u0301", (("cafe", "café"),)),
        ("café", (("café",),)),
        ("e\u0301 pump", (("pump",),)),
    ],
)
def test_a_word_typed_decomposed_is_also_looked_for_composed(
    query: str, terms: tuple[tuple[str, ...], ...]
) -> None:
    assert body_terms(query, "wide") == terms


@given(st.text(max_size=12), st.text(max_size=12))
@settings(max_examples=100, deadline=None)
def test_a_term_finds_the_field_it_was_typed_as(before: str, after: str) -> None:
    """Both sides of a match are cut alike: a field of the text, typed, is a term that the text holds."""
    for field in fields(f"{before} {after}"):
        found = Words(f"{before} {after}").own
        for term, *_ in body_terms(field, "reference"):
            assert term in found
