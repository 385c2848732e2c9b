"""`help`: the manual inside the program: its pages, one of them, or the sections that answer a question. No server, no network."""

import argparse
from typing import TYPE_CHECKING

from app.commands.mapping import show_overview
from app.commands.outcomes import Exit, Failure
from app.commands.parser import PROGRAM, Command
from app.commands.remote import self_command
from app.commands.terminal import answer, entry, note

if TYPE_CHECKING:
    from app.agents.pages import Pages


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        metavar="WORD",
        nargs="*",
        help="the question, in your own words; /page.md or /page.md#section as the first word is the page to print or to search",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    from app.agents.overview import overview
    from app.agents.pages import manual
    from app.commands.found import Found, show
    from app.protocol.fault import Fault

    pages = manual()
    words: list[str] = options.words
    place, _, anchor = (words.pop(0) if _begins_with_page(words, pages) else "/").partition("#")
    path = pages.named(place)
    if path is None:
        near = pages.similar(place)
        perhaps = f"; perhaps {' or '.join(near)}" if near else ""
        raise Failure(
            f"the manual has no page {place}{perhaps}; `{PROGRAM} help` alone lists them",
            Exit.NOT_FOUND,
        )
    if words:
        task = " ".join(words)
        try:
            found = pages.task(task, path)
        except Fault as fault:
            raise Failure(f"{fault.status}: {fault.message}") from fault
        show(Found.of_answer(task, path, found), json=options.json)
        if found.rows and not options.json:
            row = found.rows[0]
            note(f"read one: {self_command()} help '{row.path}{'#' if row.anchor else ''}{row.anchor}'")
    elif pages.is_page(path):
        text = pages.text(path, anchor)
        if text is None:
            raise Failure(f"the page {path} has no section #{anchor}", Exit.NOT_FOUND)
        answer(text)
    elif options.json:
        show_overview(overview(path, pages.rows(), pages.sections if path == "/" else None), json=True)
    else:
        for row in sorted(pages.rows(), key=lambda row: row.path):
            if row.path.startswith(path.rstrip("/") + "/"):
                entry(row.path, f"  {row.title}")
        program = self_command()
        note(f"a page: {program} help /start.md; a question: {program} help 'who may write?'")
    return Exit.DONE


def _begins_with_page(words: list[str], pages: "Pages") -> bool:
    """Whether the first word names a page: /page, or page.md if that is one or stands alone."""
    name = words[0].partition("#")[0] if words else ""
    if name.startswith("/"):
        return True
    return name.endswith(".md") and " " not in name and (len(words) == 1 or pages.named(name) is not None)


COMMAND = Command(
    name="help",
    summary="ask the manual inside the program",
    examples=("help how do I give somebody the right to publish", "help /tokens.md"),
    arguments=arguments,
    run=run,
    shape="map",
    notes="The shape below is that of the list of pages; with a question it is that of `lookup --match task`.",
)
