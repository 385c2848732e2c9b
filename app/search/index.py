"""The section index: LOOKUP in body and in task mode, answered from memory (lookup §8, §10; task §14).

Goals: answers in well under a millisecond on a slow core, at less than the bytes of the bodies; a write costs in proportion
to its document; whatever was written before, the answer is that of a fresh start, order included; what a caller may
not read leaves no trace in rows, order or statistics.

Non-goals: prefixes, fuzzy matches in text (a walk over a vocabulary has no bound), scores in the answer, storage on
disk (segments are packed so that they could be mapped, but nothing is written).

Structure: a few immutable packed segments, each of documents in path order with posting lists by section; a write
adds a segment of one document and strikes the old one off; `fold` merges small segments, a slice at a time.

Why not its rivals, measured on the 10.9 MB and 12,585 sections of documentation of the bench (BUILD.md):
- a dict of dicts: 4 times the bodies; every posting is an object;
- SQLite FTS5: 1.25 times, slower by this module's bench, and neither order nor statistics can be what a caller may read;
- tantivy: a compiled dependency for every board; ranking and non-interference would still have to be built beside it;
- numpy: 30 MB of memory for what `array`, `bytes.find` and `bisect` do on lists this short.
Measured: 4.1 bytes a posting in 862,000, 13 bytes and its text a term, 55 bytes a section, 2 bytes for each
word in its place (`marks`, for task mode alone: 0.35 of the bodies), 0.91 of the bodies in all.

What the answer depends on, and nothing else: of every document its path, entry and sections; of a caller
`Access.key`. Sections that have a term from a heading above or from the title are not stored one by one but as runs,
so a hostile document cannot multiply its words by its sections.
"""

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final, NamedTuple, cast

from msgspec import Struct

from app.markdown.snippet import snippet
from app.markdown.strip import own_text
from app.protocol.limits import RESPONSE_MAX
from app.protocol.tables import LookupRow
from app.search.answer import Answer, answer
from app.search.catalog import Catalog
from app.search.collection import Collection, Held
from app.search.entry import Entry
from app.search.extract import Extracted, Gathered, extract, gather
from app.search.filters import Filter
from app.search.matching import BARE, Hit, Sight, Term, View, best, look_up
from app.search.query import Query
from app.search.ranking import shares, weight
from app.search.reader import Reader
from app.search.segment import Segment
from app.search.steps import Steps, done, heavy
from app.search.tokens import Recall, body_terms

__all__ = ["Match", "ReadBody", "SectionIndex", "Stats"]

ReadBody = Callable[[str, int], bytes | None]
"""The body of a version of a document, by its path and number, or None if it cannot be read now."""


class Match(NamedTuple):
    """A row in the making: a section of a segment, or a document of it. It holds on to the segment, so that it stays
    what was matched whatever is written before its row is made."""

    segment: Segment
    document: int
    section: int
    """`BARE` for the document itself."""

    @property
    def path(self) -> str:
        """Where the document is."""
        return self.segment.path(self.document)

    @property
    def version(self) -> int:
        """Which version of it."""
        return self.segment.version(self.document)

    @property
    def cut(self) -> tuple[str, str, int, int]:
        """Anchor and heading, and where the section's own content is in the body; nowhere for the document itself."""
        return ("", "", 0, 0) if self.section == BARE else self.segment.cut(self.section)


class Stats(Struct, frozen=True):
    """How much the index holds. Documents and sections count live ones; terms those of each segment."""

    documents: int
    sections: int
    segments: int
    terms: int
    postings: int
    size: int
    """Bytes of all segments."""


