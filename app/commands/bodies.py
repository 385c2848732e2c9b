"""Where the text of a write and its metadata come from: `--body`, a file, or stdin; `--meta k=v`."""

import argparse
import os
import sys
from collections.abc import Iterable

from app.commands.outcomes import Exit, Failure
from app.protocol.limits import BODY_MAX


def arguments(parser: argparse.ArgumentParser) -> None:
    """FILE, `--body` and `--meta`."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="the text; - or nothing reads stdin")
    parser.add_argument("--body", metavar="TEXT", help="the text itself; no line end is added")
    parser.add_argument(
        "--meta", metavar="K=V", action="append", default=[], help="attach metadata; may be repeated"
    )


def read_body(options: argparse.Namespace) -> bytes:
    """The text. Raises `Failure` when there is none, more than one, or more than 1 MiB."""
    if options.body is not None and options.file is not None:
        raise Failure("give the text once: --body or FILE, not both", Exit.USAGE)
    if options.body is not None:
        return checked(options.body.encode("utf-8", "surrogateescape"))
    if options.file is not None and options.file != "-":
        try:
            with open(options.file, "rb") as file:
                body = file.read(BODY_MAX + 1)
                return checked(body, max(len(body), os.fstat(file.fileno()).st_size))
        except OSError as error:
            raise Failure(f"cannot read {options.file}: {error.strerror}") from error
    if getattr(options, "auth", None) == "-":
        raise Failure("stdin gives the token (--auth -): give the text with --body or as FILE", Exit.USAGE)
    if options.file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise Failure("no text: give --body TEXT, a FILE, or pipe it in", Exit.USAGE)
    return checked(read_stdin())


def read_stdin() -> bytes:
    """All of stdin, up to one byte more than a body may have."""
    return sys.stdin.buffer.read(BODY_MAX + 1) if sys.stdin is not None else b""


def checked(body: bytes, size: int | None = None) -> bytes:
    """The body, if a server could take it (wire §2.1, §5.4); `size` is that of all of it, if more is known. Raises `Failure`."""
    if len(body) > BODY_MAX:
        whole = f": it has {size}" if size is not None else ""
        raise Failure(f"the text is larger than {BODY_MAX} bytes, the most that a document holds{whole}")
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Failure(f"the text is not UTF-8 (byte {error.start})") from error
    return body


def metadata(pairs: Iterable[str], *, prune: bool = True) -> dict[str, str]:
    """The map that `--meta k=v` options make. Raises `Failure` for what is no pair or steers the request.

    `prune` allows `retention`, which deletes versions.
    """
    from app.protocol.publisher import CONTROL

    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise Failure(f"metadata is KEY=VALUE, not {pair!r}", Exit.USAGE)
        if key in CONTROL:
            raise Failure(f"{key} is no metadata; it has an option of its own", Exit.USAGE)
        found[key] = value
    if "retention" in found and not prune:
        raise Failure(
            "retention deletes all but the newest versions for good; add --yes if that is meant", Exit.USAGE
        )
    return found


def declared(options: argparse.Namespace) -> dict[str, str]:
    """The metadata of a command line of our own, held to the rules for it before anything is sent (wire §8.2).

    An importance that no server would understand is refused too: it would be kept, and count as 0.5. Raises `Failure`.
    """
    from app.protocol.fault import Fault
    from app.protocol.publisher import in_full, publisher_metadata

    found = metadata(options.meta, prune=options.yes)
    if "importance" in found and not _is_importance(found["importance"]):
        raise Failure(
            f"importance is a number from 0 to 1, such as 0.7, not {found['importance']!r}", Exit.USAGE
        )
    try:
        publisher_metadata(found)
    except Fault as fault:
        raise Failure(in_full(fault), Exit.USAGE) from fault
    return found


def _is_importance(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1 and "_" not in text
    except ValueError:
        return False
