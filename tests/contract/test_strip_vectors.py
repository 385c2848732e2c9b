"""Vectors terms.json, the parts on markup stripping and snippets (lookup §7.8, §8.5).

Of a snippet the contract fixes the form (one line, at most 240 bytes, cut between code points); the choice of the
window is free, and ours shows the hit where the reference cuts it away. So every vector holds for the reference's
form of our line, and every vector whose snippet shows a hit, or has none to show, holds for our snippet.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from app.markdown.snippet import best_line, from_start, snippet
from app.markdown.strip import own_text
from app.protocol.runes import lower

VECTORS: dict[str, Any] = json.loads(
    Path(__file__).with_name("vectors").joinpath("terms.json").read_text("utf-8")
)


@pytest.mark.parametrize("case", VECTORS["strip"], ids=lambda case: repr(case["raw"]))
def test_strip(case: dict[str, Any]) -> None:
    assert own_text(case["raw"].encode()) == case["text"]


@pytest.mark.parametrize("case", VECTORS["snippets"], ids=lambda case: case.get("note"))
def test_snippet(case: dict[str, Any]) -> None:
    line, _ = best_line(case["own_text"], case["terms"])
    assert from_start(line) == case["snippet"]
    assert len(case["snippet"].encode()) == case["bytes"]
    found = snippet(case["own_text"], case["terms"])
    hit_is_cut_away = any(
        term in lower(case["own_text"]) and term not in lower(case["snippet"]) for term in case["terms"]
    )
    if hit_is_cut_away:
        assert found.startswith("...")
        assert found.removeprefix("...") in line
        assert all(term in lower(found) for term in case["terms"])
        assert len(found.encode()) <= 240
    else:
        assert found == case["snippet"]


def test_one_vector_shows_the_difference() -> None:
    differing = [
        case for case in VECTORS["snippets"] if snippet(case["own_text"], case["terms"]) != case["snippet"]
    ]
    assert [case["terms"] for case in differing] == [["winch"]]
