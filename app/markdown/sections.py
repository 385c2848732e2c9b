"""A document cut into the sections that search indexes (lookup §7.7), in one pass over its body.

A section carries everything the index needs of the text, so that a document is parsed once per write. At answer time
no parse is needed: ``strip.own_text(body[own_start:own_end])`` gives a section's text again.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise

from msgspec import Struct

from app.markdown.outline import Heading, scan
from app.markdown.strip import joined, strip
from app.protocol.runes import fields

__all__ = ["Section", "sections"]


class Section(Struct, frozen=True, gc=False):
    """An indexed section; the text before the first heading has level 0, no heading and no trail.

    ``trail`` holds the heading texts from the outermost ancestor to the heading itself. ``own_text`` is the stripped
    own content, ``wide`` the words that the recall setting ``wide`` adds to it. ``codes`` holds the code spans and
    code blocks that start in the own content, white space collapsed (task §3). Extents are byte offsets as in
    ``Heading``. ``after`` is the index, in the list of sections, of the first one behind this one's subtree.
    """

    level: int
    heading: str
    anchor: str
    trail: tuple[str, ...]
    own_text: str
    wide: str
    codes: tuple[str, ...]
    start: int
    own_start: int
    own_end: int
    end: int
    after: int


def sections(body: bytes) -> list[Section]:
    """The indexed sections of a body in document order (lookup §7.7). Never raises, whatever the bytes."""
    text = body.decode("utf-8", "replace")
    headings, codes = scan(body, text, codes=True)
    stripped, wide = strip(text)
    first = headings[0].start if headings else len(body)
    parts = [Heading(0, "", "", 0, 0, 0, first, first), *headings]
    # The lines of own content: behind the heading's first line, up to the next heading's.
    lines = [*(part.line for part in parts), len(stripped) + 1]
    own_texts = [joined(stripped[line : following - 1]) for line, following in pairwise(lines)]
    starts = [part.start for part, own_text in zip(parts, own_texts, strict=True) if own_text or part.text]
    found: list[Section] = []
    for number, (part, own_text, trail) in enumerate(zip(parts, own_texts, _trails(parts), strict=True)):
        if own_text or part.text:
            found.append(
                Section(
                    part.level,
                    part.text,
                    part.anchor,
                    trail,
                    own_text,
                    joined(wide[lines[number] : lines[number + 1] - 1]),
                    tuple(filter(None, (" ".join(fields(code)) for code in codes.get(number, ())))),
                    part.start,
                    part.own_start,
                    part.own_end,
                    part.end,
                    bisect_left(starts, part.end, len(found) + 1),
                )
            )
    return found


def _trails(parts: Iterable[Heading]) -> Iterator[tuple[str, ...]]:
    """The trail of each part of a document (lookup §7.7); that of the text before the first heading is empty."""
    levels: list[int] = []
    texts: tuple[str, ...] = ()
    for part in parts:
        if part.level:
            depth = bisect_left(levels, part.level)  # levels in the stack only rise
            levels[depth:] = [part.level]
            texts = (*texts[:depth], part.text)
        yield texts
