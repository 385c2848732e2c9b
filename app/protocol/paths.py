"""Paths of the world: their canonical form and what their spelling means (wire §2.6, §5.1; store §2).

A path is a `str` decoded from UTF-8 with `surrogateescape`, so that any byte survives; order is byte order. Only
text is looked at: whether something exists at a path is asked elsewhere.
"""

import re

_HASH = re.compile(r"/(sha256-[0-9a-f]{64})")
_VERSION = re.compile(r"(/.*[^/])/v\+?([0-9]+)", re.DOTALL)
_INT64_MAX = 2**63 - 1


def has_parent_segment(raw: str) -> bool:
    """Whether a segment of the path, as sent, is `..`: such a path is answered as not existing (wire §2.3)."""
    return ".." in raw and ".." in raw.split("/")


def canonical(raw: str) -> str:
    """The clean form: leading slash, no empty or `.` segments, no trailing slash; the root is `/` (wire §2.6).

    Parent segments are refused before this is asked (`has_parent_segment`); they are left as they are.
    """
    return "/" + "/".join([segment for segment in raw.split("/") if segment not in {"", "."}])


def hash_of(path: str) -> str | None:
    """`sha256-<64 hex>` if the whole canonical path is a content address, else None (wire §5.1)."""
    found = _HASH.fullmatch(path)
    return found[1] if found else None


def split_version(path: str) -> tuple[str, int] | None:
    """Base path and number of `<base>/vN`, else None (wire §5.1).

    N is a positive decimal of 64 bits; leading zeros and a `+` are tolerated; the base is not the root. Whether
    the base is a directory, which makes this a plain path, is for the caller to ask.
    """
    found = _VERSION.fullmatch(path)
    if found is None:
        return None
    digits = found[2].lstrip("0")
    if not digits or len(digits) > 19 or int(digits) > _INT64_MAX:
        return None
    return found[1], int(digits)


def sort_key(path: str) -> bytes:
    """The path's bytes, for sorting bytewise."""
    return path.encode("utf-8", "surrogateescape")


def parent(path: str) -> str:
    """The canonical path of the directory that holds a canonical path; the root is its own parent."""
    return path[: path.rindex("/")] or "/"


def name(path: str) -> str:
    """The last segment of a canonical path; empty for the root."""
    return path[path.rindex("/") + 1 :]
