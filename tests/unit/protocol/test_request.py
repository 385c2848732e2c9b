"""Requests as bytes: the parse procedure, every row of the rejection table, and the way back (wire §2)."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.protocol.fault import Fault
from app.protocol.limits import BLOCK_MAX, BODY_MAX, LINE_MAX, PATH_MAX, PAYLOAD_MAX, REQUEST_MAX
from app.protocol.message import VERBS, Request, encode_request, parse_request

EXAMPLE = b"""PUBLISH /logs/pump.md
---
agent: bench-1
auth: 7f3a9c0e5d2b48116c8e4fa09b7d5321e6f0a4c8d2b19375604f8eab13c7d9e2
expected-version: "0"
importance: "0.8"
tags: pump,site:north
title: Pump log
---
# Pump log

Started.
"""
EXAMPLE_REQUEST = Request(
    "PUBLISH",
    "/logs/pump.md",
    {
        "agent": "bench-1",
        "auth": "7f3a9c0e5d2b48116c8e4fa09b7d5321e6f0a4c8d2b19375604f8eab13c7d9e2",
        "expected-version": "0",
        "importance": "0.8",
        "tags": "pump,site:north",
        "title": "Pump log",
    },
    b"# Pump log\n\nStarted.\n",
)


def refusal(data: bytes) -> tuple[str, str]:
    with pytest.raises(Fault) as caught:
        parse_request(data)
    return caught.value.status, caught.value.message


def test_the_contract_example_both_ways() -> None:
    assert parse_request(EXAMPLE) == EXAMPLE_REQUEST
    assert encode_request(EXAMPLE_REQUEST) == EXAMPLE


@pytest.mark.parametrize(
    ("data", "request_"),
    [
        (b"FETCH /a\n", Request("FETCH", "/a")),
        (b"FETCH /a\r\n", Request("FETCH", "/a")),
        (b"FETCH /a", Request("FETCH", "/a")),
        (b"FETCH  /a\n", None),  # split at the first space: the path is ' /a'
        (b"FETCH /a b  c \n", Request("FETCH", "/a b  c ")),
        (b"FETCH /a\tb\n", Request("FETCH", "/a\tb")),
        (b"FETCH /\xff\xc3\xa9\n", Request("FETCH", "/\udcff\u00e9")),
        (b"FETCH /../x#y?z%41\n", Request("FETCH", "/../x#y?z%41")),
        (b"PUBLISH /a\nbody", Request("PUBLISH", "/a", {}, b"body")),
        (b"PUBLISH /a\n---\r\nx: y\r\n---\r\n", Request("PUBLISH", "/a", {}, b"---\r\nx: y\r\n---\r\n")),
        (b"PUBLISH /a\n--- \n", Request("PUBLISH", "/a", {}, b"--- \n")),
        (b"PUBLISH /a\n---", Request("PUBLISH", "/a", {}, b"---")),
        (b"PUBLISH /a\n\n---\nx: y\n---\n", Request("PUBLISH", "/a", {}, b"\n---\nx: y\n---\n")),
        (b"PUBLISH /a\n---\n\n---\n", Request("PUBLISH", "/a")),
        (b"PUBLISH /a\n---\n\n---", Request("PUBLISH", "/a")),
        (b"PUBLISH /a\n---\n# only a comment\n---\nb", Request("PUBLISH", "/a", {}, b"b")),
        (b"PUBLISH /a\n---\n\n---\n---\nx\n", Request("PUBLISH", "/a", {}, b"---\nx\n")),
        (b"PUBLISH /a\n---\nx: y\n---", Request("PUBLISH", "/a", {"x": "y"})),
        (b"PUBLISH /a\n---\nx: y\n---\n", Request("PUBLISH", "/a", {"x": "y"})),
        (
            b"PUBLISH /a\n---\nx: y\n---\n---\nz: z\n---\n",
            Request("PUBLISH", "/a", {"x": "y"}, b"---\nz: z\n---\n"),
        ),
        # `---` CR LF closes nothing; to YAML it begins a second document, which does not count.
        (b"PUBLISH /a\n---\nx: y\n---\r\nz: z\n---\nb", Request("PUBLISH", "/a", {"x": "y"}, b"b")),
        (b"PUBLISH /a\n---\nx: y\n---\n\x00\xff", Request("PUBLISH", "/a", {"x": "y"}, b"\x00\xff")),
    ],
)
def test_the_parse_procedure(data: bytes, request_: Request | None) -> None:
    if request_ is None:
        assert refusal(data) == ("bad-request", "bad request")
    else:
        assert parse_request(data) == request_


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"FETCH",
        b"FETCH\n",
        b" /a\n",
        b"FROB /a\n",
        b"fetch /a\n",
        b"FETCH\t/a\n",
        b"FETCH \n",
        b"FETCH a\n",
        b"FETCH mark://h/a\n",
        b"\xff\xfe /a\n",
        b"FETCH /a\r\r\n",
        b"FETCH /a\r",  # a CR is dropped with the LF only
        b"FETCH /a\rb\n",
        b"FETCH /" + b"a" * PATH_MAX + b"\n",
        b"FETCH /a\n---\n",
        b"FETCH /a\n---\n---\n",
        b"FETCH /a\n---\n---",
        b"FETCH /a\n---\nx: y\n",
        b"FETCH /a\n---\nx: y\n----\n",
        b"FETCH /a\n---\nx: y\n ---\n",
        b"FETCH /a\n---\nx: y\n---z",
        b"FETCH /a\n---\nx: y---\n",
        b"FETCH /a\n---\nx: [y]\n---\n",
        b"FETCH /a\n---\n\xff: y\n---\n",
    ],
)
def test_what_breaks_the_grammar_is_a_bad_request(data: bytes) -> None:
    assert refusal(data) == ("bad-request", "bad request")


@pytest.mark.parametrize("byte", range(256))
def test_every_byte_value_in_a_path(byte: int) -> None:
    data = b"FETCH /a" + bytes([byte]) + b"b\n"
    if byte == 0x0A:
        assert parse_request(data) == Request("FETCH", "/a", {}, b"b\n")
    elif byte == 0x09 or (byte >= 0x20 and byte != 0x7F):
        path = parse_request(data).path
        assert path.encode("utf-8", "surrogateescape") == data[6:-1]
    else:
        assert refusal(data) == ("bad-request", "bad request")


def test_an_empty_stream_could_not_be_read() -> None:
    assert refusal(b"") == ("server-error", "could not read request")


def test_the_answer_and_the_detail_of_a_refusal() -> None:
    with pytest.raises(Fault) as caught:
        parse_request(b"FROB /a\n")
    assert caught.value.response().body == b"\n# Bad request\n\nbad request\n"
    assert caught.value.detail == "unknown verb"


def test_sizes_of_the_line() -> None:
    longest = b"VERSIONS /" + b"a" * (PATH_MAX - 1)
    assert len(longest) == LINE_MAX
    for eol in (b"\n", b"\r\n", b""):
        assert len(parse_request(longest + eol).path) == PATH_MAX
        # A shorter verb leaves room in the line, not in the path.
        assert refusal(b"FETCH /" + b"a" * PATH_MAX + eol) == ("bad-request", "bad request")
        assert refusal(b"FETCH /" + b"a" * (LINE_MAX - 6) + eol) == ("server-error", "could not read request")


def test_sizes_of_block_and_body() -> None:
    def request(block: int, body: int) -> bytes:
        return b"PUBLISH /a\n---\n" + b"#" * block + b"\n---\n" + b"b" * body

    unreadable = ("server-error", "could not read request")
    assert len(parse_request(request(BLOCK_MAX, BODY_MAX)).body) == BODY_MAX
    assert refusal(request(BLOCK_MAX + 1, 0)) == unreadable
    assert refusal(request(0, BODY_MAX + 1)) == unreadable
    assert len(parse_request(b"PUBLISH /a\n" + b"b" * BODY_MAX).body) == BODY_MAX
    assert refusal(b"PUBLISH /a\n" + b"b" * (BODY_MAX + 1)) == unreadable
    # An unclosed block is malformed at any length up to the limit of the payload.
    assert refusal(b"PUBLISH /a\n---\n" + b"b" * (PAYLOAD_MAX - 4)) == ("bad-request", "bad request")
    assert refusal(b"PUBLISH /a\n---\n" + b"b" * (PAYLOAD_MAX - 3)) == unreadable


def test_no_acceptable_request_is_longer_than_the_endpoint_reads() -> None:
    longest = (
        b"VERSIONS /" + b"a" * (PATH_MAX - 1) + b"\r\n---\n" + b"#" * BLOCK_MAX + b"\n---\n" + b"b" * BODY_MAX
    )
    parse_request(longest)
    assert len(longest) <= REQUEST_MAX


def test_every_prefix_of_a_request_is_a_request_or_a_fault() -> None:
    line = EXAMPLE.index(b"\n") + 1
    closed = EXAMPLE.index(b"\n---\n", line + 4) + 4
    for end in range(len(EXAMPLE)):
        if end < len("PUBLISH /") or line + 4 <= end < closed:
            assert refusal(EXAMPLE[:end])[0] == ("bad-request" if end else "server-error")
        else:
            request = parse_request(EXAMPLE[:end])
            assert request.verb == "PUBLISH"
            assert request.metadata == (EXAMPLE_REQUEST.metadata if end >= closed else {})


def test_bytes_behind_a_request_are_body() -> None:
    for tail in (b"x", b"---\n", b"\n---\n", b"\x00\xff", EXAMPLE):
        assert parse_request(EXAMPLE + tail).body == EXAMPLE_REQUEST.body + tail


paths = (
    st.binary(max_size=40)
    .map(lambda b: "/" + b.decode("utf-8", "surrogateescape"))
    .filter(lambda p: not any((ord(c) < 32 and c != "\t") or c == "\x7f" for c in p))
)
texts = st.text(st.characters(codec="utf-8"), max_size=20)


@settings(max_examples=200, deadline=None)
@given(
    st.builds(
        Request,
        verb=st.sampled_from(VERBS),
        path=paths,
        metadata=st.dictionaries(texts, texts, max_size=4),
        body=st.one_of(
            st.binary(max_size=40), st.sampled_from([b"---\n", b"---\n---\n", b"---\nx: y\n---\n", b"---"])
        ),
    )
)
def test_what_is_written_is_read_back(request_: Request) -> None:
    assert parse_request(encode_request(request_)) == request_


fragments = st.sampled_from(
    [b"FETCH", b" ", b"/a", b"\n", b"\r\n", b"---\n", b"---", b"a: b\n", b"- ", b"{", b"[", b"&x ", b"*x", b"<<: ", b'"', b"'", b"!!binary "]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(st.binary(max_size=200), st.lists(fragments | st.binary(max_size=3), max_size=20).map(b"".join))
)
@example(b"FETCH /a\n---\n\xef\xbb\xbf\n---\n")
def test_any_bytes_give_a_request_or_a_fault(data: bytes) -> None:
    for start in (b"", b"FETCH /a\n---\n"):
        result: Request | Fault
        try:
            result = parse_request(start + data)
        except Fault as fault:
            result = fault
        if isinstance(result, Request):
            assert parse_request(encode_request(result)) == result
        else:
            assert (result.status, result.message) in {
                ("bad-request", "bad request"),
                ("server-error", "could not read request"),
            }


@pytest.mark.parametrize(
    "request_",
    [Request("FROB", "/a"), Request("FETCH", "a"), Request("FETCH", "/a\nb"), Request("FETCH", "/" * 5000)],
)
def test_a_request_that_cannot_be_sent_is_not_written(request_: Request) -> None:
    with pytest.raises(ValueError, match="request line cannot be sent"):
        encode_request(request_)


def test_an_empty_block_guards_a_body_that_begins_with_a_fence() -> None:
    assert encode_request(Request("PUBLISH", "/a", {}, b"---\nx\n")) == b"PUBLISH /a\n---\n\n---\n---\nx\n"
    assert encode_request(Request("PUBLISH", "/a", {}, b"---\r\nx\n")) == b"PUBLISH /a\n---\r\nx\n"
