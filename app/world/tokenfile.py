"""Changing the token file: mint, list, revoke (operations §7).

The functions do what `demarkus-token` does and give the texts it prints; the command prints them. A change is made
under an exclusive lock on `FILE.lock` and becomes visible by one rename, so that the server never reads half a file
and two operators never lose each other's entry. What would be written is parsed first: no change leaves a file that
the server refuses, and none leaves one that the server's user can no longer read.
"""

import fcntl
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from app.protocol.text import go_quote
from app.world.patterns import BadPattern, expression
from app.world.tokens import PUBLISH, READ, BadTokenFile, Token, TokenTable, hash_of_token


class TokenFileError(Exception):
    """Nothing was changed; the text says why, in one line that names the file or the argument."""


class Printed(msgspec.Struct, frozen=True):
    """What the command says: the answer for stdout, the prose for stderr, and what the operator should know."""

    out: str = ""
    err: str = ""
    warnings: tuple[str, ...] = ()


def generate(label: str, paths: Sequence[str], operations: Sequence[str], file: str | None = None) -> Printed:
    """Mint a token of 32 random bytes and append its entry to the file, which need not exist yet.

    Without a file the entry is only printed. Raises `TokenFileError`.
    """
    _check(label, paths, operations)
    raw = secrets.token_hex(32)
    entry = _entry("", label, hash_of_token(raw), paths, operations)
    shown = "\nRaw token (give to client, shown once):\n"
    if file is None:
        return Printed(raw + "\n", entry + shown)
    with _locked(file):
        old = _read(file, missing=b"")
        if any(token.label == label for token in _parse(file, old).tokens):
            raise TokenFileError(
                f"{file} has a token {go_quote(label)} already; revoke it or choose another label"
            )
        new = old + b"\n" + entry.encode()
        _parse(file, new)
        warnings = _replace(file, new)
    return Printed(raw + "\n", f"Token {go_quote(label)} appended to {file}\n{shown}", warnings)


def mint_first(
    label: str, paths: Sequence[str], operations: Sequence[str], file: str, show: Callable[[str], None]
) -> bool:
    """Mint the first token of a file that is there and empty; whether it was. `show` gets the raw token.

    It is shown before it is kept. Power that fails in between costs a token that nobody has used yet; the other way
    round it would leave a board with a token that nobody knows, and which is given no other. What `show` raises keeps it
    from being kept. A file without tokens that is not empty, such as one where all were revoked, stays as it is.
    Raises `TokenFileError`.
    """
    _check(label, paths, operations)
    with _locked(file):
        if _read(file):
            return False
        raw = secrets.token_hex(32)
        show(raw)
        _replace(file, _entry("", label, hash_of_token(raw), paths, operations).encode())
    return True


def list_tokens(file: str) -> Printed:
    """The tokens of the file, a line for each label. Raises `TokenFileError`."""
    lines = [
        f"{token.label:<20}  paths: {', '.join(token.paths):<20}  ops: {', '.join(token.operations)}\n"
        for token in tokens_of(file)
    ]
    return Printed("".join(lines) or "No tokens found.\n")


def tokens_of(file: str) -> list[Token]:
    """The tokens of the file, sorted by label. Raises `TokenFileError`."""
    return sorted(_parse(file, _read(file)).tokens, key=lambda token: token.label)


def revoke(label: str, file: str) -> Printed:
    """Remove a token; the file is written anew, without comments. Raises `TokenFileError`.

    Warns of patterns that no token protects any more, since what they cover can then be read by anybody.
    """
    with _locked(file):
        table = _parse(file, _read(file))
        kept = sorted(
            (token for token in table.tokens if token.label != label), key=lambda token: token.label
        )
        if len(kept) == len(table.tokens):
            raise TokenFileError(f"{file} has no token {go_quote(label)}")
        entries = [
            _entry("  ", token.label, token.hash, token.paths, token.operations, token.expires)
            for token in kept
        ]
        new = ("[tokens]\n" + "".join(entries)).encode()
        opened = sorted(set(table.protected.patterns) - set(_parse(file, new).protected.patterns))
        warnings = _replace(file, new)
    warnings += tuple(f"no token protects {pattern} any more: reading it needs none" for pattern in opened)
    return Printed(err=f"Revoked token {go_quote(label)}\n", warnings=warnings)


