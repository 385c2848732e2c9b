"""Started as `demarkus`: the reference client's command line (operations §9), as far as this program offers it.

What is not offered (`edit`, `watch`, `graph`, `join`, `bookmark`, `okf`, `ping`, merging on conflict) says so in one line. There is no cache,
so that `-no-cache` and `-cache-dir` have nothing to do. Exit codes are the reference's: 0 for `ok`, `created`, `not-modified`, else 1; 2 for a
command line that cannot be read.
"""

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from app.commands import bodies, remote
from app.commands.fetch import section_of
from app.commands.goflags import BadFlag, Flag, Given, HelpWanted, parse, usage
from app.commands.outcomes import Exit, Failure
from app.commands.terminal import answer, line, note
from app.commands.writing import append_to

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from app.client.client import Client
    from app.protocol.message import Response

NAME = "demarkus"
MANIFEST = "/.well-known/agent-manifest.md"

_TRUST = (
    Flag("auth", "token for this server; also for reads", "TOKEN"),
    Flag("insecure", "take any certificate"),
    Flag("v", "show status and metadata on stderr"),
)
_MAIN = (
    Flag("X", "FETCH (default), LIST, VERSIONS, PUBLISH, APPEND or ARCHIVE", "VERB"),
    Flag("body", "the text; without it stdin, when that is no terminal", "TEXT"),
    Flag(
        "expected-version",
        "PUBLISH: 0 creates, N replaces version N; APPEND: without it the current one",
        "N",
    ),
    Flag("force", "PUBLISH without a version check"),
    Flag("on-conflict", "fail, or merge (not offered: the conflict is reported)", "merge|fail"),
    Flag("meta", "publisher metadata; may be repeated", "k=v", repeats=True),
    Flag("yes", "confirm -meta retention=N, which deletes old versions"),
    Flag("include-archived", "LIST: archived documents too"),
    Flag("cursor", "LIST: where the page before ended", "CURSOR"),
    Flag("page-size", "LIST: entries on a page, 1 to 1000", "N"),
    Flag("no-cache", "accepted; there is no cache"),
    Flag("cache-dir", "accepted; there is no cache", "DIR"),
    *_TRUST,
)
_LOOKUP = (
    Flag("query", "what to look for; * for everything", "WORDS"),
    Flag("filter", "only documents with this metadata", "k=v,k=v"),
    Flag("limit", "at most N rows", "N"),
    Flag("match", "catalog or body", "MODE"),
    *_TRUST,
)
_NOT_OFFERED = ("edit", "watch", "graph", "join", "bookmark", "okf", "ping")
_VERBS = ("FETCH", "LIST", "VERSIONS", "PUBLISH", "APPEND", "ARCHIVE")
_USAGE = f"""usage: {NAME} [flags] mark://host[:port]/path
       {NAME} lookup [flags] mark://host[:port]/scope/ -query WORDS
       {NAME} info mark://host[:port]/
       {NAME} token add URL TOKEN | token remove URL | token list
flags:"""


def run(words: Sequence[str]) -> int:
    """Runs one command line and gives the exit code."""
    word, rest = (words[0], words[1:]) if words else ("", ())
    try:
        if word in _NOT_OFFERED:
            raise BadFlag(f"{word} is not offered by this program")
        match word:
            case "lookup":
                return _lookup(_parse(_LOOKUP, rest))
            case "info":
                return _info(_parse(_TRUST, rest))
            case "token":
                return _token(rest)
        return _request(_parse(_MAIN, words))
    except HelpWanted:
        sys.stderr.write(usage(_USAGE, _MAIN))
        return Exit.DONE
    except BadFlag as error:
        note(f"{NAME}: {error}")
        return Exit.USAGE


def _parse(flags: Sequence[Flag], words: Sequence[str]) -> Given:
    given = parse(flags, words)
    if len(given.arguments) != 1:
        found = "no address" if not given.arguments else f"several arguments: {' '.join(given.arguments)}"
        raise BadFlag(f"one mark:// address is expected, got {found} (-h shows the usage)")
    return given


