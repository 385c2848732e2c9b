"""How posting lists are made: collected from documents (`Builder`), or merged from those of several segments (`merge`).

While lists are made a posting is one integer, the number above the code above the level: it sorts and moves as one.

What has been collected is packed small whenever it takes `RUN` bytes, and these runs are merged in the end: single-pass
in-memory indexing (S. Heinz, J. Zobel, Efficient single-pass index construction for text databases, 2003) without its
disk. Each run is read from its front and let go behind the merge, so postings never stand in memory twice. No call into C
is long, whatever one document holds.
"""

import struct
import zlib
from array import array
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain, compress, pairwise, repeat
from typing import Final, Literal, NamedTuple, Protocol

from app.search.pages import Pile
from app.search.postings import BLOCK, KINDS, NAMED, Place, Postings, Width, counted
from app.search.steps import done

__all__ = ["SLICE", "Builder", "Columns", "Source", "merge"]

SLICE: Final = 8_000  # postings that a step of a merge handles, about; 3 ms on a desktop
RUN: Final = 2_000_000  # bytes that collected postings may take, at about 250 a term and 4 a posting
_CHUNK: Final = 16_000  # items for one call into C where a document may hold any number
_LEAF_TERMS: Final = 256
_LEAF: Final = struct.Struct("=II")

Columns = list["Pile | array[int]"]
"""The columns of a packed `Postings`."""


class Builder:
    """Collects postings by term, then packs them; takes numbers in ascending order."""

    def __init__(self, width: Width) -> None:
        self._width = width
        self._runs: list[_Run] = []
        self._pile = Pile()
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
        for at in range(0, len(terms), _CHUNK):
            cut = slice(at, at + _CHUNK)
            rows = _rows(numbers[cut], codes[cut], levels[cut], self._width)
            deque(map(array.append, map(self._lists[kind].__getitem__, terms[cut]), rows), maxlen=0)
            self._postings += len(rows)
            if 4 * self._postings + 250 * sum(map(len, self._lists)) > RUN:
                self._spill()

    def _spill(self) -> None:
        self._runs.append(_Run(self._leaves(_LEAF_TERMS), self._width, self._pile))
        self._begin()

    def _leaves(self, size: int) -> "Iterator[_Leaf]":
        """What has been collected, in the order of terms, so many of them at a time. The lists are used up."""
        terms = sorted(set().union(*self._lists))
        empty = array(_item(self._width))
        for at in range(0, len(terms), size):
            some = terms[at : at + size]
            encoded = "\n".join(some).encode("utf-8", "surrogatepass").split(b"\n")
            lists = [list(map(kind.pop, some, repeat(empty))) for kind in self._lists]
            yield _Leaf(encoded, [(list(map(len, kind)), b"".join(kind)) for kind in lists])

    def columns(self) -> Columns:
        """The columns of a packed `Postings`. The builder is used up."""
        if not self._runs:
            writer = _Writer(self._width)
            for terms, kinds in self._leaves(_CHUNK):
                writer.add(terms, kinds)
            return writer.columns()
        self._spill()
        return done(_merge(self._runs, [True] * KINDS, self._width, _CHUNK))


def _item(width: Width) -> Literal["I", "Q"]:
    """The array type of rows."""
    return "I" if width == "H" else "Q"


def _size(width: Width) -> int:
    """Bytes of a row."""
    return 4 if width == "H" else 8


def _rows(numbers: Sequence[int], codes: bytes, levels: bytes, width: Width) -> "array[int]":
    """Columns as rows."""
    half = array(width, numbers)
    size = 2 * half.itemsize
    rows = bytearray(size * len(half))
    rows[0::size] = levels
    rows[1::size] = codes
    memoryview(rows).cast(width)[1::2] = memoryview(half)
    return array(_item(width), bytes(rows))


class _Leaf(NamedTuple):
    """Some terms in order, and for each kind how many postings they have and the rows of these."""

    terms: list[bytes]
    kinds: list[tuple[list[int], bytes]]

    @property
    def weight(self) -> int:
        """How many postings there are."""
        return sum(sum(counts) for counts, _ in self.kinds)

    def split(self, at: int, size: int) -> "tuple[_Leaf, _Leaf]":
        """So many terms, and the others; rows have so many bytes."""
        ends = [size * sum(counts[:at]) for counts, _ in self.kinds]
        kinds = list(zip(self.kinds, ends, strict=True))
        return (
            _Leaf(self.terms[:at], [(counts[:at], rows[:end]) for (counts, rows), end in kinds]),
            _Leaf(self.terms[at:], [(counts[at:], rows[end:]) for (counts, rows), end in kinds]),
        )

    def packed(self, size: int) -> bytes:
        """The leaf in a third of its bytes: bytes of rows that are alike stand together."""
        text = b"\n".join(self.terms)
        parts = [_LEAF.pack(len(self.terms), len(text)), text]
        for counts, rows in self.kinds:
            parts.append(array("I", counts).tobytes())
            parts += [rows[lane::size] for lane in range(size)]
        return zlib.compress(b"".join(parts), 1)

    @classmethod
    def unpacked(cls, packed: bytes, size: int) -> "_Leaf":
        """The same leaf again."""
        data = zlib.decompress(packed)
        count, length = _LEAF.unpack_from(data)
        at = _LEAF.size + length
        terms = data[_LEAF.size : at].split(b"\n")
        kinds = []
        for _ in range(KINDS):
            counts = array("I", data[at : at + 4 * count]).tolist()
            at += 4 * count
            total = sum(counts)
            rows = bytearray(size * total)
            for lane in range(size):
                rows[lane::size] = data[at : at + total]
                at += total
            kinds.append((counts, bytes(rows)))
        return cls(terms, kinds)


