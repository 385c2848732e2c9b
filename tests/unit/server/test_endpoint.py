"""The endpoint on a real socket: what a client sees of it, what a handler may do to it, and what it leaves behind."""

import gc
import socket
import weakref
from collections.abc import Awaitable

import pytest
import trio
from aioquic.quic.packet import QuicProtocolVersion
from cryptography import x509

from app.server.certificate import self_signed
from app.server.endpoint import SERVER_ERROR, Exchange
from app.server.session import RATE_LIMITED, Session
from tests.unit.server.quic_client import LOOPBACK, connected, dialing, serving
from tests.unit.server.quic_pair import certificate

MIB = 1 << 20


class Slow:
    """A handler whose answers come when the test says so."""

    def __init__(self) -> None:
        self.arrived = trio.Event()
        self.release = trio.Event()

    def __call__(self, exchange: Exchange) -> Awaitable[None]:
        return self._answer(exchange)

    async def _answer(self, exchange: Exchange) -> None:
        self.arrived.set()
        await self.release.wait()
        exchange.send(exchange.request)


class TestTalking:
    @pytest.mark.parametrize("size", [0, 1, 1024, 65_536, 65_537, MIB])
    async def test_answers_of_any_size(self, size: int) -> None:
        data = bytes(range(256)) * (size // 256) + bytes(size % 256)
        async with serving(lambda exchange: exchange.send(data)) as server, connected(server.port) as client:
            assert await client.ask(b"x") == data

    async def test_both_address_families_on_one_socket(self) -> None:
        async with (
            serving(lambda exchange: exchange.send(exchange.peer.encode()), host=None) as server,
            connected(server.port, "127.0.0.1") as four,
            connected(server.port, "::1") as six,
        ):
            assert (await four.ask(b"x"), await six.ask(b"x")) == (b"127.0.0.1", b"::1")

    async def test_a_socket_for_each_address_family(self) -> None:
        async with (
            serving(lambda exchange: exchange.send(bytes(200_000)), others=("::1",)) as server,
            connected(server.port, "127.0.0.1") as four,
            connected(server.port, "::1") as six,
        ):
            assert (len(await four.ask(b"x")), len(await six.ask(b"x"))) == (200_000, 200_000)
            await server.endpoint.drain(2.0)
            await server.stopped.wait()

    async def test_large_answers_to_both_families(self) -> None:
        async with (
            serving(lambda exchange: exchange.send(bytes(200_000)), host=None) as server,
            connected(server.port, "127.0.0.1") as four,
            connected(server.port, "::1") as six,
        ):
            assert (len(await four.ask(b"x")), len(await six.ask(b"x"))) == (200_000, 200_000)

    @pytest.mark.parametrize("version", [QuicProtocolVersion.VERSION_1, QuicProtocolVersion.VERSION_2])
    async def test_both_versions(self, version: QuicProtocolVersion) -> None:
        async with (
            serving() as server,
            connected(server.port, original_version=version, supported_versions=[version]) as client,
        ):
            assert await client.ask(b"x") == b"x"
            assert client.peer.quic._version == version

    @pytest.mark.parametrize("name", [None, "localhost", "somebody.else.example", "192.0.2.1"])
    async def test_any_server_name_and_none(self, name: str | None) -> None:
        async with serving() as server, connected(server.port, server_name=name) as client:
            assert await client.ask(b"x") == b"x"

    @pytest.mark.parametrize("protocols", [None, ["h3"], ["mark/1"]])
    async def test_no_other_protocol(self, protocols: list[str] | None) -> None:
        async with serving() as server, dialing(server.port, alpn_protocols=protocols) as client:
            code, _ = await client.closed()
            assert code >= 0x100
            assert server.endpoint.stats.requests == 0

    async def test_no_tickets_so_no_early_data(self) -> None:
        async with serving() as server, dialing(server.port) as client:
            tickets: list[object] = []
            client.peer.quic._session_ticket_handler = tickets.append
            await client.until(lambda: client.peer.connected)
            assert await client.ask(b"x") == b"x"
            assert tickets == []

    async def test_a_client_that_moves_to_another_port(self) -> None:
        slow = Slow()
        async with serving(slow) as server, connected(server.port) as client:
            stream = client.begin(b"before")
            await slow.arrived.wait()
            client.move()
            other = client.begin(b"after")
            slow.release.set()
            assert (await client.answer(stream), await client.answer(other)) == (b"before", b"after")
            assert server.endpoint.stats.connections == 1

    async def test_thousands_of_requests_leave_nothing(self) -> None:
        async with serving(rate=0) as server, connected(server.port) as client:
            for _ in range(40):
                streams = [client.begin(b"x") for _ in range(10)]
                for stream in streams:
                    await client.answer(stream)
            stats = server.endpoint.stats
            assert (stats.requests, stats.connections) == (400, 1)
            assert stats.streams <= 10


class TestHandlers:
    async def test_an_answer_computed_later_is_not_kept_for_a_timer(self) -> None:
        slow = Slow()
        async with serving(slow) as server, connected(server.port) as client:
            stream = client.begin(b"x")
            await slow.arrived.wait()
            await trio.sleep(0.05)
            slow.release.set()
            with trio.fail_after(1):
                assert await client.answer(stream) == b"x"

    async def test_slow_answers_do_not_hold_up_quick_ones(self) -> None:
        slow = Slow()

        def answer(exchange: Exchange) -> Awaitable[None] | None:
            if exchange.request == b"slow":
                return slow(exchange)
            exchange.send(b"quick")
            return None

        async with serving(answer) as server, connected(server.port) as client:
            stream = client.begin(b"slow")
            await slow.arrived.wait()
            assert await client.ask(b"x") == b"quick"
            slow.release.set()
            assert await client.answer(stream) == b"slow"

    @pytest.mark.parametrize("later", [False, True])
    async def test_a_crash_costs_its_stream_and_one_line(self, later: bool) -> None:
        def crash(exchange: Exchange) -> None:
            raise ZeroDivisionError("it broke")

        async def crash_later(exchange: Exchange) -> None:
            await trio.lowlevel.checkpoint()
            crash(exchange)

        def answer(exchange: Exchange) -> Awaitable[None] | None:
            if exchange.request == b"crash":
                return crash_later(exchange) if later else crash(exchange)  # type: ignore[func-returns-value]
            exchange.send(b"fine")
            return None

        async with serving(answer) as server, connected(server.port) as client:
            broken, sound = client.begin(b"crash"), client.begin(b"x")
            assert (await client.answer(broken), await client.answer(sound)) == (SERVER_ERROR, b"fine")
            (line,) = server.lines.of("request failed")
            assert line["error"] == "ZeroDivisionError: it broke"
            assert "test_endpoint.py:" in str(line["where"])
            assert server.endpoint.stats.crashes == 1

    async def test_a_crash_in_the_middle_of_an_answer_is_a_reset(self) -> None:
        async def answer(exchange: Exchange) -> None:
            exchange.send(b"begun", end=False)
            raise ZeroDivisionError

        async with serving(answer) as server, connected(server.port) as client:
            stream = client.begin(b"x")
            await client.until(lambda: stream in client.peer.resets)
            assert len(server.lines.of("request failed")) == 1

    async def test_a_task_that_ends_without_an_answer_is_a_crash(self) -> None:
        async def answer(exchange: Exchange) -> None: ...

        async with serving(answer) as server, connected(server.port) as client:
            assert await client.ask(b"x") == SERVER_ERROR
            assert "without an answer" in str(server.lines.of("request failed")[0]["error"])

    async def test_an_exchange_outlives_its_first_piece(self) -> None:
        delivered: list[bool] = []

        async def answer(exchange: Exchange) -> None:
            for piece in (b"one,", b"two,"):
                exchange.send(piece, end=False)
                delivered.append(await exchange.wait_sent())
            exchange.send(b"three")

        async with serving(answer) as server, connected(server.port) as client:
            assert await client.ask(b"x") == b"one,two,three"
            assert delivered == [True, True]

    async def test_a_handler_learns_that_the_client_left(self) -> None:
        left = trio.Event()

        async def answer(exchange: Exchange) -> None:
            exchange.send(b"begun", end=False)
            await exchange.wait_gone()
            left.set()

        async with serving(answer) as server:
            async with connected(server.port) as client:
                stream = client.begin(b"x")
                await client.until(lambda: client.peer.answers.get(stream))
            await left.wait()

    async def test_an_answer_may_come_from_another_turn(self) -> None:
        waiting: list[Exchange] = []

        def answer(exchange: Exchange) -> None:
            waiting.append(exchange)
            if len(waiting) == 2:
                for other in waiting:
                    other.send(b"together")

        async with serving(answer) as server, connected(server.port) as one, connected(server.port) as two:
            first = one.begin(b"x")
            await one.until(lambda: waiting)
            assert await two.ask(b"x") == b"together"
            assert await one.answer(first) == b"together"


class TestCertificates:
    async def test_new_handshakes_show_the_new_one_and_open_connections_stay(self) -> None:
        def shown(client: object) -> x509.Certificate:
            found = client.peer.quic.tls._peer_certificate  # type: ignore[attr-defined]
            assert isinstance(found, x509.Certificate)
            return found

        other = self_signed("other")
        async with serving() as server, connected(server.port) as old:
            server.endpoint.use_certificate(other)
            async with connected(server.port) as new:
                assert shown(old) == certificate().chain[0]
                assert shown(new) == other.chain[0]
                assert (await old.ask(b"x"), await new.ask(b"y")) == (b"x", b"y")


class TestLimits:
    async def test_a_refusal_is_one_line_a_minute(self) -> None:
        async with serving(rate=0.001, burst=1) as server, connected(server.port) as client:
            answers = [await client.ask(b"x") for _ in range(5)]
            assert answers == [b"x"] + [RATE_LIMITED] * 4
            assert server.lines.of("rate limited") == [
                {"ip": LOOPBACK, "error": "no token within the request timeout", "suppressed": 0}
            ]
            assert server.endpoint.stats.rate_limited == 4

    async def test_a_request_waits_for_its_token(self) -> None:
        async with serving(rate=20, burst=1) as server, connected(server.port) as client:
            begun = trio.current_time()
            assert [await client.ask(b"x") for _ in range(4)] == [b"x"] * 4
            assert trio.current_time() - begun > 0.1
            assert server.lines == []

    async def test_a_newcomer_takes_the_place_of_the_longest_idle(self) -> None:
        async with (
            serving(max_connections=3) as server,
            connected(server.port) as first,
            connected(server.port) as second,
            connected(server.port) as third,
        ):
            for client in (second, first, third):
                assert await client.ask(b"x") == b"x"
            async with connected(server.port) as newcomer:
                assert await newcomer.ask(b"x") == b"x"
                assert newcomer.peer.quic._retry_count == 1
                assert await second.closed() == (0, "server closed")
                assert (await first.ask(b"x"), await third.ask(b"x")) == (b"x", b"x")
                stats = server.endpoint.stats
                assert (stats.connections, stats.shed_connections) == (3, 1)
                (line,) = server.lines.of("connection shed")
                assert line["ip"] == LOOPBACK

    async def test_of_the_address_that_holds_most(self) -> None:
        async with (
            serving(max_connections=3, host=None) as server,
            connected(server.port, "::1") as alone,
            connected(server.port) as idle,
            connected(server.port) as other,
            connected(server.port, "::1") as newcomer,
        ):
            assert await newcomer.ask(b"x") == b"x"
            assert await idle.closed() == (0, "server closed")
            assert (await alone.ask(b"x"), await other.ask(b"x")) == (b"x", b"x")

    async def test_who_waits_for_an_answer_keeps_his_place(self) -> None:
        slow = Slow()
        async with (
            serving(slow, max_connections=1) as server,
            connected(server.port) as working,
            dialing(server.port) as newcomer,
        ):
            stream = working.begin(b"x")
            await slow.arrived.wait()
            while not server.endpoint.stats.refused_connections:
                await trio.lowlevel.checkpoint()
            (line,) = server.lines.of("concurrency limited")
            assert line["ip"] == LOOPBACK
            slow.release.set()
            assert await working.answer(stream) == b"x"
            await newcomer.until(lambda: newcomer.peer.connected)
            assert await newcomer.ask(b"y") == b"y"

    async def test_a_request_that_does_not_arrive_keeps_no_place(self) -> None:
        async with serving(max_connections=1) as server, connected(server.port) as dawdler:
            dawdler.begin(b"never whole", end=False)
            async with connected(server.port) as newcomer:
                assert await newcomer.ask(b"x") == b"x"

    async def test_an_address_that_holds_its_share_gives_up_one_of_its_own(self) -> None:
        async with (
            serving(per_address=1, host=None) as server,
            connected(server.port, "::1") as other,
            connected(server.port) as first,
            connected(server.port) as second,
        ):
            assert await first.closed() == (0, "server closed")
            assert (await second.ask(b"x"), await other.ask(b"x")) == (b"x", b"x")
            assert server.endpoint.stats.connections == 2

    async def test_retry_when_handshakes_pile_up(self) -> None:
        async with serving(retry_above=0) as server, connected(server.port) as client:
            assert client.peer.quic._retry_count == 1
            assert await client.ask(b"x") == b"x"
            assert server.endpoint.stats.retries == 1

    async def test_answers_in_all_are_bounded_and_the_idlest_reader_goes(self) -> None:
        async with (
            serving(lambda exchange: exchange.send(bytes(MIB)), queued_total=3 * MIB) as server,
            connected(server.port) as stalled,
            connected(server.port) as quick,
        ):
            stalled.begin(b"x")
            stalled.quiet = True
            while not server.endpoint.stats.queued_bytes:
                await trio.lowlevel.checkpoint()
            streams = [quick.begin(b"x") for _ in range(3)]
            assert [len(await quick.answer(stream)) for stream in streams] == [MIB] * 3
            assert server.endpoint.stats.shed_connections == 1
            assert len(server.lines.of("connection shed")) == 1


class TestForgetting:
    async def test_connections_that_ended_leave_nothing(self) -> None:
        async with serving() as server:
            endpoint = server.endpoint
            remembered: list[weakref.ref[Session]] = []
            for _ in range(30):
                async with connected(server.port) as client:
                    await client.ask(b"x")
                    remembered.extend(weakref.ref(session) for session in endpoint._sessions)
            endpoint._empty = trio.Event()
            await endpoint._empty.wait()
            gc.collect()
            assert endpoint._shared.routes == {}
            assert [session for session in remembered if session() is not None] == []
            assert len(endpoint._alarms) <= 3 * 30

    async def test_alarms_do_not_pile_up(self) -> None:
        async with serving(rate=0) as server, connected(server.port) as client:
            for _ in range(300):
                await client.ask(b"x")
            assert len(server.endpoint._alarms) <= 4

    async def test_counters_of_an_endpoint_at_rest(self) -> None:
        async with serving() as server:
            stats = server.endpoint.stats
            assert set(stats.__struct_fields__) >= {
                "connections",
                "half_open",
                "streams",
                "refused_connections",
            }
            assert not any(getattr(stats, name) for name in stats.__struct_fields__)

    async def test_the_socket_is_closed_in_the_end(self) -> None:
        async with serving() as server:
            port = server.port
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
            again.bind((LOOPBACK, port))
