"""An answer of task mode from end to end: who takes part, what is found, how it is shown (task §4, §10 to §12).

Its parts are elsewhere: `task` chooses the rows, `recovery` finds misspelt names, `excerpt` makes the line that a row
shows. Bodies are read for the few rows that are sent.

Work goes in small steps: whoever runs it decides when others get their turn (`app.search.steps`). Between two steps
nothing may change.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import compress, repeat

from msgspec import Struct

from app.markdown.strip import own_text
from app.protocol.paths import sort_key
from app.protocol.tables import LookupRow
from app.search.catalog import Catalog
from app.search.collection import Held
from app.search.excerpt import excerpt, first_line
from app.search.filters import Filter
from app.search.query import Query
from app.search.reader import Reader
from app.search.recovery import recover
from app.search.scoring import Part
from app.search.segment import Segment
from app.search.steps import Steps, heavy
from app.search.task import Found, Picked, find
from app.search.texts import Texts

__all__ = ["Answer", "ReadBody", "answer"]

ReadBody = Callable[[str, int], bytes | None]
"""The body of a version of a document, by its path and number, or None if it cannot be read now."""

_STEP = 500  # documents between two pauses


class Answer(Struct, frozen=True):
    """What a question in task mode gives."""

    rows: list[LookupRow]
    matches: int
    """How many rows there would be without a limit (task §11)."""
    ignored: int
    """Terms behind the last one that counts (task §5.6)."""

    @property
    def truncated(self) -> bool:
        """Whether there are more matches than rows."""
        return self.matches > len(self.rows)


def answer(
    query: Query, segments: Iterable[Held], catalog: Catalog, reader: Reader, read: ReadBody
) -> Steps[Answer]:
    """The answer to a query whose terms are there (`Query.require_terms`), in steps of some milliseconds."""
    assert query.wording is not None, "checked before"
    parts = yield from _parts(query, segments, catalog, reader, read)
    found = yield from find(query.wording, parts, query.limit)
    if not found.population:
        found = yield from _recovered(query, parts, found)
    rows = []
    for picked in found.rows:
        rows.append((yield from _row(query, picked, found)))
        yield
    return Answer(rows, found.population, found.ignored)


def _parts(
    query: Query, segments: Iterable[Held], catalog: Catalog, reader: Reader, read: ReadBody
) -> Steps[list[Part]]:
    """What takes part of each segment: what the reader may read, under scope and filter (task §4)."""
    met: set[str] | None = None
    if query.filter != Filter():
        met = set()
        for paths in catalog.meeting(query):
            met.update(paths)
            yield
    parts = []
    for held in segments:
        segment, view = held.segment, held.view(reader)
        yield
        seen = None if view.whole else bytes(view.documents)
        if query.document:
            only = segment.find(sort_key(query.document))
            begin, end = (only, only + 1) if only >= 0 else (0, 0)
        else:
            begin, end = segment.scope(query.prefix)
        if end - begin < segment.documents:
            inside = seen[begin:end] if seen else b"\1" * (end - begin)
            seen = inside.rjust(end, b"\0").ljust(segment.documents, b"\0")
        if met is not None:
            marks = bytearray(segment.documents)
            for document in range(begin, end):
                marks[document] = (seen is None or seen[document]) and segment.path(document) in met
                if document % _STEP == 0:
                    yield
            seen = bytes(marks)
        if seen is None or any(seen):
            records = yield from held.records()
            parts.append(Part(records, seen, Texts(records, catalog.get, read)))
        yield
    return parts


def _recovered(query: Query, parts: Sequence[Part], found: Found) -> Steps[Found]:
    """The documents whose names are like the query (task §10)."""
    names: list[str] = []
    places: list[tuple[int, int]] = []
    for number, part in enumerate(parts):
        seen = part.seen if part.seen is not None else b"\1" * part.records.documents
        names += compress(part.records.segment.names(), seen)
        places += zip(repeat(number), compress(range(part.records.documents), seen))
        yield
    if len(parts) > 1:
        paths = [parts[number].records.segment.path_bytes(document) for number, document in places]
        yield
        order = sorted(range(len(paths)), key=paths.__getitem__)
        names, places = list(map(names.__getitem__, order)), list(map(places.__getitem__, order))
        yield
    ranked = yield from recover(query.text, names)
    rows = []
    for _, at in ranked[: query.limit]:
        number, document = places[at]
        rows.append(Picked(parts[number], parts[number].records.heads[document], "metadata"))
    return found._replace(rows=rows, population=len(ranked))


def _row(query: Query, picked: Picked, found: Found) -> Steps[LookupRow]:
    """A row as it is sent (task §12)."""
    assert query.wording is not None
    part, record, label = picked
    segment, document = part.records.segment, part.records.of[record]
    entry = part.texts.entry(document)
    body = yield from part.texts.body(document)
    is_head = record == part.records.heads[document]
    description = entry.metadata.get("description", "") if is_head else ""
    anchor = heading = text = ""
    if record < segment.sections:
        anchor, heading, start, end = segment.cut(record)
        text = yield from heavy(end - start, own_text, body[start:end])
    if is_head and (label == "metadata" or not text):
        if not description:
            description = yield from heavy(len(body), _first_text, segment, document, body)
        shown = yield from heavy(len(description), first_line, description)
    else:
        text = f"{description}\n{text}"
        shown = yield from heavy(len(text), excerpt, text, query.wording.phrase.unit, found.terms)
    title = f"{entry.title} › {heading}" if anchor else entry.title
    return LookupRow(entry.path, anchor, entry.importance, title, entry.tags, shown, label)


def _first_text(segment: Segment, document: int, body: bytes) -> str:
    """The text of the first section of a document that has any."""
    for section in range(segment.first[document], segment.first[document + 1]):
        _, _, start, end = segment.cut(section)
        if text := own_text(body[start:end]):
            return text
    return ""
