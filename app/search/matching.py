"""Body mode on one segment: which sections and documents have every term, and the best of them (lookup §8.3, §8.4).

The work is set by the shortest posting list. Its sections are looked for in the next longer one by `bisect`, or in a
dictionary of it if that is not much longer, and so on, which gives the level of each term on the way; only what is
left is scored. One term needs no scoring at all:
levels are values rounded, so `bytes.find` from the highest level down finds the best of a list without a look at the
rest. Everything a caller may not read is skipped before it can take a place or be counted.

Nothing here knows of other segments: `Term` says what a term has here, `best` gives the best rows here by scores that
are comparable everywhere.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import nlargest
from itertools import compress, repeat
from operator import add, and_, itemgetter
from typing import Final, NamedTuple, TypeVar

from app.search.postings import Lists, Postings
from app.search.ranking import FIELD_BIT, VALUES
from app.search.segment import Segment

__all__ = ["BARE", "Hit", "Sight", "Spread", "Term", "View", "best", "look_up"]

BARE: Final = -1
"""In place of a section: the document itself."""

_PROBE: Final = 10  # a list so many times longer is searched by `bisect`, a shorter one through a set
_FEW: Final = 500  # a list so short is looked at whole to learn its levels
_FREQUENT: Final = 24  # a term that one in so many sections has is spread out over all sections
_ONCE_MAX: Final = 512  # terms whose first asking is remembered
_SPREAD_MAX: Final = 64  # terms of a segment that are kept spread out, one byte a section


_T = TypeVar("_T")

Hit = tuple[float, float, int, int]
"""A row in the making, in the order of the answer: score and importance, both negative, then the numbers of document and
section in the segment; the section may be `BARE`."""


class Sight(NamedTuple):
    """Which documents and which sections take part in a query; None where all do."""

    documents: Callable[[int], int] | None
    sections: Callable[[int], int] | None


class View:
    """What a caller sees of a segment: the documents that are still there and that the caller may read."""

    __slots__ = ("counts", "documents", "mask", "sections", "whole")

    def __init__(self, segment: Segment, documents: Iterable[bool]) -> None:
        self.documents = bytearray(documents)
        """One for each document that is seen, else zero."""
        self.whole = all(self.documents)
        """Whether all are."""
        self.mask: bytearray | None = None
        """The same by section; None while every section is seen."""
        self.sections = segment.sections
        """How many are seen."""
        self.counts: dict[int, int] = {}
        """How many seen sections have a term, by the term's number, as far as that was asked."""
        for document, seen in enumerate(self.documents):
            if not seen:
                self._hide(segment, document)

    def sight(self) -> "Sight":
        """Who takes part: all that is seen."""
        documents = None if self.whole else self.documents.__getitem__
        return Sight(documents, None if self.mask is None else self.mask.__getitem__)

    def hide(self, segment: Segment, document: int) -> None:
        """The document is gone."""
        if self.documents[document]:
            self.documents[document] = 0
            self.whole = False
            self.counts.clear()
            self._hide(segment, document)

    def _hide(self, segment: Segment, document: int) -> None:
        begin, end = segment.first[document], segment.first[document + 1]
        if begin < end:
            if self.mask is None:
                self.mask = bytearray(b"\1") * segment.sections
            self.mask[begin:end] = bytes(end - begin)
            self.sections -= end - begin


class Spread:
    """Frequent terms of a segment spread out: the level of every section, 0 where the term is not.

    Made when a term is looked for in other terms' sections for the second time in a while: it takes as long as looking
    once, and most terms are asked for once. A segment never changes, so neither does this.
    """

    __slots__ = ("_kept", "_once", "_sections")

    def __init__(self, sections: int) -> None:
        self._sections = sections
        self._kept: dict[int, bytes] = {}
        self._once: dict[int, None] = {}

    def get(self, term: "Term", worth: bool) -> bytes | None:
        """The levels of a term. None if it is not frequent or new, or if they are not there and not `worth` making."""
        number = term.number
        levels = self._kept.pop(number, None)
        if levels is None:
            if not worth or number < 0 or term.size * _FREQUENT < self._sections:
                return None
            if number not in self._once:
                _noted(self._once, number, None, _ONCE_MAX)
                return None
            del self._once[number]
            levels = term.spread(self._sections)
        _noted(self._kept, number, levels, _SPREAD_MAX)
        return levels


