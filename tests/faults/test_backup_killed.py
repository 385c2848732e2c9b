"""`backup` and `restore` are killed at every call that changes the disk, and the disk refuses every one of them.

A killed backup leaves the one before it; a killed restore leaves no world, or the whole one behind all of the operator's files, and is simply run again.
Each attempt is a process of its own, so that its locks end with it.
"""

import errno
import io
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.world.backup import write_backup
from app.world.errors import WorldError
from app.world.restore import restore
from app.world.verify import verify
from tests.unit.world.roots import plain as version
from tests.unit.world.roots import put_document, snapshot

CHANGING = (
    "open",
    "mkdir",
    "write",
    "symlink",
    "rename",
    "unlink",
    "rmdir",
    "utime",
    "fchmod",
    "fsync",
    "sync",
)
KILLED = 9
REFUSED = 1
PAST = 3
NOW = 1_790_000_000.0
ETC = {"tokens.toml": b"[tokens]\n", "certificate.pem": b"key and certificate"}


def attempt(work: Callable[[], object], at: int, *, kill: bool) -> int:
    """Does the work in a child process that is killed before call number `at`, or gets an error from it; gives the exit code, PAST
    if there are fewer calls.
    """
    with (
        warnings.catch_warnings()
    ):  # threads of other tests may still be there; the child needs none of their locks
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    calls = 0

    def wrapped(name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls - 1 == at:
                if kill:
                    os._exit(KILLED)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args, **options)

        setattr(os, name, call)

    for name in CHANGING:
        wrapped(name)
    try:
        work()
    except (OSError, WorldError):
        os._exit(REFUSED)
    except BaseException:
        os._exit(99)
    os._exit(0 if calls > at else PAST)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # They wait for whatever is written on the whole machine.
    monkeypatch.setattr(os, "sync", lambda: None)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    root = tmp_path / "root"
    put_document(root, "/a.md", version(1, b"# A\n"))
    put_document(root, "/d/b.md", version(1, b"# B\n"))
    (root / "d" / "versions" / "b.md" / "archive-state").write_bytes(b"true\n")
    return root


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "refused"])
def test_a_backup_replaces_the_one_before_whole_or_not_at_all(root: Path, tmp_path: Path, kill: bool) -> None:
    target = tmp_path / "backups" / "b.tar"
    target.parent.mkdir()
    codes: list[int] = []
    while PAST not in codes:
        target.write_bytes(b"before")
        codes.append(
            attempt(
                lambda: write_backup(os.fspath(root), os.fspath(target), ETC, NOW, "test"),
                len(codes),
                kill=kill,
            )
        )
        assert codes[-1] in (0, PAST, KILLED if kill else REFUSED)
        if (
            target.read_bytes() != b"before"
        ):  # whole, if not of every document: one that cannot be opened is left out and named
            restore(io.BytesIO(target.read_bytes()).read, os.fspath(tmp_path / f"new-{len(codes)}"), {})
        for leftover in set(target.parent.iterdir()) - {target}:
            assert kill
            leftover.unlink()
    assert len(codes) > 20
    told = restore(io.BytesIO(target.read_bytes()).read, os.fspath(tmp_path / "new"), {})
    assert told.documents == 2
    assert os.listdir(target.parent) == ["b.tar"]


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "refused"])
def test_a_restore_is_whole_or_not_at_all_and_can_be_run_again(
    root: Path, tmp_path: Path, kill: bool
) -> None:
    backup = tmp_path / "b.tar"
    write_backup(os.fspath(root), os.fspath(backup), ETC, NOW, "test")
    whole = snapshot(root)
    codes: list[int] = []
    while PAST not in codes:
        folder = tmp_path / str(len(codes))
        folder.mkdir()
        target = folder / "world"
        target.mkdir()
        places = {name: os.fspath(folder / "etc" / name) for name in ETC}

        def work(target: Path = target, places: dict[str, str] = places) -> None:
            with backup.open("rb") as source:
                restore(source.read, os.fspath(target), places)

        codes.append(attempt(work, len(codes), kill=kill))
        assert codes[-1] in (0, PAST, KILLED if kill else REFUSED)
        if found := snapshot(target):
            assert found == whole
            assert all(Path(places[name]).read_bytes() == data for name, data in ETC.items())
        else:
            work()  # once more, after whatever was left
        assert snapshot(target) == whole
        assert list(verify(os.fspath(target))) == []
        assert sorted(os.listdir(folder)) == ["etc", "world"]
        assert sorted(os.listdir(folder / "etc")) == sorted(ETC)
    assert len(codes) > 30
