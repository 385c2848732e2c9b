"""Snippets: form, choice of line, and the window around the hit (lookup §8.5)."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.markdown.snippet import best_line, from_start, snippet
from app.protocol.limits import SNIPPET_MAX
from app.protocol.runes import lower

LONG = "lorem ipsum dolor sit amet consetetur sadipscing elitr " * 8


@pytest.mark.parametrize(
    ("text", "terms", "found"),
    [
        ("", ["a"], ""),
        ("one\ntwo b\nthree b a", ["a", "b"], "three b a"),
        ("one b b\ntwo a", ["a", "b"], "one b b"),
        ("no\nhit", ["x"], "no"),
        ("first\nsecond", [], "first"),
    ],
)
def test_line(text: str, terms: list[str], found: str) -> None:
    assert snippet(text, terms) == found
    assert best_line(text, terms) == (found, lower(found))


def test_the_window_goes_around_a_late_hit() -> None:
    found = snippet(f"{LONG}the winch turns {LONG}", ["winch"])
    assert found.startswith("...")
    assert found.endswith("...")
    assert found.index("winch") in range(60, 110)
    assert SNIPPET_MAX - 2 * 24 <= len(found) <= SNIPPET_MAX
    assert f" {found[3:-3]} " in f"{LONG}the winch turns {LONG}"


def test_the_line_start_is_kept_while_it_shows_the_hit() -> None:
    line = f"The winch turns {LONG}"
    assert snippet(line, ["winch"]) == from_start(line) == line[: SNIPPET_MAX - 3] + "..."


def test_a_hit_at_the_end_leaves_no_dots_behind_it() -> None:
    found = snippet(f"{LONG} the winch", ["winch"])
    assert found.startswith("...")
    assert found.endswith(" the winch")


def test_the_window_shows_the_most_terms_and_the_earliest_of_equals() -> None:
    line = f"winch {LONG}{LONG}the pump and the winch {LONG}{LONG}pump winch {LONG}"
    assert "the pump and the winch" in snippet(line, ["winch", "pump"])


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("İstanbul", "istanbul"),
        ("İSTANBUL", "istanbul"),
        ("ΟΔΟΣ", "οδοσ"),
        ("STRAẞE", "straße"),
        ("\u212aelvin", "kelvin"),
    ],
)
@pytest.mark.parametrize("around", ["İ" * 300, "ΣİẞK" * 90, "xİ " * 120, "🚢" * 100], ids=len)
def test_letter_case_shifts_no_offset(text: str, term: str, around: str) -> None:
    found = snippet(f"{around} {text} {around}", [term])
    assert f" {text} " in found
    assert len(found.encode()) <= SNIPPET_MAX


def test_a_term_longer_than_the_window_shows_its_start() -> None:
    found = snippet(LONG + "abcdefgh" * 60, ["abcdefgh" * 60])
    assert "abcdefgh" * 5 in found


TEXTS = st.text("ab \n|`[]()İΣé€🚢", max_size=900)


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.lists(st.text("abiσé€🚢|", min_size=1, max_size=6), unique=True, max_size=4))
def test_form_of_any_snippet(text: str, terms: list[str]) -> None:
    found = snippet(text, terms)
    line, lowered = best_line(text, terms)
    assert len(found.encode()) <= SNIPPET_MAX
    assert "\n" not in found
    assert found.removeprefix("...").removesuffix("...") in line
    assert (found == line) == (len(line.encode()) <= SNIPPET_MAX)
    counts = [sum(term in other for term in terms) for other in lower(text).split("\n")]
    assert counts[lower(text).split("\n").index(lowered)] == max(counts)
    if max(counts):
        assert any(term in lower(found) for term in terms)


def test_a_line_of_a_megabyte_takes_a_moment() -> None:
    terms = ["a" * size for size in range(1, 33)]
    assert snippet("a" * 1_000_000, terms) == "a" * 237 + "..."


def test_thousands_of_terms_in_a_text_of_many_lines_take_no_long_time() -> None:
    """Looked for one by one in every line, these take minutes."""
    terms = [f"t{number}" for number in range(20_000)]
    started = time.thread_time()
    assert snippet("x y\n" * 100_000 + "t1 t2", terms) == "t1 t2"
    assert time.thread_time() - started < 5
