"""From documents to packed segments: the heavy half of a write, pure and safe in any thread.

`gather` collects a document's words as postings, each with what task mode counts (`code`) and with what body mode
ranks by (`level`); `batches` sorts those of one or many documents into a segment. `extract` does both for one, so that
putting a document into the index is little more than an assignment on the event loop. No single call into C is long:
a big document is packed in pieces and merged, so a hostile megabyte holds the interpreter's lock for milliseconds
only. Everything is linear in the document but for sorting.
"""

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import chain, repeat
from itertools import count as count_up
from typing import Final

from msgspec import Struct

from app.markdown.sections import Section, sections
from app.protocol.paths import sort_key
from app.search.entry import Entry, tags_of
from app.search.marks import code_runs, marks
from app.search.names import names
from app.search.packing import Builder
from app.search.postings import ABOVE, ALIAS, HEADING, NAMED, OWN, SOURCE, TAG, TF, TITLE, Width
from app.search.ranking import FIELD_BIT, bare_level, is_journal, levels, short_length, step
from app.search.segment import SECTIONS_MAX, Assembly, DocumentRecord, Frame, SectionRecord, width_of
from app.search.tokens import Recall, Words, fits

__all__ = ["Batch", "Extracted", "Gathered", "alone", "batches", "extract", "gather"]

_SHORT: Final = 200  # characters of a heading that is worth remembering
_AS_COUNTED: Final = bytes(range(256))
_IN_SOURCE: Final = bytes(count | SOURCE for count in range(256))
_APART: Final = str.maketrans("=\"'", "   ")


class Gathered(Struct, frozen=True):
    """What the index keeps of a document, not yet packed. Columns as in `postings`, by section and not by term."""

    record: DocumentRecord
    counts: list[int]
    """Own postings of each section."""
    terms: list[str]
    codes: bytes
    levels: bytes
    above: list[tuple[str, int, int]]
    """Term, section, level: by twos."""
    named: list[tuple[str, int, int]]
    """Term, code, level."""

    @property
    def path(self) -> str:
        """Where the document is."""
        return self.record.path

    @property
    def sections(self) -> int:
        """How many sections it has."""
        return len(self.counts)


class Extracted(Struct, frozen=True):
    """A document ready for the index."""

    path: str
    segment: bytes | memoryview


def extract(entry: Entry, body: bytes, version: int, recall: Recall) -> Extracted:
    """Everything the index keeps of a version of a document (lookup §7.7, §8.1; task §14). Never raises."""
    return Extracted(entry.path, alone(gather(entry, body, version, recall)).buffer())


def gather(entry: Entry, body: bytes, version: int, recall: Recall) -> Gathered:
    """The postings of a version of a document (lookup §7.7, §8.1; task §14). Never raises."""
    found = sections(body)
    words = _Document(entry, len(found), recall)
    for number, section in enumerate(found):
        words.add(number, section)
    return words.gathered(version, len(found))


class Batch:
    """Documents on their way into one segment, in path order."""

    def __init__(self, width: Width = "H") -> None:
        self._builder = Builder(width)
        self._assembly = Assembly()
        self._paths: set[str] = set()
        self._last = b""

    @property
    def documents(self) -> int:
        """How many there are."""
        return self._assembly.documents

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def takes(self, document: Gathered) -> bool:
        """Whether the document can be added: its path comes behind the others, and there is room."""
        room = self._assembly.sections + document.sections <= SECTIONS_MAX and self.documents < SECTIONS_MAX
        return room and sort_key(document.path) > self._last

    def add(self, document: Gathered) -> None:
        """Take in a document."""
        builder, first, number = self._builder, self._assembly.sections, self.documents
        sections = chain.from_iterable(map(repeat, count_up(first), document.counts))
        builder.add(OWN, document.terms, list(sections), document.codes, document.levels)
        if document.above:
            terms, numbers, marks = zip(*document.above, strict=True)
            builder.add(ABOVE, terms, [at + first for at in numbers], bytes(len(terms)), bytes(marks))
        if document.named:
            terms, codes, marks = zip(*document.named, strict=True)
            builder.add(NAMED, terms, [number] * len(terms), bytes(codes), bytes(marks))
        self._assembly.add(document.record)
        self._paths.add(document.path)
        self._last = sort_key(document.path)

    def framed(self) -> Frame:
        """The segment. The batch is used up."""
        return self._assembly.framed(self._builder.columns())


