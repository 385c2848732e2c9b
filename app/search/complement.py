"""The partial rows of an answer: one after the other, each for what it adds to those before (task §9).

Of all candidates the one with the greatest value is the next row; a term that a row before it matches counts half. A
value takes a look at every column, so it is computed only for records whose bound is above the best value found;
these stay known, and lose what becomes covered, so that a later step looks at few others.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from app.search.scoring import IMPORTANCE, Scale, Sheet, rounded
from app.search.steps import Steps

__all__ = ["MARGIN", "STEP", "Pool", "complement", "from_the_top"]

MARGIN: Final = 1e-5
"""More than rounding can add to a value."""

STEP: Final = 50
"""Records scored between two pauses."""

_KNOWN: Final = 2_000
"""Records that were scored looked at again between two pauses."""


class Pool(NamedTuple):
    """Records of a segment, each with the bound of its strength in units, 0 where a record is not in the pool."""

    number: int
    """Of the segment."""
    row: bytes
    bonus: float
    """What comes on top of the strength, at most."""


def from_the_top(pools: Iterable[Pool], unit: float) -> Iterator[tuple[float, int, int]]:
    """Segment and record of all in the pools by descending bound of their value, which comes first."""
    heap: list[tuple[float, int, list[int], Pool]] = []
    for number, pool in enumerate(pools):
        levels = sorted(set(pool.row).difference((0,)))
        if levels:
            heappush(heap, (-(pool.bonus + unit * levels[-1]), number, levels, pool))
    while heap:
        most, number, levels, pool = heappop(heap)
        level = levels.pop()
        at = pool.row.find(level)
        while at >= 0:
            yield -most, pool.number, at
            at = pool.row.find(level, at + 1)
        if levels:
            heappush(heap, (-(pool.bonus + unit * levels[-1]), number, levels, pool))


def complement(
    sheets: Sequence[Sheet], rows: Sequence[bytes], scale: Scale, limit: int
) -> Steps[list[tuple[int, int]]]:
    """Segment and record of the next rows, at most so many, chosen from those that are 255 in the rows of the sheets."""
    fields = {
        number: _Field(number, sheet, row)
        for number, (sheet, row) in enumerate(zip(sheets, rows, strict=True))
        if row.count(0) < len(row)
    }
    covered: set[int] = set()
    picked: list[tuple[int, int]] = []
    while len(picked) < limit:
        best = yield from _most_valuable(fields, scale)
        if best is None:
            break
        *_, number, record = best
        picked.append((number, record))
        fresh = [
            term for term, part in enumerate(fields[number].take(record)) if part and term not in covered
        ]
        covered.update(fresh)
        for field in fields.values():
            yield from field.cover(fresh)
            yield
    return picked


_Rank = tuple[float, bytes, int, int, int]
"""What orders partial rows: value (negative), path, place in the document; then where the record is: segment, number."""


def _most_valuable(fields: "dict[int, _Field]", scale: Scale) -> Steps[_Rank | None]:
    """The record that adds most: of those that are known, and of those whose bound is higher."""
    best: _Rank | None = None
    for field in fields.values():
        if field.known:
            rank = yield from field.best()
            best = rank if best is None else min(best, rank)
    pools = [Pool(number, field.bounds(), IMPORTANCE) for number, field in fields.items()]
    yield
    for step, (most, number, record) in enumerate(from_the_top(pools, scale.unit)):
        if best is not None and most < -best[0] - MARGIN:
            break
        field = fields[number]
        value = field.add(record, field.sheet.parts(record, scale))
        if best is None or -rounded(value) <= best[0]:
            rank = field.rank(record)
            best = rank if best is None else min(best, rank)
        if step % STEP == 0:
            yield
    return best


class _Known:
    """A record that has been scored."""

    __slots__ = ("parts", "value")

    def __init__(self, value: float, parts: list[float]) -> None:
        self.value = value
        """What it adds to the rows taken so far."""
        self.parts = parts


class _Field:
    """The candidates in a segment that are not taken yet; those that were worth a look are known."""

    def __init__(self, number: int, sheet: Sheet, row: bytes) -> None:
        self.sheet = sheet
        self.known: dict[int, _Known] = {}
        self._number = number
        self._others = bytearray(row)
        self._covered: list[int] = []

    def bounds(self) -> bytes:
        """What the value of each record that is not known cannot pass, in units of the scale."""
        others = int.from_bytes(self._others, "little")
        return (self.sheet.bound & others).to_bytes(self.sheet.size, "little")

    def add(self, record: int, parts: list[float]) -> float:
        """Get to know a record; its value, which is what covered terms leave of its score."""
        value = self.sheet.score(record, parts) - sum(map(parts.__getitem__, self._covered)) / 2
        self.known[record] = _Known(value, parts)
        self._others[record] = 0
        return value

    def take(self, record: int) -> list[float]:
        """The record is a row now; what it is worth by term."""
        return self.known.pop(record).parts

    def cover(self, terms: Sequence[int]) -> Steps[None]:
        """These terms count half from now on."""
        self._covered += terms
        self.sheet.halve(terms)
        for number, known in enumerate(self.known.values(), 1):
            known.value -= sum(map(known.parts.__getitem__, terms)) / 2
            if number % _KNOWN == 0:
                yield

    def best(self) -> Steps[_Rank]:
        """The first of the known records."""
        least = max(known.value for known in self.known.values()) - MARGIN
        best: _Rank | None = None
        for number, (record, known) in enumerate(self.known.items(), 1):
            if known.value >= least:
                rank = self.rank(record)
                best = rank if best is None else min(best, rank)
            if number % _KNOWN == 0:
                yield
        assert best is not None, "some are known"
        return best

    def rank(self, record: int) -> _Rank:
        """What orders a known record."""
        records = self.sheet.part.records
        document, place = records.place(record)
        path = records.segment.path_bytes(document)
        return -rounded(self.known[record].value), path, place, self._number, record
