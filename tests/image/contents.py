"""What has to be true of an image before anybody boots it: its layout, that its boot loaders find their files, and that it knows no secret.

    python -m tests.image.contents IMAGE

Reads the file with the tools that made it (sfdisk, mtools, debugfs), mounts nothing and needs no root. A key, token or identity in an image would
be the same on every card that is made from it, and known to all.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

MEBIBYTE = 1 << 20
PARTITIONS = ("demarkus-boot", "demarkus-root", "demarkus-state")
GAP = (8 << 10, 16 << 20)
"""Where processors look for their board's boot loader; nothing of the image may be there."""

IDENTITIES = re.compile(
    r"(^|/)(machine-id|random-seed|credential\.secret|ssh_host_[^/]*key|certificate\.pem|authorized_keys|\.bash_history)$"
)
"""Files that a first boot makes, or a careless build leaves."""

PRIVATE = re.compile(rb"PRIVATE KEY-----|OPENSSH PRIVATE|\b[0-9a-f]{64}\b")
"""Keys, and tokens as they are written."""

OWN = ("etc", "root", "home", "var")
"""The folders whose files are read; programs and libraries hold the words that surround a key."""

PACKAGE_LISTS = ("var/lib/dpkg/", "var/lib/apt/", "var/lib/pam/", "etc/ssl/")


def faults(image: Path) -> list[str]:
    """What is wrong with an image; nothing if it is as it should be."""
    found = []
    table = json.loads(_said("sfdisk", "--json", str(image)))["partitiontable"]
    parts = {part.get("name"): part for part in table["partitions"]}
    if (table["label"], tuple(parts)) != ("gpt", PARTITIONS):
        return [f"the partitions are {table['label']} {tuple(parts)}"]
    start = {name: part["start"] * 512 for name, part in parts.items()}
    if start["demarkus-boot"] < GAP[1]:
        found.append("the first partition begins where a boot loader goes")
    with image.open("rb") as file:
        file.seek(GAP[0])
        if file.read(GAP[1] - GAP[0]).strip(b"\0"):
            found.append("there is something where a boot loader goes")
    with tempfile.TemporaryDirectory(prefix="demarkus-contents-") as scratch:
        boot, root = Path(scratch, "boot"), Path(scratch, "root")
        boot.mkdir()
        root.mkdir()
        _said("mcopy", "-s", "-n", "-Q", "-i", f"{image}@@{start['demarkus-boot']}", "::/*", str(boot))
        _said("debugfs", "-R", f"rdump / {root}", f"{image}?offset={start['demarkus-root']}")
        if any((root / "var").iterdir()):
            found.append("the root holds something in /var")
        _said("debugfs", "-R", f"rdump / {root / 'var'}", f"{image}?offset={start['demarkus-state']}")
        found += _boot_faults(boot)
        found += _secrets(root)
    return found


def _said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8", errors="replace").stdout


def _boot_faults(boot: Path) -> Iterator[str]:
    """Files that a boot loader is told of, and will not find."""
    if not list((boot / "EFI/BOOT").glob("BOOT*.EFI")):
        yield "no boot loader for EFI"
    told = list(boot.glob("loader/entries/*.conf")) + list(boot.glob("extlinux/extlinux.conf"))
    if (boot / "devicetrees").is_dir() and boot / "extlinux/extlinux.conf" not in told:
        yield "no extlinux.conf for U-Boot"
    for file in told:
        named = re.findall(r"^\s*(?:linux|initrd|fdtdir|devicetree)\s+(\S+)$", file.read_text(), re.MULTILINE)
        if len(named) < 2:
            yield f"{file.relative_to(boot)} names no kernel or no initrd"
        for path in named:
            if not (boot / path.lstrip("/")).exists():
                yield f"{file.relative_to(boot)} names {path}, which is not there"


def _secrets(root: Path) -> Iterator[str]:
    """Files that hold a secret or an identity, or that exist only to hold one."""
    for folder in OWN:
        for below, _, names in os.walk(root / folder):
            for name in names:
                path = Path(below, name)
                shown = str(path.relative_to(root))
                if path.is_symlink() or not path.is_file():
                    continue
                content = path.read_bytes()
                if IDENTITIES.search(shown) and content:
                    yield f"/{shown} is an identity"
                elif shown == "etc/shadow":
                    yield from _passwords(content.decode())
                elif not shown.startswith(PACKAGE_LISTS) and PRIVATE.search(content):
                    yield f"/{shown} holds a key or a token"


def _passwords(shadow: str) -> Iterator[str]:
    for line in shadow.splitlines():
        name, password = line.split(":")[:2]
        if not password.startswith(("*", "!")):
            yield f"/etc/shadow: {name} has a password, or needs none"


def main(image: str) -> int:
    found = faults(Path(image))
    for fault in found:
        print(f"WRONG {fault}")
    if not found:
        print("ok    the image: layout, boot files, no secret")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
