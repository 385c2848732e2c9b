"""`restore`: a backup back into a world and its places, all of it or nothing; the server that is to serve it must not run yet."""

import argparse

from app.commands import places, running
from app.commands.outcomes import Exit, Failure
from app.commands.parser import Command
from app.commands.terminal import line, note


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what `backup` wrote")
    places.arguments(parser)


def run(options: argparse.Namespace) -> int:
    from app.world.errors import WorldError
    from app.world.restore import restore

    where = places.places(options)
    _check_stopped(where.root)
    try:
        with open(options.file, "rb") as source:
            restored = restore(source.read, where.root, where.etc)
    except WorldError as error:
        raise Failure(f"nothing was restored: {error}") from error
    for fault in restored.faults:
        note(f"as it was when it was backed up: {fault}")
    for name in restored.without_place:
        note(
            f"not restored: {name}, as nothing says where it belongs; --tokens, --state-dir and --config do, or the environment"
        )
    for name, path in restored.places.items():
        line(f"{name}: {path}")
    line(f"{where.root}: {restored.documents} documents, {restored.versions} versions")
    return Exit.FAILED if restored.faults else Exit.DONE


def _check_stopped(root: str) -> None:
    try:
        running.server_of(root)
    except Failure as failure:
        if failure.code == Exit.UNREACHABLE:
            return
    raise Failure(f"a server of {root} is running; stop it first (systemctl stop demarkus-appliance)")


COMMAND = Command(
    name="restore",
    summary="put a backup into an empty content directory, with the tokens, certificate and settings that are in it",
    examples=(
        "restore /media/stick/board.tar",
        "restore board.tar --root /srv/world --tokens /etc/demarkus/tokens.toml",
    ),
    arguments=arguments,
    run=run,
    notes="The content directory must not exist or be empty, and nothing else is overwritten either: on a board whose server has run already, stop it and "
    "remove its new certificate (/var/lib/demarkus-appliance/certificate.pem) and tokens first. Every chain is checked before anything shows; a damaged "
    "file restores nothing, and neither does one that is interrupted: run it again. Exit code 1 also if a document is restored with a fault that it had.",
)
