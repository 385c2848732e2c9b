"""The server's end of the network: the UDP socket, one or one for each address family, the connections on it, and the loop that drives them.

A turn drains it, lets every touched connection work through what came, and sends what it has to say in one go; a request whose answer
is at hand is answered inside the turn, without a task. An answer computed later gets a turn of its own at once. All timers are one task over one
heap with lazy entries. The clock is trio's, which is monotonic: the wall clock of a board may be anything.

No received bytes raise out of the loop: what aioquic does not expect costs the one connection that brought it. QUIC itself is in `quic`, the
requests of one connection in `session`, the rules of admission in `admission`, the socket in `datagrams`.
"""

import heapq
import itertools
import math
import time
import traceback
import weakref
from collections.abc import Awaitable, Callable

import msgspec
import trio

from app.protocol.text import Log
from app.server.admission import Budget, Door, Limits, Patience, Rate, Throttle, Verdict
from app.server.certificate import Certificate
from app.server.datagrams import Address, Datagram, Datagrams, plain_host
from app.server.exchange import Exchange
from app.server.quic import Listener
from app.server.session import Session, Shared
from app.server.strangers import First, Proofs, destination, first, stateless_reset, version_negotiation

__all__ = ["SERVER_ERROR", "Answer", "Endpoint", "Exchange", "Limits", "Stats"]

Answer = Callable[[Exchange], Awaitable[None] | None]
"""Answers a request: at once, or soon by other means, giving None; or by an awaitable that the endpoint runs in a task of its own."""

SERVER_ERROR = b"---\nstatus: server-error\n---\n\n# Server error\n\ninternal error\n"
"""What a client gets whose request made the handler crash (the form of wire §3.5)."""

_GRAIN = 0.001
"""The event loop waits in whole milliseconds: a timer that moves by less is left where it is."""

_QUIET = 60.0
"""Seconds between two lines of a kind that a stranger can cause."""

_RESETS = 50
"""Stateless resets per second and address: a client with a lost connection needs one, a forged flood gets no more than that."""


class Stats(msgspec.Struct, frozen=True):
    """Counters of an endpoint: what is there now, and what happened since it was made."""

    connections: int
    half_open: int
    streams: int
    queued_bytes: int
    held_bytes: int
    requests: int
    refused_connections: int
    retries: int
    rate_limited: int
    crashes: int
    failed_connections: int
    shed_connections: int


