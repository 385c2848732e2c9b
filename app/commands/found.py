"""What a search for a task found, whoever answered, as text for a terminal or as one JSON object (task §12.3, §12.4).

The mode is the one that was answered in: a server that does not know tasks answers in another, and what its rows cover
is then not claimed.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

from app.commands import terminal

if TYPE_CHECKING:
    from app.protocol.answer import Response
    from app.protocol.tables import LookupRow
    from app.search.answer import Answer

__all__ = ["Found", "show"]

Mode = Literal["task", "body", "catalog"]

_MODES: dict[str | None, Mode] = {
    "task": "task",
    "body": "body",
}  # whatever else a server says is the catalog


class Found(msgspec.Struct, frozen=True):
    """What was asked, and what came of it."""

    query: str
    """Trimmed."""
    scope: str
    mode: Mode
    matches: int
    truncated: bool | None
    """Whether there are more matches than rows; None where nobody knows, in other modes than task."""
    ignored: int
    """Terms that did not count."""
    rows: "list[LookupRow]"

    @staticmethod
    def of_response(query: str, scope: str, response: "Response") -> "Found":
        """From what a server said (task §2)."""
        from app.protocol.paths import canonical
        from app.protocol.runes import trim
        from app.protocol.tables import parse_lookup_body

        rows = parse_lookup_body(response.body)
        mode = _MODES.get(response.metadata.get("match"), "catalog")
        if mode != "task":
            rows = [msgspec.structs.replace(row, match="") for row in rows]
        return Found(
            trim(query),
            canonical(scope),
            mode,
            _number(response, "matches", len(rows)),
            response.metadata.get("truncated") == "true" if mode == "task" else None,
            _number(response, "terms-ignored", 0),
            rows,
        )

    @staticmethod
    def of_answer(query: str, scope: str, answer: "Answer") -> "Found":
        """From a search in this process."""
        from app.protocol.runes import trim

        return Found(
            trim(query), scope, "task", answer.matches, answer.truncated, answer.ignored, answer.rows
        )

    def json(self) -> bytes:
        """As one JSON object on a line (task §12.3)."""
        from app.commands import shapes

        results = [
            shapes.Result(
                row.path,
                row.anchor,
                row.title,
                row.importance,
                list(row.tags),
                row.snippet,
                row.match or None,
            )
            for row in self.rows
        ]
        return shapes.encode(
            shapes.Task(
                self.query, self.scope, self.mode, self.matches, self.truncated, self.ignored, results
            )
        )


def show(found: Found, *, json: bool) -> None:
    """Prints it on stdout."""
    if json:
        terminal.answer(found.json())
        return
    for name, rest in _lines(found):
        terminal.entry(name, rest)


def _lines(found: Found) -> "Iterator[tuple[str, str]]":
    """The text, line by line, names apart from what follows them."""
    from app.search.wording import TERMS_MAX

    counted = {0: "no matches", 1: "1 match"}.get(found.matches, f"{found.matches} matches")
    instead = "" if found.mode == "task" else f", by {found.mode}: this server does not answer tasks"
    yield "", f'{counted} for "{" ".join(found.query.split())}" in {found.scope}{instead}'
    for row in found.rows:
        place = row.path + (f"#{row.anchor}" if row.anchor else "")
        covers = f"  [{row.match}]" if row.match in ("partial", "metadata") else ""
        yield place, f"  {row.title}{covers}"
        if row.snippet:
            yield "", f"    {row.snippet}"
    if found.ignored:
        yield "", f"{found.ignored} terms ignored, {TERMS_MAX} used"
    if found.truncated:
        yield "", f"showing {len(found.rows)} of {found.matches}"


def _number(response: "Response", key: str, otherwise: int) -> int:
    from app.commands.remote import number

    found = number(response.metadata.get(key))
    return otherwise if found is None else found
