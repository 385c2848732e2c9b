"""What the one executable unpacks, from its first file to its last: where it cannot, who cleans up, and what a server does without it.

Every start unpacks a folder of its own below $TMPDIR, and removes it at its end. The rest of what one file costs is in test_frozen_executable.py.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from app.client.client import Client
from app.protocol.tables import parse_lookup_body
from tests.journeys.conftest import (
    PROJECT,
    TOKEN,
    StartFrozen,
    child_of,
    frozen_servers,
    token_entry,
    unpacked,
    wait_until,
)
from tests.journeys.raw import connect
from tests.unit.server.planted import plant

ELEVEN_DAYS = 11 * 86_400.0
RELOADED = r"auth: tokens reloaded"
SMALL, ROOMY = 4, 100  # MB; unpacked it is some 30

TROUBLES = (PROJECT / "app" / "manual" / "troubleshooting.md").read_text("utf-8")


def with_disk(script: str, disk: Path, frozen: Path) -> "subprocess.CompletedProcess[str]":
    """Runs a script that mounts a disk in memory at $1, seen by nothing else; $2 is the executable."""
    return subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-euc", script, "sh", disk, frozen],
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )


def test_a_command_beside_a_server_that_it_cannot_see_leaves_its_folder_alone(
    start_frozen: StartFrozen, frozen: Path, tmp_path: Path
) -> None:
    """As the unit's ExecReload: the same user and cache directory, but a user namespace of its own."""
    start_frozen()
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


def test_killing_the_parent_ends_the_child_and_the_next_start_cleans_up(
    start_frozen: StartFrozen, tmp_path: Path
) -> None:
    """Reports 44 and 46. A folder in use and one that is somebody else's stay."""
    other, killed = start_frozen(), start_frozen()
    folders = set(unpacked(tmp_path).iterdir())
    foreign = unpacked(tmp_path) / "_MEI7fffffffabcdef"  # a process id that cannot be
    foreign.mkdir()
    child = child_of(killed)
    killed.process.kill()
    killed.process.wait()
    wait_until(lambda: gone(child) and binds(killed.port))
    assert folders < set(unpacked(tmp_path).iterdir())

    third = start_frozen()
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


def test_a_folder_that_forbids_execution_is_named_and_its_cure_is_in_the_manual(
    frozen: Path, tmp_path: Path
) -> None:
    """Report 45. The unit never meets it: it unpacks into its own cache directory."""
    script = 'mount -t tmpfs -o noexec tmpfs "$1"; TMPDIR=$1 exec "$2" --version'
    done = with_disk(script, tmp_path, frozen)
    assert done.returncode != 0
    assert f"{tmp_path}/_MEI" in done.stderr
    said = "failed to map segment from shared object"
    assert said in done.stderr
    assert said in TROUBLES


def test_a_folder_without_room_is_named_in_the_manual_and_cleaned_once_there_is_some(
    frozen: Path, tmp_path: Path
) -> None:
    """Report 45. The boot loader's line has the file but not the cure; what was left behind does not stay for ever."""
    script = f"""
        mount -t tmpfs -o size={SMALL}m tmpfs "$1"
        export TMPDIR=$1
        if "$2" --version; then exit 9; fi
        ls "$1"
        mount -o remount,size={ROOMY}m "$1"
        "$2" --version >/dev/null
        echo then
        ls "$1"
    """
    done = with_disk(script, tmp_path, frozen)
    assert done.returncode == 0, done.stdout + done.stderr
    said = "decompression resulted in return code -1"
    assert said in done.stderr
    assert said in TROUBLES
    left, _, afterwards = done.stdout.partition("then\n")
    assert left.startswith("_MEI")
    assert afterwards == ""


