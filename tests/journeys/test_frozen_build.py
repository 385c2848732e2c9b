"""That whoever builds the one executable gets the same one."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.journeys.conftest import PROJECT


def test_the_same_sources_in_another_folder_give_the_same_bytes(frozen: Path, tmp_path: Path) -> None:
    """Report 55. Another name with a blank in it, an environment made anew, another time zone and another hash seed."""
    copy = tmp_path / "a clone (2)"
    for folder in ("app", "deploy", "scripts"):
        shutil.copytree(PROJECT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    before = frozen.read_bytes()
    done = subprocess.run(
        [copy / "scripts" / "build"],
        env=os.environ | {"TZ": "Pacific/Chatham", "PYTHONHASHSEED": "7", "TMPDIR": str(tmp_path)},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "dist/demarkus-appliance\n"
    made = (copy / "dist" / "demarkus-appliance").read_bytes()
    same = made == before
    assert same, differing(before, made)


def differing(one: bytes, other: bytes) -> str:
    """Where the two begin to differ."""
    first = next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), -1)
    return f"{len(one)} and {len(other)} bytes, from {first} on: {one[first - 40 : first + 40]!r}"
