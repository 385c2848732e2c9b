"""How fast LOOKUP answers in body mode and how fast its index is built, beside SQLite FTS5 and a plain linear scan.

`python -m tests.bench.lookup [--json] [--quick] [--data DIR]`. The rows of all three are the sections of the `.md` files below DIR;
titles, tags and importance come from `metadata.json` beside DIR, if it is there. Peers, in the same process and in turns with ours:

- FTS5 in memory, contentless, `unicode61`, optimised before it is asked, ordered by BM25. It holds each section's trail of headings
  and own text, and answers with row numbers alone; so what is compared with it is `SectionIndex.match`, without rows. A scope is a
  range of row numbers there, a token a table of the rows that it may read; its statistics are those of all rows all the same.
- A loop over all sections with the counted tokens of each: test the path, look for all terms, score, sort.

Classes of queries, drawn with a fixed seed: one, two and three words of a section's own text, two such words and an absent one, and
one of the 100 commonest words. `and_*` are means over the classes of two and of three words, as an absent word ends every search early.
Ratios are of percentiles over the queries of a class, of the median time of each query over several rounds. The rows of an answer are
made apart from that, from bodies in memory. The build is timed from texts in memory: `gather` without what `sections` alone takes, `put`
and `settle`, beside the insertion and commit of the same sections. All are CPU times of one thread.
"""

import argparse
import gc
import json
import random
import sqlite3
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from app.markdown.sections import Section, sections
from app.protocol.paths import sort_key
from app.search.catalog import Catalog
from app.search.entry import Entry, entry_of
from app.search.extract import Gathered
from app.search.index import SectionIndex
from app.search.query import Query, parse_query
from app.search.tokens import Words
from app.world.tokens import Access, TokenTable, access, hash_of_token

DATA = Path(__file__).parents[3] / "shared" / "data" / "corpus"
COPIES = 5
COMMON = 100
ABSENT = "keelhaulzq"
TOKEN = "bench-half"
AIMS = {
    "and_p50_vs_fts5": "<= 0.5",
    "and_p99_vs_fts5": "<= 0.6",
    "worst_class_p50_vs_fts5": "<= 1.0",
    "scan_vs_index_60k": ">= 10",
    "build_vs_fts5": ">= 0.22",
    "build_mb_s_with_parsing": ">= 4",
    "publish_index_ms": "< 3",
}


class Plan(NamedTuple):
    """How much is measured."""

    queries: int
    """Of each class."""
    rounds: int
    copied_queries: int
    copied_rounds: int
    scans: int
    """Queries of each class that the linear scan is asked, once."""
    builds: int
    publishes: int


FULL = Plan(queries=300, rounds=3, copied_queries=300, copied_rounds=1, scans=30, builds=3, publishes=100)
QUICK = Plan(queries=100, rounds=1, copied_queries=40, copied_rounds=1, scans=6, builds=1, publishes=40)


class Document(NamedTuple):
    entry: Entry
    body: bytes
    sections: list[Section]


class Row(NamedTuple):
    """A section as the linear scan has it."""

    path: str
    importance: float
    anchor: str
    words: dict[str, int]


def corpus(folder: Path) -> list[Document]:
    """The documents below a folder, in path order."""
    declared = folder.parent / "metadata.json"
    known: dict[str, dict[str, object]] = json.loads(declared.read_text()) if declared.is_file() else {}
    documents = []
    for file in folder.rglob("*.md"):
        name = file.relative_to(folder).as_posix()
        metadata = {
            key: ",".join(value) if isinstance(value, list) else str(value)
            for key, value in known.get(name, {}).items()
        }
        body = file.read_bytes()
        documents.append(Document(entry_of(f"/{name}", metadata, body, 1_700_000_000), body, sections(body)))
    return sorted(documents, key=lambda document: sort_key(document.entry.path))


def text_of(section: Section) -> str:
    """What FTS5 is given of a section."""
    return "\n".join((*section.trail, section.own_text))


def milliseconds(work: Callable[[], object]) -> float:
    before = time.thread_time()
    work()
    return (time.thread_time() - before) * 1e3


# --- The three that are asked


