"""What a row of task mode shows of its text: one line around what was found (task §12.2)."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from app.protocol.limits import SNIPPET_MAX
from app.protocol.runes import fields, lower
from app.search.wording import RUN, Unit, occurrences

__all__ = ["excerpt", "first_line"]

_BEFORE: Final = 72  # runes of the window before the hit
_AFTER: Final = 112  # and behind it
_DOTS: Final = "…"
_ROOM: Final = SNIPPET_MAX - 2 * len(_DOTS.encode())
_TO_A_SPACE: Final = 24  # runes that a cut may move so as to fall between words


def excerpt(text: str, phrase: Unit, terms: Sequence[Unit]) -> str:
    """At most 240 bytes of a text on one line: around the phrase if it is there, else around the most terms, else the
    beginning."""
    line = " ".join(fields(text))
    lowered = lower(line)
    if len(line.encode()) <= _ROOM:
        return line
    start, end = next(iter(occurrences(phrase, lowered)), None) or _densest(_hits(lowered, terms))
    return _window(line, start, end)


def first_line(text: str) -> str:
    """The first line of a text, cut to 240 bytes."""
    line = " ".join(fields(text.partition("\n")[0]))
    return line if len(line.encode()) <= _ROOM else _window(line, 0, 0)


def _hits(text: str, terms: Sequence[Unit]) -> list[tuple[int, int, int]]:
    """Start, end and term of what a folded text has of some terms, in order: of words, one pass over it for all."""
    words = {
        token: number for number, term in enumerate(terms) if not term.exact for token in term.choices[0]
    }
    found = [(*run.span(), words[run[0]]) for run in RUN.finditer(text) if run[0] in words]
    for number, term in enumerate(terms):
        if term.exact:
            found += [(start, end, number) for start, end in occurrences(term, text)]
    return sorted(found)


def _densest(hits: Sequence[tuple[int, int, int]]) -> tuple[int, int]:
    """The first hit behind which a window has the most different terms; the beginning if there is none."""
    best = 0, 0
    most = last = 0
    inside: Counter[int] = Counter()
    for start, end, term in hits:
        while last < len(hits) and hits[last][0] <= start + _AFTER:
            inside[hits[last][2]] += 1
            last += 1
        if len(inside) > most:
            most, best = len(inside), (start, end)
        inside[term] -= 1
        if not inside[term]:
            del inside[term]
    return best


def _window(line: str, start: int, end: int) -> str:
    """The part of a line around a hit, cut between words if one is near."""
    left = max(start - _BEFORE, 0)
    right = min(max(end, start) + _AFTER + (_BEFORE - (start - left)), len(line))
    while len(line[left:right].encode()) > _ROOM:
        right -= max((len(line[left:right].encode()) - _ROOM) // 4, 1)
        left = min(left, right)
    if left:
        left = line.find(" ", left, min(left + _TO_A_SPACE, start)) + 1 or left
    if right < len(line):
        space = line.rfind(" ", max(right - _TO_A_SPACE, left), right + 1)
        right = space if space > left else right
    return (_DOTS if left else "") + line[left:right].strip() + (_DOTS if right < len(line) else "")
