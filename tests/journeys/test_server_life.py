"""The server as a process: start, reload, stop, and the one line it leaves when it cannot start."""

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from app.protocol.message import parse_response
from tests.journeys.conftest import PROJECT, TOKEN, Server, StartServer, token_entry
from tests.journeys.raw import connect
from tests.unit.server.pairs import ED25519, P256, P384, files, issue, secret


def refused(server: Server) -> str:
    """The one line of a server that could not start."""
    assert server.process.wait(15) == 1
    assert "Traceback" not in server.log
    last = server.log.splitlines()[-1]
    assert last.startswith("demarkus-appliance"), server.log
    # What came before are the ordinary lines of a start.
    assert all(line.startswith("time=") for line in server.log.splitlines()[:-1])
    return last


# Starting.


def test_start_says_what_it_does_in_order(start_server: StartServer) -> None:
    server = start_server()
    messages = [
        "lookup catalog built",
        "store ready",
        "tls: using self-signed certificate",
        "auth: loaded tokens",
        "server started",
    ]
    places = [server.log.index(message) for message in messages]
    assert places == sorted(places)
    started = server.wait_for('msg="server started".*')
    assert f"addr=127.0.0.1:{server.port} root={server.root} idle_timeout=30s request_timeout=10s" in started


def test_the_own_certificate_outlives_the_process(start_server: StartServer) -> None:
    prints = []
    for _ in range(2):
        server = start_server()
        prints.append(server.wait_for(r"fingerprint=(sha256:[0-9a-f]{64})"))
        assert server.stop() == 0
    assert prints[0] == prints[1]
    assert stat.S_IMODE(os.stat(server.state / "certificate.pem").st_mode) == 0o600


def test_a_state_directory_that_cannot_be_written_is_a_warning(
    start_server: StartServer, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    server = start_server(STATE_DIR=str(tmp_path / "file" / "state"))
    assert "level=WARN" in server.log
    assert "set DEMARKUS_STATE_DIR to a directory that can be written" in server.log


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"ROOT": "/nowhere/world"}, ["/nowhere/world", "DEMARKUS_ROOT"]),
        ({"ROOT": ""}, ["no content directory", "--root DIR"]),
        ({"ROOT": "/etc/passwd"}, ["/etc/passwd", "DEMARKUS_ROOT"]),
        ({"TOKENS": "/nowhere/tokens.toml"}, ["cannot read the token file /nowhere/tokens.toml"]),
        ({"TOKENS": "/etc/passwd"}, ["token file /etc/passwd: not TOML"]),
        ({"PORT": "six"}, ["DEMARKUS_PORT must be a whole number"]),
        ({"READ_ONLY": "on"}, ["DEMARKUS_READ_ONLY must be one of"]),
        ({"TLS_CERT": "/etc/passwd", "TLS_KEY": "/etc/passwd"}, ["/etc/passwd is no PEM certificate"]),
        ({"TLS_CERT": "/etc/passwd"}, ["DEMARKUS_TLS_CERT is set without DEMARKUS_TLS_KEY"]),
        ({"LISTEN": "192.0.2.1"}, ["cannot listen on 192.0.2.1", "DEMARKUS_LISTEN"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_keeps_it_from_starting_is_one_line_with_the_cure(
    start_server: StartServer, variables: dict[str, str], words: list[str]
) -> None:
    given: dict[str, Any] = {**variables}
    line = refused(start_server(ready=False, **given))
    assert all(word in line for word in words), line


def test_a_port_in_use_is_named(start_server: StartServer) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        line = refused(start_server(ready=False, PORT=str(port)))
    assert f"UDP port {port} (Address already in use)" in line
    assert "--port" in line


def test_debug_shows_where(start_server: StartServer) -> None:
    server = start_server("--debug", ready=False, ROOT="/nowhere")
    assert server.process.wait(15) == 1
    assert "Traceback" in server.log


def test_a_refusal_in_json_is_an_event(start_server: StartServer) -> None:
    server = start_server(ready=False, ROOT="/nowhere", LOG_FORMAT="json")
    assert server.process.wait(15) == 1
    assert '"level":"ERROR","msg":"demarkus-appliance: ' in server.log.splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["no content directory"]),
        ("DEMARKUS_ROOT", ["line 1: expected NAME=VALUE"]),
        ("DEMARKUS_TOKEN=/etc/tokens.toml\n", ["line 1: unknown setting DEMARKUS_TOKEN"]),
    ],
    ids=["empty", "truncated", "unknown"],
)
def test_a_settings_file_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "settings"
    path.write_text(text)
    command = [sys.executable, "-m", "app.commands.program", "serve", "--config", str(path)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DEMARKUS_")}
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=15)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert all(word in done.stderr for word in words), done.stderr


