"""The handler of LOOKUP (wire §5.7): query checked, scope found, rows asked for, answer written.

Recall, permission, order and limit are search's, rendering is the protocol's; this page only sets them in their order. Every check of the
request comes before the scope, so that an error says nothing about the world.

An answer comes in steps of a few milliseconds (`app.search.steps`). Most are done at once. Those that take longer than a turn begin anew as a
task of their own, since what they ask must not change until they are done: after each turn everybody else gets theirs, and work on long texts
goes to a thread.
"""

import time
from collections.abc import Sequence

import trio

from app.protocol.answer import Response
from app.protocol.fault import not_found
from app.protocol.limits import RESPONSE_MAX
from app.protocol.tables import Form, LookupRow, lookup_head, lookup_row
from app.search.answer import Answer
from app.search.query import Query, parse_query
from app.search.steps import Course, Steps
from app.server.call import Call
from app.world.world import World

_BODY_MAX = RESPONSE_MAX - 1024
"""Room for the metadata block in what a client is willing to read."""

_STEP = 20_000
"""Bytes of rows written between two pauses; a few hundred rows of the usual size."""

_TURN = 0.005
"""Seconds of work between two turns of everybody else."""


def lookup(world: World, call: Call) -> Steps[Response]:
    """The answer to a LOOKUP in the mode that was asked for, in steps; the indexes must not change until it is at its end. Raises Fault."""
    query = parse_query(call.path, call.metadata)
    if not world.visible_directory(call.path, call.access):
        raise not_found(call.path)
    query.require_terms()
    if query.mode == "task":
        answer = yield from world.task_steps(query, call.access)
        return (yield from task_response(query, answer))
    if query.mode == "body":
        found = yield from world.body_steps(query, call.access)
    else:
        found = yield from world.catalog.lookup_steps(query, call.may_read)
    rows, body = yield from _written(query, found, "body" if query.mode == "body" else "catalog")
    keys = {"matches": str(rows)}
    if query.echo:
        keys["match"] = query.mode
    return Response("ok", keys, body)


def task_response(query: Query, answer: Answer) -> Steps[Response]:
    """An answer in task mode as it is sent (task §12.1)."""
    rows, body = yield from _written(query, answer.rows, "task")
    keys = {
        "match": "task",
        "matches": str(answer.matches),
        "truncated": "true" if answer.matches > rows else "false",
    }
    if answer.ignored:
        keys["terms-ignored"] = str(answer.ignored)
    return Response("ok", keys, body)


def _written(query: Query, rows: Sequence[LookupRow], form: Form) -> Steps[tuple[int, bytes]]:
    """The body of an answer and how many rows are in it: no more than a client is willing to read, since what none reads would be no answer."""
    pieces = [lookup_head(query.text, query.scope, form)]
    size = paused = len(pieces[0])
    for row in rows:
        piece = lookup_row(row, form)
        size += len(piece)
        if size > _BODY_MAX:
            break
        pieces.append(piece)
        if size - paused > _STEP:
            paused = size
            yield
    return len(pieces) - 1, b"".join(pieces)


def is_long(call: Call) -> bool:
    """Whether the answer to a LOOKUP most likely takes longer than a turn."""
    return call.metadata.get("match") == "task"


def at_once(steps: Steps[Response]) -> Response | None:
    """What some steps come to, or None if that takes longer than a turn. Raises what they raise."""
    begun = time.perf_counter()
    course = Course(steps)
    for job in course:
        if job is not None or time.perf_counter() - begun > _TURN:
            steps.close()
            return None
    return course.result


async def in_turns(steps: Steps[Response], threads: trio.CapacityLimiter) -> Response:
    """The same, however long it takes; others get their turn in between, and long texts are gone through in `threads`."""
    turn = time.perf_counter()
    course = Course(steps)
    for job in course:
        if job is not None:
            await trio.to_thread.run_sync(job, limiter=threads, abandon_on_cancel=True)
        elif time.perf_counter() - turn > _TURN:
            await trio.lowlevel.checkpoint()
        else:
            continue
        turn = time.perf_counter()
    return course.result
