"""Vectors terms.json: fields of text to indexed tokens, queries to terms in both modes (lookup §4.2, §8.1, §8.2)."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app.search.query import parse_query
from app.search.tokens import Words, body_terms, tokens

VECTORS: dict[str, Any] = json.loads(
    Path(__file__).with_name("vectors").joinpath("terms.json").read_text("utf-8")
)


@pytest.mark.parametrize("case", VECTORS["tokens"], ids=lambda case: case["field"])
def test_tokens(case: dict[str, Any]) -> None:
    assert tokens(case["field"]) == case["tokens"]
    assert Words(case["field"]).own == Counter(case["tokens"])


@pytest.mark.parametrize("case", VECTORS["queries"], ids=lambda case: case["query"])
def test_terms(case: dict[str, Any]) -> None:
    assert [term for term, *_ in body_terms(case["query"], "reference")] == case["body_terms"]
    assert [term for term, *_ in body_terms(case["query"], "wide")] == case["body_terms"]
    assert list(parse_query("/", {"query": case["query"]}).terms) == case["catalog_terms"]
