"""Requests and responses as bytes, in both directions (wire §2, §3).

A parser takes the whole message, from the first byte to FIN, and gives a value or raises `Fault`, whatever the
bytes. Nothing is decided here about what a verb does.
"""

import re

import msgspec

from app.protocol.answer import Response, error_response
from app.protocol.fault import Fault, malformed, unreadable
from app.protocol.limits import BLOCK_MAX, BODY_MAX, LINE_MAX, PATH_MAX, PAYLOAD_MAX, RESPONSE_MAX
from app.protocol.metadata import decode_block, encode_block

__all__ = [
    "VERBS",
    "Request",
    "Response",
    "encode_request",
    "encode_response",
    "error_response",
    "parse_request",
    "parse_response",
]

VERBS = ("FETCH", "LIST", "VERSIONS", "PUBLISH", "APPEND", "ARCHIVE", "LOOKUP", "WATCH")

_FENCE = b"---\n"
_CLOSING = b"\n---\n"
_VERBS = {verb.encode("ascii"): verb for verb in VERBS}
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


class Request(msgspec.Struct, frozen=True):
    """One request (wire §2). `path` is as it was sent: neither checked for `..` nor canonical."""

    verb: str
    path: str
    metadata: dict[str, str] = {}
    body: bytes = b""


def parse_request(data: bytes) -> Request:
    """The request that the bytes of a whole stream hold, by the procedure of wire §2.2.

    Raises `Fault` as the rejection table §2.3 has it; its detail says what was wrong.
    """
    if not data:
        raise unreadable("no bytes")
    end = data.find(b"\n")
    line, rest = (data, b"") if end < 0 else (data[:end].removesuffix(b"\r"), data[end + 1 :])
    if len(line) > LINE_MAX:
        raise unreadable("request line too long")
    verb, path = _parse_line(line)
    if len(rest) > PAYLOAD_MAX:
        raise unreadable("payload too long")
    if not rest.startswith(_FENCE):
        block, body = None, rest
    else:
        block, body = _split(rest)
        if len(block) > BLOCK_MAX:
            raise unreadable("metadata block too long")
    if len(body) > BODY_MAX:
        raise unreadable("body too long")
    return Request(verb, path, decode_block(block) if block else {}, body)


def _parse_line(line: bytes) -> tuple[str, str]:
    word, space, path = line.partition(b" ")
    if not space:
        raise malformed("no space in request line")
    verb = _VERBS.get(word)
    if verb is None:
        raise malformed("unknown verb")
    if not path.startswith(b"/"):
        raise malformed("path does not start with a slash")
    if len(path) > PATH_MAX:
        raise malformed("path too long")
    if _CONTROL.search(path):
        raise malformed("control byte in path")
    return verb, path.decode("utf-8", "surrogateescape")


def _split(text: bytes) -> tuple[bytes, bytes]:
    """Block and body of a text that starts with a fence; the closing fence has a line end of its own before it."""
    start = len(_FENCE)
    end = text.find(_CLOSING, start)
    if end >= 0:
        return text[start:end], text[end + len(_CLOSING) :]
    if text.endswith(_CLOSING[:-1]) and len(text) >= start + len(_CLOSING) - 1:
        return text[start : 1 - len(_CLOSING)], b""
    raise malformed("metadata block is not closed")


def encode_request(request: Request) -> bytes:
    """The bytes to send (wire §2.5).

    Raises `ValueError` for a verb or path that cannot stand in a request line.
    """
    path = request.path.encode("utf-8", "surrogateescape")
    line = b"%s %s" % (request.verb.encode("utf-8"), path)
    try:
        _parse_line(line)
    except Fault as fault:
        raise ValueError(f"request line cannot be sent: {fault.detail}") from None
    if request.metadata:
        fences = _FENCE + encode_block(request.metadata) + _FENCE
    elif request.body.startswith(_FENCE):
        fences = _FENCE + _CLOSING  # an empty block, lest the body be taken for one
    else:
        fences = b""
    return line + b"\n" + fences + request.body


def encode_response(response: Response) -> bytes:
    """The bytes to send: one block, with `status` among the keys, and the body right behind it (wire §3)."""
    block = encode_block({**response.metadata, "status": response.status})
    return b"".join((_FENCE, block, _FENCE, response.body))


def parse_response(data: bytes) -> Response:
    """The response that the bytes of a whole stream hold (wire §3.1).

    Without an opening fence the status is empty and everything is body. Raises `Fault` `server-error`
    `malformed response` if a fence is opened but what follows is no metadata block, and
    `response too long` past the limit of a client.
    """
    if len(data) > RESPONSE_MAX:
        raise Fault("server-error", "response too long")
    if not data.startswith(_FENCE):
        return Response("", {}, data)
    try:
        block, body = _split(data)
        if len(block) > BLOCK_MAX:
            raise malformed("metadata block too long")
        metadata = decode_block(block)
    except Fault as fault:
        raise Fault("server-error", "malformed response", fault.detail) from None
    return Response(metadata.pop("status", ""), metadata, body)
