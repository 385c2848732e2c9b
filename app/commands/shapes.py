"""The documents of `--json`: one struct each, one object per command, on stdout.

These shapes are stable: a field is never renamed, removed or given another type; new ones may be added. A field that has nothing to say is
`null`, never absent. A command that gets no answer at all prints none; its exit code says why. Help and the manual's page are made from the structs, so that they cannot go stale. Text that is not UTF-8 comes
with U+FFFD in the place of what cannot be read; `fetch` without `--json` gives the bytes.
"""

import types
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

Url = Annotated[str, Meta(description="the address that was asked, in its canonical form")]
Status = Annotated[str, Meta(description="the server's status: ok, created, not-found, …")]
Message = Annotated[str | None, Meta(description="what the server said about an error")]
Path = Annotated[str, Meta(description="the path within the world")]
Moment = Annotated[str | None, Meta(description="when it was written, RFC 3339 in UTC")]


class Fetch(msgspec.Struct, kw_only=True):
    """A document, a directory, or the reason why not."""

    url: Url
    status: Status
    message: Message = None
    path: Path
    version: Annotated[int | None, Meta(description="the version of this body")] = None
    current_version: Annotated[
        int | None, Meta(description="the newest version, when an older one was asked for")
    ] = None
    modified: Moment = None
    etag: Annotated[str | None, Meta(description="SHA-256 of the stored version")] = None
    content_hash: Annotated[str | None, Meta(description="address of the body: sha256-…")] = None
    metadata: Annotated[
        dict[str, str], Meta(description="what the author attached: title, tags, importance, …")
    ] = {}
    body: Annotated[str | None, Meta(description="the text; of one section when the URL has #anchor")] = None


class Entry(msgspec.Struct):
    """One entry of a directory."""

    name: Annotated[str, Meta(description="without a slash")]
    directory: Annotated[bool, Meta(description="true for a directory")]


class List(msgspec.Struct, kw_only=True):
    """The entries of a directory."""

    url: Url
    status: Status
    message: Message = None
    path: Path
    entries: Annotated[list[Entry], Meta(description="sorted by name")] = []
    complete: Annotated[
        bool | None, Meta(description="false when more follows; null when the server does not say")
    ] = None
    next_cursor: Annotated[str | None, Meta(description="what --cursor needs to go on")] = None


class Version(msgspec.Struct):
    """One version of a document."""

    version: Annotated[int, Meta(description="its number")]
    modified: Annotated[str, Meta(description="when it was written, RFC 3339 in UTC")]


class Versions(msgspec.Struct, kw_only=True):
    """The history of a document."""

    url: Url
    status: Status
    message: Message = None
    path: Path
    current: Annotated[int | None, Meta(description="the newest version")] = None
    total: Annotated[int | None, Meta(description="how many versions are kept")] = None
    chain_valid: Annotated[bool | None, Meta(description="whether the hash chain holds")] = None
    versions: Annotated[list[Version], Meta(description="newest first")] = []


class OutlineHeading(msgspec.Struct):
    """One heading of a document."""

    level: Annotated[int, Meta(description="1 to 6")]
    text: Annotated[str, Meta(description="the heading as written, without its markup")]
    anchor: Annotated[str, Meta(description="what `fetch URL#anchor` takes; may be empty")]
    bytes: Annotated[int, Meta(description="size of the section, its subsections included")]


class Outline(msgspec.Struct, kw_only=True):
    """The headings of a document."""

    url: Url
    status: Status
    message: Message = None
    path: Path
    version: Annotated[int | None, Meta(description="the version they were read from")] = None
    bytes: Annotated[int | None, Meta(description="size of the whole document")] = None
    headings: Annotated[list[OutlineHeading], Meta(description="in document order")] = []


class Row(msgspec.Struct):
    """One match."""

    path: Path
    anchor: Annotated[str | None, Meta(description="the section; null for the document itself")]
    importance: Annotated[float, Meta(description="0 to 1")]
    title: Annotated[str, Meta(description="title of the document, and › heading of the section")]
    tags: Annotated[list[str], Meta(description="the document's tags")]
    snippet: Annotated[str | None, Meta(description="where it matches, with --match body")]


class Lookup(msgspec.Struct, kw_only=True):
    """The matches of a query."""

    url: Url
    status: Status
    message: Message = None
    scope: Annotated[str, Meta(description="the directory that was searched")]
    query: Annotated[str, Meta(description="the query as given")]
    match: Annotated[str | None, Meta(description="the mode the server used, when one was asked for")] = None
    matches: Annotated[
        int | None, Meta(description="how many rows; when that is the limit, there may be more")
    ] = None
    rows: Annotated[list[Row], Meta(description="best first")] = []


