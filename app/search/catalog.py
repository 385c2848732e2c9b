"""The catalog: LOOKUP over tags and titles, answered from memory (lookup §4, §6, §10).

Structure: one sorted sequence of documents in answer order (importance, then newer, then path), cut into blocks of
at most 256. A document is one packed `bytes` record; a block adds the lower-cased titles and the folded tags of its
documents as two texts, a line for each document. Terms are looked for with `str.count` and `str.find`, block by block;
matches come out in answer order, and once the limit is reached only documents that score higher are still of interest.

Why not postings: titles match by substring, so an inverted index would be one of n-grams, several times the size of
the titles, and every write would touch dozens of lists. Why blocks: a write unmakes the texts of one block only. They
are made again when next needed, so that loading a world makes each of them once.

Measured by tests/bench/catalog.py (x86-64, one shared core, CPython 3.11) at 100,000 documents: half of all lookups
take under 1 ms, 99 in 100 under 40 ms (four words, two of them everywhere), where a plain loop takes 320 ms; a put
takes 0.05 ms. 32 terms of one letter, the worst query there is, take 0.45 s, in steps of a block: 2 ms at most. An
entry takes 230 bytes besides its own texts: path object and dict slot 110, record 57, search texts 50.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from app.protocol.paths import sort_key
from app.protocol.runes import fold, lower
from app.protocol.tables import LookupRow
from app.search.entry import Entry, tags_of
from app.search.query import Query
from app.search.steps import Steps, done

BLOCK_MAX = 256
"""Documents in a block: fewer make a scan dearer (a block costs some 5 µs a term), more a write (0.5 ms at most)."""
_STEP = 100  # rows made between two pauses
COMMON = 16
"""Hits in a block from which on testing its documents one by one is cheaper than leaping from hit to hit."""


class Catalog:
    """The current, non-archived documents of a world. Not for use by two threads at once."""

    def __init__(self) -> None:
        self._records: dict[str, bytes] = {}
        self._blocks: list[_Block] = []

    def __len__(self) -> int:
        return len(self._records)

    def get(self, path: str) -> Entry | None:
        """The entry of the document at this canonical path."""
        record = self._records.get(path)
        return None if record is None else _unpack(path, record)

    def paths(self, scope: str = "/") -> Iterator[str]:
        """The paths of all documents below a directory, in no order (lookup §3.4)."""
        prefix = scope.rstrip("/") + "/"
        return (path for path in self._records if path.startswith(prefix))

    def meeting(self, query: Query) -> Iterator[list[str]]:
        """The paths of all documents that scope and filter of a query let through, some at a time (lookup §3.4, §5)."""
        probe = _Probe(query)
        for block in self._blocks:
            yield [block.paths[row] for row in probe.narrowed(block, range(len(block)))]

    def put(self, entry: Entry) -> None:
        """Add a document or replace its entry. Tags are kept as declared in the entry's metadata."""
        self.drop(entry.path)
        record = _pack(entry)
        self._records[entry.path] = record
        if not self._blocks:
            self._blocks.append(_Block([entry.path], [record]))
            return
        at = self._block_of(_rank(entry.path, record))
        self._blocks[at].insert(entry.path, record)
        if len(self._blocks[at]) > BLOCK_MAX:
            self._blocks[at : at + 1] = self._blocks[at].halves()

    def drop(self, path: str) -> None:
        """Forget a document; nothing happens if it is not there."""
        record = self._records.pop(path, None)
        if record is None:
            return
        at = self._block_of(_rank(path, record))
        self._blocks[at].remove(path, record)
        # Sparse neighbours become one, so that blocks do not outlive their documents; none is ever empty.
        pair = self._blocks[at : at + 2]
        if not pair[0] or sum(map(len, pair)) <= BLOCK_MAX // 2:
            self._blocks[at : at + 2] = _Block.joined(pair)

    def _block_of(self, rank: "_Rank") -> int:
        """Where the block is that holds this rank or would take it. There is a block."""
        return min(bisect_left(self._blocks, rank, key=_Block.last), len(self._blocks) - 1)

    def prepare(self) -> None:
        """Make the texts that lookups scan, which the next lookup would else do: some 3 ms for 1,000 new documents."""
        for block in self._blocks:
            block.prepare()

    def lookup(self, query: Query, may_read: Callable[[str], bool]) -> list[LookupRow]:
        """The rows of a catalog-mode answer, ordered and limited (lookup §4).

        `may_read` is asked about documents that match and could still be a row, and about no other; what it denies
        leaves no trace in the rows (lookup §6).
        """
        return done(self.lookup_steps(query, may_read))

    def lookup_steps(self, query: Query, may_read: Callable[[str], bool]) -> Steps[list[LookupRow]]:
        """The same, a block at a time; nothing may be put or dropped until it is at its end."""
        probe = _Probe(query)
        best = _Best(0 if query.match_all else len(query.terms), query.limit)
        for block in self._blocks:
            for row, score in probe.rows(block, best.least):
                if score >= best.least and may_read(block.paths[row]):
                    best.add(score, block.paths[row], block.records[row])
            if best.full:
                break
            yield
        rows = []
        for path, record in best.rows():
            rows.append(_row(_unpack(path, record)))
            if len(rows) % _STEP == 0:
                yield
        return rows


