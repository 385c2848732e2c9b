"""What the tests of the network commands share: how one is run, what came of it, and answers."""

import json
from collections.abc import Callable
from typing import Any

from app.protocol.message import Request, Response, parse_request
from tests.unit.client.loopback import Loopback, Misdeed

Answer = Callable[[Request], Response | Misdeed]

Run = Callable[..., Any]

DOCUMENT = Response(
    "ok",
    {
        "version": "3",
        "title": "Pump",
        "etag": "e" * 64,
        "content-hash": "sha256-x",
        "modified": "2026-10-05T08:00:00Z",
    },
    b"# Pump\n\nText.\n\n## Seal\n\nRubber.\n\n## End\n",
)


CREATED = Response("created", {"version": "4", "modified": "2026-10-05T08:00:00Z"})


class Outcome:
    def __init__(self, code: int, captured: Any, server: Loopback) -> None:
        self.code = code
        self.out: bytes = captured.out
        self.err: str = captured.err.decode()
        self.requests = [parse_request(data) for data in server.requests]
        self.server = server

    @property
    def document(self) -> Any:
        return json.loads(self.out)
