"""One QUIC connection to one server: request bytes in, answer bytes out, driven by trio.

The only module of the client that knows aioquic. It knows nothing of verbs, statuses, retries or pins. aioquic is a machine without
I/O: this module owns the socket, the timer and the exchanges, and treats every byte that comes in as hostile. One clock, trio's, is
used for both machines.

What is needed of aioquic beyond its public interface sits in `_Quic` and nowhere else; tests/unit/client/test_quic.py fails when one of
those names moves.
"""

import ipaddress
import logging
import socket
import ssl
from math import inf
from typing import Any

import trio
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicErrorCode
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.quic.stream import QuicStream
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from app.client.roots import system_roots
from app.protocol.limits import ALPN, RESPONSE_MAX

IDLE_TIMEOUT = 30.0  # seconds, as the server's default (wire §1.7)
KEEP_ALIVE = 25.0  # a PING after so many idle seconds (wire §1.7)
QUIET = (
    2.5  # seconds without a sign of life before a waiting exchange asks for one, and how long it waits for it
)
NEXT_ADDRESS = 2.0  # seconds for one address of a host before the next one is tried

_SocketAddress = tuple[Any, ...]  # host and port, for IPv6 flow and scope too; the resolver's to make
_DATAGRAM_MAX = 65536
_BATCH = 64  # datagrams read before the timer and the exchanges get their turn
_CERTIFICATE_ALERTS = {
    QuicErrorCode.CRYPTO_ERROR + 42,  # bad_certificate: name, chain or signature
    QuicErrorCode.CRYPTO_ERROR + 45,  # certificate_expired, or not valid yet
}
_NO_ALPN = QuicErrorCode.CRYPTO_ERROR + 120

# aioquic warns about every failed handshake; the failure is reported here, in words.
logging.getLogger("quic").addHandler(logging.NullHandler())


class Lost(Exception):
    """The connection or the stream broke. `sent` tells whether a byte of the request may have left."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent


class TimedOut(Lost):
    """No whole answer within the time given; the connection may be in good health."""


class TooLarge(Exception):
    """The answer is larger than `RESPONSE_MAX`."""


class HandshakeFailed(Exception):
    """No connection. `fingerprint` is set when it was the certificate that was refused."""

    def __init__(self, reason: str, fingerprint: str | None = None, *, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fingerprint = fingerprint
        self.timed_out = timed_out


class _Quic(QuicConnection):
    """aioquic's client machine, made unable to hoard: no streams from the server, and a window of one answer per stream.

    Stock windows double whenever half of them is used, read or not, so that a few one-byte frames at doubling offsets
    would reserve any amount of memory.
    """

    def __init__(self, configuration: QuicConfiguration) -> None:
        super().__init__(configuration=configuration)
        for limit in (self._local_max_streams_bidi, self._local_max_streams_uni):
            limit.value = limit.sent = 0

    def _write_stream_limits(
        self, builder: QuicPacketBuilder, space: QuicPacketSpace, stream: QuicStream
    ) -> None:
        """A stream's window never grows."""

    def fingerprint(self) -> str | None:
        """Of the certificate the server showed, also when it was refused."""
        certificate: x509.Certificate | None = self.tls._peer_certificate
        if certificate is None:
            return None
        return f"sha256:{certificate.fingerprint(hashes.SHA256()).hex()}"

    def ending(self) -> events.ConnectionTerminated | None:
        """Why the connection is over, known three probe timeouts before the event says so."""
        return self._close_event

    def credit(self) -> int:
        """How many more streams the server lets this side open now. aioquic would queue one beyond that, and could not
        take it back: its reset alone would break the server's limit."""
        return self._remote_max_streams_bidi - self.get_next_available_stream_id() // 4

    def unsent(self, stream_id: int) -> bool:
        """Whether no byte of the stream has left, for want of a turn."""
        stream = self._streams.get(stream_id)
        return stream is not None and stream.sender.highest_offset == 0


