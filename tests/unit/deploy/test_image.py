"""The recipe of the image, as far as it shows without booting: its files agree with each other, with the package, and with what boot loaders want."""

import re
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
IMAGE = PROJECT / "deploy" / "image"
ROOT = IMAGE / "root"
EXTLINUX = IMAGE / "boot" / "extlinux" / "extlinux.conf"
ENTRY = IMAGE / "boot" / "loader" / "entries" / "demarkus.conf"
LABELS = {"demarkus-boot", "demarkus-root", "demarkus-state"}


def named(file: Path) -> dict[str, str]:
    """The last value of every word that begins a line."""
    lines = (line.split(maxsplit=1) for line in file.read_text().splitlines() if not line.startswith("#"))
    return {line[0]: line[1] for line in lines if len(line) == 2}


def unit(file: str) -> ConfigParser:
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(ROOT / file)
    return parser


def mounts() -> dict[str, list[str]]:
    lines = (line.split() for line in (ROOT / "etc/fstab").read_text().splitlines())
    return {fields[1]: fields for fields in lines if fields and fields[0] != "#"}


def test_both_boot_loaders_start_the_same() -> None:
    u_boot, efi = named(EXTLINUX), named(ENTRY)
    assert u_boot["default"] == u_boot["label"]
    assert (u_boot["linux"], u_boot["initrd"], u_boot["append"]) == (
        efi["linux"],
        efi["initrd"],
        efi["options"],
    )


def test_the_boot_loaders_are_told_of_files_that_the_build_makes() -> None:
    fill = (IMAGE / "fill").read_text()
    for key in ("linux", "initrd", "fdtdir"):
        assert f'"$boot{named(EXTLINUX)[key]}"' in fill


def test_the_device_trees_of_the_boards_we_name_are_taken_along() -> None:
    makers = re.search(r"for maker in ([a-z ]+);", (IMAGE / "fill").read_text())
    assert makers is not None
    assert {"allwinner", "broadcom", "rockchip"} <= set(makers[1].split())


def test_an_unattended_board_starts_again_after_a_panic() -> None:
    assert re.search(r"\bpanic=[1-9]", named(EXTLINUX)["append"])


def test_the_root_is_read_only_and_the_state_is_not() -> None:
    found = mounts()
    assert found["/"][3].split(",")[0] == "ro"
    assert "ro" not in found["/var"][3].split(",")
    assert "x-systemd.growfs" in found["/var"][3].split(",")
    assert "noexec" not in found["/var"][3].split(",")  # the executable unpacks below /var/cache
    assert found["/tmp"][2] == "tmpfs"


def test_everybody_means_the_same_partitions() -> None:
    disk = (IMAGE / "disk").read_text()
    assert set(re.findall(r"name=([\w-]+)", disk)) == LABELS
    assert {fields[0].partition("=")[2] for fields in mounts().values() if "=" in fields[0]} == LABELS
    assert set(re.findall(r"partition (demarkus-\w+)", (IMAGE / "init").read_text())) < LABELS
    assert unit("usr/lib/repart.d/50-state.conf")["Partition"]["Label"] in LABELS


def test_the_partition_that_grows_is_the_last_and_the_only_one_of_its_type() -> None:
    types = re.findall(r"type=([\w$-]+),", (IMAGE / "disk").read_text())
    assert unit("usr/lib/repart.d/50-state.conf")["Partition"]["Type"] == "var"
    assert types[-1] == "4D21B016-B534-45C2-A9FB-5C16E091FD2D"  # what systemd-repart calls var
    assert types.count(types[-1]) == 1


def test_the_journal_stays_in_memory() -> None:
    assert unit("etc/systemd/journald.conf.d/memory.conf")["Journal"]["Storage"] == "volatile"


def test_the_board_answers_to_its_name() -> None:
    assert unit("etc/systemd/resolved.conf.d/local-name.conf")["Resolve"]["MulticastDNS"] == "yes"
    assert unit("etc/systemd/network/wired.network")["Network"]["MulticastDNS"] == "yes"
    name = (ROOT / "etc/hostname").read_text().strip()
    assert f"{name}.local" in (ROOT / "etc/systemd/resolved.conf.d/local-name.conf").read_text()


def test_the_clock_is_saved_where_it_survives_and_where_the_time_service_reads_it() -> None:
    command = unit("etc/systemd/system/saved-clock.service")["Service"]["ExecStart"]
    stop = unit("etc/systemd/system/systemd-timesyncd.service.d/saved-clock.conf")["Service"]["ExecStopPost"]
    assert command == stop == "/usr/bin/touch /var/lib/systemd/timesync/clock"
    assert "saved-clock.timer" in (IMAGE / "fill").read_text()


def test_nothing_in_the_recipe_is_a_way_in_over_the_network_or_a_secret() -> None:
    packages = re.search(r"^packages=(.*)$", (IMAGE / "base").read_text(), re.MULTILINE)
    assert packages is not None
    assert not {"openssh-server", "dropbear", "telnetd"} & set(packages[1].split(","))
    for file in ROOT.rglob("*"):
        if file.is_file():
            text = file.read_text()
            assert not re.search(r"PRIVATE KEY|\b[0-9a-f]{32,}\b", text), file
    assert not (ROOT / "etc/machine-id").exists()
    assert not (ROOT / "etc/shadow").exists()


@pytest.mark.parametrize("script", ["base", "build", "disk", "fill", "init"])
def test_the_scripts_are_ones_that_a_shell_can_read(script: str) -> None:
    done = subprocess.run(["sh", "-n", IMAGE / script], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_init_uses_nothing_but_busybox() -> None:
    """The initrd holds no other program: every command is a shell builtin, a function of its own, or called through $b."""
    allowed = {
        "say",
        "load_drivers",
        "partition",
        "echo",
        "exec",
        "return",
        "[",
        "until",
        "do",
        "done",
        "if",
        "then",
        "fi",
        "found=",
        "}",
    }
    for line in (IMAGE / "init").read_text().splitlines():
        word = line.split()[0] if line.split() else "#"
        if word.startswith(("#", "$b", '"')) or "()" in line or re.match(r"\w+=", word):
            continue
        assert word in allowed, line
