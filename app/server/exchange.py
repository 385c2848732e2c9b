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

    def send(self, exchange: "Exchange", data: bytes) -> None: ...

    def break_off(self, exchange: "Exchange") -> None: ...


class Exchange:
    """One request and its answer, or answers, on one stream.

    `peer` is the client's address as text. `request` is everything up to its FIN; `fault` is `unreadable` instead if it passed a size limit or
    its deadline, and is to be answered as such (wire §2.3). `ended` says that the last of the answer was sent, `gone`
    that nobody takes it any more.
    """

    fault = ""
    gone = False
    ended = False

    # The session's bookkeeping. Defaults stand here and not in the constructor, because most exchanges never need another value.
    state = State.ARRIVING
    token_at = 0.0
    deadline = math.inf
    held = 0  # bytes of the request, if it did not come in one frame
    sent = 0  # bytes of answers: given to `send`,
    fed = 0  # passed on,
    delivered = 0  # known to be acknowledged,
    goal = 0  # to be acknowledged by the deadline
    _changed: trio.Event | None = None

    def __init__(self, carrier: Carrier, stream: int, peer: str) -> None:
        self.peer = peer
        self.request = b""
        self.stream = stream
        self.part = (
            bytearray()
        )  # of a request that has not arrived whole; one buffer, however small its frames
        self.pieces: deque[bytes | memoryview] = deque()  # of answers, not passed on yet
        self._carrier = carrier

    @property
    def begun(self) -> bool:
        """Whether some of the answer was sent."""
        return self.ended or self.sent > 0

    def send(self, data: bytes, *, end: bool = True) -> None:
        """Sends the answer, or with `end=False` a piece of one that goes on. Never raises, never waits; dropped if nobody takes it."""
        if not (self.gone or self.ended):
            self.ended = end
            self._carrier.send(self, data)

    def reset(self) -> None:
        """Breaks an answer off that has begun: the client sees a stream reset."""
        if not (self.gone or self.ended):
            self._carrier.break_off(self)

    async def wait_sent(self) -> bool:
        """Waits until the client has acknowledged everything sent so far. False if it never will."""
        while self.delivered < self.sent and not self.gone:
            await self._change()
        return not self.gone

    async def wait_gone(self) -> None:
        """Waits until nobody takes the answer any more, or all of it is delivered."""
        while not (self.gone or (self.ended and self.delivered == self.sent)):
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
        return bytes(piece)
