"""`list`: the entries of a directory, one per line. Follows the pages to the end unless one page is asked for."""

import argparse
from typing import TYPE_CHECKING

from app.commands import remote
from app.commands.outcomes import Exit, Failure
from app.commands.parser import Command, whole
from app.commands.terminal import answer, note

if TYPE_CHECKING:
    from app.client.client import Client
    from app.protocol.message import Response


_PAGES_MAX = 10_000


def arguments(parser: argparse.ArgumentParser) -> None:
    remote.arguments(parser, "mark://host[:port]/directory/")
    parser.add_argument("--include-archived", action="store_true", help="archived documents too")
    parser.add_argument(
        "--page-size",
        metavar="N",
        type=whole(1, 1000),
        help="one page of at most N entries (1-1000) instead of all",
    )
    parser.add_argument("--cursor", metavar="CURSOR", help="one page, from where another one ended")


def run(options: argparse.Namespace) -> int:
    from app.protocol.paths import sort_key
    from app.protocol.tables import parse_listing

    whom = remote.target(options)
    one_page = options.page_size is not None or options.cursor is not None

    async def pages(client: "Client") -> list["Response"]:
        answers: list[Response] = []
        cursor, reached = options.cursor, b""
        while True:
            page = await client.list(
                whom.address.path,
                include_archived=options.include_archived,
                cursor=cursor,
                page_size=options.page_size,
            )
            answers.append(page)
            following = page.metadata.get("next-cursor")
            if page.status != "ok" or one_page or not following:
                return answers
            names = parse_listing(page.body)
            last = sort_key(names[-1].removesuffix("/")) if names else b""
            # A server whose pages lead nowhere would keep us here for ever.
            if last <= reached or len(answers) >= _PAGES_MAX:
                raise Failure(f"the listing does not come to an end: page {len(answers)} leads nowhere")
            cursor, reached = following, last

    answers = remote.converse(whom, pages)
    last = answers[-1]
    code = remote.report(last, options.verbose, "LIST", whom)
    names = [name for page in answers if page.status == "ok" for name in parse_listing(page.body)]
    if options.json:
        from app.commands import shapes

        document = shapes.List(
            url=str(whom.address),
            status=last.status,
            message=None if code is Exit.DONE else remote.message_of(last),
            path=whom.address.path,
            entries=[shapes.Entry(name.removesuffix("/"), name.endswith("/")) for name in names],
            complete={"true": True, "false": False}.get(last.metadata.get("complete", "")),
            next_cursor=last.metadata.get("next-cursor"),
        )
        answer(shapes.encode(document))
        return code
    answer("".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape"))
    if code is Exit.DONE and last.metadata.get("next-cursor"):
        note(f"more follows: --cursor {last.metadata['next-cursor']}")
    return code


COMMAND = Command(
    name="list",
    summary="print the names in a directory, one per line, directories with a slash",
    examples=("list mark://board.local/", "list mark://board.local/docs/ --json"),
    arguments=arguments,
    run=run,
    shape="list",
)
