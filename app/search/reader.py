"""Who asks, as far as search needs to know; what it is above this room is `app.world.tokens.Access`."""

from collections.abc import Hashable
from typing import Protocol

__all__ = ["Reader"]


class Reader(Protocol):
    """A caller with its rights."""

    @property
    def key(self) -> Hashable:
        """What may be read, as a value: readers with equal keys may read the same paths."""

    def may_read(self, path: str) -> bool:
        """Whether the document at this path may be read."""