class _Best:
    """The best rows so far, given in order of rank: a later row is only worth having for a higher score."""

    def __init__(self, highest: int, limit: int) -> None:
        self._found: list[list[tuple[str, bytes]]] = [[] for _ in range(highest + 1)]  # by score
        self._limit = limit
        self._kept = 0  # found rows that score `least` or more; always fewer than the limit
        self.least = 0
        """The score from which on a row can still be in the answer."""

    @property
    def full(self) -> bool:
        """Whether no later row can be in the answer."""
        return self.least == len(self._found)

    def add(self, score: int, path: str, record: bytes) -> None:
        self._found[score].append((path, record))
        self._kept += 1
        while self._kept >= self._limit:
            self._kept -= len(self._found[self.least])
            self.least += 1

    def rows(self) -> list[tuple[str, bytes]]:
        return list(chain.from_iterable(reversed(self._found)))[: self._limit]


# --- A document as one record: importance and time, then text. No text holds a line feed (entry.py), so line feeds
# --- frame it: the title, then for each declared pair an empty line, the key, the value; a line feed at the end.

_HEAD = struct.Struct("<dq")
_TEXT = _HEAD.size

_Rank = tuple[float, int, bytes]


def _bytes(text: str) -> bytes:
    """UTF-8, whatever the text: surrogates that stand for odd bytes go in and come out again."""
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _pair(key: str, value: str) -> str:
    return f"\n\n{key}\n{value}"


def _pack(entry: Entry) -> bytes:
    pairs = [_pair(key, value) for key, value in entry.metadata.items()]
    return _HEAD.pack(entry.importance, entry.modified) + _bytes(entry.title + "".join(pairs) + "\n")


def _unpack(path: str, record: bytes) -> Entry:
    importance, modified = _HEAD.unpack_from(record)
    title, *pairs = _text(record[_TEXT:]).split("\n")
    metadata = dict(zip(pairs[1::3], pairs[2::3], strict=True))
    return Entry(path, title, tags_of(metadata.get("tags", "")), importance, modified, metadata)


def _modified(record: bytes) -> int:
    modified: int = _HEAD.unpack_from(record)[1]
    return modified


def _rank(path: str, record: bytes) -> _Rank:
    """The sort key of the answer among equal scores (lookup §4.3)."""
    importance, modified = _HEAD.unpack_from(record)
    return -importance, -modified, sort_key(path)


def _row(entry: Entry) -> LookupRow:
    return LookupRow(entry.path, "", entry.importance, entry.title, entry.tags, "")


class _Block:
    """Documents that follow one another in answer order, with the texts that terms are looked for in."""

    __slots__ = ("_tags", "_titles", "paths", "records")

    def __init__(self, paths: list[str], records: list[bytes]) -> None:
        self.paths = paths
        self.records = records
        self._titles: str | None = None
        self._tags: str | None = None

    def __len__(self) -> int:
        return len(self.paths)

    def last(self) -> _Rank:
        return self._rank_at(len(self.paths) - 1)

    def insert(self, path: str, record: bytes) -> None:
        row = self._row_of(_rank(path, record))
        self.paths.insert(row, path)
        self.records.insert(row, record)
        self._titles = self._tags = None

    def remove(self, path: str, record: bytes) -> None:
        row = self._row_of(_rank(path, record))
        del self.paths[row], self.records[row]
        self._titles = self._tags = None

    def halves(self) -> "list[_Block]":
        half = len(self) // 2
        return [_Block(self.paths[cut], self.records[cut]) for cut in (slice(half), slice(half, None))]

    @staticmethod
    def joined(blocks: "list[_Block]") -> "list[_Block]":
        """One block of all their documents, or none if there are none."""
        paths = [path for block in blocks for path in block.paths]
        records = [record for block in blocks for record in block.records]
        return [_Block(paths, records)] if paths else []

    def _rank_at(self, row: int) -> _Rank:
        return _rank(self.paths[row], self.records[row])

    def _row_of(self, rank: _Rank) -> int:
        return bisect_left(range(len(self)), rank, key=self._rank_at)

    def prepare(self) -> None:
        self._titles, self._tags = self.titles, self.tags

    @property
    def titles(self) -> str:
        """The lower-cased titles, a line for each document."""
        if self._titles is None:
            titles = b"\n".join([record[_TEXT : record.index(b"\n", _TEXT)] for record in self.records])
            self._titles = lower(_text(titles))
        return self._titles

    @property
    def tags(self) -> str:
        """The folded tags, a line for each document: empty, or `,rope,deck gear,`."""
        if self._tags is None:
            self._tags = "\n".join([_tags_line(record) for record in self.records])
        return self._tags


