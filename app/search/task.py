"""Task mode: a task in the caller's own words, answered with the sections that cover it together (task §5.6 to §9).

What each record has of each term comes as columns of bytes (`records`, `exact`), what it is worth from `scoring`. Here
is what follows:

    phrase     the whole query stands somewhere, and is technical or in a field that names: those documents alone
    complete   a record has every term; one row a document
    partial    with fewer than five such documents, the rest: the records of documents that have enough terms
               together, each chosen for what it adds to those before

Only the best rows are wanted, so records are taken from the highest bound down until no other can come in: of sixty
thousand records some hundred are scored. What a caller may not read takes part in nothing.

Work goes in small steps: whoever runs it decides when others get their turn. Between two steps nothing may change.
"""

from bisect import insort
from collections.abc import Collection, Iterator, Sequence
from itertools import compress
from typing import Final, Literal, NamedTuple

from app.search.complement import MARGIN, STEP, Pool, complement, from_the_top
from app.search.exact import locate
from app.search.postings import TF
from app.search.records import CLASS, WEIGHTS, Column
from app.search.scoring import IMPORTANCE, Part, Scale, Sheet, measured, phrase_bonus, rounded
from app.search.steps import Steps
from app.search.tokens import fits
from app.search.wording import EXACT_MAX, Unit, Wording, settle, variants

__all__ = ["Found", "Label", "Picked", "find", "floor"]

Label = Literal["complete", "partial", "metadata"]

FILL: Final = 5
"""With so many complete documents there are no partial rows (task §8)."""

SWITCH: Final = 30
"""The weight from which on a plain phrase hides everything else: it stands in a field that names (task §7)."""

_RECORDS: Final = 500
"""Records of a document that are compared between two pauses."""

_ALL: Final = bytes(255 * min(byte, 1) for byte in range(256))


class Picked(NamedTuple):
    """A row in the making."""

    part: Part
    record: int
    label: Label


class Found(NamedTuple):
    """What a query found."""

    rows: list[Picked]
    population: int
    """How many rows there would be without a limit (task §11)."""
    terms: list[Unit]
    """What was looked for."""
    ignored: int
    """Terms behind the last one that counts."""


def floor(terms: int) -> int:
    """The least number of so many terms that a document must match (task §8)."""
    return (35 * terms + 99) // 100


def find(wording: Wording, parts: Sequence[Part], limit: int) -> Steps[Found]:
    """The rows of a query, without those of recovery."""
    held: dict[Unit, list[Column | None]] = {}
    for unit in [unit for unit in wording.units if unit.exact][:EXACT_MAX]:
        held[unit] = yield from _columns(unit, parts)
    terms, ignored = settle(wording.units, lambda unit: any(held.get(unit, ())))
    for unit in terms:
        if unit not in held:
            held[unit] = yield from _columns(unit, parts)
    whole = wording.phrase.unit
    phrase = held[whole] if whole in held else (yield from _columns(whole, parts))
    sheets = []
    for part, column in zip(parts, phrase, strict=True):
        sheets.append(Sheet(part, column))
        yield
    for unit in terms:
        for sheet, column in zip(sheets, held[unit], strict=True):
            sheet.add(column)
            yield
    having = list(map(sum, zip(*(sheet.having for sheet in sheets), strict=True)))
    scale = Scale(parts, having or [0] * len(terms))
    choice = _Choice(sheets, scale, len(terms), limit)
    yield from measured(sheets, scale)
    weight = max(map(_phrase_weight, sheets), default=0)
    if weight and (wording.phrase.technical or weight >= SWITCH):
        rows, population = yield from choice.of_phrase()
    else:
        rows, population = yield from choice.of_terms()
    return Found(rows, population, terms, ignored)


def _columns(unit: Unit, parts: Sequence[Part]) -> Steps[list[Column | None]]:
    """The columns of a unit, for each part."""
    columns = []
    words = variants(unit.text) if unit.kind == "word" else ()
    if words and all(map(fits, words)):
        tokens = tuple(word.encode("utf-8", "surrogatepass") for word in words)
        for part in parts:
            columns.append(part.records.word(tokens))
            yield
    else:
        for part in parts:
            seen = None if part.seen is None else part.seen.__getitem__
            columns.append((yield from locate(unit, part.records, seen, part.texts)))
            yield
    return columns


def _phrase_weight(sheet: Sheet) -> int:
    """The highest weight of a field that has the phrase; text alone counts as 1."""
    highest = max(set(sheet.own_phrase), default=0)
    return WEIGHTS[highest >> CLASS] or int(highest > 0)


Rows = Steps[tuple[list[Picked], int]]


