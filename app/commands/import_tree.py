"""`import`: a folder of markdown into a content directory. Run again it changes nothing."""

import argparse
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from app.commands.outcomes import Exit, Failure
from app.commands.parser import Command
from app.commands.publish import root_of
from app.commands.terminal import Progress, line, note

if TYPE_CHECKING:
    from app.world.world import World


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="the folder; every .md file below it is taken")
    parser.add_argument(
        "--root", metavar="DIR", default=None, help="the content directory; else $DEMARKUS_ROOT"
    )
    parser.add_argument(
        "--prefix", metavar="PATH", default="/", help="where the documents go, such as /docs (/)"
    )
    parser.add_argument(
        "--metadata",
        metavar="FILE",
        help='JSON: {"guide/a.md": {"title": "A", "tags": ["x"], "importance": 0.7}}',
    )


def run(options: argparse.Namespace) -> int:
    from app.world.transfer import import_tree

    if not options.prefix.startswith("/"):
        raise Failure(f"--prefix {options.prefix} does not start with a slash", Exit.USAGE)
    if not os.path.isdir(options.folder):
        raise Failure(f"there is no folder {options.folder}")
    metadata = _metadata(options.metadata) if options.metadata else {}
    world = open_world(root_of(options.root))
    try:
        report = import_tree(world, options.folder, options.prefix, metadata, time.time(), Progress("import"))
    finally:
        world.close()
    wanted = [(name, reason) for name, reason in report.skipped if name.endswith(".md")]
    for name, reason in wanted:
        note(f"left out {name}: {reason}")
    own = os.path.relpath(options.metadata, options.folder) if options.metadata else ""
    if others := sum(not name.endswith(".md") and name != own for name, _ in report.skipped):
        note(f"passed over {others} that {'is' if others == 1 else 'are'} no markdown")
    line(f"{report.created} created, {report.unchanged} unchanged, {len(wanted)} left out")
    return Exit.FAILED if wanted else Exit.DONE


def open_world(root: str, *, read_only: bool = False) -> "World":
    """The world in this content directory; what it has to say about damage goes to stderr. Raises `Failure`."""
    from app.world.errors import WorldError
    from app.world.world import World

    def log(level: str, message: str, /, **fields: object) -> None:
        if level in {"warn", "error"}:
            note(f"{message}: {', '.join(str(field) for field in fields.values())}")

    try:
        return World.open(root, log=log, read_only=read_only)
    except WorldError as error:
        raise Failure(str(error)) from error


def _metadata(file: str) -> Mapping[str, Mapping[str, object]]:
    """What a metadata file says by relative path. Raises `Failure`."""
    import msgspec

    try:
        with open(file, "rb") as source:
            return msgspec.json.decode(source.read(), type=dict[str, dict[str, object]])
    except OSError as error:
        raise Failure(f"cannot read {file}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Failure(
            f"{file} is not as --metadata wants it, an object of objects by path: {error}"
        ) from error


COMMAND = Command(
    name="import",
    summary="load a folder of markdown into a content directory; what is there already stays as it is",
    examples=(
        "import ./notes --root /srv/world",
        "import ./manual --root /srv/world --prefix /docs --metadata metadata.json",
    ),
    arguments=arguments,
    run=run,
    notes="Exit code 1 if a markdown file was left out. A running server shows the documents at once; LOOKUP and hash addresses follow at its next start.",
)
