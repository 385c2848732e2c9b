"""The developers' data as the benches use it: where it is, and a world imported from its corpus.

It lies beside the repository or where `--data` says. It is no part of the repository, and nothing but benches needs it.
The world is made on a disk in memory if there is one: what a disk costs is not asked here, and its pages are no anonymous memory.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from app.protocol.paths import sort_key
from app.search.entry import Entry, entry_of
from app.world.transfer import import_tree
from app.world.world import World

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
_MEMORY_DISK = Path("/dev/shm")
NOW = 1_700_000_000.0


def options(about: str | None) -> argparse.ArgumentParser:
    """The options that every bench of these data has."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one object: figure -> number")
    parser.add_argument("--data", metavar="DIR", type=Path, default=DATA, help=f"the data ({DATA})")
    return parser


def checked(data: Path) -> Path:
    """The folder of the data; without it the program ends with one line."""
    for name in ("corpus", "metadata.json", "questions-dev.json", "ir/cranfield/docs.jsonl"):
        if not (data / name).exists():
            sys.exit(f"no data: {data / name} is missing; name their folder with --data DIR")
    return data


def scratch() -> "tempfile.TemporaryDirectory[str]":
    """A folder that goes away again."""
    usable = os.access(_MEMORY_DISK, os.W_OK)
    return tempfile.TemporaryDirectory(dir=_MEMORY_DISK if usable else None)


def silent(_level: str, _message: str, /, **_fields: object) -> None:
    """A log that nobody reads."""


def fill(root: Path, data: Path) -> int:
    """Import the corpus with its metadata into a new root; the bytes of all bodies."""
    root.mkdir()
    world = World.open(str(root), log=silent)
    metadata = json.loads((data / "metadata.json").read_text())
    report = import_tree(world, str(data / "corpus"), "/", metadata, NOW)
    assert not report.left_out, report.left_out
    held = world.figures.body_bytes
    world.close()
    return held


def documents(data: Path) -> Iterator[tuple[Entry, bytes]]:
    """Every document of the corpus in path order, with the metadata a publisher would give it; read one by one."""
    root = data / "corpus"
    given = json.loads((data / "metadata.json").read_text("utf-8"))
    names = ["/" + file.relative_to(root).as_posix() for file in root.rglob("*.md")]
    for path in sorted(names, key=sort_key):
        body = (root / path[1:]).read_bytes()
        about = given.get(path[1:], {})
        metadata = {"title": about.get("title", ""), "tags": ",".join(about.get("tags", ()))}
        if "importance" in about:
            metadata["importance"] = str(about["importance"])
        yield (
            entry_of(path, {key: value for key, value in metadata.items() if value}, body, 1_700_000_000),
            body,
        )


def moved(entry: Entry, folder: str) -> Entry:
    """The same document under another folder."""
    return entry_of(folder + entry.path, {**entry.metadata, "title": entry.title}, b"", entry.modified)
