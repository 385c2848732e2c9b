"""Content that is changed behind the server's back: by signal, by watching, by command; under load, and when the folder fails."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
import trio

from app import __version__
from app.client.client import Client
from app.commands.publish import write
from app.protocol.tables import parse_lookup_body
from tests.journeys.conftest import PROGRAM, PROJECT, TOKEN, Server, StartServer
from tests.unit.server.planted import plant

STATUS_KEYS = {
    "version",
    "pid",
    "uptime",
    "address",
    "root",
    "folder",
    "tokens",
    "read_only",
    "documents",
    "sections",
    "index_bytes",
    "body_bytes",
    "connections",
    "watching",
    "reloaded",
    "reload_ok",
    "reload_text",
    "fingerprint",
    "certificate_expires",
    "clock_ok",
    "clock",
}
RELOADED = 'msg="content reloaded" cause='


def publish(root: Path, path: str, body: str) -> None:
    """As `demarkus-publish` does."""
    write(os.fspath(root), path, body.encode(), lambda kept: {"title": body.split("\n")[0].lstrip("# ")})


def put(root: Path, path: str, number: int, body: str) -> None:
    """A version as a tool writes it that is in a hurry: no syncs, no chain."""
    pointer = root / path[1:]
    folder = pointer.parent / "versions" / pointer.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"v{number}").write_text(f"---\nversion: {number}\narchived: false\n---\n{body}")
    fresh = pointer.with_name(pointer.name + ".tmp")
    fresh.symlink_to(f"versions/{pointer.name}/v{number}")
    fresh.rename(pointer)


def hash_path(body: str) -> str:
    return "/sha256-" + hashlib.sha256(body.encode()).hexdigest()


async def titles(client: Client, query: str = "*") -> dict[str, str]:
    answer = await client.lookup("/", query, limit=1000)
    assert answer.status == "ok"
    return {row.path: row.title for row in parse_lookup_body(answer.body)}


async def until(condition: Callable[[], object], within: float = 10.0) -> None:
    with trio.fail_after(within):
        while not condition():  # noqa: ASYNC110  another process makes it true
            await trio.sleep(0.02)


def from_now(when: str) -> float:
    """Seconds until then; `when` is RFC 3339 in UTC, whole seconds."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", when)
    return datetime.fromisoformat(when).timestamp() - time.time()


def hang_up(server: Server) -> None:
    server.process.send_signal(signal.SIGHUP)


