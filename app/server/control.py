"""The server's side of the control socket: what `status` and `reload` ask, answered to the own user only.

One question, one answer, one connection (see `runtime`). What a status says is put together when somebody asks; a
reload is one more round of those that signals ask for, so that its answer is the outcome of a run that began after the
question. A reload of one document looks at that document only.
"""

import socket
from collections.abc import Awaitable, Callable

import msgspec
import trio

from app.protocol.text import Log
from app.server.runtime import LINE_MAX, Ask, peer_is_trusted

ASKING_SECONDS = 5.0
"""How long a connection may take to ask."""
ASKERS = 8
"""Connections at a time; more wait."""


class Refused(msgspec.Struct):
    """The answer to what is no question."""

    error: str


class Status(msgspec.Struct, kw_only=True):
    """How the server is. Times are RFC 3339 in UTC, `uptime` is seconds; sizes are bytes."""

    version: str
    pid: int
    uptime: int
    address: str
    root: str
    folder: str
    tokens: str | None
    read_only: bool
    documents: int
    sections: int
    index_bytes: int
    body_bytes: int
    connections: int
    watching: bool
    reloaded: str | None
    reload_ok: bool | None
    reload_text: str | None
    fingerprint: str
    certificate_expires: str
    clock_ok: bool
    clock: str


class ReloadAnswer(msgspec.Struct, kw_only=True):
    """How a reload ended; `failed` says why for each part that did, `version` is that of the one document asked for."""

    ok: bool
    failed: dict[str, str] = {}
    added: int = 0
    replaced: int = 0
    archived: int = 0
    unarchived: int = 0
    gone: int = 0
    read_bytes: int = 0
    milliseconds: int = 0
    version: int | None = None


Answer = Status | ReloadAnswer | Refused


async def serve(
    listener: socket.socket,
    status: Callable[[], Status],
    reload: Callable[[Ask], Awaitable[ReloadAnswer]],
    log: Log,
) -> None:
    """Answers questions on a listening socket until cancelled."""
    limiter = trio.CapacityLimiter(ASKERS)

    async def meet(connection: trio.SocketStream) -> None:
        async with limiter, connection:
            if not peer_is_trusted(connection.socket):
                log("warn", "control: refused another user")
                return
            try:
                line = b""
                with trio.move_on_after(ASKING_SECONDS):
                    line = await _line(connection)
                answer: Answer
                try:
                    ask = msgspec.json.decode(line, type=Ask)
                except msgspec.DecodeError as error:
                    answer = Refused(f"no question: {error}")
                else:
                    try:
                        answer = await reply(ask)
                    except Exception as error:  # a fault of ours costs this answer, not the server
                        log("error", "control: no answer", error=f"{type(error).__name__}: {error}")
                        answer = Refused("internal error")
                with trio.move_on_after(ASKING_SECONDS):
                    await connection.send_all(msgspec.json.encode(answer) + b"\n")
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # who asked has gone

    async def reply(ask: Ask) -> Answer:
        if ask.op == "status":
            return status()
        if ask.op == "reload":
            return await reload(ask)
        return Refused(f"unknown question {ask.op}")

    accepting = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
    await trio.serve_listeners(meet, [accepting])


async def _line(connection: trio.SocketStream) -> bytes:
    """What comes up to a line feed, the end, or the most that a question may be."""
    line = b""
    while not line.endswith(b"\n") and len(line) <= LINE_MAX:
        more = await connection.receive_some(LINE_MAX)
        if not more:
            break
        line += bytes(more)
    return line
