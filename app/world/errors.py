"""What can go wrong in the world, one family, named for what happened.

The edge maps each to a status in exactly one table. The text of an error is for logs and operators; the fields are
for answers. Faults of the request itself (metadata, grammar) are protocol faults and pass through this room.
"""

from typing import Literal


class WorldError(Exception):
    """Any of the family below."""


def reason(error: Exception) -> str:
    """Why, in words, without the number that a system error's own text begins with."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


class BadRoot(WorldError):
    """The content root cannot be opened: absent, not a directory, unreadable, or in need of a migration it forbids."""


class Missing(WorldError):
    """Nothing the store serves lies at this path, or has this hash (store §1.4, §2)."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} not found")


class Escapes(WorldError):
    """A write whose path leads out of the root through a symlink (store §2; wire §5.4 row 11)."""


class BadDocument(WorldError):
    """A write that no version file may hold: a reserved or unusable path, a body that is not UTF-8."""


class Archived(WorldError):
    """A write to an archived document (wire §5.4 row 8)."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is archived")


class Conflict(WorldError):
    """The expected version is not the current one (wire §5.4 row 6); `current` is 0 if there is no document."""

    def __init__(self, current: int) -> None:
        super().__init__(f"the current version is {current}")
        self.current = current


class PathCollision(WorldError):
    """A directory lies at the path, or something that is no directory at an ancestor of it (wire §5.4 row 7)."""

    def __init__(self, kind: Literal["directory", "ancestor"]) -> None:
        super().__init__(
            "a directory exists at this path" if kind == "directory" else "a document exists at an ancestor"
        )
        self.kind = kind


class TooLarge(WorldError):
    """The body or the whole version file would pass its limit (store §3.7)."""


class Damaged(WorldError):
    """Stored files break a rule that reading depends on: archive state, size, a file that cannot be read (store §4.1)."""


class LostRace(WorldError):
    """Another process created this version number first, and no version was expected (store §5.2)."""


class ReadOnly(WorldError):
    """The root may not be written: opened so, mounted so, or not permitted to this user."""


class DiskFailure(WorldError):
    """The file system refused a step of the work; nothing of it is visible."""


class NotSynced(WorldError):
    """The change is current and visible, but the disk did not confirm it (store §5.1 step 6)."""


class IndexIncomplete(WorldError):
    """A content hash is not known, and the walk at start could not read everything (store §8)."""
