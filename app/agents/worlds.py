"""The servers that an agent's calls go to: an address to a connected client, a failure to words that say what to do.

One `Client` per server for as long as the program runs, each with a task of its own that holds it open: calls come and go in tasks that
know nothing of each other. Who gets which token is decided before anything is sent: what was given for a host goes to that host; a server
that only an address named gets what is stored for it in `~/.mark`, and its certificate has to be the pinned one or one that the system
trusts (operations §9).
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import trio

from app.agents.answers import Refusal, call, one_line
from app.agents.survey import documents
from app.client.client import REQUEST_TIMEOUT, Client
from app.client.errors import ClientError, IdentityChanged, Unreachable, Untrusted
from app.client.pins import BadPin, PinFile
from app.client.tokenstore import BadTokenStore, TokenStore
from app.protocol.addresses import Address, BadAddress, parse_address
from app.protocol.answer import Response, message_of
from app.protocol.tables import LookupRow

OK = frozenset({"ok", "created", "not-modified"})


class Host(msgspec.Struct, frozen=True):
    """A server named on the command line, and what it may be shown and has to show. `address` has the path `/`."""

    address: Address
    token: str | None = None
    pin: str | None = None
    insecure: bool = False


class Worlds:
    """The servers of one agent. To be used through `open_worlds`.

    `hosts` are those that were named at the start; a path alone is on the only one of them.
    """

    def __init__(self, hosts: Sequence[Host], nursery: trio.Nursery, patience: float | None) -> None:
        self.hosts = tuple(hosts)
        self._given = {host.address.dial: host for host in hosts}
        self._clients: dict[str, Client] = {}
        self._opening = trio.Lock()
        self._nursery = nursery
        self._patience = patience or REQUEST_TIMEOUT

    def address(self, url: str) -> Address:
        """Where a `url` argument leads. Raises `Refusal`."""
        try:
            if not url.startswith("/"):
                return parse_address(url)
            if len(self.hosts) == 1:
                return parse_address(self.hosts[0].address.identity + url.lstrip("/"))
        except BadAddress as error:
            raise Refusal(str(error)) from None
        if not self.hosts:
            raise Refusal(
                f"{url!r} is a path alone, and no host was given at the start: write mark://host{url}"
            )
        known = ", ".join(host.address.identity for host in self.hosts)
        raise Refusal(
            f"{url!r} is a path alone, and there are several worlds: put one of them before it ({known})"
        )

    async def ask(self, where: Address, request: Callable[[Client], Awaitable[Response]]) -> Response:
        """The answer of the server at an address to a request, whatever its status. Raises `ClientError`, `Refusal`."""
        return await request(await self._client(where))

    async def done(
        self, where: Address, request: Callable[[Client], Awaitable[Response]], *, folder: bool = False
    ) -> Response:
        """The same, but an answer that is no success is a `Refusal` that says why and what to do; so is no answer.

        `folder`: the request is for a folder, and says nothing of a document that may be at the address.
        """
        try:
            response = await self.ask(where, request)
        except ClientError as error:
            raise Refusal(told(error, where)) from error
        if response.status not in OK:
            raise Refusal(refusal(response, where, folder=folder))
        return response

    async def ready(self, host: Host) -> str:
        """Whether a server that was named at the start answers, in words for the person who started this."""
        shown = ""

        async def health(client: Client) -> Response:
            nonlocal shown
            response = await client.fetch("/health")
            shown = client.fingerprint
            return response

        where = host.address
        try:
            response = await self.ask(where, health)
        except Unreachable as error:
            return f"not ready: {error}; each call asks again"
        except ClientError as error:
            return f"not ready: {told(error, where)}"
        if response.status not in OK:
            return f"not ready: {where.identity}: it answers {response.status or 'nothing'}: {one_line(message_of(response))}"
        return f"ready: {where.identity}" + (f" (fingerprint {shown})" if shown else "")

    async def documents(self, where: Address) -> list[LookupRow]:
        """The rows of all documents below the folder at an address, sorted by path. Raises `Refusal`."""
        return await documents(partial(self.done, where, folder=True), where.path)

    async def _client(self, where: Address) -> Client:
        async with self._opening:
            client = self._clients.get(where.dial)
            if client is None:
                client = self._clients[where.dial] = await self._nursery.start(_hold, self._new(where))
            return client

    def _new(self, where: Address) -> Client:
        host = self._given.get(where.dial) or _linked(where)
        return Client(
            where.host,
            where.port,
            insecure=host.insecure,
            pin=host.pin,
            token=host.token,
            timeout=self._patience,
        )


@asynccontextmanager
async def open_worlds(hosts: Sequence[Host], *, patience: float | None = None) -> AsyncIterator[Worlds]:
    """The servers of one agent; every connection is closed at the end. `patience` is for each request, in seconds."""
    async with trio.open_nursery() as nursery:
        yield Worlds(hosts, nursery, patience)
        nursery.cancel_scope.cancel()


async def _hold(client: Client, *, task_status: trio.TaskStatus[Client]) -> None:
    """Keeps a client open until the end, in the one task that may close it."""
    async with client:
        task_status.started(client)
        await trio.sleep_forever()


def _linked(where: Address) -> Host:
    """A server that nobody named at the start. Raises `Refusal` if what is kept for it cannot be read."""
    try:
        return Host(where, TokenStore().get(where.dial), PinFile().get(where.dial))
    except (BadTokenStore, BadPin, OSError) as error:
        raise Refusal(f"what is kept for {where.dial} cannot be read: {error}") from error


def refusal(response: Response, where: Address, *, folder: bool = False) -> str:
    """What an answer that is no success says, and what can be done about it; `folder` as for `Worlds.done`."""
    hint = {
        "unauthorized": "A token is needed, or the one in use is unknown or has expired. Whoever set up this connection gives one.",
        "not-permitted": "The token in use does not cover this. Whoever runs the server can change that.",
        "archived": "It is archived: its versions can be fetched by number, and an empty text published to it brings it back.",
        "not-found": "It is not there, or not for this token to see.",
        "rate-limited": "Wait a moment before the next call.",
    }.get(response.status, "")
    if folder and response.status == "not-found" and where.path.endswith(".md"):
        hint = (
            "This call takes a folder; whether there is such a document was not asked. To search one document use `map` with `search`, "
            f"to read it `mark_fetch`.\nnext: {call('map', url=where.identity, search='your task in your own words')}"
        )
    said = f"status: {response.status or 'none'}\n\n{where.identity}: {one_line(message_of(response))}\n"
    return f"{said}{hint}\n" if hint else said


def told(error: ClientError, where: Address) -> str:
    """What stands between this program and an answer, and who can do something about it."""
    match error:
        case Untrusted():
            return (
                f"{error}. The certificate shown has the fingerprint {error.fingerprint}. A person has to compare it with the server's own "
                f"and pin it, on the machine this runs on: demarkus-appliance fetch --pin {error.fingerprint} "
                f"{Address(where.host, where.port, '/health')}"
            )
        case IdentityChanged():
            return (
                f"{error}. Nothing was sent. A person has to find out why before this server is used again."
            )
        case Unreachable():
            return f"{error}. Nothing was changed there; this call may be tried again later."
    return str(error)
