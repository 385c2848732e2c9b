"""`import`: a folder of markdown into a content directory. Run again it changes nothing, so that one that was interrupted is run again.

One file that cannot be taken stops nothing. It is named, and the exit code says that there was one.
"""

import argparse
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from app.commands.outcomes import Exit, Failure
from app.commands.parser import Command
from app.commands.publish import root_of
from app.commands.terminal import Progress, line, note

if TYPE_CHECKING:
    from app.world.transfer import ImportReport
    from app.world.world import World

_ALIKE = (
    ".md",
    ".markdown",
    ".mdown",
    ".mkd",
)  # what is meant as markdown, in any case of letters, and not taken
_KINDS_SHOWN = 5


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", metavar="DIR", help="the folder; every file below it whose name ends in .md is taken"
    )
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
    from app.protocol.paths import has_parent_segment
    from app.world.transfer import ImportReport, import_tree

    if has_parent_segment(options.prefix):
        raise Failure(f"--prefix {options.prefix} leads upwards (..)", Exit.USAGE)
    if not options.prefix.startswith("/"):
        raise Failure(f"--prefix {options.prefix} does not start with a slash", Exit.USAGE)
    if not os.path.isdir(options.folder):
        raise Failure(f"there is no folder {options.folder}")
    metadata = _metadata(options.metadata) if options.metadata else {}
    world = _open_world(root_of(options.root))
    report = ImportReport()
    progress = Progress("import")
    try:
        import_tree(world, options.folder, options.prefix, metadata, time.time(), progress, report)
    except BaseException:
        progress.leave()
        _tell(options, report)
        note("stopped before the end; run again, it goes on from here")
        raise
    finally:
        world.close()
    _tell(options, report)
    return Exit.FAILED if report.left_out else Exit.DONE


def _tell(options: argparse.Namespace, report: "ImportReport") -> None:
    for name, reason in report.left_out:
        note(f"left out {name}: {reason}")
    own = os.path.relpath(options.metadata, options.folder) if options.metadata else ""
    passed = [(name, kind) for name, kind in report.passed_over if name != own]
    for name, _ in passed:
        if name.lower().endswith(_ALIKE):
            note(f"passed over {name}: only a name that ends in .md is taken; rename it")
    if passed:
        note(f"passed over {len(passed)}: {_kinds(passed)}")
    line(f"{report.created} created, {report.unchanged} unchanged, {len(report.left_out)} left out")


def _kinds(passed: Iterable[tuple[str, str]]) -> str:
    """How many there are of each kind, the most frequent first: `3 .png, 2 a hidden folder`."""
    from app.world.transfer import NOT_MARKDOWN

    kinds = Counter(
        (os.path.splitext(name)[1] or "without ending") if kind == NOT_MARKDOWN else kind.removeprefix("a ")
        for name, kind in passed
    ).most_common()
    shown = [f"{count} {kind}" for kind, count in kinds[:_KINDS_SHOWN]]
    if rest := sum(count for _, count in kinds[_KINDS_SHOWN:]):
        shown.append(f"{rest} others")
    return ", ".join(shown)


def _open_world(root: str) -> "World":
    """The world in this content directory; what it has to say about damage goes to stderr. Raises `Failure`."""
    from app.world.errors import WorldError
    from app.world.world import World

    def log(level: str, message: str, /, **fields: object) -> None:
        if level in {"warn", "error"}:
            path, error = str(fields.get("path", root)), str(fields.get("error", ""))
            said = f"version {fields['version']} is set aside" if "version" in fields else message
            said = "cannot be read" if message == "hash index skipped entry" else said
            note(f"in the world: {path}: {said}: {error.removeprefix(f'{path}: ')}")

    try:
        return World.open(root, log=log)
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
    notes="Taken are files whose names end in .md; hidden folders (but .well-known), symlinks and other files are passed over. Title and tags "
    "come from --metadata and else from the first heading: a block at the top of a file is ordinary text. Exit code 1 if a file that should "
    "have been taken was left out. A running server shows the documents at once; LOOKUP and hash addresses follow within two seconds if it "
    "watches its content (DEMARKUS_WATCH), else with its next reload.",
)
