"""From the old layout, `versions/<name>.vN`, to the present one, `versions/<name>/vN` (store §10).

Only renames and symlinks: the bytes of versions stay, so that ETags and hash chains survive. It can stop at any step
and be started again; a root in the present layout is left alone.
"""

import contextlib
import os
import re

from app.world.disk import DIRECTORY, Names, Root, exists, path_of, raw_name
from app.world.documents import VERSIONS
from app.world.errors import BadRoot, Escapes, reason
from app.world.shelf import POINTER_TEMP, temporary
from app.world.versionfile import number_of

_OLD_FILE = re.compile(rb"([^.].*\.md)\.v([0-9]+)", re.DOTALL)


def holds_old_files(versions: int) -> bool:
    """Whether an open `versions` directory holds files that a migration would move."""
    with os.scandir(versions) as entries:
        for entry in entries:
            found = _old_file(raw_name(entry.name))
            if found and entry.is_file(follow_symlinks=False) and not exists(b"%b/v%d" % found, versions):
                return True
    return False


def is_stranded(root: Root, directory: int, names: Names) -> bool:
    """Whether a migration stopped between moving a document's versions and its pointer, in the open `directory`."""
    if not _is_old_pointer(directory, names[-1]):
        return False
    try:
        folder = root.open_directory((*names[:-1], VERSIONS, names[-1]))
    except (OSError, Escapes):
        return False
    try:
        return any(map(number_of, os.listdir(folder)))
    finally:
        os.close(folder)


def migrate(root: Root) -> None:
    """Convert the whole tree. Raises `BadRoot` at the first thing that cannot be converted."""
    waiting: list[Names] = [()]
    while waiting:
        names = waiting.pop()
        try:
            fd = root.open_directory(names)
            try:
                with os.scandir(fd) as entries:
                    below = [raw_name(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]
                if VERSIONS in below:
                    _convert(root, fd, names)
            finally:
                os.close(fd)
        except (OSError, Escapes) as error:
            raise BadRoot(
                f"the old layout of {path_of(names)} cannot be converted: {reason(error)}"
            ) from error
        waiting.extend((*names, name) for name in below if name != VERSIONS)


def _convert(root: Root, directory: int, names: Names) -> None:
    """Convert the documents of one directory: files first, synced, then the pointers that need them."""
    versions = root.open_below(directory, names, VERSIONS)
    try:
        old = _old_files(versions)
        with os.scandir(directory) as entries:
            links = {raw_name(entry.name) for entry in entries if entry.is_symlink()}
        stranded = {
            name for name in links if name not in old and is_stranded(root, directory, (*names, name))
        }
        for name, files in sorted(old.items()):
            _move_files(versions, name, files)
        if old:
            os.fsync(versions)
        moved = [_repoint(directory, versions, name) for name in sorted(links & old.keys() | stranded)]
        if any(moved):
            os.fsync(directory)
    finally:
        os.close(versions)


def _is_old_pointer(directory: int, name: bytes) -> bool:
    link = os.readlink(name, dir_fd=directory)
    found = _old_file(link.removeprefix(b"versions/"))
    return found is not None and link.startswith(b"versions/") and found[0] == name


def _old_file(name: bytes) -> tuple[bytes, int] | None:
    found = _OLD_FILE.fullmatch(name)
    number = number_of("v" + found[2].decode()) if found else 0
    return (found[1], number) if found and number else None


def _old_files(versions: int) -> dict[bytes, dict[int, bytes]]:
    """File names by document and number; of two spellings of a number the canonical one counts."""
    old: dict[bytes, dict[int, bytes]] = {}
    with os.scandir(versions) as entries:
        for entry in entries:
            name = raw_name(entry.name)
            found = _old_file(name)
            if found and entry.is_file(follow_symlinks=False):
                files = old.setdefault(found[0], {})
                if found[1] not in files or name == b"%b.v%d" % found:
                    files[found[1]] = name
    return old


def _move_files(versions: int, name: bytes, files: dict[int, bytes]) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=versions)
    for number, old in sorted(files.items()):
        new = b"%b/v%d" % (name, number)
        if not exists(new, versions):
            with contextlib.suppress(FileNotFoundError):  # another process moved it
                os.rename(old, new, src_dir_fd=versions, dst_dir_fd=versions)
    fd = os.open(name, DIRECTORY, dir_fd=versions)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _repoint(directory: int, versions: int, name: bytes) -> bool:
    """Point the symlink at the highest version present; whether it had to be changed."""
    folder = os.open(name, DIRECTORY, dir_fd=versions)
    try:
        with os.scandir(folder) as entries:
            numbers = [number_of(entry.name) for entry in entries if entry.is_file(follow_symlinks=False)]
        target = b"versions/%b/v%d" % (name, max(numbers, default=0))
        if not any(numbers) or os.readlink(name, dir_fd=directory) == target:
            return False
        new = temporary(POINTER_TEMP)  # among the versions, where the next write removes what was cut off
        os.symlink(target, new, dir_fd=folder)
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=directory)
        return True
    finally:
        os.close(folder)
