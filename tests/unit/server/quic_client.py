"""A real endpoint on a loopback socket and a client for it: `Peer` around a UDP socket under trio."""

import contextlib
import socket
from collections.abc import AsyncIterator, Callable

import trio

from app.server.certificate import Certificate
from app.server.datagrams import bind
from app.server.endpoint import Answer, Endpoint, Limits
from tests.unit.server.quic_pair import Peer, certificate, echo

LOOPBACK = "127.0.0.1"
PATIENCE = 8
"""Seconds until a test gives up; nothing waits for it when all is well."""


class Lines(list[tuple[str, str, dict[str, object]]]):
    """A log that remembers."""

    def __call__(self, level: str, message: str, /, **fields: object) -> None:
        self.append((level, message, fields))

    def of(self, message: str) -> list[dict[str, object]]:
        return [fields for _, text, fields in self if text == message]


class Server:
    """What a test needs to know of a running endpoint."""

    def __init__(self, endpoint: Endpoint, port: int, lines: Lines, nursery: trio.Nursery) -> None:
        self.endpoint = endpoint
        self.port = port
        self.lines = lines
        self.nursery = nursery
        self.stopped = trio.Event()


@contextlib.asynccontextmanager
async def serving(
    answer: Answer = echo,
    *,
    host: str | None = LOOPBACK,
    port: int = 0,
    own: Certificate | None = None,
    others: tuple[str, ...] = (),
    **limits: object,
) -> AsyncIterator[Server]:
    """A running endpoint, with more sockets on the same port of `others`; at the end its task is cancelled, if it has not ended by then."""
    lines = Lines()
    endpoint = Endpoint(answer, own or certificate(), Limits(**limits), log=lines)  # type: ignore[arg-type]
    sock = bind(port, host, log=Lines())
    more = [bind(sock.port, other, log=Lines()) for other in others]
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            server = Server(endpoint, sock.port, lines, nursery)

            async def run(task_status: trio.TaskStatus[int]) -> None:
                await endpoint.serve(sock, *more, task_status=task_status)
                server.stopped.set()

            assert await nursery.start(run) == sock.port
            yield server
            nursery.cancel_scope.cancel()
    assert (endpoint.stats.connections, endpoint.stats.queued_bytes, endpoint.stats.held_bytes) == (
        0,
        0,
        0,
    )


class Client:
    """A client that speaks by itself as long as its task runs."""

    def __init__(self, port: int, host: str = LOOPBACK, own: str = "", **settings: object) -> None:
        self.peer = Peer((host, port), **settings)
        self.address = (host, port)
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        if own:
            self.socket.bind((own, 0))
        self.quiet = False
        self._changed = trio.Event()

    def flush(self) -> None:
        for data in self.peer.send(trio.current_time()):
            if not self.quiet:
                self.socket.sendto(data, self.address)

    async def run(self) -> None:
        quic = self.peer.quic
        while True:
            self.flush()
            timer = quic.get_timer()
            with trio.move_on_at(trio.current_time() + 60 if timer is None else timer):
                await trio.lowlevel.wait_readable(self.socket)
            now = trio.current_time()
            with contextlib.suppress(BlockingIOError):
                while True:
                    data, _ = self.socket.recvfrom(65535)
                    quic.receive_datagram(data, self.address, now)
                    self.peer.heard += 1
            if timer is not None and timer <= now:
                quic.handle_timer(now)
            self.peer.take_events()
            self._changed.set()
            self._changed = trio.Event()

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            await self._changed.wait()

    def begin(self, data: bytes, *, end: bool = True) -> int:
        stream = self.peer.ask(data, end=end)
        self.flush()
        return stream

    async def answer(self, stream: int) -> bytes:
        await self.until(lambda: stream in self.peer.ended)
        return self.peer.answers[stream]

    async def ask(self, data: bytes) -> bytes:
        return await self.answer(self.begin(data))

    async def closed(self) -> tuple[int, str]:
        await self.until(self.peer.closed)
        closed = self.peer.closed()
        assert closed is not None
        return closed

    def move(self) -> None:
        """Goes on from another port."""
        old, self.socket = self.socket, socket.socket(self.socket.family, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        trio.lowlevel.notify_closing(old)
        old.close()


@contextlib.asynccontextmanager
async def dialing(
    port: int, host: str = LOOPBACK, own: str = "", **settings: object
) -> AsyncIterator[Client]:
    """A client while its handshake may still be under way."""
    client = Client(port, host, own, **settings)

    async def run() -> None:
        while True:
            with contextlib.suppress(trio.ClosedResourceError):
                await client.run()

    client.peer.quic.connect(client.address, trio.current_time())
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            yield client
            client.peer.quic.close()
            client.flush()
            nursery.cancel_scope.cancel()
    finally:
        client.socket.close()


@contextlib.asynccontextmanager
async def connected(
    port: int, host: str = LOOPBACK, own: str = "", **settings: object
) -> AsyncIterator[Client]:
    """A client after its handshake."""
    async with dialing(port, host, own, **settings) as client:
        await client.until(lambda: client.peer.connected)
        yield client
