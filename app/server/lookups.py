"""The handler of LOOKUP (wire §5.7): query checked, scope found, rows asked for, answer written.

Recall, permission, order and limit are search's, rendering is the protocol's; this page only sets them in their order. Every check of the
request comes before the scope, so that an error says nothing about the world.

Rows of body mode show a snippet, for which their documents are read. A few are read at one go; more are read piece by piece, so that other
requests get their turn in between.
"""

import trio

from app.protocol.answer import Response
from app.protocol.fault import Fault, not_found
from app.protocol.limits import RESPONSE_MAX
from app.protocol.tables import LookupRow, lookup_body
from app.search.query import Query, parse_query
from app.server.call import Call
from app.world.world import World

_BODY_MAX = RESPONSE_MAX - 1024
"""Room for the metadata block in what a client is willing to read."""

_PIECE = 20
"""Documents read at one go."""


def lookup(world: World, call: Call) -> Response:
    """The rows for a query below a directory, in the mode that was asked for. Raises Fault."""
    query = _checked(world, call)
    if query.mode == "body":
        return _answer(query, world.rows(query, world.match(query, call.access)))
    return _answer(query, world.catalog.lookup(query, call.may_read))


def is_long(call: Call) -> bool:
    """Whether the answer may take more documents than are to be read at one go."""
    if call.metadata.get("match") != "body":
        return False
    try:
        return parse_query(call.path, call.metadata).limit > _PIECE
    except Fault:
        return False


async def lookup_in_pieces(world: World, call: Call) -> Response:
    """The same in body mode, with pauses; the indexes must not change meanwhile. Raises Fault."""
    query = _checked(world, call)
    matches = world.match(query, call.access)
    rows: list[LookupRow] = []
    for start in range(0, len(matches), _PIECE):
        rows += world.rows(query, matches[start : start + _PIECE])
        await trio.lowlevel.checkpoint()
    return _answer(query, rows)


def _checked(world: World, call: Call) -> Query:
    query = parse_query(call.path, call.metadata)
    if not world.visible_directory(call.path, call.access):
        raise not_found(call.path)
    return query


def _answer(query: Query, rows: list[LookupRow]) -> Response:
    snippets = query.mode == "body"
    body = lookup_body(query.text, query.scope, rows, snippets)
    while len(body) > _BODY_MAX:
        # An answer that no client reads would be none.
        rows = rows[: min(len(rows) - 1, len(rows) * _BODY_MAX // len(body))]
        body = lookup_body(query.text, query.scope, rows, snippets)
    keys = {"matches": str(len(rows))}
    if query.echo:
        keys["match"] = query.mode
    return Response("ok", keys, body)
