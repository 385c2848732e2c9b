"""The newcomer's first command, without the part that makes the environment."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]

# Another port than the demo's own, which a demo of the person who runs the tests may be using.
ON_PORT = (
    "import sys; sys.path.insert(0, 'scripts'); import demo_world; demo_world.PORT = int(sys.argv[1]); "
    "sys.exit(demo_world.main(sys.argv[2:]))"
)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path), "DEMARKUS_PORT": "1"}


@pytest.fixture
def port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_check_asks_every_verb(environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "scripts/demo_world.py", "--check"],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for verb in ("FETCH", "LIST", "VERSIONS", "PUBLISH", "APPEND", "ARCHIVE", "LOOKUP"):
        assert re.search(f"^  ok    {verb} ", done.stdout, re.MULTILINE)
    assert "WRONG" not in done.stdout
    assert os.listdir(tmp_path) == []


def test_a_folder_is_served_until_ctrl_c_and_the_three_commands_work(
    environment: dict[str, str], tmp_path: Path, port: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "hello world.md").write_text("# Greeting\n\nHello.\n")
        output = tmp_path / "output"
        with output.open("wb") as out:
            demo = subprocess.Popen(
                [sys.executable, "-c", ON_PORT, str(port), folder],
                cwd=PROJECT,
                env=environment,
                stdout=out,
                stderr=out,
            )
        patience = time.monotonic() + 60
        while (
            "Ctrl-C stops it" not in output.read_text()
            and demo.poll() is None
            and time.monotonic() < patience
        ):
            time.sleep(0.1)
        said = output.read_text()
        address, token = re.findall(r"^  (?:address|token)\s+(\S+)$", said, re.MULTILINE)
        assert address == f"mark://127.0.0.1:{port}/"
        assert re.search(r"^  certificate  sha256:[0-9a-f]{64}$", said, re.MULTILINE)
        commands = [line.strip() for line in said.splitlines() if line.endswith(" --insecure")]
        answers = [
            subprocess.run(
                ["sh", "-c", line],
                cwd="/",
                env=environment,
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            for line in commands
        ]
        assert [(done.returncode, done.stdout) for done in answers] == [
            (0, "hello world.md\n"),
            (0, "/hello world.md  0.50  Greeting\n"),
            (0, "created /hello.md v1\n"),
        ]
        assert token in commands[2]
        demo.send_signal(signal.SIGINT)
        assert demo.wait(20) == 0
        assert output.read_text().endswith("\nStopped.\n")
        output.unlink()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("files", "words"), [({}, "no markdown"), (None, "no folder")])
def test_what_cannot_be_served(
    environment: dict[str, str], tmp_path: Path, port: int, files: object, words: str
) -> None:
    folder = tmp_path / "folder"
    if files is not None:
        folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", ON_PORT, str(port), str(folder)],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert words in done.stderr
    assert set(os.listdir(tmp_path)) <= {"folder"}


def test_a_port_that_is_taken_is_said_so(environment: dict[str, str], tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        number = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-c", ON_PORT, str(number)],
            cwd=PROJECT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert (
        done.stderr
        == f"scripts/demo: UDP port {number} is taken; stop what listens there (another demo?) and try again\n"
    )
    assert os.listdir(tmp_path) == []
