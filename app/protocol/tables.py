"""The markdown that answers are made of: listings, version histories and LOOKUP tables, written and read back.

Servers write these bodies, clients take them apart again; both sides live here so that a test can hold them to
each other (wire §5.2, §5.3; lookup §9.2). Which rows there are, and in which order, is decided elsewhere.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, Protocol
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from app.protocol.limits import LIST_BYTES_MAX
from app.protocol.runes import fields
from app.protocol.times import parse_rfc3339, rfc3339

__all__ = [
    "Form",
    "Listed",
    "LookupRow",
    "Page",
    "escape",
    "listing_page",
    "lookup_body",
    "lookup_head",
    "lookup_row",
    "parse_listing",
    "parse_lookup_body",
    "parse_rfc3339",
    "parse_versions",
    "percent",
    "rfc3339",
    "unescape",
    "versions_body",
]

_SPECIAL = "\\[]()*_`~#|"  # the backslash first: each is replaced in turn
_ESCAPED = re.compile(r"\\([\\\[\]()*_`~#|])")
_UNRESERVED = re.compile("[A-Za-z0-9_.~$&+=:@-]*")
_LINE_BREAK = re.compile("\r\n|\r|\n")
_TRUNCATED = b"\n*...truncated, too many entries*\n"


def escape(text: str) -> str:
    """The text with a backslash before each character that markdown could take for markup (wire §5.2)."""
    for char in _SPECIAL:
        if char in text:
            text = text.replace(char, "\\" + char)
    return text


def unescape(text: str) -> str:
    """The text that `escape` was given."""
    return _ESCAPED.sub(r"\1", text)


def percent(segment: str) -> str:
    """The segment as a link target: all but unreserved characters as upper-case `%HH`, a slash too (wire §5.2)."""
    if _UNRESERVED.fullmatch(segment):
        return segment
    return quote_from_bytes(_bytes(segment), "-_.~$&+=:@")


def _one_line(text: str) -> str:
    """The text escaped, each line break in it one space."""
    if "\n" in text or "\r" in text:
        text = _LINE_BREAK.sub(" ", text)
    return escape(text)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


# ---------------------------------------------------------------------------------------------------------------
# LIST


class Listed(Protocol):
    """What a listing wants to know of an entry."""

    @property
    def name(self) -> str: ...
    @property
    def is_directory(self) -> bool: ...


class Page(msgspec.Struct, frozen=True):
    """One page of a listing: its body, how many entries it has, whether they reach the end, the last one's name."""

    body: bytes
    entries: int
    complete: bool
    last: str


def listing_page(
    path: str, entries: Sequence[Listed], page_size: int, bytes_max: int = LIST_BYTES_MAX
) -> Page:
    """The first page of `entries`, which are those still to be listed in directory `path`, sorted (wire §5.2).

    At most `page_size` entries and `bytes_max` bytes, the note of an incomplete page included; but never an
    incomplete page without an entry.
    """
    lines = [_bytes(f"\n# Index of {path.rstrip('/')}/\n\n")]
    size = len(lines[0])
    count = 0
    for entry in entries[:page_size]:
        line = _entry_line(entry)
        room = bytes_max - size - (len(_TRUNCATED) if count + 1 < len(entries) else 0)
        if len(line) > room and count > 0:
            break
        lines.append(line)
        size += len(line)
        count += 1
    complete = count == len(entries)
    if not complete:
        lines.append(_TRUNCATED)
    return Page(b"".join(lines), count, complete, entries[count - 1].name if count else "")


def _entry_line(entry: Listed) -> bytes:
    slash = "/" if entry.is_directory else ""
    return _bytes(f"- [{_one_line(entry.name)}{slash}]({percent(entry.name)}{slash})\n")


_LINK = re.compile(rb"- \[.*\]\(([^()\s]*)\)")


def parse_listing(body: bytes) -> list[str]:
    """The names in a listing, in its order; directories end in a slash. Lines that are no entries are passed over."""
    found = (_LINK.fullmatch(line) for line in body.split(b"\n"))
    return [_text(unquote_to_bytes(link[1])) for link in found if link]


# ---------------------------------------------------------------------------------------------------------------
# VERSIONS


def versions_body(path: str, versions: Iterable[tuple[int, int]]) -> bytes:
    """The history of a document: (number, modified in seconds), newest first (wire §5.3)."""
    lines = [f"\n# Version History: {escape(path)}\n\n"]
    target = percent(path)
    lines += [f"- [v{number}]({target}/v{number}) - {rfc3339(modified)}\n" for number, modified in versions]
    return _bytes("".join(lines))


_VERSION = re.compile(rb"- \[v([0-9]{1,19})\]\([^()\s]*\) - ([0-9TZ:.+-]+)")


