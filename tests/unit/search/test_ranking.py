"""What the ranking promises, whatever the constants are (lookup §8.4 and the reasons beside the constants)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.search.ranking import (
    FIELD_BIT,
    VALUES,
    bare_level,
    is_journal,
    levels,
    shares,
    short_length,
    step,
    text_part,
    weight,
)

LENGTHS = st.integers(0, 300_000)
TIMES = st.integers(0, 31)
IMPORTANCES = st.floats(0, 1)


@given(TIMES, LENGTHS, IMPORTANCES, TIMES, LENGTHS, IMPORTANCES, st.booleans())
def test_a_heading_beats_any_text_whatever_the_importance(
    times: int, length: int, importance: float, few: int, other_length: int, other: float, journal: bool
) -> None:
    texts = levels(short_length(length), step(importance), journal)[0][times]
    heading = levels(short_length(other_length), step(other), False)[2][few]
    assert heading > texts


@given(LENGTHS, IMPORTANCES, IMPORTANCES, TIMES, st.integers(0, 3), st.booleans())
def test_with_equal_text_importance_never_lowers(
    length: int, one: float, other: float, times: int, where: int, journal: bool
) -> None:
    less, more = sorted((one, other))
    rows = [levels(short_length(length), step(importance), journal)[where] for importance in (less, more)]
    assert rows[0][times] <= rows[1][times]


@given(LENGTHS, IMPORTANCES, st.booleans())
def test_more_mentions_and_more_places_never_lower(length: int, importance: float, journal: bool) -> None:
    text, below, headed, both = levels(short_length(length), step(importance), journal)
    for row in (text[:32], below, headed, both):
        assert list(row) == sorted(row)
        assert 1 <= row[0] <= row[-1] < FIELD_BIT
    assert all(map(lambda *places: list(places) == sorted(places), text, below, headed, both))


@given(LENGTHS)
def test_a_length_is_rounded_by_an_eighth_at_most(length: int) -> None:
    assert length * 7 / 8 <= short_length(length) <= length
    assert short_length(short_length(length)) == short_length(length)


def test_a_journal_counts_less() -> None:
    for place in range(4):
        guide, diary = (levels(96, 7, journal)[place] for journal in (False, True))
        assert diary[10] < guide[10]
    assert bare_level(True, 7, True) < bare_level(True, 7, False)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/journal/a.md", True),
        ("/team/Journals/2026/a.md", True),
        ("/notes/2026-05-01.md", True),
        ("/notes/2026-05-01-standup.md", True),
        ("/journal.md", False),
        ("/guides/journaling.md", False),
        ("/guides/the-journal/a.md", False),
        ("/rfcs/2026-edition.md", False),
    ],
)
def test_journals_are_told_by_their_paths(path: str, expected: bool) -> None:
    assert is_journal(path) is expected


def test_a_bare_row_for_a_title_comes_before_text_and_one_for_a_tag_before_a_casual_mention() -> None:
    title, tag = bare_level(True, 7, False), bare_level(False, 7, False)
    text = levels(short_length(100), 7, False)[0]
    assert text[1] < tag < title
    assert text[31] < title


def test_values_rise_with_levels_and_field_words_are_worth_more() -> None:
    assert list(VALUES[:FIELD_BIT]) == sorted(VALUES[:FIELD_BIT])
    assert len(VALUES) == 2 * FIELD_BIT
    assert all(VALUES[FIELD_BIT + level] > VALUES[level] for level in range(FIELD_BIT))


def test_rare_words_weigh_more() -> None:
    weights = [weight(1000, having) for having in (0, 1, 10, 500, 1000)]
    assert weights == sorted(weights, reverse=True)
    assert weights[-1] > 0
    assert sum(shares(weights)) == pytest.approx(1)


def test_the_text_part_is_bm25() -> None:
    assert text_part(0, 50) == 0
    assert text_part(1, 100) == pytest.approx(1)  # one mention in a section of usual length
    assert text_part(31, 10_000) < text_part(3, 100)
