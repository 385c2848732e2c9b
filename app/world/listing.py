"""Directories: which exist for a caller, and what they list (wire §5.1, §5.2).

What a caller sees of a directory is what it would see if the world held nothing but what the caller may read. Entries
come from the disk, so that documents written by others show at once. Whether a directory below holds anything to see
is asked of the `Tree` first, and of the disk only if the tree has nothing to show (store §8).

A directory of which the caller may read nothing must not be told from one that is not there, by the time the answer
takes either. So permission comes before any look where it is given as an `Access`, which can tell from its patterns;
where it cannot, a look that found nothing is remembered until something changes.
"""

import os
from collections.abc import Iterator
from functools import partial

from app.world.disk import Names, Root, Trail, names_of, path_of, raw_name
from app.world.documents import VERSIONS, Documents, Flight, failure
from app.world.errors import Damaged, DiskFailure, Escapes, Missing
from app.world.page import Child, MayRead, Page
from app.world.tokens import Access
from app.world.tree import Tree


class Directories:
    """The directories of one root, as callers see them."""

    def __init__(self, root: Root, documents: Documents, tree: Tree, flight: Flight) -> None:
        self._root = root
        self._documents = documents
        self._tree = tree
        self._flight = flight

    def exists(self, path: str) -> bool:
        """Whether the canonical path is a directory on disk, inside the root (wire §5.1)."""
        try:
            os.close(self._open(path))
        except Missing:
            return False
        return True

    def visible(self, path: str, may_read: MayRead) -> bool:
        """Whether the path is a directory that exists for the caller.

        It does not if it holds documents, archived ones included, and the caller may read none of them. One at or
        below a directory named `versions` is part of the store: it exists only by the documents directly in it.
        """
        if path == "/":
            return True
        if _denied_below(may_read, path):
            return False
        try:
            fd = self._open(path)
        except Missing:
            return False
        found = os.fstat(fd)
        os.close(fd)
        if not isinstance(may_read, Access):
            return self._shows(path, may_read)
        caller, state = may_read.key, (found.st_ino, found.st_mtime_ns)
        if self._tree.is_unseen(caller, path, state):
            return False
        shows = self._shows(path, may_read)
        if not shows:
            self._tree.note_unseen(caller, path, state)
        return shows

    def _shows(self, path: str, may_read: MayRead) -> bool:
        if any(may_read(document) for document, _ in self._tree.below(path)):
            return True
        names = names_of(path) or ()
        stored = VERSIONS in names
        empty = not stored
        for fd, candidate, document in self._candidates(names, deep=not stored, hidden=True):
            readable = may_read(document)
            if (readable or empty) and self._state(fd, candidate, document) is not None:
                if readable:
                    return True
                empty = False
        return empty

    def children(
        self, path: str, may_read: MayRead, include_archived: bool, after: str = "", limit: int | None = None
    ) -> list[Child]:
        """What the directory lists for the caller, sorted bytewise; at most `limit` entries behind the name `after`.

        Raises `Missing` if it is no directory, and `Damaged` if an archive state in it is malformed, wherever on the
        pages that is (store §4.1), unless archived documents are included or the caller may not read that document.
        """
        names = names_of(path) or ()
        fd = self._open(path)
        try:
            page = Page(self._root, self._documents, fd, names, self._tree.directly_in(path))
            try:
                return page.children(
                    may_read, partial(self._holds, may_read, include_archived), include_archived, after, limit
                )
            finally:
                page.close()
        except OSError as error:
            raise failure(error, path) from error
        finally:
            os.close(fd)

    def _open(self, path: str) -> int:
        names = names_of(path)
        if names is None or self._flight.hides_directory(path):
            raise Missing(path)
        try:
            fd = self._root.open_directory(names)
        except Escapes as error:
            raise Missing(path) from error
        except OSError as error:
            raise failure(error, path) from error
        if self._flight.hides_directory(path):  # made while it was being opened
            os.close(fd)
            raise Missing(path)
        return fd

    def _holds(self, may_read: MayRead, include_archived: bool, path: str) -> bool:
        """Whether anything in or below a directory is listed for the caller."""
        if _denied_below(may_read, path):
            return False
        start = len(path)
        for document, live in self._tree.below(path):
            if (live or include_archived) and "/." not in document[start:] and may_read(document):
                archived = self._state_at(document)
                if archived is not None and (include_archived or not archived):
                    return True
        for fd, names, document in self._candidates(names_of(path) or (), deep=True, hidden=False):
            if may_read(document):
                archived = self._state(fd, names, document)
                if archived is not None and (include_archived or not archived):
                    return True
        return False

    def _state_at(self, path: str) -> bool | None:
        names = names_of(path) or ()
        try:
            fd = self._root.open_directory(names[:-1])
        except (OSError, Escapes):
            return None
        try:
            return self._state(fd, names, path)
        finally:
            os.close(fd)

    def _state(self, fd: int, names: Names, path: str) -> bool | None:
        """Whether the document is archived, None if there is none; one whose state cannot be told is not live."""
        try:
            return self._documents.archived(fd, names, path)
        except Missing:
            return None
        except (Damaged, DiskFailure):
            return True

    def _candidates(self, names: Names, *, deep: bool, hidden: bool) -> Iterator[tuple[int, Names, str]]:
        """What may be a document in or below a directory on disk: its directory (open until the next), names, path."""
        waiting = [names]
        with Trail(self._root) as trail:
            while waiting:
                names = waiting.pop()
                files: list[Names] = []
                versioned = False
                try:
                    fd = trail.open(names)
                    with os.scandir(fd) as entries:
                        for entry in entries:
                            name = raw_name(entry.name)
                            if name == VERSIONS:
                                versioned = True
                            elif hidden or not name.startswith(b"."):
                                (waiting if entry.is_dir(follow_symlinks=False) else files).append(
                                    (*names, name)
                                )
                except (OSError, Escapes):
                    continue
                if versioned:
                    for candidate in files:
                        yield fd, candidate, path_of(candidate)
                if not deep:
                    return


def _denied_below(may_read: MayRead, directory: str) -> bool:
    """Whether the caller can read nothing below a directory, whatever there is."""
    return isinstance(may_read, Access) and not may_read.may_read_below(directory)
