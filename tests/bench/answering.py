"""What a task leads to: the task questions, what it costs to answer with each mode, and task mode's ranking on Cranfield.

Part of `tests.bench.retrieval`, which says what is measured and how.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import msgspec

from app.search.catalog import Catalog
from app.search.entry import entry_of
from app.search.index import SectionIndex
from app.search.query import task_query

__all__ = ["BYTES_PER_TOKEN", "Asked", "Place", "Wanted", "asked", "cost", "cranfield_ranks", "shares"]

BYTES_PER_TOKEN = 4
"""English text and markdown come to about four bytes for a token of today's models."""

ROWS = 5
DEEP = 200
"""Rows that are looked at where the cap of five is lifted."""


class Wanted(NamedTuple):
    """A section that is wanted: its document, and its heading as written but for the hashes."""

    path: str
    heading: str


class Place(NamedTuple):
    """A section of a document, or with an empty anchor the document."""

    path: str
    anchor: str


class Asked(NamedTuple):
    """A question, and every section that its answer takes."""

    query: str
    wanted: tuple[Wanted, ...]


def asked(data: Path, *kinds: str) -> list[Asked]:
    """The questions of some kinds that expect sections."""
    return [
        Asked(one["query"], tuple(Wanted("/" + each["path"], each["heading"]) for each in one["expect"]))
        for one in json.loads((data / "questions-dev.json").read_text())["questions"]
        if one["kind"] in kinds
    ]


def shares(
    questions: Sequence[Asked],
    rows_of: Callable[[str], Sequence[Place]],
    anchors_of: Callable[[Wanted], set[str]],
) -> tuple[float, float]:
    """The share of the wanted sections among the first five rows, and of the wanted documents among the first five
    different ones; means over the questions."""
    sections = documents = 0.0
    for question in questions:
        rows = rows_of(question.query)
        first = {(row.path, row.anchor) for row in rows[:ROWS]}
        sections += sum(
            any((one.path, anchor) in first for anchor in anchors_of(one)) for one in question.wanted
        ) / len(question.wanted)
        paths = list(dict.fromkeys(row.path for row in rows))[:ROWS]
        right = {one.path for one in question.wanted}
        documents += len(right.intersection(paths)) / len(right)
    return sections / len(questions), documents / len(questions)


def cost(
    size: int,
    rows: Iterable[Place],
    missing: set[Place],
    extent: Callable[[Place], tuple[int, int]],
    whole: Callable[[str], int],
) -> tuple[int, bool]:
    """The bytes of an answer and of what is then read, row by row, until every wanted section is in hand.

    `missing` are the wanted ones. What no row leads to is read as its whole document, which is what a caller pays at
    least who is then told where to look; the second result says whether that was not needed.
    """
    missing = set(missing)
    read: set[Place] = set()
    for row in rows:
        if not missing:
            break
        if row in read:
            continue
        read.add(row)
        start, end = extent(row)
        size += end - start
        missing = {one for one in missing if one.path != row.path or not _inside(extent(one), (start, end))}
    return size + sum(map(whole, {one.path for one in missing})), not missing


def _inside(part: tuple[int, int], extent: tuple[int, int]) -> bool:
    return extent[0] <= part[0] and part[1] <= extent[1]


class _Everyone:
    key = "everyone"

    def may_read(self, path: str) -> bool:
        return True


def cranfield_ranks(
    texts: Sequence[Mapping[str, str]], queries: Mapping[str, str], *, floor: bool
) -> dict[str, list[int]]:
    """The documents of each query in task mode's order, without its cap: places in `texts`.

    A document has its title and is one section without headings. Without `floor`, one term is enough for a document.
    """
    catalog = Catalog()
    index = SectionIndex(catalog)
    bodies = {}
    for number, text in enumerate(texts):
        path, body = f"/{number:04}.md", text["text"].encode()
        bodies[path] = body
        entry = entry_of(path, {"title": text["title"]}, body, 0)
        catalog.put(entry)
        index.put(index.gather(entry, body, 1))
    index.settle()
    ranks = {}
    with patch(
        "app.search.task.floor", (lambda terms: (35 * terms + 99) // 100) if floor else (lambda terms: 1)
    ):
        for name, query in queries.items():
            asked_for = msgspec.structs.replace(task_query(query[:4096]), limit=10)
            rows = index.task(asked_for, _Everyone(), lambda path, _: bodies[path]).rows
            ranks[name] = [int(row.path[1:5]) for row in rows]
    return ranks
