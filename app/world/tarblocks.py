"""Tar, as much of it as a backup is made of: regular files and symlinks with names of any bytes, in GNU's form, which every tar reads.

The standard library makes and reads the blocks; what it would do with a member, and every other kind of member, is left out. Reading
takes a stream from a stranger: sizes are bounded before anything is read, and whatever is not of these few forms is an error.
"""

import hashlib
import tarfile
from collections.abc import Callable, Iterator

import msgspec

from app.world.versionfile import FILE_MAX

BLOCK = 512
_LONG_MAX = 8192
"""The longest name that is read: twice what any path has."""
_TIME_MAX = 2**40
_RECORD = 20 * BLOCK
"""What other tars fill up to with zeros."""
_LONG = {tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
_NAMES = ("utf-8", "surrogateescape")


class BadTar(ValueError):
    """The stream is no tar of these few forms; the text says where it stops being one."""


class Member(msgspec.Struct, frozen=True):
    """A regular file with its bytes, or a symlink with its target; `modified` is whole seconds since the epoch."""

    name: bytes
    data: bytes
    target: bytes
    modified: int
    digest: str
    """Of everything before this member: what `TarWriter.digest` gave when it was about to be written."""


class TarWriter:
    """Members one after the other into a stream."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._sum = hashlib.sha256()

    @property
    def digest(self) -> str:
        """SHA-256 of everything written so far, in hexadecimal digits."""
        return self._sum.hexdigest()

    def file(self, name: bytes, data: bytes, modified: int, mode: int) -> None:
        """A regular file."""
        self._header(name, modified, mode, tarfile.REGTYPE, size=len(data))
        self._put(data + bytes(-len(data) % BLOCK))

    def link(self, name: bytes, target: bytes, modified: int) -> None:
        """A symlink."""
        self._header(name, modified, 0o777, tarfile.SYMTYPE, target=target)

    def end(self) -> None:
        """What a tar ends with."""
        self._put(bytes(2 * BLOCK))

    def _header(
        self, name: bytes, modified: int, mode: int, kind: bytes, *, size: int = 0, target: bytes = b""
    ) -> None:
        head = tarfile.TarInfo(name.decode(*_NAMES))
        head.size, head.mtime, head.mode, head.type = size, modified, mode, kind
        head.linkname = target.decode(*_NAMES)
        self._put(head.tobuf(tarfile.GNU_FORMAT, *_NAMES))

    def _put(self, data: bytes) -> None:
        self._sum.update(data)
        self._write(data)


def members(read: Callable[[int], bytes]) -> Iterator[Member]:
    """The members of a tar in their order, up to its end and that of the stream. `read` gives so many bytes, fewer only at the end.

    Raises `BadTar`.
    """
    total = hashlib.sha256()

    def take(size: int) -> bytes:
        data = read(size)
        if len(data) < size:
            raise BadTar("it ends in the middle")
        total.update(data)
        return data

    while True:
        digest = total.hexdigest()
        long: dict[bytes, bytes] = {}
        while True:
            block = take(BLOCK)
            if not any(block):
                if long or any(take(BLOCK)):
                    raise BadTar("it ends within a member")
                rest = read(_RECORD)
                if any(rest) or len(rest) == _RECORD:
                    raise BadTar("there is more after its end")
                return
            head = _head(block)
            if head.type not in _LONG:
                break
            if head.type in long or head.size > _LONG_MAX:
                raise BadTar("a name is too long")
            long[head.type] = _payload(take, head.size).rstrip(b"\0")
        name = long.get(tarfile.GNUTYPE_LONGNAME, head.name.encode(*_NAMES))
        target = long.get(tarfile.GNUTYPE_LONGLINK, head.linkname.encode(*_NAMES))
        if head.type == tarfile.SYMTYPE and not head.size:
            yield Member(name, b"", target, int(head.mtime), digest)
        elif head.type == tarfile.REGTYPE and not target:
            if head.size > FILE_MAX:
                raise BadTar(f"{_shown(name)} is larger than anything a backup holds")
            yield Member(name, _payload(take, head.size), b"", int(head.mtime), digest)
        else:
            raise BadTar(f"{_shown(name)} is neither a file nor a symlink")


def _payload(take: Callable[[int], bytes], size: int) -> bytes:
    return take(size + -size % BLOCK)[:size]


def _head(block: bytes) -> tarfile.TarInfo:
    try:
        head = tarfile.TarInfo.frombuf(block, *_NAMES)
    except (tarfile.HeaderError, ValueError, OverflowError) as error:
        raise BadTar(f"a header cannot be read: {error}") from None
    if head.size < 0 or not -_TIME_MAX < head.mtime < _TIME_MAX:
        raise BadTar("a header holds a number that no file has")
    return head


def _shown(name: bytes) -> str:
    return ascii(name.decode("utf-8", "replace"))