class Result(msgspec.Struct):
    """A section, or a document."""

    path: Path
    anchor: Annotated[str, Meta(description="the section; empty for the document itself")]
    title: Annotated[str, Meta(description="title of the document, and › heading of the section")]
    importance: Annotated[float, Meta(description="0 to 1")]
    tags: Annotated[list[str], Meta(description="the document's tags")]
    snippet: Annotated[str, Meta(description="what it says; may be empty")]
    match: Annotated[
        str | None, Meta(description="complete, partial or metadata; null if the mode is not task")
    ]


class Task(msgspec.Struct):
    """The sections that cover a task: of `lookup --match task`, and of `map` and `help` with words."""

    query: Annotated[str, Meta(description="the task as it was given")]
    scope: Annotated[str, Meta(description="what was searched: a folder, or one document")]
    mode: Annotated[str, Meta(description="how it was answered: task, body, catalog")]
    matches: Annotated[int, Meta(description="how many there are, shown or not")]
    truncated: Annotated[
        bool | None, Meta(description="whether more match than are shown; null if the mode is not task")
    ]
    terms_ignored: Annotated[int, Meta(description="terms behind the 32nd")]
    results: Annotated[list[Result], Meta(description="at most five that cover the task together")]


class Folder(msgspec.Struct):
    """A folder right below the scope."""

    path: Path
    title: Annotated[str | None, Meta(description="of its index.md")]
    documents: Annotated[int, Meta(description="how many are in it, however deep")]


class Important(msgspec.Struct):
    """One of the most important documents."""

    path: Path
    title: Annotated[str, Meta(description="title of the document")]
    importance: Annotated[float, Meta(description="0 to 1")]
    tags: Annotated[list[str], Meta(description="the document's tags")]


class Map(msgspec.Struct):
    """What a world holds, or the manual."""

    scope: Annotated[str, Meta(description="the folder it is about")]
    documents: Annotated[int, Meta(description="how many are in it, however deep")]
    sections: Annotated[
        int | None,
        Meta(description="how many sections they have; null where only the server could count them"),
    ]
    folders: Annotated[list[Folder], Meta(description="right below the scope, sorted by path")]
    important: Annotated[list[Important], Meta(description="at most ten, the most important first")]


class Write(msgspec.Struct, kw_only=True):
    """What became of a put, append or archive."""

    url: Url
    status: Status
    message: Message = None
    path: Path
    version: Annotated[int | None, Meta(description="the version that is current now")] = None
    modified: Moment = None
    server_version: Annotated[int | None, Meta(description="the current version, on a conflict")] = None


class Token(msgspec.Struct):
    """One token of a token file; the secret itself is nowhere."""

    label: Annotated[str, Meta(description="its name")]
    paths: Annotated[list[str], Meta(description="path patterns")]
    operations: Annotated[list[str], Meta(description="read, publish")]
    expires: Annotated[str | None, Meta(description="RFC 3339; null for never")]


class Tokens(msgspec.Struct):
    """The entries of a token file."""

    tokens: Annotated[list[Token], Meta(description="sorted by label")]


class Verify(msgspec.Struct):
    """The state of a world on disk."""

    root: Annotated[str, Meta(description="the content directory")]
    sound: Annotated[bool, Meta(description="true when nothing was found")]
    faults: Annotated[list[str], Meta(description="one sentence for each fault")]
    documents: Annotated[int, Meta(description="how many were looked at")] = 0
    versions: Annotated[int, Meta(description="how many versions were read")] = 0
    plain: Annotated[list[str], Meta(description="markdown files in the root that are no documents")] = []
    unfinished: Annotated[
        list[str],
        Meta(description="one sentence for each document whose last write was cut short; no faults"),
    ] = []


class Fingerprint(msgspec.Struct):
    """A server's certificate."""

    fingerprint: Annotated[str, Meta(description="sha256: and 64 hexadecimal digits, as --pin takes it")]
    certificate: Annotated[str, Meta(description="the file it is in")]


