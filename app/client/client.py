"""A Mark Protocol client for one server: one method per verb, over one pooled connection.

    async with Client("board.local", pin="sha256:…", token=token) as client:
        response = await client.fetch("/docs/index.md")

Requests may run side by side; each has its own stream. An answer with an error status is a `Response`; what stands between a client
and any answer is a `ClientError`. There is no cache: a cache of this protocol asks the server on every read anyway (operations §9), so that
leaving it out costs bandwidth and nothing else; `if_none_match` is there for those who keep their own copy.

Retries follow wire §1.15. A read is sent again after any failure of the connection or the stream, up to 5 times 100 ms apart; a
write only when no byte of it has left, else its outcome is unknown. Time (wire §1.14): 10 s for a connection, 10 s for a request
with all its repetitions; whoever runs out of time is not tried again.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

import trio

from app.client import quic
from app.client.errors import BadAnswer, IdentityChanged, OutcomeUnknown, Unreachable, Untrusted
from app.protocol.addresses import Address
from app.protocol.fault import Fault
from app.protocol.limits import DEFAULT_PORT, LOOKUP_TERMS_MAX, RESPONSE_MAX
from app.protocol.message import Request, Response, encode_request, parse_response
from app.protocol.runes import WORD, fields, lower, trim

ATTEMPTS = 5
PAUSE = 0.1  # seconds between attempts
DIAL_TIMEOUT = 10.0  # seconds
REQUEST_TIMEOUT = 10.0  # seconds
FRESH = (
    2.0  # a pooled connection quiet for longer proves itself before it is used: its server may have restarted
)
PROOF = 1.0  # seconds for that proof

_WRITES = {"PUBLISH", "APPEND", "ARCHIVE"}


class Client:
    """One server, one connection. To be used as an async context manager, in one task or several below it.

    `pin` (`sha256:…`) takes exactly that certificate, whatever its names, dates and authority; without it the certificate is
    verified against the system's roots, or not at all with `insecure`. `token` goes out with every request, reads too; its owner
    has to see to it that it is meant for this server. `timeout` is in seconds and for a request; a connection may take
    as long, but at most 10.
    """

    def __init__(
        self,
        host: str,
        port: int = DEFAULT_PORT,
        *,
        insecure: bool = False,
        pin: str | None = None,
        token: str | None = None,
        timeout: float = REQUEST_TIMEOUT,
    ) -> None:
        self._host = host
        self._port = port
        self._where = Address(host, port, "/").dial
        self._insecure = insecure
        self._pin = pin
        self._token = token
        self._timeout = timeout
        self._connection: quic.Connection | None = None
        self._dialling = trio.Lock()
        self._manager: AbstractAsyncContextManager[trio.Nursery, bool | None] | None = None
        self._nursery: trio.Nursery

    async def __aenter__(self) -> Self:
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._manager is not None
        if self._connection is not None:
            self._connection.close()
        self._nursery.cancel_scope.cancel()
        # The nursery holds only pumps, which never raise. Not told of the body's error, it does not wrap it in a group.
        await self._manager.__aexit__(None, None, None)

    @property
    def fingerprint(self) -> str:
        """Of the certificate of the last connection; empty before there was one."""
        return "" if self._connection is None else self._connection.fingerprint

    async def fetch(
        self,
        path: str,
        *,
        if_none_match: str | None = None,
        if_modified_since: str | None = None,
        include_archived: bool = False,
    ) -> Response:
        """FETCH (wire §5.1): a document, a version (`/vN`), a content address or a directory."""
        conditions = {"if-none-match": if_none_match, "if-modified-since": if_modified_since}
        return await self._ask(
            "FETCH", path, {**conditions, "include-archived": "true" if include_archived else None}
        )

    async def list(
        self,
        path: str,
        *,
        include_archived: bool = False,
        cursor: str | None = None,
        page_size: int | None = None,
    ) -> Response:
        """LIST (wire §5.2): one page."""
        keys = {
            "include-archived": "true" if include_archived else None,
            "cursor": cursor,
            "page-size": None if page_size is None else str(page_size),
        }
        return await self._ask("LIST", path, keys)

    async def versions(self, path: str) -> Response:
        """VERSIONS (wire §5.3)."""
        return await self._ask("VERSIONS", path, {})

    async def lookup(
        self,
        scope: str,
        query: str,
        *,
        filters: str | None = None,
        limit: int | None = None,
        match: str | None = None,
    ) -> Response:
        """LOOKUP (wire §5.7)."""
        keys = {
            "query": query,
            "filter": filters,
            "limit": None if limit is None else str(limit),
            "match": match,
        }
        return await self._ask("LOOKUP", scope, keys)

    async def task(
        self, scope: str, query: str, *, filters: str | None = None, limit: int | None = None
    ) -> Response:
        """LOOKUP for a task in one's own words (task §2).

        A server that does not know such a search is asked once more for sections by their text; the answer's `match` tells.
        """
        response = await self.lookup(scope, query, filters=filters, limit=limit, match="task")
        if response.status == "bad-request" and _is_lookup(query):
            return await self.lookup(scope, query, filters=filters, limit=limit, match="body")
        return response

    async def publish(
        self,
        path: str,
        body: bytes,
        *,
        expected_version: int | None,
        metadata: Mapping[str, str] | None = None,
    ) -> Response:
        """PUBLISH (wire §5.4). `expected_version` None overwrites whatever is there, 0 creates; an empty body un-archives."""
        return await self._ask("PUBLISH", path, _writing(expected_version, metadata), body)

    async def append(
        self, path: str, body: bytes, *, expected_version: int, metadata: Mapping[str, str] | None = None
    ) -> Response:
        """APPEND (wire §5.5)."""
        return await self._ask("APPEND", path, _writing(expected_version, metadata), body)

    async def archive(self, path: str) -> Response:
        """ARCHIVE (wire §5.6)."""
        return await self._ask("ARCHIVE", path, {})

    async def _ask(self, verb: str, path: str, keys: Mapping[str, str | None], body: bytes = b"") -> Response:
        given = {key: value for key, value in keys.items() if value is not None}
        if self._token is not None:
            given["auth"] = self._token
        return await self.request(Request(verb, path, given, body))

    async def request(self, request: Request) -> Response:
        """Sends any request, as it is, and gives its answer.

        Raises `ValueError` before anything is sent for a path that would not arrive as it is (a line break in it, too long), and a
        `ClientError`: `Unreachable`, `Untrusted`, `IdentityChanged`, `OutcomeUnknown` (writes), `BadAnswer`.
        """
        data = await self._deliver(encode_request(request), repeatable=request.verb not in _WRITES)
        try:
            return parse_response(data)
        except Fault as fault:
            raise BadAnswer(
                self._where, f"the answer cannot be read ({fault.detail or fault.message})"
            ) from fault

    async def _deliver(self, request: bytes, *, repeatable: bool) -> bytes:
        """The attempts of one request."""
        reason = ""
        left = self._timeout
        for attempt in range(ATTEMPTS):
            if attempt:
                await trio.sleep(PAUSE)
            try:
                connection = await self._usable()
            except quic.HandshakeFailed as failure:
                if failure.fingerprint is not None:
                    raise Untrusted(self._where, failure.reason, failure.fingerprint) from failure
                if failure.timed_out:
                    raise Unreachable(self._where, failure.reason) from failure
                reason = failure.reason
                continue
            started = trio.current_time()
            try:
                answer = await connection.exchange(request, left)
            except quic.TooLarge as error:
                raise BadAnswer(self._where, f"the answer is larger than {RESPONSE_MAX} bytes") from error
            except quic.Lost as lost:
                if lost.sent and not repeatable:
                    raise OutcomeUnknown(
                        self._where, f"{lost.reason}; whether the write was done is unknown"
                    ) from lost
                if isinstance(lost, quic.TimedOut):
                    raise Unreachable(self._where, f"no answer within {self._timeout:g} s") from lost
                reason = lost.reason
            else:
                if answer:
                    return answer
                # A server that is closing, or an old one over its rate, ends the stream without a byte (wire §1.17, §12).
                reason = "the server gave an empty answer"
                if not repeatable:
                    raise OutcomeUnknown(self._where, f"{reason}; whether the write was done is unknown")
            left -= trio.current_time() - started
            if left <= 0:
                break
        raise Unreachable(self._where, reason)

    async def _usable(self) -> quic.Connection:
        """The pooled connection if it is in good health, else a new one whose certificate has been checked."""
        async with self._dialling:
            pooled = self._connection
            if pooled is not None:
                fresh = pooled.usable and (pooled.busy or trio.current_time() - pooled.heard <= FRESH)
                if fresh or await pooled.alive(PROOF):
                    return pooled
                pooled.close()
            verify = not self._insecure and self._pin is None
            connection = await quic.dial(
                self._nursery, self._host, self._port, verify=verify, within=min(DIAL_TIMEOUT, self._timeout)
            )
            if self._pin is not None and not self._insecure and connection.fingerprint != self._pin:
                connection.close()
                raise IdentityChanged(self._where, self._pin, connection.fingerprint)
            self._connection = connection
            return connection


def _is_lookup(query: str) -> bool:
    """Whether a query passes the checks of the other modes (lookup §3.1), and has a word for them to look for.

    Without one they find nothing, which would read as proof that there is nothing.
    """
    text = trim(query)
    few = len(set(fields(lower(text)))) <= LOOKUP_TERMS_MAX
    return few and any(len(word) > 1 for word in WORD.findall(text))


def _writing(expected_version: int | None, metadata: Mapping[str, str] | None) -> dict[str, str | None]:
    return {
        **(metadata or {}),
        "expected-version": None if expected_version is None else str(expected_version),
    }
