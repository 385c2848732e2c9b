"""What a service manager hears, over a real datagram socket (sd_notify(3))."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.server.systemd import Notifier


class Manager:
    """A service manager that listens."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.settimeout(5)
        self.environ = {"NOTIFY_SOCKET": address}

    def heard(self) -> list[str]:
        return self.socket.recv(4096).decode().split("\n")


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    address = str(tmp_path / "notify") if request.param == "path" else f"@demarkus-test-{os.getpid()}"
    manager = Manager(address)
    yield manager
    manager.socket.close()


def test_every_message(manager: Manager) -> None:
    notifier = Notifier(manager.environ)
    notifier.status("loading")
    notifier.extend()
    notifier.ready("3 documents\nREADY=0")
    notifier.reloading(12.3456789)
    notifier.alive()
    notifier.stopping()
    assert [manager.heard() for _ in range(6)] == [
        ["STATUS=loading"],
        ["EXTEND_TIMEOUT_USEC=60000000"],
        ["READY=1", "STATUS=3 documents READY=0"],
        ["RELOADING=1", "MONOTONIC_USEC=12345678", "STATUS=reloading"],
        ["WATCHDOG=1"],
        ["STOPPING=1", "STATUS=stopping"],
    ]
    notifier.close()
    notifier.alive()
    notifier.close()


def test_a_frozen_program_says_which_process_it_is(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    notifier = Notifier(manager.environ)
    notifier.ready("")
    assert manager.heard() == ["READY=1", "STATUS=", f"MAINPID={os.getpid()}"]
    notifier.close()


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({}, 0.0),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, 30.0),
        ({"WATCHDOG_USEC": "soon"}, 0.0),
        ({"WATCHDOG_USEC": ""}, 0.0),
    ],
)
def test_the_patience_of_the_watchdog(manager: Manager, variables: dict[str, str], seconds: float) -> None:
    notifier = Notifier(manager.environ | variables)
    assert notifier.watchdog == seconds
    notifier.close()


@pytest.mark.parametrize("address", [None, "", "relative", "vsock:2:1"])
def test_without_a_manager_nothing_is_said(address: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a socket was made")

    monkeypatch.setattr(socket, "socket", refuse)
    environ = {"WATCHDOG_USEC": "1000000"} | ({"NOTIFY_SOCKET": address} if address is not None else {})
    notifier = Notifier(environ)
    notifier.ready("x")
    assert notifier.watchdog == 0.0
    notifier.close()


def test_a_manager_that_has_gone_or_does_not_listen_stops_nothing(manager: Manager) -> None:
    notifier = Notifier(manager.environ)
    for _ in range(2000):
        notifier.alive()
    manager.socket.close()
    notifier.alive()
    notifier.close()
