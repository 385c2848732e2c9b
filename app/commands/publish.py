"""`publish`: the out-of-band writer, straight to a root, without a server (store §11).

Unlike the reference's, it keeps what the document has: title, tags and other metadata stay unless `--meta` changes them, so that a
script that renews a text does not strip it. `retention` is not kept, as in APPEND. `--bare` writes no metadata at all, as the reference does.
One document is touched and nothing is walked, so that it is quick on a large world.
"""

import argparse
import os
import posixpath
import re
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from app.commands import bodies
from app.commands.outcomes import Exit, Failure
from app.commands.parser import PROGRAM, Command
from app.commands.terminal import line

_CONTROL = re.compile("[\x00-\x1f\x7f]")
_ATTEMPTS = 3  # a server may write the same version number at the same moment

Metadata = Mapping[str, str]


class Written(NamedTuple):
    """What became of the document: its current version, and whether that is new."""

    path: str
    version: int
    created: bool


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root", metavar="DIR", default=None, help="the content directory; else $DEMARKUS_ROOT"
    )
    parser.add_argument("--path", metavar="PATH", required=True, help="the document, such as /docs/pump.md")
    bodies.arguments(parser)
    parser.add_argument(
        "--bare", action="store_true", help="write no metadata at all, as the reference's writer does"
    )
    parser.add_argument(
        "--yes", action="store_true", help="allow --meta retention=N, which deletes old versions"
    )
    parser.add_argument(
        "--reload", action="store_true", help="wait until the running server's LOOKUP knows the new version"
    )
    parser.add_argument(
        "--runtime-dir", metavar="DIR", default="", help="with --reload: where that server's socket is"
    )


def run(options: argparse.Namespace) -> int:
    from app.protocol.paths import has_parent_segment
    from app.protocol.publisher import publisher_metadata, with_default_type

    changes = bodies.declared(options)
    if options.bare and changes:
        raise Failure("--bare writes no metadata; leave --meta out", Exit.USAGE)
    if has_parent_segment(options.path):
        raise Failure(
            f"the path {options.path} leads upwards (..); give the path of the document itself", Exit.USAGE
        )
    path = checked_path(options.path)
    if not path.endswith(".md"):
        raise Failure(f"{path} does not end in .md, as every document does", Exit.USAGE)
    root = root_of(options.root)
    body = bodies.read_body(options)
    if not body:
        raise Failure("the text is empty; an empty document cannot be kept", Exit.USAGE)

    def renewed(kept: Metadata) -> Metadata:
        if options.bare:
            return {}
        inherited = {key: value for key, value in kept.items() if key != "retention"}
        return with_default_type(path, publisher_metadata({**inherited, **changes}))

    done = write(root, path, body, renewed)
    line(f"{'published' if done.created else 'unchanged'} {done.path} v{done.version}")
    if options.reload:
        line(_followed(root, options.runtime_dir, done))
    return Exit.DONE


def _followed(root: str, runtime_dir: str, done: Written) -> str:
    """Lets the running server take the document over; a line about that. Raises `Failure`."""
    from app.commands import running
    from app.server.runtime import Ask

    place, status = running.server_of(root, runtime_dir)
    folder = os.fsencode(os.path.realpath(root)).decode("utf-8", "replace")
    path = done.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    told = running.ask_for(place, Ask("reload", path, folder))
    version = told["version"]
    if version is None or version < done.version:
        why = "; ".join(told["failed"].values()) or f"it serves {status['folder']}"
        raise Failure(f"{done.path} v{done.version} is written, but the server does not know it: {why}")
    return f"followed by the server of {status['root']} as v{version}"


def write(root: str, path: str, body: bytes, renewed: Callable[[Metadata], Metadata]) -> Written:
    """Writes the next version of a document with the sequence of store §5.1, whatever version it is at.

    `renewed` gives the new metadata from that in force. Raises `Failure` with words for a person.
    """
    from app.protocol.fault import Fault
    from app.world.disk import Root
    from app.world.documents import Documents, Flight
    from app.world.errors import LostRace, Missing, WorldError
    from app.world.writing import Unchanged, Writer

    try:
        opened = Root(root)
        try:
            flight = Flight()
            documents = Documents(opened, flight)
            writer = Writer(opened, documents, flight)
            for attempt in range(_ATTEMPTS):
                try:
                    kept: Metadata = documents.current(path).metadata
                except Missing:
                    kept = {}
                try:
                    step = writer.publish(path, body, renewed(kept), None, time.time())
                except LostRace:
                    if attempt == _ATTEMPTS - 1:
                        raise
                    continue
                if isinstance(step, Unchanged):
                    return Written(path, step.version, created=False)
                step.show()
                step.settle()
                return Written(path, step.document.version, created=True)
            raise AssertionError("unreachable")
        finally:
            opened.close()
    except Fault as fault:
        raise Failure(fault.message) from fault
    except WorldError as error:
        raise Failure(in_words(error, path)) from error


def in_words(error: Exception, path: str) -> str:
    """A world's error for a person; their own texts are for logs."""
    words = {
        "Archived": f"{path} is archived; bring it back first: `{PROGRAM} archive --undo URL`, at the server",
        "TooLarge": f"{path}: the text and its metadata are larger than a document may be",
        "Escapes": f"{path} leads out of the content directory through a symbolic link",
        "LostRace": f"{path}: somebody else writes this document at the same moment; try again",
        "ReadOnly": f"{path}: the content directory cannot be written by this user",
        "PathCollision": f"{path}: {error}",
        "BadDocument": f"{path}: {error}",
    }
    return words.get(type(error).__name__, str(error))


def root_of(option: str | None) -> str:
    """The content directory an option or the environment names. Raises `Failure`."""
    root = option or os.environ.get("DEMARKUS_ROOT", "")
    if not root:
        raise Failure("which content directory? give --root DIR or set DEMARKUS_ROOT", Exit.USAGE)
    if not os.path.isdir(root):
        raise Failure(
            f"the content directory {root} does not exist; make it first (mkdir)"
            if not os.path.exists(root)
            else f"{root} is no directory"
        )
    return root


def checked_path(raw: str) -> str:
    """The path of a document, cleaned as store §11.2 has it. Raises `Failure`."""
    from app.protocol.paths import hash_of

    if _CONTROL.search(raw):
        raise Failure("the path holds a control character", Exit.USAGE)
    if not raw.startswith("/"):
        raise Failure(f"the path {raw} does not start with a slash", Exit.USAGE)
    path = posixpath.normpath("/" + raw.lstrip("/"))
    if path == "/":
        raise Failure("the path names the root, not a document", Exit.USAGE)
    if hash_of(path) is not None:
        raise Failure(f"{path} is reserved for content addresses", Exit.USAGE)
    return path


COMMAND = Command(
    name="publish",
    summary="write a document straight into a content directory, without a server",
    examples=(
        "publish --root /srv/world --path /docs/pump.md pump.md",
        "publish --root /srv/world --path /docs/pump.md --meta tags=pump,site:north --reload < pump.md",
    ),
    arguments=arguments,
    run=run,
    notes="A running server shows the new version at once; LOOKUP and hash addresses follow within two seconds if it watches "
    "its content (DEMARKUS_WATCH), else with its next reload. --reload waits for that; without a server to wait for it exits "
    "with code 6, the document written.",
)
