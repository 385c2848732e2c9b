"""The directories that a new document needs: made in one descent, synced in a second, taken back on the way up.

A path may be some hundred directories deep, so each of the three takes a number of system calls that grows with
the depth and no faster, and holds two directories open at a time. All are made before the first is synced: a file
system with a journal then commits once, not once for each.
"""

import contextlib
import os
from collections.abc import Generator

from app.world.disk import DIRECTORY, Names, Root
from app.world.errors import Escapes
from app.world.prepared import Syncs


class Descent:
    """Directories one in the other, `below` an open one with these names; that one stays the caller's."""

    def __init__(self, root: Root, syncs: Syncs, fd: int, names: Names, below: Names) -> None:
        self._root = root
        self._syncs = syncs
        self._fd = fd
        self._names = names
        self._below = below
        self._made: list[int] = []  # how deep

    def make(self) -> None:
        """Make what is missing, topmost first. Raises `OSError` or `Escapes`; what was made before is then there."""
        with contextlib.closing(self._descend()) as steps:
            for depth, fd in steps:
                try:
                    os.mkdir(self._below[depth], 0o755, dir_fd=fd)
                    self._made.append(depth)
                except FileExistsError:
                    pass

    def sync(self) -> None:
        """Sync the parent of each directory that was made, topmost first. Raises `OSError` or `Escapes`."""
        made = set(self._made)
        with contextlib.closing(self._descend()) as steps:
            for depth, fd in steps:
                if depth in made:
                    os.fsync(fd)

    def unmake(self) -> None:
        """Remove what was made, innermost first. What must stay is still to be synced. Raises nothing."""
        with contextlib.suppress(OSError, Escapes):
            self._remove()
        for depth in self._made:
            self._syncs.owe((*self._names, *self._below[:depth]))

    def _descend(self) -> Generator[tuple[int, int], None, None]:
        """Each depth with the directory there, open until the next; what it holds is opened when the next is asked for."""
        fd = self._fd
        try:
            for depth, name in enumerate(self._below):
                yield depth, fd
                inner = self._root.open_below(fd, (*self._names, *self._below[:depth]), name)
                if fd != self._fd:
                    os.close(fd)
                fd = inner
        finally:
            if fd != self._fd:
                os.close(fd)

    def _remove(self) -> None:
        if not self._made:
            return
        places: list[os.stat_result] = []
        here = -1
        with contextlib.closing(self._descend()) as steps:
            for depth, fd in steps:
                places.append(os.fstat(fd))
                if depth == self._made[-1]:
                    here = os.open(b".", DIRECTORY, dir_fd=fd)
                    break
        try:
            while self._made:
                while len(places) - 1 > self._made[-1]:
                    above = os.open(b"..", DIRECTORY, dir_fd=here)
                    os.close(here)
                    here = above
                    places.pop()
                if not os.path.samestat(os.fstat(here), places[-1]):
                    return  # somebody has moved it; what lies here now is not ours
                os.rmdir(self._below[self._made[-1]], dir_fd=here)
                self._made.pop()
        finally:
            os.close(here)
