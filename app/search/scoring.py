"""What a record is worth in task mode (task §9), exactly for one record and as a bound for all of them at once.

    p(t, R) = 1000 · share(t) · c / (c + 2 · L)     c = occurrences + weight / 10,   L = 1/4 + 3/4 · length / average
    share(t) = r(t) / Σ r                           r(t) = ln((N + 1) / (f(t) + 1)) + 1
    strength(R) = Σ p(t, R)

`Scale` holds what depends on the admitted documents together: shares and average. A `Sheet` holds the columns of one
segment, and from them sums a bound for every record: p with occurrences rounded up and the length rounded down to a
few classes, in units so large that the sum over all terms fits a byte. Sums of bytes are sums of long integers.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from math import ceil, log
from operator import mul
from typing import Final

from app.search.records import CLASS, TEXT, WEIGHTS, Column, Records
from app.search.texts import Texts

__all__ = ["IMPORTANCE", "Part", "Scale", "Sheet", "measured", "phrase_bonus", "rounded"]

IMPORTANCE: Final = 10.0
"""What importance 1 adds to a score."""

_TF: Final = (1 << CLASS) - 1
_COUNT: Final = [(byte & _TF) + WEIGHTS[min(byte >> CLASS, len(WEIGHTS) - 1)] / 10 for byte in range(256)]
"""c by a record's byte."""

