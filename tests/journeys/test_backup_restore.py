"""A board moves: backed up while it serves and is written to, restored elsewhere, with the same identity and the same tokens."""

import json
import os
import stat
import subprocess
from pathlib import Path

import trio

from tests.journeys.conftest import PROGRAM, PROJECT, TOKEN, Server, StartServer


def run(*words: str | Path, code: int = 0, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DEMARKUS_")}
    done = subprocess.run(
        [*PROGRAM, *words],
        cwd=PROJECT,
        env=environment | variables,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def places(server: Server) -> tuple[str | Path, ...]:
    return "--root", server.root, "--tokens", server.tokens, "--state-dir", server.state


async def test_a_board_moves_with_its_identity_and_its_tokens(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server()
    file = tmp_path / "board.tar"
    acknowledged = 0
    begun, over = trio.Event(), trio.Event()

    async def write() -> None:
        nonlocal acknowledged
        async with server.client(TOKEN) as client:
            while not over.is_set():
                answer = await client.publish(
                    "/log.md", b"# Log\n\n%d\n" % (acknowledged + 1), expected_version=acknowledged
                )
                assert answer.status == "created"
                acknowledged += 1
                if acknowledged == 5:
                    begun.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        await begun.wait()
        said = await trio.to_thread.run_sync(lambda: run("backup", file, *places(server)))
        before = acknowledged
        over.set()
    assert "1 documents" in said
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    identity = (server.state / "certificate.pem").read_bytes()
    stopped = run("restore", file, *places(server), code=1, DEMARKUS_RUNTIME_DIR=str(server.runtime))
    assert "is running; stop it first" in stopped
    assert server.stop() == 0

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = {
        "--root": elsewhere / "root",
        "--tokens": elsewhere / "etc" / "tokens.toml",
        "--state-dir": elsewhere / "state",
    }
    words = [word for pair in moved.items() for word in pair]
    told = run("restore", file, *words)
    assert "1 documents" in told
    assert (elsewhere / "state" / "certificate.pem").read_bytes() == identity
    assert (elsewhere / "etc" / "tokens.toml").read_bytes() == server.tokens.read_bytes()
    checked = json.loads(run("verify", "--root", elsewhere / "root", "--json"))
    assert (checked["sound"], checked["documents"]) == (True, 1)
    again = run("restore", file, *words, code=1)
    assert "not empty" in again

    new = start_server(
        ROOT=str(moved["--root"]),
        STATE_DIR=str(moved["--state-dir"]),
        TOKENS=str(moved["--tokens"]),
        tokens=None,
    )
    async with new.client(TOKEN) as client:
        found = await client.fetch("/log.md")
        assert 5 <= int(found.metadata["version"]) <= before + 1
        assert (await client.publish("/new.md", b"# New\n", expected_version=0)).status == "created"


def test_what_is_missing_from_a_backup_is_named_and_is_the_exit_code(
    start_server: StartServer, tmp_path: Path
) -> None:
    root = tmp_path / "world"
    (root / "versions" / "lost.md").mkdir(parents=True)
    (root / "versions" / "lost.md" / "v1").write_bytes(b"---\nversion: 1\narchived: false\n---\nlost")
    said = run("backup", tmp_path / "b.tar", "--root", root, code=1)
    assert "left out /lost.md" in said
    assert "lies in the content directory" in run("backup", root / "b.tar", "--root", root, code=1)
    assert "which content directory" in run("backup", tmp_path / "c.tar", HOME=str(tmp_path), code=2)
    assert "no whole backup" in run(
        "restore", root / "versions" / "lost.md" / "v1", "--root", tmp_path / "new", code=1
    )
    assert not (tmp_path / "new").exists()
