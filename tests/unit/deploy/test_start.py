"""What the frozen executable does before it is the program: leftovers, and the environment it hands on."""

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

PROJECT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def start() -> ModuleType:
    spec = importlib.util.spec_from_file_location("start", PROJECT / "deploy" / "freeze" / "start.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def folder(below: Path, process: int, *, mark: str | None) -> Path:
    made = below / f"_MEI{process:08x}Ab3_zQ"
    (made / "lib").mkdir(parents=True)
    if mark is not None:
        (made / mark).write_text("")
    return made


def age(made: Path) -> Path:
    """Makes it look as if nothing in the folder had changed for ten minutes."""
    then = time.time() - 600
    for path in (*made.rglob("*"), made):
        os.utime(path, (then, then), follow_symlinks=False)
    return made


@pytest.fixture
def foreigner() -> Iterator[int]:
    """The number of a process that runs another program."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


@pytest.fixture
def sibling() -> Iterator[int]:
    """The number of another process that runs the tests' interpreter."""
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate(b"\n")


@pytest.fixture
def ended() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_only_folders_of_this_program_that_nobody_uses_are_removed(
    start: ModuleType, tmp_path: Path, ended: int, foreigner: int, sibling: int
) -> None:
    own = folder(tmp_path, 1, mark=start.MARK)
    # The boot loaders here are the tests' interpreter and another start of it.
    running = age(folder(tmp_path, sibling, mark=start.MARK))
    same = age(folder(tmp_path, os.getpid(), mark=start.MARK))  # as in a container, where all have one number
    reused = age(folder(tmp_path, foreigner, mark=start.MARK))  # the number now belongs to another program
    foreign = age(folder(tmp_path, 2**31 - 2, mark=None))
    leftover = folder(tmp_path, ended, mark=start.MARK)
    impossible = folder(tmp_path, 2**32 - 1, mark=start.MARK)
    held = folder(tmp_path, 2**31 - 1, mark=start.MARK)  # by a process that cannot be seen from here
    (tmp_path / "_MEI-notes").mkdir()
    elsewhere = tmp_path / "elsewhere"
    folder(elsewhere, ended, mark=start.MARK)
    (tmp_path / f"_MEI{ended:08x}linked").symlink_to(elsewhere)
    (leftover / "link").symlink_to(elsewhere)

    command = ["flock", "--shared", str(held), "sh", "-c", "echo; read _"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        start.remove_leftovers(str(own), os.getpid())
        assert held.exists()
        holder.communicate(b"\n")
    assert not any(path.exists() for path in (leftover, reused, same, impossible))
    assert all(path.exists() for path in (own, running, foreign, tmp_path / "_MEI-notes"))
    assert len(list(elsewhere.iterdir())) == 1
    start.remove_leftovers(str(own), os.getpid())
    assert not held.exists()


def test_what_is_unpacked_only_in_part_is_removed_as_soon_as_its_boot_loader_is_gone(
    start: ModuleType, tmp_path: Path
) -> None:
    own = folder(tmp_path, 1, mark=start.MARK)
    with subprocess.Popen(["sleep", "60"]) as loader:
        partial = folder(tmp_path, loader.pid, mark=start.MARK)
        start.remove_leftovers(str(own), os.getpid())
        assert partial.exists()
        loader.kill()
    start.remove_leftovers(str(own), os.getpid())
    assert not partial.exists()


@pytest.mark.parametrize("error", [PermissionError, FileNotFoundError])
def test_a_boot_loader_that_cannot_be_seen_is_at_work_as_long_as_its_folder_changes(
    start: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    foreigner: int,
    error: type[OSError],
) -> None:
    """PrivateUsers= and ProtectProc= of the unit hide what a process runs, not that it is there."""
    own = folder(tmp_path, 1, mark=start.MARK)
    hidden = folder(tmp_path, foreigner, mark=start.MARK)
    library = hidden / "lib" / "library.so"
    library.write_text("")

    def program_of(process: int) -> str:
        if process == foreigner:
            raise error
        return "program"

    monkeypatch.setattr(start, "_program_of", program_of)
    for newest in (hidden, hidden / "lib", library):
        age(hidden)
        os.utime(newest)
        start.remove_leftovers(str(own), os.getpid())
        assert library.exists(), newest
    age(hidden)
    start.remove_leftovers(str(own), os.getpid())
    assert not hidden.exists()


def test_a_removal_that_is_cut_short_is_finished_by_the_next(
    start: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: int
) -> None:
    own = folder(tmp_path, 1, mark=start.MARK)
    leftover = folder(tmp_path, ended, mark=start.MARK)
    (leftover / "a").write_text("")
    (leftover / "z").write_text("")

    def fail(*_: object, **__: object) -> None:
        raise OSError

    with monkeypatch.context() as patched:
        patched.setattr(start.shutil, "rmtree", fail)
        start.remove_leftovers(str(own), os.getpid())
    assert {path.name for path in leftover.iterdir()} >= {"lib", start.MARK}
    start.remove_leftovers(str(own), os.getpid())
    assert not leftover.exists()


def test_the_folder_is_held_as_long_as_the_process_lives(start: ModuleType, tmp_path: Path) -> None:
    used = folder(tmp_path, 1, mark=start.MARK)
    program = (
        f"import runpy; runpy.run_path({start.__file__!r})['hold']({str(used)!r}); print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert start._is_held(str(used))
        process.communicate(b"\n")
    assert not start._is_held(str(used))


def test_a_folder_that_cannot_be_listed_is_no_error(start: ModuleType, tmp_path: Path) -> None:
    start.remove_leftovers(str(tmp_path / "absent" / "_MEI00000001abcdef"), os.getpid())


def test_where_programs_cannot_be_told_apart_nothing_is_removed(
    start: ModuleType, tmp_path: Path, ended: int
) -> None:
    leftover = folder(tmp_path, ended, mark=start.MARK)
    start.remove_leftovers(str(folder(tmp_path, 1, mark=start.MARK)), ended)  # as without /proc
    assert leftover.exists()


@pytest.mark.parametrize("before", [None, "/opt/lib"])
def test_children_get_the_environment_that_was_there_before(
    start: ModuleType, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/tmp/_MEI00000001abcdef")
    monkeypatch.setenv("_PYI_ARCHIVE_FILE", "/usr/bin/demarkus-appliance")
    monkeypatch.delenv("LD_LIBRARY_PATH_ORIG", raising=False)
    if before is not None:
        monkeypatch.setenv("LD_LIBRARY_PATH_ORIG", before)
    start.restore_environment()
    assert os.environ.get("LD_LIBRARY_PATH") == before
    assert "LD_LIBRARY_PATH_ORIG" not in os.environ
    assert not [name for name in os.environ if name.startswith("_PYI_")]
