"""`outline`: the headings of a document with their anchors and the size of each section, so that the next fetch is a small one."""

import argparse

from app.commands import remote
from app.commands.outcomes import Exit
from app.commands.parser import Command
from app.commands.terminal import answer, line


def run(options: argparse.Namespace) -> int:
    from app.commands import shapes
    from app.markdown.outline import outline

    whom = remote.target(options)
    response = remote.converse(whom, lambda client: client.fetch(whom.address.path))
    code = remote.report(response, options.verbose, "FETCH", whom)
    headings = outline(response.body) if code is Exit.DONE else []
    if options.json:
        document = shapes.Outline(
            url=str(whom.address),
            status=response.status,
            message=None if code is Exit.DONE else remote.message_of(response),
            path=whom.address.path,
            version=remote.number(response.metadata.get("version")),
            bytes=len(response.body) if code is Exit.DONE else None,
            headings=[
                shapes.OutlineHeading(
                    heading.level, heading.text, heading.anchor, heading.end - heading.start
                )
                for heading in headings
            ],
        )
        answer(shapes.encode(document))
        return code
    for heading in headings:
        size = f"{heading.end - heading.start:>8}"
        line(f"{size}  {'  ' * (heading.level - 1)}#{heading.anchor}  {heading.text}")
    return code


COMMAND = Command(
    name="outline",
    summary="print the headings of a document: bytes of the section, anchor, text",
    examples=("outline mark://board.local/docs/pump.md", "outline mark://board.local/docs/pump.md --json"),
    arguments=remote.arguments,
    run=run,
    shape="outline",
    notes="A section reaches to the next heading of its level or above. `fetch URL#anchor` prints one.",
)
