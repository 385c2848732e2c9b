"""The snippet of a row: one line of a section's own text that shows why the row is there (lookup §8.5).

The line is the reference's: the one that holds the most distinct terms, the earliest of equals. Where the reference
cuts from the line's start and may cut the hit away, the window here goes around the hit; as long as the start of the
line shows the hit, or nothing hits, the two are the same text.

Terms are looked for in the lower-cased line, which has as many runes as the line, so that an offset in one is an
offset in the other (İ and Σ included); a cut never falls inside a rune.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from app.protocol.limits import SNIPPET_MAX
from app.protocol.runes import lower

__all__ = ["best_line", "from_start", "snippet"]

_DOTS: Final = "..."
_ROOM: Final = SNIPPET_MAX - 2 * len(_DOTS)  # bytes of a window that is cut on both sides
_BEFORE: Final = 0.4  # share of the spare room that goes before the hits: what follows a word says more
_TO_A_SPACE: Final = 24  # runes, but at most half of a side, that a cut may move so as to fall between words
_TERMS_MAX: Final = 64  # terms looked for: a single field of a query can be thousands
_HITS_BY_TERM: Final = 64  # hits looked at in one line: bounds the work on a line of a megabyte
_LONGEST_HIT: Final = 40  # runes of a hit that a window must show


def snippet(own_text: str, terms: Sequence[str]) -> str:
    """At most 240 bytes of UTF-8 of the own text, on one line, with ``...`` where it is cut.

    ``own_text`` is stripped text, ``terms`` are distinct and lower-cased. Takes linear time.
    """
    terms = terms[:_TERMS_MAX]
    line, lowered = best_line(own_text, terms)
    if len(line.encode()) <= SNIPPET_MAX:
        return line
    first, last = _best_hits(line, lowered, terms)
    start = from_start(line)
    return start if last <= len(start) - len(_DOTS) else _around(line, first, last)


def best_line(own_text: str, terms: Sequence[str]) -> tuple[str, str]:
    """The first line with the most distinct terms, and that line in lower case; the first line if none has any."""
    lines = own_text.split("\n")
    lowered = lower(own_text).split("\n")
    best = most = 0
    for number, line in enumerate(lowered):
        count = sum(term in line for term in terms)
        if count > most:
            best, most = number, count
            if count == len(terms):
                break
    return lines[best], lowered[best]


def from_start(line: str) -> str:
    """The reference's form: a line that is too long loses its end."""
    encoded = line.encode()
    if len(encoded) <= SNIPPET_MAX:
        return line
    return encoded[: SNIPPET_MAX - len(_DOTS)].decode("utf-8", "ignore") + _DOTS


def _best_hits(line: str, lowered: str, terms: Sequence[str]) -> tuple[int, int]:
    """Start and end of the first stretch that fits a window and holds the most distinct terms; (0, 0) without hits."""
    hits = sorted(
        (at, at + min(len(term), _LONGEST_HIT), term)
        for term in terms
        for at in islice(_occurrences(lowered, term), _HITS_BY_TERM)
    )
    best = (0, 0)
    most = left = end = 0
    inside: Counter[str] = Counter()
    for _, hit_end, term in hits:
        inside[term] += 1
        end = max(end, hit_end)
        while not _fits(line, hits[left][0], end):
            leaving = hits[left][2]
            inside[leaving] -= 1
            if not inside[leaving]:
                del inside[leaving]
            left += 1
        if len(inside) > most:
            most = len(inside)
            best = (hits[left][0], end)
    return best


def _occurrences(text: str, term: str) -> Iterator[int]:
    at = text.find(term)
    while at >= 0:
        yield at
        at = text.find(term, at + len(term))


def _fits(line: str, start: int, end: int) -> bool:
    return end - start <= _ROOM and len(line[start:end].encode()) <= _ROOM


def _around(line: str, first: int, last: int) -> str:
    """The window around the stretch from ``first`` to ``last``, which fits and does not stand at the line's start."""
    spare = _ROOM - len(line[first:last].encode())
    stop = last + _runes_after(line, last, spare - int(spare * _BEFORE))
    if stop == len(line):
        spare += len(_DOTS)
    start = first - _runes_before(line, first, spare - len(line[last:stop].encode()))
    if line[start - 1] != " ":
        start = line.find(" ", start, start + min((first - start) // 2, _TO_A_SPACE)) + 1 or start
    if stop < len(line) and line[stop] != " ":
        space = line.rfind(" ", stop - min((stop - last) // 2, _TO_A_SPACE), stop)
        stop = space if space >= 0 else stop
    return _DOTS + line[start:stop] + (_DOTS if stop < len(line) else "")


def _runes_after(line: str, at: int, room: int) -> int:
    """How many runes from ``at`` on fit ``room`` bytes."""
    return len(line[at : at + room].encode()[:room].decode("utf-8", "ignore"))


def _runes_before(line: str, at: int, room: int) -> int:
    """How many runes before ``at`` fit ``room`` bytes."""
    before = line[max(at - room, 0) : at].encode()
    return len(before[max(len(before) - room, 0) :].decode("utf-8", "ignore"))
