"""Worlds without a network: the agent's calls go through the product's client and dispatcher, in one process, without a socket between."""

import hashlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from app.agents.answers import Answer
from app.agents.tools import BY_NAME
from app.agents.worlds import Host, Worlds
from app.client.client import Client
from app.client.errors import OutcomeUnknown, Unreachable
from app.protocol.addresses import Address, parse_address
from app.protocol.answer import Response
from app.protocol.message import Request, encode_request
from app.server.dispatch import Dispatcher
from app.world.tokens import TokenTable
from app.world.world import World
from tests.unit.server.planted import silent

TOKEN = "agent-token"
TOKENS = f"""
[tokens.agent]
hash = "sha256-{hashlib.sha256(TOKEN.encode()).hexdigest()}"
paths = ["/**"]
operations = ["publish"]

[tokens.reader]
hash = "sha256-{hashlib.sha256(b"reader-token").hexdigest()}"
paths = ["/private/**"]
operations = ["read"]
"""


class Board:
    """A server as far as a client can tell. `before` may answer, or fail, in the place of the dispatcher."""

    def __init__(self, root: Path, name: str = "board") -> None:
        root.mkdir(exist_ok=True)
        self.host = f"mark://{name}/"
        self.world = World.open(str(root), log=silent)
        self.requests: list[Request] = []
        self.lost: set[str] = set()
        """Verbs whose answer is lost after they were done."""
        self.canned: dict[str, Response] = {}
        """Answers by verb that come in the place of the server's."""
        self.unreachable = False
        self._dispatcher = Dispatcher(
            self.world,
            tokens=TokenTable.parse(TOKENS.encode()),
            read_only=False,
            now=lambda: 1_800_000_000.0,
            timeout=10.0,
            log=silent,
        )

    def write(self, path: str, body: str, **metadata: str) -> None:
        """A new version, written behind the network's back."""
        named = {key.replace("_", "-"): value for key, value in metadata.items()}
        self.world.publish(path, body.encode(), named, None, 1_700_000_000.0)

    async def ask(self, request: Request) -> Response:
        self.requests.append(request)
        if self.unreachable:
            raise Unreachable(self.host, "connection refused")
        if request.verb in self.canned:
            return self.canned[request.verb]
        answer = self._dispatcher.respond(encode_request(request))
        response = answer if isinstance(answer, Response) else await answer
        if request.verb in self.lost:
            raise OutcomeUnknown(self.host, "the connection broke")
        return response


class _LocalClient(Client):
    def __init__(self, board: Board, host: str, token: str | None) -> None:
        super().__init__(host, token=token)
        self._board = board

    async def request(self, request: Request) -> Response:
        return await self._board.ask(request)


class LocalWorlds(Worlds):
    """Worlds whose servers are boards; a host that is none of them cannot be reached."""

    def __init__(self, boards: list[Board], nursery: trio.Nursery, token: str | None) -> None:
        super().__init__([Host(parse_address(board.host), token) for board in boards], nursery, None)
        self.boards = {parse_address(board.host).host: board for board in boards}
        self._token = token

    def _new(self, where: Address) -> Client:
        return _LocalClient(self.boards[where.host], where.host, self._token)

    async def call(self, tool: str, **arguments: Any) -> Answer:
        """Calls a tool as the MCP server does."""
        return await BY_NAME[tool](self, arguments, "test client")

    async def follow(self, text: str) -> Answer:
        """Makes the next call that an answer ends with."""
        tool, arguments = next_call(text)
        return await self.call(tool, **arguments)


@asynccontextmanager
async def local_worlds(*boards: Board, token: str | None = TOKEN) -> AsyncIterator[LocalWorlds]:
    async with trio.open_nursery() as nursery:
        yield LocalWorlds(list(boards), nursery, token)
        nursery.cancel_scope.cancel()


def calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Every call that a text names, with its arguments."""
    found = []
    for match in re.finditer(rf"\b({'|'.join(BY_NAME)}) (?=\{{)", text):
        arguments, _ = json.JSONDecoder().raw_decode(text, match.end())
        found.append((match[1], arguments))
    return found


def next_call(text: str) -> tuple[str, dict[str, Any]]:
    """The call behind the last `next:`."""
    return calls(text[text.rindex("next: ") :])[0]


def keys(text: str) -> dict[str, str]:
    """The head of an answer."""
    return dict(line.split(": ", 1) for line in text.partition("\n\n")[0].splitlines())


def body(text: str) -> str:
    """What follows the head."""
    return text.partition("\n\n")[2]
