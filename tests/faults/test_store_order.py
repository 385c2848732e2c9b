"""The order of a write's system calls, syncs above all (store §5.1, §5.3)."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.world.errors import DiskFailure, NotSynced
from app.world.world import Commit
from tests.faults.store_disk import CHANGING, Disk
from tests.unit.world.roots import close_all, everything, plain, put_document, put_version, reopen, snapshot


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk(monkeypatch)
    yield disk
    disk.disarm()
    close_all()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def changes(disk: Disk) -> list[str]:
    """The calls that change something, since the last time."""
    calls, disk.calls = [call for call in disk.calls if call.split()[0] in CHANGING], []
    return calls


def prepared(commit: object) -> Commit:
    assert isinstance(commit, Commit)
    return commit


VERSION = [
    "create .version-*",
    "write .version-*",
    "utime .version-*",
    "fsync .version-*",
    "close .version-*",
    "link v{0}",
    "unlink .version-*",
    "fsync a.md",
]


def test_a_new_document_in_new_directories(root: Path, disk: Disk) -> None:
    world = reopen(root)
    disk.armed = True
    commit = prepared(world.prepare_publish("/d/e/a.md", b"text", {}, 0, 1.0))
    assert changes(disk) == [
        "mkdir d",
        "mkdir e",
        "mkdir versions",
        "mkdir a.md",
        "fsync root",
        "fsync d",
        "fsync e",
        "fsync versions",
        *(call.format(1) for call in VERSION),
        "symlink .pointer-*",
    ]
    commit.show()
    assert changes(disk) == ["rename a.md"]
    commit.settle()
    assert changes(disk) == ["fsync e"]


def test_a_new_version(root: Path, disk: Disk) -> None:
    put_document(root, "/a.md", plain(1, b"one"))
    world = reopen(root)
    disk.armed = True
    commit = prepared(world.prepare_publish("/a.md", b"text", {"retention": "1"}, 1, 1.0))
    assert changes(disk) == [*(call.format(2) for call in VERSION), "symlink .pointer-*"]
    commit.show()
    assert changes(disk) == ["rename a.md"]
    commit.settle()
    assert changes(disk) == ["fsync root", "unlink v1"]


def test_stale_and_torn_files_go_before_the_new_one(root: Path, disk: Disk) -> None:
    put_document(root, "/a.md", plain(1, b"one"))
    put_version(root, "/a.md", 2, b"")
    (root / "a.md.tmp").symlink_to("versions/a.md/v2")
    (root / "versions" / "a.md" / ".archive-state-1").write_bytes(b"")
    world = reopen(root)
    disk.armed = True
    commit = prepared(world.prepare_publish("/a.md", b"text", {}, 1, 1.0))
    assert changes(disk) == [
        "rename v2.torn",
        "unlink .archive-state-1",
        "unlink a.md.tmp",
        *(call.format(3) for call in VERSION),
        "symlink .pointer-*",
    ]
    commit.abandon()
    assert changes(disk) == ["unlink .pointer-*", "unlink v3", "unlink .version-*"]


def test_the_archive_sidecar(root: Path, disk: Disk) -> None:
    put_document(root, "/a.md", plain(1, b"one"))
    world = reopen(root)
    disk.armed = True
    commit = prepared(world.prepare_archive("/a.md"))
    assert [call.split()[0] for call in changes(disk)] == ["create", "fchmod", "write", "fsync", "close"]
    commit.show()
    assert changes(disk) == ["rename archive-state"]
    commit.settle()
    assert changes(disk) == ["fsync a.md"]
    world.archive("/a.md")
    assert changes(disk) == ["fsync a.md"]


def test_nothing_is_synced_or_listed_while_everybody_waits(root: Path, disk: Disk) -> None:
    """`show` is one look and one rename, however many documents there are."""
    for number in range(30):
        put_document(root, f"/{number}.md", plain(1, b"text"))
    world = reopen(root)
    commit = prepared(world.prepare_publish("/a.md", b"text", {}, 0, 1.0))
    disk.armed = True
    commit.show()
    assert disk.calls == ["readlink a.md", "rename a.md"]
    commit.settle()
    disk.calls = []
    disk.armed = False
    commit = prepared(world.prepare_archive("/a.md"))
    disk.armed = True
    commit.show()
    assert disk.calls == ["rename archive-state"]
    commit.settle()


def fail_sync_of(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def fsync(fd: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{fd}")).name == name:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)


def test_a_pointer_that_is_not_synced_is_current_and_owed(
    root: Path, monkeypatch: pytest.MonkeyPatch, disk: Disk
) -> None:
    put_document(root, "/d/a.md", plain(1, b"one"))
    world = reopen(root)
    with monkeypatch.context() as patch:
        fail_sync_of(patch, "d")
        with pytest.raises(NotSynced):
            world.publish("/d/a.md", b"two", {"retention": "1"}, 1, 1.0)
        assert world.current("/d/a.md").body == b"two"
        assert world.by_hash(world.current("/d/a.md").content_hash, everything).version == 2
        assert [number for number, _ in world.history("/d/a.md").versions] == [2, 1]
        with pytest.raises(DiskFailure):
            world.publish("/other.md", b"text", {}, 0, 1.0)
        with pytest.raises(DiskFailure):
            world.publish("/d/a.md", b"two", {"retention": "1"}, 2, 1.0)
    disk.armed = True
    assert not world.publish("/d/a.md", b"two", {"retention": "1"}, 2, 1.0).created
    assert changes(disk) == ["fsync d"]
    world.publish("/d/a.md", b"three", {}, 2, 1.0)
    assert changes(disk)[0] == "create .version-*"


def test_a_state_that_is_not_synced_is_in_force_and_owed(
    root: Path, monkeypatch: pytest.MonkeyPatch, disk: Disk
) -> None:
    put_document(root, "/a.md", plain(1, b"one"))
    world = reopen(root)
    with monkeypatch.context() as patch:
        fail_sync_of(patch, "a.md")
        with pytest.raises(NotSynced):
            world.archive("/a.md")
    assert world.current("/a.md").archived
    assert len(world.catalog) == 0
    disk.armed = True
    world.publish("/b.md", b"text", {}, 0, 1.0)
    assert changes(disk)[0] == "fsync a.md"


def test_an_owed_sync_of_what_is_gone_is_forgotten(
    root: Path, monkeypatch: pytest.MonkeyPatch, disk: Disk
) -> None:
    put_document(root, "/d/a.md", plain(1, b"one"))
    world = reopen(root)
    with monkeypatch.context() as patch:
        fail_sync_of(patch, "d")
        with pytest.raises(NotSynced):
            world.publish("/d/a.md", b"two", {}, 1, 1.0)
    (root / "d").rename(root / "away")
    assert world.publish("/b.md", b"text", {}, 0, 1.0).created


@pytest.mark.parametrize("name", ["root", "d", "e", "versions"])
def test_a_directory_that_cannot_be_synced_is_taken_back(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    world = reopen(root)
    with monkeypatch.context() as patch:
        fail_sync_of(patch, name)
        with pytest.raises(DiskFailure):
            world.publish("/d/e/a.md", b"text", {}, 0, 1.0)
    assert snapshot(root) == {}
    assert not world.is_directory("/d")
    assert world.publish("/d/e/a.md", b"text", {}, 0, 1.0).created


def test_a_directory_that_must_stay_is_owed_its_sync(
    root: Path, monkeypatch: pytest.MonkeyPatch, disk: Disk
) -> None:
    world = reopen(root)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(16, "Device or resource busy")

    with monkeypatch.context() as patch:
        fail_sync_of(patch, "d")
        patch.setattr(os, "rmdir", refuse)
        with pytest.raises(DiskFailure):
            world.publish("/d/a.md", b"text", {}, 0, 1.0)
    assert set(snapshot(root)) == {"d", "d/versions", "d/versions/a.md"}
    disk.armed = True
    world.publish("/d/a.md", b"text", {}, 0, 1.0)
    assert changes(disk)[:4] == ["fsync root", "fsync d", "fsync versions", "create .version-*"]
    disk.armed = False
    close_all()
    assert reopen(root).current("/d/a.md").body == b"text"
