"""From the bytes of a request to the bytes of its answer, in the order of wire §4.

    parse → `..` → WATCH → canonical path → token table → /health → reads (permission first) | writes (read-only, reserved path, token, verb)

Reads that are quick answer on the event loop, without a task; those that may read many files run in threads, writes in the one writer. What a
handler raises becomes an answer here: a fault knows its own, an error of the world has its row in `statuses`. Anything else is a bug and goes up to
the endpoint, where it costs one stream.
"""

import math
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext

import trio

from app.protocol.answer import Response
from app.protocol.fault import Fault, not_found, unreadable
from app.protocol.message import encode_response, parse_request
from app.protocol.paths import canonical, has_parent_segment, hash_of, split_version
from app.protocol.text import Log
from app.server import lookups, reads, writes
from app.server.call import Call, shown
from app.server.endpoint import Exchange
from app.server.statuses import fault_of
from app.server.writes import Writer
from app.world.errors import WorldError
from app.world.tokens import TokenTable, access
from app.world.world import World

_READS: dict[str, Callable[[World, Call], Response]] = {
    "FETCH": reads.fetch,
    "LIST": reads.list_directory,
    "VERSIONS": reads.versions,
}

_LISTED_INLINE = 500
"""Documents in a world up to which a listing is quick enough for the event loop; it asks the disk about each entry."""

_LATE = Fault("server-error", "internal error", "the request deadline passed")

_TIDY_PAUSE = 0.02
"""Seconds between two steps of tidying: requests come first."""

_READERS = 4
"""Threads for reads: as many as a board has cores."""


