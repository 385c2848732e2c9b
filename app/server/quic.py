"""The server's one door to aioquic: connections with bounded windows.

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
from collections.abc import KeysView

from aioquic.quic.configuration import QuicConfiguration
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
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.quic.stream import QuicStream
from cryptography.hazmat.backends import default_backend
from cryptography.hazmat.primitives import serialization

from app.protocol.limits import ALPN
from app.server.admission import Limits
from app.server.certificate import Certificate
from app.server.strangers import ID_LENGTH, First, reset_token

__all__ = [
    "Connection",
    "ConnectionIdIssued",
    "ConnectionIdRetired",
    "ConnectionTerminated",
    "HandshakeCompleted",
    "Listener",
    "StopSendingReceived",
    "StreamDataReceived",
    "StreamReset",
]

WINDOW_BEYOND = 64 * 1024
"""A stream's window beyond the largest request: so much must arrive for a request to be seen to be too large."""

# aioquic logs every dropped packet and stream; nothing may be logged per packet here, and its warnings would go to stderr.
logging.getLogger("quic").disabled = True

# aioquic asks for it in the first handshake, which would load modules then: an upgrade may have replaced the one file they are in.
default_backend()


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
    """Makes the connections of an endpoint, all with its certificate and its limits."""

    def __init__(self, certificate: Certificate, limits: Limits) -> None:
        self._limits = limits
        self.use_certificate(certificate)
        # From the key, so that the resets sent after a power cut are those announced before it.
        private = certificate.key.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self.reset_key = hmac.digest(private, b"stateless reset", "sha256")

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

    def accept(self, head: First, original: bytes | None) -> Connection:
        """A new connection for this first datagram; `original` is the id that a client with a proof of address asked for before."""
        return Connection(
            self._configuration,
            max_streams=self._limits.max_streams,
            reset_key=self.reset_key,
            original_id=head.destination if original is None else original,
            retry_id=None if original is None else head.destination,
        )
