"""A board moves: backed up while it serves and is written to, restored elsewhere, with the same identity and the same tokens."""

import json
import os
import re
import stat
import subprocess
from pathlib import Path

import trio

from app.server.certificate import make_own
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
    assert f"\nwith tokens from {server.tokens}\nwith certificate sha256:" in said
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


def test_what_is_beside_the_documents_and_what_is_not_is_said(tmp_path: Path) -> None:
    root, file, home = tmp_path / "world", tmp_path / "b.tar", str(tmp_path)
    root.mkdir()
    usual = tmp_path / ".local" / "state" / "demarkus-appliance"
    bare = run("backup", file, "--root", root, HOME=home)
    assert bare == (
        "0 documents, 0 versions; 0 left out\n"
        "without tokens: name their file with --tokens\n"
        f"without certificate: there is no {usual}/certificate.pem; name its folder with --state-dir\n"
        "without settings: if the server has a file of them, name it with --config\n"
    )
    made = make_own(str(usual), "board").fingerprint
    (tmp_path / "tokens.toml").write_text("[tokens]\n")
    (tmp_path / "settings").write_text(f"DEMARKUS_TOKENS={tmp_path}/tokens.toml\n")
    whole = run("backup", file, "--root", root, "--config", tmp_path / "settings", HOME=home)
    assert whole.splitlines()[1:] == [
        f"with tokens from {tmp_path}/tokens.toml",
        f"with certificate {made}",
        f"with settings from {tmp_path}/settings",
    ]


def test_a_place_that_is_named_and_holds_nothing_is_the_exit_code(tmp_path: Path) -> None:
    root, file, home = tmp_path / "world", tmp_path / "b.tar", str(tmp_path)
    root.mkdir()
    take: tuple[str | Path, ...] = ("backup", file, "--root", root)
    nothing = tmp_path / "nope"
    said = run(*take, "--tokens", nothing, code=1, HOME=home)
    assert f"left out the tokens: there is no {nothing}\n" in said
    assert "\nwithout tokens\n" in said
    assert file.exists()
    assert "left out the tokens" in run(*take, code=1, DEMARKUS_TOKENS=str(nothing), HOME=home)
    lost = f"left out the certificate: there is no {nothing}/certificate.pem\n"
    assert lost in run(*take, "--state-dir", nothing, code=1, HOME=home)
    assert lost in run(*take, code=1, DEMARKUS_STATE_DIR=str(nothing), HOME=home)
    make_own(str(tmp_path), "board")
    said = run(
        *take,
        "--state-dir",
        nothing,
        code=1,
        DEMARKUS_TLS_CERT=f"{tmp_path}/certificate.pem",
        DEMARKUS_TLS_KEY=str(nothing),
    )
    assert said.count("left out") == 2  # with the count of documents
    assert f"left out the certificate's key: there is no {nothing}\n" in said
    assert re.search("^with certificate sha256:[0-9a-f]{64}, without its key$", said, re.MULTILINE)
