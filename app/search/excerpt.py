"""What a row of task mode shows of its text: one line around what was found (task §12.2)."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain
from typing import Final

from app.protocol.limits import SNIPPET_MAX
from app.protocol.runes import fields, lower
from app.search.wording import Unit, occurrences, runs

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
    start, end = next(occurrences(phrase, lowered), None) or _densest(_hits(lowered, terms), len(terms))
    return _window(line, start, end)


def first_line(text: str) -> str:
    """The first line of a text, cut to 240 bytes."""
    line = " ".join(fields(text.partition("\n")[0]))
    return line if len(line.encode()) <= _ROOM else _window(line, 0, 0)


_Hit = tuple[int, int, int]
"""Start, end and number of a term."""

_BEHIND_ALL: Final = 1 << 62, 0, 0


def _hits(text: str, terms: Sequence[Unit]) -> Iterator[_Hit]:
    """What a folded text has of some terms, in order: of words, one pass over it for all."""
    words = {
        token: number for number, term in enumerate(terms) if not term.exact for token in term.choices[0]
    }
    of_words = ((*run.span(), words[run[0]]) for run in runs(text) if run[0] in words)
    of_others = [_of_one(number, term, text) for number, term in enumerate(terms) if term.exact]
    return merge(of_words, *of_others)


def _of_one(number: int, term: Unit, text: str) -> Iterator[_Hit]:
    return ((start, end, number) for start, end in occurrences(term, text))


def _densest(hits: Iterable[_Hit], terms: int) -> tuple[int, int]:
    """The first hit behind which a window has the most different of so many terms; the beginning if there is none."""
    best = 0, 0
    most = 0
    inside: Counter[int] = Counter()
    window: deque[_Hit] = deque()
    for hit in chain(hits, (_BEHIND_ALL,)):
        while window and hit[0] > window[0][0] + _AFTER:
            start, end, term = window.popleft()
            if len(inside) > most:
                most, best = len(inside), (start, end)
                if most == terms:
                    return best
            inside[term] -= 1
            if not inside[term]:
                del inside[term]
        window.append(hit)
        inside[hit[2]] += 1
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
