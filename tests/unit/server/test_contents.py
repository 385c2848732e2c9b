"""The world that is served follows its folder: one reload at a time, beside writes, and whatever happens to the folder."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from app.server.contents import Contents, Reloaded
from app.server.dispatch import Dispatcher
from app.world.refresh import Changes, Refresh
from app.world.world import World
from tests.unit.server.planted import plant


class Bench:
    """Contents over a root, with what they said."""

    def __init__(self, root: Path) -> None:
        self.lines: list[tuple[str, str, dict[str, object]]] = []
        self.recorded: list[Reloaded] = []
        self.world = World.open(os.fspath(root), log=self.log, now=lambda: time.time() + 1000)
        self.dispatcher = Dispatcher(
            self.world, tokens=None, read_only=False, now=time.time, timeout=5.0, log=self.log
        )
        self.contents = Contents(os.fspath(root), self.dispatcher, self.recorded.append, self.log)
        self.lines.clear()

    def log(self, level: str, message: str, /, **fields: object) -> None:
        self.lines.append((level, message, fields))

    def said(self) -> list[str]:
        found = [f"{level} {message}" for level, message, _ in self.lines]
        self.lines.clear()
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    plant(os.fspath(tmp_path / "root"), "/a.md")
    bench = Bench(tmp_path / "root")
    yield bench
    bench.contents.world.close()


async def test_a_reload_is_logged_and_recorded_whatever_it_finds(bench: Bench) -> None:
    plant(bench.world.figures.root, "/b.md")
    first = await bench.contents.reload("SIGHUP")
    second = await bench.contents.reload("request")
    assert (first.changes, second.changes) == (Changes(added=1, read=2), Changes())
    assert bench.recorded == [first, second]
    assert bench.contents.last is second
    ((_, _, told), (_, _, again)) = bench.lines
    assert told == {
        "cause": "SIGHUP",
        "added": 1,
        "replaced": 0,
        "archived": 0,
        "unarchived": 0,
        "gone": 0,
        "ms": told["ms"],
        "read_bytes": 2,
    }
    assert (again["cause"], again["read_bytes"]) == ("request", 0)


async def test_a_look_that_finds_nothing_leaves_no_trace(bench: Bench) -> None:
    assert (await bench.contents.look_at(("/a.md",))).changes == Changes()
    assert (bench.said(), bench.recorded, bench.contents.last) == ([], [], None)
    plant(bench.world.figures.root, "/b.md")
    await bench.contents.look_at(("/b.md", "/a.md"))
    assert bench.said() == ["info content reloaded"]


async def test_a_failure_that_lasts_is_told_once_to_the_watch_and_always_to_who_asks(
    bench: Bench, tmp_path: Path
) -> None:
    os.rename(tmp_path / "root", tmp_path / "away")
    for _ in range(3):
        assert (await bench.contents.look_at(("/",))).error
    failed = "error content reload failed, the old content stays in force"
    assert bench.said() == [failed]
    for _ in range(2):
        assert (await bench.contents.reload("SIGHUP")).error
    assert bench.said() == [failed, failed]
    os.rename(tmp_path / "away", tmp_path / "root")
    assert not (await bench.contents.look_at(("/",))).error
    os.rename(tmp_path / "root", tmp_path / "away")
    await bench.contents.look_at(("/",))
    assert bench.said().count(failed) == 1
    assert len(bench.contents.world.catalog) == 1


async def test_a_fault_of_ours_costs_the_reload_only(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Refresh) -> None:
        raise ZeroDivisionError("by zero")

    with monkeypatch.context() as patch:
        patch.setattr(Refresh, "survey", fail)
        assert (await bench.contents.reload("SIGHUP")).error == "unexpected error, ZeroDivisionError: by zero"
    assert not (await bench.contents.reload("SIGHUP")).error


async def test_another_folder_is_served_by_its_own_world_and_the_old_one_is_closed(
    bench: Bench, tmp_path: Path
) -> None:
    fd = bench.world._root.fd
    os.rename(tmp_path / "root", tmp_path / "away")
    plant(os.fspath(tmp_path / "root"), "/a.md")
    plant(os.fspath(tmp_path / "root"), "/c.md")
    assert (await bench.contents.reload("SIGHUP")).changes.added == 1
    assert bench.said()[-2:] == ["info content root switched", "info content reloaded"]
    assert bench.dispatcher.world is bench.contents.world is not bench.world
    assert bench.dispatcher.writer._world is bench.contents.world
    os.fstat(fd)  # a read may still be going on there
    del bench.world
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


async def test_reloads_run_one_after_another_and_wait_for_the_writer(bench: Bench) -> None:
    done: list[str] = []

    async def reload(name: str) -> None:
        await bench.contents.reload(name)
        done.append(name)

    async with trio.open_nursery() as nursery, bench.dispatcher.writer.held():
        nursery.start_soon(reload, "one")
        nursery.start_soon(reload, "two")
        await trio.sleep(0.2)
        assert done == []
        assert bench.contents._one.statistics().tasks_waiting == 1
    assert len(done) == 2
