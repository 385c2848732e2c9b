"""Vectors task.json: a small world and tasks to labelled rows in order, and the pure rules below them (task.md)."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.commands.found import Found
from app.protocol.fault import Fault
from app.protocol.paths import canonical
from app.protocol.tables import LookupRow
from app.search.answer import Answer
from app.search.catalog import Catalog
from app.search.entry import entry_of
from app.search.index import SectionIndex
from app.search.query import parse_query, task_query
from app.search.steps import done
from app.search.task import floor
from app.search.tokens import Recall
from app.search.wording import Unit, settle, wording
from app.server.lookups import task_response
from tests.contract.vector_world import Caller, world

VECTORS: dict[str, Any] = json.loads(
    Path(__file__).with_name("vectors").joinpath("task.json").read_text("utf-8")
)
BODIES: dict[str, bytes] = {document["path"]: document["body"].encode() for document in VECTORS["documents"]}
RECALLS: tuple[Recall, ...] = ("reference", "wide")


@pytest.fixture(scope="module", params=RECALLS)
def index(request: pytest.FixtureRequest) -> SectionIndex:
    return world(VECTORS["documents"], request.param)


def answer(index: SectionIndex, request: dict[str, Any], unreadable: list[str]) -> Answer:
    metadata = {key: str(value) for key, value in request.items()}
    query = parse_query(canonical(metadata.pop("scope", "/")), metadata)
    return index.task(query, Caller(unreadable), lambda path, version: BODIES[path])


def place(row: LookupRow) -> str:
    return f"{row.path}#{row.anchor}" if row.anchor else row.path


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_rows(index: SectionIndex, case: dict[str, Any]) -> None:
    if case.get("status", "ok") != "ok":
        with pytest.raises(Fault) as caught:
            answer(index, case["request"], case["unreadable"])
        assert caught.value.status == case["status"]
        return
    found = answer(index, case["request"], case["unreadable"])
    assert [{"path": place(row), "match": row.match} for row in found.rows] == case["rows"]
    assert (found.matches, found.truncated) == (case["matches"], case["truncated"])
    assert found.ignored == case.get("terms_ignored", 0)
    assert case.get("first_snippet_has", "") in (found.rows[0].snippet if found.rows else "")
    for row in found.rows:
        assert len(row.snippet.encode()) <= 240
        assert "\n" not in row.snippet


@pytest.mark.parametrize(("one", "other", "equivalent", "reason"), VECTORS["pairs"])
def test_singular_and_plural(one: str, other: str, equivalent: bool, reason: str) -> None:
    """Each word as the only text of a document whose title and path are unlike it, the other as the query."""
    for text, query in ((one, other), (other, one)):
        body = text.encode()
        catalog = Catalog()
        index = SectionIndex(catalog)
        entry = entry_of("/0/1.md", {"title": "0"}, body, 0)
        catalog.put(entry)
        index.put(index.extract(entry, body, 1))
        found = index.task(parse_query("/", {"query": query, "match": "task"}), Caller([]), lambda *_: body)  # noqa: B023
        assert bool(found.matches) == equivalent, reason


@pytest.mark.parametrize(("terms", "least"), VECTORS["floor"])
def test_floor(terms: int, least: int) -> None:
    assert floor(terms) == least


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_terms(case: dict[str, Any]) -> None:
    """What the query comes to, where every exact unit is held that the case shows."""
    if case.get("status", "ok") != "ok":
        return
    shown = [Unit(kind, text) for kind, text in case["terms"]]
    found = wording(case["request"]["query"])
    assert found is not None
    terms, ignored = settle(found.units, shown.__contains__)
    assert (terms, ignored) == (shown, case.get("terms_ignored", 0))


FAULTS = {
    "query": "query must be at ",
    "terms": "query has no word to look for",
    "limit": "invalid limit",
    "filter": "invalid filter ",
    "match": "match must be ",
}


@pytest.mark.parametrize("case", VECTORS["validation"]["bad_request"], ids=lambda case: case["name"])
def test_bad_request(case: dict[str, Any]) -> None:
    with pytest.raises(Fault) as caught:
        parse_query("/", case["metadata"]).require_terms()
    assert caught.value.status == "bad-request"
    assert caught.value.message.startswith(FAULTS[case["fault"]])


@pytest.mark.parametrize("case", VECTORS["validation"]["accepted"], ids=lambda case: case["name"])
def test_accepted(index: SectionIndex, case: dict[str, Any]) -> None:
    expected = case["expect"]
    query = parse_query("/", case["metadata"], sections=case.get("section_index", True))
    query.require_terms()
    assert (query.limit, query.mode, query.echo) == (expected["limit"], expected["echo"], True)
    if "matches" in expected:
        found = index.task(query, Caller([]), lambda path, version: BODIES[path])
        assert (found.matches, found.ignored) == (expected["matches"], expected["terms_ignored"])


def results(case: dict[str, Any]) -> list[LookupRow]:
    return [
        LookupRow(
            row["path"],
            row["anchor"],
            row["importance"],
            row["title"],
            tuple(row["tags"]),
            row["snippet"],
            row["match"],
        )
        for row in case["json"]["results"]
    ]


@pytest.mark.parametrize("case", VECTORS["render"], ids=lambda case: case["name"])
def test_render(case: dict[str, Any]) -> None:
    """The bytes of an answer, from what was found and back again to `--json`."""
    document = case["json"]
    found = Answer(results(case), document["matches"], document["terms_ignored"])
    query = task_query(case["query"], case["scope"], limit=str(case["limit"]))
    response = done(task_response(query, found))
    assert ({"status": response.status} | response.metadata, response.body) == (
        case["metadata"],
        case["body"].encode(),
    )
    shown = Found.of_response(case["query"], case["scope"], response)
    assert shown == Found.of_answer(case["query"], case["scope"], found)
    assert list(json.loads(shown.json()).items()) == list(document.items())
