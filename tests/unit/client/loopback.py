"""A QUIC server inside the test: aioquic's server machine on a loopback socket, with answers and misdeeds to order.

It shares no code with the client under test. `script` gets the bytes of each request and gives the answer, or one of the misdeeds.
"""

import datetime
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import Enum, auto

import trio
from aioquic.buffer import Buffer  # type: ignore[attr-defined]
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import pull_quic_header
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Misdeed(Enum):
    SILENCE = auto()  # acknowledges, never answers
    RESET = auto()  # resets the stream
    HANG_UP = auto()  # closes the connection


Script = Callable[[bytes], bytes | Misdeed]


class Identity:
    """A certificate signed by an authority of its own, whose PEM is `authority`."""

    def __init__(self, *names: str, expired: bool = False) -> None:
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        self.authority_key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"Authority of {names}")])
        root = (
            x509.CertificateBuilder()
            .subject_name(issuer)
            .issuer_name(issuer)
            .public_key(self.authority_key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 9 * day)
            .not_valid_after(now + day)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self.authority_key, hashes.SHA256())
        )
        self.authority = root.public_bytes(serialization.Encoding.PEM)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.leaf = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "leaf")]))
            .issuer_name(issuer)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 8 * day)
            .not_valid_after(now - 7 * day if expired else now + day)
            .add_extension(
                x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False
            )
            .sign(self.authority_key, hashes.SHA256())
        )
        self.fingerprint = f"sha256:{self.leaf.fingerprint(hashes.SHA256()).hex()}"


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


class Loopback:
    """The running server. `forget()` makes it lose every connection without a word, as a restart does."""

    def __init__(self, script: Script, identity: Identity, *, alpn: str, streams: int) -> None:
        self.script = script
        self.identity = identity
        self.requests: list[bytes] = []
        self.asked = trio.Event()
        self.names: list[str | None] = []
        self.handshakes = 0
        self.resets: list[int] = []
        self.deaf = False
        self._alpn = alpn
        self._streams = streams
        self._connections: dict[bytes, QuicConnection] = {}
        self._received: dict[tuple[int, int], bytes] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    def forget(self) -> None:
        self._connections.clear()

    def close(self) -> None:
        self._socket.close()

    async def run(self) -> None:
        while True:
            with trio.move_on_after(0.02):
                await trio.lowlevel.wait_readable(self._socket)
            now = trio.current_time()
            while (packet := self._receive()) is not None:
                if not self.deaf:
                    self._take(*packet, now)
            for connection in set(self._connections.values()):
                timer = connection.get_timer()
                if timer is not None and timer <= now:
                    connection.handle_timer(now)
                self._turn(connection, now)

    def _receive(self) -> tuple[bytes, tuple[str, int]] | None:
        try:
            return self._socket.recvfrom(65536)
        except BlockingIOError:
            return None

    def _take(self, data: bytes, address: tuple[str, int], now: float) -> None:
        header = pull_quic_header(Buffer(data=data), host_cid_length=8)
        connection = self._connections.get(header.destination_cid)
        if connection is None:
            if not data[0] & 0x80:
                return  # a short header of a connection that is not known any more
            configuration = QuicConfiguration(
                is_client=False, alpn_protocols=[self._alpn], verify_mode=ssl.CERT_NONE
            )
            configuration.certificate = self.identity.leaf
            configuration.private_key = self.identity.key
            connection = QuicConnection(
                configuration=configuration, original_destination_connection_id=header.destination_cid
            )
            limit = connection._local_max_streams_bidi
            limit.value = limit.sent = self._streams
            self._connections[header.destination_cid] = self._connections[connection.host_cid] = connection
        connection.receive_datagram(data, address, now)
        self._turn(connection, now)

    def _turn(self, connection: QuicConnection, now: float) -> None:
        while (event := connection.next_event()) is not None:
            match event:
                case events.ConnectionIdIssued(connection_id=cid):
                    self._connections[cid] = connection
                case events.HandshakeCompleted():
                    self.handshakes += 1
                    self.names.append(getattr(connection.tls, "client_server_name", None))
                case events.StreamDataReceived(stream_id=stream, data=data, end_stream=end):
                    whole = self._received.pop((id(connection), stream), b"") + data
                    if end:
                        self._answer(connection, stream, whole)
                    else:
                        self._received[id(connection), stream] = whole
                case events.StreamReset(stream_id=stream):
                    self.resets.append(stream)
                    connection.reset_stream(stream, 0)
                case events.ConnectionTerminated():
                    self._connections = {
                        cid: one for cid, one in self._connections.items() if one is not connection
                    }
                    return
        for data, address in connection.datagrams_to_send(now):
            self._socket.sendto(data, address)
        connection.get_timer()

    def _answer(self, connection: QuicConnection, stream: int, request: bytes) -> None:
        self.requests.append(request)
        self.asked.set()
        answer = self.script(request)
        match answer:
            case Misdeed.SILENCE:
                pass
            case Misdeed.RESET:
                connection.reset_stream(stream, 0)
            case Misdeed.HANG_UP:
                connection.close(error_code=0, reason_phrase="server closed")
            case bytes():
                connection.send_stream_data(stream, answer, end_stream=True)


@asynccontextmanager
async def loopback(
    script: Script,
    *,
    identity: Identity | None = None,
    alpn: str = "mark",
    streams: int = 10,
) -> AsyncIterator[Loopback]:
    """Runs a server for the body of the `async with`."""
    server = Loopback(script, identity or Identity("127.0.0.1", "localhost"), alpn=alpn, streams=streams)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            try:
                yield server
            finally:
                nursery.cancel_scope.cancel()
    finally:
        server.close()


def unused_port() -> int:
    """A port of 127.0.0.1 on which nobody listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
