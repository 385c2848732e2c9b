"""What a handler gets: one request and the way to answer it, in one piece or in many over time.

An exchange is one stream. It lives until the stream is finished and acknowledged on both sides, however many pieces the answer came in. Here is what
a handler may do with it and the queue of what is still to be sent; when which bytes may come and go is decided by the `session` it belongs to.
"""

import enum
import math
from collections import deque
from typing import Protocol

import trio

PIECE = 64 * 1024
"""Answers are passed on in pieces of this size, because the QUIC library copies whatever it is given and keeps it without bound."""


class State(enum.Enum):
    """How far a request has come."""

    ARRIVING = enum.auto()
    WAITING = enum.auto()
    HANDED_OVER = enum.auto()


class Carrier(Protocol):
    """The connection, as an exchange sees it."""

    def send_queued(self, exchange: "Exchange", size: int) -> None: ...

    def break_off(self, exchange: "Exchange") -> None: ...


class Exchange:
    """One request and its answer, or answers, on one stream.

    `peer` is the client's address as text. `request` is everything up to its FIN; `fault` is `unreadable` instead if it passed a size limit or
    its deadline, and is to be answered as such (wire §2.3). `begun` and `ended` say that the first and the
    last of the answer was sent, `gone` that nobody takes it any more.
    """

    __slots__ = (
        "_carrier",
        "_changed",
        "begun",
        "chunks",
        "deadline",
        "ended",
        "fault",
        "goal",
        "gone",
        "held",
        "peer",
        "pieces",
        "queued",
        "request",
        "sent",
        "state",
        "stream",
        "token_at",
        "unfed",
    )

    def __init__(self, carrier: Carrier, stream: int, peer: str) -> None:
        self.peer = peer
        self.request = b""
        self.fault = ""
        self.gone = False
        self.begun = False
        self.ended = False
        self._carrier = carrier
        self._changed: trio.Event | None = None

        # The session's bookkeeping.
        self.stream = stream
        self.state = State.ARRIVING
        self.deadline = math.inf
        self.token_at = 0.0
        self.chunks: list[bytes] = []
        self.held = 0  # bytes of the chunks
        self.pieces: deque[bytes | memoryview] = deque()  # of answers, not passed on yet
        self.sent = 0  # bytes of answers in all
        self.unfed = 0  # bytes of the pieces
        self.queued = 0  # and with them those passed on, but not known to be acknowledged
        self.goal = 0  # how many of all must be acknowledged by the deadline

    def send(self, data: bytes, *, end: bool = True) -> None:
        """Sends the answer, or with `end=False` a piece of one that goes on. Never raises, never waits; dropped if nobody takes it."""
        if not (self.gone or self.ended):
            self.begun = True
            self.ended = end
            self.pieces.append(data)
            self.sent += len(data)
            self.unfed += len(data)
            self._carrier.send_queued(self, len(data))

    def reset(self) -> None:
        """Breaks an answer off that has begun: the client sees a stream reset."""
        if not (self.gone or self.ended):
            self._carrier.break_off(self)

    async def wait_sent(self) -> bool:
        """Waits until the client has acknowledged everything sent so far. False if it never will."""
        while self.queued and not self.gone:
            await self._change()
        return not self.gone

    async def wait_gone(self) -> None:
        """Waits until nobody takes the answer any more. For answers that go on until then."""
        while not self.gone:
            await self._change()

    async def _change(self) -> None:
        if self._changed is None:
            self._changed = trio.Event()
        await self._changed.wait()

    def notify(self) -> None:
        """Wakes who waits for this exchange."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def next_piece(self) -> bytes:
        """Takes the next piece of the answer from the queue."""
        piece = self.pieces.popleft()
        if len(piece) > PIECE:
            self.pieces.appendleft(memoryview(piece)[PIECE:])
            piece = piece[:PIECE]
        self.unfed -= len(piece)
        return bytes(piece)