_TAGS = _bytes(_pair("tags", ""))


def _tags_line(record: bytes) -> str:
    at = record.find(_TAGS, _TEXT)
    if at < 0:
        return ""
    at += len(_TAGS)
    tags = tags_of(_text(record[at : record.index(b"\n", at)]))
    return fold(f",{','.join(tags)},") if tags else ""


def _tag(tag: str) -> str:
    """What a line of tags holds if it holds this tag. No tag has a comma, no line of tags an empty tag."""
    return ",," if "," in tag else f",{fold(tag)},"


def _declaration(key: str, value: str) -> bytes:
    """What a record holds if this pair was declared; with a line feed none was, and 0xFF is in no record."""
    return b"\xff" if "\n" in key or "\n" in value else _bytes(_pair(key, value) + "\n")


class _Probe:
    """A query as the texts to look for in a block."""

    def __init__(self, query: Query) -> None:
        self._all = query.match_all
        self._terms = [(term, _tag(term)) for term in query.terms]
        self._prefix = query.prefix
        self._tags = [_tag(tag) for tag in query.filter.tags]
        self._pairs = [_declaration(key, value) for key, value in query.filter.declared]
        self._after = query.filter.after
        self._before = query.filter.before

    def rows(self, block: "_Block", least: int) -> list[tuple[int, int]]:
        """The block's documents that score at least this and are in scope and filter, in order, with their scores."""
        if self._all:
            return [(row, 0) for row in self.narrowed(block, range(len(block)))]
        least = max(least, 1)
        hits = [block.titles.count(term) + block.tags.count(tag) for term, tag in self._terms]
        if len(hits) - hits.count(0) < least:
            return []
        rare = [
            {*_lines_with(block.titles, term), *_lines_with(block.tags, tag)}
            for (term, tag), count in zip(self._terms, hits, strict=True)
            if 0 < count < COMMON
        ]
        common = [pair for pair, count in zip(self._terms, hits, strict=True) if count >= COMMON]
        # Where all common terms together are too few, a document has to meet a rare one.
        candidates = range(len(block)) if len(common) >= least else sorted(set().union(*rare))
        rows = self.narrowed(block, candidates)
        scores = [0] * len(rows)
        for met in rare:
            scores = [score + (row in met) for score, row in zip(scores, rows, strict=True)]
        if common and rows:
            titles, tags = block.titles.split("\n"), block.tags.split("\n")
            for term, tag in common:
                scores = [
                    score + (term in titles[row] or tag in tags[row])
                    for score, row in zip(scores, rows, strict=True)
                ]
        return [(row, score) for row, score in zip(rows, scores, strict=True) if score >= least]

    def narrowed(self, block: "_Block", rows: Sequence[int]) -> Sequence[int]:
        """Those of the block's documents that scope and filter let through (lookup §3.4, §5)."""
        paths, records = block.paths, block.records
        if self._prefix != "/":
            rows = [row for row in rows if paths[row].startswith(self._prefix)]
        for tag in self._tags:
            tagged = set(_lines_with(block.tags, tag))
            rows = [row for row in rows if row in tagged]
        for pair in self._pairs:
            rows = [row for row in rows if records[row].find(pair, _TEXT) >= 0]
        if self._after is not None:
            rows = [row for row in rows if _modified(records[row]) > self._after]
        if self._before is not None:
            rows = [row for row in rows if _modified(records[row]) < self._before]
        return rows


def _lines_with(text: str, part: str) -> list[int]:
    """The numbers of the lines that hold the part, which holds no line feed."""
    numbers = []
    number, start, at = 0, 0, text.find(part)
    while at >= 0:
        number += text.count("\n", start, at)
        numbers.append(number)
        start = text.find("\n", at)
        at = text.find(part, start) if start >= 0 else -1
    return numbers
