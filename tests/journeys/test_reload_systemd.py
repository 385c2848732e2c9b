"""What a service manager sees of the real program: ready only when LOOKUP answers, reloads, signs of life, the end."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.protocol.tables import parse_lookup_body
from tests.journeys.conftest import Server, StartServer
from tests.unit.server.planted import plant


class Manager:
    """A service manager that notes what it hears, with the time."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(os.fspath(path))
        self.heard: list[dict[str, str]] = []

    def wait_for(self, key: str, within: float = 20.0) -> dict[str, str]:
        """The next message with this key; those before it are noted."""
        deadline = time.monotonic() + within
        while True:
            self.socket.settimeout(max(0.01, deadline - time.monotonic()))
            message = dict(line.split("=", 1) for line in self.socket.recv(4096).decode().split("\n"))
            self.heard.append(message)
            if key in message:
                return message


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    manager = Manager(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", os.fspath(tmp_path / "notify"))
    yield manager
    manager.socket.close()


def start(start_server: StartServer, root: Path) -> Server:
    for number in range(20):
        plant(os.fspath(root), f"/{number}.md", [b"# Document %d\n" % number])
    return start_server(WATCH="off", ready=False)


async def test_a_life_under_a_service_manager(
    start_server: StartServer, tmp_path: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    server = start(start_server, tmp_path / "root")
    ready = manager.wait_for("READY")
    keys = [set(message) for message in manager.heard]
    assert {"STATUS"} in keys
    assert {"EXTEND_TIMEOUT_USEC"} in keys
    assert ready["STATUS"].startswith("20 documents, ")
    assert "MAINPID" not in ready
    server.port = int(server.wait_for(r'msg="server started" addr=\S*:(\d+)'))
    async with server.client() as client:
        assert len(parse_lookup_body((await client.lookup("/", "document", limit=100)).body)) == 20
    began_waiting = time.monotonic()
    for _ in range(4):
        manager.wait_for("WATCHDOG")
    assert time.monotonic() - began_waiting < 1.2
    plant(os.fspath(tmp_path / "root"), "/new.md")
    before = time.monotonic()
    server.process.send_signal(signal.SIGHUP)
    began = manager.wait_for("RELOADING")
    assert before <= int(began["MONOTONIC_USEC"]) / 1e6 <= time.monotonic()
    status = manager.wait_for("READY")["STATUS"]
    assert status.startswith("21 documents, ")
    assert "1 added in " in status
    server.process.send_signal(signal.SIGTERM)
    manager.wait_for("STOPPING")
    assert server.process.wait(12) == 0


def test_a_server_that_cannot_start_is_never_ready(
    start_server: StartServer, tmp_path: Path, manager: Manager
) -> None:
    server = start_server(ROOT=os.fspath(tmp_path / "none"), ready=False)
    assert server.process.wait(20) == 1
    manager.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        manager.wait_for("READY", within=0.5)
    assert not any("READY" in message for message in manager.heard)


def test_without_a_watchdog_there_are_no_signs_of_life(
    start_server: StartServer, tmp_path: Path, manager: Manager
) -> None:
    start(start_server, tmp_path / "root")
    manager.wait_for("READY")
    with pytest.raises(TimeoutError):
        manager.wait_for("WATCHDOG", within=0.5)
