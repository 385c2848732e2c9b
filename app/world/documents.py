"""Reading documents from disk: the current version, an older one, the history (store §1, §4, §7; wire §5.1, §5.3).

Nothing is remembered between calls, so that what other programs write to the root is seen at once (store §8). Reads
may run while one write is under way in another thread: what that write has put on disk but not yet shown is told by
the `Flight` and left out, so that a read finds the state before it or the state after it, never between.

Three states deviate from the letter of store §1.4 and §5.4, each so that a power cut costs nothing that was whole:
torn newest versions are set aside (`shelf`); a pointer of our form that leads to a torn or absent version is served as
the newest whole version; version files without a pointer are no document, and the next write continues their numbers.
Where no version is whole there is no document, unless one cannot be read at all, too large above all: that is damage.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator

import msgspec

from app.world.chain import chain_fault
from app.world.disk import Names, NotRegular, Oversized, Root, names_of, read_regular
from app.world.errors import Damaged, DiskFailure, Escapes, Missing, WorldError, reason
from app.world.shelf import EMPTY, Shelf, archive_state, survey
from app.world.versionfile import Content, is_whole, read

VERSIONS = b"versions"
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}


class Document(msgspec.Struct, frozen=True):
    """One version of a document.

    `metadata` is the publisher metadata as stored (an answer shows `publisher.readable` of it), `etag` the hex digest
    of the version file, `content_hash` `sha256-` and that of the body, `modified` whole seconds since the epoch.
    """

    path: str
    version: int
    metadata: dict[str, str]
    body: bytes
    etag: str
    content_hash: str
    modified: int
    archived: bool


class History(msgspec.Struct, frozen=True):
    """The versions present, newest first as (number, modified), and what is wrong with their chain, if anything."""

    versions: list[tuple[int, int]]
    current: int
    chain_valid: bool
    chain_error: str


class InFlight(msgspec.Struct, frozen=True, gc=False):
    """What a write has put on disk and not shown.

    A number in the version directory with inode `folder` (0 as long as there is none), and the topmost directory it
    made, if any.
    """

    folder: int
    number: int
    directory: str


class Flight:
    """The one write that may be under way; set by the writer before it touches the disk, read by everybody."""

    __slots__ = ("write",)

    def __init__(self) -> None:
        self.write: InFlight | None = None

    def hides_directory(self, path: str) -> bool:
        """Whether the directory is one that only the write under way has made."""
        write = self.write
        return write is not None and write.directory != "" and (path + "/").startswith(write.directory + "/")


class Sight:
    """What lies at one document path, its version directory held open (`folder`, -1 if there is none).

    `served` are the bytes that a read of the current version gives, None if no document is here; `damage` then says
    why, if there is one that cannot be read. `behind` says that they are older than the newest version (store §5.4).
    `obstacle` is why a write cannot go here.
    """

    __slots__ = ("behind", "damage", "folder", "modified", "obstacle", "path", "served", "shelf")

    def __init__(self, path: str) -> None:
        self.path = path
        self.folder = -1
        self.shelf: Shelf = EMPTY
        self.served: bytes | None = None
        self.modified = 0
        self.behind = False
        self.damage = ""
        self.obstacle = ""

    def close(self) -> None:
        if self.folder >= 0:
            os.close(self.folder)
            self.folder = -1

    @property
    def absence(self) -> WorldError:
        """Why nothing is served here: `Damaged` for a document without a version that can be read (store §3.7)."""
        return Damaged(f"{self.path}: {self.damage}") if self.damage else Missing(self.path)

    def archived(self, content: Content) -> bool:
        """The archive state in force (store §4.2). Raises `Damaged` for a malformed sidecar."""
        if self.shelf.sidecar:
            try:
                return archive_state(self.folder, self.path)
            except FileNotFoundError:
                pass
        return content.archived


def failure(error: OSError, path: str) -> WorldError:
    """What a failed system call means for a read of `path`."""
    if error.errno in _ABSENT:
        return Missing(path)
    return DiskFailure(f"{path}: {reason(error)}")


class Documents:
    """The reading half of the store over one root."""

    def __init__(self, root: Root, flight: Flight) -> None:
        self._root = root
        self._flight = flight

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What has to stay open for documents to be read."""
        return (self._root.fd,)

    def current(self, path: str) -> Document:
        """The current version (store §1.3). Raises `Missing`, `Damaged`, `DiskFailure`."""
        parent, names = self._parent(path)
        try:
            return self.read(parent, names, path)[0]
        finally:
            os.close(parent)

    def read(self, parent: int, names: Names, path: str) -> tuple[Document, Shelf]:
        """As `current`, with the directory of the path open already, and with what its version directory holds."""
        try:
            sight = self.look(parent, names, path)
            try:
                if sight.served is None:
                    raise sight.absence
                content = read(sight.served)
                document = document_of(
                    path, sight.shelf.current, sight.served, content, sight.modified, sight.archived(content)
                )
                return document, sight.shelf
            finally:
                sight.close()
        except Escapes as error:
            raise Missing(path) from error
        except OSError as error:
            raise failure(error, path) from error

    def archived(self, parent: int, names: Names, path: str) -> bool:
        """Whether the document is archived, its directory open as `parent`. Raises as `current` does."""
        try:
            sight = self.look(parent, names, path)
            try:
                if sight.served is None:
                    raise Missing(path)
                return sight.archived(read(sight.served))
            finally:
                sight.close()
        except Escapes as error:
            raise Missing(path) from error
        except OSError as error:
            raise failure(error, path) from error

    def version(self, path: str, number: int) -> tuple[Document, int]:
        """Version `number`, and the number of the current one. Raises `Missing`, `Damaged`, `DiskFailure`."""
        sight = self._existing(path)
        try:
            assert sight.served is not None
            if number == sight.shelf.current:
                data, modified = sight.shelf.data, sight.shelf.modified
            elif number in sight.shelf.files:
                data, modified = self._version_file(sight, number)
            else:
                raise Missing(path)
            archived = sight.archived(read(sight.served))
            return document_of(path, number, data, read(data), modified, archived), sight.shelf.current
        except (NotRegular, FileNotFoundError) as error:
            raise Missing(path) from error
        finally:
            sight.close()

    def history(self, path: str) -> History:
        """Every version present, and the verdict on their chain (store §7). Raises as `version` does."""
        sight = self._existing(path)
        try:
            assert sight.served is not None
            sight.archived(read(sight.served))
            versions: list[tuple[int, int]] = []

            def seen() -> Iterator[tuple[int, bytes]]:
                for number, data, modified in self.files(sight):
                    versions.append((number, modified))
                    yield number, data

            fault = chain_fault(seen())
            return History(versions, sight.shelf.current, not fault, fault)
        finally:
            sight.close()

    def files(self, sight: Sight) -> Iterator[tuple[int, bytes, int]]:
        """Every version file with its time, newest first; up to one that retention has removed since the listing.

        Raises `Damaged`, `DiskFailure`.
        """
        for number in sorted(sight.shelf.files, reverse=True):
            try:
                data, modified = self._version_file(sight, number)
            except FileNotFoundError:
                return
            except NotRegular:
                continue
            yield number, data, modified

    @staticmethod
    def _version_file(sight: Sight, number: int) -> tuple[bytes, int]:
        """Raises `FileNotFoundError`, `NotRegular`, `Damaged`, `DiskFailure`."""
        try:
            return read_regular(sight.folder, sight.shelf.files[number])
        except (NotRegular, FileNotFoundError):
            raise
        except Oversized as error:
            raise Damaged(f"{sight.path}: v{number}: {error.strerror}") from error
        except OSError as error:
            raise DiskFailure(f"{sight.path}: v{number}: {reason(error)}") from error

    def _existing(self, path: str) -> Sight:
        parent, names = self._parent(path)
        try:
            sight = self.look(parent, names, path)
        except Escapes as error:
            raise Missing(path) from error
        except OSError as error:
            raise failure(error, path) from error
        finally:
            os.close(parent)
        if sight.served is None:
            sight.close()
            raise sight.absence
        return sight

    def _parent(self, path: str) -> tuple[int, Names]:
        names = names_of(path)
        if not names:
            raise Missing(path)
        try:
            return self._root.open_directory(names[:-1]), names
        except Escapes as error:
            raise Missing(path) from error
        except OSError as error:
            raise failure(error, path) from error

    def look(self, parent: int, names: Names, path: str) -> Sight:
        """What lies at the path, whose directory is open as `parent`; the caller closes the sight.

        Raises `Escapes` if the version directory lies outside the root, `Damaged`, or an `OSError`.
        """
        while True:
            sight = Sight(path)
            try:
                link = self._glance(sight, parent, names)
                # A write from outside may have landed between reading the pointer and reading the versions.
                if not sight.behind or link == link_text(parent, names[-1]):
                    return sight
            except BaseException:
                sight.close()
                raise
            sight.close()

    def _glance(self, sight: Sight, parent: int, names: Names) -> bytes | None:
        link = link_text(parent, names[-1])
        sight.folder = self.open_folder(parent, names)
        if sight.folder >= 0:
            before = self._flight.write
            listing = os.listdir(sight.folder)
            after = self._flight.write
            sight.shelf = survey(sight.folder, listing, _hidden(before, after, sight.folder))
        shelf = sight.shelf
        pointed = version_in(link, names[-1])
        if link is None:
            self._see_unlinked(sight, parent, names)
        elif pointed >= 0:
            if shelf.current:
                sight.served, sight.modified = shelf.data, shelf.modified
            if pointed < shelf.current and pointed in shelf.files:
                self._see_behind(sight, pointed)
            if not shelf.current:
                sight.damage = next((torn.fault for torn in shelf.torn if torn.unreadable), "")
        else:
            self._see_foreign(sight, names)
        return link

    def _see_unlinked(self, sight: Sight, parent: int, names: Names) -> None:
        """No symlink: nothing at all, a directory, or the flat file a copy made of the pointer (store §14.1)."""
        try:
            mode = os.stat(names[-1], dir_fd=parent, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return
        if stat.S_ISDIR(mode):
            sight.obstacle = "directory"
        elif stat.S_ISREG(mode) and sight.shelf.current:
            _serve(sight, parent, names[-1])

    @staticmethod
    def _see_behind(sight: Sight, pointed: int) -> None:
        try:
            data, modified = read_regular(sight.folder, sight.shelf.files[pointed])
        except OSError:
            return
        if is_whole(data):
            sight.served, sight.modified, sight.behind = data, modified, True

    def _see_foreign(self, sight: Sight, names: Names) -> None:
        """A symlink that we did not write is followed, if it stays below the root (store §1.3, §2)."""
        try:
            target = self._root.resolve(names)
        except Escapes:
            sight.obstacle = "outside"
            return
        if not target:
            sight.obstacle = "directory"
            return
        try:
            directory = self._root.open_directory(target[:-1])
        except (Escapes, OSError):
            return
        try:
            mode = os.stat(target[-1], dir_fd=directory, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                sight.obstacle = "directory"
            elif sight.shelf.current:
                _serve(sight, directory, target[-1])
        except FileNotFoundError:
            return
        finally:
            os.close(directory)

    def open_folder(self, parent: int, names: Names) -> int:
        """The document's version directory, opened; -1 if there is none. Raises `Escapes` if it lies elsewhere."""
        try:
            versions = self._root.open_below(parent, names[:-1], VERSIONS)
        except (FileNotFoundError, NotADirectoryError):
            return -1
        try:
            return self._root.open_below(versions, (*names[:-1], VERSIONS), names[-1])
        except (FileNotFoundError, NotADirectoryError):
            return -1
        finally:
            os.close(versions)


def document_of(
    path: str, version: int, data: bytes, content: Content, modified: int, archived: bool
) -> Document:
    """The document whose version file holds `data`."""
    sha256 = hashlib.sha256
    return Document(
        path,
        version,
        content.metadata,
        content.body,
        sha256(data).hexdigest(),
        "sha256-" + sha256(content.body).hexdigest(),
        modified,
        archived,
    )


def link_text(parent: int, name: bytes) -> bytes | None:
    """The text of a symlink in an open directory, None if there is none. Raises `OSError`."""
    try:
        return os.readlink(name, dir_fd=parent)
    except OSError as error:
        if error.errno in {errno.EINVAL, errno.ENOENT}:
            return None
        raise


def version_in(link: bytes | None, name: bytes) -> int:
    """The number of the version that the text of a pointer names; -1 if it is not in our form, or there is no text."""
    own = b"versions/%b/v" % name
    if link is None or not link.startswith(own) or not link[len(own) :].isdigit():
        return -1
    return int(link[len(own) :])


def _serve(sight: Sight, directory: int, name: bytes) -> None:
    """Serve a file that is not in the version directory."""
    try:
        sight.served, sight.modified = read_regular(directory, name)
    except NotRegular:
        return
    except Oversized as error:
        raise Damaged(f"{sight.path}: {error.strerror}") from error


def _hidden(before: InFlight | None, after: InFlight | None, folder: int) -> frozenset[int]:
    """The numbers in an open version directory that belong to a write under way around the time of its listing."""
    if before is None and after is None:
        return frozenset()
    inode = os.fstat(folder).st_ino
    return frozenset(write.number for write in (before, after) if write is not None and write.folder == inode)
