"""Tokens of indexed text and terms of a query in body mode (lookup §8.1, §8.2), and the words of task mode beside them.

Both sides of a match are made here, so that they cannot disagree. A text is cut at white space into fields; a field
gives its whole form and, if that holds a non-word character, its runs of word characters. So the tokens of a text are
all its runs, and the whole forms of the fields that hold several: two passes at the speed of C, and a look at the few
fields in question (`Words`). Nothing is segmented, stemmed or stopped.

Under recall `wide` (lookup §7.8) text gives more tokens and a query term gives alternatives; it never gives fewer, so
`wide` only adds rows. Pure functions.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from app.protocol.runes import WHITE, WORD, fields, lower

__all__ = ["TOKEN_MAX", "Recall", "Words", "body_terms", "cuts", "fits", "tokens"]

Recall = Literal["reference", "wide"]
"""Which words a section answers to: exactly the reference's, or also those its stripping loses (lookup §7.8)."""

TOKEN_MAX: Final = 32
"""Bytes of UTF-8 of the longest token (lookup §8.1)."""

_ALNUM: Final = re.compile(r"[^\W_]+")
_ASCII: Final = "".join(map(chr, range(128)))
_WHITE: Final = "".join(char for char in WHITE if char in _ASCII and char != " ")
_NOT_WORD: Final = "".join(char for char in _ASCII if char not in WHITE and not WORD.match(char))
# Tables for `translate` of ASCII text; the last gives the kind of each character.
_TO_RUNS: Final = "".join(char if WORD.match(char) else " " for char in _ASCII)
_TO_PARTS: Final = "".join(char if _ALNUM.match(char) else " " for char in _ASCII)
_TO_KINDS: Final = "".join("w" if WORD.match(char) else " " if char in WHITE else "." for char in _ASCII)
_JOINT: Final = re.compile(r"w\.\.*+w")  # in kinds: what stands between two runs of one field
_GAP: Final = re.compile(f"[{WHITE}]")
_PIECE: Final = 50_000  # characters
_FEW: Final = 32  # characters of a text that are worth a pass over it each


def fits(token: str) -> bool:
    """Whether a token has at least 2 runes and at most 32 bytes (lookup §8.1)."""
    size = len(token)
    return 1 < size <= TOKEN_MAX and (
        token.isascii() or len(token.encode("utf-8", "surrogatepass")) <= TOKEN_MAX
    )


def _whole(field: str) -> str:
    """A field without the non-word characters at its ends."""
    field = field.strip(_NOT_WORD)
    if field.isascii():
        return field
    runs = [match.span() for match in WORD.finditer(field)]
    return field[runs[0][0] : runs[-1][1]] if runs else ""


def tokens(field: str) -> list[str]:
    """The tokens of one field in order: its whole form, then its runs if that is not one; repeats stay (lookup §8.1)."""
    whole = _whole(lower(field))
    runs = WORD.findall(whole)
    return list(filter(fits, (whole, *runs) if len(runs) > 1 else runs))


def _plain(flat: str) -> tuple[str, bool]:
    """A text in ASCII with the same kind of character in each place, and whether its runs are still the text's own."""
    odd = set(flat).difference(_ASCII)
    same = not any(map(WORD.match, odd))
    kinds = {char: "w" if WORD.match(char) else "." for char in odd}
    if len(odd) > _FEW:
        return flat.translate({ord(char): kinds.get(char, char) for char in {*flat}}), same
    for char, kind in kinds.items():
        flat = flat.replace(char, kind)
    return flat, same


def _compounds(kinds: str) -> Iterator[tuple[int, int]]:
    """Where the fields stand that hold several runs, in a text given by the kinds of its characters."""
    if not kinds.endswith(" "):
        kinds += " "
    joint = _JOINT.search(kinds)
    while joint:
        at = joint.start()
        end = kinds.index(" ", at)
        yield kinds.rfind(" ", 0, at) + 1, end
        joint = _JOINT.search(kinds, end)


