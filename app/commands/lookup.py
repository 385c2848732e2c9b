"""`lookup`: the documents, or sections, that match a query, best first."""

import argparse
from typing import TYPE_CHECKING

from app.commands import remote
from app.commands.outcomes import Exit
from app.commands.parser import Command, whole
from app.commands.terminal import answer, entry, note

if TYPE_CHECKING:
    from app.protocol.message import Response
    from app.protocol.tables import LookupRow


def arguments(parser: argparse.ArgumentParser) -> None:
    remote.arguments(parser, "mark://host[:port]/ or the directory to search")
    parser.add_argument("--query", metavar="WORDS", required=True, help="what to look for; * for everything")
    parser.add_argument(
        "--match",
        choices=("catalog", "body", "task"),
        help="titles and tags (the default), the text of sections, or a task in your own words",
    )
    parser.add_argument(
        "--filter", metavar="K=V[,K=V]", help="only documents with this metadata, such as type=Guide"
    )
    parser.add_argument(
        "--limit", metavar="N", type=whole(1, 1000), help="at most N rows (10; up to 1000; for a task 5)"
    )


def run(options: argparse.Namespace) -> int:
    from app.protocol.limits import LOOKUP_LIMIT_DEFAULT
    from app.protocol.tables import parse_lookup_body

    whom = remote.target(options)
    if options.match == "task":
        return _task(options, whom)
    response = remote.converse(
        whom,
        lambda client: client.lookup(
            whom.address.path, options.query, filters=options.filter, limit=options.limit, match=options.match
        ),
    )
    code = remote.report(response, options.verbose, "LOOKUP", whom)
    rows = parse_lookup_body(response.body) if code is Exit.DONE else []
    if options.json:
        _print(options, whom, response, rows)
        return code
    for row in rows:
        _show(row)
    if code is Exit.DONE and options.match == "body" and response.metadata.get("match") != "body":
        note("this server has searched titles and tags only, not the text")
    # The server counts the rows it sends (lookup §9): whether there are more is known to nobody here.
    if rows and len(rows) >= (options.limit or LOOKUP_LIMIT_DEFAULT):
        note(f"the first {len(rows)}; there may be more (--limit)")
    elif code is Exit.DONE and not rows:
        if response.metadata.get("match") == "body":
            note(_why_nothing(options.query))
        elif options.match == "body" or options.query.strip() == "*":
            note("no matches")
        else:
            note("no matches: only titles and tags were searched; --match body searches the text")
    return code


def _why_nothing(query: str) -> str:
    """What to say when body mode has no rows: a query without any term has none by the contract (lookup §8.2)."""
    from app.search.tokens import body_terms

    if body_terms(query, "wide"):
        return "no matches"
    return "no word of the query can be looked for: words need two letters or digits, and at most 32 bytes"


def _task(options: argparse.Namespace, whom: remote.Target) -> int:
    """The same for a task, which has a form of its own (task §12.3, §12.4)."""
    from app.commands.found import Found, show

    path = whom.address.path
    response = remote.converse(
        whom, lambda client: client.task(path, options.query, filters=options.filter, limit=options.limit)
    )
    code = remote.report(response, options.verbose, "LOOKUP", whom)
    if code is Exit.DONE:
        show(Found.of_response(options.query, path, response), json=options.json)
    elif options.json:
        _print(options, whom, response, [])
    return code


def _print(
    options: argparse.Namespace, whom: remote.Target, response: "Response", rows: "list[LookupRow]"
) -> None:
    """The answer as one JSON object."""
    from app.commands import shapes

    document = shapes.Lookup(
        url=str(whom.address),
        status=response.status,
        message=remote.message_of(response) if response.status != "ok" else None,
        scope=whom.address.path,
        query=options.query,
        match=response.metadata.get("match"),
        matches=remote.number(response.metadata.get("matches")),
        rows=[
            shapes.Row(
                row.path,
                row.anchor or None,
                row.importance,
                row.title,
                list(row.tags),
                row.snippet or None,
            )
            for row in rows
        ],
    )
    answer(shapes.encode(document))


def _show(row: "LookupRow") -> None:
    place = row.path + (f"#{row.anchor}" if row.anchor else "")
    tags = f"  [{', '.join(row.tags)}]" if row.tags else ""
    entry(place, f"  {row.importance:.2f}  {row.title}{tags}")
    if row.snippet:
        entry("", f"    {row.snippet}")


COMMAND = Command(
    name="lookup",
    summary="find documents by title and tags, sections by their text, or what covers a task",
    examples=(
        "lookup mark://board.local/ --query 'pump seal'",
        "lookup mark://board.local/docs/ --query '*' --filter type=Guide --limit 50 --json",
    ),
    arguments=arguments,
    run=run,
    shape="lookup",
    notes="With --match task the shape is that of `task` in the manual's page on JSON output.",
)
