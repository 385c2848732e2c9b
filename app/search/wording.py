"""A task as it was worded, taken apart into the terms that task mode looks for (task §5), and one text compared with one term (task §6).

A query is cut into units: words, words joined by hyphens, quotations and literals such as `net.core.rmem_max`. All
but words are *exact*: their words have to stand together. The query as a whole is a unit too, the phrase (task §7).
Which exact units fall back to their words depends on the corpus, so `settle` takes that from outside.

Both sides of a comparison are folded here and nowhere else. Pure functions on text, linear in it.
"""

import re
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, Literal

from msgspec import Struct

from app.protocol.runes import fields, lower
from app.search.tokens import cuts

__all__ = [
    "EXACT_MAX",
    "FILLERS",
    "RUN",
    "TERMS_MAX",
    "Phrase",
    "Unit",
    "Wording",
    "folded",
    "in_a_row",
    "occurrences",
    "runs",
    "settle",
    "times",
    "variants",
    "wording",
]

TERMS_MAX: Final = 32
"""Terms of a query that count (task §5.6)."""

EXACT_MAX: Final = 8
"""Exact units of a query that are looked for as such (task §5.6)."""

FILLERS: Final = frozenset(
    re.findall(
        "[a-z]+",
        """
        a an and any are as at be been being but by can could did do does doing for from had has have having he her his
        how i if in into is it its may me might must my need of on or our please shall she should so some such than that
        the their them then there these they this those to want was we were what when where which who whom whose why
        will with would you your
        """,
    )
)
"""Words that questions and requests are made of (task §5.4)."""

RUN: Final = re.compile(r"[^\W_]+")
"""A token: a run of letters and numbers (task §5.1)."""

_NO_RUN: Final = re.compile(r"[\W_]")
_QUOTED: Final = re.compile('"([^"]*)"|“([^”]*)”|`([^`]*)`')
_JOINED: Final = re.compile(r"[^\W_]+(?:[-\u2010\u2011][^\W_]+)+")
_APOSTROPHE: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)+")
_PLAIN: Final = re.compile(r"(?:[^\W_]| )+")
_EDGE: Final = "()[]{}<>\"'«»“”‘’*,;!?…–—`"
_RIGHT_EDGE: Final = _EDGE + ".:-"

Kind = Literal["word", "joined", "quoted", "literal"]


class Unit(Struct, frozen=True):
    """Something to look for. `text` is folded."""

    kind: Kind
    text: str

    @property
    def exact(self) -> bool:
        """Whether it is more than a word."""
        return self.kind != "word"

    @property
    def tokens(self) -> tuple[str, ...]:
        """Its runs of letters and numbers; a match has them as neighbours."""
        return tuple(RUN.findall(self.text))

    @property
    def choices(self) -> tuple[tuple[str, ...], ...]:
        """For each of its tokens those that satisfy it: also singular and plural, unless it is quoted or literal."""
        return _choices(self)

    @property
    def verbatim(self) -> bool:
        """Whether its characters count, and not its tokens alone."""
        return self.kind == "literal" or (self.kind == "quoted" and not _PLAIN.fullmatch(self.text))


@lru_cache(maxsize=64)
def _choices(unit: Unit) -> tuple[tuple[str, ...], ...]:
    if unit.kind in ("word", "joined"):
        return tuple(map(variants, unit.tokens))
    return tuple((token,) for token in unit.tokens)


class Phrase(Struct, frozen=True):
    """The query as a whole (task §7)."""

    unit: Unit
    technical: bool


class Wording(Struct, frozen=True):
    """A query, taken apart without regard to any corpus (task §5.3, §5.4)."""

    units: tuple[Unit, ...]
    phrase: Phrase


def folded(text: str) -> str:
    """Lower case, white space collapsed (task §5.1)."""
    return lower(" ".join(fields(text)))


