"""Vectors validation.json, the checks of a LOOKUP: which fault comes first, which settings are in force (lookup §3.1 to §3.4).

Every case goes to a whole dispatcher over the world the vectors describe; what its answer cannot show, the limit in force
beyond three documents, is read from the checked query.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from app.protocol.answer import Response, message_of
from app.protocol.fault import Fault
from app.protocol.message import Request, encode_request
from app.protocol.paths import canonical, has_parent_segment
from app.protocol.runes import trim
from app.protocol.tables import lookup_body, parse_lookup_body
from app.search.query import parse_query
from app.server.dispatch import Dispatcher
from app.world.tokens import TokenTable
from app.world.world import World
from tests.unit.server.planted import plant, silent

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

# The one answer that differs: a folder all of which is protected is not there for who may not read it, as in a world without it.
# Lookup §6 allows that; the reference's empty answer tells that the folder exists.
NOT_FOUND_HERE = "scope inside a protected directory without access is ok and empty"

READER = "reader-token"
TOKENS = f"""
[tokens.reader]
hash = "sha256-{hashlib.sha256(READER.encode()).hexdigest()}"
paths = {json.dumps(VECTORS["world"]["protected"])}
operations = ["read"]
"""


def named(case: dict[str, Any]) -> str:
    name: str = case["name"]
    return name


class Served:
    """The world of the vectors behind a dispatcher; every document is about a winch, and holds a star."""

    def __init__(self, root: Path) -> None:
        for path in VECTORS["world"]["documents"]:
            plant(str(root), path, [b"# Winch\n\nThe winch, with a * to it.\n"])
        self.world = World.open(str(root), log=silent)
        self.dispatcher = Dispatcher(
            self.world,
            tokens=TokenTable.parse(TOKENS.encode()),
            read_only=False,
            now=lambda: 0.0,
            timeout=10.0,
            log=silent,
        )

    async def lookup(self, scope: str, metadata: Mapping[str, str] | None) -> Response:
        answer = self.dispatcher.respond(encode_request(Request("LOOKUP", scope, dict(metadata or {}))))
        return answer if isinstance(answer, Response) else await answer


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    found = Served(tmp_path)
    yield found
    found.world.close()


@pytest.mark.parametrize("case", VECTORS["bad_request"], ids=named)
async def test_bad_request(served: Served, case: dict[str, Any]) -> None:
    with pytest.raises(Fault) as caught:
        parse_query(canonical(case["scope"]), case["metadata"] or {})
    assert caught.value.message.startswith(FAULTS[case["fault"]])
    answer = await served.lookup(case["scope"], case["metadata"])
    assert (answer.status, message_of(answer)) == ("bad-request", caught.value.message)


@pytest.mark.parametrize("case", VECTORS["not_found"], ids=named)
async def test_not_found(served: Served, case: dict[str, Any]) -> None:
    scope = case["scope"]
    answer = await served.lookup(scope, case["metadata"])
    named_path = scope if has_parent_segment(scope) else canonical(scope)
    assert (answer.status, message_of(answer)) == ("not-found", f"{named_path} not found")
    assert "matches" not in answer.metadata


@pytest.mark.parametrize("case", VECTORS["accepted"], ids=named)
async def test_accepted(served: Served, case: dict[str, Any]) -> None:
    scope, metadata, expected = canonical(case["scope"]), case["metadata"], case["expect"]
    query = parse_query(scope, metadata)
    assert (query.limit, query.mode, query.echo, query.scope) == (
        expected["limit"],
        expected["mode"],
        expected["echo"] is not None,
        expected["scope"],
    )
    answer = await served.lookup(case["scope"], metadata)
    if case["name"] == NOT_FOUND_HERE:
        assert (answer.status, message_of(answer)) == ("not-found", f"{scope} not found")
        answer = await served.lookup(case["scope"], metadata | {"auth": READER})
        assert (answer.status, answer.metadata["matches"]) == ("ok", "1")
        return
    assert answer.status == "ok"
    assert answer.metadata.get("match") == expected["echo"]
    rows = parse_lookup_body(answer.body)
    readable = [path for path in VECTORS["world"]["documents"] if not path.startswith("/private/")]
    everything = {"winch", "*"} if expected["mode"] == "catalog" else {"winch"}
    matching = [path for path in readable if path.startswith(query.prefix) and query.text in everything]
    matches = expected.get("matches", min(len(matching), expected["limit"]))
    assert answer.metadata["matches"] == str(len(rows)) == str(matches)
    assert {row.path for row in rows} <= set(matching)
    assert answer.body == lookup_body(trim(metadata["query"]), expected["scope"], rows, expected["mode"])


def test_the_difference_is_a_case_of_the_vectors() -> None:
    assert [case["name"] for case in VECTORS["accepted"]].count(NOT_FOUND_HERE) == 1