class Dispatcher:
    """Answers requests about one world.

    `tokens` is the table in force, None when no token file is configured. `now` gives the wall clock in seconds since 1970; `timeout` is the
    deadline of a request in seconds, 0 = none. `index` is held while the indexes change or a thread reads them.
    """

    def __init__(
        self,
        world: World,
        *,
        tokens: TokenTable | None,
        read_only: bool,
        now: Callable[[], float],
        timeout: float,
        log: Log,
    ) -> None:
        # Held while a thread reads the indexes, and while they change: they know one thread at a time.
        self.index = trio.Lock()
        self.writer = Writer(world, index=self.index, now=now, patience=timeout, grown=self.grown)
        self._untidy = trio.Event()
        self.world = world
        self._tokens = tokens
        self._read_only = read_only
        self._now = now
        self._timeout = timeout or math.inf
        self._log = log
        self._readers = trio.CapacityLimiter(_READERS)

    def grown(self) -> None:
        """The indexes have changed, and may be tidied."""
        self._untidy.set()

    async def tidy(self) -> None:
        """Tidies the indexes after changes, a few milliseconds at a time, until cancelled."""
        while True:
            await self._untidy.wait()
            self._untidy = trio.Event()
            more = True
            while more:
                await trio.sleep(_TIDY_PAUSE)
                async with self.index:
                    more = self.world.fold()

    def use_world(self, world: World) -> None:
        """Answers the requests to come from another world; running ones keep theirs. Only while writes and `index` are held."""
        self.world = world
        self.writer.use_world(world)

    def use_tokens(self, tokens: TokenTable) -> None:
        """Puts another token table into force for the requests to come; running ones keep theirs (wire §7.5)."""
        self._tokens = tokens

    def answer(self, exchange: Exchange) -> Awaitable[None] | None:
        """Answers an exchange of the endpoint, at once or by the awaitable that comes back."""
        if exchange.fault:
            self._log("error", "parse request failed", error=exchange.fault)
            exchange.send(encode_response(unreadable(exchange.fault).response()))
            return None
        response = self.respond(exchange.request)
        if isinstance(response, Response):
            exchange.send(encode_response(response))
            return None
        return _send_later(exchange, response)

    def respond(self, data: bytes) -> Response | Awaitable[Response]:
        """The answer to the bytes of one request, or the work that leads to it."""
        try:
            request = parse_request(data)
            if has_parent_segment(request.path):
                self._log("warn", "path traversal attempt blocked", path=shown(request.path))
                return not_found(request.path).response()
            if request.verb == "WATCH":
                raise Fault("bad-request", "unsupported verb: WATCH")
        except Fault as fault:
            return self._malformed(fault)
        path = canonical(request.path)
        call = Call(
            verb=request.verb,
            path=path,
            metadata=request.metadata,
            body=request.body,
            access=access(self._tokens, request.metadata.get("auth"), self._now()),
            log=self._log,
        )
        self._log("info", "request", verb=call.verb, path=call.shown_path)
        if path == "/health" and call.verb == "FETCH":
            return reads.HEALTHY
        if call.verb in writes.VERBS:
            return self._write(call)
        if call.verb == "LOOKUP":
            return self._lookup(call)
        return self._read_later(call) or self._read(call)

    def _malformed(self, fault: Fault) -> Response:
        level, message = (
            ("error", "parse request failed")
            if fault.status == "server-error"
            else ("warn", "malformed request")
        )
        self._log(level, message, error=shown(fault.detail or fault.message))
        return fault.response()

    def _read_later(self, call: Call) -> Awaitable[Response] | None:
        """The work of a read that is too long for the event loop; None for one that opens a single file or lists a small world."""
        if call.verb == "VERSIONS":
            return self._in_thread(call, nullcontext())
        may_list = call.verb == "LIST" or (
            call.verb == "FETCH"
            and not (call.path.endswith(".md") or hash_of(call.path) or split_version(call.path))
        )
        if may_list and len(self.world.catalog) > _LISTED_INLINE:
            return self._in_thread(call, self.index)
        return None

    def _read(self, call: Call) -> Response:
        try:
            return _READS[call.verb](self.world, call)
        except (Fault, WorldError) as error:
            return self._refused(call, error)

    async def _in_thread(self, call: Call, lock: AbstractAsyncContextManager[object]) -> Response:
        with trio.move_on_after(self._timeout):
            async with lock:
                return await trio.to_thread.run_sync(
                    self._read, call, limiter=self._readers, abandon_on_cancel=True
                )
        return self._refused(call, _LATE)

    def _lookup(self, call: Call) -> Response | Awaitable[Response]:
        """The rows, if they are found within a turn, else the work that leads to them."""
        if not lookups.is_long(call):
            try:
                response = lookups.at_once(lookups.lookup(self.world, call))
            except (Fault, WorldError) as error:
                return self._refused(call, error)
            if response is not None:
                return response
        return self._in_turns(call)

    async def _in_turns(self, call: Call) -> Response:
        with trio.move_on_after(self._timeout):
            async with self.index:
                try:
                    return await lookups.in_turns(lookups.lookup(self.world, call), self._readers)
                except (Fault, WorldError) as error:
                    return self._refused(call, error)
        return self._refused(call, _LATE)

    def _write(self, call: Call) -> Response | Awaitable[Response]:
        try:
            if self._read_only:
                raise Fault("not-permitted", "server is read-only")
            if hash_of(call.path) is not None:
                raise Fault("bad-request", "paths matching /sha256-<hash> are reserved")
            label = call.access.check_write(call.path, call.verb)
        except Fault as fault:
            return self._refused(call, fault)
        return self.writer.handle(call, label)

    def _refused(self, call: Call, error: Fault | WorldError) -> Response:
        """The answer to an error, with the line that it leaves in the log (operations §5)."""
        fault = error if isinstance(error, Fault) else fault_of(error, call.path)
        if fault.status in ("unauthorized", "not-permitted"):
            self._log("warn", fault.status, operation=call.verb, path=call.shown_path)
        elif fault.status == "server-error":
            self._log(
                "error", "request failed", operation=call.verb, path=call.shown_path, error=fault.detail
            )
        elif fault.status == "not-found" and call.verb == "FETCH" and hash_of(call.path):
            self._log("info", "hash not found", hash=call.path[1:])
        elif fault.status in ("not-found", "archived"):
            self._log("info", fault.status.replace("-", " "), path=call.shown_path)
        return fault.response()


async def _send_later(exchange: Exchange, response: Awaitable[Response]) -> None:
    exchange.send(encode_response(await response))
