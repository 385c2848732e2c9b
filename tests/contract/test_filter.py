"""Vectors filter.json: filter text against one document (lookup §5)."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.protocol.fault import Fault
from app.protocol.times import parse_rfc3339
from app.search.catalog import Catalog
from app.search.entry import Entry, entry_of
from app.search.filters import parse_filter
from app.search.query import parse_query

VECTORS: dict[str, Any] = json.loads(
    Path(__file__).with_name("vectors").joinpath("filter.json").read_text("utf-8")
)


def document() -> Entry:
    stored = VECTORS["document"]
    modified = parse_rfc3339(stored["modified"])
    assert modified is not None
    return entry_of(stored["path"], stored["meta"], b"", int(modified))


@pytest.mark.parametrize("case", VECTORS["accepted"], ids=lambda case: repr(case["filter"]))
def test_accepted(case: dict[str, Any]) -> None:
    found = parse_filter(case["filter"])
    times = [time for time in (found.after, found.before) if time is not None]
    assert len(found.tags) + len(found.declared) + len(times) == case["predicates"]
    assert found.matches(document()) == case["matches"]


@pytest.mark.parametrize("case", VECTORS["accepted"], ids=lambda case: repr(case["filter"]))
def test_accepted_by_the_catalog(case: dict[str, Any]) -> None:
    """The catalog tests clauses over its packed records and has to come to the same verdict."""
    catalog = Catalog()
    catalog.put(document())
    query = parse_query("/", {"query": "*", "filter": case["filter"]})
    assert bool(catalog.lookup(query, lambda path: True)) == case["matches"]


@pytest.mark.parametrize("case", VECTORS["rejected"], ids=lambda case: repr(case["filter"]))
def test_rejected(case: dict[str, Any]) -> None:
    with pytest.raises(Fault) as caught:
        parse_filter(case["filter"])
    assert caught.value.status == "bad-request"
    assert "filter" in caught.value.message
