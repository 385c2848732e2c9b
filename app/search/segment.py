"""A segment: some documents, their sections and their posting lists in one immutable buffer.

Documents stand in the order of their paths by bytes and sections in the order of documents, so a scope is one range
of sections and a smaller section number means a smaller path. A section's record says where its text is in the body,
never what it is: bodies are not kept. The buffer may be `bytes` or anything else with the buffer protocol (a mapped
file); nothing is copied out of it but what a query looks at. Byte order is the machine's.

`Assembly` makes one, `join` makes one of several and leaves out what has been dropped.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Generator, Iterator, Sequence
from operator import attrgetter
from typing import Final

from msgspec import Struct

from app.protocol.paths import sort_key
from app.search.packing import SLICE, Columns, Source, merge
from app.search.pages import PIECE, Pile, pages
from app.search.postings import Column, Postings, Width

__all__ = ["SECTIONS_MAX", "Assembly", "DocumentRecord", "Frame", "SectionRecord", "Segment", "join"]

SECTIONS_MAX: Final = 0xFFFF
"""As many sections, or documents, fit 16-bit numbers; a segment holds no more unless it is a single document."""

_HEAD: Final = struct.Struct("=4s4xII")
_MAGIC: Final = b"seg1"
_FIXED: Final = 19  # columns before those of the postings
_BETWEEN: Final = "\n\n"
_STEP: Final = 64  # documents copied between two pauses of a join


class SectionRecord(Struct, frozen=True, gc=False):
    """Where a section is in its body and what task mode counts of it; offsets as in `app.markdown.sections`."""

    level: int
    heading: str
    anchor: str
    start: int
    own_start: int
    own_end: int
    span: int
    """Sections of its subtree, itself included."""
    length: int
    """Runs of letters and numbers in its own text."""
    marks: bytes
    """The marks of these in their order, and of its code fields (`app.search.marks`)."""


class DocumentRecord(Struct, frozen=True):
    """A document as a segment keeps it."""

    path: str
    importance: float
    version: int
    described: int
    """Runs of letters and numbers in its description."""
    names: str
    """What a mistyped name is compared with, a line each (task §10)."""
    sections: list[SectionRecord]


class Segment:
    """Read access to a packed segment."""

    __slots__ = (
        "_described",
        "_importances",
        "_lengths",
        "_levels",
        "_mark_offsets",
        "_marks",
        "_name_offsets",
        "_names",
        "_offsets",
        "_own_ends",
        "_own_starts",
        "_path_ends",
        "_paths",
        "_spans",
        "_starts",
        "_titles",
        "_versions",
        "buffer",
        "documents",
        "first",
        "postings",
        "sections",
        "width",
    )

    def __init__(self, buffer: bytes | memoryview) -> None:
        self.buffer = buffer
        views = _unframe(memoryview(buffer))
        _, self.documents, self.sections = _HEAD.unpack(views[0])
        self._paths, self._path_ends = views[1], views[2].cast("I")
        self._importances, self._versions = views[3].cast("d"), views[4].cast("Q")
        self.first = array("I", views[5].tobytes())
        """The first section of each document, and behind them the number of sections."""
        self._starts, self._own_starts, self._own_ends, self._lengths, self._spans = (
            view.cast("I") for view in views[6:11]
        )
        self._levels, self._titles, self._offsets = views[11], views[12], views[13].cast("I")
        self._described, self._names, self._name_offsets = views[14].cast("I"), views[15], views[16].cast("I")
        self._marks, self._mark_offsets = views[17], views[18].cast("I")
        self.width: Width = width_of(self.documents, self.sections)
        self.postings = Postings(views[_FIXED:], self.width)

    def path_bytes(self, document: int) -> bytes:
        """The path of a document as the bytes that order it."""
        return self._paths[self._path_ends[document] : self._path_ends[document + 1]].tobytes()

    def path(self, document: int) -> str:
        """The path of a document."""
        return self.path_bytes(document).decode("utf-8", "surrogateescape")

    def importance(self, document: int) -> float:
        """The importance of a document."""
        return self._importances[document]

    def version(self, document: int) -> int:
        """The version of a document that is indexed here."""
        return self._versions[document]

    def body_size(self, document: int) -> int:
        """How many bytes the body of a document has; 0 if it has no section."""
        begin, end = self.first[document], self.first[document + 1]
        return self._own_ends[end - 1] if begin < end else 0

    def described(self) -> memoryview:
        """The length of each document's description, as that of sections is counted."""
        return self._described

    def names(self) -> list[str]:
        """For each document, what a mistyped name is compared with, a line each (task §10)."""
        return str(self._names, "utf-8", "surrogatepass").split(_BETWEEN)[:-1]

    def lengths(self) -> memoryview:
        """The length of each section: runs of letters and numbers in its own text."""
        return self._lengths

    def spans(self) -> memoryview:
        """How many sections the subtree of each section has, itself included."""
        return self._spans

    def level(self, section: int) -> int:
        """The level of a section's heading; 0 for the text before the first one."""
        return self._levels[section]

    def marks(self, section: int) -> bytes:
        """The marks of a section's words in their order, two bytes each (`app.search.marks`)."""
        return self._marks[self._mark_offsets[section] : self._mark_offsets[section + 1]].tobytes()

    def start(self, section: int) -> int:
        """Where a section begins in the body: its heading's line."""
        return self._starts[section]

    def marked(self, wanted: bytes, begin: int, end: int) -> list[int]:
        """The sections of a range that have a mark (`app.search.marks`), or some in a row; where a row runs over the end
        of a section it may be named too."""
        offsets = self._mark_offsets
        first = offsets[begin]
        row = self._marks[first : offsets[end]].tobytes()
        found = []
        at = row.find(wanted)
        while at >= 0:
            if at % 2:
                at = row.find(wanted, at + 1)
            else:
                section = bisect_right(offsets, first + at, begin, end) - 1
                found.append(section)
                at = row.find(wanted, offsets[section + 1] - first)
        return found

    def stretches(self, most: int, sections: int) -> Iterator[tuple[int, int, int]]:
        """All sections in ranges of at most so many whose marks take at most so many bytes, or that have a single section;
        and these bytes."""
        begin, offsets = 0, self._mark_offsets
        while begin < self.sections:
            within = bisect_right(offsets, offsets[begin] + most, begin) - 1
            end = min(max(within, begin + 1), begin + sections)
            yield begin, end, offsets[end] - offsets[begin]
            begin = end

    def find(self, path: bytes) -> int:
        """The number of the document with this path, or -1."""
        at = self.rank(path)
        return at if at < self.documents and self.path_bytes(at) == path else -1

    def rank(self, path: bytes) -> int:
        """How many documents have a smaller path."""
        return bisect_left(range(self.documents), path, key=self.path_bytes)

    def scope(self, prefix: str) -> tuple[int, int]:
        """The first document whose path starts with the prefix, which ends in a slash, and the first behind those."""
        if prefix == "/":
            return 0, self.documents
        start = sort_key(prefix)
        return self.rank(start), self.rank(start[:-1] + b"0")  # the byte behind the slash

    def document_of(self, section: int) -> int:
        """The document of a section."""
        return bisect_right(self.first, section) - 1

    def anchor(self, section: int) -> bytes:
        """The anchor of a section, in UTF-8."""
        return self._title(section).partition(b"\n")[0]

    def _title(self, section: int) -> bytes:
        return self._titles[self._offsets[section] : self._offsets[section + 1]].tobytes()

    def cut(self, section: int) -> tuple[str, str, int, int]:
        """Anchor and heading of a section, and where its own content begins and ends in the body."""
        anchor, _, heading = self._title(section).decode("utf-8", "surrogatepass").partition("\n")
        return anchor, heading, self._own_starts[section], self._own_ends[section]

    def section(self, section: int) -> SectionRecord:
        """The record of a section."""
        anchor, _, heading = self._title(section).decode("utf-8", "surrogatepass").partition("\n")
        return SectionRecord(
            self._levels[section],
            heading,
            anchor,
            self._starts[section],
            self._own_starts[section],
            self._own_ends[section],
            self._spans[section],
            self._lengths[section],
            self.marks(section),
        )