class SectionIndex:
    """The sections of the live documents of a world. One thread at a time; `extract` and `gather` in any.

        document = index.extract(entry, body, version)        # heavy; in the writer's thread
        index.put(document)                                   # in one step with catalog.put(entry)
        index.drop(path)                                      # in one step with catalog.drop(path)
        rows = index.lookup(query, access, read_body)
        index.fold()                                          # when idle, for as long as it says that there is more

    While a world is read, put what `gather` gives and `settle` at the end: documents are then packed many at once,
    which takes half the time if they come in path order.
    """

    def __init__(self, catalog: Catalog, recall: Recall = "wide") -> None:
        self.recall: Final = recall
        self._catalog = catalog
        self._segments = Collection()

    def extract(self, entry: Entry, body: bytes, version: int) -> Extracted:
        """A version of a document, ready to be put (lookup §7.7, §8.1). Pure; never raises."""
        return extract(entry, body, version, self.recall)

    def gather(self, entry: Entry, body: bytes, version: int) -> Gathered:
        """The same, not yet packed. Pure; never raises."""
        return gather(entry, body, version, self.recall)

    def put(self, document: Extracted | Gathered) -> None:
        """The document is live with this content from now on, in place of what was at its path."""
        self._segments.put(document)

    def add(self, segment: bytes | memoryview) -> None:
        """A segment of documents that are live from now on and were not before, from `batches`."""
        self._segments.add(segment)

    def drop(self, path: str) -> None:
        """There is no live document at this path any more."""
        self._segments.drop(path)

    def fold(self) -> bool:
        """Do a few milliseconds of tidying; whether there may be more to do. Answers do not change."""
        return self._segments.fold()

    def settle(self) -> None:
        """Do all tidying at once, which takes a second for ten megabytes. Answers do not change."""
        self._segments.settle()

    def stats(self) -> Stats:
        """How much there is."""
        held = list(self._segments)
        return Stats(
            documents=sum(one.documents for one in held),
            sections=sum(one.sections for one in held),
            segments=len(held),
            terms=sum(one.segment.postings.size for one in held),
            postings=sum(one.weight for one in held),
            size=sum(len(one.segment.buffer) for one in held),
        )

    def lookup(self, query: Query, reader: Reader, read_body: ReadBody) -> list[LookupRow]:
        """The rows of a body-mode answer, ordered and limited (lookup §8).

        `read_body` is asked for the version that was matched of each document with a row that has a snippet.
        """
        return done(self.lookup_steps(query, reader, read_body))

    def lookup_steps(self, query: Query, reader: Reader, read_body: ReadBody) -> Steps[list[LookupRow]]:
        """The same, a few milliseconds at a time; nothing may be put or dropped until it is at its end."""
        matches = yield from self._match(query, reader)
        terms = [token for tokens in body_terms(query.text, self.recall) for token in tokens]
        bodies = _Bodies(read_body)
        rows: list[LookupRow] = []
        size = 0
        for match in matches:
            rows.append((yield from self._row(match, terms, bodies)))
            size += len(rows[-1].title)
            if size > RESPONSE_MAX:  # more than anybody reads
                break
            yield
        return rows

    def _row(self, match: Match, terms: Sequence[str], bodies: "_Bodies") -> Steps[LookupRow]:
        """The row of a match (lookup §8.5)."""
        path, (anchor, heading, start, end) = match.path, match.cut
        entry = self._catalog.get(path)
        assert entry is not None, "catalog and sections change together"
        body = (yield from bodies.of(match)) if end else None
        shown = "" if body is None else (yield from heavy(end - start, _snippet, body[start:end], terms))
        title = f"{entry.title} › {heading}" if anchor else entry.title
        return LookupRow(path, anchor, entry.importance, title, entry.tags, shown)

    def match(self, query: Query, reader: Reader) -> list[Match]:
        """What a query matches among the documents that the reader may read, ordered and limited (lookup §8.3, §8.4)."""
        return done(self._match(query, reader))

    def _match(self, query: Query, reader: Reader) -> Steps[list[Match]]:
        terms = [list(map(_bytes, tokens)) for tokens in body_terms(query.text, self.recall)]
        if not terms:
            return []
        parts = []
        for held in self._segments:
            postings, view = held.segment.postings, held.view(reader)
            found = [look_up(postings, tokens) for tokens in terms[:_TERMS]]
            for begin in range(_TERMS, len(terms), _TERMS):
                yield
                found += [look_up(postings, tokens) for tokens in terms[begin : begin + _TERMS]]
            parts.append(_Part(held, view, found))
            yield
        whole = [(held, view, cast(list[Term], found)) for held, view, found in parts if None not in found]
        if not whole:
            return []
        portions = [1.0]
        if len(terms) > 1:
            portions = yield from _portions(parts)
        places: list[_Place] = []
        for held, view, all_found in whole:
            segment, scope = held.segment, held.segment.scope(query.prefix)
            sight = (
                view.sight() if query.filter == _NO_FILTER else self._filtered(segment, view, query.filter)
            )
            hits = yield from best(segment, held.spread, all_found, portions, scope, query.limit, sight)
            places += zip(hits, repeat(segment))
        if len(whole) > 1:
            places.sort(key=_rank)
        return [Match(segment, hit[2], hit[3]) for hit, segment in places[: query.limit]]

    def task(self, query: Query, reader: Reader, read_body: ReadBody) -> Answer:
        """The answer to a query in task mode (task §1): see `answer`. Raises `Fault` if it has no term."""
        return done(self.task_steps(query, reader, read_body))

    def task_steps(self, query: Query, reader: Reader, read_body: ReadBody) -> Steps[Answer]:
        """The same, a few milliseconds at a time; nothing may be put or dropped until it is at its end."""
        query.require_terms()
        return answer(query, self._segments, self._catalog, reader, read_body)

    def _filtered(self, segment: Segment, view: View, filter_: Filter) -> Sight:
        """What is seen and meets the filter; each document is asked about once."""
        known: dict[int, bool] = {}

        def document_meets(document: int) -> bool:
            answer = known.get(document)
            if answer is None:
                entry = self._catalog.get(segment.path(document)) if view.documents[document] else None
                answer = known[document] = entry is not None and filter_.matches(entry)
            return answer

        return Sight(document_meets, lambda section: document_meets(segment.document_of(section)))