class Fts5:
    """The peer. Rows are numbered from 1 in the order of the texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._base = sqlite3.connect(":memory:", isolation_level=None)
        self._base.execute("CREATE VIRTUAL TABLE held USING fts5(text, content='', tokenize='unicode61')")
        self._base.execute("CREATE TABLE readable(row INTEGER PRIMARY KEY)")
        self._base.execute("BEGIN")
        self._base.executemany("INSERT INTO held(rowid, text) VALUES(?, ?)", enumerate(texts, 1))
        self._base.execute("COMMIT")

    def prepare(self, readable: Iterable[int]) -> None:
        """Merge everything into one b-tree, and note the rows that a token may read."""
        self._base.execute("INSERT INTO held(held) VALUES('optimize')")
        self._base.executemany("INSERT INTO readable VALUES(?)", ((row,) for row in readable))

    def all(self, match: str) -> list[object]:
        sql = "SELECT rowid FROM held WHERE held MATCH ? ORDER BY rank LIMIT 10"
        return self._base.execute(sql, (match,)).fetchall()

    def between(self, match: str, first: int, last: int) -> list[object]:
        sql = "SELECT rowid FROM held WHERE held MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rank LIMIT 10"
        return self._base.execute(sql, (match, first, last)).fetchall()

    def readable(self, match: str) -> list[object]:
        # The plus keeps SQLite from searching once for each readable row.
        sql = "SELECT rowid FROM held WHERE held MATCH ? AND +rowid IN readable ORDER BY rank LIMIT 10"
        return self._base.execute(sql, (match,)).fetchall()


def scan(rows: Sequence[Row], query: Query, reader: Access) -> list[Row]:
    """The other peer."""
    found = []
    prefix, everything, terms = query.prefix, query.scope == "/", query.terms
    for place, row in enumerate(rows):
        if not everything and not row.path.startswith(prefix):
            continue
        words = row.words
        for term in terms:
            if term not in words:
                break
        else:
            if reader.may_read(row.path):
                score = sum(map(words.__getitem__, terms))
                found.append((-score, -row.importance, row.path, place))
    return [rows[place] for *_, place in sorted(found)[: query.limit]]


class World:
    """A number of copies of the documents in ours and in both peers."""

    def __init__(
        self,
        documents: Sequence[Document],
        gathered: Sequence[Gathered],
        counts: Sequence[list[Counter[str]]],
        copies: int,
    ) -> None:
        """`gathered` and `counts`, the tokens of each section, go with the documents; one copy keeps their paths."""
        self.catalog = Catalog()
        self.index = SectionIndex(self.catalog)
        self.bodies: dict[str, bytes] = {}
        self.rows: list[Row] = []
        for copy in range(copies):
            top = f"/copy{copy}" if copies > 1 else ""
            for document, one, words in zip(documents, gathered, counts, strict=True):
                entry = replace(document.entry, path=top + document.entry.path)
                self.catalog.put(entry)
                self.index.put(replace(one, record=replace(one.record, path=entry.path)))
                self.bodies[entry.path] = document.body
                self.rows += [
                    Row(entry.path, entry.importance, section.anchor, count)
                    for section, count in zip(document.sections, words, strict=True)
                ]
        self.index.settle()
        self.fts5 = Fts5(
            [text_of(section) for document in documents for section in document.sections] * copies
        )

    def read_body(self, path: str, version: int) -> bytes | None:
        return self.bodies.get(path)


# --- Queries


def queries(counts: Sequence[Counter[str]], number: int) -> dict[str, list[tuple[str, ...]]]:
    """So many queries of each class."""
    chosen = random.Random(5)
    plain = [[word for word in sorted(count) if word.isascii() and word.isalnum()] for count in counts]
    texts = [words for words in plain if len(words) >= 8]
    spread = Counter(word for words in plain for word in words)
    assert ABSENT not in spread
    common = [word for word, _ in spread.most_common(COMMON)]

    def own(size: int) -> list[tuple[str, ...]]:
        return [tuple(chosen.sample(chosen.choice(texts), size)) for _ in range(number)]

    return {
        "1 word": own(1),
        "2 words": own(2),
        "3 words": own(3),
        "2 and absent": [(*words, ABSENT) for words in own(2)],
        "1 common": [(chosen.choice(common),) for _ in range(number)],
    }


class Times(NamedTuple):
    """Milliseconds of each query of a class; rows are those of our matches."""

    ours: list[float]
    with_rows: list[float]
    fts5: list[float]
    scan: list[float]


Asked = Callable[[str], list[object]]


def measure(
    world: World,
    asked: Sequence[tuple[str, ...]],
    scope: str,
    reader: Access,
    peer: Asked,
    rounds: int,
    scans: int,
) -> Times:
    """Ask all three in turns, the whole class in every round."""
    parsed = [parse_query(scope, {"query": " ".join(words), "match": "body"}) for words in asked]
    matches = [" ".join(f'"{word}"' for word in words) for words in asked]
    ours: list[list[float]] = [[] for _ in asked]
    rows: list[list[float]] = [[] for _ in asked]
    fts5: list[list[float]] = [[] for _ in asked]
    scanned: list[float] = []
    world.index.match(parsed[0], reader)  # makes the reader's view, which is kept
    for turn in range(rounds):
        for number, (query, match) in enumerate(zip(parsed, matches, strict=True)):
            before = time.thread_time()
            found = world.index.match(query, reader)
            ours[number].append((time.thread_time() - before) * 1e3)
            fts5[number].append(milliseconds(lambda: peer(match)))  # noqa: B023
            made = milliseconds(lambda: world.index.rows(query, found, world.read_body))  # noqa: B023
            rows[number].append(ours[number][-1] + made)
            if not turn and number < scans:
                before = time.thread_time()
                expected = scan(world.rows, query, reader)
                scanned.append((time.thread_time() - before) * 1e3)
                assert not expected or found, query
                assert ABSENT not in query.terms or not found, query
    medians = [list(map(statistics.median, column)) for column in (ours, rows, fts5)]
    return Times(medians[0], medians[1], medians[2], scanned)


def percentile(times: Sequence[float], percent: int) -> float:
    return statistics.quantiles(times, n=100, method="inclusive")[percent - 1]


# --- Building


class Built(NamedTuple):
    """Milliseconds of a build."""

    parsing: float
    rest: float
    fts5: float


def build(documents: Sequence[Document], texts: Sequence[str]) -> Built:
    catalog = Catalog()
    index = SectionIndex(catalog)
    parsing = whole = 0.0
    for entry, body, _ in documents:
        parsing += milliseconds(lambda: sections(body))  # noqa: B023
        whole += milliseconds(lambda: index.put(index.gather(entry, body, 1)))  # noqa: B023
    whole += milliseconds(index.settle)
    return Built(parsing, whole - parsing, milliseconds(lambda: Fts5(texts)))


def publish(world: World, documents: Sequence[Document], times: int) -> tuple[float, float]:
    """Median of `extract` and `put` of a document of some 4 kB, and the mean of the tidying that is left for later."""
    fit = [document for document in documents if 3_700 <= len(document.body) <= 4_300] or documents
    taken: list[float] = []
    folding = 0.0
    for number in range(times):
        entry, body, _ = fit[number % len(fit)]
        taken.append(milliseconds(lambda: world.index.put(world.index.extract(entry, body, number + 2))))  # noqa: B023
        more = True
        while more:
            before = time.thread_time()
            more = world.index.fold()
            folding += (time.thread_time() - before) * 1e3
    return statistics.median(taken), folding / times


# --- The whole


def half(documents: Sequence[Document]) -> tuple[TokenTable, Access]:
    """A table that protects everything, and the access of a token that may read two of five copies and half of a third."""
    tops = Counter(document.entry.path.split("/")[1] for document in documents)
    below: list[str] = []
    sum_ = 0
    for top, size in sorted(tops.items(), key=lambda item: item[1]):
        if 2 * (sum_ + size) <= len(documents) or not below:
            below.append(f"/copy4/{top}/**")
            sum_ += size
    read = json.dumps(["/copy0/**", "/copy2/**", *below])
    table = TokenTable.parse(
        (
            f'[tokens.all]\nhash = "{hash_of_token("all")}"\npaths = ["/**"]\noperations = ["read"]\n'
            f'[tokens.half]\nhash = "{hash_of_token(TOKEN)}"\npaths = {read}\noperations = ["read"]\n'
        ).encode()
    )
    return table, access(table, TOKEN, 0.0)


def header(title: str) -> str:
    names = (
        "ours p50",
        "p99",
        "w/ rows p50",
        "p99",
        "fts5 p50",
        "p99",
        "scan p50",
        "/fts5 p50",
        "p99",
        "scan/",
    )
    return f"{title:<26}" + "".join(f"{name:>12}" for name in names)


def line(name: str, times: Times) -> str:
    columns = [
        percentile(column, percent)
        for column in (times.ours, times.with_rows, times.fts5)
        for percent in (50, 99)
    ]
    columns.append(percentile(times.scan, 50))
    columns += [columns[0] / columns[4], columns[1] / columns[5], columns[6] / columns[0]]
    return f"{name:<26}" + "".join(f"{value:>12.3f}" for value in columns)


def run(folder: Path, plan: Plan) -> tuple[dict[str, float], list[str]]:
    """The figures, and the lines of the table above them."""
    documents = corpus(folder)
    size = sum(len(document.body) for document in documents)
    texts = [text_of(section) for document in documents for section in document.sections]
    built = [build(documents, texts) for _ in range(plan.builds)]
    parsing, rest, fts5 = (statistics.median(column) for column in zip(*built, strict=True))

    catalog = Catalog()
    gathered = [SectionIndex(catalog).gather(entry, body, 1) for entry, body, _ in documents]
    counts = [
        [Counter(Words(text_of(section)).own) for section in document.sections] for document in documents
    ]
    own = [Counter(Words(section.own_text).own) for document in documents for section in document.sections]
    asked = queries(own, plan.queries)
    anyone = access(None, None, 0.0)
    lines = [
        f"{len(documents):,} documents, {len(texts):,} sections, {size / 1e6:.1f} MB, "
        f"{plan.queries} queries a class; milliseconds, `match` alone and with rows",
        "",
    ]

    world = World(documents, gathered, counts, 1)
    world.fts5.prepare(())
    gc.collect()
    gc.freeze()  # the bench's own objects are no part of a server
    once = {
        name: measure(world, some, "/", anyone, world.fts5.all, plan.rounds, plan.scans)
        for name, some in asked.items()
    }
    lines += [header(f"{len(world.rows):,} sections"), *(line(name, times) for name, times in once.items())]
    published, folded = publish(world, documents, plan.publishes)
    del world

    world = World(documents, gathered, counts, COPIES)
    table, reader = half(documents)
    readable = [number for number, row in enumerate(world.rows, 1) if reader.may_read(row.path)]
    world.fts5.prepare(readable)
    gc.collect()
    gc.freeze()
    first, last = 2 * len(texts) + 1, 3 * len(texts)
    ways: list[tuple[str, str, Access, Asked]] = [
        ("all", "/", anyone, world.fts5.all),
        ("in one of 5 copies", "/copy2", anyone, lambda match: world.fts5.between(match, first, last)),
        (f"may read {len(readable) / len(world.rows):.0%}", "/", reader, world.fts5.readable),
    ]
    copied: dict[tuple[str, str], Times] = {}
    for way, scope, who, peer in ways:
        lines += ["", header(f"{len(world.rows):,}: {way}")]
        for name, some in asked.items():
            some = some[: plan.copied_queries]
            times = measure(world, some, scope, who, peer, plan.copied_rounds, plan.scans)
            copied[way, name] = times
            lines.append(line(name, times))
    view = access(table, "all", 0.0)  # nobody asked with this token yet
    query = parse_query("/", {"query": ABSENT, "match": "body"})
    lines += [
        "",
        f"first lookup of a new token, {len(world.rows):,} sections: "
        f"{milliseconds(lambda: world.index.match(query, view)):.1f} ms",
        f"build: parsing {parsing:.0f} ms, split, tokenise and pack {rest:.0f} ms; FTS5 {fts5:.0f} ms",
        f"publish of 4 kB: {published:.2f} ms, and {folded:.2f} ms of tidying later",
        "",
    ]

    ratios = {
        percent: {
            name: percentile(times.ours, percent) / percentile(times.fts5, percent)
            for name, times in once.items()
        }
        for percent in (50, 99)
    }
    common = copied["all", "1 common"]
    figures = {
        "and_p50_vs_fts5": statistics.mean(ratios[50][name] for name in ("2 words", "3 words")),
        "and_p99_vs_fts5": statistics.mean(ratios[99][name] for name in ("2 words", "3 words")),
        "worst_class_p50_vs_fts5": max(ratios[50].values()),
        "scan_vs_index_60k": percentile(common.scan, 50) / percentile(common.ours, 50),
        "build_vs_fts5": fts5 / rest,
        "build_mb_s_with_parsing": size / 1e3 / (parsing + rest),
        "publish_index_ms": published,
    }
    return figures, lines


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--json", action="store_true", help="one object: figure -> number")
    options.add_argument("--quick", action="store_true", help="fewer queries and rounds")
    options.add_argument(
        "--data", type=Path, default=DATA, metavar="DIR", help="the folder with the documents"
    )
    given = options.parse_args()
    if not given.data.is_dir():
        sys.exit(f"lookup: no folder {given.data}; give one with Markdown documents as --data DIR")
    figures, lines = run(given.data, QUICK if given.quick else FULL)
    if given.json:
        print(json.dumps({name: round(value, 4) for name, value in figures.items()}))
        return
    print("\n".join(lines))
    for name, value in figures.items():
        print(f"{name:<26}{value:>12.3f}    aim {AIMS[name]}")


if __name__ == "__main__":
    main()