class _Feed(Protocol):
    """Postings in the order of terms, read once from the front."""

    def heads(self) -> Iterable[tuple[bytes, int]]:
        """Terms with how many postings, about, there are from each to the next."""

    def take(self, cut: bytes | None) -> Iterable[_Leaf]:
        """What comes next and has a smaller term; for None, all the rest. Read before the feed is asked again."""


class _Run:
    """A feed of leaves that are packed small, behind other runs in a pile, which lets go of what has been read.

    It keeps no object by the leaf: such would lie between all that passes through, and hold its memory.
    """

    def __init__(self, leaves: Iterable[_Leaf], width: Width, pile: Pile) -> None:
        self._size = _size(width)
        self._pile = pile
        self._spans = array("Q", (pile.size,))
        self._weights = array("Q")
        heads = bytearray()
        for leaf in leaves:
            pile.add(leaf.packed(self._size))
            self._spans.append(pile.size)
            self._weights.append(leaf.weight)
            heads += leaf.terms[0] + b"\n"
        self._heads = bytes(heads)
        self._next = 0
        self._rest: _Leaf | None = None
        """What a cut has left of the leaf before the next."""

    def heads(self) -> Iterable[tuple[bytes, int]]:
        return zip(self._heads.split(b"\n")[:-1], self._weights, strict=True)

    def take(self, cut: bytes | None) -> Iterable[_Leaf]:
        while leaf := self._rest or self._opened(cut):
            self._rest = None
            if cut is not None and leaf.terms[-1] >= cut:
                leaf, self._rest = leaf.split(bisect_left(leaf.terms, cut), self._size)
                if leaf.terms:
                    yield leaf
                return
            yield leaf

    def _opened(self, cut: bytes | None) -> "_Leaf | None":
        """The next leaf, if it has a term before the cut."""
        head, _, others = self._heads.partition(b"\n")
        if not head or (cut is not None and head >= cut):
            return None
        begin, end = self._spans[self._next : self._next + 2]
        leaf = _Leaf.unpacked(self._pile.read(begin, end), self._size)
        self._pile.let_go(self._spans[0], end)
        self._heads, self._next = others, self._next + 1
        return leaf


class _Writer:
    """Packed columns in the making: takes ascending terms with their postings, some at a time."""

    def __init__(self, width: Width) -> None:
        self._width = width
        self._heap = Pile()
        self._starts = array("I")  # in the heap, of each term that begins a block
        self._size = 0
        self._counts = [array(counted(kind, width)) for kind in range(KINDS)]
        self._columns = [(Pile(), Pile(), Pile()) for _ in range(KINDS)]

    def add(self, terms: Sequence[bytes], kinds: Sequence[tuple[list[int], bytes]]) -> None:
        """Append terms with their postings, for each kind: how many by term, and the rows. Every term has some."""
        ends = list(accumulate(map(len, terms), initial=self._heap.size))
        self._starts.fromlist([ends[at] + at for at in range(-self._size % BLOCK, len(terms), BLOCK)])
        self._size += len(terms)
        self._heap.add(b"\n" + b"\n".join(terms) if terms else b"")
        size = _size(self._width)
        for (sizes, rows), counts, columns in zip(kinds, self._counts, self._columns, strict=True):
            counts.fromlist(sizes)
            numbers, codes, levels = columns
            numbers.add(memoryview(rows).cast(self._width)[1::2].tobytes())
            codes.add(rows[1::size])
            levels.add(rows[0::size])

    def columns(self) -> Columns:
        """The finished columns. The writer is used up."""
        self._starts.append(self._heap.size)
        self._heap.add(b"\n")
        columns: Columns = [self._heap, self._starts]
        for counts, lists in zip(self._counts, self._columns, strict=True):
            totals = [sum(counts[start : start + BLOCK]) for start in range(0, len(counts), BLOCK)]
            columns += [counts, array("I", accumulate(totals, initial=0)), *lists]
        return columns


class Source(NamedTuple):
    """Postings to be merged, and where their sections and documents go: the new number of each old one, or -1."""

    postings: Postings
    sections: Sequence[int]
    documents: Sequence[int]