class _Part(NamedTuple):
    """What one segment has to say to a query."""

    held: Held
    view: View
    terms: list[Term | None]


class _Bodies:
    """The bodies that rows are made from: the last few megabytes of what was read."""

    def __init__(self, read: ReadBody) -> None:
        self._read = read
        self._kept: dict[str, bytes | None] = {}
        self._size = 0

    def of(self, match: Match) -> Steps[bytes | None]:
        """The body of a document, None if it cannot be read now."""
        path = match.path
        if path not in self._kept:
            size = match.segment.body_size(match.document)
            body = yield from heavy(size, self._read, path, match.version)
            self._size += size
            if self._size > _KEPT:
                self._kept.clear()
                self._size = size
            self._kept[path] = body
        return self._kept[path]


def _snippet(raw: bytes, terms: Sequence[str]) -> str:
    return snippet(own_text(raw), terms)


def _portions(parts: Sequence[_Part]) -> Steps[list[float]]:
    """The weight of each term, over the sections that are seen."""
    sections = sum(part.view.sections for part in parts)
    having = [0] * len(parts[0].terms)
    for part in parts:
        for number, term in enumerate(part.terms):
            if term:
                having[number] += term.count(part.view)
                if term.size > _MANY:
                    yield
    return shares([weight(sections, count) for count in having])


_TERMS: Final = 64  # looked up between two pauses
_MANY: Final = 10_000  # sections of a term that take a millisecond to count
_KEPT: Final = 8_000_000  # bytes of bodies
_NO_FILTER: Final = Filter()

_Place = tuple[Hit, Segment]


def _rank(place: _Place) -> tuple[float, float, bytes, bytes, int]:
    """What orders the hits of several segments (lookup §8.4); at last their place in the document, for equal anchors."""
    (score, importance, document, section), segment = place
    anchor = b"" if section == BARE else segment.anchor(section)
    return score, importance, segment.path_bytes(document), anchor, section


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
