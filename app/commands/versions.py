"""`versions`: the history of a document, newest first."""

import argparse

from app.commands import remote
from app.commands.outcomes import Exit
from app.commands.parser import Command
from app.commands.terminal import answer, line, note


def run(options: argparse.Namespace) -> int:
    from app.commands import shapes
    from app.protocol.tables import parse_versions, rfc3339

    whom = remote.target(options)
    response = remote.converse(whom, lambda client: client.versions(whom.address.path))
    code = remote.report(response, options.verbose, "VERSIONS", whom)
    keys = response.metadata
    history = [
        shapes.Version(number, rfc3339(modified)) for number, modified in parse_versions(response.body)
    ]
    valid = {"true": True, "false": False}.get(keys.get("chain-valid", ""))
    if options.json:
        document = shapes.Versions(
            url=str(whom.address),
            status=response.status,
            message=None if code is Exit.DONE else remote.message_of(response),
            path=whom.address.path,
            current=remote.number(keys.get("current")),
            total=remote.number(keys.get("total")),
            chain_valid=valid,
            versions=history if code is Exit.DONE else [],
        )
        answer(shapes.encode(document))
        return code
    if code is Exit.DONE:
        for one in history:
            line(f"v{one.version}  {one.modified}")
        if valid is False:
            note("the hash chain of this document is broken: run `verify` on the server")
    return code


COMMAND = Command(
    name="versions",
    summary="print the history of a document: version and time, newest first",
    examples=("versions mark://board.local/docs/pump.md", "versions mark://board.local/docs/pump.md --json"),
    arguments=remote.arguments,
    run=run,
    shape="versions",
)
