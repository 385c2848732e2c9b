"""Two changes in one text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.agents.merging import LINES_MAX, Merged, merge

BASE = "one\ntwo\nthree\nfour\n"


@pytest.mark.parametrize(
    ("theirs", "ours", "joined", "conflicts"),
    [
        ("ONE\ntwo\nthree\nfour\n", "one\ntwo\nthree\nFOUR\n", "ONE\ntwo\nthree\nFOUR\n", 0),
        ("one\nthree\nfour\n", "one\ntwo\nthree\nfour\nfive\n", "one\nthree\nfour\nfive\n", 0),
        (
            "zero\none\ntwo\nthree\nfour\n",
            "one\ntwo\nthree\nfour\nfive\n",
            "zero\none\ntwo\nthree\nfour\nfive\n",
            0,
        ),
        ("one\n2\nthree\nfour\n", "one\n2\nthree\nfour\n", "one\n2\nthree\nfour\n", 0),
        (
            "one\n2\nthree\nfour\n",
            "one\nTWO\nthree\nfour",
            "one\n<<<<<<< current\n2\n=======\nTWO\n>>>>>>> yours\nthree\nfour",
            1,
        ),
        ("", "one\ntwo\nthree\n4\n", "<<<<<<< current\n=======\none\ntwo\nthree\n4\n>>>>>>> yours\n", 1),
    ],
)
def test_what_one_side_changed_is_taken_and_what_both_changed_is_shown(
    theirs: str, ours: str, joined: str, conflicts: int
) -> None:
    assert merge(BASE, theirs, ours) == Merged(joined, conflicts)


lines = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n", "\n"]), max_size=12).map("".join)


@settings(max_examples=200, deadline=None)
@given(lines, lines)
def test_a_side_that_changed_nothing_gives_way(base: str, changed: str) -> None:
    assert merge(base, base, changed) == Merged(changed, 0)
    assert merge(base, changed, base) == Merged(changed, 0)
    assert merge(base, changed, changed) == Merged(changed, 0)


@settings(max_examples=200, deadline=None)
@given(lines, lines, lines)
def test_no_line_of_either_change_is_lost(base: str, theirs: str, ours: str) -> None:
    joined = merge(base, theirs, ours)
    assert joined is not None
    kept = joined.text.splitlines()
    for side in (theirs, ours):
        new = set(side.splitlines()) - set(base.splitlines())
        assert new <= set(kept)
    assert (joined.conflicts > 0) == ("<<<<<<< current" in kept)


def test_very_long_texts_are_not_compared() -> None:
    assert merge("a\n" * (LINES_MAX + 1), "", "") is None
