"""What systemd says about the shipped units: that it understands every line, and how much they leave open.

Only systemd itself knows, so its own tools are asked, without a running systemd: the units are read below a root made for the purpose.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
UNITS = PROJECT / "systemd"
SERVICE = "demarkus-appliance.service"
EXPOSURE_MAX = 1.5


@pytest.fixture(scope="session", autouse=True)
def systemd_analyze() -> str:
    """The tool; a machine that lacks it gets it."""
    if shutil.which("systemd-analyze") is None:
        assert os.getuid() == 0, "systemd-analyze is needed; install it: sudo apt-get install systemd"
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "systemd"], check=True)
    found = shutil.which("systemd-analyze")
    assert found is not None
    return found


def directives(unit: str) -> list[tuple[str, str]]:
    lines = (UNITS / unit).read_text().splitlines()
    return [
        (key, value)
        for key, equals, value in (line.partition("=") for line in lines)
        if equals and key[0] != "#"
    ]


def test_systemd_understands_every_line(systemd_analyze: str, tmp_path: Path) -> None:
    for program in ("usr/bin/env", "usr/bin/demarkus-appliance", "bin/kill"):
        (tmp_path / program).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / program).write_text("#!/bin/sh\n")
        (tmp_path / program).chmod(0o755)
    folder = tmp_path / "usr/lib/systemd/system"
    folder.mkdir(parents=True)
    shutil.copy(UNITS / SERVICE, folder)
    for unit in ("sysinit.target", "basic.target", "shutdown.target", "network.target", "multi-user.target"):
        (folder / unit).write_text("[Unit]\nDefaultDependencies=no\n")
    for slice_ in ("-.slice", "system.slice"):
        (folder / slice_).write_text("[Unit]\nDefaultDependencies=no\n")
    done = subprocess.run(
        [systemd_analyze, "verify", "--man=no", f"--root={tmp_path}", SERVICE],
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_service_leaves_little_open(systemd_analyze: str) -> None:
    done = subprocess.run(
        [systemd_analyze, "security", "--offline=true", "--no-pager", str(UNITS / SERVICE)],
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=True,
    )
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found is not None
    assert float(found[1]) <= EXPOSURE_MAX, done.stdout


def test_the_service_is_one_that_an_unattended_board_needs() -> None:
    given = dict(directives(SERVICE))
    assert given["Restart"] == "always"
    assert given["StartLimitIntervalSec"] == "0"
    assert given["Type"] == "notify"
    assert given["NotifyAccess"] == "all"  # the server is not the process that systemd started
    assert given["KillMode"] == "control-group"  # that process has an unpacked folder to remove
    assert "--ignore-signal=HUP" in given["ExecStart"]
    assert given["MemoryMax"].endswith("%")


def test_it_unpacks_where_execution_is_allowed() -> None:
    given = directives(SERVICE)
    temporary = next(value for key, value in given if key == "Environment" and value.startswith("TMPDIR="))
    folder = temporary.partition("=")[2]
    assert folder == "%C/" + dict(given)["CacheDirectory"]
    assert folder in dict(given)["ExecPaths"].split()


def test_every_variable_in_the_unit_is_a_setting() -> None:
    from app.server.settings import TABLE

    names = {value.partition("=")[0] for key, value in directives(SERVICE) if key == "Environment"}
    assert names - {"TMPDIR"} <= {setting.variable for setting in TABLE}