def _noted(kept: dict[int, _T], number: int, value: _T, most: int) -> None:
    """Keep a value as the latest, at the cost of the one that was asked for longest ago."""
    if len(kept) >= most:
        del kept[next(iter(kept))]
    kept[number] = value


class Term(NamedTuple):
    """What a segment has of a term."""

    number: int
    """Of the term in the segment; -1 if several tokens satisfy it."""
    counted: "array[int]"
    """Sections whose own text or heading has it: what makes a term frequent."""
    sections: "array[int]"
    """The same, ascending; if several tokens satisfy it also those that have one of them from above."""
    levels: bytes
    """Their levels."""
    starts: "array[int]"
    """First sections of the runs that have it from above."""
    ends: "array[int]"
    """Last sections of these runs."""
    marks: bytes
    """The levels of these runs."""
    documents: "array[int]"
    """Documents whose title or tags have it."""
    bare: bytes
    """Their levels."""
    size: int
    """At most how many sections have it."""

    def count(self, view: View) -> int:
        """How many sections that are seen have it in their own text or heading."""
        mask = view.mask
        if mask is None:
            return len(self.counted)
        count = view.counts.get(self.number, -1)
        if count < 0 or self.number < 0:
            count = view.counts[self.number] = sum(map(mask.__getitem__, self.counted))
        return count

    def within(self, begin: int, end: int) -> "Term":
        """The same for sections from `begin` up to `end`, whole documents."""
        low, high = bisect_left(self.sections, begin), bisect_left(self.sections, end)
        first, last = bisect_left(self.starts, begin), bisect_left(self.starts, end)
        starts, ends = self.starts[first:last], self.ends[first:last]
        return self._replace(
            sections=self.sections[low:high],
            levels=self.levels[low:high],
            starts=starts,
            ends=ends,
            marks=self.marks[first:last],
            size=high - low + _covered(starts, ends),
        )

    def columns(self) -> tuple[Sequence[int], bytes]:
        """The sections that have it, those that have it from above alone at the end, and their levels."""
        if not self.starts:
            return self.sections, self.levels
        sections, levels = self.sections.tolist(), bytearray(self.levels)
        for run, mark in self.runs():
            rest = self.without(run)
            sections += rest
            levels += bytes((mark,)) * len(rest)
        return sections, bytes(levels)

    def runs(self) -> Iterable[tuple[range, int]]:
        """The runs that have it from above, and their levels."""
        return zip(map(range, self.starts, map((1).__add__, self.ends)), self.marks, strict=True)

    def without(self, run: range) -> Collection[int]:
        """The sections of a run that do not have it of their own."""
        low = bisect_left(self.sections, run.start)
        own = self.sections[low : bisect_left(self.sections, run.stop, low)]
        return set(run).difference(own) if own else run

    def above(self, section: int) -> int:
        """The level of the run a section is in, or 0."""
        at = bisect_right(self.starts, section) - 1
        return self.marks[at] if at >= 0 and self.ends[at] >= section else 0

    def spread(self, sections: int) -> bytes:
        """The level of each of so many sections."""
        levels = bytearray(sections)
        for run, mark in self.runs():
            levels[run.start : run.stop] = bytes((mark,)) * len(run)
        for section, level in zip(self.sections, self.levels, strict=True):
            levels[section] = level
        return bytes(levels)


def look_up(postings: Postings, tokens: Sequence[bytes]) -> Term | None:
    """What a segment has of a term that any of these tokens satisfies; None if nothing.

    Title and tags make a bare row by the first token alone, as the contract knows no other (lookup §7.8, `wide`).
    """
    number = postings.find(tokens[0])
    term = None if number < 0 else _stored(postings, number)
    others = [_stored(postings, other) for token in tokens[1:] if (other := postings.find(token)) >= 0]
    return _united(term, others) if others else term


