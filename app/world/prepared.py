"""A write that is on disk and not yet current: how it is shown, settled, or taken back (store §5.1 steps 6 and 7).

`show` is one rename and touches no sync, since it runs where everybody waits. `settle` makes the rename durable and
prunes. Until `show`, `abandon` takes everything back, as far as the disk lets it, and as far as nobody has built on it:
other processes may write to the same document, and nothing keeps them out (store §5.5). What they do in the instant
between a look and the step that follows it can put the pointer back by one, never break the chain; `settle` looks once
more, and what it misses the next write mends (store §5.4).
"""

import contextlib
import errno
import os
from collections.abc import Callable

from app.world.disk import Names, Root, exists, path_of
from app.world.documents import VERSIONS, Document, Flight, Sight, link_text, version_in
from app.world.errors import BadDocument, DiskFailure, Escapes, NotSynced, ReadOnly, WorldError, reason
from app.world.shelf import POINTER_TEMP, SIDECAR, SIDECAR_TEMP, Pruned, prune, temporary
from app.world.versionfile import number_of

TEMP = b".tmp"
"""What the name of another server's new pointer ends with until it is renamed over the old one (store §5.1 step 6).

Any two writers share that name, so ours has another: see `shelf.POINTER_TEMP`.
"""

_FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM}


class Syncs:
    """Directory syncs, and those that are owed because they failed when it was too late to take the change back."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._owed: dict[Names, None] = {}

    def now(self, names: Names) -> None:
        """Sync a directory. Raises `OSError` or `Escapes`."""
        fd = self._root.open_directory(names)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def confirm(self, fd: int, names: Names) -> None:
        """Sync an open directory in which something became visible. Raises `NotSynced`; the sync is then owed."""
        try:
            os.fsync(fd)
        except OSError as error:
            self.owe(names)
            raise NotSynced(f"{path_of(names)}: {error.strerror}") from error

    def owe(self, names: Names) -> None:
        """Remember that a directory is to be synced before anything else is written."""
        self._owed[names] = None

    def settle(self) -> None:
        """Make up for what is owed (store §5.1 step 1). Raises `ReadOnly` or `DiskFailure`."""
        for names in sorted(self._owed):
            try:
                self.now(names)
            except (FileNotFoundError, NotADirectoryError, Escapes):
                pass  # gone meanwhile: nothing is left to sync
            except OSError as error:
                raise refusal(error, path_of(names)) from error
            del self._owed[names]


class Site:
    """Where a write is to go: its directory (`parent`, -1 if absent), what lies there, and what is in the way.

    `above` is the deepest directory on the way that is there, as long as `parent` is not (-1 if there is no need of it).
    As a context it closes what it holds open, unless a prepared write has `taken` it over.
    """

    def __init__(self, path: str, names: Names) -> None:
        self.path = path
        self.names = names
        self.taken = False
        self.parent = self.above = -1
        self.present = len(names) - 1  # how many of the names are directories that exist
        self.sight = Sight(path)
        self.obstacle = ""

    def follow(self, present: Names, rest: Names) -> None:
        """Go by the names of the directories that are there, symlinks resolved, and those that follow."""
        self.names = (*present, *rest)
        self.path = path_of(self.names)
        self.present = len(present)

    @property
    def folder_names(self) -> Names:
        """The names of the version directory."""
        return (*self.names[:-1], VERSIONS, self.names[-1])

    @property
    def current(self) -> int:
        """The current version number, 0 if there is no document."""
        return self.sight.shelf.current if self.sight.served is not None else 0

    def __enter__(self) -> "Site":
        return self

    def __exit__(self, *_: object) -> None:
        if not self.taken:
            self.close()

    def close(self) -> None:
        """Close what is open; more than once does no harm."""
        self.sight.close()
        for fd in (self.parent, self.above):
            if fd >= 0:
                os.close(fd)
        self.parent = self.above = -1


class NewVersion:
    """A version on disk that is about to become current."""

    def __init__(self, site: Site, syncs: Syncs, flight: Flight, number: int, retention: int) -> None:
        self._site = site
        self._syncs = syncs
        self._flight = flight
        self._number = number
        self._retention = retention
        self._temp = temporary(POINTER_TEMP)
        self._undo: list[Callable[[], None]] = []
        self.document: Document
        site.taken = True

    def on_abandon(self, undo: Callable[[], None]) -> None:
        """Remember how to take the last step back; undone in reverse order."""
        self._undo.append(undo)

    def link(self) -> None:
        """Make the pointer under its temporary name. Raises `OSError`."""
        target = b"versions/%b/v%d" % (self._site.names[-1], self._number)
        os.symlink(target, self._temp, dir_fd=self._site.sight.folder)

    def unlink(self) -> None:
        """Remove it again. Raises `OSError`."""
        os.unlink(self._temp, dir_fd=self._site.sight.folder)

    def _rename(self) -> None:
        site = self._site
        os.rename(self._temp, site.names[-1], src_dir_fd=site.sight.folder, dst_dir_fd=site.parent)

    def _pointed(self) -> int:
        """The version that the pointer names now, -1 if it is none of ours."""
        name = self._site.names[-1]
        return version_in(link_text(self._site.parent, name), name)

    def show(self) -> None:
        """Make the version current: one rename. Raises `DiskFailure`, having taken everything back.

        If somebody has already made a later version current, theirs stays so and ours is part of its history.
        """
        folder = self._site.sight.folder
        try:
            pointed = self._pointed()
            if pointed > self._number and exists(b"v%d" % pointed, folder):
                self.unlink()
            else:
                self._rename()
        except OSError as error:
            self.abandon()
            raise refusal(error, self._site.path) from error
        self._undo.clear()
        self._flight.write = None

    def settle(self) -> Pruned | None:
        """Sync the pointer's directory, then prune. Raises `NotSynced`; the sync is then owed by the next write."""
        try:
            self._syncs.confirm(self._site.parent, self._site.names[:-1])
            with contextlib.suppress(OSError):
                if 0 <= self._pointed() < self._number:  # another writer, too late with an older version
                    self.link()
                    self._rename()
                    os.fsync(self._site.parent)
            return prune(self._site.sight.folder, self._number - self._retention) if self._retention else None
        finally:
            self._site.close()

    def withdraw(self) -> None:
        """Remove the version file, unless another process has made something of it. Raises `OSError`."""
        folder = self._site.sight.folder
        followed = any(number_of(other) > self._number for other in os.listdir(folder))
        if not followed and self._pointed() != self._number:
            os.unlink(b"v%d" % self._number, dir_fd=folder)

    def abandon(self) -> None:
        """Take back what was written, as far as the disk and other processes let us."""
        try:
            while self._undo:
                with contextlib.suppress(OSError):
                    self._undo.pop()()
        finally:
            self._site.close()
            self._flight.write = None


