"""The handlers of PUBLISH, APPEND and ARCHIVE, and the one writer behind them (wire §5.4–§5.6).

An fsync on an SD card can take 100 ms and more, so a write runs in three steps: in a thread everything up to the synced version file, then on the
event loop the one step that makes it visible to FETCH, LIST and LOOKUP alike, then in a thread the syncs that remain. Only then is the answer
sent. One write runs at a time, in order of arrival; reads never wait for it.

Once a write has its turn it is not given up, whatever becomes of its client or of the server's shutdown: a version file that exists is brought to
its end. Waiting for the turn is bounded by the request deadline, and a write that never got it has left no trace.

Every write that passed authorisation leaves one audit line: what was done, by which token, or why not (operations §5).
"""

import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from app.protocol.answer import Response
from app.protocol.fault import Fault
from app.protocol.publisher import publisher_metadata, with_default_type
from app.protocol.times import rfc3339
from app.server.call import Call
from app.server.statuses import fault_of
from app.world.errors import BadDocument, Conflict, Missing, WorldError
from app.world.shelf import Pruned
from app.world.world import Commit, World
from app.world.writing import Unchanged

_T = TypeVar("_T")

WAITING_BYTES = 16 * 1024 * 1024
"""Bodies of writes that wait for their turn or run; past it a write is refused at once, lest a slow card fill the memory of the board."""

_DECIMAL = re.compile(r"[-+]?[0-9]+")
_LARGEST = 2**63 - 1

_CREATE_CONFLICT = (
    "# Version Conflict\n\nA document already exists at this path (version {current}).\n\n"
    "Fetch the current version and publish with the correct expected-version to update it.\n"
)
_REPLACE_CONFLICT = (
    "# Version Conflict\n\nThe document has been modified since you last fetched it.\n\n"
    "Your version: {expected}\nServer version: {current}\n\n{advice}\n"
)
_PUBLISH_ADVICE = "Please fetch the latest version and reapply your edits."
_APPEND_ADVICE = "Fetch the latest version and verify whether your append was applied before retrying."


class Writer:
    """Carries writes out, one after another.

    `index` is held whenever a thread reads the indexes, which change under it and on the event loop only. `now` gives the wall clock in seconds
    since 1970; `patience` is the longest wait for a turn in seconds, 0 = no bound; `grown` is told of every change.
    """

    def __init__(
        self,
        world: World,
        *,
        index: trio.Lock,
        now: Callable[[], float],
        patience: float,
        grown: Callable[[], None],
    ) -> None:
        self._world = world
        self._index = index
        self._grown = grown
        self._now = now
        self._patience = patience or math.inf
        self._turn = trio.Lock()
        self._threads = trio.CapacityLimiter(1)
        self._running = trio.CancelScope()
        self._waiting = 0

    async def close(self, patience: float) -> None:
        """Waits `patience` seconds for the running write, then lets it be cancelled: the disk does not answer, and the process has to end."""
        with trio.move_on_after(patience):
            async with self._turn:
                return
        self._running.shield = False

    def use_world(self, world: World) -> None:
        """Write to another world from now on; only while `held`."""
        self._world = world

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """No write runs while this context lasts."""
        async with self._turn:
            yield

    async def handle(self, call: Call, label: str) -> Response:
        """Answers a write that the token called `label` may do; refusals are answers too."""
        audit = _Audit(call, label)
        size = len(call.body)
        if self._waiting and self._waiting + size > WAITING_BYTES:
            return audit.refused(Fault("server-error", "too many writes are waiting; nothing was written"))
        self._waiting += size
        try:
            return await _HANDLERS[call.verb](self, call, audit)
        except Conflict as conflict:
            return audit.conflict(conflict.current)
        except BadDocument as error:
            # No document can have such a path: none is there, whatever is to be done with it but making one.
            return audit.refused(fault_of(error if audit.creates else Missing(call.path), call.path))
        except WorldError as error:
            return audit.refused(fault_of(error, call.path))
        except Fault as fault:
            return audit.refused(fault)
        finally:
            self._waiting -= size

    async def _publish(self, call: Call, audit: "_Audit") -> Response:
        _check_document(call)
        if not call.body:
            return await self._unarchive(call, audit)
        metadata = with_default_type(call.path, publisher_metadata(call.metadata))
        audit.expected = _expected(
            call.metadata.get("expected-version", ""), least=0, fault="invalid expected-version"
        )
        outcome = await self._commit(
            audit,
            lambda: self._world.prepare_publish(call.path, call.body, metadata, audit.expected, self._now()),
        )
        keys = {"modified": rfc3339(outcome.modified), "version": str(outcome.version)}
        audit.done(outcome, unchanged="publish unchanged", size_bytes=len(call.body))
        return Response("ok" if isinstance(outcome, Unchanged) else "created", keys)

    async def _unarchive(self, call: Call, audit: "_Audit") -> Response:
        outcome = await self._commit(audit, lambda: self._world.prepare_unarchive(call.path))
        audit.done(outcome)
        return Response("ok", {"version": str(outcome.version)})

    async def _append(self, call: Call, audit: "_Audit") -> Response:
        _check_document(call)
        if not call.body:
            raise Fault("server-error", "append requires a body")
        metadata = publisher_metadata(call.metadata)
        expected = _expected(
            call.metadata.get("expected-version", ""),
            least=1,
            fault="invalid expected-version for APPEND (must be >= 1)",
        )
        if expected is None:
            raise Fault("bad-request", "APPEND requires expected-version metadata")
        audit.expected = expected
        outcome = await self._commit(
            audit, lambda: self._world.prepare_append(call.path, call.body, metadata, expected, self._now())
        )
        audit.done(outcome, size_bytes=len(call.body))
        return Response("created", {"modified": rfc3339(outcome.modified), "version": str(outcome.version)})

    async def _archive(self, call: Call, audit: "_Audit") -> Response:
        outcome = await self._commit(audit, lambda: self._world.prepare_archive(call.path))
        audit.done(outcome)
        return Response("ok", {"archived": "true", "version": str(outcome.version)})

    async def _commit(self, audit: "_Audit", prepare: Callable[[], Commit | Unchanged]) -> Commit | Unchanged:
        """Runs one write to its end, in turn. Raises WorldError, and Fault if the turn did not come in time."""
        with trio.move_on_after(self._patience) as waiting:
            await self._turn.acquire()
        if waiting.cancelled_caught:
            raise Fault("server-error", "timed out waiting for an earlier write; nothing was written")
        try:
            with trio.CancelScope(shield=True) as self._running:
                commit = await self._in_thread(prepare)
                if isinstance(commit, Commit):
                    async with self._index:
                        commit.show()
                    self._grown()
                    audit.pruned(await self._in_thread(commit.settle))
            return commit
        finally:
            self._turn.release()

    async def _in_thread(self, step: Callable[[], _T]) -> _T:
        # The task is shielded, so nothing abandons the thread but `close`.
        return await trio.to_thread.run_sync(step, abandon_on_cancel=True, limiter=self._threads)


