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
64-bit boards are. `pack` makes the lists of some documents, `merge` those of some segments, in steps. While lists
are made a posting is one integer, the number above the code above the level: it sorts and moves as one.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from heapq import merge as merge_sorted
from itertools import accumulate, chain, compress, islice, pairwise
from typing import Final, Literal, NamedTuple

__all__ = [
    "ABOVE",
    "ALIAS",
    "COLUMNS",
    "HEADING",
    "SOURCE",
    "TF",
    "Builder",
    "Column",
    "Lists",
    "Postings",
    "Source",
    "Width",
    "merge",
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
SLICE: Final = 8_000  # postings that a step of a merge handles, about; 3 ms on a desktop
OWN, ABOVE, NAMED = range(3)
KINDS: Final = 3
COLUMNS: Final = 2 + 5 * KINDS
"""How many columns a packed `Postings` is made of."""

RUN: Final = 2_000_000  # bytes that collected postings may take, at about 250 a term and 4 a posting
_CHUNK: Final = 16_000  # items for one call into C where a document may hold any number

Width = Literal["H", "I"]
"""The array type of section and document numbers: "H" where they fit 16 bits, else "I"."""


Column = bytes | bytearray | memoryview
"""A packed column."""


class Lists:
    """One kind of list for all terms: how many postings each term has, and the columns they stand in."""

    __slots__ = ("bases", "codes", "counts", "levels", "numbers", "width")

    def __init__(self, views: Sequence[memoryview], width: Width) -> None:
        counts, bases, numbers, self.codes, self.levels = views
        self.width = width
        self.counts = counts.cast(width)
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
        self.own, self.above, self.named = (Lists(views[at : at + 5], width) for at in range(2, COLUMNS, 5))
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


class Builder:
    """Collects postings by term, then packs them; takes numbers in ascending order.

    What has been collected is packed whenever it takes `RUN` bytes, and these runs are merged in the end: single-pass
    in-memory indexing (S. Heinz, J. Zobel, Efficient single-pass index construction for text databases, 2003). No call
    into C is long, whatever one document holds.
    """

    def __init__(self, width: Width) -> None:
        self._width = width
        self._runs: list[Postings] = []
        self._begin()

    def _begin(self) -> None:
        item = _item(self._width)
        self._lists: list[defaultdict[str, array[int]]] = [
            defaultdict(partial(array, item)) for _ in range(KINDS)
        ]
        self._postings = 0

    def add(
        self, kind: int, terms: Sequence[str], numbers: Sequence[int], codes: bytes, levels: bytes
    ) -> None:
        """Take in postings of a kind (`Postings.kinds`); the numbers of a term must ascend."""
        lists = self._lists[kind]
        for at in range(0, len(terms), _CHUNK):
            cut = slice(at, at + _CHUNK)
            rows = _rows(numbers[cut], codes[cut], levels[cut], self._width)
            deque(map(array.append, map(lists.__getitem__, terms[cut]), rows), maxlen=0)
        self._postings += len(terms)
        if 4 * self._postings + 250 * sum(map(len, self._lists)) > RUN:
            self._runs.append(Postings(self._packed(), self._width))
            self._begin()

    def columns(self) -> list[Column]:
        """The columns of a packed `Postings`. The builder is empty then."""
        columns = self._packed()
        if not self._runs:
            return columns
        runs = [*self._runs, Postings(columns, self._width)]
        self._runs.clear()
        merging = merge([Source(run, None, None) for run in runs], self._width, _CHUNK)
        while True:
            try:
                next(merging)
            except StopIteration as done:
                merged: list[Column] = done.value
                return merged

    def _packed(self) -> list[Column]:
        vocabulary = list(set().union(*self._lists))
        chunks = [sorted(vocabulary[at : at + _CHUNK]) for at in range(0, len(vocabulary), _CHUNK)]
        ordered = merge_sorted(*chunks)
        writer = _Writer(self._width)
        empty = array(_item(self._width))
        while terms := list(islice(ordered, _CHUNK)):
            encoded = "\n".join(terms).encode("utf-8", "surrogatepass").split(b"\n")
            lists = [[kind.pop(term, empty) for term in terms] for kind in self._lists]
            writer.add(encoded, [(list(map(len, kind)), b"".join(kind)) for kind in lists])
        return writer.columns()


def _item(width: Width) -> Literal["I", "Q"]:
    """The array type of rows."""
    return "I" if width == "H" else "Q"


def _rows(numbers: Sequence[int], codes: bytes, levels: bytes, width: Width) -> "array[int]":
    """Columns as rows."""
    half = array(width, numbers)
    size = 2 * half.itemsize
    rows = bytearray(size * len(half))
    rows[0::size] = levels
    rows[1::size] = codes
    memoryview(rows).cast(width)[1::2] = memoryview(half)
    return array(_item(width), bytes(rows))


class _Writer:
    """Packed columns in the making: takes ascending terms with their postings, some at a time."""

    def __init__(self, width: Width) -> None:
        self._width = width
        self._heap = bytearray()
        self._starts = array("I")  # in the heap, of each term that begins a block
        self._size = 0
        self._counts = [array(width) for _ in range(KINDS)]
        self._columns = [(bytearray(), bytearray(), bytearray()) for _ in range(KINDS)]

    def add(self, terms: Sequence[bytes], kinds: Sequence[tuple[list[int], bytes]]) -> None:
        """Append terms with their postings, for each kind: how many by term, and the rows. Every term has some."""
        ends = list(accumulate(map(len, terms), initial=len(self._heap)))
        self._starts.fromlist([ends[at] + at for at in range(-self._size % BLOCK, len(terms), BLOCK)])
        self._size += len(terms)
        self._heap += b"\n" + b"\n".join(terms) if terms else b""
        for (sizes, rows), counts, columns in zip(kinds, self._counts, self._columns, strict=True):
            counts.fromlist(sizes)
            numbers, codes, levels = columns
            numbers += memoryview(rows).cast(self._width)[1::2].tobytes()
            size = 2 * counts.itemsize
            codes += rows[1::size]
            levels += rows[0::size]

    def columns(self) -> list[Column]:
        """The finished columns. The writer is used up."""
        self._starts.append(len(self._heap))
        self._heap += b"\n"
        columns: list[Column] = [self._heap, self._starts.tobytes()]
        for counts, lists in zip(self._counts, self._columns, strict=True):
            totals = [sum(counts[start : start + BLOCK]) for start in range(0, len(counts), BLOCK)]
            columns += [
                counts.tobytes(),
                array("I", accumulate(totals, initial=0)).tobytes(),
                *lists,
            ]
        return columns


class Source(NamedTuple):
    """Postings to be merged, and where their sections and documents go: the new number of each old one, or -1; None if
    they stay and those of later sources are greater."""

    postings: Postings
    sections: Sequence[int] | None
    documents: Sequence[int] | None


def merge(
    sources: Sequence[Source], width: Width, slice_: int = SLICE
) -> Generator[None, None, list[Column]]:
    """The columns of one `Postings` made of several; pauses after about every `slice_` postings.

    New numbers ascend with the old ones of a source.
    """
    writer = _Writer(width)
    apart = [
        _apart(source.sections for source in sources),
        False,
        _apart(source.documents for source in sources),
    ]
    apart[1] = apart[0]
    begins: list[Place] = [(0, 0, 0, 0)] * len(sources)
    for cut in chain(_cuts([source.postings for source in sources], slice_), [None]):
        ends = [source.postings.place(cut) for source in sources]
        parts = [part for part in zip(sources, begins, ends, strict=True) if part[1] != part[2]]
        names = [source.postings.terms(begin[0], end[0]) for source, begin, end in parts]
        lists = [_merged(kind, parts, names, width) for kind in range(KINDS)]
        terms = sorted(set().union(*lists))
        writer.add(
            terms, [_joined(terms, rows, width, whole) for rows, whole in zip(lists, apart, strict=True)]
        )
        begins = ends
        yield
    return writer.columns()


def _apart(targets: Iterable[Sequence[int] | None]) -> bool:
    """Whether the numbers of each source are all behind those of the source before."""
    last = -1
    for target in targets:
        numbers = [number for number in target or () if number >= 0]
        if numbers and min(numbers) < last:
            return False
        last = max(numbers, default=last)
    return True


def _cuts(sources: Sequence[Postings], slice_: int) -> list[bytes]:
    """Terms that part the postings of all sources into slices of about that size, as far as blocks allow."""
    weighed = sorted(
        chain.from_iterable(zip(source.heads, source.weights(), strict=True) for source in sources)
    )
    cuts, total = [], 0
    for term, weight in weighed:
        if total and total + weight > slice_:
            cuts.append(term)
            total = 0
        total += weight
    return cuts


def _merged(
    kind: int, parts: Sequence[tuple[Source, Place, Place]], names: Sequence[list[bytes]], width: Width
) -> defaultdict[bytes, list[bytes]]:
    """The rows of one kind for some terms, a piece for each source; none for a term that has none left."""
    merged: defaultdict[bytes, list[bytes]] = defaultdict(list)
    size = array(_item(width)).itemsize
    for (source, begin, end), terms in zip(parts, names, strict=True):
        low, high = begin[kind + 1], end[kind + 1]
        if low == high:
            continue
        lists = source.postings.kinds[kind]
        target = source.documents if kind == NAMED else source.sections
        codes, levels = lists.codes[low:high].tobytes(), lists.levels[low:high].tobytes()
        moved: Sequence[int] = lists.between(low, high)
        counts: Sequence[int] = lists.counts[begin[0] : end[0]].tolist()
        if target is not None:
            moved = list(map(target.__getitem__, moved))
        if target is not None and min(moved) < 0:
            kept = [number >= 0 for number in moved]
            left = list(accumulate(kept, initial=0))
            moved = list(compress(moved, kept))
            codes, levels = bytes(compress(codes, kept)), bytes(compress(levels, kept))
            ends = [left[until] for until in accumulate(counts, initial=0)]
            counts = [until - since for since, until in pairwise(ends)]
        if 0 in counts:
            terms, counts = list(compress(terms, counts)), list(filter(None, counts))
        rows = _rows(moved, codes, levels, width).tobytes()
        bounds = accumulate(map(size.__mul__, counts), initial=0)
        pieces = [rows[since:until] for since, until in pairwise(bounds)]
        deque(map(list.append, map(merged.__getitem__, terms), pieces), maxlen=0)
    return merged


def _joined(
    terms: Sequence[bytes], merged: Mapping[bytes, list[bytes]], width: Width, apart: bool
) -> tuple[list[int], bytes]:
    """How many rows each term has, and the rows; `apart` as `_apart` says."""
    item = _item(width)
    size = array(item).itemsize
    rows = [b"".join(merged.get(term, ())) for term in terms]
    if not apart:
        rows = [array(item, sorted(array(item, row))).tobytes() if len(row) > size else row for row in rows]
    return [len(row) // size for row in rows], b"".join(rows)
