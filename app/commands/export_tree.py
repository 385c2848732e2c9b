"""`export`: the current text of all live documents as a plain tree of files, without metadata or history."""

import argparse

from app.commands.import_tree import open_world
from app.commands.outcomes import Exit
from app.commands.parser import Command
from app.commands.publish import root_of
from app.commands.terminal import Progress, line, note


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="where the files go; made if it is not there")
    parser.add_argument(
        "--root", metavar="DIR", default=None, help="the content directory; else $DEMARKUS_ROOT"
    )


def run(options: argparse.Namespace) -> int:
    from app.world.transfer import export_tree

    world = open_world(root_of(options.root), read_only=True)
    try:
        report = export_tree(world, options.folder, Progress("export"))
    finally:
        world.close()
    for name, reason in report.skipped:
        note(f"left out {name}: {reason}")
    line(f"{report.written} written, {len(report.skipped)} left out")
    return Exit.FAILED if report.skipped else Exit.DONE


COMMAND = Command(
    name="export",
    summary="write the current text of every live document as a plain tree of files",
    examples=("export ./backup --root /srv/world", "export /media/stick/world --root /srv/world"),
    arguments=arguments,
    run=run,
)