class Endpoint:
    """Serves the Mark Protocol's transport: whole requests go to `answer`, its answers go back (wire §1)."""

    def __init__(self, answer: Answer, certificate: Certificate, limits: Limits, *, log: Log) -> None:
        self._answer = answer
        self._log = log
        self._listener = Listener(certificate, limits)
        self._door = Door(limits)
        self._proofs = Proofs()
        self._patience = Patience()
        self._sessions: dict[Session, None] = {}
        self._shared = Shared(
            limits=limits,
            rate=Rate(limits.rate, limits.burst, limits.patience, limits.addresses),
            held=Budget(limits.held_total),
            queued=Budget(limits.queued_total),
            routes={},
            hand_over=self._hand_over,
            wake=self._wake,
            refused=self._rate_limited,
            confirmed=self._door.confirm,
        )
        self._resets = Rate(_RESETS, _RESETS, 0.0, limits.addresses)
        self._alarms: list[tuple[float, int, weakref.ref[Session]]] = []
        self._order = itertools.count()
        self._sleep = trio.CancelScope()  # around the wait for the next alarm
        self._reading = trio.CancelScope()
        self._patient_until = 0.0  # while draining: how long a request that has not arrived whole may take
        self._empty: trio.Event | None = None  # set when the last connection is gone
        self._lines: dict[str, Throttle] = {}
        self._requests = self._refusals = self._crashes = self._failures = self._sheds = 0

    @property
    def stats(self) -> Stats:
        """The counters now."""
        return Stats(
            connections=self._door.connections,
            half_open=self._door.half_open,
            streams=sum(session.streams for session in self._sessions),
            queued_bytes=self._shared.queued.used,
            held_bytes=self._shared.held.used,
            requests=self._requests,
            refused_connections=self._door.refused,
            retries=self._door.retried,
            rate_limited=self._refusals,
            crashes=self._crashes,
            failed_connections=self._failures,
            shed_connections=self._sheds,
        )

    def use_certificate(self, certificate: Certificate) -> None:
        """New handshakes show this certificate; open connections stay."""
        self._listener.use_certificate(certificate)

    async def serve(
        self, *sockets: Datagrams, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serves on these sockets, one or one for each address family, until `drain` is done or the task is cancelled; closes them at the end.

        Starts with the port of the first.
        """
        self._sockets = sockets
        self._clock = trio.lowlevel.current_clock().current_time
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._keep_time)
                task_status.started(sockets[0].port)
                with trio.CancelScope() as self._reading:
                    async with trio.open_nursery() as readers:
                        for sock in sockets:
                            readers.start_soon(self._read, sock)
        finally:
            self._close_all()
            for sock in sockets:
                sock.close()

    async def drain(self, grace: float = 10.0) -> None:
        """Ends a running `serve`, in less than `grace` seconds: no new connections and requests, running requests finish, idle clients are
        told at once, the others when their last answer is delivered. A request that has not arrived whole gets a quarter of the time.
        """
        begun = self._clock()
        self._shared.draining = True
        self._patient_until = begun + 0.25 * grace
        self._empty = trio.Event()
        try:
            self._retire_idle(begun)
            with trio.move_on_at(self._patient_until):
                await self._empty.wait()
            self._retire_idle(self._clock())
            with trio.move_on_at(begun + 0.9 * grace):
                await self._empty.wait()
        finally:
            self._reading.cancel()
            self._close_all()
            with trio.move_on_at(begun + 0.95 * grace, shield=True):
                for sock in self._sockets:
                    while sock.backlog:
                        await trio.lowlevel.wait_writable(sock.socket)
                        sock.send_backlog()
            self._nursery.cancel_scope.cancel()

    # The loop.

    async def _read(self, sock: Datagrams) -> None:
        while not self._reading.cancel_called:  # else `drain` may be waiting for the socket
            if sock.backlog:
                await trio.lowlevel.wait_writable(sock.socket)
                sock.send_backlog()
            else:
                await trio.lowlevel.wait_readable(sock.socket)
            self._turn()

    def _turn(self) -> None:
        """Takes what has arrived, then lets every connection that got something have its say. Strangers come last."""
        now = self._clock()
        touched: dict[Session, None] = {}
        strangers: list[Datagram] = []
        routes = self._shared.routes
        for sock in self._sockets:
            for datagram in sock.receive():
                target = destination(datagram[0])
                if target is None:
                    continue
                session = routes.get(target)
                if session is None:
                    strangers.append(datagram)
                else:
                    self._give(session, datagram, touched, now)
        for session in touched:
            if not session.over:  # closed in this very turn
                self._settle(session, now)
        if strangers:
            self._meet(strangers, now)

    def _send(self, datagrams: list[Datagram]) -> None:
        if len(self._sockets) == 1:
            self._sockets[0].send(datagrams)
            return
        for sock in self._sockets:
            sock.send([datagram for datagram in datagrams if sock.reaches(datagram[1])])

    def _give(self, session: Session, datagram: Datagram, touched: dict[Session, None], now: float) -> None:
        """Gives a connection a datagram."""
        try:
            session.receive(*datagram, now)
        except Exception as error:
            self._fail(session, error, now)
        else:
            touched[session] = None

    def _settle(self, session: Session, now: float) -> None:
        """Lets a connection act on what it got, sends what it has to say and sets its timer."""
        try:
            datagrams = session.settle(now)
        except Exception as error:
            self._fail(session, error, now)
            return
        self._send(datagrams)
        if session.over:
            self._forget(session)
            return
        if not session.alarms or session.deadline < session.alarms[-1] - _GRAIN:
            self._set_alarm(session)
        shared = self._shared
        if shared.queued.used > shared.queued.cap:
            self._shed(now)
        if shared.draining:
            self._retire(session, now)

    def _wake(self, session: Session) -> None:
        """An answer came outside a turn: it leaves now."""
        self._settle(session, self._clock())

    # Timers.

    def _set_alarm(self, session: Session) -> None:
        """Asks for a call at the session's deadline. When it moves later nothing is done: the alarm that is set finds out."""
        when = session.deadline
        session.alarms.append(when)
        heapq.heappush(self._alarms, (when, next(self._order), weakref.ref(session)))
        if when < self._sleep.deadline:
            self._sleep.deadline = when

    async def _keep_time(self) -> None:
        alarms = self._alarms
        while True:
            with trio.CancelScope(deadline=alarms[0][0] if alarms else math.inf) as self._sleep:
                await trio.sleep_forever()
            self._turn()  # an acknowledgement that is already here must not count as lost
            self._ring(self._clock())

    def _ring(self, now: float) -> None:
        """Serves the alarms that are due."""
        while self._alarms and self._alarms[0][0] <= now:
            session = heapq.heappop(self._alarms)[2]()
            if session is None or session.over:
                continue
            session.alarms.pop()
            if session.deadline > now:
                if not session.alarms or session.deadline < session.alarms[-1] - _GRAIN:
                    self._set_alarm(session)
                continue
            try:
                session.handle_timer(now)
            except Exception as error:
                self._fail(session, error, now)
            else:
                self._settle(session, now)

    # Connections.

    def _meet(self, strangers: list[Datagram], now: float) -> None:
        """Datagrams for no connection we know. Those with a proof of address go first, so that a flood of others is not in their way."""
        touched: dict[Session, None] = {}
        unproved: list[tuple[First | None, Datagram]] = []
        for datagram in strangers:
            data, address = datagram
            head = first(data)
            original = self._proofs.check(head, address, now) if head is not None and head.token else None
            if head is not None and original is not None:
                self._let_in(head, original, datagram, touched, now)
            elif head is not None or not data[0] & 0x80:
                unproved.append((head, datagram))
        if not self._patience.all_heard(now):
            unproved = self._those_who_ask_again(unproved, now)
        if unproved:
            self._hear(unproved, touched, now)
        for session in touched:
            if not session.over:
                self._settle(session, now)
                if session.forged:
                    self._door.forged(now)

    def _those_who_ask_again(
        self, unproved: list[tuple[First | None, Datagram]], now: float
    ) -> list[tuple[First | None, Datagram]]:
        """There are more strangers than there is time for: the others get silence."""
        heard = [
            (head, datagram)
            for head, datagram in unproved
            if self._patience.asks_again((destination(datagram[0]), datagram[1]), now)
        ]
        if len(heard) < len(unproved):
            self._door.refused += len(unproved) - len(heard)
            peer = plain_host(unproved[0][1][1])
            self._warn("concurrency limited", now, ip=peer, error="too many first datagrams")
        return heard

    def _hear(
        self, unproved: list[tuple[First | None, Datagram]], touched: dict[Session, None], now: float
    ) -> None:
        """Lets those in who need no proof, and answers the others: prove your address, speak our version, forget this connection."""
        rest: list[tuple[First | None, Datagram]] = []
        for head, datagram in unproved:
            if head is None or not head.supported:
                rest.append((head, datagram))
            elif head.destination in self._shared.routes:  # the second part of a first flight
                self._let_in(head, None, datagram, touched, now)
            elif not self._shared.draining:
                verdict = self._door.judge(plain_host(datagram[1]), now, proved=False)
                if verdict is Verdict.ACCEPT:
                    self._let_in(head, None, datagram, touched, now)
                else:
                    rest.append((head, datagram))
        if rest:
            begun = time.thread_time()
            answers: list[Datagram] = []
            for head, (data, address) in rest:
                answer = self._answer_to(head, data, address, now)
                if answer is not None:
                    answers.append((answer, address))
            self._send(answers)
            self._patience.spend(time.thread_time() - begun)

    def _answer_to(self, head: First | None, data: bytes, address: Address, now: float) -> bytes | None:
        if head is None:
            if self._resets.take(plain_host(address), now) is None:
                return None
            return stateless_reset(self._listener.reset_key, data)
        return self._proofs.retry(head, address, now) if head.supported else version_negotiation(head)

    def _let_in(
        self,
        head: First,
        original: bytes | None,
        datagram: Datagram,
        touched: dict[Session, None],
        now: float,
    ) -> None:
        """Gives a first datagram to its connection, which begins with it if there is room."""
        session = self._shared.routes.get(head.destination)
        if session is None:
            session = self._begin(head, original, plain_host(datagram[1]), now)
        if session is not None:
            self._give(session, datagram, touched, now)

    def _begin(self, head: First, original: bytes | None, peer: str, now: float) -> Session | None:
        """A connection begins; None if there is no room for it. Who proved his address may take the place of another."""
        door = self._door
        if self._shared.draining:
            return None
        if original is not None and door.judge(peer, now, proved=True) is Verdict.IGNORE:
            self._warn("concurrency limited", now, ip=peer, error="too many connections a second")
            return None
        while door.full(peer):
            if not self._make_room(peer, now):
                door.refused += 1
                self._warn("concurrency limited", now, ip=peer, error="too many connections")
                return None
        session = Session(self._shared, self._listener.accept(head, original), peer, head.destination, now)
        self._sessions[session] = None
        door.enter(peer)
        return session

    def _make_room(self, peer: str, now: float) -> bool:
        """Closes the connection that has been idle longest of those whose address holds most; False if all are at work.

        A request that is still arriving is no work: it would be an easy way to keep a place for ever.
        """
        door = self._door
        idle = [
            session
            for session in self._sessions
            if door.makes_room(session.peer, peer, confirmed=session.confirmed) and not session.running()
        ]
        if not idle:
            return False
        session = max(idle, key=lambda session: (door.held(session.peer), -session.moved_at))
        self._sheds += 1
        self._warn("connection shed", now, ip=session.peer, error="its place was needed for another")
        self._close(session, now)
        return True

    def _close(self, session: Session, now: float) -> None:
        try:
            self._send(session.close(now))
        except Exception:  # after an error inside aioquic, closing may meet it again
            session.end()
        self._forget(session)

    def _close_all(self) -> None:
        for session in list(self._sessions):
            self._close(session, self._clock())

    def _fail(self, session: Session, error: Exception, now: float) -> None:
        """Something that aioquic did not expect: this connection ends, the others do not notice."""
        self._failures += 1
        self._warn("connection failed", now, error=f"{type(error).__name__}: {error}", where=_where(error))
        self._close(session, now)

    def _shed(self, now: float) -> None:
        """Too much is waiting to be sent: those who have taken nothing for longest lose their connections."""
        holders = sorted(
            (session for session in self._sessions if session.queued), key=lambda session: session.moved_at
        )
        for session in holders:
            if self._shared.queued.used <= self._shared.queued.cap:
                break
            self._sheds += 1
            self._warn("connection shed", now, error="too many answers wait to be sent")
            self._close(session, now)

    def _forget(self, session: Session) -> None:
        session.end()
        if session in self._sessions:
            del self._sessions[session]
            self._door.leave(session.peer, confirmed=session.confirmed)
        if self._empty is not None and not self._sessions:
            self._empty.set()

    def _retire(self, session: Session, now: float) -> None:
        """While draining: a connection whose requests are done is told that this is the end."""
        if (
            not session.over
            and not session.running()
            and (now >= self._patient_until or not session.arriving())
        ):
            self._close(session, now)

    def _retire_idle(self, now: float) -> None:
        for session in list(self._sessions):
            self._retire(session, now)
        if self._empty is not None and not self._sessions:
            self._empty.set()

    # Requests.

    def _hand_over(self, exchange: Exchange) -> None:
        self._requests += 1
        try:
            later = self._answer(exchange)
        except Exception as error:
            self._crashed(exchange, error)
        else:
            if later is not None:
                self._nursery.start_soon(self._finish, exchange, later)

    async def _finish(self, exchange: Exchange, later: Awaitable[None]) -> None:
        try:
            await later
            if not (exchange.ended or exchange.gone):
                raise RuntimeError("the handler ended without an answer")
        except Exception as error:
            self._crashed(exchange, error)

    def _crashed(self, exchange: Exchange, error: Exception) -> None:
        """A handler that raises costs its own stream the answer, and one line."""
        self._crashes += 1
        self._log("error", "request failed", error=f"{type(error).__name__}: {error}", where=_where(error))
        if exchange.begun:
            exchange.reset()
        else:
            exchange.send(SERVER_ERROR)

    def _rate_limited(self, peer: str, now: float) -> None:
        self._refusals += 1
        self._warn("rate limited", now, ip=peer, error="no token within the request timeout")

    def _warn(self, message: str, now: float, **fields: object) -> None:
        """Logs what a stranger can cause: at most one line of a kind in a while, with the number of those left out."""
        suppressed = self._lines.setdefault(message, Throttle(_QUIET)).admit(now)
        if suppressed is not None:
            self._log("warn", message, **fields, suppressed=suppressed)


def _where(error: Exception) -> str:
    """The line that raised, for the log."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
