"""A disk that fails, dies, or loses what was not synced, put between the store and the operating system.

It wraps the functions of `os` that the store calls. `fail_at` lets one call fail, `die_at` lets that call and all
later ones raise `Died`, as if the process were no more. `lose_power` then takes away what the disk had not been asked
to keep: the data of files, and the entries of directories, since their last sync.
"""

import errno
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_READING = ("open", "close", "read", "fstat", "stat", "readlink", "listdir", "scandir")
CHANGING = (
    "create",
    "close",
    "write",
    "fsync",
    "mkdir",
    "rmdir",
    "rename",
    "link",
    "symlink",
    "unlink",
    "utime",
    "fchmod",
)
"""How `Disk.calls` names what can leave a trace."""
_TEMPORARY = re.compile("-[0-9a-f]{16}$")
_WRITING = ("write", "fsync", "mkdir", "rmdir", "rename", "link", "symlink", "unlink", "utime", "fchmod")


class Died(BaseException):
    """The process is no more."""


class Disk:
    """The wrapped system calls; `calls` are those made while `armed`, as `<function> <name>`.

    What nobody can guess in a temporary name is a star. Opening a new file is a `create` there; closing what was only read is a `release`, which cannot fail.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.armed = False
        self.fail_at = self.die_at = -1
        self.code = errno.ENOSPC
        self._real: dict[str, Callable[..., Any]] = {}
        self._open: set[int] = set()
        self._written: set[int] = set()
        self._unsynced_data: dict[int, Path] = {}
        self._lost: list[Path] = []
        self._unsynced_entries: list[tuple[Path, Callable[[], None]]] = []
        for name in _READING + _WRITING:
            self._real[name] = getattr(os, name)
            monkeypatch.setattr(os, name, self._wrapped(name))
        self._real["fsync"] = lambda fd: None  # this disk needs no time

    def _wrapped(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if not self.armed:
                return self._real[name](*args, **options)
            self.armed = False  # what follows asks the system itself
            try:
                return self._called(name, args, options)
            finally:
                self.armed = True

        return call

    def _called(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if 0 <= self.die_at <= len(self.calls):
            raise Died
        self.calls.append(self._described(name, args, options))
        if self.fail_at == len(self.calls) - 1:
            if name == "close":
                self._real[name](*args)
            raise OSError(self.code, os.strerror(self.code))
        undo = self._undo(name, args, options)
        closing = self._unsynced_data.get(args[0]) if name == "close" else None
        result = self._real[name](*args, **options)
        if undo is not None:
            self._unsynced_entries.append(undo)
        if closing is not None:  # never synced, and nobody can any more
            self._lost.append(closing)
        self._account(name, args, options, result)
        return result

    def _path(self, name: Any, fd: int | None) -> Path:
        directory = Path(f"/proc/self/fd/{fd}").readlink() if fd is not None else Path("/")
        return directory / os.fsdecode(name)

    def _described(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> str:
        if isinstance(args[0], int):
            where = self._path(b"", args[0])
            if name == "close" and args[0] not in self._written:
                name = "release"
        else:
            fd = options.get("dir_fd", options.get("src_dir_fd"))
            where = self._path(args[1] if name in {"rename", "link", "symlink"} else args[0], fd)
            if name == "open" and args[1] & os.O_CREAT:
                name = "create"
        return f"{name} {_TEMPORARY.sub('-*', where.name)}"

    def _undo(
        self, name: str, args: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[Path, Callable[[], None]] | None:
        """How to take a change of a directory back, and which directory that is."""
        if name == "rename":
            old, new = self._path(args[0], options["src_dir_fd"]), self._path(args[1], options["dst_dir_fd"])
            return new.parent, _both(_restore(old), _restore(new))
        if name == "link":
            path = self._path(args[1], options["dst_dir_fd"])
            return path.parent, _restore(path)
        if name in {"mkdir", "rmdir", "symlink", "unlink"} or (name == "open" and args[1] & os.O_CREAT):
            path = self._path(args[1] if name == "symlink" else args[0], options["dir_fd"])
            return path.parent, _restore(path)
        return None

    def _account(self, name: str, args: tuple[Any, ...], options: dict[str, Any], result: Any) -> None:
        if name == "open":
            self._open.add(result)
            if args[1] & os.O_CREAT:
                self._written.add(result)
                self._unsynced_data[result] = self._path(args[0], options["dir_fd"])
        elif name == "close":
            self._open.discard(args[0])
            self._written.discard(args[0])
            self._unsynced_data.pop(args[0], None)
        elif name == "fsync":
            path = self._path(b"", args[0])
            if self._unsynced_data.pop(args[0], None) is None:
                self._unsynced_entries = [entry for entry in self._unsynced_entries if entry[0] != path]

    def disarm(self) -> None:
        """The machine runs again, with nothing open that a dead process held."""
        self.armed = False
        if self.die_at >= 0:
            for fd in self._open:
                self._real["close"](fd)
        self._open.clear()
        self._written.clear()
        self.fail_at = self.die_at = -1

    def forget(self) -> None:
        """Whatever is on the disk now is there to stay."""
        self._unsynced_data.clear()
        self._lost.clear()
        self._unsynced_entries.clear()

    def lose_data(self) -> None:
        """The directories were kept, but not the data of files that were not synced."""
        for path in [*self._unsynced_data.values(), *self._lost]:
            if path.exists():
                path.write_bytes(b"")

    def lose_entries(self) -> None:
        """Neither was kept."""
        self.lose_data()
        for _, undo in reversed(self._unsynced_entries):
            undo()


def _restore(path: Path) -> Callable[[], None]:
    """How to bring back what is at the path now."""
    if path.is_symlink():
        text = path.readlink()
        return _both(lambda: _remove(path), lambda: path.symlink_to(text))
    if path.is_file():
        data, times = path.read_bytes(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
        return _both(lambda: _remove(path), lambda: _write(path, data, times))
    if path.is_dir():
        return lambda: path.mkdir(exist_ok=True)
    return lambda: _remove(path)


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        first()
        second()

    return both


def _write(path: Path, data: bytes, times: tuple[int, int]) -> None:
    path.write_bytes(data)
    os.utime(path, ns=times)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
