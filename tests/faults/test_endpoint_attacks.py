"""The endpoint under datagrams that no honest client sends: it answers the others, and its memory stays where it was."""

import contextlib
import math
import random
import socket
import struct

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.server.exchange import Exchange
from app.server.quic import Connection
from tests.unit.server.quic_client import LOOPBACK, Client, Server, connected, serving
from tests.unit.server.quic_pair import SERVER, Pair, Peer, stream_frame, varint

MIB = 1 << 20


def stranger() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((LOOPBACK, 0))
    sock.setblocking(False)
    return sock


def first_flight() -> bytes:
    peer = Peer()
    peer.quic.connect(SERVER, 0.0)
    return peer.send(0.0)[0]


def broken(datagram: bytes) -> bytes:
    """The datagram with one bit of its payload flipped: it cannot be decrypted."""
    return datagram[:200] + bytes([datagram[200] ^ 1]) + datagram[201:]


def waiting(sock: socket.socket) -> list[bytes]:
    found = []
    while True:
        try:
            found.append(sock.recv(65535))
        except BlockingIOError:
            return found


async def answers(client: Client) -> None:
    """The endpoint has worked through everything sent before, and is well."""
    assert await client.ask(b"well?") == b"well?"


async def test_garbage_does_not_stop_reception() -> None:
    chance = random.Random(1)
    heads = [
        b"",
        b"\x00",
        b"\x40",
        b"\x80",
        b"\xc0",
        b"\xff",
        b"\xc0\x00\x00\x00\x01\x08",
        b"\xc0\x6b\x33\x43\xcf\xff",
        b"\xc0" + bytes(4),
    ]
    async with serving() as server, connected(server.port) as client:
        with stranger() as sock:
            for size in (0, 1, 5, 8, 9, 21, 22, 60, 1199, 1200, 1500, 9000):
                for head in heads:
                    sock.sendto((head + chance.randbytes(size))[:65507], (LOOPBACK, server.port))
                await answers(client)
        assert server.endpoint.stats.connections == 1
        assert len(server.lines) <= 1


async def test_other_versions_are_told_ours_but_never_in_a_circle() -> None:
    async with serving() as server, connected(server.port) as client:
        with stranger() as sock:
            unknown = b"\xca\x1a\x2a\x3a\x4a\x08abcdefgh\x04wxyz"
            for datagram in (
                unknown,
                unknown.ljust(1199, b"\x00"),
                (b"\xca" + bytes(4) + unknown[5:]).ljust(1200, b"\x00"),
            ):
                sock.sendto(datagram, (LOOPBACK, server.port))
            await answers(client)
            assert waiting(sock) == []
            sock.sendto(unknown.ljust(1200, b"\x00"), (LOOPBACK, server.port))
            await answers(client)
            (answer,) = waiting(sock)
            assert answer[1:5] == bytes(4)
            assert struct.pack(">II", 1, 0x6B3343CF) in answer
            sock.sendto(answer.ljust(1200, b"\x00"), (LOOPBACK, server.port))
            await answers(client)
            assert waiting(sock) == []


async def test_first_flights_that_cannot_be_decrypted_leave_nothing() -> None:
    async with serving(half_open=20, retry_above=10) as server, connected(server.port) as client:
        with stranger() as sock:
            for _ in range(60):
                sock.sendto(broken(first_flight()), (LOOPBACK, server.port))
                await answers(client)
        stats = server.endpoint.stats
        assert (stats.connections, stats.half_open) == (1, 0)
        assert stats.retries >= 35  # by then they are known to be forged
        async with connected(server.port) as newcomer:
            await answers(newcomer)


def forged(chance: random.Random) -> bytes:
    """An Initial that nobody needs to think about to send."""
    head = b"\xc3\x00\x00\x00\x01\x08" + chance.randbytes(8) + b"\x08" + chance.randbytes(8)
    return (head + b"\x00\x44\x92").ljust(1200, b"\x5a")


@pytest.mark.parametrize("ports", [3, 200])
async def test_a_genuine_client_gets_in_during_a_flood_of_forged_initials(ports: int) -> None:
    """10,000 of them, as fast as this one core sends: the flood and the endpoint take turns."""
    chance = random.Random(ports)
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(stranger()) for _ in range(ports)]
        async with serving() as server, trio.open_nursery() as nursery:
            over = False

            async def flood() -> None:
                nonlocal over
                for count in range(10_000):
                    with contextlib.suppress(BlockingIOError):
                        socks[count % ports].sendto(forged(chance), (LOOPBACK, server.port))
                    if count % 100 == 99:
                        await trio.lowlevel.checkpoint()
                over = True

            nursery.start_soon(flood)
            await trio.lowlevel.checkpoint()
            taken = []
            while not over:
                begun = trio.current_time()
                async with connected(server.port) as client:
                    await answers(client)
                taken.append(trio.current_time() - begun)
            assert max(taken) < 2.0
            stats = server.endpoint.stats
            assert stats.retries + stats.refused_connections >= 5000
            assert stats.half_open <= 1