class _Choice:
    """The best rows of an answer."""

    def __init__(self, sheets: Sequence[Sheet], scale: Scale, terms: int, limit: int) -> None:
        self._sheets = sheets
        self._scale = scale
        self._terms = terms
        self._limit = limit

    def of_phrase(self) -> Rows:
        """The documents that have the phrase, the best record of each (task §7)."""
        eligible = [sheet.own_phrase for sheet in self._sheets]
        documents = yield from self._documents(eligible)
        rows = yield from self._best_documents(eligible)
        return rows, sum(map(len, documents))

    def of_terms(self) -> Rows:
        """The complete rows and, if they are few, the partial ones (task §8)."""
        every = bytes(255 * (count == self._terms) for count in range(256))
        eligible = []
        for sheet in self._sheets:
            eligible.append(sheet.terms.translate(every))
            yield
        complete = yield from self._documents(eligible)
        population = sum(map(len, complete))
        rows = yield from self._best_documents(eligible)
        if population < FILL:
            partial = []
            for sheet, done in zip(self._sheets, complete, strict=True):
                partial.append(_partial(sheet, done, floor(self._terms)))
                yield
            population += sum(len(row) - row.count(0) for row in partial)
            added = yield from complement(self._sheets, partial, self._scale, self._limit - len(rows))
            rows += [Picked(self._sheets[number].part, record, "partial") for number, record in added]
        return rows, population

    def _documents(self, eligible: Sequence[bytes]) -> Steps[list[set[int]]]:
        """The documents of each segment with records in its row that are not zero."""
        found = []
        for sheet, row in zip(self._sheets, eligible, strict=True):
            found.append({sheet.part.records.of[record] for record in _members(row)})
            yield
        return found

    def _best_documents(self, eligible: Sequence[bytes]) -> Steps[list[Picked]]:
        """The best documents, each with the best of its eligible records (task §8, §9)."""
        pools = []
        for number, (sheet, row) in enumerate(zip(self._sheets, eligible, strict=True)):
            if _some(row):
                pools += _pools(number, sheet, row)
                yield
        best: list[tuple[float, bytes, int, int]] = []
        done: set[tuple[int, int]] = set()
        for most, number, record in from_the_top(pools, self._scale.unit):
            if len(best) == self._limit and most < -best[-1][0] - MARGIN:
                break
            sheet = self._sheets[number]
            document = sheet.part.records.of[record]
            if (number, document) not in done:
                done.add((number, document))
                chosen, score = yield from self._representative(sheet, document, eligible[number])
                insort(best, (-score, sheet.part.records.segment.path_bytes(document), number, chosen))
                del best[self._limit :]
                if len(done) % STEP == 0:
                    yield
        return [Picked(self._sheets[number].part, record, "complete") for *_, number, record in best]

    def _representative(self, sheet: Sheet, document: int, eligible: bytes) -> Steps[tuple[int, float]]:
        """The best of the eligible records of a document, and its score (task §8)."""
        best, strongest = -1, -1.0
        for number, record in enumerate(sheet.part.records.members(document), 1):
            if eligible[record]:
                own = sheet.own_strength(record, self._scale) + phrase_bonus(sheet.own_phrase[record])
                if rounded(own) > strongest:
                    strongest, best = rounded(own), record
            if number % _RECORDS == 0:
                yield
        return best, rounded(sheet.score(record=best, parts=sheet.parts(best, self._scale)))


def _some(row: bytes) -> bool:
    """Whether a row is not zero anywhere."""
    return row.count(0) < len(row)


def _members(row: bytes) -> Iterator[int]:
    """Where a row is not zero."""
    return compress(range(len(row)), row)


def _pools(number: int, sheet: Sheet, row: bytes) -> list[Pool]:
    """The records of a row, in pools of those that have the phrase in a field of the same weight."""
    bounds = sheet.bound & int.from_bytes(row.translate(_ALL), "little")
    groups: dict[float, bytearray] = {}
    for byte in set(sheet.phrase):
        groups.setdefault(phrase_bonus(byte), bytearray(256))[byte] = 255
    return [
        Pool(
            number,
            (bounds & int.from_bytes(sheet.phrase.translate(group), "little")).to_bytes(sheet.size, "little"),
            IMPORTANCE + bonus,
        )
        for bonus, group in groups.items()
    ]


def _partial(sheet: Sheet, done: Collection[int], least: int) -> bytes:
    """The partial rows of a segment, 255 each: of documents with enough terms that are not done (task §8)."""
    records = sheet.part.records
    enough = [
        document
        for document in _members(sheet.by_document.translate(bytes(count >= least for count in range(256))))
        if document not in done
    ]
    marked = bytearray(records.documents)
    for document in enough:
        marked[document] = 255
    hits = sheet.hits & int.from_bytes(records.spread(bytes(marked)), "little")
    row = bytearray(hits.to_bytes(sheet.size, "little"))
    for document in enough:
        head, start, end = records.heads[document], records.first[document], records.first[document + 1]
        if row[head] and not row[head] & TF:  # it only repeats what the others inherit
            others = end - start - row.count(0, start, end) - (start <= head < end)
            if others:
                row[head] = 0
    return bytes(row.translate(_ALL))
