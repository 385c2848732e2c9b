"""Text primitives by code point: white space, word characters, lower case, case folding (lookup §2).

Python's own methods are close to these rules but not equal to them: ``str.split`` and ``str.strip`` also take
U+001C–U+001F, ``str.lower`` knows a final sigma and gives İ two runes, ``str.casefold`` turns ß into ``ss``. Every
room that compares or splits text uses this module instead, so that the two sides of a comparison cannot differ.

Nothing here normalises (no NFC, no NFKC), and ``lower`` and ``fold`` keep the number of runes, so an offset found in
their result is an offset in the text. Each function has a way at the speed of C for the common text.
"""

import re
from typing import Final

__all__ = ["WHITE", "WORD", "fields", "fold", "is_word", "lower", "separators", "trim"]

WHITE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""The 25 runes of white space (lookup §2.1)."""

WORD: Final = re.compile(r"\w+")
r"""A run of word characters. ``\w`` is exactly category L*, category N* and ``_`` (lookup §2.2)."""

_FIELD: Final = re.compile(f"[^{WHITE}]+")


def is_word(char: str) -> bool:
    """Whether one rune is a word character: a letter, a number or ``_`` (lookup §2.2)."""
    return char == "_" or char.isalnum()


def separators(text: str) -> bool:
    """Whether the text holds one of U+001C–U+001F, which Python takes for white space and the contract does not.

    Where it holds none, ``str.split()`` and ``str.strip()`` are exactly ``fields`` and ``trim``.
    """
    return "\x1c" in text or "\x1d" in text or "\x1e" in text or "\x1f" in text


def trim(text: str) -> str:
    """The text without white space at its ends."""
    return text.strip(WHITE)


def fields(text: str) -> list[str]:
    """The maximal runs without white space, in order; none of them is empty."""
    return _FIELD.findall(text) if separators(text) else text.split()


def lower(text: str) -> str:
    """Lower case rune by rune: the result has as many runes as the text (lookup §2.3).

    Two runes need help: Σ is always σ, and İ, the only rune whose lower case is longer than itself, is ``i``.
    """
    if text.isascii():
        return text.lower()
    return text.replace("\u0130", "i").replace("\u03a3", "\u03c3").lower()


def fold(text: str) -> str:
    """A key that is equal for two texts exactly if they are equal under simple case folding (lookup §2.4)."""
    if text.isascii():
        return text.lower()
    return "".join(map(_fold_rune, text))


def _fold_rune(char: str) -> str:
    folded = char.casefold()
    if len(folded) != 1:
        folded = char.lower()
    return folded if len(folded) == 1 else char