def _request(given: Given) -> int:
    verb = given.text("X", "FETCH").upper()
    if verb == "LOOKUP":
        raise BadFlag("LOOKUP is a subcommand: demarkus lookup URL -query WORDS")
    if verb not in _VERBS:
        raise BadFlag(f"{verb} is not offered by this program (only {', '.join(_VERBS)})")
    expected, page_size = given.number("expected-version"), given.number("page-size")
    conflict = given.text("on-conflict", "merge")
    if conflict not in {"merge", "fail"}:
        raise BadFlag(f'invalid value "{conflict}" for flag -on-conflict: merge or fail')
    if verb == "PUBLISH" and expected is None and not given.on("force"):
        raise Failure("PUBLISH requires -expected-version (0 creates, N replaces version N) or -force")
    metadata = bodies.metadata(given.texts("meta"), prune=given.on("yes"))
    body = _body(given) if verb in {"PUBLISH", "APPEND"} else b""
    whom = _target(given)
    path = whom.address.path

    calls: dict[str, Callable[[Client], Awaitable[Response]]] = {
        "FETCH": lambda client: client.fetch(path, include_archived=given.on("include-archived")),
        "LIST": lambda client: client.list(
            path,
            include_archived=given.on("include-archived"),
            cursor=given.text("cursor") or None,
            page_size=page_size,
        ),
        "VERSIONS": lambda client: client.versions(path),
        "PUBLISH": lambda client: client.publish(
            path, body, expected_version=None if given.on("force") else expected, metadata=metadata
        ),
        "APPEND": lambda client: append_to(client, path, body, expected, metadata),
        "ARCHIVE": lambda client: client.archive(path),
    }
    response = remote.converse(whom, calls[verb])
    section = verb == "FETCH" and response.status == "ok" and whom.address.fragment
    code = _tell(given, response, section_of(whom.address, response.body) if section else response.body)
    if response.status == "conflict" and verb == "PUBLISH" and conflict == "merge":
        current = response.metadata.get("server-version", "N")
        note(
            f"{NAME}: merging is not offered: fetch {whom.address.identity}, apply your change to it, "
            f"and publish with -expected-version {current}"
        )
    return code


def _lookup(given: Given) -> int:
    if not given.text("query"):
        raise BadFlag("flag needs an argument: -query")
    limit = given.number("limit")
    whom = _target(given)
    response = remote.converse(
        whom,
        lambda client: client.lookup(
            whom.address.path,
            given.text("query"),
            filters=given.text("filter") or None,
            limit=limit,
            match=given.text("match") or None,
        ),
    )
    return _tell(given, response, response.body)


def _info(given: Given) -> int:
    response = remote.converse(_target(given), lambda client: client.fetch(MANIFEST))
    return _tell(given, response, response.body)


def _token(words: Sequence[str]) -> int:
    from app.client.tokenstore import TokenStore
    from app.protocol.addresses import parse_address

    store = TokenStore()
    match list(words):
        case ["add", url, token]:
            server = parse_address(url).dial
            store.add(
                server, bodies.read_stdin().decode("utf-8", "replace").strip() if token == "-" else token
            )
            note(f"token for {server} stored in {store.path}")
        case ["remove", url]:
            server = parse_address(url).dial
            if not store.remove(server):
                raise Failure(f"no token for {server} in {store.path}")
            note(f"token for {server} removed")
        case ["list"]:
            for server in store.all():
                line(server)
        case _:
            raise BadFlag("token takes: add URL TOKEN (- reads it from stdin), remove URL, or list")
    return Exit.DONE


def _target(given: Given) -> remote.Target:
    from app.client.tokenstore import Secret

    return remote.resolve(
        given.arguments[0],
        explicit=Secret(given.text("auth"), "-auth") if given.text("auth") else None,
        insecure=given.on("insecure"),
        environment=os.environ,
    )


def _body(given: Given) -> bytes:
    if "body" in given:
        return bodies.checked(given.text("body").encode("utf-8", "surrogateescape"))
    return b"" if sys.stdin is None or sys.stdin.isatty() else bodies.checked(bodies.read_stdin())


def _tell(given: Given, response: "Response", body: bytes) -> int:
    if given.on("v"):
        note(remote.status_line(response))
    answer(body)
    if response.status in {"ok", "created", "not-modified"}:
        return Exit.DONE
    note(f"{NAME}: {response.status}")
    return Exit.FAILED
