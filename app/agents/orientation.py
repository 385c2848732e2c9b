"""The tools `map` and `help`: where things are in a world, and how this program is used.

Both answer a task with the task search, in the form of `mark_lookup` (task §12.5). `map` asks the server, except for a task in a single
document, which is fetched and searched here, since the protocol knows no such scope; `help` searches the manual inside the program.
"""

from app.agents.answers import Answer, Refusal, bounded, call, head, one_line, page, readable
from app.agents.arguments import UNSET, Help, Lookup, Map
from app.agents.finding import lookup
from app.agents.overview import overview, text_lines
from app.agents.pages import Page, Pages, manual
from app.agents.worlds import Worlds
from app.protocol.fault import Fault
from app.protocol.paths import canonical
from app.protocol.publisher import readable as published
from app.protocol.tables import lookup_body
from app.search.answer import Answer as Found


async def world_map(worlds: Worlds, given: Map) -> Answer:
    """An overview of a world or a folder of it; with `search`, the sections in it that cover a task."""
    where = worlds.address(given.url)
    if given.search is UNSET:
        found = overview(canonical(where.path), await worlds.documents(where), None)
        lines = text_lines(found)
        after = call("map", url=given.url, search="your task in your own words") if found.documents else ""
        return page(
            head("ok", {"world": where.identity}),
            "".join(f"{line}\n" for line in lines),
            after and f"look for something: {after}",
        )
    if not where.path.endswith(".md"):
        return await lookup(worlds, Lookup(url=given.url, query=given.search, match="task"))
    response = await worlds.done(where, lambda client: client.fetch(where.path))
    path = canonical(where.path)
    pages = Pages([Page(path, published(response.metadata), response.body)])
    answer = _task(pages, given.search, path)
    example = (
        call("mark_fetch", url=f"{where.identity}#{answer.rows[0].anchor}")
        if answer.rows and answer.rows[0].anchor
        else ""
    )
    return _table(
        answer,
        given.search,
        path,
        f"read a row: {example}"
        if example
        else ""
        if answer.rows
        else f"nothing matches in {where.identity}",
    )


async def help_page(given: Help) -> Answer:
    """The manual: its list of pages, one page or section, or the sections that cover a task."""
    pages = manual()
    place, _, anchor = ("/" if given.page is UNSET else given.page).partition("#")
    path = pages.named(place)
    if path is None:
        near = pages.similar(place)
        perhaps = f"; perhaps {' or '.join(near)}" if near else ""
        raise Refusal(
            f"the manual has no page {place}{perhaps}\nnext: {call('help', page=near[0] if near else None)}"
        )
    if given.search is not UNSET:
        answer = _task(pages, given.search, path)
        row = answer.rows[0] if answer.rows else None
        example = (
            call("help", page=row.path + (f"#{row.anchor}" if row.anchor else "")) if row else call("help")
        )
        return _table(
            answer,
            given.search,
            path,
            f"read a row: {example}" if row else f"nothing matches in {path}; all pages: {example}",
        )
    if not pages.is_page(path):
        found = overview(path, pages.rows(), pages.sections if path == "/" else None)
        listed = [
            f"{row.path}  {one_line(row.title)}" for row in sorted(pages.rows(), key=lambda row: row.path)
        ]
        below = [line for line in listed if line.startswith(path.rstrip("/") + "/")]
        after = call("help", search="your question in your own words")
        return page(
            head("ok", {"pages": f"{len(below)} of {found.documents}"}),
            "\n".join(below) + "\n",
            f"look for something: {after}",
        )
    text = pages.text(path, anchor)
    if text is None:
        raise Refusal(f"the page {path} has no section #{anchor}\nnext: {call('help', page=path)}")
    return page(head("ok", {"page": path}), bounded(readable(text)))


def _task(pages: Pages, text: str, scope: str) -> Found:
    try:
        return pages.task(text, scope)
    except Fault as fault:
        raise Refusal(f"status: {fault.status}\n\n{fault.message}") from None


def _table(found: Found, query: str, scope: str, after: str) -> Answer:
    keys: dict[str, object] = {
        "match": "task",
        "matches": found.matches,
        "truncated": "true" if found.truncated else "false",
        "terms-ignored": found.ignored or None,
        "rows": f"{len(found.rows)} of {found.matches}",
        "scope": scope,
    }
    return page(head("ok", keys), readable(lookup_body(query, scope, found.rows, "task")).lstrip("\n"), after)
