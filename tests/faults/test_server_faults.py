"""What clients, the kernel and the disk do to a running server, and that nothing is lost or left behind."""

import os
import resource
import signal
from pathlib import Path

import pytest
import trio

from app.protocol.answer import Response
from app.protocol.message import encode_response, parse_response
from app.server.dispatch import Dispatcher
from app.world.world import World
from tests.journeys.conftest import TOKEN, Server, StartServer
from tests.journeys.raw import connect
from tests.unit.server.planted import silent

EVERYTHING = b"LOOKUP /\n---\nlimit: 1000\nquery: '*'\n---\n"


def leftovers(root: Path) -> list[str]:
    """Files that no finished write leaves."""
    return [str(path) for path in root.rglob("*") if path.name.endswith(".tmp") or path.name.startswith(".")]


async def answer_of_a_fresh_start(root: Path, request: bytes) -> bytes:
    """What a server that has just read this root would say."""
    world = World.open(str(root), log=silent)
    dispatcher = Dispatcher(world, tokens=None, read_only=True, now=lambda: 0.0, timeout=10.0, log=silent)
    answer = dispatcher.respond(request)
    response = answer if isinstance(answer, Response) else await answer
    world.close()
    return encode_response(response)


async def test_writes_broken_off_a_hundred_times_leave_no_trace(start_server: StartServer) -> None:
    running = start_server(RATE_LIMIT="0")
    head = b"PUBLISH /a.md\n---\nauth: %b\n---\n" % TOKEN.encode()
    async with connect(running.address) as rude, running.client(TOKEN) as honest:
        for number in range(100):
            stream = rude.send(head + b"half a document" * (number % 50 * 40), end=False)
            if number % 3 == 0:
                await trio.sleep(0.001)  # some of it arrives
            rude.reset(stream)
            if number % 10 == 0:
                created = await honest.publish(
                    "/a.md", b"# Version %d\n" % number, expected_version=number // 10
                )
                assert created.status == "created"
        # The connection that broke them off has its credit back.
        assert parse_response(await rude.ask(b"FETCH /a.md\n")).body == b"# Version 90\n"
        history = await honest.versions("/a.md")
        assert (history.metadata["total"], history.metadata["chain-valid"]) == ("10", "true")
        told = await rude.ask(EVERYTHING)
    assert running.stop() == 0
    assert leftovers(running.root) == []
    assert told == await answer_of_a_fresh_start(running.root, EVERYTHING)


async def test_what_was_answered_survives_a_kill(start_server: StartServer) -> None:
    acknowledged: dict[str, bytes] = {}
    for round_number in range(3):
        running = start_server(RATE_LIMIT="0")
        async with connect(running.address) as client:
            streams = {}
            for number in range(10):
                path = f"/r{round_number}/{number}.md"
                body = b"# %d\n" % number
                request = b"PUBLISH %b\n---\nauth: %b\n---\n%b" % (path.encode(), TOKEN.encode(), body)
                streams[path] = (client.send(request), body)
            with trio.move_on_after(0.02 * (round_number + 1)):
                for path, (stream, body) in streams.items():
                    assert parse_response(await client.answer(stream)).status == "created"
                    acknowledged[path] = body
            running.process.send_signal(signal.SIGKILL)
            running.process.wait()
    running = start_server(RATE_LIMIT="0")
    async with running.client(TOKEN) as client_again:
        for path, body in acknowledged.items():
            assert (await client_again.fetch(path)).body == body
            assert (await client_again.versions(path)).metadata["chain-valid"] == "true"
            # And every one can be written on.
            assert (await client_again.append(path, b"more\n", expected_version=1)).status == "created"


async def test_a_full_disk_refuses_writes_and_recovers_by_itself(start_server: StartServer) -> None:
    running = start_server()
    large = b"x" * 100_000 + b"\n"
    async with running.client(TOKEN) as client:
        assert (await client.publish("/a.md", b"# A\n", expected_version=0)).status == "created"
        # No file of the server may grow beyond this: the kernel refuses the write as a full disk would.
        before = resource.prlimit(
            running.process.pid, resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY)
        )
        refused = await client.publish("/a.md", large, expected_version=1)
        assert (refused.status, refused.body) == ("server-error", b"\n# Server error\n\ninternal error\n")
        fetched = await client.fetch("/a.md")
        assert (fetched.metadata["version"], fetched.body) == ("1", b"# A\n")
        assert (await client.publish("/small.md", b"fits\n", expected_version=0)).status == "created"
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, before)
        assert (await client.publish("/a.md", large, expected_version=1)).status == "created"
    running.wait_for("publish failed")
    assert leftovers(running.root) == []


async def test_reloads_under_load_cost_no_request(start_server: StartServer) -> None:
    """20 reloads while requests run; the same questions give the same answers before, during and after."""
    running = start_server(RATE_LIMIT="0")
    async with running.client(TOKEN) as client:
        created = await client.publish("/a.md", b"# A\n", expected_version=0, metadata={"tags": "one"})
        assert created.status == "created"
        content = (await client.fetch("/a.md")).metadata["content-hash"]
    questions = (
        b"FETCH /a.md\n",
        b"FETCH /%b\n" % content.encode(),
        b"LIST /\n",
        b"VERSIONS /a.md\n",
        EVERYTHING,
    )
    async with connect(running.address) as asking:
        expected = [await asking.ask(question) for question in questions]
        rounds = 0
        for _ in range(20):
            running.process.send_signal(signal.SIGHUP)
            for _ in range(5):
                assert [await asking.ask(question) for question in questions] == expected
                rounds += 1
    assert rounds == 100
    running.wait_for("auth: tokens reloaded")
    assert running.stop() == 0


async def test_an_honest_client_is_never_refused_on_one_connection(start_server: StartServer) -> None:
    """Many requests one after another, and more at once than there are streams."""
    running = start_server(RATE_LIMIT="0")
    async with running.client() as client:
        for _ in range(1000):
            assert (await client.fetch("/health")).status == "ok"
        statuses: list[str] = []

        async def ask() -> None:
            statuses.append((await client.fetch("/health")).status)

        async with trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(ask)
    assert statuses == ["ok"] * 200


@pytest.mark.parametrize("target", ["/etc/passwd", "/etc"])
async def test_links_out_of_the_root_lead_nowhere(server: Server, target: str) -> None:
    """A link that is swapped in while the server runs."""
    async with server.client(TOKEN) as client:
        assert (await client.publish("/d/a.md", b"# A\n", expected_version=0)).status == "created"
        os.unlink(server.root / "d" / "a.md")
        os.symlink(target, server.root / "d" / "a.md")
        os.symlink("/etc", server.root / "out")
        assert (await client.fetch("/d/a.md")).status == "not-found"
        assert (await client.fetch("/out/passwd")).status == "not-found"
        assert (await client.list("/out")).status == "not-found"
        assert b"out" not in (await client.list("/")).body
        for path in ("/out/new.md", "/d/a.md"):
            refused = await client.publish(path, b"# B\n", expected_version=None)
            assert refused.status in ("not-found", "bad-request"), path
    assert "new.md" not in os.listdir("/etc")
