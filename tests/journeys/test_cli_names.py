"""The program under its older names: what existing units, installers and scripts type, and what they read back (operations §1, §7, §9; store §11)."""

import io
import os
import re
import signal
import stat
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from app.commands.program import main
from tests.journeys.conftest import Server

PROGRAM = Path(sys.executable).with_name("demarkus-appliance")


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("DEMARKUS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def link(folder: Path, name: str) -> str:
    """A link to the program under another name."""
    path = folder / name
    path.symlink_to(PROGRAM)
    return str(path)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs the program in this process as if it had been started under `name`; see the first test for the real thing."""

    def call(name: str, *line: str, text: str = "", **variables: str) -> Done:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", [f"/usr/local/bin/{name}", *line])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
            for variable, value in variables.items():
                patch.setenv(variable, value)
            code = main()
        return Done(code, *capfd.readouterr())

    return call


@pytest.mark.parametrize(
    ("name", "line", "code", "words"),
    [
        ("demarkus-server", ["-version"], 0, "demarkus-server "),
        ("demarkus-token", ["generate"], 1, "demarkus-token: -label is required\n"),
        ("demarkus-publish", ["-path=/a.md"], 1, "error: which content directory?"),
        ("demarkus", ["-X", "WATCH", "mark://h/"], 2, "demarkus: WATCH is not offered"),
    ],
)
def test_a_link_is_enough(tmp_path: Path, name: str, line: list[str], code: int, words: str) -> None:
    done = subprocess.run(
        [link(tmp_path, name), *line],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == code
    assert (done.stdout + done.stderr).startswith(words)


# demarkus-server


def test_server(run: Run, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    log = tmp_path / "log"
    variables = {
        **os.environ,
        "DEMARKUS_PORT": "0",
        "DEMARKUS_LISTEN": "127.0.0.1",
        "DEMARKUS_STATE_DIR": str(tmp_path / "state"),
        "DEMARKUS_ROOT": "/nowhere",
    }
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [link(tmp_path, "demarkus-server"), f"-root={tmp_path}/root", "--read-only"],
            stderr=stderr,
            env=variables,
        )
    patience = time.monotonic() + 20
    while "server started" not in log.read_text() and process.poll() is None and time.monotonic() < patience:
        time.sleep(0.05)
    (port,) = re.findall(r'msg="server started" addr=127\.0\.0\.1:(\d+)', log.read_text())
    fetched = run("demarkus", "-insecure", f"mark://127.0.0.1:{port}/health")
    assert (fetched.returncode, fetched.stdout) == (0, "# Health Check\n\nServer is healthy.\n")
    process.send_signal(signal.SIGTERM)
    assert process.wait(12) == 0
    assert 'msg="server stopped"' in log.read_text()


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (["-root", "/nowhere/at/all"], 1, "/nowhere/at/all"),
        ([], 1, "root"),
        (["-frob"], 2, "-frob"),
        (["-root"], 2, "-root"),
        (["-root", "/tmp", "-port", "x"], 1, "port"),
    ],
)
def test_server_refusals(run: Run, line: list[str], code: int, words: str) -> None:
    done = run("demarkus-server", *line)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("flag", ["-version", "--version"])
def test_server_version(run: Run, flag: str) -> None:
    done = run("demarkus-server", flag)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"demarkus-server \d+\.\d+\.\d+ \(demarkus-appliance\)\n", done.stdout)


# demarkus-token


def test_token(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text("# kept\n")
    file.chmod(0o600)
    done = run(
        "demarkus-token",
        "generate",
        "-label",
        "bench",
        "-paths=/logs/**,/x",
        "--ops",
        "read,publish",
        "-tokens",
        str(file),
    )
    assert done.returncode == 0
    raw = done.stdout.removesuffix("\n")
    assert re.fullmatch("[0-9a-f]{64}", raw)
    assert done.stderr == f'Token "bench" appended to {file}\n\nRaw token (give to client, shown once):\n'
    digest = re.findall('hash = "(sha256-[0-9a-f]{64})"', file.read_text())[0]
    assert file.read_text() == (
        f'# kept\n\n[tokens.bench]\nhash = "{digest}"\npaths = ["/logs/**", "/x"]\noperations = ["read", "publish"]\n'
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run("demarkus-token", "generate", "-label", "a b", "-tokens", str(file)).returncode == 0
    listed = run("demarkus-token", "list", "-tokens", str(file))
    assert (listed.returncode, listed.stderr) == (0, "")
    assert listed.stdout == (
        f"{'a b':<20}  paths: {'/*':<20}  ops: publish\n{'bench':<20}  paths: {'/logs/**, /x':<20}  ops: read, publish\n"
    )
    assert run("demarkus-token", "generate", "-label", "bench", "-tokens", str(file)).returncode == 1
    revoked = run("demarkus-token", "revoke", "-label", "bench", "-tokens", str(file))
    assert revoked.returncode == 0
    assert revoked.stderr.startswith('Revoked token "bench"\n')
    assert list(tomllib.loads(file.read_text())["tokens"]) == ["a b"]
    assert run("demarkus-token", "revoke", "-label", "bench", "-tokens", str(file)).returncode == 1
    run("demarkus-token", "revoke", "-label", "a b", "-tokens", str(file))
    assert run("demarkus-token", "list", "-tokens", str(file)).stdout == "No tokens found.\n"


def test_token_without_a_file_prints_the_entry(run: Run) -> None:
    done = run("demarkus-token", "generate", "-label", "x")
    assert done.returncode == 0
    assert re.fullmatch("[0-9a-f]{64}\n", done.stdout)
    assert re.fullmatch(
        r'\[tokens\.x\]\nhash = "sha256-[0-9a-f]{64}"\npaths = \["/\*"\]\noperations = \["publish"\]\n'
        r"\nRaw token \(give to client, shown once\):\n",
        done.stderr,
    )


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ([], 1),
        (["-help"], 0),
        (["frob"], 1),
        (["generate"], 1),
        (["revoke", "-label", "x"], 1),
        (["list"], 1),
        (["list", "-tokens", "/none"], 1),
        (["list", "-frob"], 2),
    ],
)
def test_token_refusals(run: Run, line: list[str], code: int) -> None:
    done = run("demarkus-token", *line)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr
    assert "Traceback" not in done.stderr


# demarkus-publish


def test_publish(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    line = ("publish", "--root", str(root), "--path", "/a.md", "--body", "old", "--meta", "title=T")
    assert run("demarkus-appliance", *line).returncode == 0
    assert b"title: T\n" in (root / "a.md").read_bytes()
    done = run("demarkus-publish", "-root", str(root), "-path", "//x/.././a.md", text="new\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "published /a.md v2\n")
    assert (root / "a.md").read_bytes().endswith(b"\n---\nnew\n")
    assert b"title" not in (root / "a.md").read_bytes()
    done = run("demarkus-publish", "-path=/a.md", "--body=new\n", DEMARKUS_ROOT=str(root))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "unchanged (v2)\n")
    done = run("demarkus-publish", "-root", str(root), "-path", "/plain", "-body", "x")
    assert done.stderr == "published /plain v1\n"


def test_publish_takes_no_file(run: Run, tmp_path: Path) -> None:
    done = run("demarkus-publish", "-path", "/a.md", "a.md", text="x", DEMARKUS_ROOT=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("unexpected argument a.md: the text comes from -body or stdin\nusage: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "text", "words"),
    [
        (["-path", "/a.md"], "", "error: empty content\n"),
        (["-path", "/a.md", "-body", ""], "x", "error: empty content\n"),
        ([], "x", "error: -path is required\n"),
        (["-path", "/a.md"], "x" * 1048577, "error: the text is larger than 1048576 bytes"),
        (["-path", "a.md"], "x", "error: the path a.md does not start with a slash\n"),
        (["-path", "/"], "x", "error: "),
        (["-path", "/a\tb.md"], "x", "error: "),
        (["-path", "/sha256-" + "0" * 64], "x", "error: "),
        (["-path", "/a.md", "-root", "/none"], "x", "error: "),
    ],
)
def test_publish_refusals(run: Run, tmp_path: Path, line: list[str], text: str, words: str) -> None:
    done = run("demarkus-publish", *line, text=text, DEMARKUS_ROOT=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(words)
    assert not (tmp_path / "a.md").exists()


# demarkus


def test_client(server: Server, run: Run) -> None:
    url, trust = f"{server.url}/a.md", ("-insecure", "-auth", server.token)
    put = run(
        "demarkus",
        *trust,
        "-X",
        "publish",
        "-expected-version",
        "0",
        "-meta",
        "title=T",
        "-v",
        url,
        text="# A\n",
    )
    assert (put.returncode, put.stdout) == (0, "")
    assert re.fullmatch(r"\[created\] modified=\S+Z version=1\n", put.stderr)
    fetched = run("demarkus", "-v", "-no-cache", "-cache-dir", "/x", "--insecure", url)
    assert (fetched.returncode, fetched.stdout) == (0, "# A\n")
    assert re.fullmatch(
        r"\[ok\] content-hash=\S+ etag=\S+ modified=\S+ title=T type=Document version=1\n", fetched.stderr
    )
    appended = run("demarkus", *trust, "-X", "APPEND", "-body", "more\n", url)
    assert (appended.returncode, appended.stdout, appended.stderr) == (0, "", "")
    assert run("demarkus", "-insecure", url).stdout == "# A\nmore\n"
    listed = run("demarkus", "-insecure", "-X", "LIST", "-page-size", "1", f"{server.url}/")
    assert listed.stdout == "\n# Index of /\n\n- [a.md](a.md)\n"
    assert "\n- [v2](%2Fa.md/v2) - " in run("demarkus", "-insecure", "-X=versions", url).stdout
    found = run("demarkus", "lookup", f"{server.url}/", "-query", "t*", "-insecure", "-v")
    assert (found.returncode, found.stderr) == (0, "[ok] matches=0\n")
    found = run(
        "demarkus", "lookup", "-query=*", "-limit=5", "-match", "catalog", "-insecure", f"{server.url}/"
    )
    assert "| /a.md | 0.50 | T |  |" in found.stdout
    forced = run("demarkus", *trust, "-X", "PUBLISH", "-force", "-body", "# B\n", url)
    assert forced.returncode == 0
    gone = run("demarkus", *trust, "-X", "ARCHIVE", url)
    assert gone.returncode == 0
    after = run("demarkus", "-insecure", url)
    assert (after.returncode, after.stdout, after.stderr) == (
        1,
        "\n# Archived\n\n/a.md is archived\n",
        "demarkus: archived\n",
    )
    assert run("demarkus", *trust, "-X", "PUBLISH", "-force", url).returncode == 0  # empty text un-archives
    assert run("demarkus", "-insecure", url).stdout == "# B\n"


def test_client_conflicts(server: Server, run: Run) -> None:
    url, trust = f"{server.url}/a.md", ("-insecure", "-auth", server.token, "-X", "PUBLISH", "-body", "x")
    unsure = run("demarkus", *trust, url)
    assert unsure.returncode == 1
    assert "-expected-version" in unsure.stderr
    assert run("demarkus", *trust, "-expected-version", "0", url).returncode == 0
    fail = run("demarkus", *trust, "-expected-version", "0", "-on-conflict", "fail", url)
    assert fail.returncode == 1
    assert fail.stdout.startswith("# Version Conflict\n")
    assert fail.stderr == "demarkus: conflict\n"
    merge = run("demarkus", *trust, "-expected-version", "7", url)
    assert merge.returncode == 1
    assert merge.stderr.splitlines() == [
        "demarkus: conflict",
        f"demarkus: merging is not offered: fetch {url}, apply your change to it, and publish with -expected-version 1",
    ]


def test_client_retention_needs_a_yes(server: Server, run: Run) -> None:
    line = (
        "-insecure",
        "-auth",
        server.token,
        "-X",
        "PUBLISH",
        "-force",
        "-meta",
        "retention=1",
        "-body",
        "x",
    )
    assert run("demarkus", *line, f"{server.url}/a.md").returncode == 1
    assert run("demarkus", *line, "-yes", f"{server.url}/a.md").returncode == 0


def test_client_tokens_and_manifest(server: Server, run: Run, tmp_path: Path) -> None:
    host = f"127.0.0.1:{server.port}"
    assert run("demarkus", "token", "list").stdout == ""
    added = run("demarkus", "token", "add", f"{server.url}/any", server.token)
    assert (added.returncode, added.stdout) == (0, "")
    file = tmp_path / "home/.mark/tokens.toml"
    assert file.read_text() == f'["{host}"]\ntoken = "{server.token}"\n'
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run("demarkus", "token", "list").stdout == f"{host}\n"
    manifest = f"{server.url}/.well-known/agent-manifest.md"
    assert run("demarkus", "-insecure", "-X", "PUBLISH", "-force", "-body", "# M\n", manifest).returncode == 0
    assert run("demarkus", "info", "-insecure", server.url).stdout == "# M\n"
    wrong = {"DEMARKUS_AUTH": "wrong"}
    assert run("demarkus", "-insecure", "-X", "ARCHIVE", manifest, **wrong).returncode == 1
    assert (
        run("demarkus", "-insecure", "-X", "ARCHIVE", "-auth", server.token, manifest, **wrong).returncode
        == 0
    )
    assert run("demarkus", "token", "remove", server.url).returncode == 0
    assert run("demarkus", "token", "remove", server.url).returncode == 1
    assert run("demarkus", "token", "add", server.url, "-", text="piped\n").returncode == 0
    assert tomllib.loads(file.read_text()) == {host: {"token": "piped"}}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["edit", "mark://h/a.md"], "edit is not offered"),
        (["watch", "mark://h/"], "watch is not offered"),
        (["graph", "mark://h/"], "graph is not offered"),
        (["join", "mark://h#token=x"], "join is not offered"),
        (["okf", "export"], "okf is not offered"),
        (["-X", "WATCH", "mark://h/"], "WATCH is not offered"),
        (["-X", "LOOKUP", "mark://h/"], "demarkus lookup"),
        (["-frob", "mark://h/"], "flag provided but not defined: -frob"),
        (["-page-size", "x", "mark://h/"], "invalid value"),
        (["-on-conflict", "x", "mark://h/"], "merge or fail"),
        ([], "no address"),
        (["mark://h/", "mark://i/"], "several arguments"),
        (["lookup", "mark://h/"], "-query"),
        (["token", "frob"], "add URL TOKEN"),
    ],
)
def test_client_refusals_are_one_plain_line(run: Run, line: list[str], words: str) -> None:
    done = run("demarkus", *line)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_client_usage(run: Run) -> None:
    done = run("demarkus", "-h")
    assert (done.returncode, done.stdout) == (0, "")
    assert "-expected-version N" in done.stderr
    unreachable = run("demarkus", "-insecure", "mark://127.0.0.1:1/")
    assert (unreachable.returncode, unreachable.stdout) == (1, "")
    assert unreachable.stderr.startswith("demarkus: 127.0.0.1:1: unreachable: connection refused\n")
