"""The segments of the section index: which there are, what is struck off them, and how they are merged.

A put adds a segment and strikes the old version off its own; so the cost of a write is that of its document. Segments
are then kept few: those of about one size are merged once there are `TIER` of them, so that a posting is moved once
for each power of `TIER` in the size of the world, and a segment with many struck documents is written anew. Merging
goes in steps (`fold`); answers are the same before, between and after. Nothing here knows of terms or scores.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Final

from app.protocol.paths import sort_key
from app.search.extract import Batch, Extracted, Gathered, alone
from app.search.matching import Spread, View
from app.search.packing import SLICE
from app.search.reader import Reader
from app.search.records import Records
from app.search.segment import SECTIONS_MAX, Segment, join

__all__ = ["Collection", "Held"]

TIER: Final = 4
SMALL: Final = 512  # postings; all segments below are of one size
STALE: Final = 8  # a segment is written anew when one in so many of its sections or documents is struck off
AT_ONCE: Final = 16_000  # postings merged in a step when nobody waits
LARGE: Final = 1_000  # sections; what task mode has to know of smaller segments is soon made when asked for
_DONE: Final = object()
VIEWS: Final = 16  # readers with different rights whose view of a segment is kept


class Held:
    """A segment in use."""

    __slots__ = ("_last", "_records", "_views", "documents", "sections", "segment", "spread", "struck")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.struck: set[int] = set()
        """Documents that are gone."""
        self.documents = segment.documents
        """How many are left."""
        self.sections = segment.sections
        """How many sections are left."""
        self.spread = Spread(segment.sections)
        self._records: Records | None = None
        self._views: dict[object, View] = {}
        self._last = segment.path_bytes(segment.documents - 1) if segment.documents else b""

    def strike(self, path: bytes) -> bool:
        """Strike a document off, if it is here."""
        if path > self._last:
            return False
        document = self.segment.find(path)
        if document < 0 or document in self.struck:
            return False
        self.struck.add(document)
        self.documents -= 1
        self.sections -= self.segment.first[document + 1] - self.segment.first[document]
        for view in self._views.values():
            view.hide(self.segment, document)
        return True

    @property
    def prepared(self) -> bool:
        """Whether task mode has what it needs to know of the segment."""
        return self._records is not None

    def records(self) -> Generator[None, None, Records]:
        """What task mode knows of the segment; made when first asked for, in steps of a few milliseconds."""
        if self._records is None:
            self._records = yield from Records.made(self.segment)
        return self._records

    def view(self, reader: Reader) -> View:
        """What a reader sees of the segment."""
        key = reader.key
        view = self._views.pop(key, None)
        if view is None:
            if len(self._views) >= VIEWS:
                del self._views[next(iter(self._views))]
            view = View(self.segment, self._sight(reader))
        self._views[key] = view
        return view

    def _sight(self, reader: Reader) -> list[bool]:
        return [
            document not in self.struck and reader.may_read(self.segment.path(document))
            for document in range(self.segment.documents)
        ]

    @property
    def weight(self) -> int:
        """Its size, in postings."""
        return len(self.segment.postings.own.levels)

    @property
    def stale(self) -> bool:
        """Whether so much is struck off that it should be written anew."""
        segment = self.segment
        gone = segment.sections - self.sections
        return bool(gone * STALE > segment.sections or len(self.struck) * STALE > segment.documents)


class Collection:
    """All segments. Iteration gives those in use."""

    def __init__(self) -> None:
        self._held: list[Held] = []
        self._batch = Batch()
        self._join: Generator[None, None, bytes | memoryview] | None = None
        self._sources: list[tuple[Held, frozenset[int]]] = []
        self._preparing: Generator[None, None, Records] | None = None

    def __iter__(self) -> Iterator[Held]:
        self._flush()
        return iter(self._held)

    def put(self, document: Extracted | Gathered) -> None:
        """The document is live with this content from now on."""
        self.drop(document.path)
        if isinstance(document, Extracted):
            self.add(document.segment)
        elif document.sections > SECTIONS_MAX:
            self.add(alone(document).buffer())
        else:
            if not self._batch.takes(document):
                self._flush()
            self._batch.add(document)

    def drop(self, path: str) -> None:
        """There is no live document at this path any more."""
        if path in self._batch:
            self._flush()
        name = sort_key(path)
        for held in self._held:
            if held.strike(name):
                if not held.documents:
                    self._held.remove(held)
                return

    def add(self, buffer: bytes | memoryview) -> None:
        """A segment of documents that are live from now on and were not before."""
        self._held.append(Held(Segment(buffer)))

    def _flush(self) -> None:
        """Pack the documents that wait for it."""
        if self._batch.documents:
            frame, self._batch = self._batch.framed(), Batch()
            self.add(frame.buffer())

    def fold(self) -> bool:
        """Do a few milliseconds of merging; whether there may be more to do."""
        self._flush()
        return self._step() or self._begin(self._untidy()) or self._prepare()

    def settle(self) -> None:
        """Merge everything into as few segments as can be, at once; for a time when nobody waits."""
        self._flush()
        while self._step():
            pass
        for part in _parts(self._held):
            if len(part) > 1 or part[0].struck:
                self._begin(part, AT_ONCE)
                while self._step():
                    pass
        while self._prepare():
            pass

    def _prepare(self) -> bool:
        """One step of what the next question in task mode would wait for; whether there was."""
        if self._preparing is None:
            bare = next((held for held in self._held if held.sections > LARGE and not held.prepared), None)
            if bare is None:
                return False
            self._preparing = bare.records()
        if next(self._preparing, _DONE) is _DONE:
            self._preparing = None
        return True

    def _begin(self, sources: Sequence[Held], slice_: int = SLICE) -> bool:
        self._sources = [(held, frozenset(held.struck)) for held in sources]
        if sources:
            self._join = join([(held.segment, struck) for held, struck in self._sources], slice_)
        return bool(sources)

    def _step(self) -> bool:
        """One step of the merge that is under way, if any; whether there was."""
        if self._join is None:
            return False
        try:
            next(self._join)
        except StopIteration as done:
            self._replace(Held(Segment(done.value)))
        return True

    def _replace(self, merged: Held) -> None:
        """Put the merged segment in place of its sources, without what was struck off them meanwhile."""
        for held, struck in self._sources:
            for document in held.struck - struck:
                merged.strike(held.segment.path_bytes(document))
        sources = {id(held) for held, _ in self._sources}
        self._held = [held for held in self._held if id(held) not in sources]
        if merged.documents:
            self._held.append(merged)
        self._join, self._sources = None, []

    def _untidy(self) -> Sequence[Held]:
        """The segments to merge next."""
        tiers: dict[int, list[Held]] = {}
        for held in self._held:
            tiers.setdefault((held.weight // SMALL).bit_length() // 2, []).append(held)
        for _, tier in sorted(tiers.items()):
            part = _parts(tier)[0]
            if len(part) >= TIER:
                return part
        return next(([held] for held in self._held if held.stale), [])


def _parts(segments: Sequence[Held]) -> list[list[Held]]:
    """Segments in groups of which each fits one segment, the smallest together."""
    parts: list[list[Held]] = [[]]
    sections = documents = 0
    for held in sorted(segments, key=lambda held: held.weight):
        sections += held.sections
        documents += held.documents
        if parts[-1] and max(sections, documents) > SECTIONS_MAX:
            parts.append([])
            sections, documents = held.sections, held.documents
        parts[-1].append(held)
    return parts if parts[-1] else []
