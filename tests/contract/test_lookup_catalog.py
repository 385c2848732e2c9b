"""Vectors lookup_catalog.json: a small world and catalog-mode queries to rows in order (lookup §4, §6)."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.protocol.paths import canonical
from app.protocol.times import parse_rfc3339
from app.search.catalog import Catalog
from app.search.entry import entry_of
from app.search.query import parse_query

VECTORS: dict[str, Any] = json.loads(
    Path(__file__).with_name("vectors").joinpath("lookup_catalog.json").read_text("utf-8")
)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    catalog = Catalog()
    for document in VECTORS["documents"]:
        modified = parse_rfc3339(document["modified"])
        assert modified is not None
        catalog.put(entry_of(document["path"], document["meta"], document["body"].encode(), int(modified)))
    for document in VECTORS["documents"]:
        if document.get("archived"):
            catalog.drop(document["path"])
    return catalog


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_rows(catalog: Catalog, case: dict[str, Any]) -> None:
    request = {key: str(value) for key, value in case["request"].items()}
    scope = canonical(request.pop("scope", "/"))
    unreadable = case.get("unreadable", [])
    rows = catalog.lookup(parse_query(scope, request), lambda path: path not in unreadable)
    assert [
        {"path": row.path, "importance": row.importance, "title": row.title, "tags": list(row.tags)}
        for row in rows
    ] == [{key: row[key] for key in ("path", "importance", "title", "tags")} for row in case["rows"]]
    assert len(rows) == case["matches"]
    assert all(row.anchor == "" and row.snippet == "" for row in rows)
