"""Started as `demarkus-token`: the reference's command line and texts (operations §7)."""

import sys
from collections.abc import Sequence

from app.commands.goflags import BadFlag, Flag, Given, HelpWanted, parse, usage
from app.commands.outcomes import Exit, Failure
from app.commands.terminal import note
from app.commands.tokens import parts, tell

NAME = "demarkus-token"

_LABEL = Flag("label", "name of the token", "NAME")
_FILE = Flag("tokens", "token file", "FILE")
_COMMANDS = {
    "generate": (
        _LABEL,
        Flag("paths", "path patterns (/*: what lies directly in the root)", '"A,B"'),
        Flag("ops", "operations (publish)", '"A,B"'),
        _FILE,
    ),
    "list": (_FILE,),
    "revoke": (_LABEL, _FILE),
}


def run(words: Sequence[str]) -> int:
    """Runs one command line and gives the exit code."""
    command, rest = (words[0], words[1:]) if words else ("", ())
    flags = _COMMANDS.get(command)
    if flags is None:
        for name, its in _COMMANDS.items():
            sys.stderr.write(usage(f"usage: {NAME} {name} [flags]", its))
        return Exit.DONE if command.lstrip("-") in {"h", "help"} and command[0] == "-" else Exit.FAILED
    try:
        given = parse(flags, rest)
    except HelpWanted:
        sys.stderr.write(usage(f"usage: {NAME} {command} [flags]", flags))
        return Exit.DONE
    except BadFlag as error:
        note(str(error))
        sys.stderr.write(usage(f"usage: {NAME} {command} [flags]", flags))
        return Exit.USAGE
    return _run(command, given)


def _run(command: str, given: Given) -> int:
    from app.world import tokenfile

    file = given.text("tokens")
    if command == "generate":
        label = _required(given, "label")
        return tell(
            tokenfile.generate(
                label, parts(given.text("paths", "/*")), parts(given.text("ops", "publish")), file or None
            )
        )
    if command == "list":
        return tell(tokenfile.list_tokens(_required(given, "tokens")))
    return tell(tokenfile.revoke(_required(given, "label"), _required(given, "tokens")))


def _required(given: Given, name: str) -> str:
    text = given.text(name)
    if not text:
        raise Failure(f"-{name} is required")
    return text
