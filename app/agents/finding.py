"""`mark_lookup`, `mark_lookup_all`: which sections to read, from one world or from all of them.

An answer says how many rows there are before it shows some of them, in which mode the server has answered, and how to fetch the first row; a
search that fails is an error. Servers count differently: in task mode they say how many rows there are, in the others only how many they
sent, so that a full answer is asked for once more with the largest limit.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

import msgspec
import trio

from app.agents.answers import Answer, Refusal, about, at_most, call, head, one_line, page, readable, room
from app.agents.arguments import UNSET, Lookup, LookupAll
from app.agents.worlds import Worlds
from app.protocol.addresses import Address
from app.protocol.answer import Response
from app.protocol.limits import LOOKUP_LIMIT_DEFAULT, LOOKUP_LIMIT_MAX
from app.protocol.tables import LookupRow, escape, parse_lookup_body

_ALL = "*"
_PIPE = re.compile(r"(?<!\\)\|")
_SNIPPET = 5  # the cell of a row, counted from the empty one before the first pipe
_COLUMNS = "| Address | Importance | Title | Tags | Snippet | Match |\n|---------|------------|-------|------|---------|-------|\n"
_CATALOG_ONLY = "only titles and tags were searched; `match` body searches the text"
_ORDER = ("complete", "", "partial", "metadata")


class Found(msgspec.Struct, frozen=True):
    """What one world has answered. `total` is how many rows there are, at least that many if not `exact`."""

    where: Address
    response: Response
    mode: str
    total: int
    exact: bool
    limit: int

    @property
    def total_text(self) -> str:
        return f"{self.total}" if self.exact else f"{self.total} or more"

    @property
    def rows(self) -> list[LookupRow]:
        return parse_lookup_body(self.response.body)[: self.limit]


async def lookup(worlds: Worlds, given: Lookup) -> Answer:
    """The rows for a query below one folder, as the server has sent them."""
    found = await _search(worlds, worlds.address(given.url), given)
    top, lines = _table(found.response.body)
    first = found.rows[:1]
    after = [f"read a row: {call('mark_fetch', url=_place(found.where, first[0]))}"] if first else []
    everything = call(
        "mark_lookup",
        url=given.url,
        query=given.query,
        filter=given.filter if given.filter is not UNSET else None,
        match=found.mode,
        limit=min(found.total, LOOKUP_LIMIT_MAX),
    )

    def answer(kept: Sequence[str]) -> Answer:
        keys: dict[str, object] = {
            "match": found.mode,
            "matches": found.total,
            "truncated": "true" if len(kept) < found.total or not found.exact else "false",
            "terms-ignored": found.response.metadata.get("terms-ignored"),
            "rows": f"{len(kept)} of {found.total_text}",
            "scope": found.where.identity,
        }
        if given.verbose:
            keys = {**dict(sorted(found.response.metadata.items())), **keys}
        notes = [*_remarks(found, given), *after]
        if len(kept) < found.total or not found.exact:
            narrower = "a narrower folder or query shows the others"
            notes.append(
                f"[{len(kept)} of {found.total_text} rows; "
                + (f"{narrower}]" if found.mode == "task" else f"next: {everything}]")
            )
        return page(head("ok", keys), top + "".join(kept), "\n".join(notes))

    return _shortened(lines[: found.limit], given, answer)


async def lookup_all(worlds: Worlds, given: LookupAll) -> Answer:
    """The rows of all worlds of this program, best first, each with its whole address; who failed is told beside them."""
    if not worlds.hosts:
        raise Refusal(
            "no world was named when this server was started; mark_lookup searches one that you name"
        )
    results: dict[int, Found | str] = {}

    async def one(number: int, where: Address) -> None:
        try:
            results[number] = await _search(worlds, where, given)
        except Refusal as refusal:
            results[number] = str(refusal)

    async with trio.open_nursery() as nursery:
        for number, host in enumerate(worlds.hosts):
            nursery.start_soon(one, number, host.address)
    answered = [found for _, found in sorted(results.items()) if isinstance(found, Found)]
    failed = [
        f"failed: {worlds.hosts[number].address.identity}: {one_line(text)}"
        for number, text in sorted(results.items())
        if isinstance(text, str)
    ]
    if not answered:
        raise Refusal("no world has answered\n" + "\n".join(failed))
    total = sum(found.total for found in answered)
    exact = all(found.exact for found in answered)
    limit = LOOKUP_LIMIT_DEFAULT if given.limit is UNSET else given.limit
    merged = _merged(answered)[:limit]

    def answer(kept: Sequence[str]) -> Answer:
        of = f"{total}" if exact else f"{total} or more"
        keys: dict[str, object] = {
            "rows": f"{len(kept)} of {of}",
            "worlds": f"{len(answered)} of {len(worlds.hosts)} answered",
        }
        each = [
            f"{found.where.identity}: {found.mode}, {len(found.rows)} of {found.total_text}"
            for found in answered
        ]
        before = head("ok", keys) + "".join(f"{line}\n" for line in [*each, *failed])
        notes = [f"read a row: {call('mark_fetch', url=merged[0][0])}"] if merged else []
        if not total and given.query.strip() != _ALL and any(found.mode == "catalog" for found in answered):
            notes.append(_CATALOG_ONLY)
        if len(kept) < total or not exact:
            notes.append(
                f"[{len(kept)} of {of} rows; a narrower query, or mark_lookup in one world, shows the others]"
            )
        return page(before, _COLUMNS + "".join(kept), "\n".join(notes))

    return _shortened([_line(place, row) for place, row in merged], given, answer)


async def _search(worlds: Worlds, where: Address, given: Lookup | LookupAll) -> Found:
    """What one world answers, and how many rows it has. Raises `Refusal`."""
    filters = given.filter if given.filter is not UNSET else None
    limit = given.limit if given.limit is not UNSET else None
    query = given.query

    async def asked(mode: str, most: int | None) -> Response:
        return _readable(
            await worlds.done(
                where,
                lambda client: client.lookup(where.path, query, filters=filters, limit=most, match=mode),
                folder=True,
            )
        )

    mode = given.match if given.match is not UNSET else ("catalog" if query.strip() == _ALL else "task")
    if mode == "task":  # with what servers that do not know it have instead
        response = _readable(
            await worlds.done(
                where,
                lambda client: client.task(where.path, query, filters=filters, limit=limit),
                folder=True,
            )
        )
    else:
        response = await asked(mode, limit)
    answered = response.metadata.get("match", "catalog")
    count = len(parse_lookup_body(response.body))
    if answered == "task":
        return Found(where, response, answered, max(_number(response, "matches"), count), True, count)
    shown = limit or LOOKUP_LIMIT_DEFAULT
    if count >= shown and shown < LOOKUP_LIMIT_MAX:
        response = await asked(answered, LOOKUP_LIMIT_MAX)
        count = len(parse_lookup_body(response.body))
    return Found(where, response, answered, count, count < LOOKUP_LIMIT_MAX, shown)


def _readable(response: Response) -> Response:
    """The answer, if there is a table in it, be it an empty one. Raises `Refusal`: what cannot be read is not nothing found."""
    if not re.search(rb"^\| Path \|", response.body, re.MULTILINE):
        raise Refusal("the server's answer cannot be read: there is no table in it")
    return response


def _remarks(found: Found, given: Lookup) -> Iterable[str]:
    """What is not as it was asked for."""
    wanted = given.match if given.match is not UNSET else found.mode
    if found.mode != wanted:
        yield f"this server has answered with `match` {found.mode}: it does not know {wanted}"
    if not found.total:
        yield f"nothing matches in {found.where.identity} (as far as you may read it)"
        if found.mode == "catalog" and given.query.strip() != _ALL:
            yield _CATALOG_ONLY


def _table(body: bytes) -> tuple[str, list[str]]:
    """What comes before the rows of a table as it was sent, and the rows."""
    # Only line feeds part rows: a title may hold what Python takes for the end of a line too.
    lines = [line for line in re.split(r"(?<=\n)", readable(body)) if line]
    rule = next((number for number, line in enumerate(lines) if line.startswith("|---")), len(lines) - 1)
    return "".join(lines[: rule + 1]).lstrip("\n"), [
        line for line in lines[rule + 1 :] if line.startswith("|")
    ]


def _shortened(
    lines: Sequence[str], given: Lookup | LookupAll, answer: Callable[[Sequence[str]], Answer]
) -> Answer:
    """The answer with as many rows as there is room and budget for: snippets go first, from the end, then rows; one row stays."""
    empty = answer([]).text
    space = _Space(room(empty), math.inf if given.budget is UNSET else given.budget - about(empty))
    bare = list(map(_bare, lines))
    rows = len(list(takewhile(space.takes, bare)))
    if rows < len(lines):
        return answer(bare[: max(rows, 1)])
    whole = len(list(takewhile(lambda number: space.takes(lines[number], bare[number]), range(rows))))
    return answer([*lines[:whole], *bare[whole:]])


class _Space:
    """What is left for rows, of the limit and of the budget."""

    def __init__(self, tokens: float, budget: float) -> None:
        self._tokens = tokens
        self._budget = budget

    def takes(self, line: str, instead: str = "") -> bool:
        """Whether there is room for a line, in the place of another one that was taken before."""
        self._tokens -= at_most(line) - at_most(instead)
        self._budget -= about(line) - about(instead)
        return self._tokens >= 0 and self._budget >= 0


def _bare(line: str) -> str:
    """The row without its snippet."""
    cells = _PIPE.split(line)
    if len(cells) > _SNIPPET + 1:
        cells[_SNIPPET] = "  "
    return "|".join(cells)


def _merged(answered: Iterable[Found]) -> list[tuple[str, LookupRow]]:
    """The rows of several worlds: complete ones before partial ones, then by their rank at home, then by world."""
    ranked = [
        (_ORDER.index(row.match) if row.match in _ORDER else len(_ORDER), rank, number, found.where, row)
        for number, found in enumerate(answered)
        for rank, row in enumerate(found.rows)
    ]
    ranked.sort(key=lambda one: one[:3])
    return [(_place(where, row), row) for *_, where, row in ranked]


def _line(place: str, row: LookupRow) -> str:
    cells = (
        place,
        f"{row.importance:.2f}",
        *map(_cell, (row.title, ", ".join(row.tags), row.snippet, row.match)),
    )
    return f"| {' | '.join(cells)} |\n"


def _cell(text: str) -> str:
    return escape(one_line(text))


def _place(where: Address, row: LookupRow) -> str:
    """The address of a row, as `mark_fetch` takes it."""
    return str(Address(where.host, where.port, row.path, row.anchor))


def _number(response: Response, key: str) -> int:
    text = response.metadata.get(key, "")
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else 0