def parse_versions(body: bytes) -> list[tuple[int, int]]:
    """The (number, modified in seconds) pairs of a history, in its order; other lines are passed over."""
    result = []
    for line in body.split(b"\n"):
        found = _VERSION.fullmatch(line)
        modified = parse_rfc3339(found[2].decode("ascii")) if found else None
        if found and modified is not None:
            result.append((int(found[1]), int(modified)))
    return result


# ---------------------------------------------------------------------------------------------------------------
# LOOKUP


class LookupRow(msgspec.Struct, frozen=True):
    """One row of a LOOKUP answer, unescaped.

    `title` is the finished text of its cell (document title, separator and heading already joined); `anchor` is
    empty for the document itself or its preamble.
    """

    path: str
    anchor: str
    importance: float
    title: str
    tags: tuple[str, ...]
    snippet: str
    match: str = ""
    """In task mode what the row covers: `complete`, `partial` or `metadata`."""


Form = Literal["catalog", "body", "task"]
"""The columns of a LOOKUP answer, by the mode that was answered in; each has those before it."""

_COLUMNS = "| Path | Importance | Title | Tags |"
_TASK_COLUMNS = f"{_COLUMNS} Snippet | Match |"
_RULE = "|------|------------|-------|------|"
_HEADS: dict[Form, str] = {
    "catalog": f"{_COLUMNS}\n{_RULE}\n",
    "body": f"{_COLUMNS} Snippet |\n{_RULE}---------|\n",
    "task": f"{_TASK_COLUMNS}\n{_RULE}---------|-------|\n",
}
_QUERY_SHOWN = 120  # runes of a task's query in the heading
_PIPE = re.compile(r"\\.|(\|)")
_HASH = re.compile(r"\\.|(#)")


def lookup_body(query: str, scope: str, rows: Iterable[LookupRow], form: Form) -> bytes:
    """The body of a LOOKUP answer (lookup §9.2, task §12.1): its head and its rows."""
    return lookup_head(query, scope, form) + b"".join([lookup_row(row, form) for row in rows])


def lookup_head(query: str, scope: str, form: Form) -> bytes:
    """What stands above the rows.

    `query` is the trimmed request value, `scope` the canonical path. Line breaks become spaces in the heading too,
    which a query could otherwise break; that of a task is cut.
    """
    if form == "task":
        query = _shortened(" ".join(fields(query)))
    return _bytes(f'\n# Lookup matches for "{_one_line(query)}" in {_one_line(scope)}\n\n{_HEADS[form]}')


def _shortened(query: str) -> str:
    if len(query) <= _QUERY_SHOWN:
        return query
    return f"{query[:_QUERY_SHOWN]}…"


def lookup_row(row: LookupRow, form: Form) -> bytes:
    """A row, with its line end."""
    place = _one_line(row.path) + (f"#{row.anchor}" if row.anchor else "")
    cells = f"| {place} | {row.importance:.2f} | {_one_line(row.title)} | {_one_line(', '.join(row.tags))} |"
    if form != "catalog":
        cells += f" {_one_line(row.snippet)} |"
    return _bytes(f"{cells} {row.match} |\n" if form == "task" else f"{cells}\n")


def parse_lookup_body(body: bytes) -> list[LookupRow]:
    """The rows of a LOOKUP answer: what `lookup_body` was given, line breaks and importance as far as they were sent.

    Lines that are no rows are passed over, so any body gives a list.
    """
    lines = _text(body).split("\n")
    head = next((at for at, line in enumerate(lines) if line.startswith(_COLUMNS)), len(lines))
    widths = (8,) if lines[head : head + 1] == [_TASK_COLUMNS] else (6, 7)
    return [row for line in lines[head + 2 :] if (row := _parse_row(line, widths))]


def _parse_row(line: str, widths: Collection[int]) -> LookupRow | None:
    cells = _split(line, _PIPE)
    if len(cells) not in widths or cells[0] or cells[-1]:
        return None
    place, importance, title, tags, *others = [cell[1:-1] for cell in cells[1:-1]]
    path, *anchor = _split(place, _HASH, most=1)
    try:
        return LookupRow(
            path=unescape(path),
            anchor="".join(anchor),
            importance=float(importance),
            title=unescape(title),
            tags=tuple(unescape(tags).split(", ")) if tags else (),
            snippet=unescape("".join(others[:1])),
            match=unescape("".join(others[1:])),
        )
    except ValueError:
        return None


def _split(text: str, mark: re.Pattern[str], most: int = -1) -> list[str]:
    """The pieces between the marks that no backslash precedes, cut at most `most` times."""
    pieces: list[str] = []
    start = 0
    for found in mark.finditer(text):
        if found[1] and len(pieces) != most:
            pieces.append(text[start : found.start()])
            start = found.end()
    return [*pieces, text[start:]]
