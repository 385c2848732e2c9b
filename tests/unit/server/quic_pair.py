"""Two machines back to back: aioquic's client against the server's sessions, with a clock that only moves when told to. No socket, no waiting.

`Peer` is the client: honest, or made to send any frame by `forge`. `Pair` joins any number of them to the sessions of one server.
"""

import functools
import ssl
from collections.abc import Callable

from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.tls import Epoch

from app.server.admission import Budget, Limits, Rate
from app.server.certificate import Certificate, self_signed
from app.server.datagrams import Datagram
from app.server.exchange import Exchange
from app.server.quic import Listener
from app.server.session import Session, Shared
from app.server.strangers import destination, first

SERVER = ("192.0.2.1", 6309)


@functools.cache
def certificate() -> Certificate:
    return self_signed("localhost")


def client_configuration(**settings: object) -> QuicConfiguration:
    wide = {"max_data": 1 << 26, "max_stream_data": 1 << 26}
    return QuicConfiguration(
        **{"is_client": True, "alpn_protocols": ["mark"], "verify_mode": ssl.CERT_NONE} | wide | settings  # type: ignore[arg-type]
    )


def varint(value: int) -> bytes:
    for size, mark in ((1, 0x00), (2, 0x40), (4, 0x80), (8, 0xC0)):
        if value < 1 << 8 * size - 2:
            first, *rest = value.to_bytes(size, "big")
            return bytes([first | mark, *rest])
    raise ValueError(value)


def stream_frame(stream: int, data: bytes, *, offset: int = 0, fin: bool = False) -> bytes:
    return bytes([0x0E | fin]) + varint(stream) + varint(offset) + varint(len(data)) + data


class Peer:
    """A client, and what it got: answers by stream, the streams that ended, were reset and stopped, why the connection ended."""

    def __init__(self, address: tuple[str, int] = ("192.0.2.7", 5000), **settings: object) -> None:
        self.address = address
        self.quic = QuicConnection(configuration=client_configuration(**settings))
        self._answers: dict[int, bytearray] = {}
        self.ended: set[int] = set()
        self.resets: dict[int, int] = {}
        self.stops: dict[int, int] = {}
        self.connected = False
        self.deaf = False
        self.forged: list[bytes] = []
        self.heard = 0

    @property
    def answers(self) -> dict[int, bytes]:
        """What came on each stream so far."""
        return {stream: bytes(data) for stream, data in self._answers.items()}

    def closed(self) -> tuple[int, str] | None:
        """The code and the reason with which the server closed the connection."""
        event = self.quic._close_event
        return None if event is None else (event.error_code, event.reason_phrase)

    def ask(self, data: bytes, *, end: bool = True) -> int:
        """Sends a request, or its beginning; gives the stream."""
        stream = self.quic.get_next_available_stream_id()
        self.quic.send_stream_data(stream, data, end)
        return stream

    def forge(self, frames: bytes) -> None:
        """Puts a packet with these frames on its way, whatever they are."""
        quic = self.quic
        number = quic._packet_number
        quic._packet_number += 1
        header = b"\x41" + quic._peer_cid.cid + (number & 0xFFFF).to_bytes(2, "big")
        self.forged.append(
            quic._cryptos[Epoch.ONE_RTT].encrypt_packet(header, frames.ljust(4, b"\x00"), number)
        )

    def receive(self, data: bytes, now: float) -> None:
        self.heard += 1
        if not self.deaf:
            self.quic.receive_datagram(data, SERVER, now)
            self.take_events()

    def take_events(self) -> None:
        while (event := self.quic.next_event()) is not None:
            if isinstance(event, events.StreamDataReceived):
                self._answers.setdefault(event.stream_id, bytearray()).extend(event.data)
                if event.end_stream:
                    self.ended.add(event.stream_id)
            elif isinstance(event, events.StreamReset):
                self.resets[event.stream_id] = event.error_code
            elif isinstance(event, events.StopSendingReceived):
                self.stops[event.stream_id] = event.error_code
            elif isinstance(event, events.HandshakeCompleted):
                self.connected = True

    def send(self, now: float) -> list[bytes]:
        datagrams = [data for data, _ in self.quic.datagrams_to_send(now)] + self.forged
        self.forged = []
        return datagrams


