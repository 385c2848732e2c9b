"""The documents of the worlds as resources: a list in pages, and the text behind an address.

For clients whose people pick documents to put before a model. A text that cannot be shown as it is comes as its bytes, whole. Nothing is kept between pages: the cursor is the address of the last document
listed, and the worlds come in the order in which they were given.
"""

import msgspec

from app.agents.answers import LIMIT, Refusal, call, fitting, readable
from app.agents.reading import section_of
from app.agents.worlds import Worlds
from app.protocol.addresses import Address
from app.protocol.paths import sort_key

PAGE = 200


class Listed(msgspec.Struct, frozen=True):
    """A document in the list."""

    uri: str
    name: str
    title: str


class ListPage(msgspec.Struct, frozen=True):
    """Some of the documents, and the cursor of the next page if there are more."""

    documents: list[Listed]
    cursor: str | None


async def list_documents(worlds: Worlds, cursor: str | None) -> ListPage:
    """The documents behind a cursor, world by world in the order of their paths. Raises `Refusal`."""
    after = worlds.address(cursor) if cursor else None
    servers = [host.address for host in worlds.hosts]
    reached = [
        number for number, server in enumerate(servers) if after is not None and server.dial == after.dial
    ]
    if after is not None and not reached:
        raise Refusal("the cursor is none that a list has given")
    found: list[Listed] = []
    for server in servers[reached[0] if reached else 0 :]:
        for row in await worlds.documents(server):
            if after is not None and server.dial == after.dial and sort_key(row.path) <= sort_key(after.path):
                continue
            if len(found) == PAGE:
                return ListPage(found, found[-1].uri)
            uri = Address(server.host, server.port, row.path).identity
            found.append(
                Listed(
                    uri,
                    row.path.encode("utf-8", "replace").decode(),
                    readable(row.title.encode("utf-8", "replace")),
                )
            )
    return ListPage(found, None)


async def read_document(worlds: Worlds, uri: str) -> str | bytes:
    """The text at an address, a section if it names one; cut, and saying so, where it is too long for one answer. Raises `Refusal`.

    A text with control characters, or that is not UTF-8, comes as bytes.
    """
    where = worlds.address(uri)
    response = await worlds.done(where, lambda client: client.fetch(where.path))
    body = section_of(where, response.body)
    if readable(body).encode() != body:
        return body
    end = fitting(body, 0, LIMIT)
    if end == len(body):
        return readable(body)
    following = call("mark_fetch", url=uri, force=True, offset=end)
    end = fitting(body, 0, LIMIT - 200 - len(following))
    following = call("mark_fetch", url=uri, force=True, offset=end)
    return f"{readable(body[:end])}\n[bytes 0 to {end:,} of {len(body):,}; next: {following}]\n"
