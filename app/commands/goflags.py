"""Flags in the manner of the reference programs: `-x v`, `-x=v`, `--x v` (operations §1, §7, §9).

A switch takes no separate value (`-v`, `-v=false`). `--` ends the flags. Unlike there, flags may also follow the arguments, which
no existing script can tell.
"""

from collections.abc import Sequence
from typing import NamedTuple

_TRUE = {"1", "t", "T", "true", "TRUE", "True"}
_FALSE = {"0", "f", "F", "false", "FALSE", "False"}


class Flag(NamedTuple):
    """One flag. Without `value`, the placeholder shown in the usage, it is a switch; `repeats` keeps every value."""

    name: str
    meaning: str
    value: str = ""
    repeats: bool = False


class BadFlag(ValueError):
    """A command line that cannot be read; the text is what the reference's parser says."""


class HelpWanted(Exception):
    """`-h` or `-help` was given."""


class Given:
    """The flags and arguments of one command line."""

    def __init__(self, flags: dict[str, list[str]], arguments: list[str]) -> None:
        self._flags = flags
        self.arguments = arguments

    def text(self, name: str, default: str = "") -> str:
        """The last value given."""
        return self._flags.get(name, [default])[-1]

    def texts(self, name: str) -> list[str]:
        """All values of a flag that repeats."""
        return self._flags.get(name, [])

    def on(self, name: str) -> bool:
        """Whether a switch is on."""
        return self.text(name) in _TRUE

    def number(self, name: str) -> int | None:
        """A whole number of 0 or more; None when the flag is absent. Raises `BadFlag`."""
        text = self._flags.get(name, [None])[-1]
        if text is None:
            return None
        if not text.isascii() or not text.isdigit():
            raise BadFlag(f'invalid value "{text}" for flag -{name}: parse error')
        return int(text)

    def __contains__(self, name: str) -> bool:
        return name in self._flags


def parse(flags: Sequence[Flag], line: Sequence[str]) -> Given:
    """Reads a command line. Raises `BadFlag`, `HelpWanted`."""
    known = {flag.name: flag for flag in flags}
    found: dict[str, list[str]] = {}
    arguments: list[str] = []
    waiting = list(reversed(line))
    while waiting:
        word = waiting.pop()
        if word == "--":
            arguments += reversed(waiting)
            break
        if not word.startswith("-") or word == "-":
            arguments.append(word)
            continue
        name, equals, value = word[2 if word.startswith("--") else 1 :].partition("=")
        if not name or name.startswith("-"):
            raise BadFlag(f"bad flag syntax: {word}")
        if name not in known and name in {"h", "help"}:
            raise HelpWanted
        if name not in known:
            raise BadFlag(f"flag provided but not defined: -{name}")
        if not known[name].value:
            value = value if equals else "true"
            if value not in _TRUE | _FALSE:
                raise BadFlag(f'invalid boolean value "{value}" for -{name}: parse error')
        elif not equals:
            if not waiting:
                raise BadFlag(f"flag needs an argument: -{name}")
            value = waiting.pop()
        found.setdefault(name, []).append(value)
    return Given(found, arguments)


def usage(head: str, flags: Sequence[Flag]) -> str:
    """The usage text of a program or subcommand."""
    lines = [f"  -{flag.name} {flag.value}".ljust(24) + flag.meaning for flag in flags]
    return "\n".join([head, *lines]) + "\n"