def _stored(postings: Postings, number: int) -> Term:
    sections, levels = _list(postings.own, number)
    documents, bare = _list(postings.named, number)
    edges, marks = _list(postings.above, number)
    if not edges:
        return Term(number, sections, sections, levels, edges, edges, b"", documents, bare, len(sections))
    starts, ends = edges[0::2], edges[1::2]
    size = len(sections) + _covered(starts, ends)
    return Term(number, sections, sections, levels, starts, ends, marks[0::2], documents, bare, size)


def _list(lists: Lists, number: int) -> tuple["array[int]", bytes]:
    """Numbers and levels of a list, without what has no level: that is there for task mode alone."""
    count = lists.counts[number]
    if not count:
        return _NONE
    begin = lists.start(number)
    numbers, levels = lists.between(begin, begin + count), lists.levels[begin : begin + count].tobytes()
    if 0 in levels:
        numbers = array(numbers.typecode, compress(numbers, levels))
        levels = levels.replace(b"\0", b"")
    return numbers, levels


_NONE: Final = (array("H"), b"")


def _covered(starts: "array[int]", ends: "array[int]") -> int:
    """How many sections some runs cover."""
    return sum(ends) - sum(starts) + len(starts)


def _united(first: Term | None, others: Sequence[Term]) -> Term:
    """Several tokens as one term; only the first counts as title or tag of the document."""
    levels: dict[int, int] = {}
    for other in others:
        for section, level in zip(*other.columns(), strict=True):
            levels[section] = max(levels.get(section, 0), level & ~FIELD_BIT)
    for section, level in zip(*first.columns(), strict=True) if first else ():
        levels[section] = max(levels.get(section, 0), level & ~FIELD_BIT) | level & FIELD_BIT
    width = others[0].sections.typecode
    none = array(width)
    sections = sorted(levels)
    return Term(
        BARE,
        array(width, set().union(*(one.sections for one in (first, *others) if one))),
        array(width, sections),
        bytes(map(levels.__getitem__, sections)),
        none,
        none,
        b"",
        first.documents if first else none,
        first.bare if first else b"",
        len(sections),
    )


def best(
    segment: Segment,
    spread: Spread,
    terms: Sequence[Term],
    shares: Sequence[float],
    scope: tuple[int, int],
    limit: int,
    sight: Sight,
) -> list[Hit]:
    """The best rows of a segment, at most `limit`, in the order of the answer (lookup §8.4).

    `shares` weigh the terms; `scope` is a range of documents.
    """
    begin, end = segment.first[scope[0]], segment.first[scope[1]]
    inside = terms if end - begin == segment.sections else [term.within(begin, end) for term in terms]
    if len(terms) == 1:
        rows = _of_one(inside[0], limit, sight.sections)
    else:
        rows = _of_many(spread, terms, inside, shares, limit, sight.sections)
    find, importance = segment.document_of, segment.importance
    hits = [(-score, -importance(document := find(section)), document, section) for score, section in rows]
    if all(term.documents for term in terms):
        bare = _bare(terms, shares, scope, sight.documents)
        hits += [(-score, -importance(document), document, BARE) for score, document in bare]
    hits.sort()
    if len(hits) > limit:
        hits = hits[: bisect_right(hits, hits[limit - 1][:3], key=_without_section)]
    if len(set(map(_without_section, hits))) < len(hits):
        hits.sort(key=lambda hit: (*hit[:3], b"" if hit[3] == BARE else segment.anchor(hit[3]), hit[3]))
    return hits[:limit]


_without_section = itemgetter(0, 1, 2)

Rows = list[tuple[float, int]]
"""Scores, and sections or documents."""


def _bare(
    terms: Sequence[Term], shares: Sequence[float], scope: tuple[int, int], seen: Callable[[int], int] | None
) -> Rows:
    """Documents whose title and tags have every term."""
    levels = [dict(zip(term.documents, term.bare, strict=True)) for term in terms]
    return [
        (sum(share * VALUES[level[document]] for share, level in zip(shares, levels, strict=True)), document)
        for document in set(levels[0]).intersection(*levels[1:])
        if scope[0] <= document < scope[1] and (seen is None or seen(document))
    ]