_ANY: Final = bytes(min(byte, 1) for byte in range(256))
_HALF: Final = bytes(byte // 2 for byte in range(256))
_ALL: Final = bytes(255 * min(byte, 1) for byte in range(256))

# A record's byte and length in one byte: 5 classes by 6 occurrences, rounded up, by 8 lengths, rounded down.
_TIMES: Final = (0, 1, 2, 4, 8, _TF)
_LENGTHS: Final = (0, 8, 16, 32, 64, 128, 256, 512)
_COARSE: Final = bytes(
    8
    * (
        min(byte >> CLASS, len(WEIGHTS) - 1) * len(_TIMES)
        + next(i for i, most in enumerate(_TIMES) if byte & _TF <= most)
    )
    for byte in range(256)
)
_COARSE_MAX: Final = 170  # bounds that stay below are made once more in a smaller unit
_ROUGH: Final = bytes(min(max(bits - 3, 0), len(_LENGTHS) - 1) for bits in range(256))


def rounded(value: float) -> float:
    """A value as it is compared (task §9)."""
    return round(value, 6)


def phrase_bonus(byte: int) -> float:
    """What the whole query as a phrase adds, by a record's byte of it (task §9)."""
    if not byte:
        return 0
    return 2000 + 10 * (WEIGHTS[byte >> CLASS] or TEXT)


class Part:
    """A segment, and the documents of it that take part."""

    def __init__(self, records: Records, seen: bytes | None, texts: Texts) -> None:
        self.records = records
        self.seen = seen
        """For each document 1 if it takes part, else 0; None where all do."""
        self.texts = texts
        self.mask: int | None = None
        """The same by record, as bytes of ones or zeros."""
        self.documents = records.documents if seen is None else sum(seen)
        self.length, self.with_text = sum(records.totals), sum(records.texts)
        if seen is not None:
            self.mask = _number(records.spread(seen.translate(_ALL)))
            self.length = sum(map(mul, seen, records.totals))
            self.with_text = sum(map(mul, seen, records.texts))

    def masked(self, row: bytes) -> bytes:
        """A row without the records that take no part."""
        return row if self.mask is None else _bytes(_number(row) & self.mask, len(row))


def _number(row: bytes) -> int:
    return int.from_bytes(row, "little")


def _bytes(number: int, size: int) -> bytes:
    return number.to_bytes(size, "little")


class Scale:
    """What all records of an answer are measured by."""

    def __init__(self, parts: Sequence[Part], having: Sequence[int]) -> None:
        """`having`: how many documents have each term."""
        documents, texts = sum(part.documents for part in parts), sum(part.with_text for part in parts)
        rarities = [log((documents + 1) / (count + 1)) + 1 for count in having]
        whole = sum(rarities)
        self.shares = [1000 * rarity / whole for rarity in rarities]
        self.average = sum(part.length for part in parts) / texts if texts else 1.0
        self._room = 255 - len(having)  # each term is rounded up by less than a step
        self.unit = 1000 / self._room
        """What one step of a bound stands for."""
        self._cells = [
            count / (count + self.factor(length)) if count else 0.0
            for count in (times + weight / 10 for weight in WEIGHTS for times in _TIMES)
            for length in _LENGTHS
        ]

    def refine(self, highest: int) -> None:
        """Make the unit as small as can be, `highest` being the highest of all bounds so far."""
        self.unit *= highest / self._room

    def factor(self, length: int) -> float:
        """2 · L."""
        return 0.5 + 1.5 * length / self.average

    def bounds(self, term: int) -> bytes:
        """For a coarse byte, what a record can be worth by a term, in units, rounded up.

        In a refined unit some do not fit a byte; these are of coarse bytes that no record has.
        """
        share = self.shares[term] / self.unit
        rounded_up = map(ceil, map(mul, self._cells, repeat(share)))
        return bytes(map(min, rounded_up, repeat(255))).ljust(256, b"\0")


class Sheet:
    """What a segment has of the terms of a query, taken in one after the other, and of the query as a phrase."""

    def __init__(self, part: Part, phrase: Column | None) -> None:
        self.part = part
        self.size = part.records.size
        self.own: list[bytes] = []
        """By term, then record: what it has in fields of its own, as in a `Column`."""
        self.full: list[bytes] = []
        """The same, inherited fields too."""
        self.having: list[int] = []
        """By term, how many documents have it."""
        self._nothing = bytes(self.size)
        self.phrase, self.own_phrase = self._nothing, self._nothing
        if phrase is not None:
            self.phrase, self.own_phrase = part.masked(phrase.full), part.masked(phrase.own)
        self._seen = None if part.seen is None else _number(part.seen)
        self._terms = self._hits = self._documents = 0
        self._coarse: list[bytes] = []
        self._bounds: list[bytes] = []
        self._bound = 0

    def add(self, column: Column | None) -> None:
        """Take in the next term."""
        if column is None:
            self.own.append(self._nothing)
            self.full.append(self._nothing)
            self.having.append(0)
            return
        own, full = self.part.masked(column.own), self.part.masked(column.full)
        documents = _number(column.documents)
        if self._seen is not None:
            documents &= self._seen
        self.own.append(own)
        self.full.append(full)
        self.having.append(documents.bit_count())
        self._terms += _number(full.translate(_ANY))
        self._hits |= _number(own)
        self._documents += documents

    @property
    def terms(self) -> bytes:
        """By record, how many terms it matches."""
        return _bytes(self._terms, self.size)

    @property
    def by_document(self) -> bytes:
        """By document, how many terms its records match together."""
        return _bytes(self._documents, self.part.records.documents)

    @property
    def hits(self) -> int:
        """As a row and number: not zero where a record has any term in a field of its own, its count bits where its text
        has."""
        return self._hits

    @property
    def bound(self) -> int:
        """As a row and number: what the strength of each record cannot pass, in units of the scale."""
        return self._bound

    def sort(self) -> Iterator[None]:
        """Make the coarse rows that bounds are read from, a term at a time."""
        lengths = _number(self.part.records.sizes.translate(_ROUGH))
        for full in self.full:
            if full is self._nothing:
                self._coarse.append(full)
            else:
                self._coarse.append(_bytes(_number(full.translate(_COARSE)) + lengths, self.size))
                yield

    def measure(self, scale: Scale) -> Iterator[None]:
        """Sum the bounds, a term at a time."""
        self._bounds, self._bound = [], 0
        for term, coarse in enumerate(self._coarse):
            if coarse is self._nothing:
                self._bounds.append(coarse)
            else:
                self._bounds.append(coarse.translate(scale.bounds(term)))
                self._bound += _number(self._bounds[term])
                yield

    @property
    def highest(self) -> int:
        """The highest bound."""
        return max(set(_bytes(self._bound, self.size)), default=0)

    def halve(self, terms: Iterable[int]) -> None:
        """These terms count half in the bounds from now on."""
        for term in terms:
            if self.full[term] is not self._nothing:
                self._bound -= _number(self._bounds[term].translate(_HALF))

    def parts(self, record: int, scale: Scale) -> list[float]:
        """p for each term: together the strength of a record."""
        return self._parts(self.full, record, scale)

    def score(self, record: int, parts: Sequence[float]) -> float:
        """The score of a record whose p are these."""
        records = self.part.records
        importance = records.segment.importance(records.of[record])
        return sum(parts) + IMPORTANCE * importance + phrase_bonus(self.phrase[record])

    def own_strength(self, record: int, scale: Scale) -> float:
        """The strength of a record by fields of its own alone."""
        return sum(self._parts(self.own, record, scale))

    def _parts(self, rows: Sequence[bytes], record: int, scale: Scale) -> list[float]:
        factor, counts = scale.factor(self.part.records.lengths[record]), _COUNT
        return [
            share * count / (count + factor) if (count := counts[row[record]]) else 0.0
            for share, row in zip(scale.shares, rows, strict=True)
        ]


def measured(sheets: Sequence[Sheet], scale: Scale) -> Iterator[None]:
    """Make the bounds of all sheets, in the smallest unit in which the highest of them fits a byte."""
    for sheet in sheets:
        yield from sheet.sort()
        yield from sheet.measure(scale)
    highest = max((sheet.highest for sheet in sheets), default=0)
    if 0 < highest < _COARSE_MAX:
        scale.refine(highest)
        for sheet in sheets:
            yield from sheet.measure(scale)
