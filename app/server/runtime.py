"""Where a running server can be asked: one Unix socket for each, in a runtime directory that only its user may enter.

The socket's file is the only trace of a running server outside its content. A server that was killed leaves one behind
that refuses connections; the next one to start clears it away. Paths of sockets are short by law (108 bytes), those of
directories are not, so that a socket is always reached through its open directory.

Questions and answers are one JSON object each, on one line. No trio here: a command that asks has nothing to wait for
but the answer.
"""

import os
import socket
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any, Protocol

import msgspec

SYSTEM_DIRECTORY = "/run/demarkus-appliance"
"""Where the service's runtime directory is."""
LINE_MAX = 65536
"""Bytes of a question or an answer."""
_SUFFIX = ".sock"


class Ask(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question: `op` is `status` or `reload`; a reload may name one document of the world at `root`."""

    op: str
    path: str = ""
    root: str = ""


class NoAnswer(Exception):
    """A server that was found does not answer; the text says why."""


def is_below(directory: str, root: str) -> bool:
    """Whether a directory lies in another, links followed; neither need exist."""
    real = os.path.realpath(root)
    return os.path.commonpath([real, os.path.realpath(directory)]) == real


def listen(directory: str, root: str) -> tuple[socket.socket, str]:
    """A listening socket for the server of a content root, and its file's name. Raises `OSError`.

    Only the own user can connect. The directory is made if it is missing.
    """
    os.makedirs(directory, mode=0o700, exist_ok=True)
    _clear(directory)
    key = sha256(os.path.realpath(os.fsencode(root))).hexdigest()[:16]
    with _opened(directory) as fd:
        name = key + _SUFFIX
        if _exists(fd, name):  # another server has this root
            name = f"{key}-{os.getpid()}{_SUFFIX}"
        fresh = f".{os.getpid()}.new"
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=fd)
        found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            found.bind(_short(fd, fresh))
            os.chmod(fresh, 0o600, dir_fd=fd)
            found.listen(8)  # before this nobody gets in, whatever the mode was
            os.rename(fresh, name, src_dir_fd=fd, dst_dir_fd=fd)
        except BaseException:
            found.close()
            raise
    return found, name


def remove(directory: str, name: str) -> None:
    """Take the file away again."""
    with suppress(OSError):
        os.unlink(os.path.join(directory, name))


class _Connected(Protocol):
    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


def peer_is_trusted(connected: _Connected) -> bool:
    """Whether the other side runs as this user, or as root, whom nothing could be kept from."""
    data = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(data[4:8], sys.byteorder) in {0, os.geteuid()}


def servers(places: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The directory and file name of every socket in these directories; whether anybody listens is not known."""
    for directory in places:
        with suppress(OSError):
            for name in sorted(os.listdir(directory)):
                if name.endswith(_SUFFIX) and not name.startswith("."):
                    yield directory, name


def ask(place: tuple[str, str], question: Ask, timeout: float) -> dict[str, Any]:
    """The answer to a question, within so many seconds. Raises `NoAnswer`."""
    directory, name = place
    try:
        with (
            _opened(directory) as fd,
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as asked,
        ):
            asked.settimeout(timeout)
            asked.connect(_short(fd, name))
            asked.sendall(msgspec.json.encode(question) + b"\n")
            line = b""
            while not line.endswith(b"\n") and len(line) <= LINE_MAX:
                more = asked.recv(LINE_MAX)
                if not more:
                    break
                line += more
        answer: dict[str, Any] = msgspec.json.decode(line, type=dict)
    except TimeoutError:
        raise NoAnswer(f"the server has not answered within {timeout:.0f} s") from None
    except OSError as error:
        raise NoAnswer(error.strerror or str(error)) from error
    except msgspec.DecodeError as error:
        raise NoAnswer("the server closed the connection") from error
    return answer


def _clear(directory: str) -> None:
    """Remove the sockets that nobody listens on any more."""
    for place in list(servers([directory])):
        with (
            suppress(OSError),
            _opened(directory) as fd,
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as tried,
        ):
            tried.settimeout(1.0)
            try:
                tried.connect(_short(fd, place[1]))
            except ConnectionRefusedError:
                os.unlink(place[1], dir_fd=fd)


def _exists(fd: int, name: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


@contextmanager
def _opened(directory: str) -> Iterator[int]:
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _short(fd: int, name: str) -> str:
    return f"/proc/self/fd/{fd}/{name}"
