"""Memory in pages of its own, for what is large and stays.

What the C library and the interpreter hand out comes from heaps, in which what stays ends up between what passes through,
and a block that grows leaves holes where it was. So a segment, and what it is made of, stands in mapped pages: these
grow where they are, and go back to the system piece by piece while the segment is written out or sent away.
"""

import mmap
from collections.abc import Iterator
from typing import Final

__all__ = ["PIECE", "Pile", "pages"]

PIECE: Final = 32 * 1024
"""Bytes from which mapped pages are worth it."""


def pages(size: int) -> memoryview:
    """So many bytes, all zero, which go back to the system with the last reference to them."""
    return memoryview(_mapped(max(size, 1)))[:size]


def _mapped(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class Pile:
    """Bytes that are appended to each other, then read from the front and let go behind the reader."""

    __slots__ = ("_few", "_many", "size")

    def __init__(self) -> None:
        self._few = bytearray()
        self._many: mmap.mmap | None = None
        """All of them, as soon as they are many; with room behind them, which costs nothing before it is used."""
        self.size = 0
        """How many there are."""

    def add(self, more: bytes | bytearray | memoryview) -> None:
        """Append some."""
        begin, self.size = self.size, self.size + len(more)
        if self._many is None:
            self._few += more
            if self.size >= PIECE:
                self._many = _mapped(4 * self.size)
                self._many[: self.size] = self._few
                self._few = bytearray()
            return
        if self.size > len(self._many):
            self._many.resize(2 * self.size)
        self._many[begin : self.size] = more

    def read(self, begin: int, end: int) -> bytes:
        """Some of them."""
        return bytes(self._few[begin:end]) if self._many is None else self._many[begin:end]

    def let_go(self, begin: int, end: int) -> None:
        """Some of them are not read any more; pages that hold others as well stay."""
        if self._many is not None:
            begin += -begin % mmap.PAGESIZE
            end -= end % mmap.PAGESIZE
            if begin < end:
                self._many.madvise(mmap.MADV_DONTNEED, begin, end - begin)

    def pieces(self) -> Iterator[bytes]:
        """All of them, in order. What has been given is let go, so this works once."""
        for begin in range(0, self.size, PIECE):
            end = min(begin + PIECE, self.size)
            yield self.read(begin, end)
            self.let_go(begin, end)
