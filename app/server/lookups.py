"""The handler of LOOKUP (wire §5.7): query checked, scope found, rows asked for, answer written.

Recall, permission, order and limit are search's, rendering is the protocol's; this page only sets them in their order. Every check of the
request comes before the scope, so that an error says nothing about the world.

Rows of body mode show a snippet, for which their documents are read. A few are read at one go; more are read piece by piece, so that other
requests get their turn in between. An answer in task mode comes in small steps; after so many as take a few milliseconds, others get theirs.
"""

import time
from collections.abc import Generator

import trio

from app.protocol.answer import Response
from app.protocol.fault import Fault, not_found
from app.protocol.limits import RESPONSE_MAX
from app.protocol.tables import Form, LookupRow, lookup_body
from app.search.answer import Answer
from app.search.query import Query, parse_query
from app.server.call import Call
from app.world.world import World

_BODY_MAX = RESPONSE_MAX - 1024
"""Room for the metadata block in what a client is willing to read."""

_PIECE = 20
"""Documents read at one go."""

_TURN = 0.005
"""Seconds of work on a task between two turns of everybody else."""


def lookup(world: World, call: Call) -> Response:
    """The rows for a query below a directory, in the mode that was asked for. Raises Fault."""
    query = _checked(world, call)
    if query.mode == "body":
        return _answer(query, world.rows(query, world.match(query, call.access)))
    if query.mode == "task":
        return task_response(query, world.task(query, call.access))
    return _answer(query, world.catalog.lookup(query, call.may_read))


def is_long(call: Call) -> bool:
    """Whether the answer may take more than is to be done at one go."""
    match = call.metadata.get("match")
    if match != "body":
        return match == "task"
    try:
        return parse_query(call.path, call.metadata).limit > _PIECE
    except Fault:
        return False


async def lookup_in_pieces(world: World, call: Call) -> Response:
    """The same in body and task mode, with pauses; the indexes must not change meanwhile. Raises Fault."""
    query = _checked(world, call)
    if query.mode == "task":
        return task_response(query, await _in_turns(world.task_steps(query, call.access)))
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
    query.require_terms()
    return query


async def _in_turns(steps: Generator[None, None, Answer]) -> Answer:
    """What the steps come to; others get their turn in between."""
    turn = time.perf_counter()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            answer: Answer = done.value
            return answer
        if time.perf_counter() - turn > _TURN:
            await trio.lowlevel.checkpoint()
            turn = time.perf_counter()


def task_response(query: Query, answer: Answer) -> Response:
    """An answer in task mode (task §12.1)."""
    rows, body = _fitting(query, answer.rows, "task")
    keys = {
        "match": "task",
        "matches": str(answer.matches),
        "truncated": "true" if answer.matches > len(rows) else "false",
    }
    if answer.ignored:
        keys["terms-ignored"] = str(answer.ignored)
    return Response("ok", keys, body)


def _answer(query: Query, rows: list[LookupRow]) -> Response:
    rows, body = _fitting(query, rows, "body" if query.mode == "body" else "catalog")
    keys = {"matches": str(len(rows))}
    if query.echo:
        keys["match"] = query.mode
    return Response("ok", keys, body)


def _fitting(query: Query, rows: list[LookupRow], form: Form) -> tuple[list[LookupRow], bytes]:
    """As many rows as a client is willing to read, and the body with them: an answer that no client reads would be none."""
    body = lookup_body(query.text, query.scope, rows, form)
    while len(body) > _BODY_MAX:
        rows = rows[: min(len(rows) - 1, len(rows) * _BODY_MAX // len(body))]
        body = lookup_body(query.text, query.scope, rows, form)
    return rows, body
