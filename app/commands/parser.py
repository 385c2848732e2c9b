"""How a subcommand is described, and the parser that shows it: help starts with two examples.

argparse does the parsing. What is added: examples first, the shape of `--json` and notes last, no abbreviated options (a script must not
change its meaning when an option is added), an unknown command told with what comes near it and an unknown option with the usage of its
command, a FILE that may stand behind options, and help that is put together only when somebody asks for it.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
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

    _optional = ""
    _several = ""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.examples: tuple[str, ...] = ()
        self.ending: Callable[[], str] = lambda: ""
        self.commands: set[str] = set()
        """The subcommands, if what is parsed here begins with one."""
        self.fill: Callable[[], None] | None = None
        """Adds the arguments, once they are needed: argparse takes longer over those of all commands than most commands do."""

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        """As argparse does it; an argument that may be missing, or of which there may be any number, is remembered.

        argparse gives that up once another argument stands before an option: `put URL --force FILE` would be refused, and so would
        `map URL --insecure WORD`.
        """
        action = super().add_argument(*names, **settings)
        if not action.option_strings and action.nargs == "?":
            self._optional = action.dest
        elif not action.option_strings and action.nargs == "*":
            self._several = action.dest
        return action

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """As argparse does it, but what is not known is an error here, where the right usage can be shown.

        argparse calls this for the arguments of every subcommand.
        """
        self.complete()
        words = sys.argv[1:] if args is None else list(args)
        command = next((word for word in words if not word.startswith("-")), None)
        if self.commands and command is not None and command not in self.commands:
            import difflib

            near = difflib.get_close_matches(command, self.commands, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            self.error(f"unknown command {command!r}{meant} (--help lists them all)")
        found, unknown = super().parse_known_args(words, namespace)
        is_word = len(unknown) == 1 and (unknown[0] == "-" or not unknown[0].startswith("-"))
        if is_word and self._optional and getattr(found, self._optional) is None:
            setattr(found, self._optional, unknown.pop())
        elif self._several and not any(word.startswith("-") and " " not in word for word in unknown):
            setattr(found, self._several, [*getattr(found, self._several), *unknown])
            unknown = []
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def complete(self) -> None:
        """Adds the arguments, if that was put off."""
        if self.fill is not None:
            self.fill()
            self.fill = None

    def format_help(self) -> str:
        """The text of `--help`."""
        self.complete()
        shown = "".join(f"  {PROGRAM} {example}\n" for example in self.examples)
        ending = self.ending()
        return f"Examples:\n{shown}\n{super().format_help()}" + (f"\n{ending}\n" if ending else "")


def command_parser(commands: tuple[Command, ...], *, lazy: bool = False) -> Parser:
    """The parser of the whole program; the namespace it gives holds the chosen `Command` as `command`.

    A `lazy` one has the arguments of a command from when it parses them or shows its help.
    """
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
    subparsers = parser.add_subparsers(prog=PROGRAM, metavar="COMMAND", title="commands", parser_class=Parser)
    groups: dict[str, Any] = {}
    for command in commands:
        group, _, name = command.name.rpartition(" ")
        parser.commands.add(group or name)
        if group and group not in groups:
            groups[group] = _group(
                subparsers, group, [one.name for one in commands if one.name.startswith(f"{group} ")]
            )
        child = (groups[group] if group else subparsers).add_parser(
            name, help=command.summary, description=_sentence(command.summary)
        )
        child.examples = command.examples
        child.ending = _ending(command)
        child.fill = partial(_fill, child, command)
        if not lazy:
            child.complete()
        child.set_defaults(command=command)
    return parser


def _fill(parser: Parser, command: Command) -> None:
    if command.arguments is not None:
        command.arguments(parser)
    parser.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show the traceback of an error"
    )


def _group(subparsers: Any, name: str, commands: Iterable[str]) -> Any:
    parser = subparsers.add_parser(name, help=_GROUPS[name], description=_sentence(_GROUPS[name]))
    parser.examples = (f"{name} generate --help", f"{name} list --help")
    parser.commands = {command.rpartition(" ")[2] for command in commands}
    return parser.add_subparsers(metavar="COMMAND", title="commands", parser_class=Parser, required=True)


def _ending(command: Command) -> Callable[[], str]:
    def text() -> str:
        parts = [command.notes] if command.notes else []
        if command.shape:
            from app.commands import shapes

            parts.append(f"--json prints one object:\n{shapes.describe(command.shape)}")
        return "\n\n".join(parts)

    return text


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of an option that takes a whole number within these bounds."""

    def number(text: str) -> int:
        digits = text.isascii() and text.isdigit() and len(text) <= 18
        if not digits or not least <= int(text) <= (most or int(text)):
            span = f"from {least} to {most}" if most else f"of {least} or more"
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number {span}")
        return int(text)

    return number


def exit_codes() -> str:
    """The list of exit codes, for help and manual."""
    return "Exit codes:\n" + "\n".join(f"  {code.value:<4} {meaning}" for code, meaning in MEANINGS.items())


def _sentence(summary: str) -> str:
    return summary[:1].upper() + summary[1:] + "."