def width_of(documents: int, sections: int) -> Width:
    """The array type for the numbers of so many documents and sections."""
    return "H" if max(documents, sections) <= SECTIONS_MAX else "I"


def join(
    sources: Sequence[tuple[Segment, Collection[int]]], slice_: int = SLICE
) -> Generator[None, None, bytes | memoryview]:
    """The buffer of one segment with the documents of several, those that are named beside a source left out.

    Pauses between pieces of a few milliseconds. No path may come twice.
    """
    order = sorted(
        (segment.path_bytes(document), source, document)
        for source, (segment, dropped) in enumerate(sources)
        for document in range(segment.documents)
        if document not in dropped
    )
    yield
    section_maps = [[-1] * segment.sections for segment, _ in sources]
    document_maps = [[-1] * segment.documents for segment, _ in sources]
    assembly = Assembly()
    for number, (_, source, document) in enumerate(order):
        segment = sources[source][0]
        begin, end = segment.first[document], segment.first[document + 1]
        document_maps[source][document] = number
        section_maps[source][begin:end] = range(assembly.sections, assembly.sections + end - begin)
        assembly.copy(segment, document)
        if number % _STEP == 0:
            yield
    merged = [  # in the order of their first paths: sections of sources that do not overlap then need no sorting
        Source(sources[source][0].postings, section_maps[source], document_maps[source])
        for source in dict.fromkeys(source for _, source, _ in order)
    ]
    width = width_of(len(order), assembly.sections)
    frame = assembly.framed((yield from merge(merged, width, slice_)))
    del assembly  # columns go as they are copied
    yield
    return frame.buffer()


