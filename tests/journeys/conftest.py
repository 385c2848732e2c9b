"""Starts the real program on a free port of 127.0.0.1 and hands tests what they need to talk to it.

`start_server` is a factory: every keyword is an environment variable without its prefix (`RATE_LIMIT="0"`), the rest see its docstring. `server`
is one with public reads and one token that may publish everywhere. All are stopped, by their own pid, when the test ends.
"""

import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Protocol

import pytest

from app.client.client import Client

PROGRAM = (sys.executable, "-m", "app.commands.program")
PROJECT = Path(__file__).resolve().parents[2]
TOKEN = "journey-token"
STARTED = r'msg="server started" addr=\S*:(\d+)'


def token_entry(label: str, raw: str, paths: list[str], operations: list[str]) -> str:
    """One entry of a token file (operations §6)."""
    digest = hashlib.sha256(raw.encode()).hexdigest()
    return (
        f'\n[tokens.{label}]\nhash = "sha256-{digest}"\npaths = {paths}\noperations = {operations}\n'.replace(
            "'", '"'
        )
    )


class Server:
    """A running `demarkus-appliance serve`."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path) -> None:
        self.process = process
        self.root = folder / "root"
        self.tokens = folder / "etc" / "tokens.toml"
        self.state = folder / "state"
        self.runtime = folder / "run"
        self.token = TOKEN
        self.port = 0
        self._log = folder / "log"

    @property
    def log(self) -> str:
        """Everything that came on stderr so far."""
        return self._log.read_text(errors="backslashreplace")

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    @property
    def url(self) -> str:
        return f"mark://127.0.0.1:{self.port}"

    def client(self, token: str = "", timeout: float = 10.0) -> Client:
        """The product's own client, not verifying the certificate. An async context."""
        return Client("127.0.0.1", self.port, token=token or None, insecure=True, timeout=timeout)

    def wait_for(self, pattern: str, *, count: int = 1, within: float = 20.0) -> str:
        """Waits until the log holds the pattern so many times; gives the last match."""
        deadline = time.monotonic() + within
        while True:
            found = re.findall(pattern, self.log)
            if len(found) >= count:
                last: str = found[-1]
                return last
            assert self.process.poll() is None, f"the server has gone: {self.log}"
            assert time.monotonic() < deadline, f"no {pattern!r} in: {self.log}"
            time.sleep(0.02)

    def stop(self, number: int = signal.SIGTERM, within: float = 12.0) -> int:
        """Sends a signal and waits for the end; gives the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(within)


class StartServer(Protocol):
    """`arguments` go to `serve`; `tokens` is the text of the token file, None for none; `ready=False` does not wait.

    `command` is what starts the program: it gets the program's command line as its last arguments.
    """

    def __call__(
        self,
        *arguments: str,
        tokens: str | None = ...,
        ready: bool = ...,
        command: tuple[str, ...] = ...,
        **variables: str,
    ) -> Server: ...


class _Launch(Protocol):
    def __call__(self, folder: Path, line: list[str], variables: dict[str, str], ready: bool) -> Server: ...


@contextmanager
def _launching() -> Iterator[_Launch]:
    """Launches servers with nothing of this process's settings, and ends them all."""
    launched: list[Server] = []

    def launch(folder: Path, line: list[str], variables: dict[str, str], ready: bool) -> Server:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DEMARKUS_")}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                line, cwd=PROJECT, env=environment | variables, stderr=log, stdin=subprocess.DEVNULL
            )
        server = Server(process, folder)
        launched.append(server)
        if ready:
            server.port = int(server.wait_for(STARTED))
        return server

    try:
        yield launch
    finally:
        for server in launched:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()


def _settings(folder: Path, tokens: str | None) -> dict[str, str]:
    """Those of a server with everything in this folder, which is made."""
    for part in ("root", "etc", "state"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    found = {
        "DEMARKUS_LISTEN": "127.0.0.1",
        "DEMARKUS_PORT": "0",
        "DEMARKUS_ROOT": str(folder / "root"),
        "DEMARKUS_STATE_DIR": str(folder / "state"),
    }
    if tokens is not None:
        (folder / "etc" / "tokens.toml").write_text(tokens)
        found["DEMARKUS_TOKENS"] = str(folder / "etc" / "tokens.toml")
    return found


MAY_PUBLISH = token_entry("journey", TOKEN, ["/**"], ["publish"])


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    with _launching() as launch:

        def start(
            *arguments: str,
            tokens: str | None = MAY_PUBLISH,
            ready: bool = True,
            command: tuple[str, ...] = (),
            **variables: str,
        ) -> Server:
            given = _settings(tmp_path, tokens) | {"DEMARKUS_RUNTIME_DIR": str(tmp_path / "run")}
            given |= {f"DEMARKUS_{name}": value for name, value in variables.items()}
            return launch(tmp_path, [*command, *PROGRAM, "serve", *arguments], given, ready)

        yield start


@pytest.fixture
def server(start_server: StartServer) -> Server:
    return start_server()


# The one executable.


@pytest.fixture(scope="session")
def frozen() -> Path:
    """Built once for the session."""
    done = subprocess.run(
        [PROJECT / "scripts" / "build", "--if-changed"], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return PROJECT / done.stdout.strip()


class StartFrozen(Protocol):
    """`command` comes before the executable and its arguments; `name` is the link it is called by."""

    def __call__(self, name: str = ..., *, command: tuple[str, ...] = ..., ready: bool = ...) -> Server: ...


def unpacked(folder: Path) -> Path:
    """Where the servers of `frozen_servers` unpack themselves."""
    return folder / "unpacked"


@contextmanager
def frozen_servers(frozen: Path, below: Path) -> Iterator[StartFrozen]:
    """Starts frozen servers, each in a folder of its own below this one, and ends them all."""
    unpacked(below).mkdir(exist_ok=True)
    numbers = count()
    with _launching() as launch:

        def start_one(
            name: str = "demarkus-appliance", *, command: tuple[str, ...] = (), ready: bool = True
        ) -> Server:
            folder = below / f"server-{next(numbers)}"
            given = _settings(folder, MAY_PUBLISH) | {"TMPDIR": str(unpacked(below))}
            (folder / "bin").mkdir()
            program = folder / "bin" / name
            program.symlink_to(frozen)
            arguments = ["serve"] if name == "demarkus-appliance" else []
            return launch(folder, [*command, str(program), *arguments], given, ready)

        yield start_one


@pytest.fixture
def start_frozen(frozen: Path, tmp_path: Path) -> Iterator[StartFrozen]:
    with frozen_servers(frozen, tmp_path) as start:
        yield start


def child_of(server: Server) -> int:
    """The process id of Python, the boot loader's child, of a frozen server."""
    process = server.process.pid
    return int(Path(f"/proc/{process}/task/{process}/children").read_text().split()[0])


def wait_until(holds: Callable[[], bool], within: float = 1.0) -> None:
    """Looks every other millisecond."""
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.002)
