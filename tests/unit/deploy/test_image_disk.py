"""A disk image made of small folders: its layout, that it is the same each time, and that what must not be in an image is found.

The real `deploy/image/disk` makes it and the real check of scripts/test-image reads it; both are the ones that the whole image goes through.
"""

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.debian import need
from tests.image.contents import faults

PROJECT = Path(__file__).resolve().parents[3]
TOOLS = ("sfdisk:fdisk", "mcopy:mtools", "mkfs.vfat:dosfstools", "mke2fs:e2fsprogs", "debugfs:e2fsprogs")

Folders = tuple[Path, Path]


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    need(*TOOLS)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """A root and a boot partition with as little in them as there can be."""
    root, boot = tmp_path / "root", tmp_path / "boot"
    for folder in ("etc", "home", "root", "usr/bin", "var/lib/demarkus-appliance/tokens"):
        (root / folder).mkdir(parents=True)
    (root / "etc/machine-id").touch()
    (root / "etc/shadow").write_text("root:*:19000:0:99999:7:::\ndemarkus:!:19000::::::\n")
    (root / "usr/bin/program").write_bytes(b"-----BEGIN PRIVATE KEY-----")  # a program that knows the words
    (root / "var/lib/demarkus-appliance/tokens/tokens.toml").touch()
    shutil.copytree(PROJECT / "deploy/image/boot", boot)
    (boot / "EFI/BOOT").mkdir(parents=True)
    (boot / "devicetrees").mkdir()
    for file in ("EFI/BOOT/BOOTAA64.EFI", "vmlinuz", "initrd"):
        (boot / file).write_bytes(file.encode())
    return root, boot


@pytest.fixture
def make(tmp_path: Path) -> Callable[[Folders], Path]:
    def made(folders: Folders) -> Path:
        image = tmp_path / "image"
        image.unlink(missing_ok=True)
        subprocess.run([PROJECT / "deploy/image/disk", "arm64", *folders, image], check=True)
        return image

    return made


def digest(image: Path) -> str:
    with image.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def test_an_image_as_it_should_be(folders: Folders, make: Callable[[Folders], Path]) -> None:
    assert faults(make(folders)) == []


def test_the_same_folders_give_the_same_image(folders: Folders, make: Callable[[Folders], Path]) -> None:
    first = digest(make(folders))
    assert digest(make(folders)) == first
    (folders[0] / "usr/bin/program").write_text("another")
    assert digest(make(folders)) != first


def test_file_systems_are_sound_and_the_table_leaves_room(
    folders: Folders, make: Callable[[Folders], Path], tmp_path: Path
) -> None:
    image = make(folders)
    for line in subprocess.check_output(["sfdisk", "--dump", image], encoding="utf-8").splitlines():
        if "demarkus-boot" in line or ", size=" not in line:
            continue
        start = int(line.split("start=")[1].split(",")[0])
        size = int(line.split("size=")[1].split(",")[0])
        part = tmp_path / "part"
        with image.open("rb") as file, part.open("wb") as out:
            file.seek(start * 512)
            out.write(file.read(size * 512))
        subprocess.run(["e2fsck", "-f", "-n", part], check=True, capture_output=True)
    entries = image.read_bytes()[512 + 80 : 512 + 84]
    assert (
        1024 + int.from_bytes(entries, "little") * 128 <= 8 << 10
    )  # the table ends where Allwinner's boot loader begins


PLANTED = {
    "etc/machine-id": ("0123456789abcdef0123456789abcdef\n", "identity"),
    "var/etc/machine-id": ("0123456789abcdef0123456789abcdef\n", "identity"),
    "var/lib/systemd/random-seed": ("seed", "identity"),
    "etc/ssh/ssh_host_ed25519_key": ("key", "identity"),
    "var/lib/demarkus-appliance/certificate.pem": ("certificate", "identity"),
    "root/key.pem": ("-----BEGIN EC PRIVATE KEY-----", "key or a token"),
    "home/notes": (f"token {'ab' * 32}", "key or a token"),
    "var/lib/demarkus-appliance/tokens/tokens.toml": (f'"{"0a" * 32}"', "key or a token"),
    "etc/shadow": ("root::19000:0:99999:7:::\n", "password"),
}


def test_secrets_are_found(folders: Folders, make: Callable[[Folders], Path]) -> None:
    for path, (content, _) in PLANTED.items():
        file = folders[0] / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    found = {fault.split()[0].rstrip(":").lstrip("/"): fault for fault in faults(make(folders))}
    assert set(found) == set(PLANTED)
    assert all(word in found[path] for path, (_, word) in PLANTED.items())


def test_files_that_a_boot_loader_needs_are_missed(folders: Folders, make: Callable[[Folders], Path]) -> None:
    lost = ("vmlinuz", "initrd", "devicetrees", "EFI")
    for name in lost:
        gone = folders[1] / name
        if gone.is_dir():
            shutil.rmtree(gone)
        else:
            gone.unlink()
    found = faults(make(folders))
    assert found[0] == "no boot loader for EFI"
    named = [
        "/vmlinuz",
        "/initrd",
        "/devicetrees",
        "/vmlinuz",
        "/initrd",
    ]  # U-Boot's two and its folder, EFI's two
    assert sorted(fault.split()[2].rstrip(",") for fault in found[1:]) == sorted(named)


def test_room_for_a_boot_loader_is_kept(folders: Folders, make: Callable[[Folders], Path]) -> None:
    image = make(folders)
    with image.open("r+b") as file:
        file.seek(32 << 10)
        file.write(b"something")
    assert faults(image) == ["there is something where a boot loader goes"]
