"""Long runs of reloading: ten minutes of reading that write nothing, and hundreds of reloads of a changing world under load.

`scripts/soak reload`; some twelve minutes. DEMARKUS_SOAK_SECONDS shortens both.
"""

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import trio

from app.client.client import Client
from app.protocol.tables import parse_lookup_body
from app.world.world import World
from tests.journeys.conftest import TOKEN, Server, StartServer
from tests.journeys.conftest import start_server as start_server
from tests.journeys.test_reload_content import command, put, until, written_bytes
from tests.unit.server.planted import plant, silent

SECONDS = float(os.environ.get("DEMARKUS_SOAK_SECONDS", "600"))
RELOADED = 'msg="content reloaded" cause=SIGHUP'


def resident(server: Server) -> int:
    """Anonymous memory in bytes."""
    for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no such line")


async def read_everything(client: Client) -> None:
    rows = parse_lookup_body((await client.lookup("/", "*", limit=1000)).body)
    for row in rows[:50]:
        assert (await client.fetch(row.path)).status == "ok"
        assert (await client.versions(row.path)).status == "ok"
    assert (await client.list("/")).status == "ok"


async def test_ten_minutes_of_reading_write_nothing(start_server: StartServer, tmp_path: Path) -> None:
    for number in range(300):
        plant(os.fspath(tmp_path / "root"), f"/d{number % 7}/{number}.md", [b"# %d\n\ntext\n" % number])
    server = start_server(RATE_LIMIT="0", LOG_LEVEL="warn", PORT="46309", ready=False)
    await until(lambda: command(server, "status").returncode == 0, within=20)
    server.port = 46309
    async with server.client() as client:
        await read_everything(client)
        await trio.sleep(1)
        before = written_bytes(server)
        deadline = trio.current_time() + SECONDS
        while trio.current_time() < deadline:
            await read_everything(client)
            server.process.send_signal(signal.SIGHUP)
            await trio.sleep(1)
        assert written_bytes(server) == before
    assert server.stop() == 0


def changes(root: Path, seed: int) -> Iterator[None]:
    """Another program at work, for ever."""
    chosen = random.Random(seed)
    versions: dict[str, int] = {}
    while True:
        for _ in range(chosen.choice([1, 10, 200])):
            path = f"/out{chosen.randrange(5)}/{chosen.randrange(120)}.md"
            versions[path] = versions.get(path, 0) + 1
            put(root, path, versions[path], f"# Version {versions[path]}\n\n{chosen.random()}\n")
        yield


async def test_hundreds_of_reloads_under_load_end_equal_and_no_larger(
    start_server: StartServer, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    plant(os.fspath(root), "/fixed.md", [b"# Fixed\n"])
    server = start_server(RATE_LIMIT="0")
    tool = changes(root, 1)
    sizes: list[int] = []

    async def read(client: Client) -> None:
        while True:
            answer = await client.lookup("/", "fixed", limit=1000)
            assert [row.path for row in parse_lookup_body(answer.body)] == ["/fixed.md"]
            await read_everything(client)
            await trio.sleep(0.05)

    async def write(client: Client) -> None:
        number = 0
        while True:
            answer = await client.publish(
                f"/mine/{number % 50}.md", b"# Mine\n%d\n" % number, expected_version=number // 50
            )
            assert answer.status == "created", answer
            number += 1
            await trio.sleep(0.1)

    async with server.client() as reader, server.client(TOKEN) as writer, trio.open_nursery() as nursery:
        nursery.start_soon(read, reader)
        nursery.start_soon(write, writer)
        deadline = trio.current_time() + SECONDS / 5
        while trio.current_time() < deadline:
            await trio.to_thread.run_sync(next, tool)
            done = server.log.count(RELOADED)
            server.process.send_signal(signal.SIGHUP)
            await until(lambda: server.log.count(RELOADED) > done)  # noqa: B023
            sizes.append(resident(server))
        nursery.cancel_scope.cancel()
    await trio.sleep(3)  # the watch has its say
    async with server.client() as client:
        rows = parse_lookup_body((await client.lookup("/", "*", limit=1000)).body)
    fresh = World.open(os.fspath(root), log=silent)
    assert sorted(row.path for row in rows) == sorted(fresh.paths())
    assert {row.path: row.title for row in rows} == {
        path: entry.title for path in fresh.paths() if (entry := fresh.catalog.get(path)) is not None
    }
    fresh.close()
    half = len(sizes) // 2
    assert max(sizes[half:]) < max(sizes[:half]) * 1.3
    assert server.stop() == 0
