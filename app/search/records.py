"""The records of a segment as task mode sees them, and what they hold of a term: columns of bytes (task §3, §6).

A document's records are its head and its sections. In a segment the sections keep their numbers; a head is the section
before the first heading if there is one, else it comes behind the sections, in the order of documents. What a record
has of a term is one byte: how often its own text has it, up to 31, and above that the class of the best other field.
A column is such a byte for every record, so that counting, summing and masking sixty thousand of them is arithmetic on
one long integer and looking them up is `bytes.translate`, at the speed of C.
"""

from array import array
from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import chain, compress, pairwise, repeat
from operator import mul
from typing import Final, NamedTuple

from app.search import marks
from app.search.postings import ALIAS, HEADING, SOURCE, TAG, TF, TITLE, Lists
from app.search.segment import Segment

__all__ = [
    "CLASS",
    "CODED",
    "HEADED",
    "NAMED",
    "TEXT",
    "TITLED",
    "WEIGHTS",
    "Column",
    "Records",
    "column",
    "listed",
]

CLASS: Final = 5
"""A record's byte is its count of the term, and above this bit its class."""

CODED, HEADED, NAMED, TITLED = range(1, 5)
"""Classes: a code field, a heading, a tag or alias, the title has it."""

WEIGHTS: Final = (0, 30, 50, 75, 100)
"""What a field is worth, by class (task §3)."""

_TERMS: Final = 8_000  # terms whose marks are made in a step
_FREQUENT: Final = 24  # a word that one in so many records has is worth keeping the column of
_SHARE: Final = 8  # columns that are kept take one part in so many of the segment's own size

TEXT: Final = 10
"""What the own text is worth in a phrase (task §3)."""


def _of_section(code: int) -> int:
    return code & TF | (HEADED if code & HEADING else CODED if code & SOURCE else 0) << CLASS


def _of_document(code: int) -> int:
    return code & TF | (TITLED if code & TITLE else NAMED if code & (TAG | ALIAS) else 0) << CLASS


def _raised(byte: int, least: int) -> int:
    return byte & TF | max(byte >> CLASS, least) << CLASS


_OF_SECTION: Final = bytes(map(_of_section, range(256)))
_OF_DOCUMENT: Final = bytes(map(_of_document, range(256)))
_RAISED: Final = [bytes(_raised(byte, least) for byte in range(256)) for least in range(TITLED + 1)]
_IS_HEADED: Final = bytes(byte >> CLASS == HEADED for byte in range(256))


class Column(NamedTuple):
    """What the records of a segment have of a term."""

    own: bytes
    """By record: in fields of its own."""
    full: bytes
    """By record: inherited fields too. A record matches exactly if its byte here is not zero."""
    documents: bytes
    """By document: 1 if any of its records matches."""


