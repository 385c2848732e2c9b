"""One walk over all documents of a root: at start it feeds every index at once (store §8).

Hidden directories are walked, those named `versions` are not, and only symlinks are taken for documents. What cannot
be read is told and skipped. Memory is that of one document at a time.
"""

import os
from collections.abc import Iterator

import msgspec

from app.world.disk import Names, Root, path_of, raw_name
from app.world.documents import VERSIONS, Document, Documents
from app.world.errors import BadRoot, Damaged, DiskFailure, Escapes, Missing, reason
from app.world.migration import holds_old_files, is_stranded
from app.world.shelf import Torn


class Found(msgspec.Struct, frozen=True):
    """A document, live or archived, and the torn versions above the one it is served with."""

    document: Document
    torn: tuple[Torn, ...]


class Skipped(msgspec.Struct, frozen=True):
    """A document, or a whole directory, that could not be taken in. `damaged`: it may hold what a miss would deny."""

    path: str
    why: str
    damaged: bool


class OldLayout(Exception):
    """The root holds documents in the layout before this one; it is to be migrated first."""


def walk(root: Root, documents: Documents, *, migrated: bool) -> Iterator[Found | Skipped]:
    """Every document of the root, in no order. Raises `BadRoot` if the root cannot be listed.

    Raises `OldLayout` where there is something to migrate, unless that was tried already.
    """
    waiting: list[Names] = [()]
    while waiting:
        names = waiting.pop()
        try:
            fd = root.open_directory(names)
        except (OSError, Escapes) as error:
            yield _unreadable(names, error)
            continue
        try:
            links, directories = _scan(fd)
            if VERSIONS in directories:
                directories.remove(VERSIONS)
                if not migrated:
                    _refuse_old_files(root, fd, names)
            waiting.extend((*names, name) for name in directories)
            for name in links:
                found = _document(documents, fd, (*names, name))
                if not (migrated or isinstance(found, Found)) and is_stranded(root, fd, (*names, name)):
                    raise OldLayout
                yield found
        except OSError as error:
            yield _unreadable(names, error)
        finally:
            os.close(fd)


def _unreadable(names: Names, error: OSError | Escapes) -> Skipped:
    if not names:
        raise BadRoot(f"content root cannot be read: {reason(error)}") from error
    return Skipped(path_of(names) + "/", reason(error), damaged=True)


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


def _document(documents: Documents, fd: int, names: Names) -> Found | Skipped:
    path = path_of(names)
    try:
        document, shelf = documents.read(fd, names, path)
    except Missing:
        return Skipped(path, _why_missing(documents, fd, names), damaged=False)
    except (Damaged, DiskFailure) as error:
        return Skipped(path, str(error), damaged=True)
    return Found(document, shelf.torn)


def _why_missing(documents: Documents, fd: int, names: Names) -> str:
    try:
        sight = documents.look(fd, names, path_of(names))
    except (OSError, Escapes) as error:
        return reason(error)
    torn = ", ".join(f"v{torn.number} is torn: {torn.why}" for torn in sight.shelf.torn)
    sight.close()
    return torn or "a symlink that is no document"
