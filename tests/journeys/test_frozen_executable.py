"""The one executable, as it is shipped: built once for the session (`scripts/build --if-changed`), then driven by a stranger.

One file is two processes, the boot loader that unpacks and waits, and Python. Most of what is tested here is what that costs elsewhere: signals
that reach the wrong one or both, a child that outlives its parent, folders left behind.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest
import trio

from app.protocol.message import parse_response
from tests.journeys.conftest import PROJECT, TOKEN, Server, token_entry
from tests.journeys.raw import connect
from tests.journeys.test_inherited_sockets import PASSING, interfaces

EXECUTABLE_MAX = 20_000_000  # bytes
RESIDENT_MAX = 60_000  # kB, idle
GLIBC_MAX = (2, 36)  # Debian 12, the oldest system supported
STARTED = r'msg="server started" addr=\S*:(\d+)'
RELOADED = r"auth: tokens reloaded"

# What the kernel's program loader and the boot loader need; everything else has to be inside.
SYSTEM_LIBRARIES = {
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
    "libz.so.1",
}


@pytest.fixture(scope="session")
def frozen() -> Path:
    done = subprocess.run(
        [PROJECT / "scripts" / "build", "--if-changed"], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return PROJECT / done.stdout.strip()


class StartFrozen(Protocol):
    """`command` comes before the executable and its arguments; `name` is the link it is called by."""

    def __call__(self, name: str = ..., *, command: tuple[str, ...] = ..., ready: bool = ...) -> Server: ...


@pytest.fixture
def start(frozen: Path, tmp_path: Path) -> Iterator[StartFrozen]:
    """Starts frozen servers, each in a folder of its own, all unpacking below `tmp_path/unpacked`."""
    started: list[Server] = []
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DEMARKUS_")}

    def start_one(
        name: str = "demarkus-appliance", *, command: tuple[str, ...] = (), ready: bool = True
    ) -> Server:
        folder = tmp_path / f"server-{len(started)}"
        for part in ("root", "etc", "state", "bin"):
            (folder / part).mkdir(parents=True)
        unpacked(tmp_path).mkdir(exist_ok=True)
        (folder / "bin" / name).symlink_to(frozen)
        (folder / "etc" / "tokens.toml").write_text(token_entry("journey", TOKEN, ["/**"], ["publish"]))
        own = {
            "TMPDIR": str(unpacked(tmp_path)),
            "DEMARKUS_LISTEN": "127.0.0.1",
            "DEMARKUS_PORT": "0",
            "DEMARKUS_ROOT": str(folder / "root"),
            "DEMARKUS_STATE_DIR": str(folder / "state"),
            "DEMARKUS_TOKENS": str(folder / "etc" / "tokens.toml"),
        }
        arguments = ["serve"] if name == "demarkus-appliance" else []
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, str(folder / "bin" / name), *arguments],
                env=environment | own,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        server = Server(process, folder)
        started.append(server)
        if ready:
            server.port = int(server.wait_for(STARTED))
        return server

    yield start_one
    for server in started:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def unpacked(folder: Path) -> Path:
    return folder / "unpacked"


def child_of(server: Server) -> int:
    """The process id of Python, the boot loader's child."""
    process = server.process.pid
    return int(Path(f"/proc/{process}/task/{process}/children").read_text().split()[0])


