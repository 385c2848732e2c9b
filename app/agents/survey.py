"""Every document of a world that a caller may read, over the network, with as few requests as that takes.

LOOKUP with a star gives title, tags and importance of up to 1,000 documents at once. A folder with more of them is taken apart by LIST; what
lies in a hidden folder (a name that begins with a dot) is then not seen, since LIST does not name it.
"""

from collections.abc import Awaitable, Callable

from app.client.client import Client
from app.protocol.answer import Response
from app.protocol.limits import LOOKUP_LIMIT_MAX
from app.protocol.paths import sort_key
from app.protocol.tables import LookupRow, parse_listing, parse_lookup_body

Ask = Callable[[Callable[[Client], Awaitable[Response]]], Awaitable[Response]]
"""Gives the answer to a request, and raises for one that is no success."""

_FOLDERS_MAX = 2_000


async def documents(ask: Ask, scope: str) -> list[LookupRow]:
    """The rows of all documents below a folder, sorted by path. Raises what `ask` raises."""
    found: dict[str, LookupRow] = {}
    folders = [scope.rstrip("/") + "/"]
    asked = 0
    while folders and asked < _FOLDERS_MAX:
        folder = folders.pop()
        asked += 1
        rows = await _all_below(ask, folder)
        found.update((row.path, row) for row in rows)
        if len(rows) >= LOOKUP_LIMIT_MAX:
            for name in await _names(ask, folder):
                path = folder + name
                if name.endswith("/"):
                    folders.append(path)
                else:
                    found.setdefault(path, LookupRow(path, "", 0.5, name, (), ""))
    return [found[path] for path in sorted(found, key=sort_key)]


async def _all_below(ask: Ask, folder: str) -> list[LookupRow]:
    answer = await ask(lambda client: client.lookup(folder, "*", limit=LOOKUP_LIMIT_MAX))
    return parse_lookup_body(answer.body)


async def _names(ask: Ask, folder: str) -> list[str]:
    """What is in a folder."""
    names: list[str] = []
    cursor: str | None = None
    while True:
        answer = await _page(ask, folder, cursor)
        page = parse_listing(answer.body)
        names += page
        cursor = answer.metadata.get("next-cursor")
        if not cursor or not page:
            return names


async def _page(ask: Ask, folder: str, cursor: str | None) -> Response:
    return await ask(lambda client: client.list(folder, cursor=cursor))
