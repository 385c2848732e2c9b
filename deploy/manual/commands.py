"""The manual's page of commands, read from the program's own parser: what each does, takes and means.

`scripts/manual` writes it; tests/unit/test_manual.py holds that it is current, so that no command or flag is without its place.
"""

from collections.abc import Iterator, Sequence

from app.commands import as_client, as_publish, as_token
from app.commands.goflags import Flag
from app.commands.outcomes import MEANINGS
from app.commands.parser import PROGRAM
from app.commands.program import own_parser
from app.server.settings import TABLE
from deploy.deb.pages import Page, pages

_SETTINGS = "serve"


def commands_page() -> str:
    """The page as markdown."""
    parser = own_parser()
    lines = [
        "# Commands",
        "",
        f"`{PROGRAM} COMMAND --help` shows the same in the terminal. Each command also takes `--help` and `--debug`, which shows the traceback of an "
        "error; the program alone takes `--version`.",
    ]
    for page in pages(parser):
        lines += ["", *_command(page)]
    lines += ["", *_older_names()]
    lines += ["", "## Exit codes", "", "| Code | Meaning |", "|---|---|"]
    lines += [f"| {code.value} | {meaning} |" for code, meaning in MEANINGS.items()]
    lines += [
        "",
        "Which status of a server gives which code stands under [Statuses and exit codes](../protocol/statuses.md).",
    ]
    return "\n".join(lines) + "\n"


def _command(page: Page) -> Iterator[str]:
    yield f"## {page.name}"
    yield ""
    yield page.summary
    yield ""
    yield "```"
    yield from (f"{PROGRAM} {example}" for example in page.examples)
    yield "```"
    yield ""
    if page.arguments:
        yield f"Arguments: {', '.join(f'`{argument}`' for argument in page.arguments)}."
        yield ""
    yield "| Option | Meaning |"
    yield "|---|---|"
    for option in page.options:
        names = ", ".join(f"`{name}`" for name in option.names if name != "-h")
        value = f" `{_cell(option.value)}`" if option.value else ""
        yield f"| {names}{value} | {_cell(option.meaning)} |"
    if page.name == _SETTINGS:
        yield ""
        yield "What each setting is for, and the ones that only the environment has: [Settings](../settings.md)."


def _older_names() -> Iterator[str]:
    """The command lines of the programs that this one stands in for."""
    yield "## Under the older names"
    yield ""
    yield (
        "Started as `demarkus-server`, `demarkus-token`, `demarkus-publish` or `demarkus`, the program takes the flags of that program: `-x v`, `-x=v` "
        "or `--x v`. Exit codes are then 0 and 1, and 2 for a command line that cannot be read."
    )
    server = [Flag(one.flag, one.meaning, one.value) for one in TABLE if one.flag]
    tables: dict[str, Sequence[Flag]] = {
        "demarkus-server": server,
        **{f"{as_token.NAME} {name}": flags for name, flags in as_token._COMMANDS.items()},
        as_publish.NAME: as_publish._FLAGS,
        as_client.NAME: as_client._MAIN,
        f"{as_client.NAME} lookup": as_client._LOOKUP,
    }
    for name, flags in tables.items():
        yield ""
        yield f"### {name}"
        yield ""
        yield "| Flag | Meaning |"
        yield "|---|---|"
        for flag in flags:
            value = f" `{_cell(flag.value)}`" if flag.value else ""
            yield f"| `-{flag.name}`{value} | {_cell(flag.meaning)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
