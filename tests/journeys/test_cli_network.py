"""A person at the command line of one machine, the real server on another port of it: the whole way, from first contact to trouble."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.journeys.conftest import PROGRAM, PROJECT, Server, StartServer

Done = subprocess.CompletedProcess[bytes]
Cli = Callable[..., Done]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("DEMARKUS_")}
    return {**own, "HOME": str(tmp_path / "home")}


@pytest.fixture
def cli(environment: dict[str, str]) -> Cli:
    """Runs one command in a process of its own, with a home directory of its own."""

    def run(*line: str, text: bytes | None = None, **variables: str) -> Done:
        return subprocess.run(
            [*PROGRAM, *line],
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            env={**environment, **variables},
            cwd=PROJECT,
            timeout=30,
            check=False,
        )

    return run


def test_from_first_contact_to_an_archived_document(server: Server, cli: Cli, tmp_path: Path) -> None:
    # First contact: the server's own certificate is not known here.
    first = cli("list", f"{server.url}/")
    assert (first.returncode, first.stdout) == (6, b"")
    shown = cli("fingerprint", "--state-dir", str(server.state)).stdout.decode().strip()
    command = next(line.split() for line in first.stderr.decode().splitlines() if " fetch --pin " in line)
    assert command[1:4] == ["fetch", "--pin", shown]
    pinned = cli(*command[1:])
    assert (pinned.returncode, pinned.stdout) == (0, b"# Health Check\n\nServer is healthy.\n")
    assert (tmp_path / "home/.mark/pins").read_text() == f"127.0.0.1:{server.port} {shown}\n"

    # From here on neither --pin nor --insecure is needed.
    url = f"{server.url}/docs/pump.md"
    refused = cli("put", url, "--body", "x", "--expected-version", "0")
    assert (refused.returncode, refused.stderr) == (
        5,
        b"demarkus-appliance: unauthorized: authentication required\n"
        b"  No token was sent for /docs/pump.md: give one with --auth-file FILE or in DEMARKUS_AUTH.\n",
    )

    with_token = {"DEMARKUS_AUTH": server.token}
    text = b"# Pump\n\nRunning.\n\n## Seal\n\nRubber.\n"
    put = cli(
        "put",
        url,
        "--expected-version",
        "0",
        "--meta",
        "title=The pump",
        "--meta",
        "tags=pump",
        text=text,
        **with_token,
    )
    assert (put.returncode, put.stdout) == (0, b"created /docs/pump.md v1\n")
    again = cli("put", url, "--expected-version", "0", text=b"other", **with_token)
    assert again.returncode == 4
    assert b"the document is at version 1, not 0" in again.stderr
    secret = tmp_path / "token"
    secret.write_text(server.token + "\n")
    appended = cli("append", url, "--body", "Stopped.\n", "--auth-file", str(secret))
    assert appended.stdout == b"created /docs/pump.md v2\n"

    assert cli("fetch", url).stdout == text + b"Stopped.\n"
    assert cli("fetch", url + "/v1").stdout == text
    assert cli("fetch", url + "#seal").stdout == b"## Seal\n\nRubber.\nStopped.\n"
    document = json.loads(cli("fetch", url, "--json").stdout)
    assert (document["version"], document["metadata"]["title"]) == (2, "The pump")
    assert cli("fetch", f"{server.url}/{document['content_hash']}").stdout == text + b"Stopped.\n"
    assert cli("list", f"{server.url}/").stdout == b"docs/\n"
    assert json.loads(cli("list", f"{server.url}/docs/", "--json").stdout)["entries"] == [
        {"name": "pump.md", "directory": False}
    ]
    assert [line.split()[0] for line in cli("versions", url).stdout.splitlines()] == [b"v2", b"v1"]
    found = json.loads(cli("lookup", f"{server.url}/", "--query", "pump", "--json").stdout)
    assert [(row["path"], row["title"], row["tags"]) for row in found["rows"]] == [
        ("/docs/pump.md", "The pump", ["pump"])
    ]

    assert (
        cli("archive", url, "--auth", "-", text=server.token.encode() + b"\n").stdout
        == b"archived /docs/pump.md v2\n"
    )
    gone = cli("fetch", url)
    assert (gone.returncode, gone.stdout) == (3, b"")
    assert cli("archive", "--undo", url, **with_token).stdout == b"ok /docs/pump.md v2\n"
    assert cli("fetch", url).returncode == 0
    assert cli("verify", "--root", str(server.root)).returncode == 0


def test_another_certificate_under_a_known_address_is_refused(start_server: StartServer, cli: Cli) -> None:
    first = start_server()
    shown = cli("fingerprint", "--state-dir", str(first.state)).stdout.decode().strip()
    assert cli("fetch", f"{first.url}/health", "--pin", shown).returncode == 0
    first.stop()
    os.unlink(first.state / "certificate.pem")
    second = start_server("--port", str(first.port))
    changed = cli("fetch", f"{second.url}/health")
    assert (changed.returncode, changed.stdout) == (7, b"")
    new = cli("fingerprint", "--state-dir", str(second.state)).stdout.decode().strip()
    assert new != shown
    assert f"fetch --pin {new} {second.url}/health".encode() in changed.stderr
    assert cli("fetch", f"{second.url}/health", "--pin", new).returncode == 0
    assert cli("fetch", f"{second.url}/health").returncode == 0


def test_a_reader_that_has_had_enough_is_no_error(
    server: Server, environment: dict[str, str], cli: Cli
) -> None:
    body = b"# Long\n" + b"line\n" * 200_000
    put = cli("put", f"{server.url}/long.md", "--force", "--insecure", text=body, DEMARKUS_AUTH=server.token)
    assert put.returncode == 0
    process = subprocess.Popen(
        [*PROGRAM, "fetch", f"{server.url}/long.md", "--insecure"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=PROJECT,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"# Long\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(10) == 0


def test_ctrl_c_is_130_without_a_traceback(server: Server, environment: dict[str, str]) -> None:
    os.kill(server.process.pid, signal.SIGSTOP)  # a server that keeps everybody waiting
    try:
        process = subprocess.Popen(
            [*PROGRAM, "fetch", f"{server.url}/", "--insecure"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=PROJECT,
        )
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_a_terminal_never_obeys_a_document(server: Server, environment: dict[str, str], cli: Cli) -> None:
    hostile = b"# T\x1b]0;owned\x07itle\n\x9b2J\xc2\x9b31m\n"
    text = hostile.replace(b"\x9b2J", b"")  # a document is UTF-8
    put = cli("put", f"{server.url}/t.md", "--force", "--insecure", text=text, DEMARKUS_AUTH=server.token)
    assert put.returncode == 0
    line = ["fetch", f"{server.url}/t.md", "--insecure"]
    assert cli(*line).stdout == text
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, *line], stdin=terminal, stdout=terminal, env=environment, cwd=PROJECT
    )
    os.close(terminal)
    assert process.wait(20) == 0
    shown = os.read(screen, 65536)
    os.close(screen)
    assert shown.replace(b"\r\n", b"\n") == b"# T]0;owneditle\n31m\n"


def test_debug_shows_where_and_nothing_else_does(cli: Cli) -> None:
    line = ("fetch", "mark://127.0.0.1:1/", "--insecure")
    quiet, loud = cli(*line), cli(*line, "--debug")
    assert (quiet.returncode, loud.returncode) == (6, 6)
    assert quiet.stderr == (
        b"demarkus-appliance: 127.0.0.1:1: unreachable: connection refused\n"
        b"  Is the server running, is 127.0.0.1 the right name, and is UDP port 1 open on the way to it?\n"
    )
    assert b"Traceback" in loud.stderr


def test_closed_streams_do_no_harm(server: Server, environment: dict[str, str]) -> None:
    line = " ".join([*PROGRAM, "fetch", f"{server.url}/health", "--insecure"])
    for redirections in (">&-", "2>&-", ">&- 2>&- <&-"):
        done = subprocess.run(
            ["sh", "-c", f"{line} {redirections}"], env=environment, cwd=PROJECT, timeout=30, check=False
        )
        assert done.returncode == 0


def test_a_full_disk_under_stdout_is_told(server: Server, environment: dict[str, str]) -> None:
    line = " ".join([*PROGRAM, "fetch", f"{server.url}/health", "--insecure"])
    done = subprocess.run(
        ["sh", "-c", f"{line} > /dev/full"],
        capture_output=True,
        env=environment,
        cwd=PROJECT,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == b"demarkus-appliance: No space left on device\n"


def test_version_and_help(cli: Cli) -> None:
    version = cli("--version")
    assert version.returncode == 0
    assert version.stdout.startswith(b"demarkus-appliance ")
    assert b"aioquic 1.7" in version.stdout
    for line in ([], ["serve"], ["token"], ["token", "generate"], ["publish"], ["put"], ["lookup"]):
        done = cli(*line, "--help")
        assert done.returncode == 0
        head = done.stdout.decode().splitlines()[:3]
        assert head[0] == "Examples:"
        assert all(example.startswith("  demarkus-appliance ") for example in head[1:])


def test_the_program_starts_without_the_rooms_it_does_not_need(environment: dict[str, str]) -> None:
    script = (
        "import sys\nfrom app.commands.program import main\n"
        "assert main(['--help']) == 0\nassert main(['token', 'list', '--tokens', '/none']) == 1\n"
        "heavy = {'trio', 'aioquic', 'cryptography', 'cmarkgfm', 'asyncio', 'app.world.world', 'app.server'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        env=environment,
        cwd=PROJECT,
        timeout=30,
        check=False,
    )
    assert done.stdout.decode().splitlines()[-1] == "heavy: []"
