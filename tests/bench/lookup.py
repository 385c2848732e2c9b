"""How fast LOOKUP answers in body mode and how fast the section index is built, beside SQLite FTS5 and a linear scan.

`scripts/bench lookup [--json] [--data FOLDER]`. The sections of the documentation corpus, and five copies of it under
different folders (about 60,000 sections); 300 queries a class, of one, two and three words drawn from a section's own
text, and of words nobody has; the ten best rows. Times are CPU times of one thread, since a lookup waits for nothing.

The peers are built from the same sections in the same process: FTS5 in memory (contentless, unicode61, in order of
bm25, optimised), each section with its trail, title and tags, so that it admits the same sections; and a plain loop over
all sections with a dictionary of words each, as the reference server scans. Our time ends with path and anchor of each
row in order, FTS5's with rowids.
"""

import gc
import json
import random
import re
import sqlite3
import statistics
import time
from collections.abc import Callable, Sequence
from heapq import nlargest
from typing import NamedTuple
from unittest.mock import patch
from zlib import crc32

from app.markdown.sections import Section, sections
from app.search.catalog import Catalog
from app.search.entry import Entry
from app.search.index import SectionIndex
from app.search.query import Query
from app.search.tokens import Words
from tests.bench.devdata import checked, documents, moved, options

QUERIES = 300
COPIES = 5
PLAIN = re.compile(r"[a-z0-9]{2,32}")  # words on whose form both tokenisers agree
LIMIT = 10


class Everyone:
    key = "everyone"

    def may_read(self, path: str) -> bool:
        return True


class Half:
    """A token that may read every second document."""

    key = "half"

    def may_read(self, path: str) -> bool:
        return crc32(path.encode()) % 2 == 0


Reader = Everyone | Half


class Unit(NamedTuple):
    """A section and the document it is of."""

    entry: Entry
    section: Section

    def text(self) -> str:
        return "\n".join(
            (self.entry.title, " ".join(self.entry.tags), *self.section.trail, self.section.own_text)
        )


