"""Vectors lookup_body.json: a small world and body-mode queries to the admitted rows (lookup §8).

All cases hold under recall `reference`; under `wide`, the appliance's default, the same rows are among the answer.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from app.protocol.paths import canonical
from app.protocol.tables import LookupRow
from app.search.index import SectionIndex
from app.search.query import parse_query
from tests.contract.vector_world import Caller, world

VECTORS: dict[str, Any] = json.loads(
    Path(__file__).with_name("vectors").joinpath("lookup_body.json").read_text("utf-8")
)
BODIES: dict[str, bytes] = {document["path"]: document["body"].encode() for document in VECTORS["documents"]}


def answer(index: SectionIndex, case: dict[str, Any], **more: str) -> list[LookupRow]:
    request = {key: str(value) for key, value in case["request"].items()} | more
    query = parse_query(canonical(request.pop("scope", "/")), request)
    return index.lookup(query, Caller(case.get("unreadable", [])), lambda path, version: BODIES[path])


def place(row: LookupRow) -> str:
    return f"{row.path}#{row.anchor}" if row.anchor else row.path


@pytest.fixture(scope="module")
def reference() -> SectionIndex:
    return world(VECTORS["documents"], "reference")


@pytest.fixture(scope="module")
def wide() -> SectionIndex:
    return world(VECTORS["documents"], "wide")


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_rows(reference: SectionIndex, case: dict[str, Any]) -> None:
    rows = answer(reference, case)
    found = [
        {"path": place(row), "title": row.title, "importance": row.importance, "tags": list(row.tags)}
        for row in rows
    ]
    assert sorted(found, key=lambda row: str(row["path"])) == [
        {key: row[key] for key in ("path", "title", "importance", "tags")} for row in case["rows"]
    ]
    assert len(rows) == case["matches"]
    assert [place(row) for row in rows] == case.get("order", [place(row) for row in rows])
    for row, expected in (
        (row, expected) for row in rows for expected in case["rows"] if expected["path"] == place(row)
    ):
        assert bool(row.snippet) == bool(expected["reference_snippet"])
        assert len(row.snippet.encode()) <= 240
        assert "\n" not in row.snippet


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_wide_only_adds(wide: SectionIndex, case: dict[str, Any]) -> None:
    found = {place(row) for row in answer(wide, case, limit="1000")}
    assert found.issuperset(row["path"] for row in case["rows"])


def test_answers_are_the_same_after_folding(reference: SectionIndex) -> None:
    before = [answer(reference, case) for case in VECTORS["cases"]]
    while reference.fold():
        pass
    assert [answer(reference, case) for case in VECTORS["cases"]] == before
    reference.settle()
    assert [answer(reference, case) for case in VECTORS["cases"]] == before
    assert reference.stats().segments == 1