def test_a_cleaner_of_old_files_passes_over_a_folder_in_use(
    start_frozen: StartFrozen, tmp_path: Path
) -> None:
    """Report 44: Debian cleans /tmp by age, and a server that runs for months has its files there if it was started by hand."""
    server = start_frozen()
    (folder,) = unpacked(tmp_path).iterdir()
    old = unpacked(tmp_path) / "old"
    old.touch()
    then = time.time() - ELEVEN_DAYS
    for path in (*folder.rglob("*"), folder, old):
        os.utime(path, (then, then))
    files = sorted(folder.rglob("*"))
    rules = tmp_path / "rules.conf"
    # By mtime alone: ctime, which counts as well, cannot be set.
    rules.write_text(f"d {unpacked(tmp_path)} - - - mM:10d\n")
    subprocess.run(["systemd-tmpfiles", "--clean", rules], check=True, timeout=30)
    assert not old.exists()
    assert sorted(folder.rglob("*")) == files
    assert server.stop() == 0
    assert not folder.exists()


async def test_a_server_whose_files_are_gone_serves_on(frozen: Path, tmp_path: Path) -> None:
    """Reports 44 and 61: another cleaner has emptied the folder and an upgrade has replaced the executable; nothing is loaded later that is needed."""
    copy = tmp_path / "demarkus-appliance"
    shutil.copy(frozen, copy)
    with frozen_servers(copy, tmp_path) as start:
        server = start()
        (folder,) = unpacked(tmp_path).iterdir()
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        copy.unlink()
        copy.write_bytes(b"another version")
        async with server.client(TOKEN) as client:
            await every_verb(client)
        await every_error(server.address)
        # A part that cannot be read, then one that can; and sections that are made in a process of their own.
        server.tokens.write_text("[tokens")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("token reload failed")
        server.tokens.write_text(token_entry("journey", TOKEN, ["/**"], ["publish"]))
        for number in range(80):
            plant(
                os.fspath(server.root),
                f"/large/{number}.md",
                [b"# Large\n\n" + b"pump hull %d\n" % number * 1_000],
            )
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("content reloaded.* added=80 ")
        async with server.client() as client:
            found = await client.lookup("/large", "hull", match="body", limit=100)
            assert len(parse_lookup_body(found.body)) == 80
        assert server.stop() == 0
        assert "rror" not in server.log.partition("content reloaded")[2]


async def every_verb(client: Client) -> None:
    """All of them, in all modes, with metadata that only a YAML parser reads."""
    written = await client.publish(
        "/a.md", b"# A\n\nPump.\n", expected_version=0, metadata={"title": "*\u2028"}
    )
    assert written.status == "created"
    assert (await client.append("/a.md", b"More.\n", expected_version=1)).status == "created"
    fetched = await client.fetch("/a.md")
    assert (fetched.status, fetched.metadata["title"]) == ("ok", "*\u2028")
    for path in ("/a.md/v1", "/" + fetched.metadata["content-hash"], "/", "/health"):
        assert (await client.fetch(path)).status == "ok"
    assert (await client.list("/")).status == (await client.versions("/a.md")).status == "ok"
    for mode in ("catalog", "body", "task"):
        assert (await client.lookup("/", "pump", filters="importance>=0", match=mode)).status == "ok"
    assert (await client.archive("/a.md")).status == "ok"
    assert (await client.fetch("/a.md")).status == "archived"


async def every_error(address: tuple[str, int]) -> None:
    requests = {
        b"FETCH /none.md\n": b"not-found",
        b"FROB /\n": b"bad-request",
        b'PUBLISH /b.md\n---\nexpected-version: "0"\n---\nb': b"unauthorized",
        b"LOOKUP /\n---\nquery: {a: [b\n---\n": b"bad-request",
        b"LIST /\n---\ncursor: \xff\n---\n": b"bad-request",
    }
    async with connect(address) as client:
        for request, status in requests.items():
            answer = await client.ask(request)
            assert answer.startswith(b"---\n")
            assert b"\nstatus: %b\n" % status in answer, (request, answer)
