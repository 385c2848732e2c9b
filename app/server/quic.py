"""The server's one door to aioquic: connections with bounded windows, and the answers to datagrams that belong to none.

aioquic's connection is a machine without I/O: datagrams and the time go in, events and datagrams come out. It is used unmodified but for what
it has no setting for. These private names are touched, all here, and a test fails when one of them moves:

    _local_max_streams_bidi, _local_max_streams_uni   streams a client may have open
    _local_max_data, _streams (and sender._buffer)    the receive window, what a stream still holds
    _write_stream_limits, _write_connection_limits    how windows grow
    _ack_delay                                        acknowledge in the same packet as the answer
    _host_cids, _replenish_connection_ids             tokens for stateless resets

No session tickets are issued, so no client can send 0-RTT data and no write can be replayed. Datagrams stay at aioquic's 1,200 bytes: it does
not probe the path, and a path that carries less than 1,280 drops bigger ones without a word.
"""

import hmac
import logging
import os
import struct
from collections.abc import KeysView

import msgspec
from aioquic.buffer import Buffer  # type: ignore[attr-defined]
from aioquic.quic.configuration import SMALLEST_MAX_DATAGRAM_SIZE, QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import (
    ConnectionIdIssued,
    ConnectionIdRetired,
    ConnectionTerminated,
    HandshakeCompleted,
    StopSendingReceived,
    StreamDataReceived,
    StreamReset,
)
from aioquic.quic.packet import (
    QuicPacketType,
    encode_quic_retry,
    encode_quic_version_negotiation,
    pull_quic_header,
)
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.quic.retry import QuicRetryTokenHandler
from aioquic.quic.stream import QuicStream
from cryptography.hazmat.primitives import serialization

from app.protocol.limits import ALPN
from app.server.admission import Limits
from app.server.certificate import Certificate
from app.server.datagrams import Address

__all__ = [
    "Connection",
    "ConnectionIdIssued",
    "ConnectionIdRetired",
    "ConnectionTerminated",
    "First",
    "HandshakeCompleted",
    "Listener",
    "StopSendingReceived",
    "StreamDataReceived",
    "StreamReset",
    "destination",
]

ID_LENGTH = 8
WINDOW_BEYOND = 64 * 1024
"""A stream's window beyond the largest request: so much must arrive for a request to be seen to be too large."""

_RESET_TRIGGER = 22
"""A shorter datagram cannot be a packet of ours with a payload, and the reset must be shorter than what it answers."""

# aioquic logs every dropped packet and stream; nothing may be logged per packet here, and its warnings would go to stderr.
logging.getLogger("quic").disabled = True


def destination(data: bytes) -> bytes | None:
    """The connection id that a datagram is addressed to, None if it is too short to have one."""
    if len(data) > ID_LENGTH:
        if not data[0] & 0x80:
            return data[1 : 1 + ID_LENGTH]
        length = data[5] if len(data) > 6 else 0xFF
        if len(data) > 6 + length and length <= 20:
            return data[6 : 6 + length]
    return None


class First(msgspec.Struct, frozen=True):
    """The head of a datagram by which a stranger asks for a connection. An unsupported version has only the two ids."""

    supported: bool
    version: int
    destination: bytes
    source: bytes
    token: bytes


class Connection(QuicConnection):
    """One client's connection, with every window fixed: aioquic's own double as bytes arrive, whether anybody reads them or not."""

    def __init__(
        self,
        configuration: QuicConfiguration,
        *,
        max_streams: int,
        reset_key: bytes,
        original_id: bytes,
        retry_id: bytes | None,
    ) -> None:
        self._window = configuration.max_data
        self._reset_key = reset_key
        super().__init__(
            configuration=configuration,
            original_destination_connection_id=original_id,
            retry_source_connection_id=retry_id,
        )
        for limit, value in ((self._local_max_streams_bidi, max_streams), (self._local_max_streams_uni, 0)):
            limit.value = limit.sent = value
        self._ack_delay = 0.0
        self._host_cids[0].stateless_reset_token = reset_token(reset_key, self.host_cid)

    def streams(self) -> KeysView[int]:
        """The streams that are not finished and acknowledged in both directions."""
        return self._streams.keys()

    def unacknowledged(self, stream: int) -> int:
        """Bytes given to a stream that the client has not acknowledged, sent or not."""
        found = self._streams.get(stream)
        return 0 if found is None else len(found.sender._buffer)

    def _write_stream_limits(
        self, builder: QuicPacketBuilder, space: QuicPacketSpace, stream: QuicStream
    ) -> None:
        """Never: a stream's first window holds the largest request."""

    def _write_connection_limits(self, builder: QuicPacketBuilder, space: QuicPacketSpace) -> None:
        """Slides the window by what was read; aioquic announces it, without seeing that it is half used."""
        data, streams = self._local_max_data, self._local_max_streams_bidi
        used = data.used
        if 2 * (data.value - used) < self._window:
            unread = sum(
                stream.receiver.highest_offset - stream.receiver.starting_offset()
                for stream in self._streams.values()
            )
            data.value = max(data.value, used - unread + self._window)
        if data.value == data.sent and 2 * streams.sent >= streams.used + streams.value:
            return  # nothing to announce; more streams are not, while the client may still open as many
        data.used = 0
        try:
            super()._write_connection_limits(builder, space)
        finally:
            data.used = used

    def _replenish_connection_ids(self) -> None:
        super()._replenish_connection_ids()
        for identifier in self._host_cids:
            if not identifier.was_sent:
                identifier.stateless_reset_token = reset_token(self._reset_key, identifier.cid)


