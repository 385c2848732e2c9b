"""The one section rule: headings, their text, anchors and extents, and the section an anchor names (lookup §7).

Search, the client's ``path#anchor`` and the outline command all cut documents with this module, so an anchor in an
answer always fetches the section that the answer came from. Offsets are bytes of the body as given, whatever bytes it
holds; text that is not UTF-8 is read with U+FFFD in its place, which moves no line. Everything here is linear in
the body.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice, repeat
from operator import add
from typing import Final

from msgspec import Struct

from app.markdown.cmark import Title, blocks
from app.markdown.verbatim import Verbatim
from app.protocol.runes import WHITE, fold, lower, trim

__all__ = ["Heading", "find", "nearest", "outline", "scan", "section", "slug"]

_DROPPED: Final = re.compile(rf"[^\w\-{WHITE}]")
_SPACE: Final = re.compile(f"[{WHITE}]")
_PIECE: Final = 50_000  # lines or runes that one call into C takes, which keeps every other thread waiting


class Heading(Struct, frozen=True, gc=False):
    """A heading and the extents below it, as byte offsets in the body (lookup §7.5).

    ``body[start:end]`` is its subtree: from its line to the next heading of its level or above.
    ``body[own_start:own_end]`` is its own content: from the line after its first line to the next heading of any level.
    ``line`` is the number of its first line, counted from 1.
    """

    level: int
    text: str
    anchor: str
    line: int
    start: int
    own_start: int
    own_end: int
    end: int


def outline(body: bytes) -> list[Heading]:
    """The headings of a body in document order (lookup §7.1–§7.5). Never raises."""
    return scan(body, body.decode("utf-8", "replace"), codes=False)[0]


def scan(body: bytes, text: str, *, codes: bool) -> tuple[list[Heading], dict[int, list[str]]]:
    """The headings of a body and, with ``codes``, its code fields by section; ``text`` is the body decoded.

    Code fields stand under the number of headings before them. A hostile body has a quarter of a million headings: a
    list for each would keep the garbage collector, and so every other thread, busy for a tenth of a second.
    """
    titles: list[Title] = []
    fields: dict[int, list[str]] = {}
    for block in blocks(Verbatim(text), codes=codes):
        if isinstance(block, Title):
            titles.append(block)
        else:
            fields.setdefault(len(titles), []).append(block)
    return _placed(body, titles), fields


def _placed(body: bytes, titles: Sequence[Title]) -> list[Heading]:
    """Titles with anchors and extents."""
    if not titles:
        return []
    size = len(body)
    # Where each line starts, and one more for what would follow the last.
    offsets = accumulate(map(add, map(len, body.split(b"\n")), repeat(1)), initial=0)
    lines: list[int] = []
    while some := list(islice(offsets, _PIECE)):
        lines += some
    lines[-1] = size
    starts = [lines[title.line - 1] for title in titles]
    return [
        Heading(title.level, title.text, anchor, title.line, start, lines[title.line], following, end)
        for title, anchor, start, following, end in zip(
            titles,
            _numbered([slug(title.text) for title in titles]),
            starts,
            [*starts[1:], size],
            _subtree_ends([title.level for title in titles], starts, size),
            strict=True,
        )
    ]


def _subtree_ends(levels: Sequence[int], starts: Sequence[int], size: int) -> list[int]:
    """For each heading the start of the next one of the same or a smaller level, else the size of the body."""
    ends = [size] * len(levels)
    open_: list[int] = []
    for index, level in enumerate(levels):
        while open_ and levels[open_[-1]] >= level:
            ends[open_.pop()] = starts[index]
        open_.append(index)
    return ends


def slug(text: str) -> str:
    """The anchor of a heading text before numbering (lookup §7.3); may be empty."""
    if len(text) > _PIECE:
        return "".join(slug(text[at : at + _PIECE]) for at in range(0, len(text), _PIECE))
    return _SPACE.sub("-", _DROPPED.sub("", lower(text)))


def _numbered(slugs: Iterable[str]) -> list[str]:
    """Slugs made distinct in document order (lookup §7.4).

    The taken anchors only grow, so the number to try next is remembered by slug: no number is tried twice.
    """
    taken: set[str] = set()
    following: dict[str, int] = {}
    anchors = []
    for name in slugs:
        anchor = name
        if name in taken:
            number = following.get(name, 1)
            while (anchor := f"{name}-{number}") in taken:
                number += 1
            following[name] = number + 1
        taken.add(anchor)
        anchors.append(anchor)
    return anchors


def find(headings: Iterable[Heading], anchor: str) -> Heading | None:
    """The heading that an anchor, with or without ``#``, or a heading's text selects (lookup §7.6)."""
    headings = list(headings)
    wanted = trim(anchor).removeprefix("#")
    folded = fold(wanted)
    for heading in headings:
        if fold(heading.anchor) == folded:
            return heading
    slugged = slug(wanted)
    return next((heading for heading in headings if heading.anchor == slugged), None)


def section(body: bytes, anchor: str) -> bytes | None:
    """The raw subtree of the heading that the anchor selects, or None (lookup §7.6)."""
    heading = find(outline(body), anchor)
    return None if heading is None else body[heading.start : heading.end]


def nearest(headings: Iterable[Heading], anchor: str, limit: int = 5) -> list[str]:
    """At most ``limit`` anchors that resemble one that selects nothing, best first; for the message to a person."""
    wanted = slug(trim(anchor).removeprefix("#"))
    anchors = [heading.anchor for heading in headings if heading.anchor]
    holding = [name for name in anchors if wanted and (wanted in name or name in wanted)]
    holding.sort(key=lambda name: abs(len(name) - len(wanted)))
    return list(dict.fromkeys(holding + difflib.get_close_matches(wanted, anchors, limit)))[:limit]
