"""`reload`: what SIGHUP does, waiting for the outcome and giving it as the exit code."""

import argparse

from app.commands import running
from app.commands.outcomes import Exit
from app.commands.parser import Command
from app.commands.terminal import answer, line, note


def run(options: argparse.Namespace) -> int:
    import msgspec

    from app.commands import shapes
    from app.server.runtime import Ask

    place, _ = running.server_of(options.root, options.runtime_dir)
    outcome = msgspec.convert(running.ask_for(place, Ask("reload")), shapes.Reload)
    if options.json:
        answer(shapes.encode(outcome))
    else:
        counts = {
            "added": outcome.added,
            "replaced": outcome.replaced,
            "archived": outcome.archived,
            "unarchived": outcome.unarchived,
            "gone": outcome.gone,
        }
        said = (
            ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "no document changed"
        )
        if "content" not in outcome.failed:
            line(f"content: {said}, {outcome.read_bytes} bytes read in {outcome.milliseconds} ms")
        for part, why in outcome.failed.items():
            note(f"{part}: {why}; what was in force stays")
    return Exit.DONE if outcome.ok else Exit.FAILED


COMMAND = Command(
    name="reload",
    summary="let the server read certificate, tokens and content again, and wait for the outcome",
    examples=("reload", "reload --root /srv/world --json"),
    arguments=running.arguments,
    run=run,
    shape="reload",
    notes="The exit code is the outcome: 0 if all that was to be read could be, 1 if something stays as it was.",
)