class NewState:
    """An archive sidecar on disk under a temporary name (store §4.5); `document` is the document it is about."""

    def __init__(self, site: Site, syncs: Syncs, document: Document) -> None:
        self._site = site
        self._syncs = syncs
        self.temp = temporary(SIDECAR_TEMP)
        self.document = document
        site.taken = True

    def show(self) -> None:
        """Put the state in force: one rename. Raises `DiskFailure`, having taken everything back."""
        folder = self._site.sight.folder
        try:
            os.rename(self.temp, SIDECAR, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            self.abandon()
            raise refusal(error, self.document.path) from error

    def settle(self) -> None:
        """Sync the version directory. Raises `NotSynced`; the sync is then owed by the next write."""
        try:
            self._syncs.confirm(self._site.sight.folder, self._site.folder_names)
        finally:
            self._site.close()

    def abandon(self) -> None:
        """Remove the temporary file."""
        with contextlib.suppress(OSError):
            os.unlink(self.temp, dir_fd=self._site.sight.folder)
        self._site.close()


def refusal(error: OSError, path: str) -> WorldError:
    """What a failed system call means for a write to `path`."""
    if error.errno in _FORBIDDEN:
        return ReadOnly(f"{path}: {error.strerror}")
    if error.errno == errno.ENAMETOOLONG:
        return BadDocument("no document can have this path")
    return DiskFailure(f"{path}: {reason(error)}")