class _Exchange:
    """One request that waits for its answer."""

    def __init__(self) -> None:
        self.answer = bytearray()
        self.settled = trio.Event()
        self.complete = False
        self.failure: str | None = None
        self.sent = False


class Connection:
    """A connection to one address of the server `name`. `run` must be running for anything else to make progress.

    `verify` checks the certificate's chain, dates and name against the system's roots; without it any certificate is taken
    and the caller looks at `fingerprint`. Raises `OSError` when the address cannot be reached from here at all.
    """

    def __init__(self, name: str, family: int, address: _SocketAddress, *, verify: bool) -> None:
        cafile, capath = system_roots() if verify else (None, None)
        self._quic = _Quic(
            QuicConfiguration(
                is_client=True,
                alpn_protocols=[ALPN],
                server_name=name,
                verify_mode=ssl.CERT_REQUIRED if verify else ssl.CERT_NONE,
                cafile=cafile,
                capath=capath,
                idle_timeout=IDLE_TIMEOUT,
                max_stream_data=RESPONSE_MAX + 1,
                max_data=2 * RESPONSE_MAX,
            )
        )
        self._address = address
        self._socket = _connected(family, address)
        self._exchanges: dict[int, _Exchange] = {}
        self._waiting = trio.lowlevel.ParkingLot()
        self._pings: dict[int, trio.Event] = {}
        self._over = trio.Event()
        self._established = trio.Event()
        self._reason = ""
        self._refused_certificate = False
        self._heard = self._active = trio.current_time()
        self._quic.connect(address, now=self._active)
        self._wake_at = -inf
        self._nap: trio.CancelScope | None = None

    @property
    def fingerprint(self) -> str:
        """`sha256:` and the hexadecimal digest of the server's certificate; empty before it came."""
        return self._quic.fingerprint() or ""

    @property
    def usable(self) -> bool:
        """Whether new exchanges may be started."""
        return self._established.is_set() and not self._over.is_set()

    @property
    def busy(self) -> bool:
        """Whether exchanges are under way, which watch over its health themselves."""
        return bool(self._exchanges)

    @property
    def heard(self) -> float:
        """When the last datagram came in, on trio's clock."""
        return self._heard

    # A Ctrl-C belongs to whoever waits for an answer, not to the pump.
    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Keeps the machine going until the connection is over. Never raises for anything the network does."""
        try:
            self._flush()
            while not self._over.is_set():
                with trio.CancelScope(deadline=self._wake_at) as self._nap:
                    await trio.lowlevel.wait_readable(self._socket)
                self._turn()
        finally:
            self.close()
            self._socket.close()

    async def established(self) -> None:
        """Returns once requests can be sent; raises `HandshakeFailed` when that will not be."""
        await self._established.wait()
        if self._over.is_set():
            raise HandshakeFailed(
                self._reason, self._quic.fingerprint() if self._refused_certificate else None
            )

    async def exchange(self, request: bytes, within: float) -> bytes:
        """Sends one request and gives the whole answer (wire §1.4).

        Waits for stream credit first, where the server's limit is reached (wire §1.6). Raises `TimedOut` after `within`
        seconds, `Lost` when the stream or the connection breaks, `TooLarge`; a request that is left without its answer has both
        directions of its stream reset with code 0 (wire §1.14).
        """
        exchange = _Exchange()
        stream_id = -1
        with trio.move_on_after(within):
            while self.usable and self._quic.credit() <= 0:
                await self._waiting.park()
            if not self.usable:
                raise Lost(self._reason, sent=False)
            stream_id = self._quic.get_next_available_stream_id()
            self._exchanges[stream_id] = exchange
            try:
                self._quic.send_stream_data(stream_id, request, end_stream=True)
                self._flush()
                await self._settle(exchange)
            finally:
                del self._exchanges[stream_id]
                exchange.sent = not self._quic.unsent(stream_id)
                if not exchange.complete:
                    self._abandon(stream_id)
        if exchange.complete:
            return bytes(exchange.answer)
        if len(exchange.answer) > RESPONSE_MAX:
            raise TooLarge
        if exchange.failure is not None:
            raise Lost(exchange.failure, sent=exchange.sent)
        raise TimedOut(f"no answer within {within:g} s", sent=exchange.sent)

    async def alive(self, within: float) -> bool:
        """Asks for a sign of life and tells whether it came within so many seconds."""
        if not self.usable:
            return False
        uid = max(self._pings, default=0) + 1
        answered = self._pings[uid] = trio.Event()
        try:
            self._quic.send_ping(uid)
            self._flush()
            with trio.move_on_after(within):
                await answered.wait()
            return answered.is_set() and not self._over.is_set()
        finally:
            del self._pings[uid]

    def close(self) -> None:
        """Says goodbye with code 0 and no reason (wire §1.13). May be called at any time, more than once."""
        if not self._over.is_set():
            self._quic.close(error_code=0)
            self._send(trio.current_time())
            self._end("closed")

    async def _settle(self, exchange: _Exchange) -> None:
        """Waits for the answer, and for no longer than the server shows signs of life: one that restarted forgets its
        connections without a word."""
        while not exchange.settled.is_set():
            with trio.move_on_after(QUIET):
                await exchange.settled.wait()
            if not exchange.settled.is_set() and not await self.alive(QUIET):
                self._end("the server fell silent")

    def _abandon(self, stream_id: int) -> None:
        if self._over.is_set():
            return
        self._quic.reset_stream(stream_id, 0)
        try:
            self._quic.stop_stream(stream_id, 0)
        except ValueError:
            pass  # finished in both directions and forgotten already
        self._flush()

    def _turn(self) -> None:
        """One round of the pump: everything that has arrived, then the timer, the news, and what there is to send."""
        # Datagrams before timers, else an acknowledgement that lies unread counts as a loss.
        self._receive()
        now = trio.current_time()
        timer = self._quic.get_timer()
        if timer is not None and timer <= now:
            self._quic.handle_timer(now)
        if self.usable and now - self._active >= KEEP_ALIVE:
            self._quic.send_ping(0)
            self._active = now
        while (event := self._quic.next_event()) is not None:
            self._take(event)
        self._flush()
        if self._waiting:
            self._waiting.unpark(count=max(0, self._quic.credit()))
        ending = self._quic.ending()
        if ending is not None:
            self._terminated(ending)

    def _receive(self) -> None:
        for _ in range(_BATCH):
            try:
                data = self._socket.recv(_DATAGRAM_MAX)
            except BlockingIOError:
                return
            except OSError as error:
                self._end(_text(error))
                return
            self._heard = self._active = now = trio.current_time()
            try:
                self._quic.receive_datagram(data, self._address, now=now)
            except Exception as error:
                # Whatever a hostile packet makes the machine raise costs this connection only.
                self._end(f"unreadable packet ({type(error).__name__})")
                return

    def _take(self, event: events.QuicEvent) -> None:
        match event:
            case events.HandshakeCompleted():
                self._established.set()
            case events.StreamDataReceived(data=data, end_stream=end, stream_id=stream_id):
                exchange = self._exchanges.get(stream_id)
                if exchange is None or exchange.settled.is_set():
                    return
                exchange.answer += data
                too_large = len(exchange.answer) > RESPONSE_MAX
                exchange.complete = end and not too_large
                if end or too_large:
                    exchange.settled.set()
            case events.StreamReset(stream_id=stream_id):
                exchange = self._exchanges.get(stream_id)
                if exchange is not None and not exchange.settled.is_set():
                    exchange.failure = "the server reset the stream"
                    exchange.settled.set()
            case events.PingAcknowledged(uid=uid) if uid in self._pings:
                self._pings[uid].set()
            case _:  # connection ids, early credit and the end of the connection need nothing here
                pass

    def _terminated(self, event: events.ConnectionTerminated) -> None:
        if event.error_code == _NO_ALPN:
            reason = f"the server does not speak the Mark Protocol (no common ALPN, {ALPN!r} wanted)"
        elif event.error_code == QuicErrorCode.NO_ERROR:
            reason = f"the server closed the connection ({event.reason_phrase or 'no reason given'})"
        else:
            reason = event.reason_phrase or f"connection error 0x{event.error_code:x}"
        self._refused_certificate = not self._established.is_set() and event.error_code in _CERTIFICATE_ALERTS
        self._end(reason)

    def _end(self, reason: str) -> None:
        """Settles everything that waits. The first reason stays."""
        if self._over.is_set():
            return
        self._reason = reason
        self._over.set()
        self._established.set()
        for exchange in self._exchanges.values():
            if not exchange.settled.is_set():
                exchange.failure = reason
                exchange.settled.set()
        for answered in self._pings.values():
            answered.set()
        self._waiting.unpark_all()
        self._wake(-inf)

    def _flush(self) -> None:
        """Sends what the machine has to send and lets the pump sleep exactly until its next timer."""
        self._send(trio.current_time())
        # Reading the timer also arms it: it has to follow every sending.
        timer = self._quic.get_timer()
        if not self._over.is_set():
            idle = self._active + KEEP_ALIVE if self.usable else inf
            self._wake(idle if timer is None else min(idle, timer))

    def _wake(self, at: float) -> None:
        self._wake_at = at
        if self._nap is not None:
            self._nap.deadline = at

    def _send(self, now: float) -> None:
        for data, _ in self._quic.datagrams_to_send(now):
            self._active = now
            try:
                self._socket.send(data)
            except BlockingIOError:
                pass  # a full socket buffer is a lost packet; QUIC sends again
            except OSError as error:
                self._end(_text(error))
                return


async def dial(nursery: trio.Nursery, host: str, port: int, *, verify: bool, within: float) -> Connection:
    """A connection ready for requests, its pump running in `nursery`.

    The addresses of a name are tried in the resolver's order. Raises `HandshakeFailed` with the reason of the last one;
    a refused certificate ends the search.
    """
    reason = f"no answer within {within:g} s"
    with trio.move_on_after(within) as scope:
        try:
            name = _server_name(host)
            found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        except (OSError, UnicodeError) as error:
            raise HandshakeFailed(f"the name does not resolve ({_text(error)})") from error
        for index, (family, _, _, _, address) in enumerate(found):
            try:
                connection = Connection(name, family, address, verify=verify)
            except OSError as error:
                reason = _text(error)
                continue
            nursery.start_soon(connection.run)
            ready = False
            try:
                with trio.move_on_after(inf if index == len(found) - 1 else NEXT_ADDRESS):
                    await connection.established()
                    ready = True
            except HandshakeFailed as failure:
                reason = failure.reason
                if failure.fingerprint is not None:
                    raise
            finally:
                if not ready:
                    connection.close()
            if ready:
                return connection
    raise HandshakeFailed(reason, timed_out=scope.cancelled_caught)


def _connected(family: int, address: _SocketAddress) -> socket.socket:
    """A socket that talks to this address only; the kernel then reports a closed port as an error."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.connect(address)
    except OSError:
        sock.close()
        raise
    return sock


def _server_name(host: str) -> str:
    """What the certificate must name, and what is sent as SNI unless it is an address (wire §1.10): no IPv6 zone, and
    no final dot, and names of other scripts in their ASCII form."""
    try:
        return str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        name = host.rstrip(".")
        return name if name.isascii() else name.encode("idna").decode("ascii")


def _text(error: Exception) -> str:
    """The system's words for a failure, without its number."""
    words = (isinstance(error, OSError) and error.strerror) or str(error)
    return words[:1].lower() + words[1:]