def batches(documents: Iterable[Gathered]) -> Iterator[Frame]:
    """The segments of documents in path order, as few as can be."""
    batch = Batch()
    for document in documents:
        if document.sections > SECTIONS_MAX:
            yield alone(document)
            continue
        if not batch.takes(document):
            frame, batch = batch.framed(), Batch()
            yield frame
        batch.add(document)
    if batch.documents:
        frame, batch = batch.framed(), Batch()
        yield frame


def alone(document: Gathered) -> Frame:
    """The segment of one document, whatever its size."""
    batch = Batch(width_of(1, document.sections))
    batch.add(document)
    return batch.framed()


class _Document:
    """The postings of one document in the making."""

    def __init__(self, entry: Entry, count: int, recall: Recall) -> None:
        self._entry = entry
        self._wide = recall == "wide"
        self._prior = step(entry.importance), is_journal(entry.path)
        self._records: list[SectionRecord] = []
        self._field: set[str] = set()  # what every section answers to because title or tags have it
        self._open: list[
            tuple[int, Collection[str]]
        ] = []  # headings we are below: first section behind, tokens
        self._depth: dict[str, int] = {}  # how many of them have a token
        self._since: dict[str, int] = {}  # the first section below the outermost that has it
        self._below: dict[
            str, list[tuple[int, int]]
        ] = {}  # finished: sections below a heading with the token
        self._counts: list[int] = []
        self._terms: list[str] = []
        self._codes = bytearray()
        self._levels = bytearray()
        self._described = 0
        self._named = self._name(count)

    def _name(self, count: int) -> list[tuple[str, int, int]]:
        """Title, tags, aliases and description: postings by document."""
        codes: dict[str, int] = {}
        levels: dict[str, int] = {}
        lost: set[str] = set()
        entry = self._entry
        # Fields never span two tags: those are parted by white space here and by commas where they come from.
        texts = [(TAG, "\n".join(entry.tags)), (TITLE, entry.title)]
        if "aliases" in entry.metadata:
            texts.append((ALIAS, "\n".join(tags_of(entry.metadata["aliases"]))))
        for flag, text in texts:
            words = Words(text)
            for token in (*words.own, *words.pieces):
                codes[token] = codes.get(token, 0) | flag
            if flag != ALIAS:
                levels.update(dict.fromkeys(words.own, bare_level(flag == TITLE, *self._prior)))
                self._field.update(words.own)
                lost.update(words.pieces, words.composed)
        if self._wide:  # they make no bare row, but stand above every section like a heading
            self._enter(-1, count, lost - self._field)
        if "description" in entry.metadata:
            described = Words(entry.metadata["description"])
            self._described = described.length
            _add(described.own, described.pieces)
            for token, count in described.own.items():
                codes[token] = codes.get(token, 0) | min(count, TF)
        return [(token, code, levels.get(token, 0)) for token, code in codes.items()]

    def add(self, number: int, section: Section) -> None:
        """Take in the next section."""
        self._leave(number)
        heading = _heading(section.heading) if len(section.heading) < _SHORT else _Heading.of(section.heading)
        text = Words(section.own_text)
        own, pieces = text.own, text.pieces
        length = text.length
        codes, source = code_runs(section.codes, own)
        more: dict[str, int] = {}  # what body mode counts beyond the own text's tokens
        composed: dict[str, int] = {}
        headed = heading.own  # what body mode takes for words of the heading
        if self._wide:
            more, composed, headed = pieces.copy(), text.composed, heading.wide
            if section.wide:
                lost = Words(_lost(section))
                _add(more, lost.own)
                _add(more, lost.pieces)
                _add(composed, lost.composed)
                length += lost.length
        # Words that stand elsewhere too; all others are handled by the column.
        special = {*pieces, *more, *composed, *heading.task, *headed}
        special |= own.keys() & self._since.keys()
        special |= own.keys() & self._field
        special.update(filter(fits, source.difference(own)))
        rows = levels(short_length(length), *self._prior)
        begin = len(self._terms)
        task, since, field = heading.task, self._since, self._field
        for token in special:
            plain = own.pop(token, 0)
            count = plain + pieces.get(token, 0)
            tf = plain + more.get(token, 0) or composed.get(token, 0)
            value = 0
            if tf or token in headed:
                value = rows[2 * (token in headed) + (token in since)][tf if tf < TF else TF]
                value |= FIELD_BIT * (token in field)
            self._terms.append(token)
            self._codes.append(
                (count if count < TF else TF) | SOURCE * (token in source) | HEADING * (token in task)
            )
            self._levels.append(value)
        if source:
            marked = own.keys() & source
            self._post(marked, list(map(own.pop, marked)), rows[0], _IN_SOURCE)
        self._post(own, own.values(), rows[0], _AS_COUNTED)
        self._counts.append(len(self._terms) - begin)
        self._records.append(_record(number, section, text.length, marks(text.order, codes, heading.order)))
        if section.after > number + 1:
            self._enter(number, section.after, headed)

    def _post(self, terms: Collection[str], counts: Collection[int], row: bytes, code: bytes) -> None:
        """Postings of tokens that stand in the own text and nowhere else; most do, so by whole columns."""
        if terms:
            capped = bytes(counts) if max(counts) <= TF else bytes([min(count, TF) for count in counts])
            self._terms += terms
            self._codes += capped.translate(code)
            self._levels += capped.translate(row)

    def _enter(self, number: int, after: int, headed: Collection[str]) -> None:
        """The sections up to `after` stand below this one's heading."""
        self._open.append((after, headed))
        for token in headed:
            self._depth[token] = self._depth.get(token, 0) + 1
            self._since.setdefault(token, number + 1)

    def _leave(self, number: int) -> None:
        """The section with this number stands below fewer headings, perhaps."""
        while self._open and self._open[-1][0] <= number:
            after, headed = self._open.pop()
            for token in headed:
                self._depth[token] -= 1
                if not self._depth[token]:
                    del self._depth[token]
                    self._below.setdefault(token, []).append((self._since.pop(token), after))

    def _above(self, count: int) -> list[tuple[str, int, int]]:
        """Runs of sections that have a token from above; of a title's or tag's token the gaps between them too."""
        beside, below, *_ = (row[0] for row in levels(0, *self._prior))
        rows: list[tuple[str, int, int]] = []
        for token in self._below.keys() | self._field:
            field = FIELD_BIT if token in self._field else 0
            end = 0
            for start, after in (*self._below.get(token, ()), (count, count)):
                if field and end < start:
                    rows += (token, end, beside | field), (token, start - 1, beside | field)
                if start < after:
                    rows += (token, start, below | field), (token, after - 1, below | field)
                end = after
        return rows

    def gathered(self, version: int, count: int) -> Gathered:
        """The finished postings of so many sections."""
        self._leave(count)
        entry = self._entry
        record = DocumentRecord(
            entry.path, entry.importance, version, self._described, names(entry), self._records
        )
        return Gathered(
            record,
            self._counts,
            self._terms,
            bytes(self._codes),
            bytes(self._levels),
            self._above(count),
            self._named,
        )


