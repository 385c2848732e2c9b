"""The watch on a content root, in real directories. Times are real: inotify knows no other clock."""

import errno
import itertools
import os
import shutil
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from inotify_simple import Event, INotify, flags

from app.commands.publish import write
from app.server import contentwatch
from app.server.contentwatch import Watches, subject_of, watch
from tests.unit.server.planted import plant


class Seen:
    """What was reported, and the log."""

    def __init__(self) -> None:
        self.reports: list[set[str]] = []
        self.times: list[float] = []
        self.lines: list[str] = []
        self.looked = trio.Event()
        self.refused = 0

    async def changed(self, scope: Collection[str]) -> bool:
        self.reports.append(set(scope))
        self.times.append(trio.current_time())
        self.looked.set()
        if self.refused:
            self.refused -= 1
            return False
        return True

    def log(self, level: str, message: str, /, **fields: object) -> None:
        self.lines.append(f"{level} {message}")

    async def next(self) -> set[str]:
        """The reports up to a moment of quiet, as one."""
        with trio.fail_after(10):
            await self.looked.wait()
        await trio.sleep(contentwatch.QUIET_SECONDS * 2)
        found = set().union(*self.reports)
        self.reports.clear()
        self.looked = trio.Event()
        return found


@asynccontextmanager
async def watching(root: Path) -> AsyncIterator[Seen]:
    seen = Seen()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, os.fspath(root), seen.changed, seen.log)
        assert await seen.next() == {"/"}
        yield seen
        nursery.cancel_scope.cancel()


def publish(root: Path, path: str) -> None:
    write(os.fspath(root), path, os.urandom(4).hex().encode(), lambda _: {})


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contentwatch, "QUIET_SECONDS", 0.04)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path in ("/a.md", "/d/b.md", "/d/e/c.md"):
        plant(os.fspath(tmp_path), path)
    return tmp_path


def move_away(root: Path) -> None:
    (root / "d").rename(root.parent / f"{root.name}-away")


def covers(found: set[str], document: str) -> bool:
    """Whether a document, or a directory above it, was named."""
    return document in found or any(one.endswith("/") and document.startswith(one) for one in found)


# What is done, and the documents that are to be looked at after it.
CASES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "published": (lambda root: publish(root, "/d/b.md"), ["/d/b.md"]),
    "new beside": (lambda root: publish(root, "/d/n.md"), ["/d/n.md"]),
    "new directory": (lambda root: publish(root, "/n/m/a.md"), ["/n/m/a.md"]),
    "archived": (lambda root: (root / "d/versions/b.md/archive-state").write_text("true\n"), ["/d/b.md"]),
    "version replaced": (
        lambda root: shutil.copy(root / "a.md", root / "d/e/versions/c.md/v1"),
        ["/d/e/c.md"],
    ),
    "touched": (lambda root: os.utime(root / "versions/a.md/v1"), ["/a.md"]),
    "pointer removed": (lambda root: (root / "d/b.md").unlink(), ["/d/b.md"]),
    "directory removed": (lambda root: shutil.rmtree(root / "d/e"), ["/d/e/c.md"]),
    "directory copied": (
        lambda root: shutil.copytree(root / "d", root / "f", symlinks=True),
        ["/f/b.md", "/f/e/c.md"],
    ),
    "versions removed": (lambda root: shutil.rmtree(root / "d/versions"), ["/d/b.md"]),
    "moved away": (move_away, ["/d/b.md", "/d/e/c.md"]),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_change_is_reported_by_the_documents_it_is_about(root: Path, name: str) -> None:
    change, documents = CASES[name]
    async with watching(root) as seen:
        change(root)
        found = await seen.next()
        assert all(covers(found, document) for document in documents), found
        assert not covers(found, "/other.md")
        # The next change is seen as well, also where directories are new.
        for _ in range(2):
            publish(root, "/n/m/a.md")
            publish(root, "/a.md")
            found = await seen.next()
            assert covers(found, "/a.md")
            assert covers(found, "/n/m/a.md")


async def test_what_was_moved_away_is_not_watched_any_more(root: Path) -> None:
    async with watching(root) as seen:
        move_away(root)
        await seen.next()
        publish(root.parent / f"{root.name}-away", "/b.md")
        publish(root, "/a.md")
        assert not {one for one in await seen.next() if one.startswith("/d/")}


async def test_versions_moved_in_name_their_documents(root: Path) -> None:
    (root / "d" / "versions").rename(root / "aside")
    async with watching(root) as seen:
        (root / "aside").rename(root / "d" / "versions")
        assert "/d/b.md" in await seen.next()