def cpu(work: Callable[[], object]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started


class World(NamedTuple):
    """A corpus in all three engines."""

    sections: SectionIndex
    fts: sqlite3.Connection
    units: Sequence[Unit]

    def ours(self, words: Sequence[str], reader: Reader, scope: str = "/") -> float:
        query = Query(scope=scope, text=" ".join(words), terms=tuple(words), limit=LIMIT, mode="body")
        return cpu(lambda: self.sections.match(query, reader))

    def theirs(self, words: Sequence[str], reader: Reader, scope: str = "/") -> float:
        sql = "SELECT rowid FROM sections WHERE sections MATCH ?"
        arguments: list[object] = [" ".join(f'"{word}"' for word in words)]
        if scope != "/":
            sql += " AND rowid BETWEEN ? AND ?"
            arguments += scope_rows(self.units, scope)
        if isinstance(reader, Half):
            sql += " AND +rowid IN (SELECT id FROM half)"
        sql += f" ORDER BY rank LIMIT {LIMIT}"
        return cpu(lambda: self.fts.execute(sql, arguments).fetchall())


def scope_rows(units: Sequence[Unit], scope: str) -> tuple[int, int]:
    inside = [row for row, unit in enumerate(units) if unit.entry.path.startswith(scope + "/")]
    return inside[0], inside[-1]


def build_ours(held: Sequence[tuple[Entry, bytes]]) -> SectionIndex:
    catalog = Catalog()
    index = SectionIndex(catalog)
    for entry, body in held:
        catalog.put(entry)
        index.put(index.gather(entry, body, 1))
    index.settle()
    return index


def build_fts(units: Sequence[Unit]) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE sections USING fts5(text, content='', tokenize='unicode61')")
    rows = ((row, unit.text()) for row, unit in enumerate(units))
    database.executemany("INSERT INTO sections(rowid, text) VALUES (?, ?)", rows)
    database.execute("INSERT INTO sections(sections) VALUES ('optimize')")
    database.commit()
    return database


def add_half(database: sqlite3.Connection, units: Sequence[Unit]) -> None:
    database.execute("CREATE TABLE half(id INTEGER PRIMARY KEY)")
    half = Half()
    rows = ((row,) for row, unit in enumerate(units) if half.may_read(unit.entry.path))
    database.executemany("INSERT INTO half VALUES (?)", rows)
    database.commit()


def classes(units: Sequence[Unit]) -> dict[str, list[list[str]]]:
    """Queries by class."""
    chosen = random.Random(1)
    asked: dict[str, list[list[str]]] = {"absent": [[f"zzq{number}x"] for number in range(QUERIES)]}
    for count, name in enumerate(("1 word", "2 words", "3 words"), 1):
        asked[name] = []
        while len(asked[name]) < QUERIES:
            words = [
                word for word in Words(chosen.choice(units).section.own_text).own if PLAIN.fullmatch(word)
            ]
            if len(words) >= count:
                asked[name].append(chosen.sample(sorted(words), count))
    return asked


def quantiles(times: Sequence[float]) -> tuple[float, float]:
    """p50 and p99 in milliseconds."""
    ordered = sorted(times)
    return 1e3 * statistics.median(ordered), 1e3 * ordered[int(len(ordered) * 0.99)]


class Row(NamedTuple):
    name: str
    ours: tuple[float, float]
    theirs: tuple[float, float]

    def ratio(self, which: int) -> float:
        return self.ours[which] / self.theirs[which]


def compared(world: World, asked: dict[str, list[list[str]]], reader: Reader, scope: str = "/") -> list[Row]:
    rows = []
    for name, queries in asked.items():
        times = []
        for engine in (world.ours, world.theirs):
            for words in queries[:20]:
                engine(words, reader, scope)
            times.append(quantiles([engine(words, reader, scope) for words in queries]))
        rows.append(Row(name, *times))
    return rows


def scan(
    held: Sequence[tuple[dict[str, int], frozenset[str], int]], words: Sequence[str]
) -> list[tuple[float, int]]:
    """The ten best sections of a plain loop."""
    found = []
    for number, (own, above, length) in enumerate(held):
        score = 0.0
        for word in words:
            times = own.get(word, 0)
            if times:
                score += times * 2.2 / (times + 1.2 * (0.25 + 0.75 * length / 100))
            elif word not in above:
                break
        else:
            found.append((score, number))
    return nlargest(LIMIT, found)


def scanned(units: Sequence[Unit]) -> list[tuple[dict[str, int], frozenset[str], int]]:
    held = []
    for entry, section in units:
        own = Words(section.own_text)
        above = frozenset().union(*(Words(text).own for text in (*section.trail, entry.title, *entry.tags)))
        held.append((dict(own.own), above, own.length))
    return held


def builds(held: Sequence[tuple[Entry, bytes]], units: Sequence[Unit]) -> dict[str, float]:
    """Seconds of each way to build, the best of three, in turns."""
    parsed = {body: sections(body) for _, body in held}
    times: dict[str, list[float]] = {"ours": [], "fts": [], "parsing": []}
    for _ in range(3):
        times["fts"].append(cpu(lambda: build_fts(units)))
        with patch("app.search.extract.sections", parsed.__getitem__):
            times["ours"].append(cpu(lambda: build_ours(held)))
        times["parsing"].append(cpu(lambda: build_ours(held)))
    return {name: min(found) for name, found in times.items()}


def publishes(index: SectionIndex, held: Sequence[tuple[Entry, bytes]]) -> tuple[float, float]:
    """Milliseconds of index work for a document of 4 kB: until it is found, and the merging it causes afterwards."""
    fitting = [(entry, body) for entry, body in held if 3_500 < len(body) < 4_500][:100]
    writing, folding = 0.0, 0.0
    for version, (entry, body) in enumerate(fitting):
        writing += cpu(lambda e=entry, b=body, v=version: index.put(index.extract(e, b, v)))  # type: ignore[misc]
        folding += cpu(lambda: settled(index))
    return 1e3 * writing / len(fitting), 1e3 * folding / len(fitting)


def settled(index: SectionIndex) -> None:
    while index.fold():
        pass


def report(title: str, rows: Sequence[Row]) -> None:
    print(f"\n{title}")
    print(f"{'':10}{'p50 ms':>10}{'FTS5':>9}{'ratio':>7}{'p99 ms':>10}{'FTS5':>9}{'ratio':>7}")
    for row in rows:
        cells = [f"{row.ours[at]:10.3f}{row.theirs[at]:9.3f}{row.ratio(at):7.2f}" for at in (0, 1)]
        print(f"{row.name:10}{''.join(cells)}")


def main() -> None:
    given = options(__doc__).parse_args()
    data = checked(given.data)
    held = list(documents(data))
    size = sum(len(body) for _, body in held)
    units = [Unit(entry, section) for entry, body in held for section in sections(body)]
    gc.freeze()  # the garbage collector need not look at what only this bench holds
    built = builds(held, units)
    world = World(build_ours(held), build_fts(units), units)
    asked = classes(units)
    tables = {f"{len(units):,} sections": compared(world, asked, Everyone())}
    publish, fold = publishes(build_ours(held), held)

    large = [(moved(entry, f"/copy{copy}"), body) for copy in range(COPIES) for entry, body in held]
    many = [Unit(moved(entry, f"/copy{copy}"), section) for copy in range(COPIES) for entry, section in units]
    world = World(build_ours(large), build_fts(many), many)
    add_half(world.fts, many)
    tables[f"{len(many):,} sections"] = compared(world, asked, Everyone())
    tables[f"{len(many):,} sections, scope of a fifth"] = compared(world, asked, Everyone(), "/copy3")
    tables[f"{len(many):,} sections, a token for half"] = compared(world, asked, Half())

    common = [
        [word]
        for word in (
            "the",
            "rust",
            "code",
            "type",
            "function",
            "example",
            "page",
            "template",
            "value",
            "used",
        )
    ]
    loop = scanned(many)
    scan_ms = quantiles([cpu(lambda w=words: scan(loop, w)) for words in common])[0]  # type: ignore[misc]
    index_ms = quantiles([world.ours(words, Everyone()) for words in common])[0]

    first = next(iter(tables.values()))
    conjunctive = [row for row in first if row.name != "absent"]
    figures = {
        "and_p50_vs_fts5": statistics.mean(row.ratio(0) for row in conjunctive),
        "and_p99_vs_fts5": statistics.mean(row.ratio(1) for row in conjunctive),
        "worst_class_p50_vs_fts5": max(row.ratio(0) for row in first),
        "scan_vs_index_60k": scan_ms / index_ms,
        "build_vs_fts5": built["fts"] / built["ours"],
        "build_mb_s_with_parsing": size / built["parsing"] / 1e6,
        "publish_index_ms": publish,
    }
    if given.json:
        print(json.dumps(figures))
        return
    for title, rows in tables.items():
        report(title, rows)
    print(f"\ncommon word at {len(many):,} sections: {index_ms:.3f} ms, linear scan {scan_ms:.1f} ms")
    print(
        f"build from texts: {built['ours']:.2f} s, FTS5 {built['fts']:.2f} s; with parsing {built['parsing']:.2f} s"
    )
    print(f"publish of 4 kB: {publish:.2f} ms until it is found, {fold:.2f} ms of merging afterwards")
    for name, value in figures.items():
        print(f"{name:28}{value:8.3f}")


if __name__ == "__main__":
    main()
