"""Checking a root on disk: every pointer, sidecar and hash chain (store §1, §3, §4, §7).

Reads only and migrates nothing, so that a root may be checked while it is served. What a crash leaves and the store
tolerates (store §5.4) is no fault: empty version directories, stale temporary names, and a version that nobody was told
of since its write was cut short before it became current. The chain vouches for every version but the newest, whose
hash nothing holds yet.
"""

import os
from collections.abc import Iterator

import msgspec

from app.world.disk import Names, Root
from app.world.documents import Documents, Flight
from app.world.errors import WorldError, reason
from app.world.inventory import Place, Unread, inventory


class Tally(msgspec.Struct):
    """What a check has looked at so far; `faulty` are the documents, and places that cannot be read, with any fault.

    `plain` are the paths of markdown files that lie in the root without being documents: no fault, but nobody is
    served them. `unfinished` are documents whose last write was cut short, with what that means.
    """

    documents: int = 0
    versions: int = 0
    faulty: int = 0
    plain: list[str] = []
    unfinished: list[str] = []


def verify(root: str, tally: Tally | None = None) -> Iterator[str]:
    """Every fault in the root, as `<path>: <what is wrong>`. Raises `BadRoot` if it cannot be opened."""
    tally = tally or Tally()
    opened = Root(root)
    documents = Documents(opened, Flight())
    unread: set[str] = set()
    try:
        for place in inventory(opened):
            if isinstance(place, Unread):
                unread.add(place.path)
                tally.faulty += 1
                yield f"{place.path}: {place.why}"
            elif place.plain:
                if place.names[-1].endswith(b".md"):
                    tally.plain.append(place.path)
            elif place.path not in unread:
                faults = list(_faults(opened, documents, place, tally))
                tally.faulty += bool(faults)
                yield from faults
    finally:
        opened.close()


def _faults(root: Root, documents: Documents, place: Place, tally: Tally) -> Iterator[str]:
    """What is wrong with one document, or with what should be one."""
    path, names = place.path, place.names
    tally.documents += 1
    if not place.exists:  # a first write cut short, or a pointer lost: nobody can tell
        yield f"{path}: has versions but no pointer"
        return
    try:
        fd = root.open_directory(names[:-1])
        try:
            sight = documents.look(fd, names, path)
        finally:
            os.close(fd)
        try:
            shelf = sight.shelf
            for torn in shelf.torn:
                if torn.number > shelf.current > 0 and not torn.unreadable:
                    tally.unfinished.append(
                        f"{path}: {torn.fault}; it was never acknowledged, and is set aside"
                    )
                else:
                    yield f"{path}: {torn.fault}"
            if sight.served is None:
                yield f"{path}: the pointer leads to no version"
                return
        finally:
            sight.close()
        if not place.link:
            yield f"{path}: the pointer is a file, not a symlink"
        elif sight.behind and place.link == _link(names, shelf.current - 1):
            tally.unfinished.append(
                f"{path}: the write of version {shelf.current} was cut short; version {shelf.current - 1} is served until the next one"
            )
        elif place.link != _link(names, shelf.current):
            yield f"{path}: the pointer is {os.fsdecode(place.link)}, the newest version is v{shelf.current}"
        history = documents.history(path)
        tally.versions += len(history.versions)
        if not history.chain_valid:
            yield f"{path}: {history.chain_error}"
    except WorldError as error:
        yield str(error)
    except OSError as error:
        yield f"{path}: cannot be read: {reason(error)}"


def _link(names: Names, version: int) -> bytes:
    """What the pointer of a document at these names is when the version is current (store §1.1)."""
    return b"versions/%b/v%d" % (names[-1], version)
