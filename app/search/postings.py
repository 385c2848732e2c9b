"""Posting lists of a segment, packed: a sorted term table and three lists for each term.

A posting is a number, a code and a level. The lists of a term ascend by number:

    own    sections whose own text or own heading has the term
    above  sections that have it from above, from a heading of their trail or from title or tags of the document, as
           runs that do not overlap: the first and the last section of each
    named  documents whose title, tags, aliases or description have it

The code is what task mode needs (bits below), the level what body mode ranks by (ranking.py); neither is looked into
here. Columns are flat and unpacked, 4 bytes a posting, because slicing, `bisect` and `bytes.find` on them run at the
speed of C, which decoding differences would not. Terms are UTF-8, each behind a line feed (no token holds one), in
blocks of 32 whose first terms are searched by `bisect`; a term's place in its block is a count of line feeds.

Everything is read from `memoryview`s of whatever buffer the segment stands in. Numbers are little-endian, as all
64-bit boards are. They are made by `app.search.packing`.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal

__all__ = [
    "ABOVE",
    "ALIAS",
    "BLOCK",
    "COLUMNS",
    "HEADING",
    "KINDS",
    "NAMED",
    "OWN",
    "SOURCE",
    "TAG",
    "TF",
    "TITLE",
    "Column",
    "Lists",
    "Place",
    "Postings",
    "Width",
    "counted",
]

# The code of a section's posting: how often the own text has the word as task mode counts (task §5.1), and flags.
TF: Final = 0x1F
HEADING: Final = 0x20  # the section's own heading has it
SOURCE: Final = 0x40  # a code span or code block of its own content has it
# The code of a document's posting: how often `description` has the word, and what else has it.
TITLE: Final = 0x20
TAG: Final = 0x40
ALIAS: Final = 0x80

BLOCK: Final = 32  # terms
OWN, ABOVE, NAMED = range(3)
KINDS: Final = 3
COLUMNS: Final = 2 + 5 * KINDS
"""How many columns a packed `Postings` is made of."""

Width = Literal["H", "I"]
"""The array type of section and document numbers: "H" where they fit 16 bits, else "I"."""


Column = bytes | bytearray | memoryview
"""A packed column."""


def counted(kind: int, width: Width) -> Width:
    """The array type of how many postings of a kind a term has: of runs there may be as many as sections, by twos."""
    return "I" if kind == ABOVE else width


class Lists:
    """One kind of list for all terms: how many postings each term has, and the columns they stand in."""

    __slots__ = ("bases", "codes", "counts", "levels", "numbers", "width")

    def __init__(self, views: Sequence[memoryview], width: Width, counts_width: Width) -> None:
        counts, bases, numbers, self.codes, self.levels = views
        self.width = width
        self.counts = counts.cast(counts_width)
        self.bases = bases.cast("I")
        self.numbers = numbers.cast(width)

    def start(self, term: int) -> int:
        """Where the postings of a term begin; of the number of terms, where all of them end."""
        return self.bases[term // BLOCK] + sum(self.counts[term - term % BLOCK : term])

    def span(self, term: int) -> tuple[int, int]:
        """Where the postings of a term begin and end."""
        begin = self.start(term)
        return begin, begin + self.counts[term]

    def between(self, begin: int, end: int) -> "array[int]":
        """The numbers of a range of postings."""
        return array(self.width, self.numbers[begin:end].tobytes())


class Postings:
    """A packed term table and its lists. Immutable."""

    __slots__ = ("_heads", "_heap", "_offsets", "above", "named", "own", "size", "width")

    def __init__(self, columns: Sequence[Column], width: Width) -> None:
        views = [memoryview(column) for column in columns]
        self._heap = views[0]
        self._offsets = views[1].cast("I")
        self._heads: list[bytes] = []
        self.width = width
        self.own, self.above, self.named = (
            Lists(views[2 + 5 * kind : 7 + 5 * kind], width, counted(kind, width)) for kind in range(KINDS)
        )
        self.size = len(self.own.counts)

    @property
    def kinds(self) -> tuple[Lists, Lists, Lists]:
        """The three kinds of list in the order of their columns."""
        return self.own, self.above, self.named

    @property
    def heads(self) -> list[bytes]:
        """The first term of each block; found once, then kept."""
        if not self._heads and self.size:
            heap = self._heap.tobytes()
            self._heads = [heap[at + 1 : heap.index(b"\n", at + 1)] for at in self._offsets[:-1]]
        return self._heads

    def find(self, term: bytes) -> int:
        """The number of a term, or -1."""
        block = bisect_right(self._heads or self.heads, term) - 1
        if block < 0:
            return -1
        text = self._heap[self._offsets[block] : self._offsets[block + 1] + 1].tobytes()
        at = text.find(b"\n%b\n" % term)
        return -1 if at < 0 else block * BLOCK + text.count(b"\n", 0, at)

    def terms(self, begin: int, end: int) -> list[bytes]:
        """The terms of a range of numbers, in order."""
        if begin >= end:
            return []
        first = begin // BLOCK
        text = self._heap[self._offsets[first] : self._offsets[-(-end // BLOCK)]].tobytes()
        return text.split(b"\n")[begin - first * BLOCK + 1 : end - first * BLOCK + 1]

    def weights(self) -> list[int]:
        """How many postings each block of terms has."""
        ends = [sum(bases) for bases in zip(*(lists.bases for lists in self.kinds), strict=True)]
        return [end - begin for begin, end in pairwise(ends)]

    def place(self, term: bytes | None) -> "Place":
        """Where a term stands, or would stand; None stands behind all."""
        at = self.size
        if term is not None:
            start = max(bisect_left(self.heads, term) - 1, 0) * BLOCK
            at = start + bisect_left(self.terms(start, min(start + BLOCK, self.size)), term)
        return at, self.own.start(at), self.above.start(at), self.named.start(at)


Place = tuple[int, int, int, int]
"""How many terms are smaller, and how many postings of each kind these have."""
