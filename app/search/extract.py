"""From documents to packed segments: the heavy half of a write, pure and safe in any thread.

`gather` collects a document's words as postings, each with what task mode counts (`code`) and with what body mode
ranks by (`level`); `packed` sorts those of one or many documents into a segment. `extract` does both for one, so that
putting a document into the index is little more than an assignment on the event loop. No single call into C is long:
a big document is packed in pieces and merged, so a hostile megabyte holds the interpreter's lock for milliseconds
only. Everything is linear in the document but for sorting.
"""

from collections.abc import Collection
from functools import lru_cache
from itertools import chain, repeat
from operator import or_
from typing import Final

from msgspec import Struct

from app.markdown.sections import Section, sections
from app.protocol.paths import sort_key
from app.search.entry import Entry, tags_of
from app.search.postings import (
    ABOVE,
    ALIAS,
    HEADING,
    NAMED,
    OWN,
    SOURCE,
    TAG,
    TF,
    TITLE,
    Builder,
    Width,
)
from app.search.ranking import FIELD_BIT, bare_level, is_journal, levels, short_length, step
from app.search.segment import SECTIONS_MAX, DocumentRecord, SectionRecord, segment_of, width_of
from app.search.tokens import Recall, Words, words

__all__ = ["Batch", "Extracted", "Gathered", "extract", "gather", "packed"]

_SHORT: Final = 200  # characters of a heading that is worth remembering
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
    segment: bytes


def extract(entry: Entry, body: bytes, version: int, recall: Recall) -> Extracted:
    """Everything the index keeps of a version of a document (lookup §7.7, §8.1; task §14). Never raises."""
    return Extracted(entry.path, packed(gather(entry, body, version, recall)))


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
        self._records: dict[str, DocumentRecord] = {}
        self._sections = 0
        self._last = b""

    @property
    def documents(self) -> int:
        """How many there are."""
        return len(self._records)

    @property
    def size(self) -> int:
        """Bytes in use, about."""
        return self._builder.size + 250 * self._sections

    def __contains__(self, path: str) -> bool:
        return path in self._records

    def takes(self, document: Gathered) -> bool:
        """Whether the document can be added: its path comes behind the others, and there is room."""
        room = self._sections + document.sections <= SECTIONS_MAX and self.documents < SECTIONS_MAX
        return room and sort_key(document.path) > self._last

    def add(self, document: Gathered) -> None:
        """Take in a document."""
        builder, first, number = self._builder, self._sections, self.documents
        self._sections += document.sections
        sections = chain.from_iterable(map(repeat, range(first, self._sections), document.counts))
        builder.add(OWN, document.terms, list(sections), document.codes, document.levels)
        if document.above:
            terms, numbers, marks = zip(*document.above, strict=True)
            builder.add(ABOVE, terms, [at + first for at in numbers], bytes(len(terms)), bytes(marks))
        if document.named:
            terms, codes, marks = zip(*document.named, strict=True)
            builder.add(NAMED, terms, [number] * len(terms), bytes(codes), bytes(marks))
        self._records[document.path] = document.record
        self._last = sort_key(document.path)

    def packed(self) -> bytes:
        """The segment's buffer. The batch is used up."""
        return segment_of(list(self._records.values()), self._builder.columns())


def packed(document: Gathered) -> bytes:
    """The buffer of a segment of one document."""
    batch = Batch(width_of(1, document.sections))
    batch.add(document)
    return batch.packed()


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
        self._named = self._name(count)

    def _name(self, count: int) -> list[tuple[str, int, int]]:
        """Title, tags, aliases and description: postings by document."""
        codes: dict[str, int] = {}
        levels: dict[str, int] = {}
        lost: set[str] = set()
        entry = self._entry
        texts = [(TAG, tag) for tag in entry.tags] + [(TITLE, entry.title)]
        texts += [(ALIAS, alias) for alias in tags_of(entry.metadata.get("aliases", ""))]
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
        described = Words(entry.metadata.get("description", ""))
        _add(described.own, described.pieces)
        for token, count in described.own.items():
            codes[token] = codes.get(token, 0) | min(count, TF)
        return [(token, code, levels.get(token, 0)) for token, code in codes.items()]

    def add(self, number: int, section: Section) -> None:
        """Take in the next section."""
        self._leave(number)
        heading = _heading(section.heading) if len(section.heading) < _SHORT else _Heading.of(section.heading)
        source = dict.fromkeys(words(" ".join(section.codes)), SOURCE) if section.codes else {}
        headed: Collection[str]  # what body mode takes for words of the heading
        if self._wide:
            text = Words(_with_lost(section))
            _add(text.own, text.pieces)
            headed = heading.wide
            special = text.composed.keys() | heading.wide
        else:
            text = Words(section.own_text)
            headed = heading.own
            special = text.pieces.keys() | heading.task
        own = text.own
        special |= own.keys() & self._since.keys()
        special |= own.keys() & self._field
        rows = levels(short_length(text.length), *self._prior)
        begin = len(self._terms)
        for token in special:
            tf = own.pop(token, 0)
            count = tf if self._wide else tf + text.pieces.get(token, 0)
            tf = tf or text.composed.get(token, 0) if self._wide else tf
            code = min(count, TF) | source.get(token, 0) | (HEADING if token in heading.task else 0)
            value = 0
            if tf or token in headed:
                value = rows[2 * (token in headed) + (token in self._since)][min(tf, TF)]
                value |= FIELD_BIT if token in self._field else 0
            self._terms.append(token)
            self._codes.append(code)
            self._levels.append(value)
        if own:
            counts = own.values()
            capped = bytes(counts) if max(counts) <= TF else bytes([min(count, TF) for count in counts])
            self._terms += own
            self._levels += capped.translate(rows[0])
            self._codes += bytes(map(or_, capped, map(source.get, own, repeat(0)))) if source else capped
        self._counts.append(len(self._terms) - begin)
        self._records.append(_record(number, section, text.length))
        if section.after > number + 1:
            self._enter(number, section.after, headed)

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
        record = DocumentRecord(self._entry.path, self._entry.importance, version, self._records)
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

    @staticmethod
    def of(text: str) -> "_Heading":
        """The words of a heading text."""
        words = Words(text)
        task = frozenset(words.own).union(words.pieces)
        return _Heading(frozenset(words.own), task, task.union(words.composed))


_heading = lru_cache(maxsize=256)(_Heading.of)  # the same few head a large part of the sections of a world


def _with_lost(section: Section) -> str:
    """The own text of a section and the words that stripping takes from it.

    The attributes of a tag are given as written and once more with name and value apart.
    """
    if not section.wide:
        return section.own_text
    apart = section.wide.translate(_APART) if "=" in section.wide else ""
    return f"{section.own_text}\n{section.wide}\n{apart}"


def _add(counts: dict[str, int], more: dict[str, int]) -> None:
    for token, times in more.items():
        counts[token] = counts.get(token, 0) + times


def _record(number: int, section: Section, length: int) -> SectionRecord:
    return SectionRecord(
        section.level,
        section.heading,
        section.anchor,
        section.start,
        section.own_start,
        section.own_end,
        section.after - number,
        length,
    )
