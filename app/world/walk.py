"""One walk over all documents of a root: at start it feeds every index at once (store §8), later it finds what has changed.

Hidden directories are walked, those named `versions` are not, and only symlinks are taken for documents. What cannot
be read is told and skipped; what lies as it did when it was last read is told and not read. Memory is that of one
document at a time.
"""

import os
import stat
from collections.abc import Iterator, Mapping

import msgspec

from app.world.disk import Names, Root, path_of, raw_name
from app.world.documents import VERSIONS, Document, Documents
from app.world.errors import BadRoot, Damaged, DiskFailure, Escapes, Missing, reason
from app.world.migration import holds_old_files, is_stranded
from app.world.prepared import TEMP
from app.world.shelf import Torn
from app.world.stamps import UNSURE, Clock, Stamp, place_of, stamp_of


class Found(msgspec.Struct, frozen=True):
    """A document that was read, live or archived, and the torn versions above the one it is served with."""

    document: Document
    torn: tuple[Torn, ...]
    stamp: Stamp

    @property
    def path(self) -> str:
        return self.document.path


class Same(msgspec.Struct, frozen=True, gc=False):
    """A document that lies as it did."""

    path: str


class Skipped(msgspec.Struct, frozen=True, gc=False):
    """A document, or a whole directory (its path ends in a slash), that could not be taken in.

    `damaged`: it may hold what a miss would deny. `passing`: it is a write of somebody's that is under way.
    """

    path: str
    why: str
    damaged: bool
    passing: bool = False


Item = Found | Same | Skipped


class OldLayout(Exception):
    """The root holds documents in the layout before this one; it is to be migrated first."""


def walk(
    root: Root,
    documents: Documents,
    now: Clock | None,
    *,
    known: Mapping[str, Stamp],
    migrated: bool,
    top: Names = (),
) -> Iterator[Item]:
    """Every document in or below `top`, by default the root, in no order; `known` are the stamps of last time.

    Raises `BadRoot` if the root cannot be listed, and `OldLayout` where there is something to migrate, unless that was
    tried already.
    """
    waiting: list[Names] = [top]
    while waiting:
        names = waiting.pop()
        try:
            fd = root.open_directory(names)
        except (FileNotFoundError, NotADirectoryError) as error:
            if not names:
                raise _bad_root(error) from error
            continue  # gone since its parent was listed
        except (OSError, Escapes) as error:
            yield _unreadable(names, error)
            continue
        try:
            links, directories = _scan(fd)
            versioned = VERSIONS in directories
            if versioned:
                directories.remove(VERSIONS)
                if not migrated:
                    _refuse_old_files(root, fd, names)
            waiting.extend((*names, name) for name in directories)
            for name in links:
                item = _item(documents, fd, (*names, name), now, known, versioned)
                if not (migrated or isinstance(item, Found)) and is_stranded(root, fd, (*names, name)):
                    raise OldLayout
                yield item
        except OSError as error:
            yield _unreadable(names, error)
        finally:
            os.close(fd)


def look(
    root: Root, documents: Documents, now: Clock | None, known: Mapping[str, Stamp], names: Names
) -> Item | None:
    """The one document with these names, None if no walk would meet it."""
    try:
        fd = root.open_directory(names[:-1])
    except (FileNotFoundError, NotADirectoryError, Escapes):
        return None
    except OSError as error:
        return Skipped(path_of(names[:-1]) + "/", reason(error), damaged=True)
    try:
        if not stat.S_ISLNK(os.stat(names[-1], dir_fd=fd, follow_symlinks=False).st_mode):
            return None
        versions = os.stat(VERSIONS, dir_fd=fd, follow_symlinks=False)
        return _item(documents, fd, names, now, known, stat.S_ISDIR(versions.st_mode))
    except FileNotFoundError:
        return None
    except OSError as error:
        return Skipped(path_of(names), reason(error), damaged=True)
    finally:
        os.close(fd)


def _unreadable(names: Names, error: OSError | Escapes) -> Skipped:
    if not names:
        raise _bad_root(error) from error
    return Skipped(path_of(names) + "/", reason(error), damaged=True)


def _bad_root(error: OSError | Escapes) -> BadRoot:
    return BadRoot(f"content root cannot be read: {reason(error)}")


def _scan(fd: int) -> tuple[list[bytes], list[bytes]]:
    links, directories = [], []
    with os.scandir(fd) as entries:
        for entry in entries:
            if entry.is_symlink():
                links.append(raw_name(entry.name))
            elif entry.is_dir(follow_symlinks=False):
                directories.append(raw_name(entry.name))
    return links, directories


def _refuse_old_files(root: Root, fd: int, names: Names) -> None:
    versions = root.open_below(fd, names, VERSIONS)
    try:
        if holds_old_files(versions):
            raise OldLayout
    finally:
        os.close(versions)


def _item(
    documents: Documents,
    fd: int,
    names: Names,
    now: Clock | None,
    known: Mapping[str, Stamp],
    versioned: bool,
) -> Item:
    path = path_of(names)
    before = known.get(path)
    # Where `versions` is a link or missing, the numbers of inodes do not tell all.
    place, pointed = (
        place_of(fd, names[-1], now, before.place if before is not None else UNSURE)
        if versioned
        else (UNSURE, 0)
    )
    if before is not None and place and place == before.place:
        return Same(path)
    try:
        document, shelf = documents.read(fd, names, path)
    except Missing:
        return Skipped(
            path, _why_missing(documents, fd, names), damaged=False, passing=_passes(fd, names[-1])
        )
    except (Damaged, DiskFailure) as error:
        return Skipped(path, str(error), damaged=True)
    plain = not shelf.torn and document.version == pointed
    return Found(document, shelf.torn, stamp_of(document, place if plain else UNSURE))


def _passes(fd: int, name: bytes) -> bool:
    """Whether this is the symlink that a write is about to rename over a pointer, or was when it was cut off."""
    try:
        target = os.readlink(name, dir_fd=fd)
    except OSError:
        return True
    return name.endswith(TEMP) and target.startswith(b"%b/%b/v" % (VERSIONS, name.removesuffix(TEMP)))


def _why_missing(documents: Documents, fd: int, names: Names) -> str:
    try:
        sight = documents.look(fd, names, path_of(names))
    except (OSError, Escapes) as error:
        return reason(error)
    torn = ", ".join(f"v{torn.number} is torn: {torn.why}" for torn in sight.shelf.torn)
    sight.close()
    return torn or "a symlink that is no document"