def cuts(text: str, gap: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Where to cut a text so that no call into C for a piece of it keeps other threads waiting for long: only before what
    `gap` finds."""
    start, size = 0, len(text)
    while size - start > _PIECE and (found := gap.search(text, start + _PIECE)):
        yield start, found.start()
        start = found.start()
    yield start, size


class Words:
    """The words of a text, counted."""

    __slots__ = ("composed", "order", "own", "pieces")

    order: list[str]
    """Its runs of letters and numbers, of whatever length, in their order (task §5.1)."""
    own: Counter[str]
    """The tokens of all its fields (`tokens`)."""
    pieces: dict[str, int]
    """The runs between underscores of words that hold one: words of task mode, tokens under `wide` only."""
    composed: dict[str, int]
    """Tokens of the composed forms (NFC) of its fields that these do not give themselves; under `wide` only."""

    def __init__(self, text: str) -> None:
        self.pieces = {}
        self.composed = {}
        wholes: list[str] = []
        if len(text) <= _PIECE:
            runs, self.order = self._take(text, wholes)
            self.own = Counter(runs)
        else:
            self.order, self.own = [], Counter()
            for start, end in cuts(text, _GAP):
                runs, order = self._take(text[start:end], wholes)
                self.own.update(runs)
                self.order += order
        if "_" in text:
            self._part()
        surely = TOKEN_MAX if text.isascii() else TOKEN_MAX // 4
        for run in [run for run in self.own if not 1 < len(run) <= surely and not fits(run)]:
            del self.own[run]
        if wholes:
            _count(self.own, wholes, 1)

    @property
    def length(self) -> int:
        """How many runs of letters and numbers it has (task §9)."""
        return len(self.order)

    def _take(self, text: str, wholes: list[str]) -> tuple[list[str], list[str]]:
        """The runs of a text, and once more with those that hold underscores taken apart.

        The whole forms of fields that hold several runs go to `wholes`.
        """
        flat = lower(text)
        if flat.isascii():
            for char in _WHITE:
                flat = flat.replace(char, " ")
            plain, same = flat, True
        else:
            if not unicodedata.is_normalized("NFC", text):
                self._compose(text)
            flat = " ".join(fields(flat))
            plain, same = _plain(flat)
        runs = plain.translate(_TO_RUNS).split() if same else WORD.findall(flat)
        for begin, end in _compounds(plain.translate(_TO_KINDS)):
            whole = _whole(flat[begin:end])
            if fits(whole):
                wholes.append(whole)
        if "_" not in plain:
            return runs, runs
        return runs, plain.translate(_TO_PARTS).split() if same else _ALNUM.findall(flat)

    def _part(self) -> None:
        """Count the parts of words with underscores, of which `own` holds nothing but runs so far."""
        for run in [run for run in self.own if "_" in run]:
            parts = (part[0] for part in _ALNUM.finditer(run))  # one by one, so that no call is long
            _count(self.pieces, filter(fits, parts), self.own[run])

    def _compose(self, text: str) -> None:
        """Count what the composed forms of decomposed fields give beyond their own tokens."""
        for field, times in Counter(fields(text)).items():
            composed = unicodedata.normalize("NFC", field)
            if composed != field:
                _count(self.composed, set(tokens(composed)).difference(tokens(field)), times)


def _count(counts: dict[str, int], found: Iterable[str], times: int) -> None:
    for token in found:
        counts[token] = counts.get(token, 0) + times


def body_terms(query: str, recall: Recall) -> tuple[tuple[str, ...], ...]:
    """The distinct terms of a query in order, each as the tokens that satisfy it (lookup §8.2).

    The first token is the term of the contract. Others come from `wide` alone: the composed form (NFC) of a word
    typed decomposed. Nothing usable in the query gives no term.
    """
    terms: dict[str, dict[str, None]] = {}
    for field in fields(query):
        wanted = _wanted(field)
        for term in wanted:
            terms.setdefault(term, {term: None})
        if recall == "wide" and len(wanted) == 1 and not unicodedata.is_normalized("NFC", field):
            composed = _wanted(unicodedata.normalize("NFC", field))
            if len(composed) == 1:
                terms[wanted[0]][composed[0]] = None
    return tuple(map(tuple, terms.values()))


def _wanted(field: str) -> Sequence[str]:
    """The terms of one field of a query: its whole form, or the runs of one too long to be indexed."""
    whole = _whole(lower(field))
    if len(whole) < 2:
        return ()
    return (whole,) if fits(whole) else list(filter(fits, WORD.findall(whole)))
