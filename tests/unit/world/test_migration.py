"""From the old layout to the present one (store §10): once, again, and after stopping at every system call."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from app.world.errors import BadRoot, Missing
from tests.unit.world.roots import PUMP_1, PUMP_2, folder_of, plain, put_document, reopen, snapshot

PUMP = "/logs/pump.md"


def put_old(root: Path, path: str, *versions: bytes, pointed: int | None = None) -> None:
    """A document in the old layout."""
    file = root / path[1:]
    (file.parent / "versions").mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(versions, 1):
        (file.parent / "versions" / f"{file.name}.v{number}").write_bytes(data)
    file.symlink_to(f"versions/{file.name}.v{pointed or len(versions)}")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    put_old(root, PUMP, PUMP_1, PUMP_2)
    put_old(root, "/.well-known/a.v3.md", plain(1, b"dotted"))
    put_old(root, "/behind.md", plain(1, b"one"), plain(2, b"two"), pointed=1)
    put_old(root, "/archived.md", plain(1, b"old", archived=True))
    put_document(root, "/present.md", plain(1, b"present"))
    return root


EXPECTED = {
    ".well-known/a.v3.md": "versions/a.v3.md/v1",
    "archived.md": "versions/archived.md/v1",
    "behind.md": "versions/behind.md/v2",
    "logs/pump.md": "versions/pump.md/v2",
    "present.md": "versions/present.md/v1",
    ".well-known/versions/a.v3.md/v1": plain(1, b"dotted"),
    "versions/archived.md/v1": plain(1, b"old", archived=True),
    "versions/behind.md/v1": plain(1, b"one"),
    "versions/behind.md/v2": plain(2, b"two"),
    "versions/present.md/v1": plain(1, b"present"),
    "logs/versions/pump.md/v1": PUMP_1,
    "logs/versions/pump.md/v2": PUMP_2,
}


def files(root: Path) -> dict[str, str | bytes | None]:
    return {name: held for name, held in snapshot(root).items() if held is not None}


def test_an_old_root_is_converted_and_served(root: Path) -> None:
    times = {path.read_bytes(): path.stat().st_mtime_ns for path in root.rglob("*.v[0-9]") if path.is_file()}
    world = reopen(root)
    assert files(root) == EXPECTED
    assert world.current(PUMP).etag == "bb2edd604fd2a3cb6a3a115420936b96682d03f854cda2d060ec6fde9928e17c"
    assert world.history(PUMP).chain_valid
    assert world.current("/.well-known/a.v3.md").body == b"dotted"
    assert world.current("/archived.md").archived
    assert sorted(world.paths()) == ["/.well-known/a.v3.md", "/behind.md", PUMP, "/present.md"]
    assert {
        path.read_bytes(): path.stat().st_mtime_ns for path in root.rglob("v[0-9]")
    }.items() >= times.items()
    inodes = {path: path.lstat().st_ino for path in root.rglob("*")}
    reopen(root)
    assert {path: path.lstat().st_ino for path in root.rglob("*")} == inodes


class Stopped(BaseException):
    """The power went."""


CALLS = ("mkdir", "rename", "unlink", "symlink", "fsync")


def stopping(monkeypatch: pytest.MonkeyPatch, at: int) -> Callable[[], int]:
    """Let the process die instead of making its `at`-th changing system call; how many were made."""
    made = 0

    def guarded(name: str) -> Callable[..., object]:
        real = getattr(os, name)

        def call(*args: object, **options: object) -> object:
            nonlocal made
            if made >= at:
                raise Stopped
            made += 1
            return real(*args, **options)

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, guarded(name))
    return lambda: made


def test_a_conversion_may_stop_anywhere_and_be_started_again(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        shutil.copytree(root, tmp_path / "whole", symlinks=True)
        count = stopping(patch, 10**6)
        reopen(tmp_path / "whole")
        calls = count()
    assert calls > 15
    for at in range(calls):
        work = tmp_path / f"at-{at}"
        shutil.copytree(root, work, symlinks=True)
        with monkeypatch.context() as patch:
            stopping(patch, at)
            with pytest.raises(Stopped):
                reopen(work)
        world = reopen(work)
        # A pointer that got no name yet lies among the versions, where writes remove such.
        left = [path for path in files(work) if "/.pointer-" in path]
        assert len(left) <= 1
        assert {path: what for path, what in files(work).items() if path not in left} == EXPECTED
        assert world.current(PUMP).version == 2


def test_files_are_synced_before_the_pointer_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_old(tmp_path, "/a.md", plain(1, b"one"))
    done: list[str] = []
    for name in CALLS:
        real = getattr(os, name)

        def call(
            *args: object, real: Callable[..., object] = real, name: str = name, **options: object
        ) -> object:
            where = (
                os.readlink(f"/proc/self/fd/{args[0]}")
                if isinstance(args[0], int)
                else os.fsdecode(str(args[0]))
            )
            done.append(f"{name} {Path(where).name}")
            return real(*args, **options)

        monkeypatch.setattr(os, name, call)
    reopen(tmp_path)
    assert [re.sub("-[0-9a-f]{16}", "", line) for line in done] == [
        "mkdir b'a.md'",
        "rename b'a.md.v1'",
        "fsync a.md",
        "fsync versions",
        "symlink v1'",
        "rename b'.pointer'",
        f"fsync {tmp_path.name}",
    ]


def test_of_two_spellings_the_canonical_one_wins(tmp_path: Path) -> None:
    put_old(tmp_path, "/a.md", plain(1, b"one"))
    (tmp_path / "versions" / "a.md.v01").write_bytes(b"stray")
    world = reopen(tmp_path)
    assert world.current("/a.md").body == b"one"
    assert (tmp_path / "versions" / "a.md.v01").read_bytes() == b"stray"
    assert reopen(tmp_path, read_only=True).current("/a.md").body == b"one"


def test_a_version_already_moved_is_not_overwritten(tmp_path: Path) -> None:
    put_old(tmp_path, "/a.md", b"stray", plain(2, b"two"))
    (folder_of(tmp_path, "/a.md")).mkdir()
    (folder_of(tmp_path, "/a.md") / "v1").write_bytes(plain(1, b"one"))
    world = reopen(tmp_path)
    assert world.version("/a.md", 1)[0].body == b"one"
    assert world.current("/a.md").body == b"two"
    assert (tmp_path / "versions" / "a.md.v1").read_bytes() == b"stray"


@pytest.mark.parametrize(
    "name", [".a.md.v1", "a.txt.v1", "a.md.v0", "a.md.v", "a.md.vx", "a.md", "a.v1", ".md.v1"]
)
def test_other_files_among_versions_stay(tmp_path: Path, name: str) -> None:
    (tmp_path / "versions").mkdir()
    (tmp_path / "versions" / name).write_bytes(b"other")
    before = snapshot(tmp_path)
    reopen(tmp_path)
    assert snapshot(tmp_path) == before


def test_versions_that_were_never_published_get_no_pointer(tmp_path: Path) -> None:
    put_old(tmp_path, "/a.md", plain(1, b"one"))
    (tmp_path / "a.md").unlink()
    world = reopen(tmp_path)
    assert files(tmp_path) == {"versions/a.md/v1": plain(1, b"one")}
    with pytest.raises(Missing):
        world.current("/a.md")


def test_a_flat_file_is_not_converted(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("flat")
    reopen(tmp_path)
    assert snapshot(tmp_path) == {"a.md": b"flat"}


def test_a_pointer_that_leads_nowhere_asks_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.md").symlink_to("versions/a.md.v1")
    assert reopen(tmp_path, read_only=True).paths() == []
    assert snapshot(tmp_path) == {"a.md": "versions/a.md.v1"}


def test_an_old_root_opened_for_reading_is_refused(root: Path) -> None:
    before = snapshot(root)
    with pytest.raises(BadRoot, match="old layout"):
        reopen(root, read_only=True)
    assert snapshot(root) == before


def test_a_conversion_that_the_disk_refuses_names_the_place(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(BadRoot, match=r"old layout of /.*Read-only file system"):
        reopen(root)
