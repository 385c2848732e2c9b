"""Vectors validation.json, the checks of a LOOKUP's metadata: which fault, or which settings (lookup §3.1 to §3.3).

The path checks around them are dispatch's and the scope check the handler's; their cases (`not_found`) run where a
whole server answers.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from app.protocol.fault import Fault
from app.protocol.paths import canonical
from app.search.query import parse_query

VECTORS: dict[str, Any] = json.loads(
    Path(__file__).with_name("vectors").joinpath("validation.json").read_text("utf-8")
)

FAULTS = {
    "query": "query must be at least 2 characters",
    "terms": "query has too many terms: 33 > 32",
    "limit": "invalid limit",
    "filter": "invalid filter ",
    "match": 'match must be "catalog" or "body", got ',
}


@pytest.mark.parametrize("case", VECTORS["bad_request"], ids=lambda case: case["name"])
def test_bad_request(case: dict[str, Any]) -> None:
    with pytest.raises(Fault) as caught:
        parse_query(canonical(case["scope"]), case["metadata"] or {})
    assert caught.value.status == "bad-request"
    assert caught.value.message.startswith(FAULTS[case["fault"]])


@pytest.mark.parametrize("case", VECTORS["accepted"], ids=lambda case: case["name"])
def test_accepted(case: dict[str, Any]) -> None:
    query = parse_query(canonical(case["scope"]), case["metadata"])
    expected = case["expect"]
    assert query.limit == expected["limit"]
    assert query.mode == expected["mode"]
    assert query.echo == (expected["echo"] is not None)
    assert query.scope == expected["scope"]
