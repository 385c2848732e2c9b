"""Writes what a shell and `man` know about the program, all of it read from the program's own parser and settings table.

    PYTHONPATH=. python deploy/deb/pages.py DIRECTORY

gives `demarkus-appliance.8`, `demarkus-appliance.bash`, `_demarkus-appliance` (zsh), `demarkus-appliance.fish`, `settings`, the example
configuration with every line commented out, and `changelog`, CHANGELOG.md as Debian wants it. Nothing here is written by hand twice.
"""

import argparse
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator
from email.utils import formatdate
from typing import NamedTuple

from app import __version__
from app.commands.parser import PROGRAM, Parser, exit_codes
from app.commands.program import own_parser
from app.server.settings import CONFIG_FLAG, TABLE

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAINTAINER = "demarkus-appliance maintainers <noreply@demarkus-appliance.invalid>"
"""Debian demands an address; the project has none, and this one cannot ever be somebody else's (RFC 2606)."""


class Option(NamedTuple):
    """One option as every page needs it; `value` is its placeholder, empty for a switch."""

    names: tuple[str, ...]
    value: str
    meaning: str


class Page(NamedTuple):
    """One subcommand; `name` is one word, or two for a subcommand of a subcommand."""

    name: str
    summary: str
    examples: tuple[str, ...]
    arguments: tuple[str, ...]
    options: tuple[Option, ...]


def pages(parser: Parser) -> Iterator[Page]:
    """Every subcommand, in the order of `--help`."""
    for name, child in _children(parser):
        nested = list(_children(child))
        for inner, grandchild in nested:
            yield _page(f"{name} {inner}", grandchild)
        if not nested:
            yield _page(name, child)


