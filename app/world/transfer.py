"""Folders of markdown into a world, and a world into a folder.

`import_tree` publishes files as documents; run again it changes nothing. `export_tree` writes the current text of all
live documents as plain files, without their history. Both go on past what they cannot take, report it with the reason,
and call `progress` with how many files are done and how many there are. A disk that takes no more ends them with the
error of the world.
"""

import os
import re
from collections.abc import Callable, Mapping

import msgspec

from app.protocol.fault import Fault
from app.protocol.limits import BODY_MAX, PATH_MAX
from app.protocol.paths import canonical
from app.protocol.publisher import join_tags, merged
from app.world.disk import Root
from app.world.documents import Document, Documents, Flight
from app.world.errors import (
    Archived,
    BadDocument,
    Damaged,
    DiskFailure,
    Escapes,
    Missing,
    PathCollision,
    TooLarge,
    WorldError,
    reason,
)
from app.world.inventory import Place, Unread, inventory
from app.world.shelf import Shelf
from app.world.world import World

Progress = Callable[[int, int], None]
Skipped = list[tuple[str, str]]
"""Names that were left out, each with the reason."""

HIDDEN = "a hidden folder"
SYMLINK = "a symlink"
NOT_MARKDOWN = "not named .md"

_UNREACHABLE = re.compile("[\x00-\x08\x0a-\x1f\x7f]")  # no request can name such a path (wire §2)
_REFUSALS = (Fault, BadDocument, PathCollision, Archived, TooLarge, Escapes, Damaged)


class ImportReport(msgspec.Struct):
    """What an import has come to so far: how many documents got a new version, and how many were the same already.

    `left_out` is what should have been taken and could not be, `passed_over` what is not meant: symlinks, hidden
    folders, files that are not named `.md`.
    """

    created: int = 0
    unchanged: int = 0
    left_out: Skipped = []
    passed_over: Skipped = []


class ExportReport(msgspec.Struct):
    """What an export has come to so far: how many documents were written, and which are left out or not whole."""

    written: int = 0
    left_out: Skipped = []
    older: Skipped = []
    """Documents written as they were before a newest version that cannot be read."""


def import_tree(
    world: World,
    source: str,
    prefix: str,
    metadata: Mapping[str, Mapping[str, object]],
    now: float,
    progress: Progress = lambda done, total: None,
    report: ImportReport | None = None,
) -> ImportReport:
    """Publish every markdown file below the folder `source` under the path `prefix`.

    `metadata` is by file name relative to `source`, as read from JSON: text and numbers, and lists for `tags`. It is
    laid over what a document has already, so that what it does not name stays. `report` is kept up to date and given
    back; a caller who is interrupted has it. Raises `OSError` if there is no folder `source` to read.
    """
    report = report or ImportReport()
    folder = os.fsencode(source)
    files = _markdown_files(folder, report)
    known = set(map(os.fsdecode, files))
    report.left_out += [
        (name, "has metadata, but is not among the files") for name in metadata if name not in known
    ]
    for done, raw in enumerate(files):
        progress(done, len(files))
        name = os.fsdecode(raw)
        try:
            body = _body(os.path.join(folder, raw))
            path = _document_path(prefix, raw)
            if _publish(world, path, body, metadata.get(name, {}), now):
                report.created += 1
            else:
                report.unchanged += 1
        except _REFUSALS as refusal:
            report.left_out.append((name, refusal.message if isinstance(refusal, Fault) else str(refusal)))
    progress(len(files), len(files))
    return report


