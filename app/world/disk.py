"""Opening what a path names below the content root, and nothing outside it (store §2).

Every directory is opened from the root downwards, one name at a time, without following symlinks; everything else is
then done relative to the open directory, so that no link swapped in between can lead elsewhere. A symlink on the way
is resolved as a whole, checked to stay below the root, and what it resolved to is opened in the same careful way.

Names are bytes here: the root is shared with other programs, whose names need not be in any encoding. What a scan of
an open directory yields as `str` goes through `raw_name` first.
"""

import errno
import os
import stat
from collections.abc import Sequence

from app.world.errors import BadRoot, Escapes
from app.world.versionfile import FILE_MAX

Names = tuple[bytes, ...]
"""The segments of a path, from the root down; empty for the root itself."""

NAME_MAX = 255
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking, since somebody may have put a named pipe where a file should be.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LINK = {errno.ENOTDIR, errno.ELOOP}


class NotRegular(OSError):
    """Something other than a regular file where only a regular file counts (store §1.2)."""


class Oversized(OSError):
    """A file larger than any version file may be (store §3.7)."""


def names_of(path: str) -> Names | None:
    """The names of a canonical path; None if no file can have that path."""
    if path == "/":
        return ()
    try:
        names = tuple(path.encode("utf-8", "surrogateescape").split(b"/"))
    except UnicodeEncodeError:
        return None
    if len(names) < 2 or names[0] or b"" in names[1:] or b"." in names or b".." in names or "\0" in path:
        return None
    return names[1:]


def path_of(names: Sequence[bytes]) -> str:
    """The canonical path of names."""
    return "/" + b"/".join(names).decode("utf-8", "surrogateescape")


def raw_name(name: str) -> bytes:
    """The bytes of a name that a scan of an open directory gave as text."""
    return os.fsencode(name)


def text_name(name: bytes) -> str:
    """The name as part of a path of the world."""
    return name.decode("utf-8", "surrogateescape")


class Root:
    """The content root, held open. `path` is where it really lies; `fd` its directory."""

    def __init__(self, path: str | bytes) -> None:
        self.path = os.path.realpath(os.fsencode(path))
        self._prefix = self.path.rstrip(b"/") + b"/"
        try:
            self.fd = os.open(self.path, DIRECTORY)
        except OSError as error:
            raise BadRoot(f"content root {os.fsdecode(path)}: {error.strerror}") from error

    def close(self) -> None:
        os.close(self.fd)

    def open_directory(self, names: Names) -> int:
        """A new descriptor of the directory; the caller closes it.

        Raises `Escapes` if a symlink leads out of the root, and the usual `OSError`s: `FileNotFoundError`,
        `NotADirectoryError` and others.
        """
        fd = os.open(b".", DIRECTORY, dir_fd=self.fd) if not names else self.fd
        for name in names:
            try:
                below = os.open(name, DIRECTORY, dir_fd=fd)
            except OSError as error:
                if error.errno in _LINK:
                    return self._open_real(self.resolve(names))
                raise
            finally:
                if fd != self.fd:
                    os.close(fd)
            fd = below
        return fd

    def open_below(self, fd: int, names: Names, name: bytes) -> int:
        """As `open_directory(names + (name,))`, where `fd` is `names` already open."""
        try:
            return os.open(name, DIRECTORY, dir_fd=fd)
        except OSError as error:
            if error.errno in _LINK:
                return self._open_real(self.resolve((*names, name)))
            raise

    def open_deepest(self, names: Names) -> tuple[int, Names, int]:
        """The deepest directory on the way that is there, opened; its names without symlinks; how many of `names` led
        to it.

        Raises `NotADirectoryError` if something else, a symlink that leads nowhere included, is on the way; else as
        `open_directory` does.
        """
        fd = os.open(b".", DIRECTORY, dir_fd=self.fd)
        real: list[bytes] = []
        try:
            for depth, name in enumerate(names):
                try:
                    below = os.open(name, DIRECTORY, dir_fd=fd)
                    real.append(name)
                except FileNotFoundError:
                    return fd, tuple(real), depth
                except OSError as error:
                    if error.errno not in _LINK:
                        raise
                    real = list(self.resolve((*real, name)))
                    try:
                        below = self._open_real(tuple(real))
                    except FileNotFoundError:
                        raise NotADirectoryError(errno.ENOTDIR, "a symlink that leads nowhere") from None
                os.close(fd)
                fd = below
        except BaseException:
            os.close(fd)
            raise
        return fd, tuple(real), len(names)

    def _open_real(self, names: Names) -> int:
        fd = os.open(b".", DIRECTORY, dir_fd=self.fd)
        for name in names:
            try:
                below = os.open(name, DIRECTORY, dir_fd=fd)
            finally:
                os.close(fd)
            fd = below
        return fd

    def resolve(self, names: Names) -> Names:
        """The names of what `names` leads to when every symlink on the way is followed; the end need not exist.

        Raises `Escapes` if that lies outside the root.
        """
        real = os.path.realpath(self._prefix + b"/".join(names))
        if real == self.path:
            return ()
        if not real.startswith(self._prefix):
            raise Escapes(f"{path_of(names)} leads to {os.fsdecode(real)}")
        return tuple(real.removeprefix(self._prefix).split(b"/"))


class Trail:
    """Opens many directories one after the other, one that lies directly in the last from there, so that a walk costs
    what its directories are and not what they are times how deep they lie. A context that closes the last.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._names: Names = ()
        self._fd = -1

    def __enter__(self) -> "Trail":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def open(self, names: Names) -> int:
        """The directory, open until the next one is asked for. Raises as `Root.open_directory` does."""
        if self._fd >= 0 and names[:-1] == self._names and names:
            fd = self._root.open_below(self._fd, self._names, names[-1])
        else:
            fd = self._root.open_directory(names)
        self._close()
        self._names, self._fd = names, fd
        return fd

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_regular(directory: int, name: bytes) -> tuple[bytes, int]:
    """The bytes of a regular file in an open directory, and its modification time in whole seconds.

    Raises `NotRegular`, `Oversized` past the size of any version file, or another `OSError`.
    """
    try:
        fd = os.open(name, _FILE, dir_fd=directory)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO}:
            raise NotRegular(error.errno, "not a regular file") from error
        raise
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise NotRegular(errno.EINVAL, "not a regular file")
        if found.st_size > FILE_MAX:
            raise Oversized(errno.EFBIG, f"{found.st_size} bytes, more than a version may have")
        data = os.read(fd, found.st_size + 1)
        while len(data) < found.st_size:
            more = os.read(fd, found.st_size - len(data))
            if not more:
                break
            data += more
    finally:
        os.close(fd)
    return data, found.st_mtime_ns // 1_000_000_000


def exists(name: bytes, directory: int) -> bool:
    """Whether there is anything of this name in an open directory, a symlink that leads nowhere included."""
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def write_all(fd: int, data: bytes) -> None:
    """Write every byte, however many calls that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
