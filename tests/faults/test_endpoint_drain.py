"""The end: every request that runs is answered, every client is told, and it takes less time than was given."""

from collections.abc import Awaitable

import trio

from app.server.datagrams import Datagram
from app.server.exchange import Exchange
from tests.unit.server.quic_client import Server, connected, dialing, serving
from tests.unit.server.quic_pair import echo

FAREWELL = (0, "server closed")


class Held:
    """A handler that answers when it is let go."""

    def __init__(self) -> None:
        self.arrived = 0
        self.go = trio.Event()

    def __call__(self, exchange: Exchange) -> Awaitable[None]:
        self.arrived += 1
        return self._answer(exchange)

    async def _answer(self, exchange: Exchange) -> None:
        await self.go.wait()
        echo(exchange)

    async def until(self, count: int) -> None:
        while self.arrived < count:
            await trio.lowlevel.checkpoint()


async def timed(server: Server, grace: float) -> float:
    """Drains; gives how much of the grace it took."""
    begun = trio.current_time()
    await server.endpoint.drain(grace)
    await server.stopped.wait()
    return (trio.current_time() - begun) / grace


async def test_with_nobody_there() -> None:
    async with serving() as server:
        assert await timed(server, 5) < 0.1


async def test_idle_clients_are_told_at_once() -> None:
    async with serving() as server, connected(server.port) as one, connected(server.port) as other:
        assert await one.ask(b"x") == b"x"
        assert await timed(server, 5) < 0.1
        assert (await one.closed(), await other.closed()) == (FAREWELL, FAREWELL)


async def test_a_client_in_the_middle_of_its_handshake_does_not_hold_it_up() -> None:
    async with serving() as server, dialing(server.port) as client:
        client.flush()
        client.quiet = True
        while not server.endpoint.stats.half_open:
            await trio.lowlevel.checkpoint()
        assert await timed(server, 5) < 0.1


async def test_running_requests_are_answered_first() -> None:
    held = Held()
    async with serving(held) as server, connected(server.port) as busy, connected(server.port) as idle:
        streams = [busy.begin(b"%d" % number) for number in range(10)]
        await held.until(10)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.endpoint.drain, 5)
            assert await idle.closed() == FAREWELL
            assert not server.stopped.is_set()
            held.go.set()
        assert [await busy.answer(stream) for stream in streams] == [b"%d" % number for number in range(10)]
        assert await busy.closed() == FAREWELL
        await server.stopped.wait()


async def test_fifty_in_flight_and_one_half_sent() -> None:
    async def answer(exchange: Exchange) -> None:
        await trio.sleep(0.05)
        echo(exchange)

    async with (
        serving(answer, max_streams=60) as server,
        connected(server.port) as busy,
        connected(server.port) as half,
    ):
        half.begin(b"PUBLISH /a.md", end=False)
        streams = [busy.begin(b"%d" % number) for number in range(50)]
        while server.endpoint.stats.requests < 50:
            await trio.lowlevel.checkpoint()
        assert await timed(server, 2) < 0.5
        assert [await busy.answer(stream) for stream in streams] == [b"%d" % number for number in range(50)]
        assert (await busy.closed(), await half.closed()) == (FAREWELL, FAREWELL)


async def test_a_half_sent_request_may_still_arrive() -> None:
    async with serving() as server, connected(server.port) as client:
        stream = client.begin(b"PUB", end=False)
        while not server.endpoint.stats.held_bytes:
            await trio.lowlevel.checkpoint()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.endpoint.drain, 8)
            client.peer.quic.send_stream_data(stream, b"LISH", end_stream=True)
            client.flush()
            assert await client.answer(stream) == b"PUBLISH"


async def test_a_new_request_is_answered_with_nothing_and_a_new_client_not_at_all() -> None:
    held = Held()
    async with serving(held) as server, connected(server.port) as busy:
        running = busy.begin(b"running")
        await held.until(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.endpoint.drain, 5)
            await trio.testing.wait_all_tasks_blocked()
            assert await busy.ask(b"late") == b""
            async with dialing(server.port) as stranger:
                assert await busy.ask(b"later") == b""
                assert stranger.peer.heard == 0
            held.go.set()
        assert await busy.answer(running) == b"running"


async def test_a_handler_that_never_ends_is_cancelled() -> None:
    held = Held()
    async with serving(held) as server, connected(server.port) as client:
        client.begin(b"x")
        await held.until(1)
        assert 0.5 < await timed(server, 0.5) < 1
        assert await client.closed() == FAREWELL


async def test_a_client_that_takes_nothing_cannot_hold_it_up() -> None:
    async with (
        serving(lambda exchange: exchange.send(bytes(1 << 20))) as server,
        connected(server.port) as client,
    ):
        client.begin(b"x")
        client.quiet = True
        while not server.endpoint.stats.queued_bytes:
            await trio.lowlevel.checkpoint()
        assert await timed(server, 0.5) < 1


async def test_a_cancelled_endpoint_tells_its_clients_too() -> None:
    async with serving() as server, connected(server.port) as client:
        assert await client.ask(b"x") == b"x"
        server.endpoint._nursery.cancel_scope.cancel()
        assert await client.closed() == FAREWELL


async def test_farewells_that_the_kernel_does_not_take_at_once() -> None:
    async with serving() as server, connected(server.port) as client:
        assert await client.ask(b"x") == b"x"
        sock = server.endpoint._sockets[0]
        genuine = sock._send_one
        refused: list[Datagram] = []

        def full_for_a_while(datagram: Datagram) -> None:
            if len(refused) == 20:
                genuine(datagram)
            else:
                refused.append(datagram)
                sock._keep([datagram])

        sock._send_one = full_for_a_while  # type: ignore[method-assign]
        await server.endpoint.drain(5)
        assert len(refused) == 20
        assert await client.closed() == FAREWELL


async def test_a_full_send_buffer_is_waited_for() -> None:
    async with serving() as server, connected(server.port) as client:
        sock = server.endpoint._sockets[0]
        genuine = sock._send_one
        refused: list[Datagram] = []

        def full_once(datagram: Datagram) -> None:
            if refused:
                genuine(datagram)
            else:
                refused.append(datagram)
                sock._keep([datagram])

        sock._send_one = full_once  # type: ignore[method-assign]
        assert await client.ask(b"x") == b"x"
        assert len(refused) == 1
