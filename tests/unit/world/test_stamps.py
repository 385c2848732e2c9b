"""What tells a document that has changed from one that has not: the numbers of the file system, and nothing else."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from app.world.stamps import UNSURE, place_of, stamp_of
from tests.unit.world.roots import folder_of, plain, point, put_document, put_version, reopen

PATH = "/d/a.md"
LATER = 4e9


def later() -> float:
    return LATER


def place(root: Path, before: bytes = UNSURE, now: Callable[[], float] | None = later) -> tuple[bytes, int]:
    fd = os.open(root / "d", os.O_RDONLY)
    try:
        return place_of(fd, b"a.md", now, before)
    finally:
        os.close(fd)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put_document(tmp_path, PATH, plain(1, b"# One\n"), plain(2, b"# Two\n"))
    return tmp_path


def rename_over_with_size_and_time_kept(root: Path) -> None:
    file = folder_of(root, PATH) / "v2"
    times = file.stat()
    fresh = file.with_name("fresh")
    fresh.write_bytes(plain(2, b"# Owt\n"))
    os.utime(fresh, ns=(times.st_atime_ns, times.st_mtime_ns))
    fresh.rename(file)


def write_into_with_size_and_time_kept(root: Path) -> None:
    file = folder_of(root, PATH) / "v2"
    times = file.stat()
    with file.open("r+b") as out:
        out.write(plain(2, b"# Owt\n"))
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def touch(root: Path) -> None:
    os.utime(folder_of(root, PATH) / "v2", (1e9, 1e9))


def add_version(root: Path) -> None:
    put_version(root, PATH, 3, plain(3, b"# Three\n"))


def repoint(root: Path) -> None:
    point(root, PATH, 1)


def remove_version(root: Path) -> None:
    (folder_of(root, PATH) / "v1").unlink()


def archive(root: Path) -> None:
    (folder_of(root, PATH) / "archive-state").write_bytes(b"true\n")


def make_unreadable(root: Path) -> None:
    (folder_of(root, PATH) / "v2").chmod(0)


def exchange_folder(root: Path) -> None:
    folder = folder_of(root, PATH)
    shutil.copytree(folder, folder.with_name("copy"))
    shutil.rmtree(folder)
    folder.with_name("copy").rename(folder)


@pytest.mark.parametrize(
    "change",
    [
        rename_over_with_size_and_time_kept,
        write_into_with_size_and_time_kept,
        touch,
        add_version,
        repoint,
        remove_version,
        archive,
        make_unreadable,
        exchange_folder,
    ],
)
def test_every_change_shows(root: Path, change: Callable[[Path], None]) -> None:
    before = place(root)
    assert before[0] != UNSURE
    assert before[1] == 2
    assert place(root) == place(root, before[0]) == before
    change(root)
    assert place(root)[0] != before[0]
    assert place(root, before[0])[0] != before[0]


def test_a_mark_that_is_written_anew_shows(root: Path) -> None:
    archive(root)
    before = place(root)[0]
    (folder_of(root, PATH) / "archive-state").write_bytes(b"true\n")
    assert place(root, before)[0] != before
    (folder_of(root, PATH) / "archive-state").unlink()
    assert place(root, before)[0] != before


@pytest.mark.parametrize("distance", [-0.015, 0.0, 0.015])
def test_a_change_of_this_very_moment_is_not_trusted(root: Path, distance: float) -> None:
    newest = max((folder_of(root, PATH) / name).stat().st_ctime for name in (".", "v2"))
    assert place(root, now=lambda: newest + distance) == (UNSURE, 2)
    assert place(root, now=lambda: newest + 0.1)[0] != UNSURE
    assert place(root, now=lambda: newest - 1e9)[0] != UNSURE  # a clock that was set back


def test_without_a_clock_nothing_is_sure(root: Path) -> None:
    assert place(root, now=None) == (UNSURE, 0)


@pytest.mark.parametrize("pointer", ["versions/a.md/v9", "../d/versions/a.md/v1", "versions/a.md/vx", "x"])
def test_a_pointer_of_another_form_is_never_sure(root: Path, pointer: str) -> None:
    (root / "d" / "a.md").unlink()
    (root / "d" / "a.md").symlink_to(pointer)
    assert place(root)[0] == UNSURE


def test_the_content_is_the_same_or_not(root: Path) -> None:
    world = reopen(root)
    first = stamp_of(world.current(PATH))
    assert first == stamp_of(world.current(PATH))
    assert (first.size, first.archived) == (6, False)
    touch(root)
    touched = stamp_of(world.current(PATH))
    assert touched.content != first.content  # its time is part of an answer
    archive(root)
    assert stamp_of(world.current(PATH)).archived
    assert stamp_of(world.current(PATH)).content != touched.content
