"""The client against a server in the same test: verbs on the wire, retries by kind of request, pins, and what each failure is."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import trio

from app.client import client as client_module
from app.client import quic
from app.client.client import Client
from app.client.errors import BadAnswer, ClientError, IdentityChanged, OutcomeUnknown, Unreachable, Untrusted
from app.protocol.limits import RESPONSE_MAX
from app.protocol.message import Request, Response, encode_response, parse_request
from tests.unit.client.loopback import Identity, Misdeed, Script, loopback, unused_port

HOST = "127.0.0.1"
OK = encode_response(Response("ok", {"version": "3"}, b"# Body\n"))


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PAUSE", 0.01)


def after(failures: int, misdeed: Misdeed | bytes) -> Script:
    """A server that does well only after so many misdeeds."""
    count = 0

    def script(_: bytes) -> bytes | Misdeed:
        nonlocal count
        count += 1
        return misdeed if count <= failures else OK

    return script


CALLS: list[tuple[Callable[[Client], Coroutine[Any, Any, Response]], Request]] = [
    (lambda c: c.fetch("/a.md"), Request("FETCH", "/a.md", {"auth": "t"})),
    (
        lambda c: c.fetch("/a.md", if_none_match="e", if_modified_since="d", include_archived=True),
        Request(
            "FETCH",
            "/a.md",
            {"auth": "t", "if-none-match": "e", "if-modified-since": "d", "include-archived": "true"},
        ),
    ),
    (lambda c: c.list("/"), Request("LIST", "/", {"auth": "t"})),
    (
        lambda c: c.list("/", include_archived=True, cursor="c", page_size=7),
        Request("LIST", "/", {"auth": "t", "include-archived": "true", "cursor": "c", "page-size": "7"}),
    ),
    (lambda c: c.versions("/a.md"), Request("VERSIONS", "/a.md", {"auth": "t"})),
    (lambda c: c.lookup("/docs", "pump"), Request("LOOKUP", "/docs", {"auth": "t", "query": "pump"})),
    (
        lambda c: c.lookup("/", "*", filters="type=Log", limit=3, match="body"),
        Request(
            "LOOKUP", "/", {"auth": "t", "query": "*", "filter": "type=Log", "limit": "3", "match": "body"}
        ),
    ),
    (
        lambda c: c.publish("/a.md", b"x", expected_version=0, metadata={"title": "T"}),
        Request("PUBLISH", "/a.md", {"auth": "t", "expected-version": "0", "title": "T"}, b"x"),
    ),
    (
        lambda c: c.publish("/a.md", b"---\nx", expected_version=None),
        Request("PUBLISH", "/a.md", {"auth": "t"}, b"---\nx"),
    ),
    (
        lambda c: c.append("/a.md", b"x", expected_version=4),
        Request("APPEND", "/a.md", {"auth": "t", "expected-version": "4"}, b"x"),
    ),
    (lambda c: c.archive("/a.md"), Request("ARCHIVE", "/a.md", {"auth": "t"})),
]


@pytest.mark.parametrize(("call", "expected"), CALLS)
async def test_each_verb_on_the_wire(
    call: Callable[[Client], Coroutine[Any, Any, Response]], expected: Request
) -> None:
    async with loopback(lambda _: OK) as server:
        async with Client(HOST, server.port, insecure=True, token="t") as client:
            assert await call(client) == Response("ok", {"version": "3"}, b"# Body\n")
        assert [parse_request(data) for data in server.requests] == [expected]


async def test_without_a_token_no_auth_key_goes_out() -> None:
    async with loopback(lambda _: OK) as server, Client(HOST, server.port, insecure=True) as client:
        await client.fetch("/")
        assert server.requests == [b"FETCH /\n"]


async def test_one_connection_serves_all_requests() -> None:
    async with loopback(lambda _: OK) as server, Client(HOST, server.port, insecure=True) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(25):
                nursery.start_soon(client.fetch, "/")
        assert server.handshakes == 1
        assert len(server.requests) == 25


@pytest.mark.parametrize("misdeed", [Misdeed.RESET, Misdeed.HANG_UP, b""])
async def test_reads_are_sent_again_up_to_five_times(misdeed: Misdeed | bytes) -> None:
    async with loopback(after(4, misdeed)) as server, Client(HOST, server.port, insecure=True) as client:
        assert (await client.fetch("/")).status == "ok"
        assert len(server.requests) == 5
    async with loopback(after(5, misdeed)) as server, Client(HOST, server.port, insecure=True) as client:
        with pytest.raises(Unreachable):
            await client.fetch("/")
        assert len(server.requests) == 5


@pytest.mark.parametrize("misdeed", [Misdeed.RESET, Misdeed.HANG_UP, b"", Misdeed.SILENCE])
@pytest.mark.parametrize("verb", ["PUBLISH", "APPEND", "ARCHIVE"])
async def test_a_write_that_left_is_never_sent_twice(verb: str, misdeed: Misdeed | bytes) -> None:
    async with (
        loopback(after(1, misdeed)) as server,
        Client(HOST, server.port, insecure=True, timeout=0.3) as client,
    ):
        with pytest.raises(OutcomeUnknown, match="unknown"):
            await client.request(Request(verb, "/a.md", {}, b"x"))
        assert len(server.requests) == 1


async def test_a_write_is_sent_again_while_nothing_has_left() -> None:
    port = unused_port()
    with pytest.raises(Unreachable, match="refused"):
        async with Client(HOST, port, insecure=True) as client:
            await client.archive("/a.md")


async def test_a_read_that_gets_no_answer_in_time_is_not_repeated() -> None:
    async with (
        loopback(lambda _: Misdeed.SILENCE) as server,
        Client(HOST, server.port, insecure=True, timeout=0.3) as client,
    ):
        with pytest.raises(Unreachable, match=r"no answer within 0\.3 s"):
            await client.fetch("/")
        assert len(server.requests) == 1


async def test_a_restarted_server_is_found_again_within_the_time_of_a_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quic, "QUIET", 0.1)
    async with (
        loopback(lambda _: OK) as server,
        Client(HOST, server.port, insecure=True, timeout=5) as client,
    ):
        await client.fetch("/")
        server.forget()
        assert (await client.fetch("/")).status == "ok"
        assert server.handshakes == 2


async def test_after_a_pause_a_write_first_makes_sure_of_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "FRESH", 0.0)
    monkeypatch.setattr(client_module, "PROOF", 0.1)
    async with loopback(lambda _: OK) as server, Client(HOST, server.port, insecure=True) as client:
        assert (await client.archive("/a.md")).status == "ok"
        assert (await client.archive("/a.md")).status == "ok"
        assert server.handshakes == 1
        server.forget()
        assert (await client.archive("/a.md")).status == "ok"
        assert server.handshakes == 2


async def test_a_connection_in_use_is_not_put_to_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FRESH", 0.0)
    monkeypatch.setattr(client_module, "PROOF", 0.0)
    async with (
        loopback(after(1, Misdeed.SILENCE)) as server,
        Client(HOST, server.port, insecure=True, timeout=0.5) as client,
        trio.open_nursery() as nursery,
    ):

        async def wait_in_vain() -> None:
            with pytest.raises(OutcomeUnknown):
                await client.archive("/slow.md")

        nursery.start_soon(wait_in_vain)
        await server.asked.wait()
        assert (await client.archive("/a.md")).status == "ok"
        assert server.handshakes == 1


async def test_a_pin_takes_that_certificate_and_no_other() -> None:
    identity = Identity("somewhere.else", expired=True)
    async with loopback(lambda _: OK, identity=identity) as server:
        async with Client(HOST, server.port, pin=identity.fingerprint) as client:
            assert (await client.fetch("/")).status == "ok"
            assert client.fingerprint == identity.fingerprint
        other = "sha256:" + 64 * "0"
        with pytest.raises(IdentityChanged) as caught:
            async with Client(HOST, server.port, pin=other) as client:
                await client.fetch("/")
        assert (caught.value.pinned, caught.value.seen) == (other, identity.fingerprint)
        assert len(server.requests) == 1


async def test_an_unknown_certificate_is_refused_with_its_fingerprint() -> None:
    async with loopback(lambda _: OK) as server:
        with pytest.raises(Untrusted) as caught:
            async with Client(HOST, server.port) as client:
                await client.fetch("/")
        assert caught.value.fingerprint == server.identity.fingerprint
        assert server.requests == []


@pytest.mark.parametrize("answer", [b"---\nstatus: ok\n", b"---\nstatus: [\n---\n", bytes(RESPONSE_MAX + 1)])
async def test_an_answer_of_another_shape_is_a_bad_answer(answer: bytes) -> None:
    async with loopback(lambda _: answer) as server:
        with pytest.raises(BadAnswer):
            async with Client(HOST, server.port, insecure=True) as client:
                await client.fetch("/")


@pytest.mark.parametrize("path", ["docs", "/a\nFETCH /b", "/a\x00", "/" + "x" * 4087, ""])
async def test_a_path_that_would_not_arrive_is_refused_before_anything_is_sent(path: str) -> None:
    async with Client(HOST, 1, insecure=True) as client:
        with pytest.raises(ValueError, match="request line"):
            await client.fetch(path)


async def test_errors_of_the_body_come_out_as_they_are() -> None:
    async with loopback(lambda _: OK) as server:
        with pytest.raises(ZeroDivisionError):
            async with Client(HOST, server.port, insecure=True) as client:
                assert (await client.fetch("/")).status == str(1 // 0)


async def test_cancelling_leaves_nothing_behind() -> None:
    async with loopback(lambda _: Misdeed.SILENCE) as server:
        with trio.move_on_after(0.2) as scope:
            async with Client(HOST, server.port, insecure=True) as client:
                await client.fetch("/")
        assert scope.cancelled_caught


def test_messages_name_the_server() -> None:
    assert (
        str(Unreachable("board:6309", "connection refused")) == "board:6309: unreachable: connection refused"
    )
    assert isinstance(OutcomeUnknown("b:1", "x"), ClientError)
