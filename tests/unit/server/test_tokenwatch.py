"""The watch on the token file, in real directories (operations §4). Times are real: inotify knows no other clock."""

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from app.server import tokenwatch
from app.server.tokenwatch import QUIET_SECONDS, watch


class Seen:
    """Counts reports of a change, and keeps the log."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.lines: list[tuple[str, str, dict[str, object]]] = []
        self.logged = trio.Event()
        self.reported = trio.Event()

    def changed(self) -> None:
        self.times.append(time.monotonic())
        self.reported.set()

    def log(self, level: str, message: str, /, **fields: object) -> None:
        self.lines.append((level, message, fields))
        self.logged.set()

    async def settled(self) -> int:
        """How many reports there were, at least one, once everything has surely been reported."""
        with trio.fail_after(10):
            await self.reported.wait()
        return await self.later()

    async def later(self) -> int:
        """How many reports there were after a while in which everything should have been reported."""
        await trio.sleep(QUIET_SECONDS * 2 + tokenwatch.MISSING_SECONDS)
        return len(self.times)


@asynccontextmanager
async def watching(path: Path) -> AsyncIterator[Seen]:
    seen = Seen()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, str(path), seen.changed, seen.log)
        await seen.logged.wait()
        assert len(seen.times) == 1  # what happened before the watch stood
        seen.times.clear()
        seen.reported = trio.Event()
        yield seen
        nursery.cancel_scope.cancel()


def write(path: Path) -> None:
    path.write_text("new")


def rename_over(path: Path) -> None:
    beside = path.with_name("tokens.tmp")
    beside.write_text("new")
    os.rename(beside, path)


def swap_link(path: Path) -> None:
    """As `current -> release` is switched: the file itself is a link through it and does not change."""
    link = path.with_name("current.tmp")
    link.symlink_to("two")
    os.rename(link, path.with_name("current"))


def remove(path: Path) -> None:
    os.unlink(path)


def chmod(path: Path) -> None:
    os.chmod(path, 0o600)


@pytest.mark.parametrize("change", [write, rename_over, remove, chmod])
async def test_a_change_is_reported_once(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text("old")
    async with watching(path) as seen:
        change(path)
        assert await seen.settled() == 1


async def test_a_swapped_link_is_a_change(tmp_path: Path) -> None:
    for release in ("one", "two"):
        (tmp_path / release).mkdir()
        (tmp_path / release / "tokens.toml").write_text(release)
    (tmp_path / "current").symlink_to("one")
    path = tmp_path / "tokens.toml"
    path.symlink_to("current/tokens.toml")
    async with watching(path) as seen:
        swap_link(path)
        assert await seen.settled() == 1
        assert path.read_text() == "two"


async def test_writes_beside_the_file_are_no_change(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text("old")
    beside = tmp_path / "server.log"
    beside.write_text("")
    async with watching(path) as seen:
        with beside.open("a") as log:
            for _ in range(20):
                log.write("line\n")
                log.flush()
        os.chmod(beside, 0o600)
        assert await seen.later() == 0


async def test_a_burst_is_reported_after_its_last_event(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text("old")
    async with watching(path) as seen:
        for _ in range(5):
            path.write_text("new")
            await trio.sleep(QUIET_SECONDS / 3)
        last = time.monotonic()
        assert await seen.settled() < 5  # one, unless this machine is busier than the burst is quick
        assert seen.times[-1] - last >= QUIET_SECONDS / 3


async def test_a_missing_file_gets_a_moment_to_come_back(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text("old")
    async with watching(path) as seen:
        path.unlink()
        removed = time.monotonic()
        await seen.settled()
        assert seen.times[0] - removed >= QUIET_SECONDS + tokenwatch.MISSING_SECONDS - 0.01


async def test_a_directory_that_is_never_quiet_puts_nothing_off_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenwatch, "LONGEST_SECONDS", 0.3)
    path = tmp_path / "tokens.toml"
    path.write_text("old")
    async with watching(path) as seen:
        for number in range(20):
            (tmp_path / f"{number}").write_text("")
            await trio.sleep(QUIET_SECONDS / 3)
        assert seen.times


async def test_a_replaced_directory_is_followed(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    path = folder / "tokens.toml"
    path.write_text("old")
    async with watching(path) as seen:
        os.rename(folder, tmp_path / "etc.old")
        folder.mkdir()
        path.write_text("new")
        first = await seen.settled()
        assert first >= 1
        seen.reported = trio.Event()
        path.write_text("newer")
        assert await seen.settled() > first


@pytest.mark.parametrize("folder", ["missing", "file"])
async def test_a_directory_that_cannot_be_watched_is_a_warning(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("")
    seen = Seen()
    with trio.fail_after(5):
        await watch(str(tmp_path / folder / "tokens.toml"), seen.changed, seen.log)
    ((level, message, fields),) = seen.lines
    assert (level, "SIGHUP" in message) == ("warn", True)
    assert fields["target"] == str(tmp_path / folder / "tokens.toml")
    assert seen.times == []