def _of_one(term: Term, limit: int, seen: Callable[[int], int] | None) -> Rows:
    """The best sections of one term. Where title or tags have it the document is the row."""
    sections, levels = term.sections, term.levels
    rows: Rows = []
    runs: dict[int, list[range]] = {}
    for run, mark in term.runs():
        if mark < FIELD_BIT:
            runs.setdefault(mark, []).append(run)
    candidates = sorted({*levels, *runs}, reverse=True) if len(levels) < _FEW else range(FIELD_BIT - 1, 0, -1)
    for level in candidates:
        if level >= FIELD_BIT:
            continue
        found = []
        at = levels.find(level)
        while at >= 0:
            found.append(sections[at])
            at = levels.find(level, at + 1)
        for run in runs.get(level, ()):
            found += term.without(run)
        rows += zip(repeat(VALUES[level]), found if seen is None else filter(seen, found))
        if len(rows) >= limit:
            break
    return rows


def _of_many(
    spread: Spread,
    terms: Sequence[Term],
    inside: Sequence[Term],
    shares: Sequence[float],
    limit: int,
    seen: Callable[[int], int] | None,
) -> Rows:
    """The best sections that have all of several terms. Where title or tags have all, the document is the row.

    `inside` are the same terms within the scope.
    """
    order = sorted(range(len(terms)), key=[term.size for term in inside].__getitem__)
    sections, column = inside[order[0]].columns()
    columns = [column]
    for number in order[1:]:
        if not sections:
            return []
        column = _levels(terms[number], sections, spread)
        if 0 in column:
            columns = [bytes(compress(other, column)) for other in columns]
            sections = list(compress(sections, column))
            column = column.replace(b"\0", b"")
        columns.append(column)
    if seen is not None:
        columns, sections = _kept(columns, sections, list(map(seen, sections)))
    if all(term.documents for term in terms):
        fields: Iterable[int] = columns[0]
        for column in columns[1:]:
            fields = map(and_, fields, column)
        columns, sections = _kept(columns, sections, [level < FIELD_BIT for level in fields])
    scores = _scores(columns, [shares[number] for number in order])
    if len(scores) <= limit:
        return list(zip(scores, sections, strict=True))
    least = sorted(scores)[-limit] if len(scores) < _FEW else nlargest(limit, scores)[-1]
    return [(score, section) for score, section in zip(scores, sections, strict=True) if score >= least]


def _kept(
    columns: Sequence[bytes], sections: Sequence[int], kept: Sequence[int]
) -> tuple[list[bytes], Sequence[int]]:
    """The sections that are kept, and their levels."""
    return [bytes(compress(column, kept)) for column in columns], list(compress(sections, kept))


def _levels(term: Term, sections: Sequence[int], spread: Spread) -> bytes:
    """The level of a term in each of some sections, 0 where it is not."""
    near = len(term.sections) < _PROBE * len(sections)
    everywhere = spread.get(term, near)
    if everywhere is not None:
        if len(sections) > 1:
            return bytes(itemgetter(*sections)(everywhere))  # all in one call
        return bytes(map(everywhere.__getitem__, sections))
    own, levels, size = term.sections, term.levels, len(term.sections)
    if near:
        having = set(sections).intersection(own)
        found = [levels[bisect_left(own, section)] if section in having else 0 for section in sections]
    else:
        found = [
            levels[at] if (at := bisect_left(own, section)) < size and own[at] == section else 0
            for section in sections
        ]
    if term.starts and 0 in found:
        if term.size - size < _PROBE * len(sections):
            above = {section: mark for run, mark in term.runs() for section in run}.get
            found = [level or above(section, 0) for level, section in zip(found, sections, strict=True)]
        else:
            found = [level or term.above(section) for level, section in zip(found, sections, strict=True)]
    return bytes(found)


def _scores(columns: Sequence[bytes], shares: Sequence[float]) -> list[float]:
    """The weighted sums of the values that the levels stand for."""
    scores: Iterable[float] = repeat(0.0, len(columns[0]))
    for column, share in zip(columns, shares, strict=True):
        if len(column) < len(VALUES):
            scores = [score + share * VALUES[level] for score, level in zip(scores, column, strict=True)]
        else:
            shared = [share * value for value in VALUES]
            scores = map(add, scores, map(shared.__getitem__, column))
    return list(scores)
