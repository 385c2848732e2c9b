"""The handler of LOOKUP (wire §5.7): query checked, scope found, rows asked for, answer written.

Recall, permission, order and limit are the catalog's, rendering is the protocol's; this page only sets them in their order. Every check of
the request comes before the scope, so that an error says nothing about the world.
"""

from app.protocol.answer import Response
from app.protocol.fault import not_found
from app.protocol.limits import RESPONSE_MAX
from app.protocol.tables import LookupRow, lookup_body
from app.search.query import parse_query
from app.server.call import Call
from app.world.world import World

_BODY_MAX = RESPONSE_MAX - 1024
"""Room for the metadata block in what a client is willing to read."""


def lookup(world: World, call: Call) -> Response:
    """The rows for a query below a directory, in catalog mode, which also answers `match: body`. Raises Fault."""
    query = parse_query(call.path, call.metadata)
    if not world.visible_directory(call.path, call.may_read):
        raise not_found(call.path)
    rows = world.catalog.lookup(query, call.may_read)
    body = lookup_body(query.text, query.scope, rows, snippets=False)
    while len(body) > _BODY_MAX:
        # Titles have no bound of their own; an answer that no client reads would be none.
        rows = _shorter(rows, len(body))
        body = lookup_body(query.text, query.scope, rows, snippets=False)
    keys = {"matches": str(len(rows))}
    if query.echo:
        keys["match"] = "catalog"
    return Response("ok", keys, body)


def _shorter(rows: list[LookupRow], size: int) -> list[LookupRow]:
    return rows[: min(len(rows) - 1, len(rows) * _BODY_MAX // size)]
