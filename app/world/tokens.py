"""The token table and what it decides: who may read and who may write which path (wire §7, operations §6).

A table is parsed whole or refused whole, so that no part of a broken file is ever in force. Every request takes one
`Access` from the table in force and asks nothing else. Reading needs a token only where some token with `read`
covers the path, expired ones included: an expiry closes what it opened, it never lays open what was closed.
"""

import hashlib
import re
import tomllib
from collections.abc import Hashable
from typing import Any, Final

import msgspec

from app.protocol.fault import Fault
from app.protocol.runes import fold
from app.protocol.text import go_quote
from app.protocol.times import parse_rfc3339
from app.world.patterns import BadPattern, Patterns

MANIFEST: Final = "/.well-known/agent-manifest.md"
"""The document that anybody may read (wire §5.9)."""

READ: Final = "read"
PUBLISH: Final = "publish"

_NOTHING = Patterns()


class BadTokenFile(ValueError):
    """A token file that cannot be used; the text names place or label, the fault and the cure."""


class Token(msgspec.Struct, frozen=True):
    """One entry of the file, as written but for its patterns."""

    label: str
    hash: str
    paths: tuple[str, ...]
    operations: tuple[str, ...]
    expires: str
    """As written; empty = never."""
    expires_at: float | None
    patterns: Patterns


class TokenTable:
    """All tokens of a file. Immutable; safe for use by several threads."""

    def __init__(self, tokens: tuple[Token, ...] = (), warnings: tuple[str, ...] = ()) -> None:
        self.tokens = tokens
        self.warnings = warnings
        """What the file says without effect, a line each: fields and operations nobody knows, hashes no token has."""
        self.protected = Patterns(
            path for token in tokens if READ in token.operations for path in token.paths
        )
        """Where reading needs a token."""
        self._by_hash = {token.hash: token for token in tokens}

    @classmethod
    def parse(cls, text: bytes) -> "TokenTable":
        """The table a file's bytes describe; an empty file is an empty table. Raises `BadTokenFile`."""
        tokens: dict[str, Token] = {}  # by hash
        warnings: list[str] = []
        for label, entry in _entries(text, warnings):
            token = _token(label, entry, warnings)
            if token.hash in tokens:
                pair = f"tokens {go_quote(tokens[token.hash].label)} and {go_quote(label)}"
                raise BadTokenFile(f"{pair} have the same hash; remove one of them")
            tokens[token.hash] = token
        return cls(tuple(tokens.values()), tuple(warnings))

    def find(self, raw: str) -> Token | None:
        """The token that a request's `auth` names (wire §7.1)."""
        return self._by_hash.get(hash_of_token(raw))


def hash_of_token(raw: str) -> str:
    """What the file holds of a token: `sha256-` and the lower-case hex digest of its UTF-8."""
    return "sha256-" + hashlib.sha256(raw.encode("utf-8", "surrogateescape")).hexdigest()


class Access:
    """What one request may do, by the table in force when it came and the token it carried. Made by `access`.

    Called, it is `may_read`: whoever asks only that takes any function of a path, and asks less of one of these.
    """

    __slots__ = ("_protected", "_readable", "_refusal", "_table", "_token")

    def __init__(self, table: TokenTable | None, token: Token | None, refusal: str) -> None:
        """`token` is None if the request has none that is in force, and `refusal` then says why, for the log."""
        self._table = table
        self._token = token
        self._refusal = refusal
        self._protected = table.protected if table else _NOTHING
        self._readable = token.patterns if token and READ in token.operations else _NOTHING

    @property
    def key(self) -> Hashable:
        """What may be read, as a value: two accesses with equal keys may read the same paths."""
        return self._protected.patterns, self._readable.patterns

    def may_read(self, path: str) -> bool:
        """Whether the caller may read this path; a directory may come with or without its slash (wire §7.4)."""
        return not self._protected.covers(path) or self._readable.covers(path) or path == MANIFEST

    __call__ = may_read

    def may_read_below(self, directory: str) -> bool:
        """Whether the caller might read something below this directory; False is sure, and takes no look at it.

        Patterns alone decide. Where they do not, because special characters of both kinds of patterns meet, it is True.
        """
        return (
            not self._protected.cover_below(directory)
            or self._readable.may_match_below(directory)
            or MANIFEST.startswith(directory.rstrip("/") + "/")
        )

    def check_read(self, path: str) -> None:
        """Raises `Fault` (unauthorized, not-permitted) if the caller may not read this path."""
        if not self.may_read(path):
            raise _not_permitted(self._in_force())

    def check_write(self, path: str, verb: str) -> str:
        """The label of the token that lets PUBLISH, APPEND or ARCHIVE touch this canonical path (wire §7.3).

        Raises `Fault` (unauthorized, not-permitted).
        """
        if self._table is None:
            raise Fault("not-permitted", f"{_DOING[verb]} requires auth configuration")
        token = self._in_force()
        if PUBLISH not in token.operations or not token.patterns.matches(path):
            raise _not_permitted(token)
        return token.label

    def _in_force(self) -> Token:
        if self._token is None:
            raise Fault("unauthorized", "authentication required", self._refusal)
        return self._token