class Listener:
    """What the endpoint has to say to datagrams of no connection it knows: hello, prove your address, other version, forget me."""

    def __init__(self, certificate: Certificate, limits: Limits) -> None:
        self._limits = limits
        self._retry = QuicRetryTokenHandler()
        self.use_certificate(certificate)
        # From the key, so that the resets sent after a power cut are those announced before it.
        private = certificate.key.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self._reset_key = hmac.digest(private, b"stateless reset", "sha256")

    def use_certificate(self, certificate: Certificate) -> None:
        """New connections show this certificate, to any server name and to none (wire §1.9)."""
        self._configuration = QuicConfiguration(
            is_client=False,
            alpn_protocols=[ALPN],
            connection_id_length=ID_LENGTH,
            idle_timeout=self._limits.idle_timeout,
            max_data=self._limits.receive_window,
            max_stream_data=self._limits.request_bytes + WINDOW_BEYOND,
            certificate=certificate.chain[0],
            certificate_chain=list(certificate.chain[1:]),
            private_key=certificate.key,
        )

    def first(self, data: bytes) -> First | None:
        """The head of a datagram that may open a connection; None for every other: too short, not Initial, a Version Negotiation itself."""
        if len(data) < SMALLEST_MAX_DATAGRAM_SIZE:
            return None
        try:
            header = pull_quic_header(Buffer(data=data), host_cid_length=ID_LENGTH)
        except ValueError:
            return None
        if not header.version or len(header.destination_cid) < ID_LENGTH:
            return None
        supported = header.version in self._configuration.supported_versions
        if supported and header.packet_type != QuicPacketType.INITIAL:
            return None
        return First(supported, header.version, header.destination_cid, header.source_cid, header.token)

    def version_negotiation(self, first: First) -> bytes:
        """The versions we speak, for a client that asked in another one."""
        return encode_quic_version_negotiation(
            source_cid=first.destination,
            destination_cid=first.source,
            supported_versions=self._configuration.supported_versions,
        )

    def retry(self, first: First, address: Address, now: float) -> bytes:
        """A demand to come again with a token that only this address can have received."""
        source = os.urandom(ID_LENGTH)
        token = self._retry.create_token(
            address=address,
            original_destination_connection_id=first.destination,
            retry_source_connection_id=source,
            now=now,
        )
        return encode_quic_retry(
            version=first.version,
            source_cid=source,
            destination_cid=first.source,
            original_destination_cid=first.destination,
            retry_token=token,
        )

    def proved(self, first: First, address: Address, now: float) -> bytes | None:
        """The id that the client first asked for, if it brings back the token of our Retry. Other tokens count as none."""
        if not first.token:
            return None
        try:
            return self._retry.validate_token(
                address=address, destination_cid=first.destination, token=first.token, now=now
            )
        except ValueError:
            return None

    def accept(self, first: First, original: bytes | None) -> Connection:
        """A new connection for this first datagram; `original` is what `proved` gave."""
        return Connection(
            self._configuration,
            max_streams=self._limits.max_streams,
            reset_key=self._reset_key,
            original_id=first.destination if original is None else original,
            retry_id=None if original is None else first.destination,
        )

    def stateless_reset(self, data: bytes) -> bytes | None:
        """The answer to a packet of a connection we no longer know, so that its client need not wait for its timeout."""
        if len(data) < _RESET_TRIGGER or data[0] & 0xC0 != 0x40:
            return None
        token = reset_token(self._reset_key, data[1 : 1 + ID_LENGTH])
        noise = os.urandom(min(len(data) - 1, 43) - len(token))
        return struct.pack("B", noise[0] & 0x3F | 0x40) + noise[1:] + token


def reset_token(key: bytes, identifier: bytes) -> bytes:
    """The stateless reset token of a connection id (RFC 9000 §10.3.2)."""
    return hmac.digest(key, identifier, "sha256")[:16]
