"""Typo recovery against the table of all edits, and its bounds (task §10, §14)."""

import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.search.names import key
from app.search.recovery import CANDIDATES_MAX, _bits, distance, recover
from tests.unit.search.plain_task import _edits, _likeness

_words = st.text(st.sampled_from("abcd1é "), max_size=14)


def recovered(query: str, names: Sequence[str]) -> list[tuple[int, int]]:
    steps = recover(query, names)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: list[tuple[int, int]] = done.value
            return found


@settings(max_examples=300, deadline=None)
@given(_words.filter(bool), _words)
def test_distance(one: str, other: str) -> None:
    assert distance(_bits(one), len(one), other) == _edits(one, other)


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.sampled_from("abc1 "), min_size=4, max_size=12),
    st.lists(st.lists(st.text(st.sampled_from("abc1 "), min_size=1, max_size=14), max_size=3), max_size=4),
)
def test_ranks(query: str, documents: list[list[str]]) -> None:
    """Of every document the best rank of its names."""
    wanted = key(query)
    if len(wanted) < 4 or wanted.count(" ") >= 8:
        assert recovered(query, ["\n".join(map(key, names)) for names in documents]) == []
        return
    expected = []
    for number, names in enumerate(documents):
        ranks = [rank for name in names if (rank := _likeness(wanted, name)) is not None]
        expected += [(min(ranks), number)] if ranks else []
    assert recovered(query, ["\n".join(filter(None, map(key, names))) for names in documents]) == sorted(
        expected
    )


@pytest.mark.parametrize(
    ("query", "name", "rank"),
    [
        ("retention", "retention", 0),
        ("Retention?", "version retention", 4),
        ("reten", "retention", 1),
        ("etention", "retention", 11),
        ("retnetion", "retention", 11),
        ("logrotation", "log rotation", 11),
        ("logrotation", "the logs rotations", None),
        ("second crad", "the second card", 11),
        ("6308", "6309", None),
        ("logs1", "logs2", None),
        ("lgs", "logs", None),
        ("x" * 65, "x" * 65, None),
        ("a b c d e f g h i", "a b c d e f g h i", None),
        ("a b c d e f g h", "a b c d e f g h", 0),
    ],
)
def test_likeness(query: str, name: str, rank: int | None) -> None:
    assert recovered(query, [name]) == ([] if rank is None else [(rank, 0)])


def test_candidates_are_bounded_and_taken_in_path_order() -> None:
    def name(number: int) -> str:
        return "".join(chr(97 + number // 26**at % 26) for at in range(4)) + "zzzz"

    names = [name(number) for number in range(CANDIDATES_MAX + 200)]
    last = len(names) - 1
    assert (11, 50) in recovered(f"{names[50]}q", names)
    assert (11, last) not in recovered(f"{names[last]}q", names)
    assert (11, 0) in recovered(f"{names[last]}q", [names[last]])


@pytest.mark.parametrize("query", ["abcdefgh", "abcd efgh", "aaaa aaaa aaaa aaaa aaaa aaaa aaaa aaaa"])
def test_a_large_vocabulary_takes_no_long_time(query: str) -> None:
    names = [
        "\n".join(f"w{number}x{at} word{number * 7 + at}" for at in range(5)) for number in range(20_000)
    ]
    started = time.thread_time()
    recovered(query, names)
    assert time.thread_time() - started < 2
