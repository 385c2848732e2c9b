"""The entries of one directory that a listing shows, in order and by the page (wire §5.2).

Made for large directories: one scan, and for a document that looks as the store writes it a handful of system calls
on open directories. Anything else about a document is asked of `Documents`.
"""

import os
import stat
from bisect import bisect_right
from collections.abc import Callable, Mapping

import msgspec

from app.world.disk import DIRECTORY, Names, Root, path_of, raw_name, text_name
from app.world.documents import VERSIONS, Documents
from app.world.errors import Damaged, Escapes, Missing
from app.world.shelf import SIDECAR, archive_state

MayRead = Callable[[str], bool]
"""Whether the caller may read a path; for a directory the path ends in a slash (wire §7.4)."""


class Child(msgspec.Struct, frozen=True, gc=False):
    """An entry of a listing: the last name of its path, and whether it is a directory."""

    name: str
    is_directory: bool


class Page:
    """One scan of an open directory. `known` says of documents in it whether they are live, as far as is known.

    Raises `OSError` if the directory cannot be scanned.
    """

    def __init__(
        self, root: Root, documents: Documents, fd: int, names: Names, known: Mapping[str, bool]
    ) -> None:
        self._documents = documents
        self._fd = fd
        self._names = names
        self._known = known
        self._versions = -1
        self._entries: list[tuple[bytes, bool]] = []
        with os.scandir(fd) as entries:
            for entry in entries:
                name = raw_name(entry.name)
                if name != VERSIONS and not name.startswith(b"."):
                    self._entries.append((name, entry.is_dir(follow_symlinks=False)))
        self._entries.sort()
        try:
            self._versions = root.open_below(fd, names, VERSIONS)
        except (FileNotFoundError, NotADirectoryError, Escapes):
            pass  # no document here, then

    def close(self) -> None:
        """Close what the scan holds open; the directory itself is the caller's."""
        if self._versions >= 0:
            os.close(self._versions)

    def children(
        self,
        may_read: MayRead,
        holds: Callable[[str], bool],
        include_archived: bool,
        after: str,
        limit: int | None,
    ) -> list[Child]:
        """At most `limit` entries behind the name `after`; `holds` says whether a directory has anything to list.

        Raises `Damaged` for a malformed archive state, on whatever page it is (store §4.1).
        """
        prefix = path_of(self._names).rstrip("/") + "/"
        first = bisect_right(
            self._entries, after.encode("utf-8", "surrogateescape"), key=lambda entry: entry[0]
        )
        found: list[Child] = []
        for position, (name, is_directory) in enumerate(self._entries):
            on_page = position >= first and (limit is None or len(found) < limit)
            text = text_name(name)
            path = prefix + text
            if is_directory:
                if on_page and may_read(path + "/") and holds(path):
                    found.append(Child(text, True))
            elif self._versions >= 0 and (on_page or not include_archived) and may_read(path):
                # Off the page only a malformed sidecar matters, and hardly a document has one.
                shown = (on_page or self._has_sidecar(name)) and self._shows(name, path, include_archived)
                if shown and on_page:
                    found.append(Child(text, False))
        return found

    def _has_sidecar(self, name: bytes) -> bool:
        return os.access(b"%b/%b" % (name, SIDECAR), os.F_OK, dir_fd=self._versions, follow_symlinks=False)

    def _shows(self, name: bytes, path: str, include_archived: bool) -> bool:
        if path in self._known:
            archived = self._quick_state(name, path, include_archived)
            if archived is not None:
                return include_archived or not archived
        try:
            return not self._documents.archived(self._fd, (*self._names, name), path) or include_archived
        except Missing:
            return False
        except Damaged:
            if include_archived:  # there is a document, whatever its state
                return True
            raise

    def _quick_state(self, name: bytes, path: str, include_archived: bool) -> bool | None:
        """Whether a known document is archived, if pointer and version look as we write them; None if they do not."""
        try:
            link = os.readlink(name, dir_fd=self._fd)
            folder = os.open(name, DIRECTORY, dir_fd=self._versions)
        except OSError:
            return None
        try:
            directory, _, version = link.rpartition(b"/")
            found = os.stat(version, dir_fd=folder, follow_symlinks=False)
            if directory != b"versions/%b" % name or not stat.S_ISREG(found.st_mode) or not found.st_size:
                return None
            live = self._known[path]
            if include_archived:
                return not live
            if os.access(SIDECAR, os.F_OK, dir_fd=folder, follow_symlinks=False):
                return archive_state(folder, path)
            return None if not live else False
        except OSError:
            return None
        finally:
            os.close(folder)
