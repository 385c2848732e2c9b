"""What an author may attach to a document: the publisher metadata, its limits and its default type (wire §8).

Maps of text go in and out; messages are those of wire §8.2 to the byte. Storing them is the store's business.
"""

import re
from collections.abc import Iterable, Mapping

from app.protocol import paths
from app.protocol.fault import Fault
from app.protocol.limits import PUBLISHER_BYTES_MAX, PUBLISHER_KEYS_MAX
from app.protocol.runes import trim
from app.protocol.text import go_quote

CONTROL = frozenset({"auth", "expected-version", "if-none-match", "if-modified-since"})
"""Keys that steer a write and are not stored (wire §8.1)."""

RESERVED = frozenset({
    "version", "modified", "etag", "content-hash", "current-version", "server-version", "your-version", "total",
    "current", "chain-valid", "chain-error", "archived", "entries", "matches", "match", "status",
})  # fmt: skip
"""Keys a server writes, which an author may not (wire §8.2)."""

_STORE_FIELDS = frozenset({"previous-hash"})  # those of the store that are not reserved already
_HIDDEN = CONTROL | RESERVED | _STORE_FIELDS
_KEY = re.compile(r"[a-z0-9-]+")
_NOT_A_LINE = re.compile("[\r\n\ud800-\udfff]")
_POSITIVE = re.compile(r"\+?0*[1-9][0-9]{0,18}")
_UNTYPED = frozenset({"index.md", "log.md"})


def publisher_metadata(request_metadata: Mapping[str, str]) -> dict[str, str]:
    """The part of a write's metadata that is stored, with `tags` normalised (wire §8.1).

    Raises `Fault` `bad-request` by the table of wire §8.2, key by key in sorted order.
    """
    chosen = {key: value for key, value in sorted(request_metadata.items()) if key not in CONTROL}
    for key, value in chosen.items():
        _check_pair(key, value)
    if "tags" in chosen:
        chosen["tags"] = join_tags(split_tags(chosen["tags"]))
    _check_limits(chosen)
    for key, value in chosen.items():
        _check_stored(key, value)
    return chosen


def with_default_type(path: str, metadata: Mapping[str, str]) -> dict[str, str]:
    """The metadata with `type: Document` added where the path wants a type and there is none (wire §8.3).

    Raises `Fault` if the addition breaks a limit of wire §8.2.
    """
    result = dict(metadata)
    if paths.name(path) not in _UNTYPED and not trim(result.get("type", "")):
        result["type"] = "Document"
        _check_limits(result)
    return result


def merged(path: str, base: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """The metadata of an APPEND: the base version's without `retention`, overlaid, typed (wire §5.5).

    Raises `Fault` `bad-request` "invalid publisher metadata: …" if the whole breaks wire §8.2.
    """
    result = {key: value for key, value in base.items() if key != "retention"} | dict(added)
    try:
        return with_default_type(path, publisher_metadata(result))
    except Fault as fault:
        message = fault.message.removeprefix(_STORE_PREFIX)
        raise Fault(fault.status, _STORE_PREFIX + message) from None


_STORE_PREFIX = "invalid publisher metadata: "


def readable(metadata: Mapping[str, str]) -> dict[str, str]:
    """What a FETCH gives back of stored metadata: nothing reserved and nothing that breaks wire §8.2 (§8.4)."""
    return {
        key: value
        for key, value in metadata.items()
        if key not in _HIDDEN
        and _KEY.fullmatch(key)
        and not _NOT_A_LINE.search(value)
        and (key != "retention" or _is_positive(value))
    }


def split_tags(text: str) -> list[str]:
    """The items of a comma list, trimmed, without empty ones (wire §8.1)."""
    return [item for item in map(trim, text.split(",")) if item]


def in_full(fault: Fault) -> str:
    """What a fault in metadata says, with the rule that a key breaks: for whoever can still change it."""
    rule = (
        ": lower-case letters, digits and hyphens"
        if fault.message.endswith("contains invalid characters")
        else ""
    )
    return fault.message + rule


def join_tags(tags: Iterable[str]) -> str:
    """The comma list as it is stored in memory and sent: no space behind the comma (wire §8.1)."""
    return ",".join(tags)


def _check_pair(key: str, value: str) -> None:
    if key in RESERVED:
        raise Fault("bad-request", f"metadata key {go_quote(key)} is reserved")
    if not _KEY.fullmatch(key):
        raise Fault("bad-request", f"metadata key {go_quote(key)} contains invalid characters")
    if _NOT_A_LINE.search(value):
        raise Fault("bad-request", f"metadata value for key {go_quote(key)} contains newlines")


def _check_limits(metadata: Mapping[str, str]) -> None:
    if len(metadata) > PUBLISHER_KEYS_MAX:
        raise Fault("bad-request", f"too many metadata keys (max {PUBLISHER_KEYS_MAX})")
    size = sum(len(key) + len(_stored(key, value).encode("utf-8")) for key, value in metadata.items())
    if size > PUBLISHER_BYTES_MAX:
        raise Fault("bad-request", f"metadata too large (max {PUBLISHER_BYTES_MAX} bytes)")


def _stored(key: str, value: str) -> str:
    """The value as the version file writes it: tags as a bracketed list (store §3.4)."""
    return f"[{', '.join(split_tags(value))}]" if key == "tags" else value


def _check_stored(key: str, value: str) -> None:
    if key in _STORE_FIELDS:
        raise Fault("bad-request", f"{_STORE_PREFIX}key {go_quote(key)} is reserved by the store")
    if key == "retention" and not _is_positive(value):
        reason = f"must be a positive integer, got {go_quote(value)}"
        raise Fault("bad-request", f'{_STORE_PREFIX}key "retention" {reason}')


def _is_positive(text: str) -> bool:
    return bool(_POSITIVE.fullmatch(text)) and int(text) < 2**63
