"""Where the records of a segment have a unit whose words stand together: joined, quoted, literal, or the whole query (task §6, §7).

Postings name the sections that have all its words, marks those where they are neighbours (`app.search.marks`). Where no
other word of the section has the mark of one of these, the marks decide; where one has, and for a unit whose very
characters count, the text does. So text is read for literals, for very long words, and now and then by chance, from
documents that the caller may read and that most likely have the unit.

Work goes in small steps: whoever runs it decides when others get their turn.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from itertools import product
from typing import Final, Literal

from app.search import marks
from app.search.entry import Entry, tags_of
from app.search.postings import SOURCE, TF, Lists
from app.search.records import CLASS, CODED, HEADED, NAMED, TITLED, Column, Listed, Records, column, listed
from app.search.segment import Segment
from app.search.steps import HEAVY, Steps, away
from app.search.texts import Texts
from app.search.tokens import fits
from app.search.wording import Unit, folded, in_a_row, times

__all__ = ["locate"]

_STEP: Final = 200  # sections or documents looked at between two pauses
_BLOCK: Final = 200_000  # bytes of marks that are looked through between two pauses,
_MANY: Final = 4_000  # and sections at most
SCAN: Final = 12  # one section in so many is worth a pass over the marks of all
_PROBE: Final = 200  # a list so many times longer is searched by `bisect`
_AS_STORED: Final = bytes(range(256))

Kind = Literal["own", "named"]
"""Of sections, or of documents: which postings."""


def locate(
    unit: Unit, records: Records, seen: Callable[[int], int] | None, texts: Texts
) -> Steps[Column | None]:
    """The column of a unit over the documents that are seen, `None` where all are; None if none of these has it."""
    known: dict[tuple[str, ...], _Place] = {}
    for choice in unit.choices:
        if choice not in known:
            known[choice] = place = _Place(records, choice)
            if place.indexed and not place.size:
                return None
            if len(known) % _STEP == 0:
                yield
    places = [known[choice] for choice in unit.choices]
    indexed = sorted((place for place in known.values() if place.indexed), key=lambda place: place.size)
    sections: Sequence[int]
    documents: Iterable[int]
    if indexed:
        sections = yield from _common("own", indexed)
        documents = yield from _common("named", indexed)
    else:
        longest = max(places, key=lambda place: len(place.choice[0]))
        sections = yield from longest.anywhere()
        documents = longest.named_anywhere()
    yield
    doubtful: set[int] | None = None  # all, if some words have no postings to tell
    if sections and not unit.verbatim and all(place.indexed or place.plain for place in known.values()):
        words = {token for place in indexed for token in place.choice}
        if len(set(map(marks.mark, words))) == len(words):
            doubtful = yield from records.twins(words)
    search = _Search(unit, places, records, texts, doubtful)
    if len(sections) * SCAN > records.segment.sections:
        sections = yield from search.likely(sections)
    found: list[tuple[int, int]] = []
    looked = 0  # bytes of marks since the last pause
    for number, section in enumerate(sections):
        if seen is None or seen(records.of[section]):
            row = records.segment.marks(section)
            starts = search.starts(row) if len(row) < HEAVY else (yield from away(search.starts, row))
            if starts or search.single:
                times, coded, headed = search.judge(section, row, starts)
                if (times or coded) and search.doubts(section):
                    times, coded = yield from search.read(section, coded)
                    yield
                if times or coded or headed:
                    code = HEADED if headed else CODED if coded else 0
                    found.append((section, min(times, TF) | code << CLASS))
            looked += len(row)
        if number % _STEP == 0 or looked > _BLOCK:
            looked = 0
            yield
    named: list[tuple[int, int]] = []
    for number, document in enumerate(documents):
        if seen is None or seen(document):
            byte = _in_names(unit, texts.entry(document))
            if byte:
                named.append((document, byte))
        if number % _STEP == 0:
            yield
    return column(records, [_columns(found)], [_columns(named)])


def _columns(found: Sequence[tuple[int, int]]) -> Listed:
    return [number for number, _ in found], bytes(byte for _, byte in found)


def _common(kind: Kind, places: Sequence["_Place"]) -> Generator[None, None, list[int]]:
    """The sections, or documents, that have every one of some words, ascending; the rarest word comes first."""
    first, *others = places
    common = first.numbers(kind)
    for place in others:
        yield
        if not common:
            break
        common = place.among(kind, common)
    return sorted(common)


class _Place:
    """A word of a unit, in the form that any of its tokens has, and what a segment has of it."""

    def __init__(self, records: Records, choice: tuple[str, ...]) -> None:
        postings = records.segment.postings
        self.choice = choice
        self.indexed = all(map(fits, choice))
        """Whether the postings know every place that has it."""
        self._records = records
        found = {
            token: number
            for token in choice
            if fits(token) and (number := postings.find(token.encode("utf-8", "surrogatepass"))) >= 0
        }
        self._terms = list(found.values())
        self.size = sum(postings.own.counts[one] + postings.named.counts[one] for one in self._terms)
        """At most how many sections and documents have it."""
        self.marks = frozenset(map(marks.mark, found if self.indexed else choice))
        """The marks of those of its tokens that are here at all."""
        self.plain = all(len(token) == 1 and token.isascii() for token in choice)
        """Whether its marks are nobody else's."""

    def numbers(self, kind: Kind) -> set[int]:
        """The sections that have it in fields of their own, or the documents in title, tags, aliases or description."""
        lists = self._lists(kind)
        return set().union(*(listed(lists, term, _AS_STORED)[0] for term in self._terms))

    def among(self, kind: Kind, numbers: set[int]) -> set[int]:
        """Those of some numbers that have it."""
        lists = self._lists(kind)
        if len(numbers) * _PROBE < self.size:
            spans = list(map(lists.span, self._terms))
            return {one for one in numbers if any(_code(lists, span, one) for span in spans)}
        found = [numbers.intersection(listed(lists, term, _AS_STORED)[0]) for term in self._terms]
        return set().union(*found)

    def in_code(self, section: int) -> bool:
        """Whether a code field of a section has it."""
        lists = self._lists("own")
        return any(_code(lists, lists.span(term), section) & SOURCE for term in self._terms)

    def _lists(self, kind: Kind) -> Lists:
        postings = self._records.segment.postings
        return postings.own if kind == "own" else postings.named

    def anywhere(self) -> Steps[list[int]]:
        """The sections that may have it, of a word that has no postings: a look at all of them, in steps."""
        found = yield from _marked(
            self._records.segment, [one.to_bytes(2, "little") for one in sorted(self.marks)]
        )
        return sorted(found)

    def named_anywhere(self) -> Iterator[int]:
        """The documents that may have it in a field of their own: in a name, or in a description."""
        segment = self._records.segment
        for document, (names, described) in enumerate(zip(segment.names(), segment.described(), strict=True)):
            if described or any(token in names for token in self.choice):
                yield document


