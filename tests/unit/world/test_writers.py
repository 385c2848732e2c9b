"""Writing beside other writers, whose half-done work is on the same disk, and below many directories (store §5.1, §5.5)."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.world.errors import BadDocument, DiskFailure, LostRace
from app.world.world import Commit, World
from app.world.writing import SEGMENTS_MAX
from tests.unit.world.roots import everything, folder_of, plain, put_document, reopen, snapshot

NOW = 1_790_000_000.25


def prepared(world: World, path: str, body: bytes) -> Commit:
    commit = world.prepare_publish(path, body, {}, None, NOW)
    assert isinstance(commit, Commit)
    return commit


# Other writers.


@pytest.fixture
def other(world: World, tmp_path: Path) -> World:
    """Another server's world over the same root, which holds one document."""
    world.publish("/a.md", b"one", {}, 0, NOW)
    return reopen(tmp_path)


def at_work(world: World, body: bytes) -> Commit:
    """A version on disk, written just now and not shown yet."""
    commit = world.prepare_publish("/a.md", body, {}, None, time.time())
    assert isinstance(commit, Commit)
    return commit


def check_chain(root: Path, versions: list[int], body: bytes) -> None:
    """These versions, the last of them with this body current; nothing else, and no fault."""
    history = reopen(root).history("/a.md")
    assert ([number for number, _ in history.versions], history.chain_error) == (versions, "")
    assert (root / "a.md").readlink() == Path(f"versions/a.md/v{versions[0]}")
    assert reopen(root).current("/a.md").body == body
    assert sorted(os.listdir(folder_of(root, "/a.md"))) == sorted(f"v{number}" for number in versions)
    assert sorted(os.listdir(root)) == ["a.md", "versions"]


def test_two_writers_at_work_at_once(world: World, other: World, tmp_path: Path) -> None:
    ours, theirs = at_work(world, b"two"), at_work(other, b"three")
    ours.show()
    theirs.show()
    ours.settle()
    theirs.settle()
    check_chain(tmp_path, [3, 2, 1], b"three")


def test_a_later_version_of_another_writer_stays_current(world: World, other: World, tmp_path: Path) -> None:
    ours = at_work(world, b"two")
    assert other.publish("/a.md", b"three", {}, None, time.time()).version == 3
    ours.show()
    assert ours.settle() is None
    check_chain(tmp_path, [3, 2, 1], b"three")
    assert world.current("/a.md").body == b"three"
    assert world.version("/a.md", 2)[0].body == b"two"


