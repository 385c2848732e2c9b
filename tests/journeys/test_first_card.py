"""The first start of a board: one card with one token, and never again."""

import os
import re
import subprocess
from pathlib import Path

from tests.journeys.conftest import PROGRAM, PROJECT, Server, StartServer


def card(server: Server, *options: str, code: int = 0) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DEMARKUS_")}
    done = subprocess.run(
        [*PROGRAM, "card", "--runtime-dir", server.runtime, *options],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def tokens_on(shown: str) -> list[str]:
    return re.findall(r"#token=([0-9a-f]{64})", shown)


def everything_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_the_first_card_lets_its_reader_write_and_the_second_does_not(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server(tokens="")
    assert tokens_on(card(server)) == []
    (token,) = tokens_on(first := card(server, "--mint"))
    assert f"mark://127.0.0.1:{server.port}/" in first
    assert str(server.root) in first
    server.wait_for("configwatch: reloaded")
    async with server.client(token) as client:
        written = await client.publish("/a/b.md", b"# Mine\n", expected_version=0)
        assert written.status == "created"
    async with server.client() as client:
        assert (await client.fetch("/a/b.md")).status == "ok"  # reading stays open to everybody
    for again in (card(server, "--mint"), card(server)):
        assert tokens_on(again) == []
        assert token not in again
    assert "token_label=owner" in server.log
    assert token.encode() not in everything_below(tmp_path)
    fingerprint = re.search("sha256:[0-9a-f]{64}", first)
    assert fingerprint is not None
    assert fingerprint[0] in card(server)


def test_two_first_starts_at_once_make_one_token(start_server: StartServer) -> None:
    server = start_server(tokens="")
    line = [*PROGRAM, "card", "--mint", "--runtime-dir", os.fspath(server.runtime)]
    several = [subprocess.Popen(line, cwd=PROJECT, stdout=subprocess.PIPE) for _ in range(3)]
    shown = [process.communicate(timeout=30)[0].decode() for process in several]
    assert [process.returncode for process in several] == [0, 0, 0]
    assert sum(len(tokens_on(one)) for one in shown) == 1


def test_all_tokens_revoked_is_not_a_first_start(start_server: StartServer) -> None:
    server = start_server(tokens="[tokens]\n")
    assert tokens_on(card(server, "--mint")) == []
    assert server.tokens.read_text() == "[tokens]\n"


def test_a_console_that_takes_nothing_costs_no_token(start_server: StartServer) -> None:
    server = start_server(tokens="")
    line = [*PROGRAM, "card", "--mint", "--runtime-dir", os.fspath(server.runtime)]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(line, cwd=PROJECT, stdout=full, stderr=subprocess.PIPE, timeout=30, check=False)
    assert done.returncode == 1
    assert server.tokens.read_bytes() == b""
    assert len(tokens_on(card(server, "--mint"))) == 1


def test_without_a_server_there_is_no_card(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "DEMARKUS_RUNTIME_DIR": os.fspath(tmp_path),
        "DEMARKUS_ROOT": os.fspath(tmp_path),
    }
    done = subprocess.run(
        [*PROGRAM, "card"], cwd=PROJECT, env=environment, stderr=subprocess.PIPE, check=False
    )
    assert done.returncode == 6
