"""Vectors sections.json: documents to indexed sections, anchors to raw sections (lookup §7.5–§7.8)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.markdown.outline import section
from app.markdown.sections import sections
from app.markdown.strip import own_text
from app.protocol.runes import fields, lower

VECTORS: dict[str, Any] = json.loads(
    Path(__file__).with_name("vectors").joinpath("sections.json").read_text("utf-8")
)
BY_ANCHOR: dict[str, Any] = VECTORS["by_anchor"]


def words(text: str) -> set[str]:
    """The searchable words of a text by the letter of lookup §8.1."""
    found: set[str] = set()
    for field in fields(lower(text)):
        whole = re.sub(r"^\W+|\W+$", "", field)
        found |= {whole, *re.findall(r"\w+", whole)}
    return {word for word in found if len(word) >= 2 and len(word.encode()) <= 32}


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_sections(case: dict[str, Any]) -> None:
    found = sections(case["markdown"].encode())
    assert [
        {
            "anchor": section.anchor,
            "heading": section.heading,
            "level": section.level,
            "trail": list(section.trail),
            "own_text": section.own_text,
            "trail_words": sorted(set().union(*map(words, section.trail))),
        }
        for section in found
    ] == [{"level": 0, "trail_words": [], **section} for section in case["sections"]]


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_own_text_comes_again_from_its_extent(case: dict[str, Any]) -> None:
    body = case["markdown"].encode()
    for found in sections(body):
        assert own_text(body[found.own_start : found.own_end]) == found.own_text


@pytest.mark.parametrize("case", BY_ANCHOR["lookups"], ids=lambda case: repr(case["anchor"]))
def test_by_anchor(case: dict[str, Any]) -> None:
    found = section(BY_ANCHOR["markdown"].encode(), case["anchor"])
    assert (found is not None) == case["found"]
    assert (None if found is None else found.decode()) == case["text"]
