"""A QUIC client without manners, for what the product's own client never does: half requests, resets, junk, rebinding.

One connection per `RawClient`; streams are opened by number. Nothing is retried and nothing is checked.
"""

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection

Address = tuple[str, int]


class RawClient:
    """A connection; `connect` makes one. `ended` is set, with the `reason`, when the server has closed it."""

    def __init__(self, address: Address, server_name: str | None) -> None:
        self.quic = QuicConnection(
            configuration=QuicConfiguration(
                is_client=True, alpn_protocols=["mark"], verify_mode=ssl.CERT_NONE, server_name=server_name
            )
        )
        self.address = address
        self.ready = trio.Event()
        self.ended = trio.Event()
        self.reason = ""
        self.answers: dict[int, bytes] = {}
        self._done: dict[int, trio.Event] = {}
        self.socket = self._bound()
        self.quic.connect(address, now=trio.current_time())

    def _bound(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.address[0] else socket.AF_INET
        found = socket.socket(family, socket.SOCK_DGRAM)
        found.setblocking(False)
        found.connect(self.address)
        return found

    @property
    def serial(self) -> int:
        """The serial number of the certificate that the server showed."""
        certificate: Any = self.quic.tls._peer_certificate
        serial: int = certificate.serial_number
        return serial

    def send(self, data: bytes, *, end: bool = True, stream: int | None = None) -> int:
        """Puts bytes on a stream, a new one unless one is given; gives its number."""
        if stream is None:
            stream = self.quic.get_next_available_stream_id()
            self.answers[stream] = b""
            self._done[stream] = trio.Event()
        self.quic.send_stream_data(stream, data, end)
        self.flush()
        return stream

    def reset(self, stream: int) -> None:
        """Breaks both directions of a stream off."""
        self.quic.reset_stream(stream, 0)
        self.quic.stop_stream(stream, 0)
        self.flush()

    async def answer(self, stream: int) -> bytes:
        """Everything up to the server's FIN on a stream, or up to its reset or the end of the connection; within 20 s."""
        with trio.fail_after(20):
            await self._done[stream].wait()
        return self.answers[stream]

    async def ask(self, data: bytes) -> bytes:
        """One whole exchange."""
        return await self.answer(self.send(data))

    def rebind(self) -> None:
        """Goes on from another port, as behind a NAT that forgot."""
        self.socket.close()
        self.socket = self._bound()

    def flush(self) -> None:
        for data, _ in self.quic.datagrams_to_send(trio.current_time()):
            try:
                self.socket.send(data)
            except OSError:
                pass

    async def run(self) -> None:
        while not self.ended.is_set():
            self.flush()
            timer = self.quic.get_timer()
            now = trio.current_time()
            with trio.move_on_at(min(timer if timer is not None else now + 1, now + 0.05)):
                await trio.lowlevel.wait_readable(self.socket)
                try:
                    while True:
                        self.quic.receive_datagram(self.socket.recv(65536), self.address, trio.current_time())
                except OSError:
                    pass
            timer = self.quic.get_timer()
            if timer is not None and timer <= trio.current_time():
                self.quic.handle_timer(trio.current_time())
            self._take_events()

    def _take_events(self) -> None:
        while (event := self.quic.next_event()) is not None:
            match event:
                case events.HandshakeCompleted():
                    self.ready.set()
                case events.StreamDataReceived(stream_id=stream, data=data, end_stream=end):
                    self.answers[stream] += data
                    if end:
                        self._done[stream].set()
                case events.StreamReset(stream_id=stream):
                    self._done[stream].set()
                case events.ConnectionTerminated(reason_phrase=reason):
                    self.reason = reason
                    self.ended.set()
                    for done in self._done.values():
                        done.set()


@asynccontextmanager
async def connect(address: Address, *, server_name: str | None = None) -> AsyncIterator[RawClient]:
    """A connection that has shaken hands, within 5 s."""
    client = RawClient(address, server_name)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.run)
            with trio.fail_after(5):
                await client.ready.wait()
            yield client
            nursery.cancel_scope.cancel()
    finally:
        client.quic.close()
        client.flush()
        client.socket.close()