class Records:
    """What task mode needs to know of a segment, whatever is asked."""

    __slots__ = (
        "_kept",
        "_marks",
        "_room",
        "documents",
        "first",
        "heads",
        "leads",
        "lengths",
        "of",
        "segment",
        "size",
        "sizes",
        "texts",
        "totals",
    )

    @classmethod
    def made(cls, segment: Segment) -> "Generator[None, None, Records]":
        """Those of a segment, in steps of a few milliseconds."""
        records = cls(segment)
        for column in records._columns():
            column()
            yield
        return records

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.first = segment.first
        self.documents = segment.documents
        self.size = segment.sections + segment.documents
        """How many records there are, counting those behind the sections that no document needs."""
        self.heads = array("I", range(segment.sections, self.size))
        """The head of each document."""
        self.lengths = array("I")
        """Runs of letters and numbers in the own text of each record (task §9)."""
        self.of: list[int] = []
        """The document of each record; a list, which is asked in a third of the time that an array takes."""
        self.sizes = b""
        """The lengths, roughly: how many bits they have."""
        self.totals = array("Q")
        """The lengths of all records of a document together."""
        self.texts = array("I")
        """How many records of a document have text."""
        self.leads = b""
        """1 for each section that has others below it."""
        self._marks = bytearray()
        self._kept: dict[tuple[bytes, ...], Column] = {}
        self._room = len(segment.buffer) // _SHARE // (2 * self.size or 1)

    def _columns(self) -> "tuple[Callable[[], None], ...]":
        return self._place_heads, self._assign, self._size, self._total, self._lead

    def _place_heads(self) -> None:
        segment, first, lengths, sections = self.segment, self.first, self.lengths, self.segment.sections
        lengths.frombytes(segment.lengths().tobytes())
        lengths.frombytes(segment.described().tobytes())
        for document in range(segment.documents):
            start = first[document]
            if start < first[document + 1] and not segment.level(start):
                lengths[start] += lengths[sections + document]
                lengths[sections + document] = 0
                self.heads[document] = start

    def _assign(self) -> None:
        numbers = range(self.documents)
        counts = map(int.__sub__, self.first[1:], self.first)
        self.of = list(chain(chain.from_iterable(map(repeat, numbers, counts)), numbers))

    def _size(self) -> None:
        self.sizes = bytes(map(int.bit_length, self.lengths))

    def _total(self) -> None:
        lengths, sizes, sections = self.lengths, self.sizes, self.segment.sections
        for document, (start, end) in enumerate(pairwise(self.first)):
            behind = lengths[sections + document]
            self.totals.append(sum(lengths[start:end]) + behind)
            self.texts.append(end - start - sizes.count(0, start, end) + (behind > 0))

    def _lead(self) -> None:
        self.leads = bytes(map((1).__lt__, self.segment.spans()))

    def twins(self, words: Iterable[str]) -> Generator[None, None, set[int]]:
        """The sections that have a word with the mark of one of these words, but none of them; in steps.

        Elsewhere the marks of these words stand for nothing else.
        """
        postings, known = self.segment.postings, self._marks
        while len(known) < 2 * postings.size:
            done = len(known) // 2
            known += marks.of_terms(postings.terms(done, min(done + _TERMS, postings.size)))
            yield
        wanted = {word.encode("utf-8", "surrogatepass"): marks.mark(word) for word in words}
        found: set[int] = set()
        for mark in set(wanted.values()):
            pattern = mark.to_bytes(2, "little")
            at = known.find(pattern)
            while at >= 0:
                term, odd = divmod(at, 2)
                if not odd and postings.terms(term, term + 1)[0] not in wanted:
                    found.update(postings.own.between(*postings.own.span(term)))
                at = known.find(pattern, at + 1)
        yield
        return found

    def word(self, tokens: tuple[bytes, ...]) -> "Column | None":
        """The column of a word that any of these tokens satisfies; None if nothing has any.

        Those of frequent words are kept, as far as there is room.
        """
        kept = self._kept.pop(tokens, None)
        if kept is not None:
            self._kept[tokens] = kept
            return kept
        postings = self.segment.postings
        numbers = [number for token in tokens if (number := postings.find(token)) >= 0]
        if not numbers:
            return None
        sections = [listed(postings.own, number, _OF_SECTION) for number in numbers]
        named = [listed(postings.named, number, _OF_DOCUMENT) for number in numbers]
        found = column(self, sections, named)
        if found is not None and self._room and sum(len(one) for _, one in sections) * _FREQUENT > self.size:
            if len(self._kept) == self._room:
                del self._kept[next(iter(self._kept))]
            self._kept[tokens] = found
        return found

    def place(self, record: int) -> tuple[int, int]:
        """The document of a record and its place in it, that of the head being -1."""
        document = self.of[record]
        return document, -1 if record == self.heads[document] else record

    def members(self, document: int) -> Iterable[int]:
        """The records of a document in their order."""
        head, start = self.heads[document], self.first[document]
        return chain((head,), range(start + (head == start), self.first[document + 1]))

    def spread(self, documents: bytes) -> bytes:
        """A byte for each document given to each of its records."""
        ones = [documents[at : at + 1] for at in range(len(documents))]
        sizes = map(int.__sub__, self.first[1:], self.first)
        return b"".join(map(mul, ones, sizes)) + documents


Listed = tuple[Sequence[int], bytes]
"""Numbers of sections or documents, ascending, and a byte for each."""


def listed(lists: Lists, number: int, table: bytes) -> Listed:
    """The postings of a term that count in task mode."""
    begin, end = lists.span(number)
    numbers, found = lists.between(begin, end), lists.codes[begin:end].tobytes().translate(table)
    if 0 in found:  # there for body mode alone
        return list(compress(numbers, found)), found.replace(b"\0", b"")
    return numbers, found


def column(records: Records, sections: Iterable[Listed], named: Iterable[Listed]) -> Column | None:
    """The column of what several lists have together; None if they have nothing."""
    first, heads = records.first, records.heads
    own = bytearray(records.size)
    having: set[int] = set()
    headed: list[int] = []
    for turn, (numbers, found) in enumerate(sections):
        _put(own, numbers, found, fresh=not turn)
        having.update(map(records.of.__getitem__, numbers))
        headed += compress(numbers, found.translate(_IS_HEADED))
    everywhere: list[tuple[int, int]] = []
    for numbers, found in named:
        _put(own, [heads[document] for document in numbers], found, fresh=False)
        having.update(numbers)
        everywhere += [
            (number, byte >> CLASS) for number, byte in zip(numbers, found, strict=True) if byte > TF
        ]
    if not having:
        return None
    full = bytearray(own)
    spans = records.segment.spans()
    for section in filter(records.leads.__getitem__, headed):
        span = spans[section]
        full[section + 1 : section + span] = full[section + 1 : section + span].translate(_RAISED[HEADED])
    for document, least in everywhere:
        start, end = first[document], first[document + 1]
        full[start:end] = full[start:end].translate(_RAISED[least])
    documents = bytearray(records.documents)
    for document in having:
        documents[document] = 1
    return Column(bytes(own), bytes(full), bytes(documents))


def _put(row: bytearray, numbers: Sequence[int], found: bytes, *, fresh: bool) -> None:
    """Note what some records have, beside what was noted of them before unless the row is fresh."""
    if fresh:
        for number, byte in zip(numbers, found, strict=True):
            row[number] = byte
        return
    for number, byte in zip(numbers, found, strict=True):
        before = row[number]
        if before:
            times = (before & TF) + (byte & TF)
            byte = (times if times < TF else TF) | (before if before > byte else byte) & ~TF
        row[number] = byte