class Assembly:
    """A segment in the making: its documents and sections, all but their postings."""

    def __init__(self) -> None:
        self.documents = 0
        self.sections = 0
        self._paths = _Texts()
        self._importances = array("d")
        self._versions = array("Q")
        self._first = array("I", (0,))
        self._numbers = [array("I") for _ in range(5)]
        self._levels = bytearray()
        self._titles = _Texts()
        self._described = array("I")
        self._names = _Texts()
        self._marks = _Texts()

    def add(self, document: DocumentRecord) -> None:
        """Append a document."""
        sections = document.sections
        self._paths.add(sort_key(document.path))
        self._importances.append(document.importance)
        self._versions.append(document.version)
        self._count(len(sections))
        fields = ("start", "own_start", "own_end", "length", "span")
        for column, field in zip(self._numbers, fields, strict=True):
            column.extend(map(attrgetter(field), sections))
        self._levels += bytes([section.level for section in sections])
        for section in sections:
            # An anchor holds no line feed.
            self._titles.add(f"{section.anchor}\n{section.heading}".encode("utf-8", "surrogatepass"))
            self._marks.add(section.marks)
        self._described.append(document.described)
        # No name is empty, so an empty line parts those of two documents.
        self._names.add(f"{document.names}{_BETWEEN}".encode("utf-8", "surrogatepass"))

    def copy(self, segment: Segment, document: int) -> None:
        """Append a document of another segment."""
        begin, end = segment.first[document], segment.first[document + 1]
        self._paths.add(segment.path_bytes(document))
        self._importances.append(segment.importance(document))
        self._versions.append(segment.version(document))
        self._count(end - begin)
        views = segment._starts, segment._own_starts, segment._own_ends, segment._lengths, segment._spans
        for column, view in zip(self._numbers, views, strict=True):
            column.frombytes(view[begin:end].tobytes())
        self._levels += segment._levels[begin:end]
        self._titles.copy(segment._titles, segment._offsets[begin : end + 1])
        self._described.append(segment._described[document])
        self._names.copy(segment._names, segment._name_offsets[document : document + 2])
        self._marks.copy(segment._marks, segment._mark_offsets[begin : end + 1])

    def _count(self, sections: int) -> None:
        self.documents += 1
        self.sections += sections
        self._first.append(self.sections)

    def framed(self, postings: Columns) -> "Frame":
        """The finished segment; `postings` are the columns from `app.search.packing`. The assembly is used up."""
        return Frame(
            [
                _HEAD.pack(_MAGIC, self.documents, self.sections),
                *self._paths.columns,
                self._importances,
                self._versions,
                self._first,
                *self._numbers,
                self._levels,
                *self._titles.columns,
                self._described,
                *self._names.columns,
                *self._marks.columns,
                *postings,
            ]
        )


class _Texts:
    """Texts in the making, one behind the other."""

    def __init__(self) -> None:
        self._texts = Pile()
        self._ends = array("I", (0,))

    @property
    def columns(self) -> "tuple[Pile, array[int]]":
        """The texts, and where each of them begins."""
        return self._texts, self._ends

    def add(self, text: bytes) -> None:
        """Append one."""
        self._texts.add(text)
        self._ends.append(self._texts.size)

    def copy(self, texts: memoryview, offsets: memoryview) -> None:
        """Append those of a range of another segment."""
        start, *others = offsets.tolist()
        shift = self._texts.size - start
        self._texts.add(texts[start : others[-1] if others else start])
        self._ends.extend([offset + shift for offset in others])


class Frame:
    """A finished segment, not yet in one buffer: columns one behind the other, each at a multiple of eight bytes, with
    their number and sizes before them."""

    def __init__(self, columns: "list[Pile | Column | array[int] | array[float]]") -> None:
        self._columns = [
            column if isinstance(column, Pile) else memoryview(column).cast("B") for column in columns
        ]
        sizes = [column.size if isinstance(column, Pile) else column.nbytes for column in self._columns]
        sizes.insert(0, 4 + 4 * len(sizes))
        self._columns.insert(0, memoryview(struct.pack(f"={len(sizes)}I", len(columns), *sizes[1:])))
        self.size = sum(size + -size % 8 for size in sizes)
        """Bytes of the segment."""

    def pieces(self) -> Iterator[bytes | memoryview]:
        """The bytes of the segment in order. What has been given is let go, so this works once."""
        self._columns.reverse()
        while self._columns:
            column = self._columns.pop()
            if isinstance(column, Pile):
                size = column.size
                yield from column.pieces()
            else:
                size = column.nbytes
                yield column
            yield b"\0" * (-size % 8)

    def buffer(self) -> bytes | memoryview:
        """The segment. The frame is used up; a large one goes into pages of its own and is never in memory twice."""
        if self.size < PIECE:
            return b"".join(self.pieces())
        buffer, at = pages(self.size), 0
        for piece in self.pieces():
            buffer[at : at + len(piece)] = piece
            at += len(piece)
        return buffer


def _unframe(view: memoryview) -> list[memoryview]:
    """The columns of a frame, uncopied."""
    (count,) = struct.unpack_from("=I", view)
    sizes = struct.unpack_from(f"={count}I", view, 4)
    at = 4 + 4 * count
    columns = []
    for size in sizes:
        at += -at % 8
        columns.append(view[at : at + size])
        at += size
    return columns
