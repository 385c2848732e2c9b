"""What the frozen executable does before it is the program: leftovers, and the environment it hands on."""

import importlib.util
import os
import subprocess
import sys
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


@pytest.fixture
def foreigner() -> Iterator[int]:
    """The number of a process that runs another program."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


@pytest.fixture
def ended() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_only_folders_of_this_program_that_nobody_uses_are_removed(
    start: ModuleType, tmp_path: Path, ended: int, foreigner: int
) -> None:
    own = folder(tmp_path, 1, mark=start.MARK)
    running = folder(tmp_path, os.getpid(), mark=start.MARK)  # the tests' interpreter is the boot loader here
    reused = folder(tmp_path, foreigner, mark=start.MARK)  # the number now belongs to another program
    foreign = folder(tmp_path, 2, mark=None)
    leftover = folder(tmp_path, ended, mark=start.MARK)
    held = folder(tmp_path, 2**31 - 1, mark=start.MARK)  # by a process that cannot be seen from here
    (tmp_path / "_MEI-notes").mkdir()
    elsewhere = tmp_path / "elsewhere"
    folder(elsewhere, ended, mark=start.MARK)
    (tmp_path / f"_MEI{ended:08x}linked").symlink_to(elsewhere)
    (leftover / "link").symlink_to(elsewhere)

    command = ["flock", "--shared", held / start.MARK, "sh", "-c", "echo; read _"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        start.remove_leftovers(str(own), os.getpid())
        assert held.exists()
        holder.communicate(b"\n")
    assert not leftover.exists()
    assert not reused.exists()
    assert all(path.exists() for path in (own, running, foreign, tmp_path / "_MEI-notes"))
    assert len(list(elsewhere.iterdir())) == 1
    start.remove_leftovers(str(own), os.getpid())
    assert not held.exists()


def test_the_mark_is_held_as_long_as_the_process_lives(start: ModuleType, tmp_path: Path) -> None:
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