def _children(parser: argparse.ArgumentParser) -> Iterator[tuple[str, Parser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _page(name: str, parser: Parser) -> Page:
    arguments = tuple(
        str(action.metavar or action.dest) for action in parser._actions if not action.option_strings
    )
    options = tuple(
        Option(
            tuple(action.option_strings),
            "" if action.nargs == 0 else str(action.metavar or action.dest.upper()),
            (action.help or "").replace("%%", "%"),
        )
        for action in parser._actions
        if action.option_strings
    )
    if name == "serve":  # it has a parser of its own, which is the settings table
        options = (
            *(Option((f"--{one.flag}",), one.value, one.meaning) for one in TABLE if one.flag),
            Option((f"--{CONFIG_FLAG}",), "FILE", "settings file: NAME=VALUE lines, names as below"),
            Option(("--help",), "", "show this help message and exit"),
        )
    return Page(name, parser.description or "", parser.examples, arguments, options)


# The manual page.


def manual(parser: Parser) -> str:
    """The page in roff's man macros."""
    out = [
        f'.TH DEMARKUS-APPLIANCE 8 "" "{PROGRAM} {__version__}" "System administration"',
        ".SH NAME",
        rf"{_roff(PROGRAM)} \- serve versioned markdown over QUIC, and the tools for it",
        ".SH SYNOPSIS",
        rf".B {_roff(PROGRAM)}",
        r".I COMMAND \fR[\fIargument\fR ...]",
        ".SH DESCRIPTION",
        _roff(parser.description or ""),
        r"Called as \fBdemarkus\-server\fR, \fBdemarkus\-token\fR or \fBdemarkus\-publish\fR it takes the command lines of these programs.",
        ".SH COMMANDS",
    ]
    for page in pages(parser):
        shown = " ".join([page.name, *(argument for argument in page.arguments)])
        out += [f".SS {_roff(shown)}", _roff(page.summary)]
        for option in page.options:
            names = ", ".join(rf"\fB{_roff(name)}\fR" for name in option.names)
            value = rf" \fI{_roff(option.value)}\fR" if option.value else ""
            out += [".TP", names + value, _roff(option.meaning or "")]
        if page.examples:
            out += [
                ".PP",
                "Examples:",
                ".nf",
                *(_roff(f"    {PROGRAM} {one}") for one in page.examples),
                ".fi",
            ]
    out += [".SH ENVIRONMENT", "The server's settings, from the environment or the settings file:"]
    for setting in TABLE:
        if setting.variable:
            default = f" Default: {setting.default}." if setting.default else ""
            out += [".TP", rf"\fB{_roff(setting.variable)}\fR", _roff(f"{setting.meaning}.{default}")]
    out += [
        ".SH FILES",
        ".TP",
        r"\fI/etc/demarkus\-appliance/settings\fR",
        "Settings of the service.",
        ".TP",
        r"\fI/var/lib/demarkus\-appliance\fR",
        r"The documents (\fIworld\fR), the tokens, the certificate.",
        ".SH SIGNALS",
        "SIGHUP reloads; SIGTERM and SIGINT finish the running requests and stop.",
        ".SH EXIT STATUS",
        ".nf",
        *(_roff(line) for line in exit_codes().splitlines()[1:]),
        ".fi",
        ".SH SEE ALSO",
        r".BR systemctl (1)",
    ]
    return "\n".join(out) + "\n"


def _roff(text: str) -> str:
    plain = text.replace("\\", r"\e").replace("-", r"\-").replace("\n", " ")
    return rf"\&{plain}" if plain[:1] in (".", "'") else plain


# Completions. Where an option or argument is a file, the shell's own completion of file names takes over.


def bash(parser: Parser) -> str:
    """A completion for bash."""
    cases = [f'"{page.name} "*) options={shlex.quote(" ".join(_long(page)))} ;;' for page in pages(parser)]
    cases += [f'"{group} "*) words={shlex.quote(" ".join(inner))} ;;' for group, inner in _groups(parser)]
    cases += [f'" ") words={shlex.quote(" ".join(_first_words(parser)))} options="--version --help" ;;']
    return "\n".join(
        [
            f"# bash completion for {PROGRAM}; made from its parser.",
            "_demarkus_appliance() {",
            "    local cur=${COMP_WORDS[COMP_CWORD]} words= options=",
            '    case "${COMP_WORDS[*]:1:COMP_CWORD-1} " in',
            *(f"        {case}" for case in cases),
            "    esac",
            "    [[ $cur == -* ]] && words=$options",
            '    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")',
            "}",
            f"complete -o default -F _demarkus_appliance {PROGRAM}",
            "",
        ]
    )


def zsh(parser: Parser) -> str:
    """A completion for zsh."""
    cases = []
    for page in pages(parser):
        specifications = " ".join(
            shlex.quote(f"{name}[{_bracketed(option.meaning)}]" + (":value:_files" if option.value else ""))
            for option in page.options
            for name in option.names
            if name.startswith("--")
        )
        words = page.name.count(" ") + 1
        cases.append(
            f'"{page.name} "*) shift {words} words; (( CURRENT -= {words} )); _arguments {specifications} "*:file:_files" ;;'
        )
    cases += [f'"{group} "*) compadd {" ".join(inner)} ;;' for group, inner in _groups(parser)]
    cases += [f'" ") compadd -- {" ".join(_first_words(parser))} --version --help ;;']
    return "\n".join(
        [
            f"#compdef {PROGRAM}",
            f"# zsh completion for {PROGRAM}; made from its parser.",
            'case "${words[2,CURRENT-1]} " in',
            *(f"    {case}" for case in cases),
            "esac",
            "",
        ]
    )


def fish(parser: Parser) -> str:
    """A completion for fish."""
    out = [f"# fish completion for {PROGRAM}; made from its parser."]
    seen = set()
    for page in pages(parser):
        first, _, second = page.name.partition(" ")
        meaning = shlex.quote(page.summary.rstrip("."))
        if first not in seen:
            seen.add(first)
            shown = "" if second else f" -d {meaning}"
            out.append(f"complete -c {PROGRAM} -n __fish_use_subcommand -f -a {first}{shown}")
        condition = f"__fish_seen_subcommand_from {first}"
        if second:
            out.append(
                f"complete -c {PROGRAM} -n '{condition}; and not __fish_seen_subcommand_from {second}' -f -a {second} -d {meaning}"
            )
            condition += f"; and __fish_seen_subcommand_from {second}"
        for option in page.options:
            for name in option.names:
                if name.startswith("--"):
                    needs = " -r" if option.value else ""
                    about = f" -d {shlex.quote(option.meaning)}" if option.meaning else ""
                    out.append(f"complete -c {PROGRAM} -n '{condition}' -l {name[2:]}{needs}{about}")
    return "\n".join(out) + "\n"


def _long(page: Page) -> list[str]:
    return [name for option in page.options for name in option.names if name.startswith("--")]


def _first_words(parser: Parser) -> list[str]:
    return list(dict.fromkeys(page.name.split()[0] for page in pages(parser)))


def _groups(parser: Parser) -> Iterator[tuple[str, list[str]]]:
    """The commands that have commands of their own, each with those."""
    for name, child in _children(parser):
        inner = [nested for nested, _ in _children(child)]
        if inner:
            yield name, inner


def _bracketed(text: str) -> str:
    return text.replace("[", "(").replace("]", ")").replace(":", r"\:")


# The settings file.


def settings(_parser: Parser) -> str:
    """The example configuration."""
    out = [
        "# Settings of the demarkus-appliance service; what is not set here has the default shown, or the service's own value.",
        "# After a change: systemctl restart demarkus-appliance",
    ]
    for setting in TABLE:
        if setting.variable:
            out += [
                "",
                f"# {setting.meaning}",
                f"# ({setting.reason})",
                f"#{setting.variable}={setting.default}",
            ]
    return "\n".join(out) + "\n"


# The changelog.


def changelog(_parser: Parser) -> str:
    """CHANGELOG.md in Debian's form; versions without a date of their own have that of the build (SOURCE_DATE_EPOCH)."""
    with open(os.path.join(PROJECT, "CHANGELOG.md"), encoding="utf-8") as file:
        sections = re.split(r"(?m)^## ", file.read())[1:]
    date = formatdate(int(os.environ.get("SOURCE_DATE_EPOCH", "0")))
    out = []
    for section in sections:
        title, _, text = section.partition("\n")
        entries = "\n\n".join(_wrapped(paragraph) for paragraph in re.split(r"\n\n|\n(?=- )", text.strip()))
        out.append(
            f"{PROGRAM} ({title.split()[0]}) stable; urgency=medium\n\n{entries}\n\n -- {MAINTAINER}  {date}\n"
        )
    return "\n".join(out)


def _wrapped(paragraph: str) -> str:
    item = paragraph.startswith("- ")
    text = " ".join(paragraph.removeprefix("- ").split())
    return textwrap.fill(
        text,
        78,
        initial_indent="  * " if item else "  ",
        subsequent_indent="    " if item else "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


FILES = {
    "demarkus-appliance.8": manual,
    "demarkus-appliance.bash": bash,
    "_demarkus-appliance": zsh,
    "demarkus-appliance.fish": fish,
    "settings": settings,
    "changelog": changelog,
}


def main(directory: str) -> None:
    """Writes all files."""
    parser = own_parser()
    for name, made in FILES.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(made(parser))


if __name__ == "__main__":
    main(sys.argv[1])
