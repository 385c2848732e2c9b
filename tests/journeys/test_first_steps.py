"""The manual's first steps are pasted line by line, as a newcomer does it, and every line does what it should."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "app" / "manual" / "start.md"
BACKUP = PAGE.parent / "board" / "backup.md"


def lines(page: Path) -> list[str]:
    """The command lines of a page, in order."""
    blocks = re.findall(r"^```\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_first_steps_can_be_pasted(tmp_path: Path) -> None:
    port = free_port()
    clone = tmp_path / "clone"
    (clone / "scripts").mkdir(parents=True)
    (clone / ".venv").symlink_to(Path(sys.executable).parent.parent)
    (clone / "scripts" / "venv").symlink_to("/bin/true")  # the environment is there already
    shutil.copytree(PROJECT / "app" / "manual", clone / "app" / "manual")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DEMARKUS_")}
    environment |= {"HOME": str(tmp_path), "DEMARKUS_PORT": str(port)}
    log_file = tmp_path / "log"
    before = set(clone.iterdir())
    (backup,) = (line for line in lines(BACKUP) if line.startswith("demarkus-appliance backup "))
    said = ""
    server: subprocess.Popen[bytes] | None = None
    try:
        for line in [*lines(PAGE), backup]:
            line = line.replace("mark://127.0.0.1/", f"mark://127.0.0.1:{port}/")
            if line.startswith("export PATH="):
                environment["PATH"] = f"{clone}/.venv/bin:{environment['PATH']}"
                continue
            if " serve " in line:
                with log_file.open("wb") as log:
                    server = subprocess.Popen(line.split(), cwd=clone, env=environment, stderr=log)
                patience = time.monotonic() + 30
                while "server started" not in log_file.read_text():
                    assert server.poll() is None
                    assert time.monotonic() < patience
                    time.sleep(0.05)
                continue
            done = subprocess.run(
                ["sh", "-c", line],
                cwd=clone,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, f"{line}: {done.stderr}"
            said += done.stdout
        assert server is not None
        server.send_signal(signal.SIGINT)
        assert server.wait(15) == 0
    finally:
        if server is not None and server.poll() is None:
            server.kill()
            server.wait()
    assert f"{len(list(clone.rglob('app/manual/**/*.md')))} created, 0 unchanged, 0 left out\n" in said
    assert "Server is healthy.\n" in said
    assert "\nstart.md\n" in said
    assert "/manual/tokens.md" in said
    assert "created /logs/pump.md v1\ncreated /logs/pump.md v2\nv2  " in said
    assert (clone / "token").stat().st_mode & 0o077 == 0
    assert "\nwith tokens from tokens.toml\nwith certificate sha256:" in said
    ignored = (PROJECT / ".gitignore").read_text().split()
    made = {path.name for path in set(clone.iterdir()) - before}
    assert {"world", "token", "tokens.toml"} <= made
    assert [name for name in made if not any(fnmatch(f"/{name}", one.rstrip("/")) for one in ignored)] == []