# Stopping.


async def test_stop_answers_what_runs_and_tells_everybody(start_server: StartServer) -> None:
    """50 writes in flight on five connections, a half-sent one, an idle client."""
    server = start_server(RATE_LIMIT="0")
    publish = b"PUBLISH /w/%d-%d.md\n---\nauth: %b\n---\nbody\n"
    async with (
        connect(server.address) as one,
        connect(server.address) as two,
        connect(server.address) as three,
        connect(server.address) as four,
        connect(server.address) as five,
        connect(server.address) as half,
        connect(server.address) as idle,
    ):
        half.send(b"PUBLISH /half.md\n---\nauth: x\n---\nhalf a bo", end=False)
        busy = (one, two, three, four, five)
        streams = [
            (client, client.send(publish % (which, number, TOKEN.encode())))
            for which, client in enumerate(busy)
            for number in range(10)
        ]
        await trio.sleep(0.05)  # they are on their way
        started = trio.current_time()
        server.process.send_signal(signal.SIGTERM)
        with trio.fail_after(10):
            answers = [await client.answer(stream) for client, stream in streams]
            for client in (*busy, half, idle):
                await client.ended.wait()
        assert {client.reason for client in (*busy, half, idle)} == {"server closed"}
        assert await trio.to_thread.run_sync(server.process.wait) == 0
        assert trio.current_time() - started < 10
    created = [parse_response(answer).status for answer in answers if answer]
    assert set(created) == {"created"}
    # What was answered is on the disk, and what was not answered was told so by an empty stream.
    assert len(list((server.root / "w").glob("*.md"))) == len(created)
    assert not (server.root / "half.md").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_stops_at_once(start_server: StartServer, number: int) -> None:
    server = start_server()
    assert server.stop(number, within=5) == 0
    assert f'shutdown" signal={signal.Signals(number).name}' in server.log


def test_stop_during_the_start_stops(start_server: StartServer) -> None:
    server = start_server(ready=False)
    server.wait_for("level=INFO")
    assert server.stop(within=5) == 0


# Reloading.


def hang_up(server: Server) -> None:
    server.process.send_signal(signal.SIGHUP)


async def test_a_new_certificate_is_shown_to_new_clients_only(
    start_server: StartServer, tmp_path: Path
) -> None:
    """Rotation, a pair that does not match, no server name, an address for a name."""
    pair = tmp_path / "tls"
    pair.mkdir()
    first = issue(P256)
    chain_path, key_path = files(pair, [first], secret(P256))
    server = start_server(TLS_CERT=chain_path, TLS_KEY=key_path)
    async with connect(server.address) as old:
        assert old.serial == first.serial_number
        second = issue(ED25519)
        files(pair, [second], secret(ED25519))
        hang_up(server)
        server.wait_for("tls: certificate reloaded")
        assert parse_response(await old.ask(b"FETCH /health\n")).status == "ok"
        for name in (None, "localhost", "somewhere.example"):
            async with connect(server.address, server_name=name) as new:
                assert new.serial == second.serial_number
        files(pair, [issue(P384)], secret(P256))
        hang_up(server)
        assert "does not belong" in server.wait_for('level=ERROR msg="tls: certificate reload failed".*')
        async with connect(server.address) as newest:
            assert newest.serial == second.serial_number
        assert parse_response(await old.ask(b"FETCH /health\n")).status == "ok"


