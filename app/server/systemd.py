"""What systemd is told, as datagrams to the socket it names in NOTIFY_SOCKET (sd_notify(3)); without that, nothing.

A message never waits and never fails: a service manager that does not listen is no reason to stop serving. Frozen into
one file the server is a child of the process that systemd started, so it says which process it is (`MAINPID`), and
WATCHDOG_PID, which names the parent, is not looked at.
"""

import os
import socket
import sys
from collections.abc import Mapping

EXTEND_SECONDS = 60.0
"""How much more time a start or reload asks for, each time it does."""


class Notifier:
    """The way to the service manager. `watchdog` is its patience in seconds between signs of life, 0 if it has none."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        path = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        self._socket: socket.socket | None = None
        self.watchdog = 0.0
        if not path.startswith(("@", "/")):
            return
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        microseconds = environ.get("WATCHDOG_USEC", "")
        if microseconds.isascii() and microseconds.isdigit():
            self.watchdog = int(microseconds) / 1e6

    def close(self) -> None:
        """Nothing is said any more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ready(self, status: str) -> None:
        """The server answers, for the first time or again after a reload."""
        main = (f"MAINPID={os.getpid()}",) if getattr(sys, "frozen", False) else ()
        self._send("READY=1", f"STATUS={status}", *main)

    def status(self, text: str) -> None:
        """One line for `systemctl status`."""
        self._send(f"STATUS={text}")

    def reloading(self, monotonic: float) -> None:
        """A reload begins; `monotonic` is that clock's time in seconds. `ready` is to follow."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={int(monotonic * 1e6)}", "STATUS=reloading")

    def extend(self) -> None:
        """What is under way takes long; it is not stuck."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(EXTEND_SECONDS * 1e6)}")

    def stopping(self) -> None:
        """The server is about to end."""
        self._send("STOPPING=1", "STATUS=stopping")

    def alive(self) -> None:
        """A sign of life for the watchdog."""
        self._send("WATCHDOG=1")

    def _send(self, *fields: str) -> None:
        if self._socket is None:
            return
        lines = (field.replace("\n", " ") for field in fields)
        try:
            self._socket.sendto("\n".join(lines).encode("utf-8", "replace"), self._address)
        except OSError:
            pass
