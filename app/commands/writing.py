"""`put`, `append`, `archive`: the writes over the network."""

import argparse
from typing import TYPE_CHECKING

from app.commands import bodies, remote
from app.commands.outcomes import Exit, Failure
from app.commands.parser import Command, whole
from app.commands.terminal import answer, line, note

if TYPE_CHECKING:
    from app.client.client import Client
    from app.protocol.message import Response


def put_arguments(parser: argparse.ArgumentParser) -> None:
    remote.arguments(parser)
    bodies.arguments(parser)
    version = parser.add_mutually_exclusive_group()
    version.add_argument(
        "--expected-version",
        metavar="N",
        type=whole(0),
        help="the version this replaces; 0 for a new document",
    )
    version.add_argument("--force", action="store_true", help="replace whatever is there")
    parser.add_argument(
        "--yes", action="store_true", help="allow --meta retention=N, which deletes old versions"
    )


def put(options: argparse.Namespace) -> int:
    if options.expected_version is None and not options.force:
        raise Failure(
            "put needs --expected-version N: 0 for a new document, else the version you have read "
            "(`versions URL` shows it); --force replaces whatever is there",
            Exit.USAGE,
        )
    whom = remote.target(options)
    metadata = bodies.declared(options)
    body = bodies.read_body(options)
    if not body:
        raise Failure(
            "the text is empty; `archive` takes a document out of sight, `archive --undo` brings it back",
            Exit.USAGE,
        )
    response = remote.converse(
        whom,
        lambda client: client.publish(
            whom.address.path, body, expected_version=options.expected_version, metadata=metadata
        ),
    )
    return _tell(options, whom, response, "PUBLISH")


def append_arguments(parser: argparse.ArgumentParser) -> None:
    remote.arguments(parser)
    bodies.arguments(parser)
    parser.add_argument(
        "--expected-version",
        metavar="N",
        type=whole(1),
        help="the version to append to; without it the current one",
    )
    parser.add_argument(
        "--yes", action="store_true", help="allow --meta retention=N, which deletes old versions"
    )


def append(options: argparse.Namespace) -> int:
    whom = remote.target(options)
    metadata = bodies.declared(options)
    body = bodies.read_body(options)
    if not body:
        raise Failure("the text is empty; there is nothing to append", Exit.USAGE)
    response = remote.converse(
        whom, lambda client: append_to(client, whom.address.path, body, options.expected_version, metadata)
    )
    return _tell(options, whom, response, "APPEND")


async def append_to(
    client: "Client", path: str, body: bytes, expected: int | None, metadata: dict[str, str]
) -> "Response":
    """APPEND to a version, or to the current one if none is given; the answer of whichever request ended it."""
    if expected is None:
        history = await client.versions(path)
        expected = remote.number(history.metadata.get("current"))
        if history.status != "ok" or expected is None:
            return history
    return await client.append(path, body, expected_version=expected, metadata=metadata)


def archive_arguments(parser: argparse.ArgumentParser) -> None:
    remote.arguments(parser)
    parser.add_argument("--undo", action="store_true", help="make an archived document live again")


def archive(options: argparse.Namespace) -> int:
    whom = remote.target(options)
    path = whom.address.path
    # An empty PUBLISH is how the protocol spells it (wire §5.4.1).
    response = remote.converse(
        whom,
        lambda client: (
            client.publish(path, b"", expected_version=None) if options.undo else client.archive(path)
        ),
    )
    return _tell(options, whom, response, "ARCHIVE")


def _tell(options: argparse.Namespace, whom: remote.Target, response: "Response", verb: str) -> int:
    code = remote.report(response, options.verbose, verb, whom)
    keys = response.metadata
    version = remote.number(keys.get("version"))
    if options.json:
        from app.commands import shapes

        document = shapes.Write(
            url=str(whom.address),
            status=response.status,
            message=None if code is Exit.DONE else remote.message_of(response),
            path=whom.address.path,
            version=version,
            modified=keys.get("modified"),
            server_version=remote.number(keys.get("server-version")),
        )
        answer(shapes.encode(document))
    elif code is Exit.DONE:
        state = "archived" if keys.get("archived") == "true" else response.status
        line(f"{state} {whom.address.path} v{version}")
    elif code is Exit.CONFLICT:
        note(
            "nothing was written: fetch the current version, apply the change to it, and write with its number"
        )
    return code


PUT = Command(
    name="put",
    summary="write a document over the network, as a new version",
    examples=(
        "put mark://board.local/docs/pump.md pump.md --expected-version 0 --meta title='Pump' --meta tags=pump,site:north",
        "put mark://board.local/docs/pump.md --expected-version 3 --auth-file token < pump.md",
    ),
    arguments=put_arguments,
    run=put,
    shape="write",
    notes="The metadata given replaces that of the earlier version. The text is taken byte for byte: --body adds no line end; "
    "printf 'line\\n' | ... does.",
)
APPEND = Command(
    name="append",
    summary="add text to the end of a document, as a new version that keeps its metadata",
    examples=(
        "append mark://board.local/logs/pump.md --body '- seal replaced'",
        "append mark://board.local/logs/pump.md --auth-file token < entry.md",
    ),
    arguments=append_arguments,
    run=append,
    shape="write",
)
ARCHIVE = Command(
    name="archive",
    summary="take a document out of sight; its versions stay",
    examples=("archive mark://board.local/docs/old.md", "archive --undo mark://board.local/docs/old.md"),
    arguments=archive_arguments,
    run=archive,
    shape="write",
)