def command(server: Server, *words: str) -> "subprocess.CompletedProcess[str]":
    """The command line on the server's machine, by its user."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DEMARKUS_")}
    return subprocess.run(
        [*PROGRAM, *words, "--runtime-dir", os.fspath(server.runtime)],
        cwd=PROJECT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def run(server: Server, *words: str) -> "subprocess.CompletedProcess[str]":
    return await trio.to_thread.run_sync(lambda: command(server, *words))


async def test_a_signal_takes_over_every_kind_of_change(start_server: StartServer, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("stays", "changes", "goes", "sleeps", "quiet"):
        plant(os.fspath(root), f"/{name}.md", [f"# {name}\n".encode()], metadata=f"title: {name}\n")
    plant(os.fspath(root), "/wakes.md", [b"# wakes\n"], archived=True)
    server = start_server(WATCH="off")
    async with server.client() as client:
        assert set(await titles(client)) == {
            f"/{name}.md" for name in ("stays", "changes", "goes", "sleeps", "quiet")
        }
        publish(root, "/changes.md", "# changed\n")
        publish(root, "/new/comes.md", "# comes\n")
        (root / "goes.md").unlink()
        (root / "versions/sleeps.md/archive-state").write_text("true\n")
        (root / "versions/wakes.md/archive-state").write_text("false\n")
        quiet = root / "versions/quiet.md/v1"
        times = quiet.stat()
        (root / "fresh").write_bytes(quiet.read_bytes().replace(b"quiet", b"QUIET"))
        os.utime(root / "fresh", ns=(times.st_atime_ns, times.st_mtime_ns))
        (root / "fresh").rename(quiet)
        await trio.sleep(0.4)  # nothing happens by itself
        assert "/new/comes.md" not in await titles(client)
        assert (await client.fetch(hash_path("# comes\n"))).status == "not-found"
        hang_up(server)
        server.wait_for(
            RELOADED + r"SIGHUP added=1 replaced=2 archived=1 unarchived=1 gone=1 ms=\d+ read_bytes=\d+"
        )
        assert await titles(client) == {
            "/stays.md": "stays",
            "/changes.md": "changed",
            "/new/comes.md": "comes",
            "/quiet.md": "QUIET",
            "/wakes.md": "wakes",
        }
        for body, status in {
            "# comes\n": "ok",
            "# QUIET\n": "ok",
            "# goes\n": "not-found",
            "# quiet\n": "not-found",
        }.items():
            assert (await client.fetch(hash_path(body))).status == status
        hang_up(server)
        server.wait_for(RELOADED + "SIGHUP added=0 replaced=0 archived=0 unarchived=0 gone=0 .* read_bytes=0")
    assert server.stop() == 0


async def test_what_others_publish_shows_by_itself_and_our_own_writes_are_no_news(
    start_server: StartServer, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    plant(os.fspath(root), "/a.md")
    server = start_server()
    server.wait_for("contentwatch: watching")
    async with server.client(TOKEN) as client:
        await trio.sleep(0.3)
        for number, path in enumerate(("/a.md", "/new/deep/b.md", "/new/deep/c.md")):
            body = f"# Outside {number}\n"
            publish(root, path, body)
            began = trio.current_time()
            while (await titles(client)).get(path) != f"Outside {number}":
                assert trio.current_time() - began < 2
                await trio.sleep(0.05)
            assert (await client.fetch(hash_path(body))).body == body.encode()
        shutil.rmtree(root / "new")
        server.wait_for(RELOADED + "watch .* gone=2")
        before = server.log.count(RELOADED)
        for number in range(5):
            assert (
                await client.publish(f"/mine/{number}.md", b"# Mine\n", expected_version=0)
            ).status == "created"
            await trio.sleep(0.05)
        assert (await client.archive("/mine/0.md")).status == "ok"
        await trio.sleep(0.8)
        assert server.log.count(RELOADED) == before
        assert set(await titles(client)) == {"/a.md", *(f"/mine/{number}.md" for number in range(1, 5))}
    assert server.stop() == 0


def written_bytes(server: Server) -> int:
    for line in Path(f"/proc/{server.process.pid}/io").read_text().splitlines():
        if line.startswith("write_bytes: "):
            return int(line.split()[1])
    raise AssertionError("no such line")


async def test_reading_and_idling_write_nothing_to_the_disk(
    start_server: StartServer, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    for number in range(30):
        plant(os.fspath(root), f"/{number}.md", [b"# %d\n" % number])
    server = start_server(RATE_LIMIT="0", LOG_LEVEL="warn", ready=False)  # the log is a file here
    await until(lambda: command(server, "status").returncode == 0, within=20)
    server.port = int(json.loads(command(server, "status", "--json").stdout)["address"].rpartition(":")[2])
    async with server.client() as client:
        await titles(client)
        hang_up(server)
        await trio.sleep(0.5)
        before = written_bytes(server)
        deadline = trio.current_time() + 1
        while trio.current_time() < deadline:
            await titles(client)
            assert (await client.fetch("/3.md")).status == "ok"
            assert (await client.list("/")).status == "ok"
            assert (await client.versions("/4.md")).status == "ok"
            assert (await client.fetch(hash_path("# 5\n"))).status == "ok"
        hang_up(server)
        await trio.sleep(0.5)
        assert written_bytes(server) == before
    assert server.stop() == 0


async def test_twenty_reloads_under_load_are_never_half(start_server: StartServer, tmp_path: Path) -> None:
    """Every answer is of one generation, and no request fails."""
    root = tmp_path / "root"
    count = 100  # more than are taken over in place, so that half of the reloads build anew

    def generation(number: int, documents: int) -> None:
        for document in range(documents):
            put(root, f"/d{document % 4}/{document}.md", number, f"# Generation {number}\n\nof {document}\n")

    generation(1, count)
    plant(os.fspath(root), "/fixed/f.md", [b"# Fixed\n"])
    server = start_server(RATE_LIMIT="0", WATCH="off")
    asked = 0

    async def ask(client: Client) -> None:
        nonlocal asked
        while True:
            found = await titles(client, "generation")
            assert len(found) == count
            few = {found[f"/d{document % 4}/{document}.md"] for document in range(10)}
            rest = {found[f"/d{document % 4}/{document}.md"] for document in range(10, count)}
            assert len(few) == 1, few
            assert len(rest) == 1, rest
            listing = await client.list("/")
            assert listing.status == "ok"
            assert listing.metadata["entries"] == "5"
            assert (await client.fetch("/d1/1.md")).status == "ok"
            assert (await client.fetch(hash_path("# Fixed\n"))).body == b"# Fixed\n"
            asked += 1
            await trio.sleep(0.01)

    async with server.client() as one, server.client() as two, trio.open_nursery() as nursery:
        nursery.start_soon(ask, one)
        nursery.start_soon(ask, two)
        for number in range(2, 22):
            await trio.to_thread.run_sync(generation, number, 10 if number % 2 else count)
            hang_up(server)
            await until(lambda: server.log.count(RELOADED) >= number - 1)  # noqa: B023
        await trio.sleep(0.1)
        final = await titles(one, "generation")
        nursery.cancel_scope.cancel()
    assert asked >= 20
    assert {final[f"/d{document % 4}/{document}.md"] for document in range(10)} == {"Generation 21"}
    assert {final[f"/d{document % 4}/{document}.md"] for document in range(10, count)} == {"Generation 20"}
    assert "replaced=10 " in server.log
    assert f"replaced={count} " in server.log
    assert server.stop() == 0


async def test_publishing_over_the_network_during_reloads_loses_nothing(
    start_server: StartServer, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    for number in range(150):
        plant(os.fspath(root), f"/old/{number}.md", [b"# Old\n"])
    server = start_server(RATE_LIMIT="0", WATCH="off")
    wanted: dict[str, tuple[int, str]] = {}
    async with server.client(TOKEN) as client:
        for number in range(20):
            if number % 4 == 0:  # so that everything is read anew
                for other in range(150):
                    os.utime(root / f"old/versions/{other}.md/v1", (1e9 + number, 1e9))
            hang_up(server)
            path, body = f"/mine/{number % 7}.md", b"# Mine %d\n" % number
            version = wanted.get(path, (0, ""))[0]
            answer = await client.publish(path, body, expected_version=version)
            assert (answer.status, answer.metadata["version"]) == ("created", str(version + 1))
            wanted[path] = (version + 1, f"Mine {number}")
            found = await titles(client, "mine")
            assert found == {path: title for path, (_, title) in wanted.items()}
        assert (await client.archive("/mine/0.md")).status == "ok"
        hang_up(server)
        await trio.sleep(0.5)
        assert set(await titles(client, "mine")) == set(wanted) - {"/mine/0.md"}
        for path, (version, _) in wanted.items():
            history = await client.versions(path)
            assert (history.metadata["total"], history.metadata["chain-valid"]) == (str(version), "true")
    assert server.stop() == 0


async def test_fifty_signals_end_with_the_last_write(start_server: StartServer, tmp_path: Path) -> None:
    """The first of them come before the server is ready."""
    root = tmp_path / "root"
    for number in range(50):
        plant(os.fspath(root), f"/{number}.md")
    server = start_server(WATCH="off", ready=False)
    server.wait_for("level=INFO")
    for number in range(50):
        publish(root, "/last.md", f"# Write {number}\n")
        hang_up(server)
        await trio.sleep(0.005)
    server.port = int(server.wait_for(r'msg="server started" addr=\S*:(\d+)'))
    async with server.client() as client:
        with trio.fail_after(5):
            while (await titles(client)).get("/last.md") != "Write 49":  # noqa: ASYNC110
                await trio.sleep(0.05)
    assert server.log.count(RELOADED) < 30
    assert server.stop() == 0


@pytest.mark.parametrize("watch", ["auto", "off"])
async def test_the_root_may_be_a_link_that_is_switched(
    start_server: StartServer, tmp_path: Path, watch: str
) -> None:
    """A signal after the switch serves the other folder."""
    for release in ("rel1", "rel2"):
        plant(os.fspath(tmp_path / release), "/a.md", [f"# From {release}\n".encode()])
    plant(os.fspath(tmp_path / "rel2"), "/b.md", [b"# B\n"])
    current = tmp_path / "current"
    current.symlink_to("rel1")
    server = start_server(ROOT=str(current), WATCH=watch)
    async with server.client(TOKEN) as client:
        assert await titles(client) == {"/a.md": "From rel1"}
        (tmp_path / "next").symlink_to("rel2")
        (tmp_path / "next").rename(current)
        hang_up(server)
        server.wait_for(f"content root switched.*{tmp_path}/rel2")
        server.wait_for(RELOADED + "SIGHUP added=1 replaced=1")
        assert await titles(client) == {"/a.md": "From rel2", "/b.md": "B"}
        assert (await client.fetch("/a.md")).body == b"# From rel2\n"
        assert (await client.publish("/c.md", b"# C\n", expected_version=0)).status == "created"
        assert (tmp_path / "rel2" / "c.md").exists()
        assert not (tmp_path / "rel1" / "c.md").exists()
        if watch == "auto":
            server.wait_for("contentwatch: watching", count=2)
            await trio.sleep(0.2)
            publish(tmp_path / "rel2", "/d.md", "# D\n")
            server.wait_for(RELOADED + "watch added=1")
        shown = await run(server, "status", "--root", str(current))
        assert f"{current} -> {tmp_path}/rel2" in shown.stdout
    assert server.stop() == 0


async def test_a_root_that_fails_keeps_the_old_state_until_it_is_back(
    start_server: StartServer, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    for number in range(5):
        plant(os.fspath(root), f"/{number}.md", [b"# %d\n" % number])
    server = start_server(WATCH="off")
    failed = "content reload failed, the old content stays in force"
    async with server.client() as client:
        held = await titles(client)
        root.rename(tmp_path / "away")
        hang_up(server)
        server.wait_for(failed)
        assert await titles(client) == held
        told = await run(server, "reload", "--root", str(root))
        assert told.returncode == 1
        assert "content: content root" in told.stderr
        root.mkdir()  # where the mount is late
        hang_up(server)
        server.wait_for(failed, count=3)
        assert await titles(client) == held
        assert "FAILED: there is no document" in (await run(server, "status")).stdout
        root.rmdir()
        (tmp_path / "away").rename(root)
        publish(root, "/5.md", "# 5\n")
        told = await run(server, "reload", "--json")
        assert told.returncode == 0
        assert json.loads(told.stdout)["added"] == 1
        assert await titles(client) == held | {"/5.md": "5"}
    assert server.stop() == 0


async def test_one_part_that_fails_leaves_the_others(start_server: StartServer, tmp_path: Path) -> None:
    root = tmp_path / "root"
    plant(os.fspath(root), "/a.md")
    server = start_server(WATCH="off")
    server.tokens.write_text("half = ")
    publish(root, "/b.md", "# B\n")
    told = await run(server, "reload")
    assert (told.returncode, told.stdout.split(",")[0]) == (1, "content: 1 added")
    assert told.stderr.startswith("tokens: ")
    async with server.client(TOKEN) as client:
        assert set(await titles(client)) == {"/a.md", "/b.md"}
        assert (await client.publish("/c.md", b"# C\n", expected_version=0)).status == "created"
    assert server.stop() == 0


async def test_publish_reload_waits_until_the_document_answers(
    start_server: StartServer, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    plant(os.fspath(root), "/a.md")
    server = start_server(WATCH="off")
    async with server.client() as client:
        for number in range(2):
            body = f"# Told {number}\n"
            told = await run(
                server, "publish", "--root", str(root), "--path", "/x/told.md", "--body", body, "--reload"
            )
            assert (told.returncode, told.stderr) == (0, "")
            assert told.stdout.splitlines() == [
                f"published /x/told.md v{number + 1}",
                f"followed by the server of {root} as v{number + 1}",
            ]
            assert (await titles(client))["/x/told.md"] == f"Told {number}"
            assert (await client.fetch(hash_path(body))).status == "ok"
    assert sorted(path.name for path in root.iterdir()) == ["a.md", "versions", "x"]
    assert server.stop() == 0
    told = await run(server, "publish", "--root", str(root), "--path", "/y.md", "--body", "# Y", "--reload")
    assert told.returncode == 6
    assert told.stdout == "published /y.md v1\n"
    assert "no server of" in told.stderr


async def test_status_says_how_it_is(start_server: StartServer, tmp_path: Path) -> None:
    root = tmp_path / "root"
    plant(os.fspath(root), "/a.md", [b"# A\n"])
    server = start_server(WATCH="off")
    async with server.client() as client:
        await client.fetch("/a.md")
        told = json.loads((await run(server, "status", "--json")).stdout)
        assert told.keys() == STATUS_KEYS
        assert told["version"] == __version__
        assert 0 <= told["uptime"] < 60
        assert (told["root"], told["folder"]) == (str(root), str(root.resolve()))
        assert (told["documents"], told["sections"], told["body_bytes"]) == (1, 1, 4)
        assert told["index_bytes"] > 0
        assert (told["tokens"], told["read_only"]) == (str(tmp_path / "etc" / "tokens.toml"), False)
        assert told["connections"] >= 1
        assert told["address"] == f"127.0.0.1:{server.port}"
        assert told["pid"] == server.process.pid
        assert (told["watching"], told["clock_ok"], told["clock"]) == (False, True, "plausible")
        assert (told["reloaded"], told["reload_ok"], told["reload_text"]) == (None, None, None)
        assert re.fullmatch(r"sha256:[0-9a-f]{64}", told["fingerprint"])
        assert told["fingerprint"] in server.log
        assert from_now(told["certificate_expires"]) > 300 * 86400
        hang_up(server)
        server.wait_for(RELOADED)
        told = json.loads((await run(server, "status", "--json")).stdout)
        assert told.keys() == STATUS_KEYS
        assert told["reload_ok"] is True
        assert told["reload_text"].startswith("nothing new in ")
        assert -60 < from_now(told["reloaded"]) <= 0
        text = (await run(server, "status")).stdout
        assert "documents:   1, 4 bytes of text\n" in text
    assert server.stop() == 0
    assert list(server.runtime.iterdir()) == []
    assert (await run(server, "status")).returncode == 6


def test_a_killed_server_leaves_nothing_in_the_way_of_the_next(start_server: StartServer) -> None:
    server = start_server()
    time.sleep(0.1)
    server.process.kill()
    server.process.wait()
    assert command(server, "status").returncode == 6
    again = start_server()
    assert command(again, "status").returncode == 0
    assert len(list(again.runtime.iterdir())) == 1


@pytest.mark.parametrize(
    ("directory", "reason"),
    [("/proc/none", "No such file"), ("{root}/run", "it lies in the content directory")],
)
def test_without_a_place_for_the_socket_it_serves_all_the_same(
    start_server: StartServer, tmp_path: Path, directory: str, reason: str
) -> None:
    server = start_server(RUNTIME_DIR=directory.format(root=tmp_path / "root"))
    server.wait_for(f"control: status and reload cannot ask this server.*{reason}")
    hang_up(server)
    server.wait_for(RELOADED)
    assert list((tmp_path / "root").iterdir()) == []
    assert server.stop() == 0