async def test_a_busy_writer_cannot_put_it_off(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contentwatch, "LONGEST_SECONDS", 0.4)
    async with watching(root) as seen:
        began = trio.current_time()
        seen.times.clear()
        while trio.current_time() < began + 1.5:
            (root / "d" / "versions" / "b.md" / "archive-state").write_text("false\n")
            await trio.sleep(0.02)
        assert len(seen.times) >= 2
        assert seen.times[0] - began < 1.0


async def test_reading_is_no_change(root: Path) -> None:
    async with watching(root) as seen:
        for _ in range(3):
            (root / "d/b.md").read_bytes()
            list((root / "d").iterdir())
        await trio.sleep(contentwatch.QUIET_SECONDS * 2)
        assert seen.reports == []


async def test_too_few_watches_are_said_once_and_made_up_for(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(INotify, "add_watch", refuse)
    monkeypatch.setattr(contentwatch, "LOOK_SECONDS", 0.01)
    seen = Seen()
    with trio.move_on_after(0.3):
        await watch(os.fspath(root), seen.changed, seen.log)
    assert len(seen.reports) > 3
    assert set().union(*seen.reports) == {"/"}
    assert seen.lines == [
        "warn contentwatch: cannot watch every directory, looking through them at intervals; raise fs.inotify.max_user_watches"
    ]


async def test_lost_events_are_said_once_and_everything_is_looked_at(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = INotify.read

    def overflowing(self: INotify, timeout: int) -> list[Event]:
        return [*real(self, timeout=timeout), Event(-1, flags.Q_OVERFLOW, 0, "")]

    monkeypatch.setattr(INotify, "read", overflowing)
    async with watching(root) as seen:
        for _ in range(2):
            publish(root, "/d/b.md")
            assert await seen.next() == {"/"}
    assert [line for line in seen.lines if "dropped" in line] == [
        "warn contentwatch: the kernel has dropped events, looking at everything; said once"
    ]


async def test_it_ends_when_the_root_goes_or_is_not_there(root: Path) -> None:
    away = os.fspath(root) + "-gone"
    seen = Seen()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, os.fspath(root), seen.changed, seen.log)
            await seen.next()
            os.rename(root, away)
        await watch(os.fspath(root), seen.changed, seen.log)
    assert seen.lines == ["info contentwatch: watching"]


def test_every_directory_is_watched_but_none_below_a_version_directory(root: Path) -> None:
    (root / "d/versions/b.md/odd").mkdir()
    (root / "link").symlink_to("d")
    with INotify() as notify:
        watches = Watches(notify, os.fspath(root))
        assert watches.add("/") == {"/a.md", "/d/b.md", "/d/e/c.md"}
        assert sorted(watches._paths.values()) == [
            "/",
            "/d/",
            "/d/e/",
            "/d/e/versions/",
            "/d/e/versions/c.md/",
            "/d/versions/",
            "/d/versions/b.md/",
            "/versions/",
            "/versions/a.md/",
        ]


@pytest.mark.parametrize(
    ("directory", "name", "is_directory", "subject"),
    [
        ("/", "a.md", False, "/a.md"),
        ("/", "d", True, "/d/"),
        ("/d/", "a.md", False, "/d/a.md"),
        ("/", "versions", True, "/"),
        ("/d/", "versions", True, "/d/"),
        ("/versions/", "a.md", True, "/a.md"),
        ("/d/versions/", "a.md", True, "/d/a.md"),
        ("/versions/a.md/", "v1", False, "/a.md"),
        ("/d/versions/a.md/", "archive-state", False, "/d/a.md"),
    ],
)
def test_what_an_event_is_about(directory: str, name: str, is_directory: bool, subject: str) -> None:
    assert subject_of(directory, name, is_directory) == subject


def publish_odd(root: Path) -> None:
    folder = os.fsencode(root) + b"/d/versions/\xff.md"
    os.mkdir(folder)
    with open(folder + b"/v1", "wb") as out:
        out.write(b"---\nversion: 1\narchived: false\n---\nx\n")
    os.symlink(b"versions/\xff.md/v1", os.fsencode(root) + b"/d/\xff.md")


async def test_names_in_no_encoding(root: Path) -> None:
    async with watching(root) as seen:
        publish_odd(root)
        assert await seen.next() == {"/d/\udcff.md"}


async def test_what_could_not_be_taken_over_is_reported_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contentwatch, "AGAIN_SECONDS", 0.05)
    async with watching(root) as seen:
        seen.refused = 3
        publish(root, "/d/b.md")
        await trio.sleep(2)
        assert len(seen.reports) == 4
        assert all(covers(one, "/d/b.md") for one in seen.reports)
        # Each pause is longer than the one before.
        pauses = [after - before for before, after in itertools.pairwise(seen.times[-4:])]
        assert pauses[2] > pauses[0]
