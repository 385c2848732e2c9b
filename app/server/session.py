"""One connection's requests and answers, as a machine without I/O: datagrams and the time in, datagrams and whole requests out.

A session keeps the exchanges of one connection inside the limits: it bounds what arrives, holds a request back until its rate token is there and
the client has taken earlier answers, feeds answers to aioquic piece by piece, and knows its next deadline. The endpoint drives it and never
sees a request. How much leaves in one turn is bounded by aioquic's pacer: 16 packets.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from app.server.admission import Budget, Limits, Rate
from app.server.datagrams import Address, Datagram
from app.server.exchange import PIECE, Exchange, State
from app.server.quic import (
    Connection,
    ConnectionIdIssued,
    ConnectionIdRetired,
    ConnectionTerminated,
    HandshakeCompleted,
    StopSendingReceived,
    StreamDataReceived,
    StreamReset,
)

RATE_LIMITED = b"---\nstatus: rate-limited\n---\n"
"""The answer to a request over the rate (wire §6): no body."""

CLOSED = "server closed"
NO_ERROR = 0
"""The only reason text and the only code of the protocol (wire §1.13)."""

AHEAD = 4 * PIECE
"""Bytes of one answer that aioquic may hold unacknowledged: 2.5 MB/s at 100 ms."""

FEED = 4096
"""Bytes of answers given to aioquic at once: it walks all streams that have something to send for every packet it makes."""


class Shared(msgspec.Struct):
    """What the sessions of one endpoint have in common."""

    limits: Limits
    rate: Rate
    held: Budget
    queued: Budget
    routes: dict[bytes, "Session"]
    hand_over: Callable[[Exchange], None]
    """Called with every request that may run now. It may answer at once; it must not raise."""
    wake: Callable[["Session"], None]
    """Called when a session has something to send that no datagram and no timer caused."""
    refused: Callable[[str, float], None]
    """Called with the address and the time when a request was over the rate."""
    confirmed: Callable[[], None]
    """Called when a handshake is complete."""
    draining: bool = False


class Session:
    """One connection and its exchanges. `over` = to be forgotten; `deadline` = when `handle_timer` wants to be called."""

    def __init__(
        self, shared: Shared, connection: Connection, peer: str, first_id: bytes, now: float
    ) -> None:
        self.peer = peer
        self.confirmed = False
        self.over = False
        self.queued = 0  # bytes of answers not known to be acknowledged
        self.moved_at = now  # when the client last asked or took something
        self.deadline = math.inf
        self.alarms: list[float] = []  # the endpoint's pending timers for this session, the earliest last
        self._shared = shared
        self._connection = connection
        self._first_id = first_id
        self._ids = {first_id, connection.host_cid}
        self._exchanges: dict[int, Exchange] = {}
        self._feeding: dict[Exchange, None] = {}  # those that may have something for aioquic
        self._waiting: deque[Exchange] = deque()  # requests that wait for room
        self._now = now
        self._settling = False  # inside a turn: what is sent leaves at its end
        self._spoke = False  # whether anything was ever sent
        self._room = 0  # bytes of answers that aioquic may be given before it sends
        self._timer: float | None = None
        self._due = now + shared.limits.handshake_timeout  # no deadline of ours is earlier
        for identifier in self._ids:
            shared.routes[identifier] = self

    @property
    def streams(self) -> int:
        """Streams in use."""
        return len(self._exchanges)

    @property
    def forged(self) -> bool:
        """Whether the first flight called for no answer, so that the connection ended with it."""
        return self.over and not self._spoke

    # What the endpoint calls.

    def receive(self, data: bytes, address: Address, now: float) -> None:
        """Takes a datagram; `settle` must follow, once for all that came together."""
        self._connection.receive_datagram(data, address, now)

    def handle_timer(self, now: float) -> None:
        """Does what is due; `settle` must follow."""
        self._now = now
        self._settling = True
        if self._timer is not None and self._timer <= now:
            self._connection.handle_timer(now)
        if self._due <= now:
            self._meet_deadlines(now)

    def settle(self, now: float) -> list[Datagram]:
        """Hands over the requests that became whole and gives the datagrams to send."""
        connection = self._connection
        datagrams: list[Datagram] = []
        self._now = now
        self._settling = True
        self._room = FEED
        self._take_events(now)
        again = True
        while again:
            if self._feeding:
                self._feed()
            new = connection.datagrams_to_send(now)
            datagrams += new
            # Sending issues connection ids and forgets finished streams, which makes room for requests that wait.
            self._take_events(now)
            again = self._release(now)
            if self._feeding:
                # If less left than was fed, congestion holds it up, and an acknowledgement of what left will come. If nothing left, it may
                # be the reader of this one stream, who must not hold up the others.
                fed = FEED - self._room
                again |= fed > 0 and (not new or fed < sum(len(data) for data, _ in new))
            self._room = FEED
        self._settling = False
        if not self._spoke:
            self._spoke = bool(datagrams)
            self.over |= not datagrams  # a first flight that calls for no answer could not be decrypted
        self._timer = connection.get_timer()
        self.deadline = self._due if self._timer is None else min(self._timer, self._due)
        return datagrams

    def close(self, now: float) -> list[Datagram]:
        """Ends the connection; gives the datagrams that tell the client so."""
        self._connection.close(error_code=NO_ERROR, reason_phrase=CLOSED)
        try:
            return self._connection.datagrams_to_send(now)
        finally:
            self.end()

    def end(self) -> None:
        """Forgets everything: nothing of this connection is left in the routes and the budgets."""
        self.over = True
        for identifier in self._ids:
            self._shared.routes.pop(identifier, None)
        self._ids.clear()
        self._feeding.clear()
        self._waiting.clear()
        for exchange in self._exchanges.values():
            exchange.gone = True
            self._give_back(exchange)
        self._exchanges.clear()

    def running(self) -> int:
        """Requests that arrived whole and whose answer is not delivered yet."""
        return sum(
            exchange.state is not State.ARRIVING and not exchange.gone and not self._is_delivered(exchange)
            for exchange in self._exchanges.values()
        )

    def arriving(self) -> int:
        """Requests of which a part has arrived."""
        return sum(exchange.state is State.ARRIVING for exchange in self._exchanges.values())

    def _is_delivered(self, exchange: Exchange) -> bool:
        return exchange.ended and not exchange.pieces and not self._connection.unacknowledged(exchange.stream)

    # What an exchange calls.

    def send(self, exchange: Exchange, data: bytes) -> None:
        """Takes a piece of an answer; it leaves with the datagrams of this turn, or of one made for it."""
        size = len(data)
        exchange.sent += size
        self.queued += size
        self._shared.queued.used += size
        if self._settling and size <= self._room and not exchange.pieces:
            self._pass_on(exchange, data)
        else:
            exchange.pieces.append(data)
            self._feeding[exchange] = None
            if not self._settling:
                self._shared.wake(self)

    def break_off(self, exchange: Exchange) -> None:
        """Resets a stream whose answer cannot be finished."""
        self._lose(exchange)
        self._connection.reset_stream(exchange.stream, NO_ERROR)
        if not self._settling:
            self._shared.wake(self)

    # Events.

    def _take_events(self, now: float) -> None:
        next_event = self._connection.next_event
        event: Any = next_event()
        while event is not None:
            kind = type(event)
            if kind is StreamDataReceived:
                self._take_data(event.stream_id, event.data, event.end_stream, now)
            elif kind is StreamReset:
                self._take_reset(event.stream_id)
            elif kind is StopSendingReceived:
                self._take_stop(event.stream_id)
            elif kind is ConnectionIdIssued:
                self._ids.add(event.connection_id)
                self._shared.routes[event.connection_id] = self
            elif kind is ConnectionIdRetired:
                self._forget_id(event.connection_id)
            elif kind is HandshakeCompleted:
                self.confirmed = True
                self._shared.confirmed()
                self._forget_id(self._first_id)  # the client's own choice, for the handshake only
            elif kind is ConnectionTerminated:
                self.over = True
            event = next_event()

    def _take_data(self, stream: int, data: bytes, whole: bool, now: float) -> None:
        exchange = self._exchanges.get(stream)
        if exchange is None:
            exchange = self._begin(stream, whole, now)
        if exchange.state is not State.ARRIVING:
            return  # refused: what still comes is not read
        if whole and not exchange.part:
            exchange.request = data
        else:
            exchange.part += data
            exchange.held += len(data)
            self._shared.held.used += len(data)
            if self._too_much(exchange.held):
                self._give_up_reading(exchange, now)
                return
            if not whole:
                return
            exchange.request = bytes(exchange.part)
            exchange.part.clear()
        self._arrived(exchange, now)

    def _begin(self, stream: int, whole: bool, now: float) -> Exchange:
        """A stream appears: it costs a token before anything is read, and may be refused at once."""
        shared = self._shared
        exchange = self._exchanges[stream] = Exchange(self, stream, self.peer)
        if shared.draining:
            self._refuse(exchange, b"", whole)
            return exchange
        wait = shared.rate.take(self.peer, now)
        if wait is None:
            self._refuse(exchange, RATE_LIMITED, whole)
            shared.refused(self.peer, now)
            return exchange
        if wait:
            exchange.token_at = now + wait
        if not whole and shared.limits.request_timeout:
            self._set_deadline(exchange, now + wait + shared.limits.request_timeout)
        return exchange

    def _refuse(self, exchange: Exchange, answer: bytes, whole: bool) -> None:
        """Answers without reading. The client is asked to send no more, so that the stream ends and its credit returns."""
        exchange.state = State.HANDED_OVER
        if not whole:
            self._connection.stop_stream(exchange.stream, NO_ERROR)
        exchange.send(answer)

    def _too_much(self, size: int) -> bool:
        limits = self._shared.limits
        return size > limits.request_bytes or (
            size > limits.held_small and self._shared.held.used > limits.held_total
        )

    def _give_up_reading(self, exchange: Exchange, now: float) -> None:
        """Too large or too slow: the handler answers that it could not be read. A client that sends on runs out of its stream's window."""
        self._drop_request(exchange)
        exchange.fault = "unreadable"
        self._connection.stop_stream(exchange.stream, NO_ERROR)
        self._arrived(exchange, now)

    def _take_reset(self, stream: int) -> None:
        """The client breaks a request off. Our side must end too, or the stream is never forgotten and its credit lost."""
        exchange = self._exchanges.get(stream)
        if exchange is not None:
            self._lose(exchange)
        self._connection.reset_stream(stream, NO_ERROR)

    def _take_stop(self, stream: int) -> None:
        """The client wants no answer; aioquic has reset our side. What it still sends of the request is of no use."""
        exchange = self._exchanges.get(stream)
        if exchange is not None:
            if exchange.state is State.ARRIVING:
                self._connection.stop_stream(stream, NO_ERROR)
            self._lose(exchange)

    # Requests.

    def _arrived(self, exchange: Exchange, now: float) -> None:
        """A request is whole, or given up: it runs when its token is there and the client has taken its earlier answers."""
        if exchange.token_at > now:
            exchange.state = State.WAITING
            self._set_deadline(exchange, exchange.token_at)
        elif self.queued >= self._shared.limits.queued_per_connection:
            exchange.state = State.WAITING
            exchange.deadline = math.inf
            self._waiting.append(exchange)
        else:
            exchange.state = State.HANDED_OVER
            exchange.deadline = math.inf
            self._shared.hand_over(exchange)

    def _release(self, now: float) -> bool:
        """Forgets the exchanges whose streams are finished; lets waiting requests run if that made room."""
        streams = self._connection.streams()
        for stream in [stream for stream in self._exchanges if stream not in streams]:
            self._give_back(self._exchanges.pop(stream))
        released = False
        while self._waiting and self.queued < self._shared.limits.queued_per_connection:
            exchange = self._waiting.popleft()
            if not exchange.gone:
                self._arrived(exchange, now)
                released = True
        return released

    def _set_deadline(self, exchange: Exchange, when: float) -> None:
        exchange.deadline = when
        if when < self._due:
            self._due = when

    def _meet_deadlines(self, now: float) -> None:
        if not self.confirmed:
            self.over = True
            return
        for exchange in list(self._exchanges.values()):
            if exchange.deadline > now:
                continue
            exchange.deadline = math.inf
            if exchange.state is State.ARRIVING:
                self._give_up_reading(exchange, now)
            elif exchange.state is State.WAITING:
                self._arrived(exchange, now)
            else:
                self._note_delivered(exchange)
                if exchange.delivered < exchange.goal:  # the client has stopped reading
                    self._connection.close(error_code=NO_ERROR, reason_phrase=CLOSED)
                    self.over = True
                else:
                    self._expect(exchange)
        self._due = min((exchange.deadline for exchange in self._exchanges.values()), default=math.inf)

    # Answers.

    def _feed(self) -> None:
        """Gives aioquic the next few packets' worth of the answers that wait, one piece of each in turn."""
        for exchange in list(self._feeding):
            if self._room <= 0:
                break
            if exchange.fed > exchange.delivered:
                self._note_delivered(exchange)
            del self._feeding[exchange]
            if exchange.pieces and exchange.fed - exchange.delivered < AHEAD:
                self._pass_on(exchange, exchange.next_piece())
            elif exchange.pieces or exchange.delivered < exchange.sent:
                self._feeding[exchange] = None

    def _pass_on(self, exchange: Exchange, piece: bytes) -> None:
        """Gives aioquic a piece of an answer."""
        try:
            self._connection.send_stream_data(exchange.stream, piece, exchange.ended and not exchange.pieces)
        except (RuntimeError, ValueError):  # reset by the client in this very turn
            self._lose(exchange)
            return
        exchange.fed += len(piece)
        self._room -= len(piece) + 1  # an end without data counts too
        if exchange.deadline == math.inf:
            self._expect(exchange)
        if exchange.pieces or not exchange.ended:
            self._feeding[exchange] = None  # behind the others

    def _expect(self, exchange: Exchange) -> None:
        """Sets the deadline by which the client must have taken the next piece, if there is one."""
        if exchange.delivered < exchange.sent:
            exchange.goal = min(exchange.sent, exchange.delivered + PIECE)
            self._set_deadline(exchange, self._now + self._shared.limits.write_deadline)
            self.moved_at = self._now

    def _note_delivered(self, exchange: Exchange) -> None:
        """Counts the bytes of an answer that the client has acknowledged."""
        size = exchange.fed - exchange.delivered - self._connection.unacknowledged(exchange.stream)
        if size:
            self._count_delivered(exchange, size)
            self.moved_at = self._now

    def _count_delivered(self, exchange: Exchange, size: int) -> None:
        exchange.delivered += size
        self.queued -= size
        self._shared.queued.used -= size
        if exchange.delivered == exchange.sent:
            exchange.deadline = math.inf
            exchange.notify()

    def _lose(self, exchange: Exchange) -> None:
        """Nobody takes the answer any more; the stream itself ends in its own time."""
        exchange.state = State.HANDED_OVER
        exchange.gone = True
        exchange.pieces.clear()
        self._feeding.pop(exchange, None)
        self._give_back(exchange)

    def _give_back(self, exchange: Exchange) -> None:
        """Returns what the exchange held of the budgets and wakes who waits for it."""
        self._count_delivered(exchange, exchange.sent - exchange.delivered)
        self._drop_request(exchange)

    def _drop_request(self, exchange: Exchange) -> None:
        self._shared.held.used -= exchange.held
        exchange.held = 0
        exchange.part.clear()

    def _forget_id(self, identifier: bytes) -> None:
        self._ids.discard(identifier)
        self._shared.routes.pop(identifier, None)
