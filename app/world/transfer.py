"""Folders of markdown into a world, and a world into a folder.

`import_tree` publishes files as documents; run again it changes nothing. `export_tree` writes the current text of all
live documents as plain files, without their history. Both report what they left out and why, and call `progress` with
how many files are done and how many there are. A disk that refuses to go on ends them with the error of the world.
"""

import os
import re
from collections.abc import Callable, Mapping

import msgspec

from app.protocol.fault import Fault
from app.protocol.limits import BODY_MAX, PATH_MAX
from app.protocol.paths import canonical
from app.protocol.publisher import join_tags, merged
from app.world.disk import names_of
from app.world.errors import Archived, BadDocument, Damaged, Escapes, Missing, PathCollision, TooLarge
from app.world.world import World

Progress = Callable[[int, int], None]
Skipped = list[tuple[str, str]]
"""Names that were left out, each with the reason."""

_UNREACHABLE = re.compile("[\x00-\x08\x0a-\x1f\x7f]")  # no request can name such a path (wire §2)
_REFUSALS = (Fault, BadDocument, PathCollision, Archived, TooLarge, Escapes, Damaged)


class ImportReport(msgspec.Struct, frozen=True):
    """How many documents got a new version, how many were the same already, and what was left out."""

    created: int
    unchanged: int
    skipped: Skipped


class ExportReport(msgspec.Struct, frozen=True):
    """How many documents were written, and what was left out."""

    written: int
    skipped: Skipped


def import_tree(
    world: World,
    source: str,
    prefix: str,
    metadata: Mapping[str, Mapping[str, object]],
    now: float,
    progress: Progress = lambda done, total: None,
) -> ImportReport:
    """Publish every markdown file below the folder `source` under the path `prefix`.

    `metadata` is by file name relative to `source`, as read from JSON: text and numbers, and lists for `tags`. It is
    laid over what a document has already, so that what it does not name stays. Raises `OSError` if a folder or file
    cannot be read.
    """
    folder = os.fsencode(source)
    files, skipped = _markdown_files(folder)
    known = set(map(os.fsdecode, files))
    skipped += [(name, "has metadata, but is not among the files") for name in metadata if name not in known]
    created = unchanged = 0
    for done, raw in enumerate(files):
        progress(done, len(files))
        name = os.fsdecode(raw)
        try:
            with open(os.path.join(folder, raw), "rb") as file:
                body = file.read(BODY_MAX + 1)
            path = _document_path(prefix, raw)
            if _publish(world, path, body, metadata.get(name, {}), now):
                created += 1
            else:
                unchanged += 1
        except _REFUSALS as refusal:
            skipped.append((name, refusal.message if isinstance(refusal, Fault) else str(refusal)))
    progress(len(files), len(files))
    return ImportReport(created, unchanged, skipped)


def export_tree(world: World, target: str, progress: Progress = lambda done, total: None) -> ExportReport:
    """Write the current body of every live document to a file below `target`, which is made or must be empty.

    Raises `FileExistsError` if it is not empty, and other `OSError`s from writing.
    """
    os.makedirs(target, exist_ok=True)
    if os.listdir(target):
        raise FileExistsError(f"{target} is not empty")
    paths = world.paths()
    skipped: Skipped = []
    for done, path in enumerate(paths):
        progress(done, len(paths))
        try:
            body = world.current(path).body
        except (Missing, Damaged) as error:  # taken away or spoiled by somebody else meanwhile
            skipped.append((path, str(error)))
            continue
        file_name = os.path.join(os.fsencode(target), *(names_of(path) or ()))
        os.makedirs(os.path.dirname(file_name), exist_ok=True)
        with open(file_name, "xb") as file:
            file.write(body)
    progress(len(paths), len(paths))
    return ExportReport(len(paths) - len(skipped), skipped)


def _publish(world: World, path: str, body: bytes, declared: Mapping[str, object], now: float) -> bool:
    """Whether the document got a new version."""
    if not body:
        raise BadDocument("the file is empty")
    try:
        stored = world.current(path).metadata
    except Missing:
        stored = {}
    added = {key: _text(key, value) for key, value in declared.items() if value is not None}
    return world.publish(path, body, merged(path, stored, added), None, now).created


def _text(key: str, value: object) -> str:
    """A JSON value as publisher metadata."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if key == "tags" and isinstance(value, list) and all(isinstance(tag, str) for tag in value):
        return join_tags(value)  # a tag that holds a comma becomes several
    raise BadDocument(f"metadata {key!r} is no text, number or list of tags")


def _document_path(prefix: str, name: bytes) -> str:
    path = canonical(f"{prefix}/{name.decode('utf-8', 'surrogateescape')}")
    if _UNREACHABLE.search(path):
        raise BadDocument("the name holds a control character")
    if len(path.encode("utf-8", "surrogateescape")) > PATH_MAX:
        raise BadDocument("the path is too long")
    return path


def _markdown_files(folder: bytes) -> tuple[list[bytes], Skipped]:
    """The markdown files below a folder by relative name, sorted; and what else is there, and why it stays out."""
    found: list[bytes] = []
    skipped: Skipped = []
    waiting = [b""]
    while waiting:
        relative = waiting.pop()
        with os.scandir(os.path.join(folder, relative)) as entries:
            for entry in entries:
                name = os.path.join(relative, entry.name)
                if entry.is_symlink():
                    skipped.append((os.fsdecode(name), "a symlink"))
                elif entry.is_dir():
                    if entry.name.startswith(b".") and entry.name != b".well-known":
                        skipped.append((os.fsdecode(name), "a hidden folder"))
                    else:
                        waiting.append(name)
                elif not entry.name.endswith(b".md") or not entry.is_file():
                    skipped.append((os.fsdecode(name), "not a markdown file (.md)"))
                else:
                    found.append(name)
    return sorted(found), sorted(skipped)
