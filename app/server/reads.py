"""The handlers of FETCH, LIST and VERSIONS (wire §5.1–§5.3).

Permission comes before existence, everywhere: what a caller may not read answers as any path under that pattern would, whether something is
there or not, and what a directory holds beyond the caller's reach does not make it a directory. So every answer is, byte for byte, that of a
world holding only what the caller may read.

The handlers are synchronous and change nothing, so they run on the event loop or in a thread as the dispatcher sees fit.
"""

import hashlib
import re
from collections.abc import Mapping

from app.protocol.answer import Response
from app.protocol.cursor import decode_cursor, encode_cursor
from app.protocol.fault import Fault, not_found
from app.protocol.limits import LIST_PAGE_MAX
from app.protocol.paths import hash_of, split_version
from app.protocol.publisher import readable
from app.protocol.tables import listing_page, versions_body
from app.protocol.times import parse_rfc3339, rfc3339
from app.server.call import Call
from app.world.documents import Document
from app.world.errors import Missing
from app.world.world import World

HEALTHY = Response("ok", {}, b"# Health Check\n\nServer is healthy.\n")
"""The answer to `FETCH /health`: neither store nor token is asked (wire §5.9)."""

_NOT_MODIFIED = Response("not-modified")
_PAGE_SIZE = re.compile(r"\+?[0-9]{1,19}")


def fetch(world: World, call: Call) -> Response:
    """A document by path, by version or by content hash, or a directory (wire §5.1). Raises Fault or WorldError."""
    content = hash_of(call.path)
    if content is not None:
        return _by_hash(world, call, content)
    versioned = split_version(call.path)
    if versioned is not None and not world.visible_directory(versioned[0], call.access):
        return _by_version(world, call, *versioned)
    call.access.check_read(call.path)
    try:
        document = world.current(call.path)
    except Missing:
        return _directory(world, call)
    if document.archived:
        raise Fault("archived", f"{call.path} is archived")
    return _answer(document, call.metadata)


def _by_hash(world: World, call: Call, content: str) -> Response:
    try:
        document = world.by_hash(content, call.may_read)
    except Missing:
        raise Fault("not-found", f"content not found for hash {content}") from None
    return _answer(document, call.metadata)


def _by_version(world: World, call: Call, base: str, number: int) -> Response:
    call.access.check_read(base)
    document, current = world.version(base, number)
    return _answer(document, call.metadata, {"current-version": str(current)})


def _directory(world: World, call: Call) -> Response:
    if not world.visible_directory(call.path, call.access):
        raise not_found(call.path)
    index = _below(call.path, "index.md")
    # An index that the caller may not read is, to this caller, no index.
    if call.may_read(index):
        try:
            document = world.current(index)
        except Missing:
            pass
        else:
            if not document.archived:
                return _answer(document, call.metadata)
    include_archived = call.metadata.get("include-archived") == "true"
    children = world.children(call.path, call.access, include_archived, limit=LIST_PAGE_MAX + 1)
    page = listing_page(call.path, children, LIST_PAGE_MAX)
    digest = hashlib.sha256(page.body).hexdigest()
    if call.metadata.get("if-none-match") == digest:
        return _NOT_MODIFIED
    keys = {"content-hash": f"sha256-{digest}", "entries": str(page.entries), "etag": digest}
    return Response("ok", keys, page.body)


def _answer(document: Document, request: Mapping[str, str], more: dict[str, str] | None = None) -> Response:
    """The document, or "not modified" if the request's conditions say that the client has it (wire §5.1)."""
    if request.get("if-none-match") == document.etag:
        return _NOT_MODIFIED
    since = request.get("if-modified-since")
    if since is not None:
        instant = parse_rfc3339(since)
        if instant is not None and document.modified <= instant:
            return _NOT_MODIFIED
    keys = readable(document.metadata)
    keys["content-hash"] = document.content_hash
    keys["etag"] = document.etag
    keys["modified"] = rfc3339(document.modified)
    keys["version"] = str(document.version)
    return Response("ok", keys | more if more else keys, document.body)


def list_directory(world: World, call: Call) -> Response:
    """One page of a directory (wire §5.2). Raises Fault or WorldError."""
    call.access.check_read(call.path)
    include_archived, page_size, last = _page_of(call)
    if hash_of(call.path) is not None or not world.visible_directory(call.path, call.access):
        raise not_found(call.path)
    # One more than the page holds tells whether there are more.
    children = world.children(call.path, call.access, include_archived, after=last, limit=page_size + 1)
    page = listing_page(call.path, children, page_size)
    keys = {"complete": "true" if page.complete else "false", "entries": str(page.entries)}
    if not page.complete:
        keys["next-cursor"] = encode_cursor(call.path, include_archived, page.last)
    return Response("ok", keys, page.body)


def _page_of(call: Call) -> tuple[bool, int, str]:
    """Archive mode, page size and last name already sent, checked in this order; an empty key counts as absent."""
    archived = call.metadata.get("include-archived") or "false"
    if archived not in ("true", "false"):
        raise Fault("bad-request", "include-archived must be true or false")
    include_archived = archived == "true"
    size = call.metadata.get("page-size") or str(LIST_PAGE_MAX)
    if not _PAGE_SIZE.fullmatch(size) or not 1 <= int(size) <= LIST_PAGE_MAX:
        raise Fault("bad-request", f"page-size must be between 1 and {LIST_PAGE_MAX}")
    cursor = call.metadata.get("cursor")
    last = decode_cursor(cursor, call.path, include_archived) if cursor else ""
    return include_archived, int(size), last


def versions(world: World, call: Call) -> Response:
    """The history of a document, archived or not (wire §5.3). Raises Fault or WorldError."""
    call.access.check_read(call.path)
    if hash_of(call.path) is not None:
        raise not_found(call.path)
    history = world.history(call.path)
    keys = {
        "chain-valid": "true" if history.chain_valid else "false",
        "current": str(history.current),
        "total": str(len(history.versions)),
    }
    if not history.chain_valid:
        keys["chain-error"] = "chain integrity check failed"
        call.log("warn", "chain verification failed", path=call.shown_path, error=history.chain_error)
    return Response("ok", keys, versions_body(call.path, history.versions))


def _below(directory: str, name: str) -> str:
    return f"/{name}" if directory == "/" else f"{directory}/{name}"
