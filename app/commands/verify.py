"""`verify`: checks every chain, pointer and sidecar of a content directory. Reads only; may run beside a server."""

import argparse

from app.commands.outcomes import Exit, Failure
from app.commands.parser import Command
from app.commands.publish import root_of
from app.commands.terminal import answer, line, note


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root", metavar="DIR", default=None, help="the content directory; else $DEMARKUS_ROOT"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    from app.world.errors import WorldError
    from app.world.verify import verify

    root = root_of(options.root)
    faults: list[str] = []
    try:
        for fault in verify(root):
            faults.append(fault)
            if not options.json:
                line(fault)
    except WorldError as error:
        raise Failure(str(error)) from error
    if options.json:
        from app.commands import shapes

        answer(shapes.encode(shapes.Verify(root, not faults, faults)))
    elif faults:
        note(f"{len(faults)} fault{'s' if len(faults) > 1 else ''} in {root}")
    else:
        note(f"{root} is sound")
    return Exit.FAILED if faults else Exit.DONE


COMMAND = Command(
    name="verify",
    summary="check every hash chain, pointer and archive state of a content directory, and name each fault",
    examples=("verify --root /srv/world", "verify --root /srv/world --json"),
    arguments=arguments,
    run=run,
    shape="verify",
    notes="Exit code 1 if there is any fault; the faults are on stdout, one per line.",
)