def resident(process: int) -> int:
    """Resident memory in kB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1])


def ignores_hangup(process: int) -> bool:
    found = re.search(r"SigIgn:\s+([0-9a-f]+)", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return bool(int(found[1], 16) & 1 << signal.SIGHUP - 1)


def wait_until(holds: Callable[[], bool], within: float = 1.0) -> None:
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def gone(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


def binds(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


# The file.


def test_it_is_small(frozen: Path) -> None:
    assert frozen.stat().st_size <= EXECUTABLE_MAX


def test_selftest_passes_in_a_root_that_holds_nothing_but_the_c_library(frozen: Path, tmp_path: Path) -> None:
    root = tmp_path / "empty"
    (root / "tmp").mkdir(parents=True)
    shutil.copy(frozen, root / "demarkus-appliance")
    found = subprocess.run(["ldd", frozen], capture_output=True, encoding="utf-8", check=True).stdout
    libraries = set(re.findall(r"(/\S+) \(0x", found))
    folder = next(os.path.dirname(path) for path in libraries if path.endswith("/libc.so.6"))
    for path in libraries | {f"{folder}/{name}" for name in SYSTEM_LIBRARIES}:
        assert os.path.basename(path) in SYSTEM_LIBRARIES or "/ld-linux" in path
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    done = subprocess.run(
        ["unshare", "--map-root-user", f"--root={root}", "/demarkus-appliance", "selftest"],
        env={},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [line.split()[1].rstrip(":") for line in done.stdout.splitlines() if line.startswith("ok ")]
    assert " ".join(steps) == (
        "markdown tokens certificate server handshake PUBLISH FETCH LOOKUP LOOKUP VERSIONS reload stop verify"
    )
    assert list((root / "tmp").iterdir()) == []


def test_every_library_inside_suits_the_oldest_system_and_a_hardened_kernel(
    start: StartFrozen, frozen: Path, tmp_path: Path
) -> None:
    """Report 48: no newer glibc is asked for than Debian 12's; report 49: no stack wants to be executable."""
    start()
    libraries = [frozen, *(path for path in unpacked(tmp_path).rglob("*") if ".so" in path.name)]
    assert len(libraries) > 20
    for library in libraries:
        elf = subprocess.run(
            ["readelf", "--wide", "--segments", "--version-info", library],
            capture_output=True,
            encoding="utf-8",
            check=True,
        ).stdout
        wanted = [(int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", elf)]
        assert max(wanted, default=(2, 0)) <= GLIBC_MAX, library
        assert not re.search(r"GNU_STACK.* RWE", elf), library


# The program.


async def test_it_serves_under_the_older_name(start: StartFrozen) -> None:
    server = start("demarkus-server")
    async with server.client(TOKEN) as client:
        written = await client.publish(
            "/a.md", b"# Frozen\n", expected_version=0, metadata={"title": "Zymurgy"}
        )
        assert written.status == "created"
        assert (await client.fetch("/a.md")).body == b"# Frozen\n"
        assert b"/a.md" in (await client.lookup("/", "zymurgy")).body
    assert resident(child_of(server)) <= RESIDENT_MAX


@pytest.mark.parametrize("whom", ["parent", "child"])
async def test_signals_to_either_process_do_their_work_once(
    start: StartFrozen, tmp_path: Path, whom: str
) -> None:
    server = start()
    target = server.process.pid if whom == "parent" else child_of(server)
    for count in (1, 2, 3):
        os.kill(target, signal.SIGHUP)
        server.wait_for(RELOADED, count=count)
    async with server.client() as client:
        assert (await client.fetch("/health")).status == "ok"
    os.kill(target, signal.SIGTERM)
    assert server.process.wait(12) == 0
    assert len(re.findall(RELOADED, server.log)) == 3
    assert server.log.count("received signal") == 1
    assert server.log.count("server stopped") == 1
    assert list(unpacked(tmp_path).iterdir()) == []


async def test_a_service_manager_is_told_the_child_and_may_ask_both_to_stop(
    start: StartFrozen, tmp_path: Path
) -> None:
    """The unit's KillMode asks both: what the boot loader hands on besides cuts no running request short.

    The requests run long because the rate lets one through every tenth of a second.
    """
    settings = (f"NOTIFY_SOCKET={tmp_path / 'notify'}", "DEMARKUS_RATE_LIMIT=10", "DEMARKUS_RATE_BURST=2")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(os.fspath(tmp_path / "notify"))
        manager.settimeout(20)
        server = start(command=("env", "--ignore-signal=HUP", *settings))
        child = child_of(server)
        while "READY=1" not in (told := manager.recv(4096).decode().split("\n")):
            pass
    assert f"MAINPID={child}" in told
    async with connect(server.address) as client:
        streams = [
            client.send(b"PUBLISH /w/%d.md\n---\nauth: %b\n---\nbody\n" % (number, TOKEN.encode()))
            for number in range(10)
        ]
        with trio.fail_after(10):
            answers = [await client.answer(streams[0])]  # the others have come as well
            os.kill(child, signal.SIGTERM)
            os.kill(server.process.pid, signal.SIGTERM)
            answers += [await client.answer(stream) for stream in streams[1:]]
    assert {parse_response(answer).status for answer in answers} == {"created"}
    assert server.process.wait(12) == 0
    assert server.log.count("received signal") == server.log.count("server stopped") == 1
    assert list(unpacked(tmp_path).iterdir()) == []


async def test_it_takes_the_socket_that_a_service_manager_gave_its_parent(start: StartFrozen) -> None:
    """The boot loader hands the descriptor on; LISTEN_PID names the process that serves."""
    server = start(command=(sys.executable, PASSING, "127.0.0.1"))
    assert "listening on inherited sockets" in server.log
    async with server.client(TOKEN) as client:
        assert (await client.publish("/a.md", b"# A\n", expected_version=0)).status == "created"
    assert interfaces(child_of(server)) == ["lo"]
    assert server.stop() == 0


def test_a_command_beside_a_server_that_it_cannot_see_leaves_its_folder_alone(
    start: StartFrozen, frozen: Path, tmp_path: Path
) -> None:
    """As the unit's ExecReload: the same user and cache directory, but a user namespace of its own."""
    start()
    folders = set(unpacked(tmp_path).iterdir())
    for _ in range(2):
        subprocess.run(
            ["unshare", "--map-root-user", frozen, "--version"],
            env={"TMPDIR": str(unpacked(tmp_path))},
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=30,
        )
    assert set(unpacked(tmp_path).iterdir()) == folders
    assert all(list(folder.iterdir()) for folder in folders)


def test_a_reload_asked_for_within_the_first_moments_does_no_harm(start: StartFrozen) -> None:
    """Report 43, with the wrapper that the unit has: unpacking, the boot loader's fork and Python's start are all hit."""
    command = ("env", "--ignore-signal=HUP")
    servers = [start(command=command, ready=False) for _ in range(4)]
    for server in servers:
        wait_until(partial(ignores_hangup, server.process.pid), within=10)  # `env` itself has to start first
    for _ in range(40):
        for server in servers:
            server.process.send_signal(signal.SIGHUP)
        time.sleep(0.02)
    for server in servers:
        server.wait_for(STARTED)
        assert server.stop() == 0
        assert len(re.findall(STARTED, server.log)) == 1


def test_killing_the_parent_ends_the_child_and_the_next_start_cleans_up(
    start: StartFrozen, tmp_path: Path
) -> None:
    """Reports 44 and 46. A folder in use and one that is somebody else's stay."""
    other, killed = start(), start()
    folders = set(unpacked(tmp_path).iterdir())
    foreign = unpacked(tmp_path) / "_MEI7fffffffabcdef"  # a process id that cannot be
    foreign.mkdir()
    child = child_of(killed)
    killed.process.kill()
    killed.process.wait()
    wait_until(lambda: gone(child) and binds(killed.port))
    assert folders < set(unpacked(tmp_path).iterdir())

    third = start()
    kept = {path for path in unpacked(tmp_path).iterdir() if f"_MEI{other.process.pid:08x}" in path.name}
    new = {path for path in unpacked(tmp_path).iterdir() if f"_MEI{third.process.pid:08x}" in path.name}
    assert len(kept) == len(new) == 1
    assert set(unpacked(tmp_path).iterdir()) == kept | new | {foreign}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_start_that_is_killed_while_it_unpacks_leaves_nothing_to_the_next(
    frozen: Path, tmp_path: Path, how: signal.Signals
) -> None:
    """The boot loader heeds no signal yet. A start that is still unpacking meanwhile, here a halted one, keeps its folder."""
    below = unpacked(tmp_path)
    below.mkdir()
    environment = {"TMPDIR": str(below)}

    def unpacking(files: int) -> subprocess.Popen[bytes]:
        """A start that is halted as soon as it has unpacked so many files."""
        process = subprocess.Popen([frozen, "--version"], env=environment, stdout=subprocess.DEVNULL)
        own = f"_MEI{process.pid:08x}*"
        wait_until(lambda: sum(path.is_file() for path in below.glob(own + "/**/*")) >= files, within=10)
        process.send_signal(signal.SIGSTOP)
        return process

    for files in (1, 2, 4, 5, 6, 9):  # the fifth, sixth and ninth are large
        process = unpacking(files)
        process.send_signal(how)
        process.send_signal(signal.SIGCONT)
        assert process.wait(10) == -how
    assert len(list(below.iterdir())) == 6
    halted = unpacking(3)
    try:
        for hidden in ((), ("unshare", "--map-root-user")):  # the second start cannot see what others run
            subprocess.run(
                [*hidden, frozen, "--version"],
                env=environment | {"PATH": os.environ["PATH"]},
                stdout=subprocess.DEVNULL,
                check=True,
                timeout=30,
            )
            assert [path.name[4:12] for path in below.iterdir()] == [f"{halted.pid:08x}"]
    finally:
        halted.send_signal(signal.SIGCONT)
        assert halted.wait(10) == 0
    assert list(below.iterdir()) == []


def test_a_folder_that_forbids_execution_is_named(frozen: Path, tmp_path: Path) -> None:
    """Report 45. The unit never meets it: it unpacks into its own cache directory."""
    script = 'mount -t tmpfs -o noexec tmpfs "$1" && TMPDIR=$1 exec "$2" --version'
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(tmp_path), str(frozen)],
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )
    assert done.returncode != 0
    assert f"{tmp_path}/_MEI" in done.stderr
    assert "failed to map segment from shared object" in done.stderr


def test_it_has_the_manual_in_it_but_no_mcp_server(frozen: Path, tmp_path: Path) -> None:
    found = subprocess.run(
        [frozen, "help", "rotate", "a", "token", "--json"],
        capture_output=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert (found.returncode, found.stderr) == (0, b"")
    assert b'"path":"/tokens.md"' in found.stdout
    refused = subprocess.run(
        [frozen, "mcp"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert b"the one-file program has no MCP server in it" in refused.stderr
    assert b"mcp_types" not in frozen.read_bytes()
