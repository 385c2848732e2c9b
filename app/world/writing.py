"""Writing documents to disk: the sequence of store §5.1, in its order and with its syncs.

A write is prepared, shown and settled. `Writer.publish`, `append` and `set_archived` prepare it: everything up to the
synced version file and a temporary symlink (or sidecar), which no reader takes for anything. `show` is one rename.
`settle` makes the rename durable and prunes. Until `show`, `abandon` takes everything back. One write at a time; the
caller sees to that.

Against other processes nothing guards but that a version number can be taken once (store §5.5). A version file gets
its name when it is whole and synced, by a hard link, which is as exclusive as O_EXCL: so no other writer builds on
half of it, and a crash leaves none. It is never taken back once somebody may have built on it (`prepared`).
"""

import contextlib
import errno
import os
from collections.abc import Mapping

import msgspec

from app.protocol.publisher import merged
from app.world.descent import Descent
from app.world.disk import (
    NAME_MAX,
    Names,
    Root,
    exists,
    names_of,
    path_of,
    read_regular,
    write_all,
)
from app.world.documents import VERSIONS, Document, Documents, Flight, InFlight, Sight, document_of, link_text
from app.world.errors import (
    Archived,
    BadDocument,
    Conflict,
    Damaged,
    DiskFailure,
    Escapes,
    LostRace,
    Missing,
    PathCollision,
    WorldError,
)
from app.world.prepared import TEMP, NewState, NewVersion, Site, Syncs, refusal
from app.world.shelf import SIDECAR, TORN, VERSION_TEMP, temporary
from app.world.versionfile import NUMBER_MAX, Content, encode, hash_of, read

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


SETTLING = 2.0
"""Seconds for which a version that looks torn is taken for one that another process is still writing."""
SEGMENTS_MAX = 256
"""How deep a path may be for which directories must be made.

Each takes a sync, some milliseconds on a card, while every other write waits, and every walk comes by. A path of the
greatest length may have 2,043 segments (store §2 knows no limit of its own); no one that is for a reader has a tenth of
this. What lies deeper already is read and written as anything else.
"""
STALE = 60.0
"""Seconds after which a temporary name is taken for what a crash left. Another process may be about to use it before."""


class Unchanged(msgspec.Struct, frozen=True, gc=False):
    """Nothing had to be written: the current version and its time (wire §5.4 row 9, store §4.4)."""

    version: int
    modified: int


