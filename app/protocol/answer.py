"""What is sent back: the response as a value, and the one form of an error body.

No bytes on the wire here (that is `message`), so that `fault` can name its answer without a circle of imports.
"""

import re

import msgspec

_HEADING = re.compile(r"\A# [^\n]*\n*")


class Response(msgspec.Struct, frozen=True):
    """One answer (wire §3).

    `metadata` holds every key but `status`; a `status` key in it would lose to the field. `body` is sent as it is.
    """

    status: str
    metadata: dict[str, str] = {}
    body: bytes = b""


def title_of(status: str) -> str:
    """The heading of an error body: `not-found` becomes `Not found` (wire §3.5)."""
    return status[:1].upper() + status[1:].replace("-", " ")


def error_response(status: str, message: str) -> Response:
    """The answer of every error a handler writes: no key but the status, and a titled body (wire §3.5)."""
    body = f"\n# {title_of(status)}\n\n{message}\n"
    return Response(status, {}, body.encode("utf-8", "surrogateescape"))


def message_of(response: Response) -> str:
    """What an error body says, without its heading, on one line: for the person or agent that asked (wire §3.5)."""
    text = _HEADING.sub("", response.body.decode("utf-8", "replace").strip())
    if response.status == "conflict":
        keys = response.metadata
        return f"the document is at version {keys.get('server-version', '?')}, not {keys.get('your-version', '?')}"
    if response.status == "rate-limited" and not text:
        return "too many requests from this address; try again in a moment"
    return " ".join(text.split()) or "no reason given"
