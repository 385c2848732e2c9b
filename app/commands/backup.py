"""`backup`: the world, the tokens, the certificate with its key and the settings in one file, beside a running server or without one.

What could not be taken is named, and is the exit code: a backup is looked at when it is too late to make another.
"""

import argparse
import os
import time
from typing import TYPE_CHECKING

from app.commands import places
from app.commands.outcomes import Exit, Failure
from app.commands.parser import PROGRAM, Command
from app.commands.terminal import Progress, line, note

if TYPE_CHECKING:
    from app.world.backup import BackupReport


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="the backup, a tar file; an earlier one of this name is replaced"
    )
    places.arguments(parser)


def run(options: argparse.Namespace) -> int:
    from app import __version__
    from app.server.runtime import is_below
    from app.world.backup import BackupReport, write_backup
    from app.world.errors import WorldError

    where = places.places(options)
    if is_below(os.path.dirname(os.path.abspath(options.file)), where.root):
        raise Failure(f"{options.file} lies in the content directory; put it somewhere else")
    etc = {name: data for name, path in where.etc.items() if (data := _read(path)) is not None}
    report = BackupReport()
    progress = Progress("backup")
    try:
        write_backup(where.root, options.file, etc, time.time(), f"{PROGRAM} {__version__}", progress, report)
    except WorldError as error:
        raise Failure(str(error)) from error
    except BaseException:
        progress.leave()
        note("stopped before the end; there is no new backup")
        raise
    _tell(report)
    line(
        f"{report.documents} documents, {report.versions} versions, {', '.join(etc) or 'no other files'}; "
        f"{len(report.left_out)} left out"
    )
    return Exit.FAILED if report.left_out or report.curtailed or report.unsound else Exit.DONE


def _tell(report: "BackupReport") -> None:
    for path, why in report.left_out:
        note(f"left out {path}: {why}")
    for path, why in report.curtailed:
        note(f"not all of {path}: {why}")
    for path, why in report.unsound:
        note(f"taken as it is, {path}: {why}")
    if report.plain:
        note(f"passed over {report.plain} files that are no documents")


def _read(path: str) -> bytes | None:
    """The bytes of one of the operator's files, None if there is none. Raises `OSError`."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


COMMAND = Command(
    name="backup",
    summary="write world, tokens, certificate, key and settings to one file, while the server runs or not",
    examples=("backup /media/stick/board.tar", "backup board.tar --root /srv/world --tokens tokens.toml"),
    arguments=arguments,
    run=run,
    notes="Every document is in it with its whole history. The file holds the certificate's key and is readable by you alone; of tokens it has the hashes. "
    "Exit code 1 if a document could not be taken whole, which is named; the others are in it. An interrupted backup leaves the one before it as it was. "
    "`restore` brings it back; any tar can unpack it, and then its folder `world` is one that every server of this protocol can serve.",
)
