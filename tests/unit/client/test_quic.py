"""The connection against a server in the same test: every ending an exchange can have, and aioquic's private names."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from aioquic.quic.configuration import QuicConfiguration

from app.client import quic
from app.protocol.limits import RESPONSE_MAX
from tests.unit.client.loopback import Identity, Loopback, Misdeed, loopback, unused_port


def echo(request: bytes) -> bytes:
    return b"echo " + request


@asynccontextmanager
async def connected(
    server: Loopback, *, verify: bool = False, host: str = "127.0.0.1"
) -> AsyncIterator[quic.Connection]:
    async with trio.open_nursery() as nursery:
        connection = await quic.dial(nursery, host, server.port, verify=verify, within=5)
        try:
            yield connection
        finally:
            connection.close()
            nursery.cancel_scope.cancel()


async def test_a_request_and_its_answer() -> None:
    async with loopback(echo) as server, connected(server) as connection:
        assert await connection.exchange(b"FETCH /", 5) == b"echo FETCH /"
        assert server.requests == [b"FETCH /"]
        assert connection.fingerprint == server.identity.fingerprint


async def test_many_at_once_wait_for_credit_and_all_are_answered() -> None:
    answers: dict[int, bytes] = {}

    async def ask(number: int) -> None:
        answers[number] = await connection.exchange(b"%d" % number, 10)

    async with (
        loopback(echo, streams=3) as server,
        connected(server) as connection,
        trio.open_nursery() as nursery,
    ):
        for number in range(40):
            nursery.start_soon(ask, number)
    assert answers == {number: b"echo %d" % number for number in range(40)}


async def test_large_bodies_pass_in_both_directions() -> None:
    body = bytes(range(256)) * 4096
    async with loopback(echo) as server, connected(server) as connection:
        assert await connection.exchange(body, 10) == b"echo " + body


async def test_an_answer_of_the_largest_size_passes_and_one_byte_more_does_not() -> None:
    async with loopback(lambda request: bytes(int(request))) as server, connected(server) as connection:
        assert len(await connection.exchange(b"%d" % RESPONSE_MAX, 30)) == RESPONSE_MAX
        with pytest.raises(quic.TooLarge):
            await connection.exchange(b"%d" % (RESPONSE_MAX + 1), 30)
        assert await connection.exchange(b"7", 5) == bytes(7)


async def test_a_reset_stream_is_lost_and_the_connection_lives() -> None:
    async with (
        loopback(lambda request: Misdeed.RESET if request == b"bad" else request) as server,
        connected(server) as connection,
    ):
        with pytest.raises(quic.Lost, match="reset") as caught:
            await connection.exchange(b"bad", 5)
        assert caught.value.sent
        assert await connection.exchange(b"good", 5) == b"good"


async def test_after_the_deadline_both_directions_are_reset_and_the_connection_lives() -> None:
    async with (
        loopback(lambda request: Misdeed.SILENCE if request == b"slow" else request, streams=1) as server,
        connected(server) as connection,
    ):
        with pytest.raises(quic.TimedOut, match=r"no answer within 0\.2 s") as caught:
            await connection.exchange(b"slow", 0.2)
        assert caught.value.sent
        # The one stream of this server's limit was given back.
        assert await connection.exchange(b"next", 5) == b"next"


async def test_a_request_that_never_got_credit_was_not_sent() -> None:
    async with loopback(lambda _: Misdeed.SILENCE, streams=1) as server, connected(server) as connection:
        async with trio.open_nursery() as nursery:

            async def occupy() -> None:
                with pytest.raises(quic.TimedOut):
                    await connection.exchange(b"first", 0.4)

            nursery.start_soon(occupy)
            await server.asked.wait()
            with pytest.raises(quic.TimedOut) as caught:
                await connection.exchange(b"second", 0.1)
        assert not caught.value.sent
        assert server.requests == [b"first"]


async def test_a_close_by_the_server_is_noticed_at_once() -> None:
    async with loopback(lambda _: Misdeed.HANG_UP) as server, connected(server) as connection:
        started = trio.current_time()
        with pytest.raises(quic.Lost, match="server closed"):
            await connection.exchange(b"x", 5)
        assert trio.current_time() - started < 1
        assert not connection.usable
        with pytest.raises(quic.Lost) as caught:
            await connection.exchange(b"y", 5)
        assert not caught.value.sent


async def test_a_server_that_forgot_the_connection_is_noticed_by_its_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quic, "QUIET", 0.2)
    async with loopback(echo) as server, connected(server) as connection:
        assert await connection.exchange(b"x", 5)
        server.forget()
        with pytest.raises(quic.Lost, match="fell silent"):
            await connection.exchange(b"y", 5)


async def test_a_slow_answer_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quic, "QUIET", 0.05)
    async with loopback(lambda _: Misdeed.SILENCE) as server, connected(server) as connection:
        with pytest.raises(quic.TimedOut):
            await connection.exchange(b"x", 0.6)
        assert connection.usable


async def test_an_idle_connection_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quic, "IDLE_TIMEOUT", 0.9)
    monkeypatch.setattr(quic, "KEEP_ALIVE", 0.2)
    async with loopback(echo) as server, connected(server) as connection:
        await trio.sleep(1.5)
        assert connection.usable
        assert await connection.exchange(b"x", 5) == b"echo x"
        assert server.handshakes == 1


async def test_a_closed_port_is_refused_without_waiting() -> None:
    async with trio.open_nursery() as nursery:
        with pytest.raises(quic.HandshakeFailed, match="refused") as caught:
            await quic.dial(nursery, "127.0.0.1", unused_port(), verify=False, within=5)
    assert not caught.value.timed_out


async def test_a_server_that_says_nothing_times_out() -> None:
    async with loopback(echo) as server:
        server.deaf = True
        async with trio.open_nursery() as nursery:
            with pytest.raises(quic.HandshakeFailed, match=r"no answer within 0\.3 s") as caught:
                await quic.dial(nursery, "127.0.0.1", server.port, verify=False, within=0.3)
    assert caught.value.timed_out


async def test_the_next_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    closed, found = unused_port(), []

    async def resolve(host: str, port: int, **_: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        found.append(host)
        return [(2, 2, 17, "", ("127.0.0.1", closed)), (2, 2, 17, "", ("127.0.0.1", port))]

    monkeypatch.setattr(trio.socket, "getaddrinfo", resolve)
    async with loopback(echo) as server, connected(server, host="two.example") as connection:
        assert await connection.exchange(b"x", 5) == b"echo x"
    assert found == ["two.example"]


@pytest.mark.parametrize("host", ["no such name.invalid", "a..b", "x" * 70 + ".example"])
async def test_a_name_that_does_not_resolve(host: str) -> None:
    async with trio.open_nursery() as nursery:
        with pytest.raises(quic.HandshakeFailed, match="does not resolve"):
            await quic.dial(nursery, host, 6309, verify=False, within=5)


async def test_another_protocol_is_told_by_its_name() -> None:
    async with loopback(echo, alpn="h3") as server:
        with pytest.raises(ExceptionGroup) as caught:
            async with connected(server):
                pass
    assert caught.group_contains(quic.HandshakeFailed, match="does not speak the Mark Protocol")


def trust(monkeypatch: pytest.MonkeyPatch, path: object, authority: bytes) -> None:
    with open(f"{path}", "wb") as file:
        file.write(authority)
    monkeypatch.setenv("SSL_CERT_FILE", f"{path}")


@pytest.mark.parametrize(("host", "names"), [("127.0.0.1", ["127.0.0.1"]), ("localhost", ["localhost"])])
async def test_the_systems_roots_are_what_is_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object, host: str, names: list[str]
) -> None:
    identity = Identity(*names)
    trust(monkeypatch, f"{tmp_path}/ca.pem", identity.authority)
    async with (
        loopback(echo, identity=identity) as server,
        connected(server, verify=True, host=host) as connection,
    ):
        assert await connection.exchange(b"x", 5) == b"echo x"


@pytest.mark.parametrize(
    ("make", "trusted", "reason"),
    [
        (lambda: Identity("127.0.0.1"), False, "unable to get local issuer certificate"),
        (lambda: Identity("board.example"), True, "127.0.0.1"),
        (lambda: Identity("127.0.0.1", expired=True), True, "no longer valid"),
    ],
)
async def test_a_certificate_that_does_not_verify_is_refused_with_its_fingerprint(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: object,
    make: Callable[[], Identity],
    trusted: bool,
    reason: str,
) -> None:
    identity = make()
    trust(monkeypatch, f"{tmp_path}/ca.pem", (identity if trusted else Identity("x")).authority)
    async with loopback(echo, identity=identity) as server, trio.open_nursery() as nursery:
        started = trio.current_time()
        with pytest.raises(quic.HandshakeFailed, match=reason) as caught:
            await quic.dial(nursery, "127.0.0.1", server.port, verify=True, within=5)
        assert caught.value.fingerprint == identity.fingerprint
        assert trio.current_time() - started < 0.5
        assert server.requests == []


def test_server_names() -> None:
    assert quic._server_name("board.local") == "board.local"
    assert quic._server_name("board.local.") == "board.local"
    assert quic._server_name("127.0.0.1") == "127.0.0.1"
    assert quic._server_name("fe80::1%eth0") == "fe80::1"
    assert quic._server_name("bücher.example") == "xn--bcher-kva.example"


async def test_noise_on_the_socket_does_no_harm() -> None:
    async with loopback(echo) as server, connected(server) as connection:
        for data in (b"", b"\x00", b"\xff" * 1200, b"\xc0" + bytes(40), b"\x40" + bytes(30)):
            connection._quic.receive_datagram(data, connection._address, now=trio.current_time())
        assert await connection.exchange(b"x", 5) == b"echo x"


def test_the_private_names_of_aioquic_are_where_they_were() -> None:
    machine = quic._Quic(QuicConfiguration(is_client=True, alpn_protocols=["mark"], max_stream_data=1000))
    machine.connect(("127.0.0.1", 1), now=0.0)
    assert machine.fingerprint() is None
    assert machine.ending() is None
    assert machine.credit() == 0
    (first, _), *_ = machine.datagrams_to_send(0.0)
    assert len(first) >= 1200
    machine.close(error_code=0)
    ending = machine.ending()
    assert ending is not None
    assert ending.error_code == 0


async def test_the_server_cannot_open_streams_and_a_window_never_grows() -> None:
    async with loopback(lambda _: bytes(3_000_000)) as server, connected(server) as connection:
        assert len(await connection.exchange(b"x", 20)) == 3_000_000
        (machine,) = set(server._connections.values())
        assert machine._remote_max_streams_bidi == machine._remote_max_streams_uni == 0
        assert machine._remote_max_stream_data_bidi_remote == RESPONSE_MAX + 1
