"""The one executable, as it is shipped: built once for the session (`scripts/build --if-changed`), then driven by a stranger.

One file is two processes, the boot loader that unpacks and waits, and Python. Most of what is tested here is what that costs elsewhere: signals
that reach the wrong one or both, a child that outlives its parent. What is unpacked is in test_frozen_unpacked.py.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import trio

from app.protocol.message import parse_response
from tests.journeys.conftest import STARTED, TOKEN, StartFrozen, child_of, unpacked, wait_until
from tests.journeys.raw import connect
from tests.journeys.test_inherited_sockets import PASSING, interfaces
from tests.unit.server.planted import plant

EXECUTABLE_MAX = 20_000_000  # bytes
RESIDENT_MAX = 60_000  # kB, idle
GLIBC_MAX = (2, 36)  # Debian 12, the oldest system supported
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


def resident(process: int) -> int:
    """Resident memory in kB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1])


def ignores_hangup(process: int) -> bool:
    found = re.search(r"SigIgn:\s+([0-9a-f]+)", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return bool(int(found[1], 16) & 1 << signal.SIGHUP - 1)


def children(process: int) -> list[int]:
    """All its children, whichever thread started them."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return [int(one) for thread in threads for one in (thread / "children").read_text().split()]


def wait_for_child(process: int, command: bytes) -> int:
    """A child of this process that runs the executable with such a last argument; there are others for moments."""
    deadline = time.monotonic() + 10
    while True:
        for child in children(process):
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                if line[0].endswith(b"/demarkus-appliance") and line[-2] == command:
                    return child
        assert time.monotonic() < deadline
        time.sleep(0.002)


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
        "markdown tokens certificate server handshake PUBLISH FETCH LOOKUP LOOKUP LOOKUP VERSIONS reload stop verify"
    )
    assert list((root / "tmp").iterdir()) == []


def test_every_library_inside_suits_the_oldest_system_and_a_hardened_kernel(
    start_frozen: StartFrozen, frozen: Path, tmp_path: Path
) -> None:
    """Report 48: no newer glibc is asked for than Debian 12's; report 49: no stack wants to be executable."""
    start_frozen()
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


async def test_it_serves_under_the_older_name(start_frozen: StartFrozen) -> None:
    server = start_frozen("demarkus-server")
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
    start_frozen: StartFrozen, tmp_path: Path, whom: str
) -> None:
    server = start_frozen()
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
    start_frozen: StartFrozen, tmp_path: Path
) -> None:
    """The unit's KillMode asks both: what the boot loader hands on besides cuts no running request short.

    The requests run long because the rate lets one through every tenth of a second.
    """
    settings = (f"NOTIFY_SOCKET={tmp_path / 'notify'}", "DEMARKUS_RATE_LIMIT=10", "DEMARKUS_RATE_BURST=2")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(os.fspath(tmp_path / "notify"))
        manager.settimeout(20)
        server = start_frozen(command=("env", "--ignore-signal=HUP", *settings))
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


async def test_it_takes_the_socket_that_a_service_manager_gave_its_parent(start_frozen: StartFrozen) -> None:
    """The boot loader hands the descriptor on; LISTEN_PID names the process that serves."""
    server = start_frozen(command=(sys.executable, PASSING, "127.0.0.1"))
    assert "listening on inherited sockets" in server.log
    async with server.client(TOKEN) as client:
        assert (await client.publish("/a.md", b"# A\n", expected_version=0)).status == "created"
    assert interfaces(child_of(server)) == ["lo"]
    assert server.stop() == 0


@pytest.mark.parametrize("whom", ["parent", "child"])
def test_a_reload_asked_for_within_the_first_moments_does_no_harm(
    start_frozen: StartFrozen, whom: str
) -> None:
    """Report 43, with the wrapper that the unit has: unpacking, the boot loader's fork and Python's start are all hit, every five milliseconds."""
    command = ("env", "--ignore-signal=HUP")
    servers = [start_frozen(command=command, ready=False) for _ in range(4)]
    targets = [server.process.pid for server in servers]
    for target in targets:
        wait_until(partial(ignores_hangup, target), within=10)  # `env` itself has to start first
    if whom == "child":
        targets = [wait_for_child(target, b"serve") for target in targets]
    for _ in range(160):
        for target in targets:
            os.kill(target, signal.SIGHUP)
        time.sleep(0.005)
    for server in servers:
        server.wait_for(STARTED)
        server.process.send_signal(signal.SIGHUP)
        server.wait_for(RELOADED)
        assert server.stop() == 0
        assert len(re.findall(STARTED, server.log)) == 1


async def test_it_serves_a_thousand_documents_within_ten_seconds_of_its_start(
    start_frozen: StartFrozen, tmp_path: Path
) -> None:
    """Report 52. So long a board may take; it is a tenth as fast as what usually runs this."""
    for number in range(1_000):
        plant(os.fspath(tmp_path / "server-0" / "root"), f"/{number}.md", [b"# Document %d\n" % number])
    began = time.monotonic()
    server = start_frozen()
    async with server.client() as client:
        assert (await client.fetch("/999.md")).body == b"# Document 999\n"
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("before", [None, "/opt/lib"])
def test_a_program_that_it_starts_gets_the_environment_as_it_was(
    frozen: Path, tmp_path: Path, before: str | None
) -> None:
    """Report 53. `selftest` starts its server as a program of its own, here the same one."""
    given = {"TMPDIR": str(tmp_path), "PATH": os.environ["PATH"]}
    if before is not None:
        given["LD_LIBRARY_PATH"] = before
    with subprocess.Popen([frozen, "selftest"], env=given, stdout=subprocess.DEVNULL) as tested:
        python = wait_for_child(tested.pid, b"selftest")
        server = wait_for_child(python, b"serve")
        found = Path(f"/proc/{server}/environ").read_bytes().decode().split("\0")
    assert tested.returncode == 0
    assert [line for line in found if line.startswith("LD_LIBRARY_PATH")] == [
        f"LD_LIBRARY_PATH={before}" for _ in [before] if before
    ]
    assert not [line for line in found if line.startswith("_PYI_")]


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
