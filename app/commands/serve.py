"""`serve`, and the same server under its older name `demarkus-server` (operations §1)."""

import os
import signal
import sys

from app.commands.outcomes import Exit
from app.commands.parser import PROGRAM, Command
from app.commands.terminal import note

_EXAMPLES = (
    "--root /srv/world --tokens /etc/demarkus/tokens.toml",
    "--root ./world --port 6310 --listen 127.0.0.1",
)


def run(program: str, line: list[str]) -> int:
    """Serves until a signal ends it. The settings table has its own parser, which takes Go's single-dash flags too."""
    from app.server.settings import BadSetting, flag_values, from_command_line, help_text

    older = program != PROGRAM
    called = program if older else f"{program} serve"
    words = {word.lstrip("-") for word in line if word.startswith("-")}
    if words & {"h", "help"}:
        shown = "".join(f"  {called} {example}\n" for example in _EXAMPLES)
        sys.stdout.write(f"Examples:\n{shown}\nusage: {called} [flags]\n\n{help_text()}")
        return Exit.DONE
    if older and "version" in words:
        from app import __version__

        print(f"{program} {__version__} ({PROGRAM})")
        return Exit.DONE
    try:
        flag_values(line)
    except BadSetting as error:
        note(f"{called}: {error}")
        return Exit.USAGE
    try:
        settings = from_command_line(line, os.environ)
    except BadSetting as error:
        note(f"{called}: {error}")
        return Exit.FAILED
    # The modules below take a while to load; a reload asked for meanwhile is done by the start itself.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from app.server.serve import run as serve

    return serve(settings)


# For the list of commands only: the program hands `serve` its arguments unparsed.
COMMAND = Command(
    name="serve",
    summary="serve a world",
    examples=(f"serve {_EXAMPLES[0]}", f"serve {_EXAMPLES[1]}"),
    run=lambda _: run(PROGRAM, []),
)
