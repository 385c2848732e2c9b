"""The words of a section in their order, as two bytes each: what tells neighbours from words that only both are there.

Postings do not know order, and reading bodies for every section that has two frequent words takes seconds. So a section
keeps the marks of the tokens of its own text, behind `CODE` each of its code fields, and behind `HEADING` of its heading
(task §3). Of two different words one in 65,000 pairs has the same mark. So who counts on marks makes sure that the
section has no other word with the same one (`of_terms` gives the marks of a vocabulary), or reads the text.

A single ASCII letter or digit is its own mark and never another's. Words with postings share no mark with words that
have none. Marks depend on the text alone.
"""

import re
from array import array
from collections.abc import Container, Iterable, Sequence
from typing import Final
from zlib import crc32

from app.protocol.runes import lower
from app.search.tokens import TOKEN_MAX, fits

__all__ = ["CODE", "GAP", "HEADING", "code_runs", "mark", "marks", "of_terms", "runs"]

GAP: Final = "\0"
"""What stands before each code field, as a run."""

CODE: Final = 0
"""Its mark."""

HEADING: Final = 1
"""What stands before the heading."""

_RUN: Final = re.compile(r"[^\W_]+")
_RUN_OR_GAP: Final = re.compile(r"[^\W_]+|\0")
_ASCII: Final = "".join(map(chr, range(128)))
_TO_RUNS: Final = "".join(char if _RUN_OR_GAP.match(char) else " " for char in _ASCII)
# Marks below the first belong to single characters, from the second on to words that have postings.
_FIRST: Final = 128
_SECOND: Final = 1024
_MARKS: Final = 0x10000 - _SECOND
_KEPT_MAX: Final = 8_000


def _mark(word: str) -> int:
    if word.isascii() and len(word) <= TOKEN_MAX:  # most words: faster than asking whether they fit
        return _SECOND + crc32(word.encode()) % _MARKS if len(word) > 1 else ord(word)
    digest = crc32(word.encode("utf-8", "surrogatepass"))
    return _SECOND + digest % _MARKS if fits(word) else _FIRST + digest % (_SECOND - _FIRST)


class _Marks(dict[str, int]):
    """The marks of words met lately: most words of a text are frequent ones."""

    def __missing__(self, word: str) -> int:
        found = _mark(word)
        if len(self) > _KEPT_MAX:
            self.clear()
        self[word] = found
        return found


_marks: Final = _Marks()


def runs(text: str) -> list[str]:
    """The runs of letters and numbers of a text, in lower case and in order (task §5.1)."""
    flat = lower(text).replace(GAP, " ")
    return flat.translate(_TO_RUNS).split() if flat.isascii() else _RUN.findall(flat)


def code_runs(codes: Iterable[str], own: Container[str]) -> tuple[list[str], set[str]]:
    """The runs of code fields in order, `GAP` before each field, and the set of all their words.

    Fields of one word that the own text has too are only in the set: the code of that word's posting says it all.
    """
    kept: list[str] = []
    found: set[str] = set()
    for code in codes:
        word = lower(code) if code.isalnum() else ""
        if word and word in own:
            found.add(word)
        else:
            kept.append(code.replace(GAP, " "))
    if not kept:
        return [], found
    flat = lower(f"{GAP} " + f" {GAP} ".join(kept))
    order = flat.translate(_TO_RUNS).split() if flat.isascii() else _RUN_OR_GAP.findall(flat)
    found.update(order)
    found.discard(GAP)
    return order, found


def mark(word: str) -> int:
    """The mark of a word."""
    return _marks[word]


def of_terms(terms: Iterable[bytes]) -> bytes:
    """The marks of indexed terms; `CODE` for a term that is no run, and so in no row."""
    texts = (str(term, "utf-8", "surrogatepass") for term in terms)
    return array("H", (_mark(text) if _RUN.fullmatch(text) else CODE for text in texts)).tobytes()


def marks(own: Sequence[str], codes: Sequence[str], heading: Sequence[str]) -> bytes:
    """The marks of a section: of the runs of its own text, of its code fields (`code_runs`) and of its heading."""
    row = array("H", map(_marks.__getitem__, own))
    row.extend(map(_marks.__getitem__, codes))
    row.append(HEADING)
    row.extend(map(_marks.__getitem__, heading))
    return row.tobytes()