class _Reading:
    """A feed of postings that are packed and stay."""

    def __init__(self, source: Source, width: Width) -> None:
        self._source = source
        self._width = width
        self._begin: Place = (0, 0, 0, 0)

    def heads(self) -> Iterable[tuple[bytes, int]]:
        postings = self._source.postings
        return zip(postings.heads, postings.weights(), strict=True)

    def take(self, cut: bytes | None) -> Iterable[_Leaf]:
        begin, self._begin = self._begin, self._source.postings.place(cut)
        if begin == self._begin:
            return ()
        terms = self._source.postings.terms(begin[0], self._begin[0])
        return (_Leaf(terms, [self._moved(kind, begin, self._begin) for kind in range(KINDS)]),)

    def _moved(self, kind: int, begin: Place, end: Place) -> tuple[list[int], bytes]:
        """The postings of one kind for some terms, with their new numbers."""
        lists = self._source.postings.kinds[kind]
        target = self._source.documents if kind == NAMED else self._source.sections
        low, high = begin[kind + 1], end[kind + 1]
        codes, levels = lists.codes[low:high].tobytes(), lists.levels[low:high].tobytes()
        moved = list(map(target.__getitem__, lists.between(low, high)))
        counts: list[int] = lists.counts[begin[0] : end[0]].tolist()
        if min(moved, default=0) < 0:
            kept = [number >= 0 for number in moved]
            left = list(accumulate(kept, initial=0))
            moved = list(compress(moved, kept))
            codes, levels = bytes(compress(codes, kept)), bytes(compress(levels, kept))
            ends = [left[until] for until in accumulate(counts, initial=0)]
            counts = [until - since for since, until in pairwise(ends)]
        return counts, _rows(moved, codes, levels, self._width).tobytes()


def merge(sources: Sequence[Source], width: Width, slice_: int = SLICE) -> Generator[None, None, Columns]:
    """The columns of one `Postings` made of several; pauses after about every `slice_` postings.

    New numbers ascend with the old ones of a source.
    """
    sections = _apart(source.sections for source in sources)
    documents = _apart(source.documents for source in sources)
    feeds = [_Reading(source, width) for source in sources]
    return _merge(feeds, (sections, sections, documents), width, slice_)


def _apart(targets: Iterable[Sequence[int]]) -> bool:
    """Whether the numbers of each source are all behind those of the source before."""
    last = -1
    for target in targets:
        numbers = [number for number in target if number >= 0]
        if numbers and min(numbers) < last:
            return False
        last = max(numbers, default=last)
    return True


def _merge(
    feeds: Sequence[_Feed], apart: Sequence[bool], width: Width, slice_: int
) -> Generator[None, None, Columns]:
    """The columns of what several feeds give; `apart`, for each kind, as `_apart` says."""
    writer = _Writer(width)
    for cut in chain(_cuts(feeds, slice_), [None]):
        leaves = [leaf for feed in feeds for leaf in feed.take(cut)]
        lists = [_merged(kind, leaves, _size(width)) for kind in range(KINDS)]
        terms = sorted(set().union(*lists))
        writer.add(
            terms, [_joined(terms, rows, width, whole) for rows, whole in zip(lists, apart, strict=True)]
        )
        yield
    return writer.columns()


def _cuts(feeds: Sequence[_Feed], slice_: int) -> list[bytes]:
    """Terms that part the postings of all feeds into slices of about that size, as far as their heads allow."""
    cuts, total = [], 0
    for term, weight in sorted(chain.from_iterable(feed.heads() for feed in feeds)):
        if total and total + weight > slice_:
            cuts.append(term)
            total = 0
        total += weight
    return cuts


def _merged(kind: int, leaves: Iterable[_Leaf], size: int) -> defaultdict[bytes, list[bytes]]:
    """The rows of one kind by term, in pieces; none for a term that has none."""
    merged: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for terms, kinds in leaves:
        counts, rows = kinds[kind]
        if not rows:
            continue
        having: Iterable[bytes] = terms
        if 0 in counts:
            having, counts = compress(terms, counts), list(filter(None, counts))
        bounds = accumulate(map(size.__mul__, counts), initial=0)
        pieces = [rows[since:until] for since, until in pairwise(bounds)]
        deque(map(list.append, map(merged.__getitem__, having), pieces), maxlen=0)
    return merged


def _joined(
    terms: Sequence[bytes], merged: Mapping[bytes, list[bytes]], width: Width, apart: bool
) -> tuple[list[int], bytes]:
    """How many rows each term has, and the rows; `apart` as `_apart` says."""
    item, size = _item(width), _size(width)
    rows = [b"".join(merged.get(term, ())) for term in terms]
    if not apart:
        rows = [array(item, sorted(array(item, row))).tobytes() if len(row) > size else row for row in rows]
    return [len(row) // size for row in rows], b"".join(rows)