def echo(exchange: Exchange) -> None:
    exchange.send(exchange.fault.encode() or exchange.request)


class Pair:
    """One server's sessions and its clients. `handed` are the requests that were handed over."""

    def __init__(self, answer: Callable[[Exchange], None] = echo, **limits: object) -> None:
        self.now = 1000.0
        self.answer = answer
        self.handed: list[Exchange] = []
        self.refusals: list[str] = []
        self.limits = Limits(**limits)  # type: ignore[arg-type]
        self.listener = Listener(certificate(), self.limits)
        self.peers: list[Peer] = []
        self.sessions: list[Session] = []
        self.shared = Shared(
            limits=self.limits,
            rate=Rate(self.limits.rate, self.limits.burst, self.limits.patience, self.limits.addresses),
            held=Budget(self.limits.held_total),
            queued=Budget(self.limits.queued_total),
            routes={},
            hand_over=self._hand_over,
            wake=lambda session: self._deliver(session.settle(self.now)),
            refused=lambda address, now: self.refusals.append(address),
            confirmed=lambda: None,
        )

    def _hand_over(self, exchange: Exchange) -> None:
        self.handed.append(exchange)
        self.answer(exchange)

    def connect(self, peer: Peer | None = None) -> Peer:
        """A client that has made its handshake."""
        peer = peer or Peer()
        self.peers.append(peer)
        peer.quic.connect(SERVER, self.now)
        self.pump()
        assert peer.connected
        return peer

    @property
    def session(self) -> Session:
        """The newest session."""
        return self.sessions[-1]

    def pump(self) -> None:
        """Lets datagrams travel, for as long as a few round trips take."""
        self.advance(0.05)

    def advance(self, seconds: float) -> None:
        """Lets this much time pass, with every datagram and every timer on the way."""
        end = self.now + seconds
        while True:
            self._travel()
            due = [peer.quic.get_timer() for peer in self.peers] + [
                session.deadline for session in self.sessions
            ]
            self.now = max(self.now, min([when for when in due if when is not None] + [end]))
            if self.now >= end:
                return
            for peer in self.peers:
                timer = peer.quic.get_timer()
                if timer is not None and timer <= self.now:
                    peer.quic.handle_timer(self.now)
                    peer.take_events()
            for session in list(self.sessions):
                if session.deadline <= self.now:
                    session.handle_timer(self.now)
                    self._settle(session)

    def _travel(self) -> None:
        """Delivers until nobody has anything to send; every trip takes a moment."""
        moved = True
        while moved:
            moved = False
            for peer in self.peers:
                datagrams = peer.send(self.now)
                moved |= bool(datagrams)
                self.now += 0.0005 * bool(datagrams)
                self._arrive(datagrams, peer)

    def _arrive(self, datagrams: list[bytes], peer: Peer) -> None:
        touched: dict[Session, None] = {}
        for data in datagrams:
            target = destination(data)
            assert target is not None
            session = self.shared.routes.get(target)
            if session is None:
                head = first(data)
                if head is None:
                    continue
                session = Session(
                    self.shared, self.listener.accept(head, None), peer.address[0], target, self.now
                )
                self.sessions.append(session)
            session.receive(data, peer.address, self.now)
            touched[session] = None
        for session in touched:
            self._settle(session)

    def _settle(self, session: Session) -> None:
        self._deliver(session.settle(self.now))
        if session.over:
            session.end()
            self.sessions.remove(session)

    def _deliver(self, datagrams: list[Datagram]) -> None:
        for data, address in datagrams:
            for peer in self.peers:
                if peer.address == address:
                    peer.receive(data, self.now)
