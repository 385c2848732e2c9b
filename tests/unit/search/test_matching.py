"""Body mode on one segment: every way of looking for a term gives the same rows, and is taken where it is meant to be."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.search import matching
from app.search.catalog import Catalog
from app.search.entry import entry_of
from app.search.index import SectionIndex
from app.search.matching import BARE, Spread, Term, View, look_up
from app.search.query import Query, parse_query
from app.search.segment import Segment
from app.search.steps import done
from app.search.tokens import Recall
from tests.unit.search.plain import CALLERS, QUERIES, WORLDS, Caller, Plain, filled, found

NEVER, ALWAYS = 0, 10**9
RECALLS: list[Recall] = ["reference", "wide"]

WAYS: dict[str, dict[str, Any]] = {
    "one by one": {"_PROBE": NEVER},
    "spread out each time": {"_PROBE": ALWAYS, "_FREQUENT": NEVER},
    "spread out and kept": {"_PROBE": ALWAYS, "_FREQUENT": ALWAYS},
    "spread out and lost again": {"_PROBE": ALWAYS, "_FREQUENT": ALWAYS, "_SPREAD_MAX": 1},
    "a few sections at a time": {"_STEP": 2, "_FEW": 1},
}


def asked(text: str) -> Query:
    return parse_query("/", {"query": f"{text} ..", "limit": "1000", "match": "body"})


@pytest.mark.parametrize("way", WAYS)
@given(world=WORLDS, recall=st.sampled_from(RECALLS), one=QUERIES, other=QUERIES)
@settings(max_examples=25, deadline=None)
def test_every_way_gives_the_plain_rows(
    way: str, world: list[tuple[str, dict[str, str], bytes]], recall: Recall, one: str, other: str
) -> None:
    plain = Plain(recall)
    for version, (path, metadata, body) in enumerate(world, 1):
        plain.put(path, metadata, body, version)
    index = filled(plain.documents.values(), recall)
    with patch.multiple(matching, **WAYS[way]):
        for text in (one, f"{one} {other}", f"{one} {other} the"):
            for caller in CALLERS[:2]:
                query = asked(text)
                assert found(index.match(query, caller)) == plain.match(query, caller)


def indexed(*documents: tuple[str, str], recall: Recall = "wide") -> SectionIndex:
    """An index with a segment for each document."""
    index = SectionIndex(Catalog(), recall)
    for path, body in documents:
        index.put(index.extract(entry_of(path, {}, body.encode(), 0), body.encode(), 1))
    return index


def segment(body: str, recall: Recall = "wide") -> Segment:
    (held,) = indexed(("/a.md", body), recall=recall)._segments
    return held.segment


def term(where: Segment, text: str) -> Term:
    term = look_up(where.postings, [text.encode()])
    assert term is not None
    return term


def sections(**times: int) -> str:
    """A document in which so many sections have a word, each word in sections of its own."""
    return "\n\n".join(f"# Section\n\n{word}" for word, count in times.items() for _ in range(count))


@pytest.mark.parametrize("rare", range(1, 12))
def test_equal_sections_of_segments_with_other_frequencies_are_in_path_order(rare: int) -> None:
    """Sums of floats must not depend on what is rare in a segment."""
    found = "# Found\n\nanchor pump hull\n\n"
    index = indexed(
        ("/b.md", found + sections(anchor=rare + 9, pump=rare + 4, hull=rare)),
        ("/a.md", found + sections(anchor=rare, pump=rare + 5, hull=rare + 7)),
    )
    rows = index.match(asked("pump hull anchor"), Caller())
    assert [row.path for row in rows] == ["/a.md", "/b.md"]


def test_what_is_there_for_task_mode_alone_is_passed_over() -> None:
    """Under recall `reference` a part of a word is no token; the heading above still gives its section the term."""
    where = segment(
        "# Ship\n\n## Anchor\n\nx\n\n### Chain\n\nmax_anchor\n\n## Hull\n\nmax_anchor\n", "reference"
    )
    anchor = term(where, "anchor")
    assert list(anchor.sections) == [1, 2, 3]
    assert list(map(bool, anchor.levels)) == [True, False, False]
    assert anchor.count(View(where, [True])) == 1
    levels = anchor.spread(4)
    assert list(map(bool, levels)) == [False, True, True, False]
    assert done(anchor.columns()) == ([1, 2], bytes(levels[1:3]))


def test_frequent_terms_are_kept_spread_out() -> None:
    where = segment(sections(common=30, rare=1))
    spread = Spread(where.sections)
    common, rare = term(where, "common"), term(where, "rare")
    assert spread.row(common, 2) is None
    row = spread.row(common, 3)
    assert row is not None
    assert list(map(bool, row)) == [True] * 30 + [False]
    assert spread.row(common, 1) is row
    assert spread.row(rare, 1) is not spread.row(rare, 1)


def test_the_most_frequent_are_kept() -> None:
    where = segment(sections(one=20, two=30, three=25))
    spread = Spread(where.sections)
    one, two, three = (term(where, word) for word in ("one", "two", "three"))
    with patch.object(matching, "_SPREAD_MAX", 2):
        for asked_for in (one, two, three, one):
            assert spread.row(asked_for, 20) is not None
    assert spread.row(one, 1) is None
    assert spread.row(two, 1) is not None
    assert spread.row(three, 1) is not None


def test_what_several_tokens_satisfy_is_not_kept_since_it_has_no_number() -> None:
    index = indexed(("/a.md", "# Found\n\ncafe\u0301 anchor\n\n# Found\n\ncaf\u00e9 anchor\n\n"))
    (held,) = index._segments
    cafe = look_up(held.segment.postings, ["cafe\u0301".encode(), "caf\u00e9".encode()])
    assert cafe is not None
    assert cafe.number == BARE
    assert held.spread.row(cafe, 2) is not held.spread.row(cafe, 2)


@pytest.mark.parametrize("step", [1, 7, 29, 30, 31])
def test_equal_levels_are_all_found_however_many_at_a_time(step: int) -> None:
    index = indexed(("/a.md", sections(common=30, other=5)))
    with patch.object(matching, "_STEP", step):
        rows = index.match(asked("common"), Caller())
    assert sorted(row.section for row in rows) == list(range(30))


def test_a_term_is_spread_out_if_that_is_worth_it_for_all_steps_together() -> None:
    index = indexed(("/a.md", "# Found\n\nanchor pump\n\n" * 8 + sections(pump=30)))
    (held,) = index._segments
    with patch.multiple(matching, _STEP=2, _PROBE=5):
        assert len(index.match(asked("anchor pump"), Caller())) == 8
    assert held.spread.row(term(held.segment, "pump"), 0) is not None


def test_a_view_remembers_few_counts() -> None:
    where = segment("# A\n\none two three\n\n# B\n\none two\n\n# C\n\none\n")
    view = View(where, [False])
    with patch.object(matching, "_COUNTS_MAX", 2):
        assert [term(where, word).count(view) for word in ("one", "two", "three", "one")] == [0, 0, 0, 0]
    assert len(view.counts) == 2
