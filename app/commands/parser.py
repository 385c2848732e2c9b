"""How a subcommand is described, and the parser that shows it: help starts with two examples.

argparse does the parsing. What is added: examples first, the shape of `--json` and notes last, no abbreviated options (a script must not
change its meaning when an option is added), and help that is put together only when somebody asks for it.
"""

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from app.commands.outcomes import MEANINGS

PROGRAM = "demarkus-appliance"


_GROUPS = {"token": "mint, list and revoke the tokens of a server"}


class Command(NamedTuple):
    """One subcommand. A `name` of two words is a subcommand of a subcommand; `shape` names its `--json` document in shapes.py."""

    name: str
    summary: str
    examples: tuple[str, str]
    run: Callable[[argparse.Namespace], int]
    arguments: Callable[[argparse.ArgumentParser], None] | None = None
    shape: str = ""
    notes: str = ""


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose help begins with examples and ends with `ending()`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.examples: tuple[str, ...] = ()
        self.ending: Callable[[], str] = lambda: ""

    def format_help(self) -> str:
        """The text of `--help`."""
        shown = "".join(f"  {PROGRAM} {example}\n" for example in self.examples)
        ending = self.ending()
        return f"Examples:\n{shown}\n{super().format_help()}" + (f"\n{ending}\n" if ending else "")


def command_parser(commands: tuple[Command, ...]) -> Parser:
    """The parser of the whole program; the namespace it gives holds the chosen `Command` as `command`."""
    parser = Parser(
        prog=PROGRAM, description="A Mark Protocol server for small boards, its tools and its client."
    )
    parser.examples = (
        "serve --root /srv/world --tokens /etc/demarkus/tokens.toml",
        "lookup mark://board.local/ --query 'pump seal'",
    )
    parser.ending = exit_codes
    parser.add_argument("--version", action="store_true", help="print the versions in use and exit")
    parser.add_argument("--debug", action="store_true", default=False, help="show the traceback of an error")
    subparsers = parser.add_subparsers(metavar="COMMAND", title="commands", parser_class=Parser)
    groups: dict[str, Any] = {}
    for command in commands:
        group, _, name = command.name.rpartition(" ")
        if group and group not in groups:
            groups[group] = _group(subparsers, group)
        child = (groups[group] if group else subparsers).add_parser(
            name, help=command.summary, description=_sentence(command.summary)
        )
        child.examples = command.examples
        child.ending = _ending(command)
        if command.arguments is not None:
            command.arguments(child)
        child.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help="show the traceback of an error"
        )
        child.set_defaults(command=command)
    return parser


def _group(subparsers: Any, name: str) -> Any:
    parser = subparsers.add_parser(name, help=_GROUPS[name], description=_sentence(_GROUPS[name]))
    parser.examples = (f"{name} generate --help", f"{name} list --help")
    return parser.add_subparsers(metavar="COMMAND", title="commands", parser_class=Parser, required=True)


def _ending(command: Command) -> Callable[[], str]:
    def text() -> str:
        parts = [command.notes] if command.notes else []
        if command.shape:
            from app.commands import shapes

            parts.append(f"--json prints one object:\n{shapes.describe(command.shape)}")
        return "\n\n".join(parts)

    return text


def exit_codes() -> str:
    """The list of exit codes, for help and manual."""
    return "Exit codes:\n" + "\n".join(f"  {code.value:<4} {meaning}" for code, meaning in MEANINGS.items())


def _sentence(summary: str) -> str:
    return summary[:1].upper() + summary[1:] + "."
