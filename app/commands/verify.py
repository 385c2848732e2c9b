"""`verify`: checks every chain, pointer and sidecar of a content directory. Reads only; may run beside a server.

It says how much it has looked at: "sound" of an empty or mistyped directory would be a false comfort.
"""

import argparse

from app.commands.outcomes import Exit, Failure
from app.commands.parser import Command
from app.commands.publish import root_of
from app.commands.terminal import answer, line, note

_SHOWN = 5  # plain files named; --json names all


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root", metavar="DIR", default=None, help="the content directory; else $DEMARKUS_ROOT"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    from app.world.errors import WorldError
    from app.world.verify import Tally, verify

    root = root_of(options.root)
    faults: list[str] = []
    tally = Tally()
    try:
        for fault in verify(root, tally):
            faults.append(fault)
            if not options.json:
                line(fault)
    except WorldError as error:
        raise Failure(str(error)) from error
    if options.json:
        from app.commands import shapes

        answer(
            shapes.encode(
                shapes.Verify(
                    root, not faults, faults, tally.documents, tally.versions, tally.plain, tally.unfinished
                )
            )
        )
        return Exit.FAILED if faults else Exit.DONE
    if tally.plain:
        more = ", …" if len(tally.plain) > _SHOWN else ""
        note(
            f"no documents, but plain files that no server serves: {', '.join(tally.plain[:_SHOWN])}{more} "
            f"({len(tally.plain)}); `import` makes documents of them"
        )
    for one in tally.unfinished:
        note(one)
    if not tally.documents and not faults:
        note(f"{root} is an empty world: there are no documents in it")
    else:
        looked = f"{_count(tally.documents, 'document')}, {_count(tally.versions, 'version')}"
        note(f"{root}: {looked}: {_count(len(faults), 'fault') if faults else 'sound'}")
    return Exit.FAILED if faults else Exit.DONE


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


COMMAND = Command(
    name="verify",
    summary="check every hash chain, pointer and archive state of a content directory, and name each fault",
    examples=("verify --root /srv/world", "verify --root /srv/world --json"),
    arguments=arguments,
    run=run,
    shape="verify",
    notes="Exit code 1 if there is any fault; the faults are on stdout, one per line. Every version carries the hash of the one before it, so that "
    "a change to any but the newest is found; a change to the newest is found only if it breaks the form of the file.",
)
