"""Stamps: what is remembered of each document so that a reload need not read it again.

A stamp has two halves. The *place* is what the file system says of pointer, version directory, version file and archive
mark (inode, size, times of data and of inode); as long as it is the same nothing was written, renamed or touched, since
no program can set the time of an inode. The *content* is what reading gave; it tells whether a document whose place has
changed says anything new. Times are compared for being equal only, so that a clock that jumps does no harm.

A place may be `UNSURE`, which equals none: the document lies in an unusual way, or its times are so fresh that another
change within the same tick of the file system's clock would not show. It is then read once more the next time.
"""

import os
import stat
import struct
from collections.abc import Callable
from hashlib import blake2b

import msgspec

from app.world.documents import VERSIONS, Document
from app.world.shelf import SIDECAR

UNSURE = b""
"""The place of a document that is to be read again."""

_TICK = 0.02
"""Seconds; file systems take their times from a clock that advances 100 to 1,000 times a second."""
_WHOLE = 1.1
"""The same for those that keep whole seconds."""
_MARKED, _UNMARKED = b"\1", b"\0"  # a place ends with whether there is an archive mark

Clock = Callable[[], float]
"""The wall clock, in seconds since the epoch."""


class Stamp(msgspec.Struct, frozen=True, gc=False):
    """One document as it was last read; `size` is that of its body in bytes."""

    place: bytes
    content: bytes
    size: int
    archived: bool


def stamp_of(document: Document, place: bytes = UNSURE) -> Stamp:
    """The stamp of a document just read, with the place it had before it was read."""
    told = f"{document.etag} {document.version} {document.modified} {document.archived}"
    return Stamp(
        place, blake2b(told.encode(), digest_size=16).digest(), len(document.body), document.archived
    )


def place_of(directory: int, name: bytes, now: Clock | None, before: bytes = UNSURE) -> tuple[bytes, int]:
    """The place of the document `name` in an open directory, and the version its pointer names; `UNSURE` and 0 if in doubt.

    To be asked before the document is read, so that a change in between shows the next time; `before` is the place of
    last time. Without a clock nothing is ever sure.
    """
    if now is None:
        return UNSURE, 0
    folder = VERSIONS + b"/" + name
    marked = True
    try:
        target = os.readlink(name, dir_fd=directory)
        number = target.removeprefix(folder + b"/v")
        if target == number or not number.isdigit():
            return UNSURE, 0
        found = [
            os.stat(folder, dir_fd=directory, follow_symlinks=False),
            os.stat(target, dir_fd=directory, follow_symlinks=False),
        ]
        if not (stat.S_ISDIR(found[0].st_mode) and stat.S_ISREG(found[1].st_mode)):
            return UNSURE, 0
        # In a directory that is as it was there is no archive mark if there was none: one question less.
        if before[-1:] == _UNMARKED and before == _packed(found, target, _UNMARKED):
            return before, int(number)
        try:
            found.append(os.stat(folder + b"/" + SIDECAR, dir_fd=directory, follow_symlinks=False))
        except FileNotFoundError:
            marked = False
        moment = now()
    except OSError:
        return UNSURE, 0
    for one in found:
        changed = one.st_ctime_ns
        if abs(moment - changed / 1e9) < (_TICK if changed % 1_000_000_000 else _WHOLE):
            return UNSURE, int(number)
    return _packed(found, target, _MARKED if marked else _UNMARKED), int(number)


def _packed(found: list[os.stat_result], target: bytes, marked: bytes) -> bytes:
    numbers = [
        number for one in found for number in (one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns)
    ]
    return blake2b(struct.pack(f"<{len(numbers)}q", *numbers) + target, digest_size=16).digest() + marked