def wording(query: str) -> Wording | None:
    """The units of a query, at least one, or None if there is nothing to look for."""
    text = folded(query)
    raw = list(_units(text))
    units = _distinct(_without_fillers([unit for unit in raw if len(unit.text) > 1]))
    if not units:
        return None
    if len(raw) == 1 and raw[0].kind == "quoted":
        unit = raw[0]
    else:
        trimmed = _trimmed(text)
        kind: Kind = (
            "word" if RUN.fullmatch(trimmed) else "joined" if _PLAIN.fullmatch(trimmed) else "literal"
        )
        unit = Unit(kind, trimmed)
    return Wording(tuple(units), Phrase(unit, technical=unit.verbatim))


def settle(units: Sequence[Unit], held: Callable[[Unit], bool]) -> tuple[list[Unit], int]:
    """The terms of a query, and how many more there would be (task §5.6).

    `held` says of an exact unit whether any admitted record has it; it is asked once about each, eight at most.
    """
    left: list[tuple[Unit, bool]] = []
    seen = 0
    for unit in units:
        if unit.exact:
            seen += 1
            if seen > EXACT_MAX or not held(unit):
                words = [Unit("word", token) for token in unit.tokens if len(token) > 1]
                # A unit without words stays, and matches nothing.
                left += [(word, True) for word in _without_fillers(words)] or [(unit, False)]
                continue
        left.append((unit, False))
    if any(not (came_in and unit.text in FILLERS) for unit, came_in in left):
        left = [(unit, came_in) for unit, came_in in left if not (came_in and unit.text in FILLERS)]
    terms = _distinct(unit for unit, _ in left)
    return terms[:TERMS_MAX], max(len(terms) - TERMS_MAX, 0)


def _units(text: str) -> Iterator[Unit]:
    """The units of folded text in order, whatever their length (task §5.3)."""
    at = 0
    for quoted in _QUOTED.finditer(text):
        yield from _pieces(text[at : quoted.start()])
        content = " ".join(fields(quoted[1] or quoted[2] or quoted[3] or ""))
        if RUN.search(content):
            yield Unit("quoted", content)
        at = quoted.end()
    yield from _pieces(text[at:])


def _pieces(text: str) -> Iterator[Unit]:
    for piece in map(_trimmed, fields(text)):
        if RUN.fullmatch(piece):
            yield Unit("word", piece)
        elif _JOINED.fullmatch(piece):
            yield Unit("joined", piece)
        elif _APOSTROPHE.fullmatch(piece):
            for word in RUN.findall(piece):
                yield Unit("word", word)
        elif RUN.search(piece):
            yield Unit("literal", piece)


def _trimmed(text: str) -> str:
    """Without edge punctuation (task §5.2)."""
    return text.lstrip(_EDGE + " ").rstrip(_RIGHT_EDGE + " ")


def _without_fillers(units: Sequence[Unit]) -> list[Unit]:
    """Without fillers, if anything else is left."""
    return [unit for unit in units if unit.exact or unit.text not in FILLERS] or list(units)


def _distinct(units: Iterable[Unit]) -> list[Unit]:
    """Without what came before; of words also without their singulars and plurals (task §5.4)."""
    words: set[str] = set()
    singular: set[str] = set()
    exact: set[Unit] = set()
    left = []
    for unit in units:
        if unit.exact:
            if unit in exact:
                continue
            exact.add(unit)
        else:
            own = _singulars(unit.text)
            if unit.text in words or unit.text in singular or not words.isdisjoint(own):
                continue
            words.add(unit.text)
            singular.update(own)
        left.append(unit)
    return left


_LETTERS: Final = re.compile("[a-z]{5,}")
_VOWEL: Final = re.compile("[aeiouy]")
_ES: Final = ("s", "x", "z", "ch", "sh", "o")


def _singulars(word: str) -> tuple[str, ...]:
    """The singulars of a word, if it is a plural (task §5.5)."""
    if not word.endswith("s") or word.endswith("ss") or not _LETTERS.fullmatch(word):
        return ()
    found = [word[:-1]]
    if word.endswith("ies") and word[-4] not in "aeiou":
        found.append(word[:-3] + "y")
    if word.endswith("es") and word[:-2].endswith(_ES):
        found.append(word[:-2])
    return tuple(filter(_VOWEL.search, found))


