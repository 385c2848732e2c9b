"""Vectors slug.json: markdown to headings and anchors, plain text to slugs (lookup §7.1–§7.4)."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.markdown.outline import outline, section, slug

VECTORS: dict[str, Any] = json.loads(
    Path(__file__).with_name("vectors").joinpath("slug.json").read_text("utf-8")
)


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_headings(case: dict[str, Any]) -> None:
    found = [
        {"level": heading.level, "text": heading.text, "anchor": heading.anchor}
        for heading in outline(case["markdown"].encode())
    ]
    assert found == case["headings"]


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_every_anchor_fetches_its_own_section(case: dict[str, Any]) -> None:
    body = case["markdown"].encode()
    for heading in outline(body):
        assert section(body, heading.anchor) == body[heading.start : heading.end]


@pytest.mark.parametrize("case", VECTORS["slug_only"], ids=lambda case: repr(case["text"]))
def test_slug(case: dict[str, Any]) -> None:
    assert slug(case["text"]) == case["anchor"]