def export_tree(
    root: str,
    target: str,
    progress: Progress = lambda done, total: None,
    report: ExportReport | None = None,
) -> ExportReport:
    """Write the current body of every live document to a file below `target`, which is made or must be empty.

    The disk is asked, not an index of it: whatever should be a document and cannot be read is in the report. Raises
    `BadRoot`, `FileExistsError` if the target is not empty, and other `OSError`s from writing.
    """
    report = report or ExportReport()
    opened = Root(root)
    try:
        os.makedirs(target, exist_ok=True)
        if os.listdir(target):
            raise FileExistsError(f"{target} is not empty; name a new folder, as nothing is overwritten")
        documents = Documents(opened, Flight())
        places = []
        for place in inventory(opened):
            if isinstance(place, Unread):
                report.left_out.append((place.path, place.why))
            elif not place.plain:
                places.append(place)
        told = {path for path, _ in report.left_out}
        places = [place for place in places if place.path not in told]
        for done, place in enumerate(places):
            progress(done, len(places))
            try:
                document, shelf = _read(opened, documents, place)
            except WorldError as error:
                why = str(error).removeprefix(f"{place.path}: ")
                report.left_out.append((place.path, why))
                continue
            if document.archived:
                continue
            if shelf.torn:
                faults = "; ".join(torn.fault for torn in shelf.torn)
                report.older.append((place.path, f"{faults}; v{document.version} was written"))
            _write(os.path.join(os.fsencode(target), *place.names), document.body)
            report.written += 1
        progress(len(places), len(places))
    finally:
        opened.close()
    return report


def _read(root: Root, documents: Documents, place: Place) -> tuple[Document, Shelf]:
    """The document at a place where one should be. Raises `WorldError` saying why it is not."""
    if not place.exists:
        raise Damaged("has versions but no pointer")
    try:
        fd = root.open_directory(place.names[:-1])
    except (OSError, Escapes) as error:
        raise Damaged(f"cannot be read: {reason(error)}") from error
    try:
        return documents.read(fd, place.names, place.path)
    except Missing as error:
        raise Damaged("the pointer leads to no version that can be read") from error
    finally:
        os.close(fd)


def _write(name: bytes, body: bytes) -> None:
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "xb") as file:
        file.write(body)


def _body(name: bytes) -> bytes:
    """The text of a file to import. Raises `BadDocument` if it cannot be read, `TooLarge`."""
    try:
        with open(name, "rb") as file:
            body = file.read(BODY_MAX + 1)
            size = max(len(body), os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise BadDocument(f"cannot be read: {reason(error)}") from error
    if len(body) > BODY_MAX:
        raise TooLarge(f"{size} bytes, more than the {BODY_MAX} that a document holds")
    return body


def _publish(world: World, path: str, body: bytes, declared: Mapping[str, object], now: float) -> bool:
    """Whether the document got a new version."""
    if not body:
        raise BadDocument("the file is empty")
    try:
        stored = world.current(path).metadata
    except Missing:
        stored = {}
    except DiskFailure as error:  # of this one document; the next may be in good health
        raise Damaged(f"the document cannot be read: {error}") from error
    added = {key: _text(key, value) for key, value in declared.items() if value is not None}
    return world.publish(path, body, merged(path, stored, added), None, now).created


def _text(key: str, value: object) -> str:
    """A JSON value as publisher metadata."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if key == "importance" and isinstance(value, int | float) and not 0 <= value <= 1:
        raise BadDocument(
            f"importance {value} is not from 0 to 1"
        )  # nobody would refuse it, and it would not count
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


def _markdown_files(folder: bytes, report: ImportReport) -> list[bytes]:
    """The markdown files below a folder by relative name, sorted. What else is there goes into the report.

    Raises `OSError` if the folder itself cannot be listed.
    """
    found: list[bytes] = []
    waiting = [b""]
    while waiting:
        relative = waiting.pop()
        try:
            with os.scandir(os.path.join(folder, relative)) as scan:
                entries = list(scan)
        except OSError as error:
            if not relative:
                raise
            report.left_out.append((f"{os.fsdecode(relative)}/", f"cannot be read: {reason(error)}"))
            continue
        for entry in entries:
            name = os.path.join(relative, entry.name)
            shown = os.fsdecode(name)
            is_link = entry.is_symlink()
            if entry.is_dir(follow_symlinks=False):
                if entry.name.startswith(b".") and entry.name != b".well-known":
                    report.passed_over.append((f"{shown}/", HIDDEN))
                else:
                    waiting.append(name)
            elif not entry.name.endswith(b".md"):
                report.passed_over.append((shown, SYMLINK if is_link else NOT_MARKDOWN))
            elif entry.is_file(follow_symlinks=False):
                found.append(name)
            else:
                report.left_out.append((shown, SYMLINK if is_link else "neither file nor folder"))
    for skipped in (report.left_out, report.passed_over):
        skipped.sort()
    return sorted(found)
