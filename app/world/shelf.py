"""The directory that holds the versions of one document: what lies in it, and which version is the newest whole one.

A version is whole unless a power cut tore it: empty, unreadable, too large, or cut off within its header
(`versionfile.is_whole`). Torn versions above the newest whole one are set aside: they are not served, not listed and
not counted, but their numbers are never used again. Below it nothing is looked at here; a damaged old version is for
chain verification to report.
"""

import errno
import math
import os
import stat

import msgspec

from app.world.disk import NotRegular, Oversized, raw_name, read_regular
from app.world.errors import Damaged
from app.world.versionfile import is_whole, number_of

SIDECAR = b"archive-state"
SIDECAR_TEMP = b".archive-state-"
POINTER_TEMP = b".pointer-"
VERSION_TEMP = b".version-"
"""What temporary names begin with, one for each kind; something that nobody can guess follows. They lie in here, where
every program passes over names it does not know (store §1.2), and no two writers ever share one."""
TORN = b".torn"
"""Suffix under which a write puts a torn version aside, so that nobody takes it for a version (see `writing`)."""

# The same as the scan of a directory gives them.
_SIDECAR, _TORN = SIDECAR.decode(), TORN.decode()
_TEMPS = (SIDECAR_TEMP.decode(), POINTER_TEMP.decode(), VERSION_TEMP.decode())
STATES = {b"true\n": True, b"false\n": False}
"""What the bytes of a sidecar say; no others do (store §4.1)."""
# What a damaged card or a foreign owner answers. Anything else (descriptors used up, say) is about this process and
# must not make a good version look torn.
_UNREADABLE = {errno.EIO, errno.EACCES, errno.EPERM, errno.EUCLEAN, errno.EBADMSG, errno.EFBIG}


class Torn(msgspec.Struct, frozen=True):
    """A version that is set aside, and why; when it was last written, if that is known."""

    number: int
    name: bytes
    why: str
    modified: float = -math.inf

    @property
    def unreadable(self) -> bool:
        """Whether it is more than what a power cut leaves, since that can be read."""
        return self.modified == -math.inf

    @property
    def fault(self) -> str:
        """What is wrong, in words."""
        state = "cannot be read" if self.unreadable else "is torn"
        return f"v{self.number} {state}: {self.why}"


class Pruned(msgspec.Struct, frozen=True, gc=False):
    """The versions that retention removed, 0 and 0 if none, and why it stopped early, if it did (store §6)."""

    first: int
    last: int
    error: str = ""


class Shelf(msgspec.Struct, frozen=True):
    """What the version directory of a document holds.

    `files` are the names of version files by number, up to `current`, the newest whole version (0 if there is none);
    `data` and `modified` are that version's. `highest` is the highest number that is taken in any way.
    """

    files: dict[int, bytes]
    current: int
    data: bytes
    modified: int
    highest: int
    torn: tuple[Torn, ...]
    sidecar: bool
    leftovers: tuple[bytes, ...]
    """Temporary names: what a crash left, or what another process is about to use."""


EMPTY = Shelf({}, 0, b"", 0, 0, (), False, ())


def temporary(prefix: bytes) -> bytes:
    """A temporary name that no other writer has."""
    return prefix + os.urandom(8).hex().encode()


def survey(folder: int, listing: list[str], hidden: frozenset[int] = frozenset()) -> Shelf:
    """Judge the listing of an open version directory; `hidden` numbers belong to a write that is not shown yet.

    Raises `OSError` if a file cannot be read for a reason that is not the file's.
    """
    files: dict[int, bytes] = {}
    highest = 0
    sidecar = False
    leftovers: list[bytes] = []
    for name in listing:
        number = number_of(name)
        if number:
            if number in hidden:
                continue
            if number not in files or name == f"v{number}":
                files[number] = raw_name(name)
        elif name == _SIDECAR:
            sidecar = True
        elif name.startswith(_TEMPS):
            leftovers.append(raw_name(name))
        else:
            number = number_of(name.removesuffix(_TORN))
        highest = max(highest, number)
    torn: list[Torn] = []
    while files:
        current = max(files)
        name_of_file = files[current]
        try:
            data, modified = read_regular(folder, name_of_file)
        except (NotRegular, FileNotFoundError):  # not a version; or gone since the listing
            del files[current]
            continue
        except OSError as error:
            if not isinstance(error, Oversized) and error.errno not in _UNREADABLE:
                raise
            torn.append(Torn(current, name_of_file, error.strerror or type(error).__name__))
        else:
            if is_whole(data):
                return Shelf(files, current, data, modified, highest, tuple(torn), sidecar, tuple(leftovers))
            torn.append(Torn(current, name_of_file, "empty" if not data else "cut off", modified))
        del files[current]
    return Shelf({}, 0, b"", 0, highest, tuple(torn), sidecar, tuple(leftovers))


def archive_state(folder: int, path: str) -> bool:
    """What the sidecar in the open version directory of the document at `path` says (store §4.1).

    Raises `Damaged` unless it is a regular file of exactly one of the two contents; `FileNotFoundError` if it is gone.
    """
    try:
        data, _ = read_regular(folder, SIDECAR)
        return STATES[data]
    except FileNotFoundError:
        raise
    except (KeyError, OSError) as error:
        raise Damaged(f"{path}: archive-state is malformed") from error


def prune(folder: int, upto: int) -> Pruned | None:
    """Remove every version up to a number from an open version directory, ascending; None if there was none.

    Stops at the first failure, so that what is left has no holes (store §6). Never raises `OSError`.
    """
    first = last = 0
    try:
        doomed = sorted(
            (number, name) for name in os.listdir(folder) if 0 < (number := number_of(name)) <= upto
        )
        for number, name in doomed:
            if stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=folder)
                first, last = first or number, number
    except OSError as error:
        return Pruned(first, last, error.strerror or type(error).__name__)
    return Pruned(first, last) if first else None
