"""What tests need from Debian, or the cure where it cannot be installed."""

import subprocess
from pathlib import Path

_NEED = Path(__file__).parents[1] / "scripts" / "need"


def need(*programs: str) -> None:
    """Sees to programs, each given as `PROGRAM:PACKAGE`; a path of a file will do for a program. Fails with what to install."""
    done = subprocess.run([_NEED, *programs], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
