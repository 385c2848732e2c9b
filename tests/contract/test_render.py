"""Rows to the exact bytes of a LOOKUP answer, and back (lookup §9; vectors/render.json).

A `title` of the vectors is the finished text of its cell before escaping.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from app.protocol.message import Response, encode_response
from app.protocol.tables import Form, LookupRow, lookup_body, parse_lookup_body

CASES = json.loads((Path(__file__).parent / "vectors" / "render.json").read_text("utf-8"))["cases"]


def rows_of(case: dict[str, Any]) -> list[LookupRow]:
    return [
        LookupRow(
            path=row["path"],
            anchor=row["anchor"],
            importance=row["importance"],
            title=row["title"],
            tags=tuple(row["tags"]),
            snippet=row["snippet"],
        )
        for row in case["rows"]
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_body(case: dict[str, Any]) -> None:
    form: Form = "body" if case["match_sent"] == "body" else "catalog"
    assert lookup_body(case["query"], case["scope"], rows_of(case), form) == case["body"].encode()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_metadata(case: dict[str, Any]) -> None:
    """The keys of the block besides status, as this room writes them: counts are quoted, modes are not."""
    written = encode_response(Response("ok", case["metadata"])).decode()
    match = f"match: {case['match_sent']}\n" if case["match_sent"] is not None else ""
    assert written == f'---\n{match}matches: "{len(case["rows"])}"\nstatus: ok\n---\n'


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_client_reads_the_rows_back(case: dict[str, Any]) -> None:
    read = parse_lookup_body(case["body"].encode())
    assert len(read) == len(case["rows"])
    for row, sent in zip(read, rows_of(case), strict=True):
        assert (row.path, row.anchor) == (sent.path, sent.anchor)
        assert f"{row.importance:.2f}" == f"{sent.importance:.2f}"
        assert row.title.split() == sent.title.split()
        assert ", ".join(row.tags).split() == ", ".join(sent.tags).split()
        assert row.snippet.split() == sent.snippet.split()
