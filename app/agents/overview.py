"""`map` without a task: what kind of place a world is, before anything is looked for in it.

Top folders with the title of their index page and how many documents they hold, the most important documents, and totals. Pure: it is made from
rows that whoever asks has got from a world, a server or the manual.
"""

from collections.abc import Iterable, Sequence

import msgspec

from app.agents.answers import one_line
from app.protocol.paths import sort_key
from app.protocol.tables import LookupRow

IMPORTANT = 10
"""Documents that are named."""

_FOLDERS_MAX = 40
_TITLE_MAX = 100  # characters


class Folder(msgspec.Struct, frozen=True):
    """A folder right below the scope. `title` is that of its `index.md`, empty without one."""

    path: str
    title: str
    documents: int


class Overview(msgspec.Struct, frozen=True):
    """What there is below a scope. `sections` is None where only the server could count them."""

    scope: str
    documents: int
    sections: int | None
    folders: tuple[Folder, ...]
    important: tuple[LookupRow, ...]


def overview(scope: str, rows: Iterable[LookupRow], sections: int | None) -> Overview:
    """The overview of all documents below a scope, whose rows these are, in any order."""
    prefix = scope.rstrip("/") + "/"
    chosen = [row for row in rows if row.path.startswith(prefix)]
    titles = {row.path: row.title for row in chosen}
    counts: dict[str, int] = {}
    for row in chosen:
        folder, slash, _ = row.path[len(prefix) :].partition("/")
        if slash:
            counts[prefix + folder] = counts.get(prefix + folder, 0) + 1
    folders = tuple(
        Folder(path, titles.get(f"{path}/index.md", ""), counts[path])
        for path in sorted(counts, key=sort_key)
    )
    ranked = sorted(chosen, key=lambda row: (-row.importance, sort_key(row.path)))
    return Overview(scope, len(chosen), sections, folders, tuple(ranked[:IMPORTANT]))


def text_lines(found: Overview) -> list[str]:
    """The overview for a terminal or an agent."""
    of = "" if found.sections is None else f", {_count(found.sections, 'section')}"
    lines = [f"{_count(found.documents, 'document')}{of} in {found.scope}"]
    if found.folders:
        shown = found.folders[:_FOLDERS_MAX]
        lines += ["", f"folders: {len(shown)} of {len(found.folders)}"]
        lines += [f"{one.path}/  {_count(one.documents, 'document')}{_titled(one.title)}" for one in shown]
    if found.important:
        lines += ["", f"most important: {len(found.important)} of {found.documents}"]
        lines += [
            f"{row.path}  {row.importance:.2f}{_titled(row.title)}{_tagged(row.tags)}"
            for row in found.important
        ]
    return lines


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _titled(title: str) -> str:
    text = one_line(title)
    return f"  {text[:_TITLE_MAX]}{'…' if len(text) > _TITLE_MAX else ''}" if text else ""


def _tagged(tags: Sequence[str]) -> str:
    text = one_line(", ".join(tags))
    return f"  [{text[:_TITLE_MAX]}{'…' if len(text) > _TITLE_MAX else ''}]" if text else ""
