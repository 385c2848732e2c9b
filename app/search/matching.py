"""Body mode on one segment: which sections and documents have every term, and the best of them (lookup §8.3, §8.4).

The work is set by the shortest posting list. Its sections are looked for in the next longer one, and so on, which gives
the level of each term on the way; only what is left is scored. A list that is much longer is searched by `bisect`; any
other is spread out over all sections once, and then one call of `itemgetter` asks for a thousand of them. One term needs
no scoring at all: levels are values rounded, so `bytes.find` from the highest level down finds the best of a list without
a look at the rest. Everything a caller may not read is skipped before it can take a place or be counted.

Nothing here knows of other segments: `Term` says what a term has here, `best` gives the best rows here by scores that
are comparable everywhere. Work on more than some thousand sections goes in steps (`app.search.steps`).
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import compress, islice, repeat
from operator import add, and_, itemgetter
from typing import Final, NamedTuple

from app.search.postings import Lists, Postings
from app.search.ranking import FIELD_BIT, VALUES
from app.search.segment import Segment
from app.search.steps import Steps, done

__all__ = ["BARE", "Hit", "Sight", "Spread", "Term", "View", "best", "look_up"]

BARE: Final = -1
"""In place of a section: the document itself."""

_PROBE: Final = 14  # a list so many times longer is searched by `bisect`, a shorter one is spread out
_STEP: Final = 4_000  # sections between two pauses
_ROWS: Final = 2_000  # rows put in order between two pauses
_FEW: Final = 500  # a list so short is looked at whole to learn its levels
_TERMS: Final = 64  # terms between two pauses
_FREQUENT: Final = 24  # a term that fewer than one in so many sections have is not kept
_SPREAD_MAX: Final = 64  # terms of a segment that are kept spread out, one byte a section
_COUNTS_MAX: Final = 1_000  # terms of a view whose count is remembered


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
    """Terms of a segment spread out over its sections; the most frequent ones that were asked for are kept.

    They take longest to spread out and come up most. A segment never changes, so neither does this.
    """

    __slots__ = ("_kept", "_sections")

    def __init__(self, sections: int) -> None:
        self._sections = sections
        self._kept: dict[int, tuple[int, bytearray]] = {}

    def row(self, term: "Term", asked: int) -> bytearray | None:
        """The level of a term in every section; None if looking for so many sections one by one takes less."""
        kept = self._kept.get(term.number)
        if kept is not None:
            return kept[1]
        if term.size > _PROBE * asked:
            return None
        row = term.spread(self._sections)
        if term.number >= 0 and term.size * _FREQUENT >= self._sections:
            self._kept[term.number] = term.size, row
            if len(self._kept) > _SPREAD_MAX:
                del self._kept[min(self._kept, key=self._kept.__getitem__)]
        return row


class Term(NamedTuple):
    """What a segment has of a term."""

    number: int
    """Of the term in the segment; -1 if several tokens satisfy it."""
    sections: "array[int]"
    """Sections whose own text or own heading has it, ascending."""
    levels: bytes
    """Their levels; 0 where it is there for task mode alone."""
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
        """How many sections that are seen have it in their own text or heading: what makes a term frequent."""
        if view.mask is None:
            return len(self.levels) - self.levels.count(0)
        count = view.counts.get(self.number, -1)
        if count < 0 or self.number < 0:
            if len(view.counts) >= _COUNTS_MAX:
                view.counts.clear()
            count = view.counts[self.number] = sum(map(view.mask.__getitem__, self.own()))
        return count

    def own(self) -> Iterator[int]:
        """The sections that have it in their own text or heading."""
        return compress(self.sections, self.levels)

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

    def columns(self) -> Steps[tuple[list[int], bytes]]:
        """The sections that have it, those that have it from above alone at the end, and their levels."""
        sections, levels = self.sections.tolist(), self.levels
        if 0 in levels:
            sections, levels = list(compress(sections, levels)), levels.translate(None, b"\0")
        if not self.starts:
            return sections, levels
        more: list[int] = []
        marks = bytearray()
        for number, (run, mark) in enumerate(self.runs(), 1):
            rest = self.without(run)
            more += rest
            marks += bytes((mark,)) * len(rest)
            if number % _STEP == 0:
                yield
        return sections + more, levels + marks

    def runs(self) -> Iterable[tuple[range, int]]:
        """The runs that have it from above, and their levels."""
        return zip(map(range, self.starts, map((1).__add__, self.ends)), self.marks, strict=True)

    def without(self, run: range) -> Collection[int]:
        """The sections of a run that do not have it of their own."""
        low = bisect_left(self.sections, run.start)
        high = low + len(run)  # enough for all in the run; some behind it do no harm
        return set(run).difference(compress(self.sections[low:high], self.levels[low:high]))

    def above(self, section: int) -> int:
        """The level of the run a section is in, or 0."""
        at = bisect_right(self.starts, section) - 1
        return self.marks[at] if at >= 0 and self.ends[at] >= section else 0

    def spread(self, sections: int) -> bytearray:
        """The level of each of so many sections, 0 where it is not."""
        row = bytearray(sections)
        for section, level in zip(self.sections, self.levels, strict=True):
            row[section] = level
        for run, mark in self.runs():
            row[run.start : run.stop] = row[run.start : run.stop].replace(b"\0", bytes((mark,)))
        return row


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
    if 0 in bare:
        documents, bare = array(documents.typecode, compress(documents, bare)), bare.translate(None, b"\0")
    edges, marks = _list(postings.above, number)
    if not edges:
        return Term(number, sections, levels, edges, edges, b"", documents, bare, len(sections))
    starts, ends = edges[0::2], edges[1::2]
    size = len(sections) + _covered(starts, ends)
    return Term(number, sections, levels, starts, ends, marks[0::2], documents, bare, size)


def _list(lists: Lists, number: int) -> tuple["array[int]", bytes]:
    """Numbers and levels of a list."""
    count = lists.counts[number]
    if not count:
        return _NONE
    begin = lists.start(number)
    return lists.between(begin, begin + count), lists.levels[begin : begin + count].tobytes()


_NONE: Final = (array("H"), b"")


def _covered(starts: "array[int]", ends: "array[int]") -> int:
    """How many sections some runs cover."""
    return sum(ends) - sum(starts) + len(starts)


def _united(first: Term | None, others: Sequence[Term]) -> Term:
    """Several tokens as one term; only the first counts as title or tag of the document."""
    levels: dict[int, int] = {}
    for other in others:
        for section, level in zip(*done(other.columns()), strict=True):
            levels[section] = max(levels.get(section, 0), level & ~FIELD_BIT)
    for section, level in zip(*done(first.columns()), strict=True) if first else ():
        levels[section] = max(levels.get(section, 0), level & ~FIELD_BIT) | level & FIELD_BIT
    width = others[0].sections.typecode
    own = set().union(*(one.own() for one in (first, *others) if one))
    sections, rest = array(width, sorted(own)), array(width, sorted(levels.keys() - own))
    return Term(
        BARE,
        sections,
        bytes(map(levels.__getitem__, sections)),
        rest,
        rest,
        bytes(map(levels.__getitem__, rest)),
        first.documents if first else array(width),
        first.bare if first else b"",
        len(levels),
    )


def best(
    segment: Segment,
    spread: Spread,
    terms: Sequence[Term],
    shares: Sequence[float],
    scope: tuple[int, int],
    limit: int,
    sight: Sight,
) -> Steps[list[Hit]]:
    """The best rows of a segment, at most `limit`, in the order of the answer (lookup §8.4).

    `shares` weigh the terms; `scope` is a range of documents.
    """
    begin, end = segment.first[scope[0]], segment.first[scope[1]]
    inside = terms if end - begin == segment.sections else [term.within(begin, end) for term in terms]
    if len(terms) == 1:
        rows = yield from _of_one(inside[0], limit, sight.sections)
    else:
        rows = yield from _of_many(spread, terms, inside, shares, limit, sight.sections)
    find, importance = segment.document_of, segment.importance
    first: list[Hit] = []
    for begin in range(0, len(rows), _STEP):
        if begin:
            yield
        first += [
            (-score, -importance(document := find(section)), document, section)
            for score, section in rows[begin : begin + _STEP]
        ]
        first = _first(segment, first, limit)
    if all(term.documents for term in terms):
        bare = yield from _bare(terms, shares, scope, sight.documents)
        while some := list(islice(bare, _STEP)):
            first += [(-score, -importance(document), document, BARE) for score, document in some]
            first = _first(segment, first, limit)
            yield
    return first


def _first(segment: Segment, hits: list[Hit], limit: int) -> list[Hit]:
    """The first `limit` of some hits."""
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
) -> Steps[Iterator[tuple[float, int]]]:
    """Documents whose title and tags have every term."""
    levels = []
    for term in terms:
        levels.append(dict(zip(term.documents, term.bare, strict=True)))
        if len(levels[-1]) > _STEP:
            yield
    return (
        (sum(share * VALUES[level[document]] for share, level in zip(shares, levels, strict=True)), document)
        for document in set(levels[0]).intersection(*levels[1:])
        if scope[0] <= document < scope[1] and (seen is None or seen(document))
    )


def _of_one(term: Term, limit: int, seen: Callable[[int], int] | None) -> Steps[Rows]:
    """The best sections of one term. Where title or tags have it the document is the row."""
    sections, levels = term.sections, term.levels
    rows: Rows = []
    runs: dict[int, list[range]] = {}
    for run, mark in term.runs():
        if mark < FIELD_BIT:
            runs.setdefault(mark, []).append(run)
    candidates = (
        sorted({*levels, *runs} - {0}, reverse=True) if len(levels) < _FEW else range(FIELD_BIT - 1, 0, -1)
    )
    for level in candidates:
        if level >= FIELD_BIT:
            continue
        found: list[int] = []
        at = levels.find(level)
        while at >= 0 and len(found) < _STEP:
            found.append(sections[at])
            at = levels.find(level, at + 1)
        if at >= 0:  # so many that the others are found in less time all at once
            found += compress(sections[at:], levels[at:].translate(_only(level)))
        if level in runs:
            for number, run in enumerate(runs[level], 1):
                found += term.without(run)
                if number % _STEP == 0:
                    yield
        for begin in range(0, len(found), _STEP):
            if begin:
                yield
            some = found[begin : begin + _STEP]
            rows += zip(repeat(VALUES[level]), some if seen is None else filter(seen, some))
        if len(rows) >= limit:
            break
    return rows


def _only(level: int) -> bytes:
    """A table for `translate` that leaves nothing but this level."""
    return bytes(255 * (other == level) for other in range(256))


def _of_many(
    spread: Spread,
    terms: Sequence[Term],
    inside: Sequence[Term],
    shares: Sequence[float],
    limit: int,
    seen: Callable[[int], int] | None,
) -> Steps[Rows]:
    """The best sections that have all of several terms. Where title or tags have all, the document is the row.

    `inside` are the same terms within the scope.
    """
    order = sorted(range(len(terms)), key=[term.size for term in inside].__getitem__)
    sections, levels = yield from inside[order[0]].columns()
    rows: Rows = []
    spreads: list[bytearray | None] = [None] * len(terms)
    steps = range(0, len(sections), _STEP)
    for begin in steps:
        if begin:
            yield
        some = slice(begin, begin + _STEP)
        columns, left = [levels[some]], sections[some]
        for number in order[1:]:
            if not left:
                break
            if spreads[number] is None:
                spreads[number] = spread.row(terms[number], len(left) * len(steps))
            column = _levels(terms[number], left, spreads[number])
            if 0 in column:
                columns, left = _kept(columns, left, column)
                column = column.translate(None, b"\0")
            columns.append(column)
            if len(columns) % _TERMS == 0:
                yield
        else:
            # Sums of floats depend on their order: it is that of the query, whatever is rare in this segment.
            columns = [column for _, column in sorted(zip(order, columns, strict=True))]
            rows += _scored(columns, left, shares, limit, seen)
    return rows


def _scored(
    columns: Sequence[bytes],
    sections: Sequence[int],
    shares: Sequence[float],
    limit: int,
    seen: Callable[[int], int] | None,
) -> Rows:
    """The best of some sections that have all terms, these being given by their levels."""
    if seen is not None:
        columns, sections = _kept(columns, sections, list(map(seen, sections)))
    if not any(map(bytes.isascii, columns)):  # FIELD_BIT is what ASCII has not
        fields: Iterable[int] = columns[0]
        for column in columns[1:]:
            fields = map(and_, fields, column)
        columns, sections = _kept(columns, sections, [level < FIELD_BIT for level in fields])
    scores = _scores(columns, shares)
    if len(scores) <= limit:
        return list(zip(scores, sections, strict=True))
    least = sorted(scores)[-limit] if len(scores) < _FEW else nlargest(limit, scores)[-1]
    return [(score, section) for score, section in zip(scores, sections, strict=True) if score >= least]


def _kept(
    columns: Sequence[bytes], sections: Sequence[int], kept: Sequence[int]
) -> tuple[list[bytes], list[int]]:
    """The sections that are kept, and their levels."""
    return [bytes(compress(column, kept)) for column in columns], list(compress(sections, kept))


def _levels(term: Term, sections: Sequence[int], row: bytearray | None) -> bytes:
    """The level of a term in each of some sections, 0 where it is not; `row` is the term spread out, if it is."""
    if row is not None:
        return bytes(itemgetter(0, *sections)(row))[1:]  # of one section alone it would give no tuple
    own, levels, size = term.sections, term.levels, len(term.sections)
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
    scores = [0.0] * len(columns[0])
    for column, share in zip(columns, shares, strict=True):
        if len(column) < len(VALUES):
            scores = [score + share * VALUES[level] for score, level in zip(scores, column, strict=True)]
        else:
            shared = [share * value for value in VALUES]
            scores = list(map(add, scores, map(shared.__getitem__, column)))
    return scores
