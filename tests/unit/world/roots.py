"""Content roots written by hand, byte for byte, as another program would have written them."""

import os
from pathlib import Path

from app.protocol.text import Log
from app.world.stamps import Clock
from app.world.world import World

PUMP_1 = b"""---
version: 1
archived: false
meta.agent: bench-1
meta.importance: 0.8
tags: [pump, site:north]
title: Pump log
type: Document
---
# Pump log

Started.
"""

PUMP_2 = b"""---
version: 2
archived: false
previous-hash: sha256-285b49e14e520431dcef0e8a412ab0d0e0e0ed8bb941df74f9e828075374bbd5
meta.agent: bench-1
meta.importance: 0.8
tags: [pump, site:north]
title: Pump log
type: Document
---
# Pump log

Started.
Stopped.
"""

PUMP_METADATA = {
    "agent": "bench-1",
    "importance": "0.8",
    "tags": "pump,site:north",
    "title": "Pump log",
    "type": "Document",
}


def everything(path: str) -> bool:
    """The grant of a caller who may read all."""
    return True


def nothing(path: str) -> bool:
    """The grant of a caller who may read no document."""
    return False


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, object]]] = []

    def __call__(self, level: str, message: str, /, **fields: object) -> None:
        self.lines.append((level, message, fields))

    def warnings(self) -> list[tuple[str, dict[str, object]]]:
        return [(message, fields) for level, message, fields in self.lines if level == "warn"]


_opened: list[World] = []


def reopen(root: Path, *, read_only: bool = False, log: Log | None = None, now: Clock | None = None) -> World:
    """The root as a fresh start sees it; closed when the test ends."""
    world = World.open(os.fsdecode(root), log=log or Lines(), read_only=read_only, now=now)
    _opened.append(world)
    return world


def close_all() -> None:
    while _opened:
        _opened.pop().close()


def folder_of(root: Path, path: str) -> Path:
    """The version directory of a document."""
    file = root / path[1:]
    return file.parent / "versions" / file.name


def put_version(root: Path, path: str, number: int, data: bytes) -> Path:
    """A version file, with the directories it needs."""
    folder = folder_of(root, path)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"v{number}"
    file.write_bytes(data)
    return file


def point(root: Path, path: str, number: int) -> None:
    """The pointer of a document."""
    pointer = root / path[1:]
    pointer.unlink(missing_ok=True)
    pointer.symlink_to(f"versions/{pointer.name}/v{number}")


def put_document(root: Path, path: str, *versions: bytes) -> None:
    """A document with these version files, pointing at the last."""
    for number, data in enumerate(versions, 1):
        put_version(root, path, number, data)
    point(root, path, len(versions))


def plain(number: int, body: bytes, *, archived: bool = False) -> bytes:
    """A version file without publisher metadata; its chain is not right beyond the first."""
    previous = b"previous-hash: sha256-" + b"0" * 64 + b"\n" if number > 1 else b""
    state = b"true" if archived else b"false"
    return b"---\nversion: %d\narchived: %b\n%b---\n%b" % (number, state, previous, body)


def snapshot(root: Path) -> dict[str, str | bytes | None]:
    """Everything below the root: bytes of files, text of symlinks, None for directories."""
    found: dict[str, str | bytes | None] = {}
    for directory, directories, files in os.walk(root):
        for name in directories + files:
            path = Path(directory) / name
            key = str(path.relative_to(root))
            if path.is_symlink():
                found[key] = str(path.readlink())
            else:
                found[key] = None if path.is_dir() else path.read_bytes()
    return found
