"""Checking a root on disk: every pointer, sidecar and hash chain (store §1, §3, §4, §7).

Reads only and migrates nothing, so that a root may be checked while it is served. What a crash leaves and the store
tolerates (empty version directories, stale temporary names) is no fault; a pointer behind its newest version is.
"""

import os
from collections.abc import Iterator

from app.world.disk import Names, Root, path_of, raw_name
from app.world.documents import VERSIONS, Documents, Flight
from app.world.errors import Escapes, WorldError, reason
from app.world.migration import holds_old_files
from app.world.prepared import TEMP
from app.world.versionfile import number_of


def verify(root: str) -> Iterator[str]:
    """Every fault in the root, as `<path>: <what is wrong>`. Raises `BadRoot` if it cannot be opened."""
    opened = Root(root)
    documents = Documents(opened, Flight())
    try:
        waiting: list[Names] = [()]
        while waiting:
            names = waiting.pop()
            try:
                fd = opened.open_directory(names)
            except (OSError, Escapes) as error:
                yield f"{path_of(names)}: cannot be read: {reason(error)}"
                continue
            try:
                with os.scandir(fd) as scan:
                    entries = sorted(
                        (raw_name(entry.name), entry.is_dir(follow_symlinks=False)) for entry in scan
                    )
                waiting.extend(
                    (*names, name)
                    for name, is_directory in entries[::-1]
                    if is_directory and name != VERSIONS
                )
                stored = _stored(opened, fd, names)
                if stored is None:
                    yield f"{path_of(names)}: holds versions in the old layout"
                files = {name for name, is_directory in entries if not is_directory}
                for name in sorted(files | (stored or set())):
                    yield from _faults(documents, fd, (*names, name), is_file=name in files)
            except OSError as error:
                yield f"{path_of(names)}: cannot be read: {reason(error)}"
            finally:
                os.close(fd)
    finally:
        opened.close()


def _stored(root: Root, fd: int, names: Names) -> set[bytes] | None:
    """The names that have versions in an open directory; None if they are in the old layout."""
    try:
        versions = root.open_below(fd, names, VERSIONS)
    except (FileNotFoundError, NotADirectoryError, Escapes):
        return set()
    try:
        if holds_old_files(versions):
            return None
        stored = set()
        with os.scandir(versions) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folder = root.open_below(versions, (*names, VERSIONS), raw_name(entry.name))
                    try:
                        if any(map(number_of, os.listdir(folder))):
                            stored.add(raw_name(entry.name))
                    finally:
                        os.close(folder)
        return stored
    finally:
        os.close(versions)


def _faults(documents: Documents, fd: int, names: Names, *, is_file: bool) -> Iterator[str]:
    """What is wrong with one name of an open directory: a document, or a file that is none."""
    path = path_of(names)
    if not is_file:
        yield f"{path}: has versions but no pointer"
        return
    try:
        link = os.readlink(names[-1], dir_fd=fd)
    except OSError:
        link = b""
    if link.startswith(b"versions/%b/" % names[-1].removesuffix(TEMP)) and names[-1].endswith(TEMP):
        return
    try:
        sight = documents.look(fd, names, path)
        try:
            shelf = sight.shelf
            for torn in shelf.torn:
                yield f"{path}: v{torn.number} is torn: {torn.why}"
            if sight.served is None:
                if link or shelf.current:
                    yield f"{path}: the pointer leads to no version"
                return
        finally:
            sight.close()
        if not link:
            yield f"{path}: the pointer is a file, not a symlink"
        elif link != b"versions/%b/v%d" % (names[-1], shelf.current):
            yield f"{path}: the pointer is {os.fsdecode(link)}, the newest version is v{shelf.current}"
        history = documents.history(path)
        if not history.chain_valid:
            yield f"{path}: {history.chain_error}"
    except WorldError as error:
        yield str(error)
