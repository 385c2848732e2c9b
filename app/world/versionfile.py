"""The bytes of one version file: how they are written, read leniently, and checked strictly (store §3).

Bytes and values only, no files. Three readings of the same bytes live side by side on purpose: `read` takes whatever
an earlier or foreign writer left, `fault_of` holds a file to the letter of the format, and `is_whole` asks only
whether a power cut tore it.
"""

import hashlib
import re
from collections.abc import Mapping

import msgspec

from app.protocol.fault import Fault
from app.protocol.limits import BODY_MAX, FRONTMATTER_MAX
from app.protocol.publisher import join_tags, publisher_metadata, split_tags
from app.protocol.text import trim
from app.world.errors import BadDocument, TooLarge

FILE_MAX = BODY_MAX + FRONTMATTER_MAX
NUMBER_MAX = 2**31 - 1

_OPEN = b"---\n"
_CLOSE = b"\n---\n"
_HEADER = b"---\nversion: "
_BARE = frozenset({"type", "title", "description", "resource", "tags", "timestamp"})
_STORE_KEYS = frozenset({"version", "previous-hash", "archived"})
_KEY = re.compile(r"[a-z0-9-]+")
_PREVIOUS = re.compile(r"previous-hash: (sha256-[0-9a-f]{64})")
_LIST = re.compile(r"\[(?:[^,]+(?:, [^,]+)*)?\]")


class Content(msgspec.Struct, frozen=True):
    """What a version file says: publisher metadata, body, and the `archived` line that only legacy files set."""

    metadata: dict[str, str]
    body: bytes
    archived: bool = False


def hash_of(data: bytes) -> str:
    """`sha256-` and the lower-case hex digest, as version files and answers write it."""
    return "sha256-" + hashlib.sha256(data).hexdigest()


def encode(number: int, previous_hash: str, metadata: Mapping[str, str], body: bytes) -> bytes:
    """The bytes of version `number` (store §3). `previous_hash` is that of the version before, empty for the first.

    Raises `TooLarge` over a size limit (store §3.7) and `BadDocument` for metadata that a line cannot hold.
    """
    lines = [f"---\nversion: {number}\narchived: false"]
    if number > 1:
        lines.append(f"previous-hash: {previous_hash}")
    for key, value in sorted(metadata.items()):
        if not _KEY.fullmatch(key) or key in _STORE_KEYS or "\n" in value or "\r" in value:
            raise BadDocument(f"metadata {key!r} cannot be stored")
        lines.append(_line(key, value))
    lines.append("---\n")
    try:
        data = "\n".join(lines).encode() + body
    except UnicodeEncodeError:
        raise BadDocument("metadata is not valid UTF-8") from None
    if len(body) > BODY_MAX or len(data) > FILE_MAX:
        raise TooLarge(f"a body of {len(body)} bytes is too large")
    return data


def _line(key: str, value: str) -> str:
    if key == "tags":
        return f"tags: [{', '.join(split_tags(value))}]"
    return f"{key}: {value}" if key in _BARE else f"meta.{key}: {value}"


def read(data: bytes) -> Content:
    """The content of a version file of any age or writer (store §3, lenient reading); never fails.

    Keys and values that are not UTF-8 are left out.
    """
    end = data.find(_CLOSE, len(_OPEN)) if data.startswith(_OPEN) else -1
    if end < 0:
        return Content({}, data)
    try:
        lines = data[len(_OPEN) : end].decode().split("\n")
    except UnicodeDecodeError:
        lines = [
            line
            for raw in data[len(_OPEN) : end].split(b"\n")
            if (line := raw.decode("utf-8", "ignore")).encode() == raw
        ]
    metadata: dict[str, str] = {}
    archived = False
    for line in lines:
        key, separator, value = line.partition(": ")
        if not separator:
            continue
        key = trim(key)
        value = value.removesuffix("\r")
        if key.startswith("meta."):
            key = key[5:]
            if key in _STORE_KEYS:
                continue
        elif key not in _BARE:
            if key == "archived":
                archived = value == "true"
            continue
        metadata[key] = join_tags(split_tags(_unbracketed(value))) if key == "tags" else value
    return Content(metadata, data[end + len(_CLOSE) :], archived)


def _unbracketed(value: str) -> str:
    value = trim(value)
    return value[1:-1] if value.startswith("[") and value.endswith("]") else value


def is_whole(data: bytes) -> bool:
    """Whether the bytes can be a complete version file, of whatever writer; False for what a power cut leaves.

    A file is torn if it is empty, starts with a NUL (blocks allocated, never written), or begins as the store begins
    its files without getting to the end of the header. Anything else a lenient reader accepts is whole.
    """
    if data.startswith(_HEADER):
        return data.find(_CLOSE, len(_OPEN)) >= 0
    return not (_HEADER.startswith(data) or data.startswith(b"\0"))


def previous_hash_of(data: bytes) -> str:
    """The recorded hash of the version before, empty if the third line does not hold one."""
    lines = data[:256].split(b"\n", 4)
    found = _PREVIOUS.fullmatch(lines[3].decode("ascii", "replace")) if len(lines) > 4 else None
    return found[1] if found else ""


def fault_of(data: bytes, number: int) -> str:
    """What breaks the strict form of version `number`, in words; empty if nothing does (store §3, strict check)."""
    end = data.find(_CLOSE, len(_OPEN)) if data.startswith(_OPEN) else -1
    if end < 0:
        return "no metadata block"
    if len(data) > FILE_MAX or len(data) - end - len(_CLOSE) > BODY_MAX:
        return "larger than a version may be"
    try:
        lines = data[len(_OPEN) : end].decode().split("\n")
    except UnicodeDecodeError:
        return "metadata is not UTF-8"
    if lines[0] != f"version: {number}":
        return f"first line is not version: {number}"
    if len(lines) < 2 or lines[1] not in {"archived: true", "archived: false"}:
        return "second line is not the archived line"
    rest = lines[2:]
    if number > 1 and not (rest and _PREVIOUS.fullmatch(rest.pop(0))):
        return "third line is not a previous-hash"
    return _metadata_fault(rest)


def _metadata_fault(lines: list[str]) -> str:
    metadata: dict[str, str] = {}
    last = ""
    for line in lines:
        key, separator, value = line.partition(": ")
        logical = key.removeprefix("meta.")
        if not separator or not (key.startswith("meta.") or key in _BARE):
            return f"metadata line is not of the format: {line[:80]!r}"
        if logical <= last:
            return f"metadata key {logical!r} is out of order"
        if key == "tags" and not _LIST.fullmatch(value):
            return "tags are not a list"
        metadata[logical] = value[1:-1] if key == "tags" else value
        last = logical
    try:
        publisher_metadata(metadata)
    except Fault as fault:
        return fault.message
    return ""


def number_of(name: str) -> int:
    """The number a version file's name stands for: `v` and a decimal from 1; 0 for any other name (store §1.2)."""
    digits = name[1:]
    if name[:1] != "v" or not (digits.isascii() and digits.isdigit()):
        return 0
    number = int(digits)
    return number if number <= NUMBER_MAX else 0
