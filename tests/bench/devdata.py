"""The developers' data as the benches use it: where it is, and a world imported from its corpus.

It lies beside the repository or where `--data` says. It is no part of the repository, and nothing but benches needs it.
The world is made on a disk in memory if there is one: what a disk costs is not asked here, and its pages are no anonymous memory.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from app.world.transfer import import_tree
from app.world.world import World

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
_MEMORY_DISK = Path("/dev/shm")
NOW = 1_700_000_000.0


def options(about: str | None) -> argparse.ArgumentParser:
    """The options that every bench of these data has."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one object: figure -> number")
    parser.add_argument("--data", metavar="DIR", type=Path, default=_BESIDE, help=f"the data ({_BESIDE})")
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
