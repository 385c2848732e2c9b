"""The cursor of a paged LIST (wire §5.2).

Unpadded base64url of: version byte 1, flags byte (bit 0: archived documents included), length of the directory
path as big-endian uint16, the path, the name of the last entry sent. A cursor holds no secret and grants nothing:
it is checked against the request that carries it and only says where to go on.
"""

import base64
import binascii
import re
import struct

from app.protocol.fault import Fault
from app.protocol.limits import PATH_MAX

_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")
_HEAD = struct.Struct(">BBH")
_VERSION = 1
_ARCHIVED = 0b1
_CURSOR_MAX = _HEAD.size + 2 * PATH_MAX  # 8178


def encode_cursor(path: str, include_archived: bool, last: str) -> str:
    """The cursor that goes on behind entry `last` of directory `path` (canonical)."""
    place = path.encode("utf-8", "surrogateescape")
    data = _HEAD.pack(_VERSION, _ARCHIVED if include_archived else 0, len(place)) + place
    return (
        base64.urlsafe_b64encode(data + last.encode("utf-8", "surrogateescape")).decode("ascii").rstrip("=")
    )


def decode_cursor(text: str, path: str, include_archived: bool) -> str:
    """The last entry name of a cursor made for this directory and this archive mode.

    Raises `Fault` `bad-request` with the messages of wire §5.2, in the order of that table.
    """
    if len(text) * 3 // 4 > _CURSOR_MAX:
        raise Fault("bad-request", "LIST cursor exceeds limit")
    data = _decode(text)
    if len(data) < _HEAD.size:
        raise Fault("bad-request", "invalid LIST cursor", "too short")
    version, flags, length = _HEAD.unpack_from(data)
    place, last = data[_HEAD.size : _HEAD.size + length], data[_HEAD.size + length :]
    if not place or not last:
        raise Fault("bad-request", "invalid LIST cursor", "no path or no name")
    if version != _VERSION or flags & ~_ARCHIVED:
        raise Fault("bad-request", "unsupported LIST cursor", f"version {version}, flags {flags:#x}")
    if place != path.encode("utf-8", "surrogateescape") or bool(flags & _ARCHIVED) != include_archived:
        raise Fault("bad-request", "LIST cursor does not match this request")
    return last.decode("utf-8", "surrogateescape")


def _decode(text: str) -> bytes:
    if not _BASE64URL.fullmatch(text):
        raise Fault("bad-request", "invalid LIST cursor", "not unpadded base64url")
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise Fault("bad-request", "invalid LIST cursor", str(error)) from None
