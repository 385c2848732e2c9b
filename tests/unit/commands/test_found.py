"""What a search for a task shows: text for a terminal, one JSON object, and no claim that a server did not make (task §12)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.commands.found import Found, show
from app.protocol.message import Response
from app.protocol.tables import LookupRow, lookup_body

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "contract" / "vectors" / "task.json").read_text("utf-8")
)
ROWS = [
    LookupRow("/index.md", "world", 0.9, "Board › World", ("x",), "One page.", "complete"),
    LookupRow("/ops/tokens.md", "", 0.8, "Tokens", (), "", "partial"),
    LookupRow("/ops/x.md", "", 0.5, "X", (), "From a blank card.", "metadata"),
]


def response(match: str | None, **more: str) -> Response:
    form = "task" if match == "task" else "body"
    keys = {"matches": "7", **({"match": match} if match else {}), **more}
    return Response("ok", keys, lookup_body("q", "/", ROWS, form))  # type: ignore[arg-type]


@pytest.fixture
def shown(capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[[Found], str]:
    def call(found: Found) -> str:
        show(found, json=False)
        return capsysbinary.readouterr().out.decode()

    return call


def test_text(shown: Callable[[Found], str]) -> None:
    answer = response("task", truncated="true", **{"terms-ignored": "4"})
    assert shown(Found.of_response(" rotate\ntoken ", "/ops/", answer)) == (
        '7 matches for "rotate token" in /ops\n'
        "/index.md#world  Board › World\n"
        "    One page.\n"
        "/ops/tokens.md  Tokens  [partial]\n"
        "/ops/x.md  X  [metadata]\n"
        "    From a blank card.\n"
        "4 terms ignored, 32 used\n"
        "showing 3 of 7\n"
    )


@pytest.mark.parametrize(("matches", "head"), [("0", "no matches"), ("1", "1 match"), ("2", "2 matches")])
def test_counts(shown: Callable[[Found], str], matches: str, head: str) -> None:
    answer = Response("ok", {"match": "task", "matches": matches, "truncated": "false"}, b"")
    assert shown(Found.of_response("pump", "/", answer)) == f'{head} for "pump" in /\n'


@pytest.mark.parametrize(
    ("match", "mode"), [("body", "body"), ("catalog", "catalog"), (None, "catalog"), ("x", "catalog")]
)
def test_another_mode_says_so_and_labels_nothing(
    shown: Callable[[Found], str], match: str | None, mode: str
) -> None:
    found = Found.of_response("pump", "/", response(match, truncated="true"))
    assert (found.mode, found.truncated, {row.match for row in found.rows}) == (mode, None, {""})
    text = shown(found)
    assert text.startswith(f'7 matches for "pump" in /, by {mode}: this server does not answer tasks\n')
    assert "[" not in text
    document = json.loads(found.json())
    assert (document["mode"], document["truncated"], document["results"][0]["match"]) == (mode, None, None)


def test_rows_that_only_claim_to_be_a_tasks(shown: Callable[[Found], str]) -> None:
    """Labels count only in an answer that says that it is one of task mode."""
    labelled = Response("ok", {"matches": "3", "match": "body"}, lookup_body("q", "/", ROWS, "task"))
    assert "[partial]" not in shown(Found.of_response("pump", "/", labelled))


@pytest.mark.parametrize("case", VECTORS["render"], ids=lambda case: case["name"])
def test_json(case: dict[str, Any], capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    answer = Response(
        "ok",
        {key: value for key, value in case["metadata"].items() if key != "status"},
        case["body"].encode(),
    )
    show(Found.of_response(f" {case['query']} ", case["scope"], answer), json=True)
    out = capsysbinary.readouterr().out
    assert out.count(b"\n") == 1
    assert list(json.loads(out).items()) == list(case["json"].items())