_DOING = {"PUBLISH": "publishing", "APPEND": "appending", "ARCHIVE": "archiving"}


def _not_permitted(token: Token) -> Fault:
    return Fault("not-permitted", "insufficient permissions", f"token {go_quote(token.label)}")


def access(table: TokenTable | None, raw: str | None, now: float) -> Access:
    """What a request with this `auth` may do at this moment (seconds since 1970); `table` is None without a file."""
    if table is None or not raw:
        return Access(table, None, "no token")
    token = table.find(raw)
    if token is None:
        return Access(table, None, "unknown token")
    if token.expires_at is not None and now > token.expires_at:
        return Access(table, None, f"token {go_quote(token.label)} has expired")
    return Access(table, token, "")


# --- Reading the file. The top level and the entries are looked at field by field, so that each fault has its name.

_SHAPE = re.compile(r"sha256-[0-9a-f]{64}")
_FIELDS = ("hash", "paths", "operations", "expires")


def _entries(text: bytes, warnings: list[str]) -> list[tuple[str, Any]]:
    try:
        document = tomllib.loads(text.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise BadTokenFile(f"not UTF-8 (at line {line}); save it as UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise BadTokenFile(f"not TOML: {error}") from None
    warnings += [
        f"{go_quote(key)} is ignored: tokens are written as [tokens.LABEL]"
        for key in document
        if fold(key) != "tokens"
    ]
    tokens = _field(document, "tokens", "the file")
    if tokens is None:
        return []
    if not isinstance(tokens, dict):
        raise BadTokenFile("tokens is no table: write [tokens.LABEL] for each token")
    return list(tokens.items())


def _token(label: str, entry: Any, warnings: list[str]) -> Token:
    where = f"token {go_quote(label)}"
    if not isinstance(entry, dict):
        raise BadTokenFile(
            f"{where} is no table: write [tokens.LABEL] with hash, paths and operations below it"
        )
    hash_ = _string(entry, "hash", where)
    if not hash_:
        raise BadTokenFile(f'{where}: empty hash; write [tokens.LABEL] with hash = "sha256-..." below it')
    paths = _strings(entry, "paths", where)
    operations = _strings(entry, "operations", where)
    expires = _string(entry, "expires", where)
    expires_at = parse_rfc3339(expires)
    if expires and expires_at is None:
        raise BadTokenFile(f'{where}: bad expires {go_quote(expires)}; write it as "2026-12-31T23:59:59Z"')
    try:
        patterns = Patterns(paths)
    except BadPattern as error:
        raise BadTokenFile(f"{where}: {error}") from None
    warnings += [f"{where}: field {go_quote(key)} is ignored" for key in entry if fold(key) not in _FIELDS]
    warnings += [
        f"{where}: operation {go_quote(operation)} is ignored; there are read and publish"
        for operation in operations
        if operation not in (READ, PUBLISH)
    ]
    if not _SHAPE.fullmatch(hash_):
        warnings.append(f"{where}: no token has this hash; it must be sha256- and 64 lower-case hex digits")
    return Token(label, hash_, paths, operations, expires, expires_at, patterns)


def _field(table: dict[str, Any], name: str, where: str) -> Any:
    """A field whatever the case of its name (operations §6); two spellings of one name leave open which one counts."""
    spellings = [key for key in table if fold(key) == name]
    if len(spellings) > 1:
        raise BadTokenFile(f"{where}: {' and '.join(spellings)} are the same field; keep {name}")
    return table[spellings[0]] if spellings else None


def _string(entry: dict[str, Any], name: str, where: str) -> str:
    value = _field(entry, name, where)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadTokenFile(f'{where}: {name} must be text in quotes: {name} = "..."')
    return value


def _strings(entry: dict[str, Any], name: str, where: str) -> tuple[str, ...]:
    value = _field(entry, name, where)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadTokenFile(f'{where}: {name} must be a list of texts: {name} = ["...", "..."]')
    return tuple(value)
