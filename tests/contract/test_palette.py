"""Vectors palette.json: pages and typed text to rows in order, with the heading to jump to (task §13)."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.search.entry import entry_of
from app.search.palette import page_of, search

VECTORS: dict[str, Any] = json.loads(
    Path(__file__).with_name("vectors").joinpath("palette.json").read_text("utf-8")
)


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_rows(case: dict[str, Any]) -> None:
    pages = [
        page_of(entry_of(one["path"], one["meta"], one["body"].encode(), 0), one["body"].encode())
        for one in VECTORS["documents"]
        if not one.get("archived") and one["path"] not in case["unreadable"]
    ]
    for some in (pages, pages[::-1]):
        found = [
            f"{row.path}#{row.anchor}" if row.anchor else row.path for row in search(case["query"], some)
        ]
        assert found == [row["path"] for row in case["rows"]]