async def test_who_repeats_himself_is_heard_when_there_is_no_time_for_all() -> None:
    """Whatever time there is goes to a flood that is new each time. An honest client says the same again, and is not behind it."""
    async with serving() as server, connected(server.port) as witness:
        server.endpoint._door._suspicious_until = math.inf
        server.endpoint._patience.SHARE = 0.0
        server.endpoint._patience.spend(0.06)
        with stranger() as sock:
            for _ in range(100):
                sock.sendto(forged(random.Random()), (LOOPBACK, server.port))
            await answers(witness)
            assert waiting(sock) == []
            assert server.endpoint.stats.refused_connections >= 99
        async with connected(server.port) as client:
            await answers(client)
            assert client.peer.quic._retry_count == 1
        (line,) = server.lines.of("concurrency limited")
        assert line["error"] == "too many first datagrams"


async def test_half_open_connections_are_capped_and_a_genuine_client_still_gets_in() -> None:
    flights = [first_flight() for _ in range(150)]
    async with serving(half_open=64, retry_above=16, per_address=4096, handshake_timeout=60) as server:
        with stranger() as sock:
            for flight in flights:
                sock.sendto(flight, (LOOPBACK, server.port))
                await trio.lowlevel.checkpoint()
            async with connected(server.port) as client:
                await answers(client)
                assert client.peer.quic._retry_count == 1
                stats = server.endpoint.stats
                assert (stats.half_open, stats.connections) == (16, 17)
                assert stats.retries == 150 - 16 + 1


async def test_past_the_cap_a_proved_newcomer_takes_the_place_of_the_oldest_handshake() -> None:
    async with serving(half_open=4, retry_above=4, handshake_timeout=60) as server:
        with stranger() as sock:
            for _ in range(4):
                sock.sendto(first_flight(), (LOOPBACK, server.port))
            while server.endpoint.stats.half_open < 4:
                await trio.lowlevel.checkpoint()
            async with connected(server.port) as client:
                await answers(client)
                stats = server.endpoint.stats
                assert (stats.half_open, stats.connections, stats.shed_connections) == (3, 4, 1)


async def test_four_addresses_that_fill_the_table_lock_nobody_out() -> None:
    """Idle connections of their own, renewed for as long as it takes."""
    async with (
        serving(max_connections=12, per_address=3, retry_above=8) as server,
        contextlib.AsyncExitStack() as stack,
    ):
        for number in range(2, 6):
            for _ in range(3):
                await stack.enter_async_context(connected(server.port, own=f"127.0.0.{number}"))
        assert server.endpoint.stats.connections == 12
        client = await stack.enter_async_context(connected(server.port))
        for _ in range(4):
            for number in range(2, 6):
                await stack.enter_async_context(connected(server.port, own=f"127.0.0.{number}"))
        await answers(client)
        assert server.endpoint.stats.connections == 12


async def test_an_unheard_client_does_not_hold_others() -> None:
    """A client asks for a megabyte on every stream and is never heard of again."""

    def answer(exchange: Exchange) -> None:
        exchange.send(exchange.request if exchange.request == b"well?" else bytes(MIB))

    async with (
        serving(answer, max_streams=100, queued_per_connection=4 * MIB, write_deadline=1.0, rate=0) as server,
        connected(server.port) as client,
        connected(server.port) as deaf,
    ):
        for _ in range(100):
            deaf.peer.ask(b"x")
        deaf.flush()
        deaf.quiet = True
        while server.endpoint.stats.queued_bytes < 4 * MIB:
            await trio.lowlevel.checkpoint()
        await answers(client)
        assert 4 * MIB <= server.endpoint.stats.queued_bytes <= 5 * MIB
        while server.endpoint.stats.connections > 1:
            await answers(client)
        assert server.endpoint.stats.queued_bytes <= MIB


async def test_an_error_inside_aioquic_ends_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as server, connected(server.port) as one, connected(server.port) as other:
        victim = next(iter(server.endpoint._sessions))._connection

        def receive(self: Connection, data: bytes, address: object, now: float) -> None:
            if self is victim:
                raise AssertionError("not foreseen")
            genuine(self, data, address, now)

        genuine = Connection.receive_datagram
        monkeypatch.setattr(Connection, "receive_datagram", receive)
        assert await other.ask(b"x") == b"x"
        one.begin(b"x")
        assert (await one.closed()) == (0, "server closed")
        assert await other.ask(b"y") == b"y"
        assert server.endpoint.stats.failed_connections == 1
        ((level, message, fields),) = server.lines
        assert (level, message, fields["error"]) == (
            "warn",
            "connection failed",
            "AssertionError: not foreseen",
        )