class Writer:
    """The writing half of the store over one root; used by one thread at a time."""

    def __init__(self, root: Root, documents: Documents, flight: Flight) -> None:
        self._root = root
        self._documents = documents
        self._flight = flight
        self._syncs = Syncs(root)

    def publish(
        self, path: str, body: bytes, metadata: Mapping[str, str], expected: int | None, now: float
    ) -> NewVersion | Unchanged:
        """Prepare a version with this body and this whole metadata (wire §5.4 rows 6 to 12).

        Raises `BadDocument`, then in this order `Conflict`, `PathCollision`, `Archived`, `TooLarge`, `Escapes`; or
        `ReadOnly`, `LostRace`, `Damaged`, `DiskFailure`.
        """
        _check_text(body)
        if _document_names(path) is None:
            raise BadDocument("no document can have this path")
        with self._survey(path) as site:
            if site.above >= 0 and len(site.names) > SEGMENTS_MAX:
                raise BadDocument(
                    f"a path of {len(site.names)} segments; the most for a new one are {SEGMENTS_MAX}"
                )
            if expected is not None and expected != site.current:
                raise Conflict(site.current)
            self._syncs.settle()
            if site.obstacle in {"directory", "ancestor"}:
                raise PathCollision("directory" if site.obstacle == "directory" else "ancestor")
            if site.sight.served is not None:
                content = _live(site, site.sight.served)
                # A pointer behind the newest version (store §5.4) is to be moved, whatever it shows.
                if not site.sight.behind and content.body == body and content.metadata == metadata:
                    return Unchanged(site.current, site.sight.modified)
            return self._prepare(site, body, metadata, expected, now)

    def append(
        self, path: str, body: bytes, metadata: Mapping[str, str], expected: int, now: float
    ) -> NewVersion:
        """Prepare a version with the text added to the current body, and the metadata merged (wire §5.5).

        Raises `Missing`, then in this order `Conflict`, `Archived`, `Fault` for the merged metadata, `TooLarge`; or
        as `publish` does.
        """
        _check_text(body)
        with self._survey(path) as site:
            if site.sight.served is None:
                raise Missing(path)
            if expected != site.current:
                raise Conflict(site.current)
            self._syncs.settle()
            content = _live(site, site.sight.served)
            joint = b"\n" if content.body and not content.body.endswith(b"\n") else b""
            whole = merged(path, content.metadata, metadata)
            return self._prepare(site, content.body + joint + body, whole, expected, now)

    def set_archived(self, path: str, archived: bool) -> NewState | Unchanged:
        """Prepare a change of the archive state (store §4). Raises `Missing`, `Damaged`, `ReadOnly`, `DiskFailure`.

        A malformed sidecar, which fails every read (store §4.1), is neither state: either change replaces it by a good
        one, so that whoever may archive the document can repair it.
        """
        with self._survey(path) as site:
            sight = site.sight
            if sight.served is None:
                raise Missing(path)
            content = read(sight.served)
            in_force: bool | None = None
            with contextlib.suppress(Damaged):
                in_force = sight.archived(content)
            self._syncs.settle()
            if in_force != archived:
                document = document_of(
                    site.path, site.current, sight.served, content, sight.modified, archived
                )
                return self._prepare_state(site, document)
            if sight.shelf.sidecar:
                self._syncs.confirm(sight.folder, site.folder_names)
            return Unchanged(site.current, sight.modified)

    def _prepare_state(self, site: Site, document: Document) -> NewState:
        folder = site.sight.folder
        step = NewState(site, self._syncs, document)
        try:
            fd = os.open(step.temp, _NEW_FILE, 0o600, dir_fd=folder)
            try:
                os.fchmod(fd, 0o644)
                write_all(fd, b"true\n" if document.archived else b"false\n")
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            step.abandon()
            raise refusal(error, site.path) from error
        except BaseException:
            step.abandon()
            raise
        return step

    def _survey(self, path: str) -> Site:
        """What a write to the path would meet, by the path that leads there without symlinks.

        That is the path which indexes know the document by, since walks do not follow links to directories.
        """
        names = _document_names(path)
        if names is None:
            raise Missing(path)
        _check_reserved(names)
        site = Site(path, names)
        try:
            self._find_parent(site)
            _check_reserved(site.names)
            if site.parent >= 0:
                site.sight = self._documents.look(site.parent, site.names, site.path)
                site.obstacle = site.sight.obstacle
        except Escapes:
            site.obstacle = "outside"
        except OSError as error:
            site.close()
            raise refusal(error, path) from error
        except BaseException:
            site.close()
            raise
        return site

    def _find_parent(self, site: Site) -> None:
        """Open the directory of the path, or find how much of the path is there."""
        parents = site.names[:-1]
        try:
            fd, real, present = self._root.open_deepest(parents)
        except NotADirectoryError:
            site.obstacle = "ancestor"
            return
        if present == len(parents):
            site.parent = fd
        else:
            site.above = fd
        site.follow(real, site.names[present:])

    def _prepare(
        self, site: Site, body: bytes, metadata: Mapping[str, str], expected: int | None, now: float
    ) -> NewVersion:
        """Steps 2 to 6 of store §5.1, up to the rename."""
        path = site.path
        number = site.sight.shelf.highest + 1
        if number > NUMBER_MAX:
            raise DiskFailure(f"{path}: version numbers are used up")
        for torn in site.sight.shelf.torn:
            if abs(now - torn.modified) < SETTLING:
                raise _lost_race(path, torn.number, torn.number, expected)
        data = encode(number, _previous_hash(site.sight) if number > 1 else "", metadata, body)
        if site.obstacle:
            raise Escapes(f"{path} leads out of the content root")
        topmost = path_of(site.names[: site.present + 1]) if site.parent < 0 else ""
        step = NewVersion(site, self._syncs, self._flight, number, _retention(metadata))
        try:
            if site.sight.folder < 0:
                self._flight.write = InFlight(0, number, topmost)
                self._make_directories(step, site)
            self._flight.write = InFlight(os.fstat(site.sight.folder).st_ino, number, topmost)
            modified = self._write_file(step, site, number, data, now)
            step.link()
            step.on_abandon(step.unlink)
        except FileExistsError as error:
            step.abandon()
            with self._survey(path) as site:
                raise _lost_race(path, number, site.current, expected) from error
        except OSError as error:
            step.abandon()
            raise refusal(error, path) from error
        except BaseException:
            step.abandon()
            raise
        step.document = document_of(
            path, number, data, Content(dict(metadata), body), modified, archived=False
        )
        return step

    def _make_directories(self, step: NewVersion, site: Site) -> None:
        """Make what is missing down to the version directory, and open it (store §5.1 step 2)."""
        names, present = site.names, site.present
        top = site.parent if site.parent >= 0 else site.above
        below = (*names[present:-1], VERSIONS, names[-1])
        descent = Descent(self._root, self._syncs, top, names[:present], below)
        step.on_abandon(descent.unmake)
        descent.make()
        descent.sync()
        if site.parent < 0:
            site.parent = self._root.open_directory(names[:-1])
        site.sight.folder = self._documents.open_folder(site.parent, names)
        if site.sight.folder < 0:
            raise NotADirectoryError(errno.ENOTDIR, "the version directory is not a directory")

    def _write_file(self, step: NewVersion, site: Site, number: int, data: bytes, now: float) -> int:
        """Put torn versions aside and write the version file; the time it bears, in whole seconds.

        Raises `FileExistsError` if another process was first.
        """
        folder, shelf = site.sight.folder, site.sight.shelf
        for torn in shelf.torn:
            os.rename(torn.name, torn.name + TORN, src_dir_fd=folder, dst_dir_fd=folder)
        _clear(site, now)
        if shelf.sidecar and site.sight.served is None:
            _remove(folder, SIDECAR)  # of a document that is no more
        name, temp = b"v%d" % number, temporary(VERSION_TEMP)
        fd = os.open(temp, _NEW_FILE, 0o644, dir_fd=folder)
        step.on_abandon(lambda: _remove(folder, temp))
        try:
            write_all(fd, data)
            time = max(int(now * 1e9), shelf.modified * 1_000_000_000)  # never before the version it follows
            os.utime(fd, ns=(time, time))
            os.fsync(fd)
        finally:
            os.close(fd)
        os.link(temp, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        step.on_abandon(step.withdraw)
        os.unlink(temp, dir_fd=folder)
        if shelf.current and not exists(shelf.files[shelf.current], folder):
            raise FileExistsError(
                errno.EEXIST, "the version before was withdrawn by the process that wrote it"
            )
        os.fsync(folder)
        return time // 1_000_000_000


def _document_names(path: str) -> Names | None:
    """The names of the path, None if no file system can hold a document there."""
    names = names_of(path)
    if not names or max(map(len, names)) > NAME_MAX or len(names[-1]) + len(TEMP) > NAME_MAX:
        return None
    return names


def _lost_race(path: str, number: int, current: int, expected: int | None) -> WorldError:
    """Another process has created version `number` (store §5.2)."""
    if expected is None:
        return LostRace(f"{path}: v{number} was created by another process")
    return Conflict(current)


def _live(site: Site, served: bytes) -> Content:
    content = read(served)
    if site.sight.archived(content):
        raise Archived(site.path)
    return content


def _previous_hash(sight: Sight) -> str:
    """What the next version has to name: the newest whole file, or what is left of a torn one if none is whole."""
    if sight.shelf.current:
        return hash_of(sight.shelf.data)
    for torn in sight.shelf.torn:
        with contextlib.suppress(OSError):
            return hash_of(read_regular(sight.folder, torn.name)[0])
    return hash_of(b"")


def _retention(metadata: Mapping[str, str]) -> int:
    """How many versions this write keeps, 0 for all (store §6)."""
    try:
        return max(0, int(metadata.get("retention", "0")))
    except ValueError:
        return 0


def _check_reserved(names: Names) -> None:
    if VERSIONS in names:
        raise BadDocument("the name versions is reserved")


def _check_text(body: bytes) -> None:
    try:
        body.decode()
    except UnicodeDecodeError:
        raise BadDocument("document body must be valid UTF-8 text") from None


def _clear(site: Site, now: float) -> None:
    """Remove what a crash left of a write to this document, ours or another server's."""
    name, parent, folder = site.names[-1], site.parent, site.sight.folder
    for temp in site.sight.shelf.leftovers:
        _remove_stale(folder, temp, now)
    # Under this name there may be a document of its own as well.
    if (link_text(parent, name + TEMP) or b"").startswith(b"versions/%b/" % name):
        _remove_stale(parent, name + TEMP, now)


def _remove_stale(directory: int, name: bytes, now: float) -> None:
    with contextlib.suppress(FileNotFoundError):
        if abs(now - os.stat(name, dir_fd=directory, follow_symlinks=False).st_ctime) > STALE:
            os.unlink(name, dir_fd=directory)


def _remove(directory: int, name: bytes) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
