"""What lies in a root, directory by directory: the walk of those who must not miss anything (`verify`, export).

The walk of `walk` feeds the indexes and looks at pointers only. This one also sees versions without a pointer and files that are no documents,
and it says of each place that cannot be read what it is. It keeps nothing and reads no version file.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from app.world.disk import Names, Root, path_of, raw_name
from app.world.documents import VERSIONS
from app.world.errors import Escapes, reason
from app.world.migration import holds_old_files
from app.world.prepared import TEMP
from app.world.versionfile import number_of

OLD_LAYOUT = "holds versions in the old layout"


class Place(msgspec.Struct, frozen=True, gc=False):
    """A name in a directory that is a document, was one, or might be taken for one.

    `link` is the text of its symlink, empty if it is none; `exists` tells whether there is anything of that name at
    all, `stored` whether there are version files for it.
    """

    names: Names
    link: bytes
    exists: bool
    stored: bool

    @property
    def path(self) -> str:
        return path_of(self.names)

    @property
    def plain(self) -> bool:
        """A file that is no document: nothing has ever been published to it."""
        return self.exists and not self.link and not self.stored


class Unread(msgspec.Struct, frozen=True, gc=False):
    """Something that could not be looked into, and why."""

    path: str
    why: str


def inventory(root: Root) -> Iterator[Place | Unread]:
    """Everything below the root, directory by directory, sorted within each; leftovers of writes are left out."""
    waiting: list[Names] = [()]
    while waiting:
        names = waiting.pop()
        try:
            fd = root.open_directory(names)
        except (OSError, Escapes) as error:
            yield Unread(path_of(names), f"cannot be read: {reason(error)}")
            continue
        try:
            links, files, directories = _scan(fd)
            waiting.extend((*names, name) for name in sorted(directories, reverse=True) if name != VERSIONS)
            stored: set[bytes] = set()
            if VERSIONS in directories or VERSIONS in links:
                for name, why in _stored(root, fd, names):
                    if why:
                        yield Unread(path_of((*names, name) if name else names), why)
                    else:
                        stored.add(name)
            for name in sorted(links.keys() | files | stored):
                if not _is_leftover(name, links.get(name, b"")):
                    exists = name in links or name in files
                    yield Place((*names, name), links.get(name, b""), exists, name in stored)
        except OSError as error:
            yield Unread(path_of(names), f"cannot be read: {reason(error)}")
        finally:
            os.close(fd)


def _scan(fd: int) -> tuple[dict[bytes, bytes], set[bytes], set[bytes]]:
    """Symlinks with their texts, files, directories."""
    links: dict[bytes, bytes] = {}
    files: set[bytes] = set()
    directories: set[bytes] = set()
    with os.scandir(fd) as entries:
        for entry in entries:
            name = raw_name(entry.name)
            if entry.is_dir(follow_symlinks=False):
                directories.add(name)
            elif entry.is_symlink():
                with suppress(FileNotFoundError):  # replaced or removed since
                    links[name] = os.readlink(name, dir_fd=fd)
            else:
                files.add(name)
    return links, files, directories


def _stored(root: Root, fd: int, names: Names) -> Iterator[tuple[bytes, str]]:
    """The names in an open directory that have versions, each with why these cannot be looked at, mostly empty.

    An empty name stands for the directory itself.
    """
    try:
        versions = root.open_below(fd, names, VERSIONS)
    except (FileNotFoundError, NotADirectoryError, Escapes):
        return
    except OSError as error:
        yield b"", f"the versions of its documents cannot be read: {reason(error)}"
        return
    try:
        if holds_old_files(versions):
            yield b"", OLD_LAYOUT
            return
        for text in sorted(os.listdir(versions)):
            name = raw_name(text)
            try:
                if not stat.S_ISDIR(os.stat(name, dir_fd=versions, follow_symlinks=False).st_mode):
                    continue
                folder = root.open_below(versions, (*names, VERSIONS), name)
                try:
                    if any(map(number_of, os.listdir(folder))):
                        yield name, ""
                finally:
                    os.close(folder)
            except FileNotFoundError:
                continue
            except (OSError, Escapes) as error:
                yield name, f"its versions cannot be read: {reason(error)}"
    finally:
        os.close(versions)


def _is_leftover(name: bytes, link: bytes) -> bool:
    """Whether this is the symlink that a write was about to rename when it was cut off."""
    return name.endswith(TEMP) and link.startswith(b"versions/%b/" % name.removesuffix(TEMP))
