"""`export`: the current text of all live documents as a plain tree of files, without metadata or history.

It is used as a backup, so that whatever should be a document and could not be read is named, and is the exit code.
"""

import argparse
from typing import TYPE_CHECKING

from app.commands.outcomes import Exit, Failure
from app.commands.parser import Command
from app.commands.publish import root_of
from app.commands.terminal import Progress, line, note

if TYPE_CHECKING:
    from app.world.transfer import ExportReport


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", metavar="DIR", help="where the files go; made if it is not there, else empty"
    )
    parser.add_argument(
        "--root", metavar="DIR", default=None, help="the content directory; else $DEMARKUS_ROOT"
    )


def run(options: argparse.Namespace) -> int:
    from app.world.errors import WorldError
    from app.world.transfer import ExportReport, export_tree

    root = root_of(options.root)
    report = ExportReport()
    progress = Progress("export")
    try:
        export_tree(root, options.folder, progress, report)
    except (FileExistsError, WorldError) as error:
        raise Failure(str(error)) from error
    except BaseException:
        progress.leave()
        _tell(report)
        note("stopped before the end; what was written is not all")
        raise
    _tell(report)
    return Exit.FAILED if report.left_out or report.older else Exit.DONE


def _tell(report: "ExportReport") -> None:
    for path, why in report.left_out:
        note(f"left out {path}: {why}")
    for path, why in report.older:
        note(f"not the newest version of {path}: {why}")
    line(f"{report.written} written, {len(report.left_out)} left out")


COMMAND = Command(
    name="export",
    summary="write the current text of every live document as a plain tree of files",
    examples=("export ./backup --root /srv/world", "export /media/stick/world --root /srv/world"),
    arguments=arguments,
    run=run,
    notes="Archived documents, metadata and history are not in it: a copy of the content directory has them (cp -a). Exit code 1 if a document "
    "could not be read, or not in its newest version; each is named.",
)
