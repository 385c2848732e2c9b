"""`map`: what a world holds, or the sections in it that cover a task.

With an address a server is asked; with `--root` a world's folder is opened here, for reading, and its index built for this one question. A single
document as the scope, which the protocol does not know, is fetched and searched here (task §1).
"""

import argparse
from typing import TYPE_CHECKING

from app.commands import remote
from app.commands.outcomes import Exit, Failure
from app.commands.parser import Command
from app.commands.terminal import answer, line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from app.agents.overview import Overview
    from app.client.client import Client
    from app.commands.found import Found
    from app.protocol.answer import Response
    from app.protocol.tables import LookupRow
    from app.world.world import World


class _NotDone(Exception):
    """A request of several whose answer is no success."""

    def __init__(self, response: "Response") -> None:
        super().__init__(response.status)
        self.response = response


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        metavar="WORD",
        nargs="*",
        help="mark://host[:port]/ of a world, a folder or a document; then the task, in your own words",
    )
    parser.add_argument(
        "--root",
        metavar="DIR",
        help="a world's folder instead of an address; /path as the first word is the scope",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    remote.access(parser)


def run(options: argparse.Namespace) -> int:
    from app.commands.found import Found, show

    words: list[str] = options.words
    if options.root is not None:
        return _local(options, words)
    if not words or "://" not in words[0]:
        raise Failure("map needs the address of a world first, mark://host/, or --root DIR", Exit.USAGE)
    whom = remote.target(options, words[0])
    task = " ".join(words[1:])
    if not task:
        return _survey(options, whom)
    path = whom.address.path
    if path.endswith(".md"):
        response = remote.converse(whom, lambda client: client.fetch(path))
        code = remote.report(response, False, "FETCH", whom)
        if code is Exit.DONE:
            show(_in_one(path, response, task), json=options.json)
        return code
    response = remote.converse(whom, lambda client: client.task(path, task))
    code = remote.report(response, False, "LOOKUP", whom)
    if code is Exit.DONE:
        show(Found.of_response(task, path, response), json=options.json)
    return code


def _survey(options: argparse.Namespace, whom: remote.Target) -> int:
    from app.agents.overview import overview
    from app.agents.survey import documents
    from app.protocol.paths import canonical

    async def ask_all(client: "Client") -> "list[LookupRow] | Response":
        async def ask(request: "Callable[[Client], Awaitable[Response]]") -> "Response":
            response = await request(client)
            if response.status != "ok":
                raise _NotDone(response)
            return response

        try:
            return await documents(ask, whom.address.path)
        except _NotDone as refused:
            return refused.response

    rows = remote.converse(whom, ask_all)
    if not isinstance(rows, list):
        return remote.report(rows, False, "LOOKUP", whom)
    show_overview(overview(canonical(whom.address.path), rows, None), json=options.json)
    return Exit.DONE


def _in_one(path: str, response: "Response", task: str) -> "Found":
    """The task in one document."""
    from app.agents.pages import Page, Pages
    from app.commands.found import Found
    from app.protocol.fault import Fault
    from app.protocol.paths import canonical
    from app.protocol.publisher import readable

    place = canonical(path)
    try:
        found = Pages([Page(place, readable(response.metadata), response.body)]).task(task, place)
    except Fault as fault:
        raise Failure(f"{fault.status}: {fault.message}") from fault
    return Found.of_answer(task, place, found)


def _local(options: argparse.Namespace, words: list[str]) -> int:
    from app.agents.overview import overview
    from app.agents.pages import Everybody
    from app.commands.found import Found, show
    from app.protocol.fault import Fault
    from app.search.query import Query, task_query
    from app.world.world import World

    world = World.open(options.root, log=lambda *_, **__: None, read_only=True)
    try:
        scope, words = _scope(world, words)
        is_document = world.catalog.get(scope) is not None
        if not words:
            if is_document:
                raise Failure(f"{scope} is a document: give a task to look for in it", Exit.USAGE)
            rows = world.catalog.lookup(
                Query("/", "*", ("*",), limit=max(len(world.catalog), 1)), Everybody.may_read
            )
            show_overview(
                overview(scope, rows, world.figures.sections if scope == "/" else None), json=options.json
            )
            return Exit.DONE
        task = " ".join(words)
        try:
            query = task_query(task, scope, document=scope if is_document else "")
        except Fault as fault:
            raise Failure(f"{fault.status}: {fault.message}") from fault
        show(Found.of_answer(task, scope, world.task(query, Everybody())), json=options.json)
        return Exit.DONE
    finally:
        world.close()


def _scope(world: "World", words: list[str]) -> tuple[str, list[str]]:
    """The scope that the first word names, if it is a path that leads somewhere in this world; and the other words."""
    from app.protocol.paths import canonical

    if words and words[0].startswith("/"):
        path = canonical(words[0])
        if world.catalog.get(path) is not None or next(world.catalog.paths(path), None) is not None:
            return path, words[1:]
        if len(words) == 1:
            raise Failure(f"there is no folder or document {path}", Exit.NOT_FOUND)
    return "/", words


def show_overview(found: "Overview", *, json: bool) -> None:
    """Prints an overview as text or as one JSON object."""
    if not json:
        from app.agents.overview import text_lines

        for text in text_lines(found):
            line(text)
        return
    from app.commands import shapes

    document = shapes.Map(
        scope=found.scope,
        documents=found.documents,
        sections=found.sections,
        folders=[shapes.Folder(one.path, one.title or None, one.documents) for one in found.folders],
        important=[
            shapes.Important(row.path, row.title, row.importance, list(row.tags)) for row in found.important
        ],
    )
    answer(shapes.encode(document))


COMMAND = Command(
    name="map",
    summary="show what a world holds, or the sections in it that cover a task",
    examples=(
        "map mark://board.local/",
        "map mark://board.local/guide/ 'drain the bilge and replace the pump seal'",
    ),
    arguments=arguments,
    run=run,
    shape="map",
    notes="The shape below is that of an overview; with a task it is that of `lookup --match task`.",
)
