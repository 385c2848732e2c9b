"""Typo recovery: the documents whose names are like a query that nothing else answers (task §10).

A query is compared with the names of each document (`app.search.names`): equal, beginning with it, a later word
beginning with it, and at last within a few edits. The first three are looks for a text in many names at once. For the
last, what names are made of is sifted by length, digits and letters before any distance is computed; that is done once
for each different candidate, and for no more than `CANDIDATES_MAX` of them.

The distance is Hyyrö's bit-parallel one (H. Hyyrö, A Bit-Vector Algorithm for Computing Levenshtein and Damerau Edit
Distances, 2003): a swap of neighbours is one edit, and no rune is edited twice.
"""

import re
from collections.abc import Generator, Iterable, Sequence
from itertools import chain
from typing import Final

from app.search.names import key

__all__ = ["CANDIDATES_MAX", "distance", "recover"]

KEY_MIN: Final = 4
KEY_MAX: Final = 64
WORDS_MAX: Final = 8
CANDIDATES_MAX: Final = 20_000
"""Different candidates within the edit bound in length that are looked at (task §14)."""

EQUAL, BEGINS, LATER, TYPO = 0, 1, 4, 10
"""Ranks of a name; a typo's is that and the number of edits."""

_BLOCK: Final = 100  # documents looked at together, between two pauses
_STEP: Final = 500  # candidates between two pauses
_DIGIT: Final = re.compile(r"\d")


def most_edits(runes: int) -> int:
    """How many edits a name may be away, by the longer of the two."""
    return 0 if runes < 4 else 1 if runes < 6 else 2 if runes < 9 else 3 if runes < 12 else 4


def recover(query: str, names: Sequence[str]) -> Generator[None, None, list[tuple[int, int]]]:
    """Rank and number of each document whose names are like a query, the names of documents being given in path order."""
    wanted = key(query)
    if not KEY_MIN <= len(wanted) <= KEY_MAX or wanted.count(" ") >= WORDS_MAX:
        return []
    typos = _Typos(wanted)
    found = []
    for start in range(0, len(names), _BLOCK):
        block = names[start : start + _BLOCK]
        text = "\n\n".join(block)
        yield from typos.learn(text)
        likely = [wanted, *(near for near in typos.near if near in text)]
        if len(likely) > 1 or wanted in text:
            for number, one in enumerate(block, start):
                rank = _rank(f"\n{one}\n", wanted, typos.near, likely[1:])
                if rank is not None:
                    found.append((rank, number))
        yield
    return sorted(found)


def _rank(lines: str, wanted: str, near: dict[str, int], likely: Sequence[str]) -> int | None:
    """The best rank of the names in these lines; None if none is like the key."""
    if f"\n{wanted}" in lines:
        return EQUAL if f"\n{wanted}\n" in lines else BEGINS
    if f" {wanted}" in lines:
        return LATER
    words, size = lines.replace("\n", " \n "), wanted.count(" ")
    # A run of as many words as the key has, or a whole name.
    edits = [
        near[one]
        for one in likely
        if (f" {one} " in words if one.count(" ") == size else f"\n{one}\n" in lines)
    ]
    return TYPO + min(edits) if edits else None


class _Typos:
    """The candidates met so far that are a few edits away from a key."""

    def __init__(self, wanted: str) -> None:
        self.near: dict[str, int] = {}
        """Those near enough, and how far they are."""
        self._wanted = wanted
        self._words = wanted.count(" ") + 1
        self._letters = frozenset(wanted)
        self._digits = _DIGIT.findall(wanted)
        self._bits = _bits(wanted)
        size = len(wanted)
        self._reach = {
            other: most
            for other in range(KEY_MIN, size + 5)
            if abs(other - size) <= (most := most_edits(max(other, size)))
        }
        self._met: set[str] = set()
        self._left = CANDIDATES_MAX

    def learn(self, text: str) -> Generator[None, None, None]:
        """Take in the candidates of some names: all names, and all runs of as many words as the key has."""
        if not self._left:
            return
        fresh = [
            one
            for one in dict.fromkeys(self._candidates(text))
            if len(one) in self._reach and one not in self._met and "\n" not in one
        ]
        fresh = fresh[: self._left]
        self._left -= len(fresh)
        self._met.update(fresh)
        for number, one in enumerate(fresh, 1):
            most = self._reach[len(one)]
            if len(self._letters.difference(one)) <= most and self._digits == _DIGIT.findall(one):
                edits = distance(self._bits, len(self._wanted), one)
                if edits <= most:
                    self.near[one] = edits
            if number % _STEP == 0:
                yield

    def _candidates(self, text: str) -> Iterable[str]:
        """The names, and all runs of as many words; some of these span two names, and are of no use but for a line feed."""
        if self._words == 1:
            return chain(text.split(), text.split("\n"))
        words = text.replace("\n", " \n ").split(" ")
        runs = map(" ".join, zip(*(words[at:] for at in range(self._words)), strict=False))
        return chain(runs, text.split("\n"))


def _bits(text: str) -> dict[str, int]:
    """For each rune the places where a text has it, as bits."""
    bits: dict[str, int] = {}
    for place, rune in enumerate(text):
        bits[rune] = bits.get(rune, 0) | 1 << place
    return bits


def distance(bits: dict[str, int], size: int, other: str) -> int:
    """How many edits a text is away from one of `size` runes given by its bits."""
    every = (1 << size) - 1
    last = 1 << size - 1
    up, down, equal, before = every, 0, 0, 0
    edits = size
    for rune in other:
        here = bits.get(rune, 0)
        swapped = ((~equal & here) << 1) & before
        equal = (((here & up) + up) ^ up) | here | down | swapped
        more, less = down | ~(equal | up), equal & up
        edits += bool(more & last) - bool(less & last)
        more = (more << 1) | 1
        up = ((less << 1) | ~(equal | more)) & every
        down = more & equal & every
        before = here
    return edits
