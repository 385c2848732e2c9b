"""What systemd says about the shipped units: that it understands every line, and how much they leave open.

Only systemd itself knows, so its own tools are asked, without a running systemd: the units are read below a root made for the purpose.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.debian import need

PROJECT = Path(__file__).resolve().parents[2]
UNITS = PROJECT / "systemd"
SERVICE = "demarkus-appliance.service"
SOCKET = "demarkus-appliance.socket"
CARD = "demarkus-appliance-card.service"
ISOLATED = "demarkus-appliance.isolated.conf"
UNITS_FOLDER = "usr/lib/systemd/system"


@pytest.fixture(scope="session", autouse=True)
def systemd_analyze() -> str:
    need("systemd-analyze:systemd")
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


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with the units, the programs they start and what they stand beside, but without the drop-in of the socket form."""
    for program in ("usr/bin/env", "usr/bin/demarkus-appliance", "bin/kill"):
        (tmp_path / program).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / program).write_text("#!/bin/sh\n")
        (tmp_path / program).chmod(0o755)
    folder = tmp_path / UNITS_FOLDER
    folder.mkdir(parents=True)
    for unit in (SERVICE, SOCKET, CARD):
        shutil.copy(UNITS / unit, folder)
    targets = ("sysinit", "basic", "shutdown", "network", "network-online", "sockets", "multi-user")
    for unit in (*(f"{target}.target" for target in targets), "-.slice", "system.slice"):
        (folder / unit).write_text("[Unit]\nDefaultDependencies=no\n")
    return tmp_path


def isolate(root: Path) -> None:
    """Puts the drop-in of the socket form in force."""
    folder = root / UNITS_FOLDER / f"{SERVICE}.d"
    folder.mkdir()
    shutil.copy(UNITS / ISOLATED, folder / "isolated.conf")


def exposure(tool: str, root: Path, unit: str) -> tuple[float, str]:
    """What systemd thinks of a unit, from 0 to 10, and why."""
    done = subprocess.run(
        [tool, "security", "--offline=true", "--no-pager", f"--root={root}", unit],
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=True,
    )
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found is not None
    return float(found[1]), done.stdout


@pytest.mark.parametrize("isolated", [False, True], ids=["alone", "with its socket"])
def test_systemd_understands_every_line(systemd_analyze: str, root: Path, isolated: bool) -> None:
    if isolated:
        isolate(root)
    done = subprocess.run(
        [systemd_analyze, "verify", "--man=no", f"--root={root}", SERVICE, SOCKET, CARD],
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("unit", "isolated", "most"), [(SERVICE, False, 1.5), (SERVICE, True, 0.6), (CARD, False, 1.0)]
)
def test_the_units_leave_little_open(
    systemd_analyze: str, root: Path, unit: str, isolated: bool, most: float
) -> None:
    if isolated:
        isolate(root)
    found, why = exposure(systemd_analyze, root, unit)
    assert found <= most, why


def test_the_isolated_service_has_what_it_inherits_and_no_other_network() -> None:
    given = directives(ISOLATED)
    assert ("PrivateNetwork", "yes") in given
    assert [value for key, value in given if key == "RestrictAddressFamilies"] == ["", "AF_UNIX"]
    assert [value for key, value in given if key in ("Requires", "After")] == [SOCKET, SOCKET]
    socket = dict(directives(SOCKET))
    assert (socket["ListenDatagram"], socket["BindIPv6Only"]) == ("6309", "both")
    assert socket["ReceiveBuffer"] == socket["SendBuffer"] == "4M"  # as datagrams.BUFFER


def test_the_card_goes_to_the_console_alone_and_is_due_while_there_is_no_token() -> None:
    given = dict(directives(CARD))
    assert (given["StandardOutput"], given["TTYPath"]) == ("tty", "/dev/console")
    assert given["ConditionFileNotEmpty"] == "!%S/demarkus-appliance/tokens/tokens.toml"
    tokens = [value for key, value in directives(SERVICE) if value.startswith("DEMARKUS_TOKENS=")]
    assert tokens == ["DEMARKUS_TOKENS=" + given["ConditionFileNotEmpty"].removeprefix("!")]
    assert "RuntimeDirectory" not in given  # it is the service's, and would go with the card


@pytest.mark.parametrize(
    "key", ["SystemCallFilter", "ExecPaths", "NoExecPaths", "ProtectSystem", "PrivateUsers"]
)
def test_the_card_is_confined_as_the_service_is(key: str) -> None:
    both = [[value for name, value in directives(unit) if name == key] for unit in (SERVICE, CARD)]
    assert both[0] == both[1] != []


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


def test_commands_look_where_the_service_has_its_files() -> None:
    from app.commands.places import SERVICE as PLACES
    from app.commands.places import SERVICE_SETTINGS

    given = [value.partition("=")[::2] for key, value in directives(SERVICE) if key == "Environment"]
    assert {name: path.replace("%S", "/var/lib") for name, path in given if name != "TMPDIR"} == PLACES
    assert dict(directives(SERVICE))["EnvironmentFile"] == f"-{SERVICE_SETTINGS}"


def test_every_variable_in_the_unit_is_a_setting() -> None:
    from app.server.settings import TABLE

    names = {value.partition("=")[0] for key, value in directives(SERVICE) if key == "Environment"}
    assert names - {"TMPDIR"} <= {setting.variable for setting in TABLE}


def test_how_to_reload_is_told_wherever_one_looks_for_it() -> None:
    from app.commands import reload
    from app.server.settings import help_text

    given = dict(directives(SERVICE))
    assert given["ExecReload"] == f"/usr/bin/demarkus-appliance {reload.COMMAND.name}"
    assert "SIGHUP reloads" in help_text()
    assert f"`{reload.COMMAND.name}`" in (PROJECT / "README.md").read_text("utf-8")