_HANDLERS: dict[str, Callable[[Writer, Call, "_Audit"], Awaitable[Response]]] = {
    "PUBLISH": Writer._publish,
    "APPEND": Writer._append,
    "ARCHIVE": Writer._archive,
}

VERBS = frozenset(_HANDLERS)
"""The verbs that `Writer.handle` answers."""


class _Audit:
    """The audit line of one write, and the answers that go with its bad ends."""

    def __init__(self, call: Call, label: str) -> None:
        self._call = call
        self._label = label
        self._operation = "unarchive" if call.verb == "PUBLISH" and not call.body else call.verb.lower()
        self.expected: int | None = None

    @property
    def creates(self) -> bool:
        """Whether the write may make a document where none is."""
        return self._operation == "publish"

    def done(self, outcome: Commit | Unchanged, *, unchanged: str = "", **more: object) -> None:
        """The write took effect, or there was nothing to do."""
        message = unchanged if unchanged and isinstance(outcome, Unchanged) else self._operation
        self._line(message, {"version": outcome.version}, True, more)

    def refused(self, fault: Fault) -> Response:
        """The write did not take effect, or not surely."""
        failed = fault.status == "server-error" and fault.detail
        reason = fault.detail if failed else fault.message
        self._line(f"{self._operation} {'failed' if failed else 'rejected'}", {}, False, {"reason": reason})
        return fault.response()

    def conflict(self, current: int) -> Response:
        """The expected version is not the current one (wire §5.4, §5.5)."""
        expected = self.expected or 0
        self._line(
            f"{self._operation} conflict",
            {},
            False,
            {"expected_version": expected, "server_version": current},
        )
        text = _REPLACE_CONFLICT if expected else _CREATE_CONFLICT
        advice = _APPEND_ADVICE if self._call.verb == "APPEND" else _PUBLISH_ADVICE
        body = text.format(expected=expected, current=current, advice=advice)
        return Response(
            "conflict", {"server-version": str(current), "your-version": str(expected)}, body.encode()
        )

    def pruned(self, pruned: Pruned | None) -> None:
        """Retention removed versions, or could not remove all it should have (store §6)."""
        if pruned is None:
            return
        self._call.log(
            "error" if pruned.error else "info",
            "prune incomplete" if pruned.error else "prune",
            audit=True,
            operation="prune",
            path=self._call.shown_path,
            pruned_from=pruned.first,
            pruned_to=pruned.last,
            token_label=self._label,
            success=not pruned.error,
            **({"error": pruned.error} if pruned.error else {}),
        )

    def _line(self, message: str, first: dict[str, object], success: bool, more: dict[str, object]) -> None:
        head = {"audit": True, "operation": self._operation, "path": self._call.shown_path}
        self._call.log("info", message, **head, **first, token_label=self._label, success=success, **more)


def _check_document(call: Call) -> None:
    if not call.path.endswith(".md"):
        raise Fault("bad-request", "publish path must end in .md")
    try:
        call.body.decode("utf-8")
    except UnicodeDecodeError:
        raise Fault("bad-request", "document body must be valid UTF-8 text") from None


def _expected(text: str, *, least: int, fault: str) -> int | None:
    """The number in `expected-version`, None if there is none. Raises Fault with the message `fault`."""
    if not text:
        return None
    # The digits are counted first: `int` refuses thousands of them.
    if not _DECIMAL.fullmatch(text) or len(text.lstrip("+-0")) > 19 or not least <= int(text) <= _LARGEST:
        raise Fault("bad-request", fault)
    return int(text)