class ServerStatus(msgspec.Struct, kw_only=True):
    """How the server on this machine is."""

    version: Annotated[str, Meta(description="of the server")]
    pid: Annotated[int, Meta(description="its process")]
    uptime: Annotated[int, Meta(description="seconds since it started")]
    address: Annotated[
        str, Meta(description="what it listens on; nothing before the colon means all addresses")
    ]
    root: Annotated[str, Meta(description="the content directory as it was named")]
    folder: Annotated[str, Meta(description="where that leads")]
    tokens: Annotated[str | None, Meta(description="the token file")] = None
    read_only: Annotated[bool, Meta(description="whether every write is refused")] = False
    documents: Annotated[int, Meta(description="live documents")]
    sections: Annotated[int, Meta(description="their indexed sections")]
    index_bytes: Annotated[int, Meta(description="memory that the section index takes")]
    body_bytes: Annotated[int, Meta(description="size of all live documents' texts")]
    connections: Annotated[int, Meta(description="open now")]
    watching: Annotated[
        bool, Meta(description="whether changes behind its back are taken over by themselves")
    ]
    reloaded: Annotated[str | None, Meta(description="time of the last reload, RFC 3339 in UTC")] = None
    reload_ok: Annotated[bool | None, Meta(description="whether its content could be read")] = None
    reload_text: Annotated[str | None, Meta(description="what it found, or why it failed")] = None
    fingerprint: Annotated[str, Meta(description="of the certificate, as --pin takes it")]
    certificate_expires: Annotated[str, Meta(description="RFC 3339 in UTC")]
    clock_ok: Annotated[bool, Meta(description="whether the board's clock can be right")]
    clock: Annotated[str, Meta(description="what is wrong with it, if anything")]


class Reload(msgspec.Struct, kw_only=True):
    """What a reload came to."""

    ok: Annotated[bool, Meta(description="whether every part could be read")]
    failed: Annotated[
        dict[str, str], Meta(description="certificate, tokens, content: why it stays as it was")
    ] = {}
    added: Annotated[int, Meta(description="documents that are new")]
    replaced: Annotated[int, Meta(description="documents with another text, metadata or time")]
    archived: Annotated[int, Meta(description="documents that were archived")]
    unarchived: Annotated[int, Meta(description="documents that are live again")]
    gone: Annotated[int, Meta(description="documents that are no more")]
    read_bytes: Annotated[int, Meta(description="how much text had to be read")]
    milliseconds: Annotated[int, Meta(description="how long the content took")]


SHAPES: dict[str, type[msgspec.Struct]] = {
    "fetch": Fetch,
    "list": List,
    "versions": Versions,
    "lookup": Lookup,
    "task": Task,
    "outline": Outline,
    "map": Map,
    "write": Write,
    "tokens": Tokens,
    "verify": Verify,
    "fingerprint": Fingerprint,
    "status": ServerStatus,
    "reload": Reload,
}


def encode(document: msgspec.Struct) -> bytes:
    """The document as one line of JSON."""
    return msgspec.json.encode(_readable(msgspec.to_builtins(document))) + b"\n"


def _readable(value: Any) -> Any:
    """The value with every text made valid UTF-8."""
    if isinstance(value, str):
        return (
            value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        )
    if isinstance(value, dict):
        return {_readable(key): _readable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(one) for one in value]
    return value


def describe(shape: str) -> str:
    """The fields of a shape as text, one per line, nested objects indented."""
    return "\n".join(
        f"  {'  ' * depth}{name:<{18 - 2 * depth}} {kind:<16} {text}"
        for depth, name, kind, text in _fields(SHAPES[shape])
    )


def page() -> str:
    """All shapes as markdown, for the manual."""
    lines = [
        "# JSON output",
        "",
        "Every field is always there; one that has nothing to say is `null`. Without an answer nothing is printed; the exit code says why.",
    ]
    for name, shape in SHAPES.items():
        lines += [
            "",
            f"## {name}",
            "",
            shape.__doc__ or "",
            "",
            "| Field | Type | Meaning |",
            "|---|---|---|",
        ]
        lines += [
            f"| {'– ' * depth}`{field}` | {kind} | {text} |" for depth, field, kind, text in _fields(shape)
        ]
    return "\n".join(lines) + "\n"


def _fields(shape: type[msgspec.Struct], depth: int = 0) -> list[tuple[int, str, str, str]]:
    rows = []
    for name, hint in get_type_hints(shape, include_extras=True).items():
        kind, meta = get_args(hint)
        rows.append((depth, name, _kind(kind), str(meta.description)))
        inner = get_args(kind)
        if get_origin(kind) is list and issubclass(inner[0], msgspec.Struct):
            rows += _fields(inner[0], depth + 1)
    return rows


_KINDS = {str: "text", int: "number", float: "number", bool: "true or false", types.NoneType: "null"}


def _kind(hint: Any) -> str:
    if get_origin(hint) is list:
        return "list"
    if get_origin(hint) is dict:
        return "object of texts"
    return " or ".join(_KINDS[one] for one in (get_args(hint) or (hint,)))