def _check(label: str, paths: Sequence[str], operations: Sequence[str]) -> None:
    if not label or not label.isprintable():
        raise TokenFileError(f"label {go_quote(label)} must be one or more printable characters")
    if not paths:
        raise TokenFileError("a token needs at least one path")
    for path in paths:
        if not path.startswith("/"):
            raise TokenFileError(f"path {go_quote(path)} must begin with /")
        if not path.isprintable():
            raise TokenFileError(f"path {go_quote(path)} must be printable")
        try:
            expression(path)
        except BadPattern as error:
            raise TokenFileError(str(error)) from None
    if not operations:
        raise TokenFileError(f"a token needs at least one operation: {READ}, {PUBLISH}")
    for operation in operations:
        if operation not in (READ, PUBLISH):
            raise TokenFileError(f"operation {go_quote(operation)} must be {READ} or {PUBLISH}")


# --- The text of an entry.

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_UNQUOTED = re.compile(r'["\\\x00-\x1f\x7f]')


def _entry(
    indent: str,
    label: str,
    hash_: str,
    paths: Sequence[str],
    operations: Sequence[str],
    expires: str = "",
) -> str:
    key = label if _BARE.fullmatch(label) else _quote(label)
    lines = [f"hash = {_quote(hash_)}", f"paths = {_list(paths)}", f"operations = {_list(operations)}"]
    if expires:
        lines.append(f"expires = {_quote(expires)}")
    return f"{indent}[tokens.{key}]\n" + "".join(f"{indent * 2}{line}\n" for line in lines)


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_quote, texts))}]"


def _quote(text: str) -> str:
    """A TOML basic string."""
    return f'"{_UNQUOTED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    return "\\" + char if char in '"\\' else f"\\u{ord(char):04x}"


# --- The file.


def _parse(file: str, text: bytes) -> TokenTable:
    try:
        return TokenTable.parse(text)
    except BadTokenFile as error:
        raise TokenFileError(f"{file}: {error}") from None


def _read(file: str, missing: bytes | None = None) -> bytes:
    try:
        with open(file, "rb") as source:
            return source.read()
    except FileNotFoundError as error:
        if missing is None:
            raise _failed(file, error) from None
        return missing
    except OSError as error:
        raise _failed(file, error) from None


def _failed(file: str, error: OSError) -> TokenFileError:
    folder = os.path.dirname(file) or "."
    if isinstance(error, FileNotFoundError) and not os.path.isdir(folder):
        return TokenFileError(f"{file}: there is no folder {folder}; make it first")
    if isinstance(error, FileNotFoundError):
        return TokenFileError(
            f"{file}: there is no such token file; `token generate` with --tokens makes one"
        )
    cure = "; do this as the owner of the token file or as root" if isinstance(error, PermissionError) else ""
    return TokenFileError(f"{file}: {error.strerror}{cure}")


@contextmanager
def _locked(file: str) -> Iterator[None]:
    """Hold the lock that every writer of this file takes; the lock file stays behind."""
    name = file + ".lock"
    try:
        lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _failed(file if isinstance(error, FileNotFoundError) else name, error) from None
    try:
        try:
            _adopt(lock, file)
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            raise _failed(name, error) from None
        yield
    finally:
        os.close(lock)


def _adopt(descriptor: int, file: str) -> None:
    """Give a file made beside the token file to the token file's owner, or before there is one to the directory's.

    Root mints tokens for a service that runs as somebody else. Raises `PermissionError` if the owner is another and
    the caller not root: a file left to the caller, with mode 0600, would shut the service out.
    """
    try:
        owner = os.stat(file)
    except FileNotFoundError:
        if os.geteuid() != 0:
            return
        owner = os.stat(os.path.dirname(file) or ".")
    if owner.st_uid != os.fstat(descriptor).st_uid:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _replace(file: str, text: bytes) -> tuple[str, ...]:
    """Put a new file in place of the old one, on the disk before this returns. Gives warnings."""
    new = file + ".tmp"
    try:
        shared = _is_shared(file)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with open(descriptor, "wb") as target:
                os.fchmod(descriptor, 0o600)
                _adopt(descriptor, file)
                target.write(text)
                target.flush()
                os.fsync(descriptor)
            os.rename(new, file)
        except BaseException:
            with suppress(OSError):
                os.unlink(new)
            raise
        directory = os.open(os.path.dirname(file) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except PermissionError as error:
        raise TokenFileError(
            f"{file}: {error.strerror}; do this as the owner of the file or as root"
        ) from None
    except OSError as error:
        raise _failed(file, error) from None
    if shared:
        return (
            f"{file} was readable by others than its owner and is no longer; the server must run as its owner",
        )
    return ()


def _is_shared(file: str) -> bool:
    try:
        return bool(stat.S_IMODE(os.stat(file).st_mode) & 0o044)
    except FileNotFoundError:
        return False