@lru_cache(maxsize=1024)
def variants(word: str) -> tuple[str, ...]:
    """The word itself, its singulars and its plurals: at most seven (task §5.5)."""
    plurals = [f"{word}s", f"{word}es", *([f"{word[:-1]}ies"] if word.endswith("y") else ())]
    return (word, *_singulars(word), *(plural for plural in plurals if word in _singulars(plural)))


def occurrences(unit: Unit, text: str) -> Iterator[tuple[int, int]]:
    """Where a folded text has a unit: start and end of each occurrence, overlapping ones too, in order (task §6)."""
    choices = unit.choices
    if unit.verbatim:
        yield from _at_boundaries(unit.text, text)
    elif len(choices) == 1:
        (wanted,) = choices
        yield from (found.span() for found in runs(text) if found[0] in wanted)
    elif all(any(token in text for token in choice) for choice in choices):
        starts: deque[int] = deque(maxlen=len(choices))
        last = 0

        def met() -> Iterator[str]:
            nonlocal last
            for found in runs(text):
                starts.append(found.start())
                last = found.end()
                yield found[0]

        yield from ((starts[0], last) for _ in in_a_row(choices, met()))


def times(unit: Unit, text: str, most: int) -> int:
    """How many occurrences of a unit a folded text has, `most` if there are more; linear in the text."""
    if unit.verbatim:
        return sum(1 for _ in islice(_at_boundaries(unit.text, text), most))
    choices = unit.choices
    found = _tokens(text)
    if len(choices) == 1:
        return min(sum(map(found.count, set(choices[0]))), most)
    if len(found) < len(choices):
        return 0
    return sum(1 for _ in islice(in_a_row(choices, found), most))


def in_a_row(choices: Sequence[Iterable[Hashable]], met: Iterable[Hashable]) -> Iterator[int]:
    """Where items end that stand in a row and each is among the choices for its place; overlapping ones too.

    Shift-And (R. Baeza-Yates, G. Gonnet, A new approach to text searching, 1992): linear, however often a row begins and
    breaks off.
    """
    places: dict[Hashable, int] = {}
    for place, choice in enumerate(choices):
        for item in choice:
            places[item] = places.get(item, 0) | 1 << place
    here, last = places.get, 1 << len(choices) >> 1
    state = 0
    for at, item in enumerate(met):
        state = (state << 1 | 1) & here(item, 0)
        if state & last:
            yield at


def runs(text: str) -> Iterator[re.Match[str]]:
    """The tokens of a folded text, where they stand; no call is long."""
    for start, end in cuts(text, _NO_RUN):
        yield from RUN.finditer(text, start, end)


def _tokens(text: str) -> list[str]:
    """The same as texts."""
    found: list[str] = []
    for start, end in cuts(text, _NO_RUN):
        found += RUN.findall(text, start, end)
    return found


def _at_boundaries(literal: str, text: str) -> Iterator[tuple[int, int]]:
    left, right = _is_word(literal[0]), _is_word(literal[-1])
    size, period = len(literal), _period(literal)
    rest = literal[size - period :]
    at = text.find(literal)
    while at >= 0:
        end = at + size
        if not (left and at and _is_word(text[at - 1])) and not (right and _is_word(text[end : end + 1])):
            yield at, end
        # One period on, all but the last period of the literal has been seen already: in `a.a.a.a` nothing is compared twice.
        at = at + period if text.startswith(rest, end) else text.find(literal, at + 1)


@lru_cache(maxsize=64)
def _period(literal: str) -> int:
    """The least distance at which a text can overlap itself (D. Knuth, J. Morris, V. Pratt, Fast pattern matching in strings, 1977)."""
    borders = [0] * len(literal)
    length = 0
    for at in range(1, len(literal)):
        while length and literal[at] != literal[length]:
            length = borders[length - 1]
        length += literal[at] == literal[length]
        borders[at] = length
    return len(literal) - length


def _is_word(char: str) -> bool:
    return char == "_" or char.isalnum()
