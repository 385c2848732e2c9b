"""A segment: some documents, their sections and their posting lists in one immutable buffer.

Documents stand in the order of their paths by bytes and sections in the order of documents, so a scope is one range
of sections and a smaller section number means a smaller path. A section's record says where its text is in the body,
never what it is: bodies are not kept. The buffer may be `bytes` or anything else with the buffer protocol (a mapped
file); nothing is copied out of it but what a query looks at. Byte order is the machine's.

`segment_of` writes one, `join` makes one segment of several and leaves out what has been dropped.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Generator, Sequence
from itertools import accumulate, chain
from typing import Final, Union

from msgspec import Struct

from app.protocol.paths import sort_key
from app.search.postings import SLICE, Postings, Source, Width, merge

__all__ = ["SECTIONS_MAX", "DocumentRecord", "SectionRecord", "Segment", "join", "segment_of"]

SECTIONS_MAX: Final = 0xFFFF
"""As many sections, or documents, fit 16-bit numbers; a segment holds no more unless it is a single document."""

_HEAD: Final = struct.Struct("=4s4xII")
_MAGIC: Final = b"seg1"
_FIXED: Final = 14  # columns before those of the postings
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


class DocumentRecord(Struct, frozen=True):
    """A document as a segment keeps it."""

    path: str
    importance: float
    version: int
    sections: list[SectionRecord]


class Segment:
    """Read access to a packed segment."""

    __slots__ = (
        "_importances",
        "_lengths",
        "_levels",
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
        )


def width_of(documents: int, sections: int) -> Width:
    """The array type for the numbers of so many documents and sections."""
    return "H" if max(documents, sections) <= SECTIONS_MAX else "I"


def segment_of(documents: Sequence[DocumentRecord], postings: Sequence[bytes]) -> bytes:
    """The buffer of a segment of documents in path order; `postings` are the columns from `app.search.postings`."""
    paths = [sort_key(document.path) for document in documents]
    sections = list(chain.from_iterable(document.sections for document in documents))
    # An anchor holds no line feed.
    texts = [f"{section.anchor}\n{section.heading}".encode("utf-8", "surrogatepass") for section in sections]
    columns: list[_Column] = [
        b"".join(paths),
        array("I", accumulate(map(len, paths), initial=0)),
        array("d", [document.importance for document in documents]),
        array("Q", [document.version for document in documents]),
        array("I", accumulate([len(document.sections) for document in documents], initial=0)),
        array("I", [section.start for section in sections]),
        array("I", [section.own_start for section in sections]),
        array("I", [section.own_end for section in sections]),
        array("I", [section.length for section in sections]),
        array("I", [section.span for section in sections]),
        bytes([section.level for section in sections]),
        b"".join(texts),
        array("I", accumulate(map(len, texts), initial=0)),
    ]
    return _frame([_HEAD.pack(_MAGIC, len(documents), len(sections)), *columns, *postings])


def join(
    sources: Sequence[tuple[Segment, Collection[int]]], slice_: int = SLICE
) -> Generator[None, None, bytes]:
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
    copier = _Copier()
    for number, (_, source, document) in enumerate(order):
        segment = sources[source][0]
        begin, end = segment.first[document], segment.first[document + 1]
        document_maps[source][document] = number
        section_maps[source][begin:end] = range(copier.sections, copier.sections + end - begin)
        copier.copy(segment, document)
        if number % _STEP == 0:
            yield
    merged = [
        Source(segment.postings, section_maps[source], document_maps[source])
        for source, (segment, _) in enumerate(sources)
    ]
    width = width_of(len(order), copier.sections)
    postings = yield from merge(merged, width, slice_)
    yield
    return _frame([_HEAD.pack(_MAGIC, len(order), copier.sections), *copier.columns(), *postings])


class _Copier:
    """Documents and sections of a segment in the making."""

    def __init__(self) -> None:
        self.sections = 0
        self._paths = bytearray()
        self._path_ends = array("I", (0,))
        self._importances = array("d")
        self._versions = array("Q")
        self._first = array("I", (0,))
        self._numbers = [bytearray() for _ in range(5)]
        self._levels = bytearray()
        self._titles = bytearray()
        self._offsets = array("I", (0,))

    def copy(self, segment: Segment, document: int) -> None:
        """Append a document of another segment."""
        begin, end = segment.first[document], segment.first[document + 1]
        self._paths += segment.path_bytes(document)
        self._path_ends.append(len(self._paths))
        self._importances.append(segment.importance(document))
        self._versions.append(segment.version(document))
        self.sections += end - begin
        self._first.append(self.sections)
        views = segment._starts, segment._own_starts, segment._own_ends, segment._lengths, segment._spans
        for column, view in zip(self._numbers, views, strict=True):
            column += view[begin:end]
        self._levels += segment._levels[begin:end]
        offsets = segment._offsets[begin : end + 1].tolist()
        shift = len(self._titles) - offsets[0]
        self._titles += segment._titles[offsets[0] : offsets[-1]]
        self._offsets.extend([offset + shift for offset in offsets[1:]])

    def columns(self) -> "list[_Column]":
        """The finished columns."""
        return [
            self._paths,
            self._path_ends,
            self._importances,
            self._versions,
            self._first,
            *self._numbers,
            self._levels,
            self._titles,
            self._offsets,
        ]


_Column = Union[bytes, bytearray, "array[int]", "array[float]"]


def _frame(columns: Sequence[_Column]) -> bytes:
    """Columns one behind the other, each at a multiple of eight bytes, with their sizes before them."""
    views = [memoryview(column) for column in columns]
    sizes = struct.pack(f"=I{len(views)}I", len(views), *(view.nbytes for view in views))
    return b"".join(
        chain.from_iterable((view, b"\0" * (-view.nbytes % 8)) for view in (memoryview(sizes), *views))
    )


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
