"""`mark_explore`, `mark_backlinks`: from a document along its links, forwards and backwards.

Forwards is one request. Backwards, every document of the world has to be read, since no server keeps such a list: they are read in the order of
their paths, so many for each call, and the cursor says how far that has come. Nothing is kept between calls; an answer is true when it is given.
"""

from collections.abc import Sequence

import msgspec
import trio

from app.agents.answers import LIMIT, Answer, Refusal, at_most, call, head, page
from app.agents.arguments import UNSET, Backlinks, Explore
from app.agents.linking import Link, document, leading_to, links
from app.agents.worlds import Worlds, told
from app.client.errors import ClientError
from app.protocol.addresses import Address, BadAddress, parse_address
from app.protocol.paths import sort_key

EXAMINED = 400
"""Documents read for one call: with a server's usual rate, six seconds of it."""

_AT_ONCE = 8  # of a server's ten streams
_OUT, _IN = "out:", "in:"
_NO_CURSOR = "`cursor` is none that an answer has given"


class _Part(msgspec.Struct):
    """Lines of links, what to say of them, and where the next call has to go on."""

    lines: list[str]
    said: dict[str, object] = {}
    cursor: str | None = None
    left: int = LIMIT // 3
    """Tokens there are for further lines."""

    def add(self, line: str, most: int) -> bool:
        """Takes one more line, if there is room; the first one always has it."""
        self.left -= at_most(line) + 1
        fits = not self.lines or (self.left >= 0 and len(self.lines) < most)
        if fits:
            self.lines.append(line)
        return fits


async def explore(worlds: Worlds, given: Explore) -> Answer:
    """The links from and to a document, a page of them."""
    where = document(worlds.address(given.url))
    cursor = "" if given.cursor is UNSET else given.cursor
    if cursor and not cursor.startswith((_OUT, _IN)):
        raise Refusal(_NO_CURSOR)
    parts = []
    left = given.page_size
    if given.direction != "incoming" and not cursor.startswith(_IN):
        parts.append(await _outgoing(worlds, where, given, cursor.removeprefix(_OUT), left))
        left -= len(parts[0].lines)
    if given.direction != "outgoing" and not (parts and parts[0].cursor):
        after = _place_of(cursor.removeprefix(_IN)) if cursor.startswith(_IN) else None
        # A page that is full already leaves the incoming links to the next one, which begins before the first document.
        parts.append(
            await _incoming(worlds, where, given.relations, after, left)
            if left
            else _Part([], cursor=f"{_IN}{_first(where)}")
        )
    arguments: dict[str, object] = {
        "url": given.url,
        "direction": given.direction,
        "relations": given.relations or None,
        "page_size": given.page_size,
    }
    keys: dict[str, object] = {"document": where.identity}
    for part in parts:
        keys |= part.said
    following = next((part.cursor for part in parts if part.cursor), None)
    return _answer(
        "mark_explore", arguments, keys, [line for part in parts for line in part.lines], following
    )


def _first(where: Address) -> str:
    return Address(where.host, where.port, "/").identity


async def backlinks(worlds: Worlds, given: Backlinks) -> Answer:
    """The links to a document, from the documents of its world."""
    where = document(worlds.address(given.url))
    cursor = "" if given.cursor is UNSET else given.cursor
    if cursor and not cursor.startswith(_IN):
        raise Refusal(_NO_CURSOR)
    after = _place_of(cursor.removeprefix(_IN)) if cursor else None
    part = await _incoming(worlds, where, (), after, 100)
    return _answer(
        "mark_backlinks",
        {"url": given.url},
        {"document": where.identity, **part.said},
        part.lines,
        part.cursor,
    )


async def _outgoing(worlds: Worlds, where: Address, given: Explore, after: str, most: int) -> _Part:
    response = await worlds.done(where, lambda client: client.fetch(where.path))
    if after and not (after.isdecimal() and len(after) < 10):
        raise Refusal(_NO_CURSOR)
    start = int(after or 0)
    found = [
        one for one in links(where, response.metadata, response.body) if _is_of_kind(one, given.relations)
    ]
    part = _Part([])
    for one in found[start:]:
        if not part.add(f"to    {one.relation:<8} {one.text}", most):
            break
    end = start + len(part.lines)
    keys = ("version", "title", "tags") if given.verbose else ()
    part.said = {key: response.metadata.get(key) for key in keys}
    part.said["outgoing"] = f"{len(part.lines)} of {len(found)}" + (
        f", from number {start + 1} on" if start else ""
    )
    part.cursor = f"{_OUT}{end}" if end < len(found) else None
    return part


async def _incoming(
    worlds: Worlds, where: Address, relations: Sequence[str], after: Address | None, most: int
) -> _Part:
    """Links from the documents behind `after` in path order, one line for each, until there are enough or enough documents were read."""
    rows = await worlds.documents(Address(where.host, where.port, "/"))
    places = [Address(where.host, where.port, row.path) for row in rows if row.path != where.path]
    start = sum(sort_key(place.path) <= sort_key(after.path) for place in places) if after is not None else 0
    last = min(start + EXAMINED, len(places))
    part = _Part([])
    examined, unread = start, 0
    while examined < last and len(part.lines) < most and part.left > 0:
        batch = places[examined : min(examined + _AT_ONCE, last)]
        for place, found in zip(batch, await _read(worlds, batch), strict=True):
            kinds = dict.fromkeys(
                one.relation for one in leading_to(found or (), where) if _is_of_kind(one, relations)
            )
            if kinds and not part.add(f"from  {', '.join(kinds):<8} {place.identity}", most):
                break
            unread += found is None
            examined += 1
    part.said = {
        "incoming": f"{len(part.lines)} found",
        "examined": f"documents {start + 1:,} to {examined:,} of {len(places):,}"
        if examined > start
        else "no other document",
        "unread": f"{unread} of them could not be read" if unread else None,
    }
    part.cursor = f"{_IN}{places[examined - 1].identity}" if examined < len(places) else None
    return part


async def _read(worlds: Worlds, places: Sequence[Address]) -> list[list[Link] | None]:
    """The links of each document; None for one that cannot be read (it may just have been archived). Raises `Refusal`."""
    found: list[list[Link] | None] = [None] * len(places)
    broken: list[Refusal] = []

    async def one(number: int, place: Address) -> None:
        try:
            response = await worlds.ask(place, lambda client: client.fetch(place.path))
        except ClientError as error:
            broken.append(Refusal(told(error, place)))
            return
        if response.status == "ok":
            found[number] = links(place, response.metadata, response.body)

    async with trio.open_nursery() as nursery:
        for number, place in enumerate(places):
            nursery.start_soon(one, number, place)
    if broken:
        raise broken[0]
    return found


def _is_of_kind(link: Link, relations: Sequence[str]) -> bool:
    return not relations or link.relation in relations


def _place_of(cursor: str) -> Address:
    try:
        return parse_address(cursor)
    except BadAddress:
        raise Refusal(_NO_CURSOR) from None


def _answer(
    tool: str, arguments: dict[str, object], keys: dict[str, object], lines: Sequence[str], cursor: str | None
) -> Answer:
    note = f"[there is more; next: {call(tool, **arguments, cursor=cursor)}]" if cursor else ""
    return page(head("ok", keys), "".join(f"{line}\n" for line in lines) or "no links\n", note)