def _code(lists: Lists, span: tuple[int, int], number: int) -> int:
    """The code of a posting of a term whose postings are there, 0 if there is none."""
    begin, end = span
    at = bisect_left(lists.numbers, number, begin, end)
    return lists.codes[at] if at < end and lists.numbers[at] == number else 0


def _marked(segment: Segment, patterns: Sequence[bytes]) -> Steps[set[int]]:
    """The sections that have any of some marks, or rows of them: all marks are looked through, in steps."""
    found: set[int] = set()
    for begin, end, size in segment.stretches(_BLOCK, _MANY):
        for pattern in patterns:
            if size <= _BLOCK:
                found.update(segment.marked(pattern, begin, end))
                yield
            else:
                found.update((yield from away(segment.marked, pattern, begin, end)))
    return found


class _Search:
    """Looks for a unit in sections."""

    def __init__(
        self,
        unit: Unit,
        places: Sequence[_Place],
        records: Records,
        texts: Texts,
        doubtful: Collection[int] | None,
    ) -> None:
        self._unit = unit
        self._doubtful = doubtful
        self._lengths = records.segment.lengths()
        self._places = places
        self._records = records
        self._texts = texts
        self.single = len(places) == 1
        """Whether the unit has one word, which code may have without a mark of its own."""
        # Two neighbours are looked for as bytes, the others only where these are.
        pairs = range(max(len(places) - 1, 1))
        self._first = min(pairs, key=lambda at: sum(place.size for place in places[at : at + 2]))
        pair = places[self._first : self._first + 2]
        self._patterns = [array("H", found).tobytes() for found in product(*(place.marks for place in pair))]

    def likely(self, sections: Sequence[int]) -> Steps[Sequence[int]]:
        """Those of many sections that may have the unit: one pass over all marks instead of a look at each."""
        if self.single:
            return sections
        near = yield from _marked(self._records.segment, self._patterns)
        return sorted(near.intersection(sections))

    def starts(self, row: bytes) -> list[int]:
        """Where in a row of marks those of all places follow one another. Touches nothing but the row."""
        places, first = self._places, self._first
        near = []
        for pattern in self._patterns:
            at = row.find(pattern)
            while at >= 0:
                if at % 2:
                    at = row.find(pattern, at + 1)
                else:
                    near.append(at // 2 - first)
                    at = row.find(pattern, at + 2)
        if len(places) < 3 or not near:
            return sorted(near) if len(near) > 1 else near
        # As many looks as there are marks, and each may be in vain?
        if len(near) * len(places) > len(row) // 2:
            before = len(places) - 1
            return [at - before for at in in_a_row([place.marks for place in places], array("H", row))]
        return sorted(start for start in near if start >= 0 and self._all(row, start))

    def _all(self, row: bytes, start: int) -> bool:
        """Whether the marks from there on are those of all places."""
        size = len(self._places)
        if 2 * (start + size) > len(row):
            return False
        cells = memoryview(row).cast("H")[start : start + size]
        return all(cell in place.marks for cell, place in zip(cells, self._places, strict=True))

    def judge(self, section: int, row: bytes, starts: Sequence[int]) -> tuple[int, bool, bool]:
        """What the section most likely has of the unit, which starts at these of its marks: how often its text has it, and
        whether code and heading do."""
        coded = self.single and self._in_code(section, starts)
        times = bisect_left(starts, self._lengths[section])
        if times == len(starts):
            return times, coded, False
        fields = bisect_left(starts, _heading(row))  # behind the own text
        return times, coded or times < fields, fields < len(starts) and self._in_heading(section)

    def doubts(self, section: int) -> bool:
        """Whether the text of the section has to be read to be sure."""
        return self._doubtful is None or section in self._doubtful

    def read(self, section: int, coded: bool) -> Steps[tuple[int, bool]]:
        """How often the text has it, and whether code does that seems to."""
        times = yield from self._texts.times(self._unit, section)
        return times, coded and (yield from self._texts.in_code(self._unit, section))

    def _in_code(self, section: int, starts: Sequence[int]) -> bool:
        """Whether the only word may be in a code field, beyond what the marks of these say."""
        (place,) = self._places
        return place.in_code(section) if place.indexed else bool(starts)

    def _in_heading(self, section: int) -> bool:
        _, heading, _, _ = self._records.segment.cut(section)
        return bool(times(self._unit, folded(heading), 1))


_HEADING: Final = marks.HEADING.to_bytes(2, "little")


def _heading(row: bytes) -> int:
    """Which of the marks in a row stands before those of the heading."""
    at = row.find(_HEADING)
    while at % 2:
        at = row.find(_HEADING, at + 1)
    return at // 2


def _in_names(unit: Unit, entry: Entry) -> int:
    """What the head of a document has of a unit in the fields that are not in its body."""
    count = 0
    description = entry.metadata.get("description")
    if description:
        count = times(unit, folded(description), TF)
    if times(unit, folded(entry.title), 1):
        return count | TITLED << CLASS
    others = (*entry.tags, *tags_of(entry.metadata.get("aliases", "")))
    return count | NAMED << CLASS if any(times(unit, folded(one), 1) for one in others) else count
