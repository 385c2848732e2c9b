"""`mark_fetch`, `mark_list`, `mark_versions`: what is there, in pieces an agent can afford.

A large document is answered with its outline, so that the next call fetches the one section that matters; whoever wants the text gets it, in
pages if it is long. A page names the version that it was cut from: the pages of a document that is written to meanwhile are still those of one
text.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import accumulate

from app.agents.answers import (
    Answer,
    Refusal,
    at_most,
    boundary,
    call,
    fitting,
    head,
    hidden,
    one_line,
    page,
    readable,
    room,
)
from app.agents.arguments import UNSET, Fetch, Listing, Versions
from app.agents.worlds import Worlds
from app.markdown.outline import Heading, find, nearest, outline
from app.protocol.addresses import Address
from app.protocol.answer import Response
from app.protocol.limits import LIST_PAGE_MAX
from app.protocol.paths import split_version
from app.protocol.tables import parse_listing, parse_versions

OUTLINE_OVER = 8192
"""Bytes above which a document is answered with its outline."""

_OUTLINE_ROOM = 6_000  # tokens
_HEADING_MAX = 120  # characters of a heading, and of an anchor, that an outline shows
_COUNTED_PAGES = 10  # further pages of a folder that are asked for to count what is in it


async def fetch(worlds: Worlds, given: Fetch) -> Answer:
    """A document, a section, a version or a folder: its text, or the outline of a large document."""
    where = worlds.address(given.url)
    response = await worlds.done(where, lambda client: client.fetch(where.path))
    body = section_of(where, response.body)
    if where.fragment:
        return _text(where, response, body, given)
    wanted = given.force or given.offset or "version" not in response.metadata  # a listing has no version
    headings = outline(body) if len(body) > OUTLINE_OVER and not wanted else []
    if headings:
        return _outline(where, response, headings, given)
    return _text(where, response, body, given)


def section_of(where: Address, body: bytes) -> bytes:
    """The section that the fragment of an address names, or all of the body without one. Raises `Refusal` naming what there is."""
    if not where.fragment:
        return body
    headings = outline(body)
    found = find(headings, where.fragment)
    if found is None:
        near = nearest(headings, where.fragment) or [one.anchor for one in headings if one.anchor][:10]
        if not near:
            raise Refusal(
                f"there is no section #{where.fragment}: {where.identity} has no sections; fetch it without #"
            )
        known = ", ".join(f"#{anchor[:_HEADING_MAX]}" for anchor in near)
        best = call("mark_fetch", url=_with(where, near[0]))
        raise Refusal(
            f"there is no section #{where.fragment} in {where.identity}; there is {known}\nnext: {best}"
        )
    return body[found.start : found.end]


def _text(where: Address, response: Response, body: bytes, given: Fetch) -> Answer:
    """The body from the offset on, as far as it fits."""
    size = len(body)
    start = boundary(body, given.offset)
    if start >= size > 0 or given.offset > size:
        raise Refusal(f"`offset` {given.offset} is at or behind the end: {where} has {size} bytes")
    keys = _keys(response, given.verbose)
    top = head(response.status, keys)
    following = call("mark_fetch", url=_of_one_version(where, response), force=True, offset=size)
    end = fitting(body, start, room(top, following, exact := _exact(where, body)))
    if start == 0 and end == size:
        return page(top, readable(body), exact)
    top = head(response.status, {**keys, "shown": f"bytes {start:,} to {end:,} of {size:,}"})
    note = f"[bytes {start:,} to {end:,} of {size:,}"
    if end < size:
        note += f"; next: {call('mark_fetch', url=_of_one_version(where, response), force=True, offset=end)}"
    return page(top, readable(body[start:end]), f"{note}]\n{exact}".rstrip("\n"))


def _exact(where: Address, body: bytes) -> str:
    """Where the bytes of a text are to be had that cannot be shown as it is; nothing for any other."""
    count = hidden(body)
    if not count:
        return ""
    are = "control character is" if count == 1 else "control characters are"
    return f"[{count:,} {are} written like <U+001B>; the bytes themselves: resource {where}]"


def _outline(where: Address, response: Response, headings: Sequence[Heading], given: Fetch) -> Answer:
    """The headings with their sizes, as many as fit: all of them, or down to some level, or the first ones."""
    chosen, missing = _affordable(headings)
    size = len(response.body)
    of = f"{len(chosen)} of {len(headings)} sections"
    if missing is None and len(chosen) < len(headings):
        of += f", down to level {max(one.level for one in chosen)}"
    outlined = f"{of}; the text has {size:,} bytes, over {OUTLINE_OVER:,}"
    top = head(response.status, {**_keys(response, given.verbose), "outline": outlined})
    before = [f"{headings[0].start:>9,}  (before the first heading)"] if headings[0].start else []
    lines = ["    bytes  section", *before, *map(_line, chosen)]
    first = next((one.anchor for one in chosen if _addressable(one)), "")
    after = [f"one section: {call('mark_fetch', url=_with(where, first))}"] if first else []
    if missing is not None:
        onwards = call("mark_fetch", url=_of_one_version(where, response), force=True, offset=missing)
        after.append(f"the text from the next section on: {onwards}")
    after.append(f"the whole text: {call('mark_fetch', url=str(where), force=True)}")
    return page(top, "\n".join(lines) + "\n", "\n".join(after))


def _affordable(headings: Sequence[Heading]) -> tuple[Sequence[Heading], int | None]:
    """The headings down to the deepest level that fits; or the first ones that fit, and where the next one begins."""
    for level in sorted({one.level for one in headings}, reverse=True):
        chosen = [one for one in headings if one.level <= level]
        # A line has at least twelve bytes: what cannot fit need not be written to know it.
        if len(chosen) * 6 <= _OUTLINE_ROOM and _size(chosen) <= _OUTLINE_ROOM:
            return chosen, None
    sizes = accumulate(_size([one]) for one in headings)
    count = next(number for number, size in enumerate(sizes) if size > _OUTLINE_ROOM)
    return headings[:count], headings[count].start


def _size(headings: Sequence[Heading]) -> int:
    return sum(at_most(_line(one)) + 1 for one in headings)


def _line(heading: Heading) -> str:
    text = one_line(heading.text)
    shown = text if len(text) <= _HEADING_MAX else f"{text[:_HEADING_MAX]}…"
    anchor = f"#{heading.anchor}  " if _addressable(heading) else ""
    return f"{heading.end - heading.start:>9,}  {'  ' * (heading.level - 1)}{anchor}{shown}"


def _addressable(heading: Heading) -> bool:
    return 0 < len(heading.anchor) <= _HEADING_MAX


def _keys(response: Response, verbose: bool) -> dict[str, object]:
    keys = response.metadata
    if verbose:
        return dict(sorted(keys.items()))
    return {key: keys.get(key) for key in ("version", "current-version", "title")}


def _with(where: Address, fragment: str) -> str:
    return str(Address(where.host, where.port, where.path, fragment))


def _of_one_version(where: Address, response: Response) -> str:
    """The address of exactly this text, as long as its version is kept; as it was given where that is not to be had."""
    version = response.metadata.get("version", "")
    if not version.isdecimal() or not where.path.endswith(".md") or split_version(where.path) is not None:
        return str(where)
    return str(Address(where.host, where.port, f"{where.path}/v{version}", where.fragment))


async def listing(worlds: Worlds, given: Listing) -> Answer:
    """One page of a folder, with how many entries there are in all."""
    where = worlds.address(given.url)
    cursor = None if given.cursor is UNSET else given.cursor
    size = given.page_size

    async def one(after: str | None, entries: int) -> Response:
        return await worlds.done(
            where,
            lambda client: client.list(
                where.path, include_archived=given.include_archived, cursor=after, page_size=entries
            ),
            folder=True,
        )

    response = await one(cursor, size)
    fits = _entries_that_fit(where, response)
    if fits < len(parse_listing(response.body)):
        response = await one(cursor, max(fits, 1))  # so that its cursor is for what is shown
    shown = len(parse_listing(response.body))
    following = response.metadata.get("next-cursor")
    more, exact = await _rest(one, following)
    of = f"{shown + more}{'' if exact else ' or more'}"
    top = head(
        response.status,
        {
            "folder": where.identity,
            "entries": f"{shown} of {of}" + (" from the cursor on" if cursor else ""),
            "next-cursor": following,
        },
    )
    if not following:
        return page(top, readable(response.body))
    next_page = call(
        "mark_list",
        url=_with(where, ""),
        cursor=following,
        page_size=None if size == LIST_PAGE_MAX else size,
        include_archived=given.include_archived or None,
    )
    return page(top, readable(response.body), f"[{shown} of {of} entries; next: {next_page}]")


def _entries_that_fit(where: Address, response: Response) -> int:
    """How many entries of a listing an answer has room for, beside address and cursor, both twice."""
    twice = 2 * (where.identity + response.metadata.get("next-cursor", ""))
    end = fitting(response.body, 0, room(twice) - 300)
    return len(parse_listing(response.body[:end]))


async def _rest(
    one: Callable[[str | None, int], Awaitable[Response]], cursor: str | None
) -> tuple[int, bool]:
    """How many entries follow, and whether all of them were counted."""
    more = 0
    for _ in range(_COUNTED_PAGES):
        if not cursor:
            return more, True
        response = await one(cursor, LIST_PAGE_MAX)
        more += len(parse_listing(response.body))
        cursor = response.metadata.get("next-cursor")
    return more, not cursor


async def versions(worlds: Worlds, given: Versions) -> Answer:
    """The history of a document, newest first."""
    where = worlds.address(given.url)
    response = await worlds.done(where, lambda client: client.versions(where.path))
    keys = response.metadata
    total = len(parse_versions(response.body))
    body = response.body
    if given.before is not UNSET:
        older = [number for number, _ in parse_versions(body) if number < given.before]
        if not older:
            raise Refusal(f"{where.identity} has no version older than {given.before}")
        body = body[body.index(b"- [v%d](" % older[0]) :]
    top = {key: keys.get(key) for key in ("current", "total", "chain-valid", "chain-error")}
    end = fitting(
        body, 0, room(head(response.status, top), call("mark_versions", url=str(where), before=0)) - 100
    )
    shown = parse_versions(body[:end])
    if len(shown) == total:
        return page(head(response.status, top), readable(body))
    note = f"{len(shown)} of {total} versions"
    before = head(response.status, {**top, "shown": note})
    if end < len(body) and shown:
        note += f"; next: {call('mark_versions', url=_with(where, ''), before=shown[-1][0])}"
    return page(before, readable(body[:end]), f"[{note}]")
