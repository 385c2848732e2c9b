"""Vectors entry.json: document metadata and body to the fields of a catalog entry (lookup §4.1)."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from app.search.entry import entry_of

VECTORS: dict[str, Any] = json.loads(
    Path(__file__).with_name("vectors").joinpath("entry.json").read_text("utf-8")
)


@pytest.mark.parametrize("case", VECTORS["titles"], ids=lambda case: case["name"])
def test_title(case: dict[str, str]) -> None:
    entry = entry_of(case["path"], {"title": case["declared"]}, case["body"].encode(), 0)
    assert entry.title == case["title"]


@pytest.mark.parametrize("case", VECTORS["importance"], ids=lambda case: repr(case["value"]))
def test_importance(case: dict[str, Any]) -> None:
    entry = entry_of("/a.md", {"importance": case["value"]}, b"", 0)
    assert entry.importance == case["importance"]
    assert (math.copysign(1, entry.importance) < 0) == (case["value"] == "-0")


@pytest.mark.parametrize("case", VECTORS["tags"], ids=lambda case: repr(case["value"]))
def test_tags(case: dict[str, Any]) -> None:
    assert list(entry_of("/a.md", {"tags": case["value"]}, b"", 0).tags) == case["tags"]


def test_nothing_declared() -> None:
    entry = entry_of("/a.md", {}, b"", 7)
    assert (entry.title, entry.tags, entry.importance, entry.modified) == ("a.md", (), 0.5, 7)
