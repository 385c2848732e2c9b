"""Making posting lists: whatever is set aside on the way, and however often, the lists are the same."""

from array import array
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.search import packing
from app.search.packing import Builder
from app.search.pages import Pile
from app.search.postings import ABOVE, KINDS, NAMED, OWN, Postings, Width

Added = list[tuple[int, str]]
TERMS = st.text(st.sampled_from("ab\u00e9\u6f22\U0001f600\ud800"), min_size=1, max_size=3)
ADDED = st.lists(st.tuples(st.sampled_from((OWN, ABOVE, NAMED)), TERMS), max_size=60)
Plain = dict[bytes, list[list[tuple[int, int, int]]]]


def plain(added: Added) -> Plain:
    lists: Plain = defaultdict(lambda: [[] for _ in range(KINDS)])
    for number, (kind, term) in enumerate(added):
        lists[term.encode("utf-8", "surrogatepass")][kind].append((number, number % 251, number % 241))
    return lists


def built(added: Added, width: Width) -> Postings:
    builder = Builder(width)
    for number, (kind, term) in enumerate(added):
        builder.add(kind, [term], [number], bytes([number % 251]), bytes([number % 241]))
    return Postings([joined(column) for column in builder.columns()], width)


def joined(column: "Pile | array[int]") -> bytes:
    return b"".join(column.pieces()) if isinstance(column, Pile) else bytes(column)


def listed(postings: Postings) -> Plain:
    found: Plain = {}
    for number, term in enumerate(postings.terms(0, postings.size)):
        found[term] = []
        for lists in postings.kinds:
            begin, end = lists.span(number)
            codes, levels = lists.codes[begin:end], lists.levels[begin:end]
            found[term].append(list(zip(lists.between(begin, end), codes, levels, strict=True)))
    return found


@pytest.mark.parametrize("width", ["H", "I"])
@pytest.mark.parametrize("run", [1, 800, packing.RUN])
@pytest.mark.parametrize(("leaf", "chunk"), [(1, 1), (2, 7), (128, 8_000)])
def test_runs_do_not_show(
    width: Width, run: int, leaf: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "RUN", run)
    monkeypatch.setattr(packing, "_LEAF_TERMS", leaf)
    monkeypatch.setattr(packing, "_CHUNK", chunk)

    @given(ADDED)
    @settings(max_examples=20, deadline=None)
    def check(added: Added) -> None:
        assert listed(built(added, width)) == plain(added)

    check()


def test_what_was_set_aside_is_let_go_behind_the_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    piles: dict[int, Pile] = {}
    gone: list[tuple[int, int]] = []
    let_go = Pile.let_go

    def noted(pile: Pile, begin: int, end: int) -> None:
        piles[id(pile)] = pile
        gone.append((begin, end))
        let_go(pile, begin, end)

    monkeypatch.setattr(packing, "RUN", 400_000)
    monkeypatch.setattr(packing, "_CHUNK", 500)
    builder = Builder("H")
    for number in range(40):
        terms = [f"w{number * at % 7919}" for at in range(1, 500)]
        builder.add(OWN, terms, [number] * len(terms), bytes(len(terms)), bytes(len(terms)))
    monkeypatch.setattr(Pile, "let_go", noted)
    builder.columns()
    (pile,) = piles.values()
    runs = sorted({begin for begin, _ in gone})
    assert len(runs) > 2
    assert [max(end for begin, end in gone if begin == run) for run in runs] == [*runs[1:], pile.size]
    begins = [begin for begin, _ in gone]
    assert begins != sorted(begins)  # all at the same time, not one after the other
