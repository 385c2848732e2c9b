"""`fetch`: one document, version, section or directory, verbatim on stdout."""

import argparse
from typing import TYPE_CHECKING

from app.commands import remote
from app.commands.outcomes import Exit, Failure, exit_of
from app.commands.parser import Command
from app.commands.terminal import answer

if TYPE_CHECKING:
    from app.commands.shapes import Fetch
    from app.protocol.addresses import Address
    from app.protocol.message import Response


_SHOWN = 10  # anchors named when none resembles the one that was asked for


def arguments(parser: argparse.ArgumentParser) -> None:
    remote.arguments(parser, "mark://host[:port]/path, /path/v3 for a version, path#anchor for one section")
    parser.add_argument("--include-archived", action="store_true", help="in the listing of a directory")


def run(options: argparse.Namespace) -> int:
    whom = remote.target(options)
    address = whom.address
    response = remote.converse(
        whom, lambda client: client.fetch(address.path, include_archived=options.include_archived)
    )
    code = remote.report(response, options.verbose, "FETCH", whom)
    body = response.body
    if code is Exit.DONE and address.fragment:
        body = section_of(address, body)
    if options.json:
        from app.commands import shapes

        answer(shapes.encode(document(address, response, body)))
    elif code is Exit.DONE:
        answer(body)
    return code


def section_of(address: "Address", body: bytes) -> bytes:
    """The section that the address's fragment names (wire §1.19). Raises `Failure` naming sections that exist."""
    from app.markdown.outline import nearest, outline, section

    found = section(body, address.fragment)
    if found is None:
        headings = outline(body)
        near = nearest(headings, address.fragment) or [heading.anchor for heading in headings[:_SHOWN]]
        known = (
            f"; there is {', '.join(f'#{anchor}' for anchor in near)}"
            if near
            else "; the document has no sections"
        )
        raise Failure(f"no such section: #{address.fragment} in {address.path}{known}", Exit.NOT_FOUND)
    return found


def document(address: "Address", response: "Response", body: bytes) -> "Fetch":
    """The `--json` document of an answer; `body` is what is shown of it."""
    from app.commands import shapes
    from app.protocol.publisher import readable

    found = exit_of(response.status) is Exit.DONE
    keys = response.metadata
    return shapes.Fetch(
        url=str(address),
        status=response.status,
        message=None if found else remote.message_of(response),
        path=address.path,
        version=remote.number(keys.get("version")),
        current_version=remote.number(keys.get("current-version")),
        modified=keys.get("modified"),
        etag=keys.get("etag"),
        content_hash=keys.get("content-hash"),
        metadata={
            key: value for key, value in readable(keys).items() if key not in {"complete", "next-cursor"}
        },
        body=body.decode("utf-8", "surrogateescape") if found else None,
    )


COMMAND = Command(
    name="fetch",
    summary="print a document, a version of it, one section, or the listing of a directory",
    examples=(
        "fetch mark://board.local/docs/index.md",
        "fetch 'mark://board.local/docs/pump.md#installation'",
    ),
    arguments=arguments,
    run=run,
    shape="fetch",
)