def test_a_pointer_that_another_writer_has_put_back_is_put_right(
    world: World, other: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = at_work(world, b"two"), at_work(other, b"three")
    real = os.rename

    def rename(*args: Any, **options: Any) -> None:
        monkeypatch.setattr(os, "rename", real)
        theirs.show()
        real(*args, **options)

    monkeypatch.setattr(os, "rename", rename)
    ours.show()
    assert (tmp_path / "a.md").readlink() == Path("versions/a.md/v2")
    theirs.settle()
    ours.settle()
    check_chain(tmp_path, [3, 2, 1], b"three")


@pytest.mark.parametrize("shown", [False, True])
def test_a_version_that_another_writer_has_built_on_is_not_taken_back(
    world: World, other: World, tmp_path: Path, shown: bool
) -> None:
    ours, theirs = at_work(world, b"two"), at_work(other, b"three")
    if shown:
        theirs.show()
    ours.abandon()
    if not shown:
        theirs.show()
    theirs.settle()
    check_chain(tmp_path, [3, 2, 1], b"three")


def test_a_version_that_the_pointer_names_is_not_taken_back(
    world: World, other: World, tmp_path: Path
) -> None:
    ours = at_work(world, b"two")
    (tmp_path / "a.md").unlink()
    (tmp_path / "a.md").symlink_to("versions/a.md/v2")
    ours.abandon()
    check_chain(tmp_path, [2, 1], b"two")


def test_nothing_is_built_on_a_version_that_was_taken_back(
    world: World, other: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = at_work(world, b"two")
    real = os.link

    def link(source: bytes, name: bytes, **options: Any) -> None:
        ours.abandon()
        real(source, name, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", link)
        with pytest.raises(LostRace):
            other.publish("/a.md", b"three", {}, None, time.time())
    check_chain(tmp_path, [1], b"one")
    assert other.publish("/a.md", b"three", {}, None, time.time()).version == 2
    check_chain(tmp_path, [2, 1], b"three")


def test_a_version_without_the_pointer_that_was_to_name_it(
    world: World, other: World, tmp_path: Path
) -> None:
    ours = at_work(world, b"two")
    for name in folder_of(tmp_path, "/a.md").glob(".pointer-*"):
        name.unlink()
    with pytest.raises(DiskFailure):
        ours.show()
    check_chain(tmp_path, [1], b"one")


@pytest.mark.parametrize(("age", "stays"), [(0.0, True), (59.0, True), (61.0, False), (-61.0, False)])
def test_temporary_names_go_when_nobody_can_be_about_to_use_them(
    world: World, tmp_path: Path, age: float, stays: bool
) -> None:
    world.publish("/a.md", b"one", {}, 0, NOW)
    names = [folder_of(tmp_path, "/a.md") / f".{kind}-0" for kind in ("pointer", "version", "archive-state")]
    names.append(tmp_path / "a.md.tmp")
    for name in names:
        name.symlink_to("versions/a.md/v2")
    made = names[0].lstat().st_ctime
    world.publish("/a.md", b"two", {}, 1, made + age)
    assert [name.is_symlink() for name in names] == [stays] * 4
    assert world.children("/", everything, True) == reopen(tmp_path).children("/", everything, True)
    assert len(reopen(tmp_path).children("/", everything, True)) == 1
    assert reopen(tmp_path).history("/a.md").chain_valid


def make_document(path: Path) -> None:
    put_document(path.parent, f"/{path.name}", plain(1, b"theirs"))


def make_file(path: Path) -> None:
    path.write_bytes(b"theirs")


def make_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [make_document, make_file, make_directory])
def test_what_has_the_temporary_name_of_another_server_is_left_alone(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "a.md.tmp")
    world = reopen(tmp_path)
    before = snapshot(tmp_path)
    assert world.publish("/a.md", b"ours", {}, 0, NOW).version == 1
    assert before.items() <= snapshot(tmp_path).items()


# Deep paths.

DEPTH = SEGMENTS_MAX - 1
DEEP = "/a" * DEPTH + "/x.md"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What is opened, one entry each time; syncs cost nothing."""
    calls: list[object] = []
    real = os.open

    def count(path: str | bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        calls.append(path)
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", count)
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    return calls


def test_the_cost_of_a_path_grows_with_its_depth_only(
    world: World, tmp_path: Path, opened: list[object]
) -> None:
    commit = prepared(world, DEEP, b"deep")
    assert len(opened) < 5 * DEPTH
    opened.clear()
    commit.abandon()
    assert len(opened) < 3 * DEPTH
    assert snapshot(tmp_path) == {}
    opened.clear()
    assert world.publish(DEEP, b"deep", {}, 0, NOW).created
    assert world.archive(DEEP).version == 1
    assert world.children("/", everything, False) == []
    assert len(opened) < 20 * DEPTH


def test_a_path_may_be_so_deep_and_no_deeper_unless_it_is_there(world: World, tmp_path: Path) -> None:
    deep = "/a" * SEGMENTS_MAX
    for expected in (None, 0, 7):
        with pytest.raises(BadDocument, match="a path of 257 segments; the most for a new one are 256"):
            world.publish(f"{deep}/x.md", b"deep", {}, expected, NOW)
    assert snapshot(tmp_path) == {}
    put_document(tmp_path, f"{deep}/a/x.md", plain(1, b"there"))
    assert world.publish(f"{deep}/a/x.md", b"deep", {}, 1, NOW).version == 2
    assert world.publish(f"{deep}/new.md", b"deep", {}, 0, NOW).version == 1


def test_directories_that_another_process_made_or_uses_stay(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.mkdir

    def mkdir(path: bytes, mode: int, *, dir_fd: int) -> None:
        if path == b"b":
            real(tmp_path / "a" / "b", mode)
        real(path, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", mkdir)
    prepared(world, "/a/b/c/x.md", b"ours").abandon()
    assert set(snapshot(tmp_path)) == {"a", "a/b"}
    commit = prepared(world, "/d/e/x.md", b"ours")
    (tmp_path / "d" / "theirs").write_bytes(b"")
    commit.abandon()
    assert set(snapshot(tmp_path)) == {"a", "a/b", "d", "d/theirs"}


def test_directories_that_were_moved_away_stay(world: World, tmp_path: Path) -> None:
    commit = prepared(world, "/d/e/f/x.md", b"ours")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "d" / "e").rename(tmp_path / "elsewhere" / "e")
    (tmp_path / "d" / "e").symlink_to(tmp_path / "elsewhere" / "e")
    commit.abandon()
    assert (tmp_path / "elsewhere" / "e").is_dir()
    assert (tmp_path / "d" / "e").is_symlink()
