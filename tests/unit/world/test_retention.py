"""Which versions go, and when (store §6)."""

import os
from pathlib import Path

import pytest

from app.world.errors import Missing
from app.world.shelf import Pruned
from app.world.world import Commit, World
from tests.unit.world.roots import folder_of, plain, put_version

NOW = 1_790_000_000.25


def publish_many(world: World, count: int, metadata: dict[str, str]) -> None:
    for number in range(1, count + 1):
        world.publish("/a.md", b"%d" % number, metadata, number - 1, NOW)


def numbers(world: World) -> list[int]:
    return [number for number, _ in world.history("/a.md").versions]


def test_retention_keeps_the_newest_and_applies_to_its_own_write_only(world: World) -> None:
    publish_many(world, 4, {})
    world.publish("/a.md", b"five", {"retention": "2"}, 4, NOW)
    assert numbers(world) == [5, 4]
    assert world.history("/a.md").chain_valid
    world.append("/a.md", b"six", {}, 5, NOW)
    world.publish("/a.md", b"seven", {}, 6, NOW)
    assert numbers(world) == [7, 6, 5, 4]
    world.publish("/a.md", b"eight", {"retention": "9"}, 7, NOW)
    assert numbers(world) == [8, 7, 6, 5, 4]
    world.publish("/a.md", b"nine", {"retention": "1"}, 8, NOW)
    assert numbers(world) == [9]
    with pytest.raises(Missing):
        world.version("/a.md", 8)


def test_what_was_pruned_is_told(world: World, tmp_path: Path) -> None:
    publish_many(world, 3, {})
    commit = world.prepare_publish("/a.md", b"four", {"retention": "2"}, 3, NOW)
    assert isinstance(commit, Commit)
    commit.show()
    assert numbers(world) == [4, 3, 2, 1]
    assert commit.settle() == Pruned(1, 2)
    commit = world.prepare_publish("/a.md", b"five", {"retention": "9"}, 4, NOW)
    assert isinstance(commit, Commit)
    commit.show()
    assert commit.settle() is None


def test_pruning_stops_at_the_first_failure(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_many(world, 4, {})
    real = os.unlink

    def unlink(path: str | bytes, *, dir_fd: int | None = None) -> None:
        if path == "v2":
            raise OSError(5, "Input/output error")
        real(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", unlink)
    commit = world.prepare_publish("/a.md", b"five", {"retention": "1"}, 4, NOW)
    assert isinstance(commit, Commit)
    commit.show()
    assert commit.settle() == Pruned(1, 1, "Input/output error")
    assert numbers(world) == [5, 4, 3, 2]


def test_pruning_removes_nothing_but_version_files(world: World, tmp_path: Path) -> None:
    publish_many(world, 2, {})
    folder = folder_of(tmp_path, "/a.md")
    victim = tmp_path / "victim"
    victim.write_text("victim")
    (folder / "v2").rename(folder / "kept")
    (folder / "v2").symlink_to(victim)
    (folder / "v1").unlink()
    (folder / "v1").mkdir()
    put_version(tmp_path, "/a.md", 3, plain(3, b"three"))
    world.publish("/a.md", b"four", {"retention": "1"}, 3, NOW)
    assert sorted(os.listdir(folder)) == ["kept", "v1", "v2", "v4"]
    assert victim.read_text() == "victim"