class _Heading(Struct, frozen=True):
    """The words of a heading."""

    own: frozenset[str]
    """Its tokens."""
    task: frozenset[str]
    """And those of task mode."""
    wide: frozenset[str]
    """And those of recall `wide`."""
    order: tuple[str, ...]
    """Its runs of letters and numbers in their order."""

    @staticmethod
    def of(text: str) -> "_Heading":
        """The words of a heading text."""
        words = Words(text)
        task = frozenset(words.own).union(words.pieces)
        return _Heading(frozenset(words.own), task, task.union(words.composed), tuple(words.order))


_heading = lru_cache(maxsize=256)(_Heading.of)  # the same few head a large part of the sections of a world


def _lost(section: Section) -> str:
    """The words that stripping takes from a section's text; the attributes of a tag as written, and once more with name
    and value apart."""
    apart = section.wide.translate(_APART) if "=" in section.wide else ""
    return f"{section.wide}\n{apart}"


def _add(counts: dict[str, int], more: dict[str, int]) -> None:
    for token, times in more.items():
        counts[token] = counts.get(token, 0) + times


def _record(number: int, section: Section, length: int, row: bytes) -> SectionRecord:
    return SectionRecord(
        section.level,
        section.heading,
        section.anchor,
        section.start,
        section.own_start,
        section.own_end,
        section.after - number,
        length,
        row,
    )
