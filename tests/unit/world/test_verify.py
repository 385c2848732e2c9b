"""Every pointer, sidecar and chain of a root is checked, and each fault is named."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.world.errors import BadRoot
from app.world.verify import Tally, verify
from tests.unit.world.roots import (
    PUMP_1,
    PUMP_2,
    folder_of,
    plain,
    point,
    put_document,
    put_version,
    reopen,
    snapshot,
)

PUMP = "/logs/pump.md"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put_document(tmp_path, PUMP, PUMP_1, PUMP_2)
    put_document(tmp_path, "/.hidden/a.md", plain(1, b"a"))
    (folder_of(tmp_path, "/.hidden/a.md") / "archive-state").write_bytes(b"true\n")
    return tmp_path


def test_a_sound_root_has_no_faults(root: Path) -> None:
    world = reopen(root)
    world.publish("/b.md", b"b", {"retention": "1"}, None, 0)
    world.publish("/b.md", b"c", {"retention": "1"}, None, 0)
    world.archive("/b.md")
    (root / "logs" / "pump.md.tmp").symlink_to("versions/pump.md/v3")
    (folder_of(root, PUMP) / ".archive-state-1").write_bytes(b"")
    (root / "versions" / "empty.md").mkdir()
    (root / "flat.txt").write_text("not a document")
    (root / "logs" / "flat.md").write_text("not a document")
    tally = Tally()
    assert list(verify(str(root), tally)) == []
    assert (tally.documents, tally.versions, tally.plain) == (3, 4, ["/logs/flat.md"])


def two_behind(root: Path) -> None:
    reopen(root).publish(PUMP, b"three", {}, None, 0)
    point(root, PUMP, 1)


def remove_pointer(root: Path) -> None:
    (root / "logs" / "pump.md").unlink()


def flatten_pointer(root: Path) -> None:
    remove_pointer(root)
    (root / "logs" / "pump.md").write_bytes(PUMP_2)


def foreign_pointer(root: Path) -> None:
    remove_pointer(root)
    (root / "logs" / "pump.md").symlink_to("versions/../versions/pump.md/v2")


def damage_sidecar(root: Path) -> None:
    (folder_of(root, PUMP) / "archive-state").write_bytes(b"?")


def remove_versions(root: Path) -> None:
    for version in folder_of(root, PUMP).iterdir():
        version.unlink()


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda root: put_version(root, PUMP, 1, PUMP_1 + b"edited"), "/logs/pump.md: v2 does not name the hash of the version before it"),
        (two_behind, "/logs/pump.md: the pointer is versions/pump.md/v1, the newest version is v3"),
        (lambda root: point(root, PUMP, 9), "/logs/pump.md: the pointer is versions/pump.md/v9, the newest version is v2"),
        (foreign_pointer, "/logs/pump.md: the pointer is versions/../versions/pump.md/v2, the newest version is v2"),
        (flatten_pointer, "/logs/pump.md: the pointer is a file, not a symlink"),
        (remove_pointer, "/logs/pump.md: has versions but no pointer"),
        (damage_sidecar, "/logs/pump.md: archive-state is malformed"),
        (remove_versions, "/logs/pump.md: the pointer leads to no version"),
        (lambda root: (root / "x.md").symlink_to("nowhere"), "/x.md: the pointer leads to no version"),
        (lambda root: put_document(root, "/c.md", b"no block"), "/c.md: v1: no metadata block"),
        (lambda root: put_version(root, PUMP, 1, b"x" * 2_000_000), "/logs/pump.md: v1: 2000000 bytes, more than a version may have"),
    ],
)  # fmt: skip
def test_a_fault_is_named(root: Path, spoil: Callable[[Path], object], fault: str) -> None:
    spoil(root)
    before = snapshot(root)
    assert list(verify(str(root))) == [fault]
    assert snapshot(root) == before


@pytest.mark.parametrize(
    ("cut", "note"),
    [
        (lambda root: put_version(root, PUMP, 3, b""), "/logs/pump.md: v3 is torn: empty; it was never acknowledged, and is set aside"),
        (lambda root: point(root, PUMP, 1), "/logs/pump.md: the write of version 2 was cut short; version 1 is served until the next one"),
    ],
)  # fmt: skip
def test_what_a_power_cut_leaves_is_told_and_no_fault(
    root: Path, cut: Callable[[Path], object], note: str
) -> None:
    cut(root)
    tally = Tally()
    assert list(verify(str(root), tally)) == []
    assert tally.unfinished == [note]
    world = reopen(root)  # and the next write ends it
    path = note.partition(":")[0]
    world.publish(path, b"goes on", {}, None, 0)
    world.close()
    tally = Tally()
    assert list(verify(str(root), tally)) == []
    assert tally.unfinished == []


def test_the_old_layout_is_named_and_left_alone(root: Path) -> None:
    (root / "versions").mkdir()
    (root / "versions" / "a.md.v1").write_bytes(plain(1, b"a"))
    assert list(verify(str(root))) == ["/: holds versions in the old layout"]
    assert (root / "versions" / "a.md.v1").exists()


def test_a_directory_that_cannot_be_read_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def opened(path: str | bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == b"logs":
            raise PermissionError(13, "Permission denied")
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", opened)
    assert list(verify(str(root))) == ["/logs: cannot be read: Permission denied"]


def test_what_cannot_be_read_is_named_by_its_document_and_is_not_called_torn(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_document(root, "/locked.md", plain(1, b"a"))
    put_document(root, "/half.md", plain(1, b"a"))
    put_version(root, "/half.md", 2, b"x" * 2_000_000)
    real = os.open

    def opened(path: str | bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == b"locked.md":
            raise PermissionError(13, "Permission denied")
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", opened)
    assert list(verify(str(root))) == [
        "/locked.md: its versions cannot be read: Permission denied",
        "/half.md: v2 cannot be read: 2000000 bytes, more than a version may have",
    ]


def test_a_root_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadRoot):
        list(verify(str(tmp_path / "none")))
