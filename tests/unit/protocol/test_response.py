"""Responses as bytes: the one block with the status among its keys, error bodies, tolerant reading (wire §3)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.fault import Fault
from app.protocol.limits import RESPONSE_MAX
from app.protocol.message import Response, encode_response, error_response, parse_response

DOCUMENT = Response(
    "ok",
    {
        "type": "Document",
        "version": "1",
        "title": "Pump log",
        "tags": "pump,site:north",
        "modified": "2026-10-05T08:00:00Z",
        "importance": "0.8",
        "etag": "285b49e14e520431dcef0e8a412ab0d0e0e0ed8bb941df74f9e828075374bbd5",
        "current-version": "2",
        "content-hash": "sha256-69a61cb614f75e58b624f3c3e4c22c8d971ddfa825e9d0b1cf69b269472a14e4",
        "agent": "bench-1",
    },
    b"# Pump log\n\nStarted.\n",
)
DOCUMENT_BYTES = b"""---
agent: bench-1
content-hash: sha256-69a61cb614f75e58b624f3c3e4c22c8d971ddfa825e9d0b1cf69b269472a14e4
current-version: "2"
etag: 285b49e14e520431dcef0e8a412ab0d0e0e0ed8bb941df74f9e828075374bbd5
importance: "0.8"
modified: "2026-10-05T08:00:00Z"
status: ok
tags: pump,site:north
title: Pump log
type: Document
version: "1"
---
# Pump log

Started.
"""


def test_a_document() -> None:
    assert encode_response(DOCUMENT) == DOCUMENT_BYTES
    assert parse_response(DOCUMENT_BYTES) == DOCUMENT


@pytest.mark.parametrize(
    ("response", "data"),
    [
        (Response("not-modified"), b"---\nstatus: not-modified\n---\n"),
        (
            Response("ok", {"archived": "true", "version": "3"}),
            b'---\narchived: "true"\nstatus: ok\nversion: "3"\n---\n',
        ),
        (Response("ok", {}, b"---\nx\n"), b"---\nstatus: ok\n---\n---\nx\n"),
        (
            Response("ok", {"match": "body", "matches": "1"}),
            b'---\nmatch: body\nmatches: "1"\nstatus: ok\n---\n',
        ),
        (
            Response("conflict", {"your-version": "1", "server-version": "2"}),
            b'---\nserver-version: "2"\nstatus: conflict\nyour-version: "1"\n---\n',
        ),
    ],
)
def test_blocks(response: Response, data: bytes) -> None:
    assert encode_response(response) == data
    assert parse_response(data) == response


def test_the_status_of_the_response_wins_over_a_key_of_that_name() -> None:
    assert encode_response(Response("ok", {"status": "x"})) == b"---\nstatus: ok\n---\n"


@pytest.mark.parametrize(
    ("status", "message", "body"),
    [
        ("not-permitted", "insufficient permissions", b"\n# Not permitted\n\ninsufficient permissions\n"),
        ("not-found", "/a/\udcff not found", b"\n# Not found\n\n/a/\xff not found\n"),
        ("bad-request", "bad request", b"\n# Bad request\n\nbad request\n"),
        ("archived", "/a.md is archived", b"\n# Archived\n\n/a.md is archived\n"),
    ],
)
def test_error_bodies(status: str, message: str, body: bytes) -> None:
    assert error_response(status, message) == Response(status, {}, body)
    assert Fault(status, message, "kept for the log").response() == Response(status, {}, body)


@pytest.mark.parametrize(
    ("data", "response"),
    [
        (b"", Response("")),
        (b"hello\n", Response("", {}, b"hello\n")),
        (b"---\r\nstatus: ok\r\n---\r\n", Response("", {}, b"---\r\nstatus: ok\r\n---\r\n")),
        (b"---\nstatus: ok\n---", Response("ok")),
        (b"---\n\n---\nx", Response("", {}, b"x")),
        (
            b"---\ntotal: 3\n'status': \"ok\"\nunknown: |\n  a\n---\nx",
            Response("ok", {"total": "3", "unknown": "a"}, b"x"),
        ),
        (b"---\n{version: 0x1F, status: ok}\n---\n", Response("ok", {"version": "0x1F"})),
    ],
)
def test_tolerant_reading(data: bytes, response: Response) -> None:
    assert parse_response(data) == response


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"---\n---\n", "malformed response"),
        (b"---\nstatus: ok\n", "malformed response"),
        (b"---\nstatus: [ok]\n---\n", "malformed response"),
        (b"---\n#" + b"x" * 65536 + b"\n---\n", "malformed response"),
        (b"x" * (RESPONSE_MAX + 1), "response too long"),
    ],
)
def test_what_is_no_response_is_a_fault(data: bytes, message: str) -> None:
    with pytest.raises(Fault) as caught:
        parse_response(data)
    assert (caught.value.status, caught.value.message) == ("server-error", message)


def test_every_prefix_of_a_response_is_a_response_or_a_fault() -> None:
    closed = DOCUMENT_BYTES.index(b"\n---\n", 4) + 4
    for end in range(len(DOCUMENT_BYTES)):
        if 4 <= end < closed:
            with pytest.raises(Fault):
                parse_response(DOCUMENT_BYTES[:end])
        else:
            assert parse_response(DOCUMENT_BYTES[:end]).status == ("ok" if end >= closed else "")


names = st.text(st.characters(codec="utf-8"), max_size=12).filter(lambda key: key != "status")
texts = st.text(st.characters(codec="utf-8"), max_size=20)


@settings(max_examples=150, deadline=None)
@given(
    st.builds(
        Response,
        status=texts,
        metadata=st.dictionaries(names, texts, max_size=5),
        body=st.binary(max_size=40),
    )
)
def test_what_is_written_is_read_back(response: Response) -> None:
    assert parse_response(encode_response(response)) == response


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([b"", b"---\n", b"---\nstatus: ok\n"]), st.binary(max_size=100))
def test_any_bytes_give_a_response_or_a_fault(start: bytes, data: bytes) -> None:
    try:
        status = parse_response(start + data).status
    except Fault as fault:
        status = fault.message
    assert start or data.startswith(b"---\n") or status == ""