@pytest.mark.parametrize("method", ["datagrams_to_send", "next_event", "handle_timer", "get_timer"])
async def test_so_do_errors_at_other_places(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    async with (
        serving(request_timeout=0.2, idle_timeout=0.5) as server,
        connected(server.port) as one,
        connected(server.port) as other,
    ):
        victim = next(iter(server.endpoint._sessions))._connection
        genuine = getattr(Connection, method)

        def broken_method(self: Connection, *args: object, **keywords: object) -> object:
            if self is victim:
                raise KeyError(method)
            return genuine(self, *args, **keywords)

        monkeypatch.setattr(Connection, method, broken_method)
        one.begin(b"half a request", end=False)
        while server.endpoint.stats.connections > 1:
            await answers(other)
        assert server.endpoint.stats.failed_connections == 1


async def test_a_restarted_server_tells_the_clients_of_the_old_one() -> None:
    async with serving() as server, connected(server.port) as client:
        await answers(client)
        identifiers = [client.peer.quic._peer_cid, *client.peer.quic._peer_cid_available]
        client.quiet = True
        for session in list(server.endpoint._sessions):
            server.endpoint._forget(session)  # as if the power had failed
        with stranger() as sock:
            sock.sendto((b"\x40" + identifiers[0].cid).ljust(60, b"\x55"), (LOOPBACK, server.port))
            await trio.lowlevel.wait_readable(sock)
            (reset,) = waiting(sock)
        assert reset[-16:] == identifiers[0].stateless_reset_token


async def test_resets_are_rationed() -> None:
    async with serving() as server, connected(server.port) as client:
        with stranger() as sock:
            for _ in range(400):
                sock.sendto(b"\x40" + bytes(59), (LOOPBACK, server.port))
            await answers(client)
            assert 1 <= len(waiting(sock)) < 200


async def attack(server: Server, frames: list[bytes]) -> None:
    async with connected(server.port) as client:
        for frame in frames:
            if client.peer.closed() is None:
                client.peer.forge(frame)
                client.flush()
                await trio.lowlevel.checkpoint()


FRAME = st.one_of(
    st.binary(min_size=1, max_size=60),
    st.builds(
        stream_frame,
        st.integers(0, 60),
        st.binary(max_size=20),
        offset=st.one_of(st.integers(0, 300_000), st.integers(0, 2**62 - 1)),
        fin=st.booleans(),
    ),
    st.builds(
        lambda kind, numbers: bytes([kind]) + b"".join(map(varint, numbers)),
        st.integers(0, 0x31),
        st.lists(st.one_of(st.integers(0, 100), st.integers(0, 2**62 - 1)), max_size=6),
    ),
)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(FRAME, min_size=1, max_size=6))
def test_no_frames_raise(frames: list[bytes]) -> None:
    pair = Pair(max_streams=10, rate=0)
    peer = pair.connect()
    for frame in frames:
        if peer.closed() is None:
            peer.forge(frame)
            pair.pump()
    session = pair.sessions[-1] if pair.sessions else None
    if session is not None:
        held = sum(len(stream.receiver._buffer) for stream in session._connection._streams.values())
        assert held <= pair.limits.receive_window
    pair.advance(60)
    assert (pair.shared.routes, pair.shared.queued.used, pair.shared.held.used) == ({}, 0, 0)


async def test_a_connection_for_each_attack_and_one_that_lives() -> None:
    doubling = [stream_frame(0, b"x", offset=1 << power) for power in range(8, 30)]
    resets = [
        stream_frame(4 * number, b"x") + b"\x04" + varint(4 * number) + b"\x00\x01" for number in range(10)
    ]
    stops = [stream_frame(0, b"x", fin=True) + b"\x05\x00\x00"] * 5
    challenges = [b"\x1a" + bytes(8)] * 50
    retirements = [b"\x19" + varint(number) for number in range(1, 30)]
    crypto = [b"\x06" + varint(number * 1000) + varint(1000) + bytes(1000) for number in range(1, 40)]
    async with serving(rate=0) as server, connected(server.port) as client:
        for frames in (doubling, resets, stops, challenges, retirements, crypto):
            await attack(server, frames)
            await answers(client)
        assert server.endpoint.stats.held_bytes < MIB


async def test_a_client_that_vanished_is_forgotten() -> None:
    async with serving(idle_timeout=0.4) as server, connected(server.port) as client:
        client.quiet = True
        server.endpoint._empty = trio.Event()
        await server.endpoint._empty.wait()
