"""The load client of the transport bench: as many independent callers as there are streams, each sending its next request when its answer is there.

aioquic makes the handshake; then a few lines write and read the 1-RTT packets themselves, because a client that costs as much as the server would be
what is measured. Like any client of independent callers it sends each request in a datagram of its own, and acknowledges every second packet. It
expects no loss (loopback, large buffers) and raises if something does not come within ten seconds.
"""

import select
import socket
import ssl
import time
from collections import deque

from aioquic.buffer import Buffer, encode_uint_var  # type: ignore[attr-defined]
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import HandshakeCompleted
from aioquic.quic.packet import push_ack_frame
from aioquic.tls import Epoch

BUFFER = 4 * 1024 * 1024
WINDOW = 1 << 40
PATIENCE = 10.0


class Client:
    """One connection to a server on this machine."""

    def __init__(self, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self._socket.connect(("127.0.0.1", port))
        self._socket.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._quic = self._shake_hands()
        self._cryptos = self._quic._cryptos[Epoch.ONE_RTT]
        self._peer = self._quic._peer_cid.cid
        self._packet_number = self._quic._packet_number
        space = self._quic._spaces[Epoch.ONE_RTT]
        self._received = space.ack_queue
        self._expected = space.expected_packet_number
        self._unacknowledged = 0
        self._next_stream = 0
        self._max_streams = self._quic._remote_max_streams_bidi
        self._finished: list[int] = []

    def close(self) -> None:
        """Tells the server, so that it forgets the connection."""
        self._send(b"\x1d\x00\x00")
        self._socket.close()

    def load(self, request: bytes, callers: int, total: int) -> list[float]:
        """`total` requests by that many callers at once; gives how long each waited, in seconds."""
        latencies: list[float] = []
        since: dict[int, float] = {}
        ready = deque([None] * total)
        while len(latencies) < total:
            while ready and len(since) < callers and self._next_stream // 4 < self._max_streams:
                ready.popleft()
                since[self._next_stream] = time.perf_counter()
                self._send(
                    b"\x0b" + encode_uint_var(self._next_stream) + encode_uint_var(len(request)) + request
                )
                self._next_stream += 4
            self._receive()
            now = time.perf_counter()
            for stream in self._finished:
                if stream in since:  # else sent twice, the server thought it lost
                    latencies.append(now - since.pop(stream))
            self._finished.clear()
        return latencies

    def _shake_hands(self) -> QuicConnection:
        configuration = QuicConfiguration(
            is_client=True,
            alpn_protocols=["mark"],
            verify_mode=ssl.CERT_NONE,
            max_data=WINDOW,
            max_stream_data=WINDOW,
        )
        quic = QuicConnection(configuration=configuration)
        address = self._socket.getpeername()
        quic.connect(address, time.monotonic())
        completed = confirmed = False
        while not confirmed:
            for data, _ in quic.datagrams_to_send(time.monotonic()):
                self._socket.send(data)
            confirmed = completed and quic._handshake_confirmed
            if not confirmed:
                quic.receive_datagram(self._next_datagram(), address, time.monotonic())
            while (event := quic.next_event()) is not None:
                completed = completed or isinstance(event, HandshakeCompleted)
        return quic

    def _next_datagram(self) -> bytes:
        if not self._poll.poll(PATIENCE * 1000):
            raise TimeoutError("the server does not answer")
        return self._socket.recv(65535)

    def _send(self, frame: bytes) -> None:
        """Sends one packet: what is to be acknowledged, and this frame."""
        buffer = Buffer(capacity=1200)
        if self._unacknowledged:
            buffer.push_uint8(2)
            push_ack_frame(buffer, self._received, 0, 600)
            self._unacknowledged = 0
        buffer.push_bytes(frame)
        if buffer.tell() < 4:
            buffer.push_bytes(bytes(4))
        header = b"\x41" + self._peer + (self._packet_number & 0xFFFF).to_bytes(2, "big")
        self._socket.send(self._cryptos.encrypt_packet(header, buffer.data, self._packet_number))
        self._packet_number += 1

    def _receive(self) -> None:
        """Waits for a datagram and takes all that are there."""
        data = self._next_datagram()
        while True:
            self._take(data)
            try:
                data = self._socket.recv(65535)
            except BlockingIOError:
                break

    def _take(self, data: bytes) -> None:
        if data[0] & 0x80:
            return  # a late packet of the handshake
        _, payload, number = self._cryptos.decrypt_packet(data, 9, self._expected)
        self._expected = max(self._expected, number + 1)
        self._received.add(number, number + 1)
        if len(self._received) > 32:
            self._received.shift()
        if self._frames(payload):
            self._unacknowledged += 1
            if self._unacknowledged >= 2:
                self._send(b"")

    def _frames(self, payload: bytes) -> bool:
        """Takes the frames of a packet; whether it is to be acknowledged."""
        buffer = Buffer(data=payload)
        eliciting = False
        pull = buffer.pull_uint_var
        while not buffer.eof():
            kind = pull()
            if kind == 0:
                continue
            if kind in (2, 3):
                pull(), pull()
                ranges = pull()
                for _ in range(1 + 2 * ranges):
                    pull()
                continue
            eliciting = True
            if 8 <= kind <= 15:
                stream = pull()
                if kind & 4:
                    pull()
                length = pull() if kind & 2 else len(payload) - buffer.tell()
                buffer.seek(buffer.tell() + length)
                if kind & 1:
                    self._finished.append(stream)
            elif kind == 0x12:
                self._max_streams = max(self._max_streams, pull())
            elif kind in (0x10, 0x13, 0x14, 0x16, 0x17):
                pull()
            elif kind in (0x11, 0x15):
                pull(), pull()
            elif kind == 0x18:
                pull(), pull()
                buffer.pull_bytes(buffer.pull_uint8() + 16)
            elif kind not in (1, 0x1E):
                raise ConnectionError(f"frame {kind:#x}")
        return eliciting