async def test_tokens_reload_when_their_file_is_replaced(start_server: StartServer) -> None:
    """Rename over, half a file, the file gone; each by the watch alone."""
    server = start_server()

    def replace(text: str) -> None:
        beside = server.tokens.with_suffix(".tmp")
        beside.write_text(text)
        os.rename(beside, server.tokens)

    async def publish(token: str) -> str:
        async with server.client(token) as client:
            return (await client.publish("/a.md", b"x\n", expected_version=None)).status

    assert await publish(TOKEN) == "created"
    replace(token_entry("new", "new-token", ["/**"], ["publish"]))
    server.wait_for("configwatch: reloaded")
    assert await publish(TOKEN) == "unauthorized"
    assert await publish("new-token") == "ok"
    server.tokens.write_text("[tokens.new]\nhash = ")
    server.wait_for("configwatch: reload failed")
    assert await publish("new-token") == "ok"
    server.tokens.unlink()
    server.wait_for("configwatch: reload failed.*No such file", within=5)
    assert await publish("new-token") == "ok"
    assert server.log.count("configwatch: reload failed") == 2
    replace(token_entry("newest", "newest-token", ["/**"], ["publish"]))
    server.wait_for("configwatch: reloaded", count=2)
    assert await publish("new-token") == "unauthorized"
    assert await publish("newest-token") == "ok"


async def test_fifty_hangups_in_a_second_kill_nothing(start_server: StartServer) -> None:
    """Some come before the server is ready, and the last write counts."""
    server = start_server(ready=False)
    server.wait_for("level=INFO")
    for number in range(50):
        if number == 49:
            server.tokens.write_text(token_entry("last", "last-token", ["/**"], ["publish"]))
        hang_up(server)
        await trio.sleep(0.01)
    server.port = int(server.wait_for(r'msg="server started" addr=\S*:(\d+)'))
    server.wait_for("auth: tokens reloaded")
    await trio.sleep(0.5)
    async with server.client("last-token") as client:
        assert (await client.publish("/a.md", b"x\n", expected_version=0)).status == "created"
    assert 1 <= server.log.count("auth: tokens reloaded") <= 10
    assert server.stop() == 0


# Surroundings.


async def test_a_root_that_cannot_be_written_is_read(start_server: StartServer) -> None:
    """What cannot be written is still read, and a write is told plainly."""
    server = start_server()
    async with server.client(TOKEN) as client:
        await client.publish("/a/b.md", b"x\n", expected_version=0)
    assert server.stop() == 0
    server = start_server(READ_ONLY="true")
    async with server.client(TOKEN) as client:
        assert (await client.fetch("/a/b.md")).body == b"x\n"
        refusal = await client.publish("/a/b.md", b"y\n", expected_version=1)
        assert (refusal.status, refusal.body) == (
            "not-permitted",
            b"\n# Not permitted\n\nserver is read-only\n",
        )


async def test_all_addresses_are_both_families_where_there_are_both(start_server: StartServer) -> None:
    """One address is shown, and both families are served."""
    server = start_server(LISTEN="")
    hosts = ["127.0.0.1"]
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("::1", 0))
            hosts.append("::1")
        except OSError:
            pass  # a kernel without IPv6
    for host in hosts:
        async with connect((host, server.port)) as client:
            assert parse_response(await client.ask(b"FETCH /health\n")).status == "ok"
    assert server.log.count("addr=") == 1
    assert f"addr=:{server.port} " in server.log


def test_a_reader_of_the_log_that_goes_away_does_not_stop_the_server(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server()
    command = [sys.executable, "-m", "app.commands.program", "serve", "--root", str(server.root)]
    environment = {
        **os.environ,
        "DEMARKUS_PORT": "0",
        "DEMARKUS_LISTEN": "127.0.0.1",
        "DEMARKUS_STATE_DIR": str(server.state),
    }
    process = subprocess.Popen(command, cwd=PROJECT, env=environment, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        while b"server started" not in process.stderr.readline():
            pass
        process.stderr.close()
        process.send_signal(signal.SIGHUP)  # makes it write
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
    finally:
        process.kill()
        process.wait()
