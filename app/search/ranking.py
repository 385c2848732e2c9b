"""What a match is worth in body mode: pure functions, and every constant with its reason (lookup §8.4).

One term found in one section is worth

    value = (text + heading + trail) · journal + field + prior

    text     BM25's saturated count of the term in the own text, K1 and B as usual, with a fixed pivot instead of the
             average length (S. Robertson, H. Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009)
    heading  the section's own heading has the term
    trail    a heading above it has
    field    title or tags of the document have
    prior    the document's importance

and a section's score is the mean of its terms' values, weighted by their rarity:

    score = Σ weight(t) · value(t) / Σ weight(t)        weight(t) = ln(1 + (N − n(t) + 0.5) / (n(t) + 0.5))

so the prior comes in once and a score of any number of terms is of one scale. N and n(t) count sections of documents
that the caller may read, and nothing else here depends on other documents: with a fixed pivot a value is known when
the document is indexed, whoever asks later. So it is computed once, rounded down to one of 127 levels and kept as one
byte of the posting, and the best of 30,000 postings are found without computing any. The pivot costs nothing
measurable (Cranfield: see BUILD.md); an average over readable documents would make every value depend on the caller.

Of two sections with the same score the more important document comes first, then the smaller path, then anchor.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from math import log
from typing import Final

__all__ = ["FIELD_BIT", "VALUES", "bare_level", "is_journal", "levels", "short_length", "step", "weight"]

K1: Final = 1.2
B: Final = 0.75
PIVOT: Final = 100
"""Tokens of a section of usual length; own texts of real documentation average 60 to 130."""
HEADING: Final = 2.6
"""More than the text part (below K1 + 1 = 2.2) and the prior can reach together: a heading names what its section is
about, so a hit there beats any number of mentions elsewhere, whatever the importance."""
TRAIL: Final = 0.5
"""A heading above says what the section belongs to; more than one casual mention in a long text, less than its own."""
FIELD: Final = 1.0
"""Title and tags describe the whole document: they order documents, the section's own words order its sections."""
PRIOR: Final = 0.3
"""Importance from 0 to 1 moves a row by less than the step from one mention to two in a section of usual length."""
JOURNAL: Final = 0.5
"""Diaries mention everything once more; what they say counts half, so guides come first (see `is_journal`)."""
BARE_TITLE: Final = 3.4
"""A document whose title has the term: before its own sections' headings would have been."""
BARE_TAG: Final = 1.6
"""A document only tagged with it: among good text hits, behind every heading."""
TF_MAX: Final = 31

LEVELS: Final = 127
FIELD_BIT: Final = 0x80
TOP: Final = K1 + 1 + HEADING + TRAIL + PRIOR

STEPS: Final = 15
"""Importance is rounded down to fifteenths where it is part of a value; equal values compare the exact importance."""

_BOUNDS: Final = tuple(TOP * (number / LEVELS) ** 1.5 for number in range(LEVELS))
"""The least value of each level from 1 on: finer where text hits lie."""

VALUES: Final = (0.0, *_BOUNDS, FIELD, *(FIELD + bound for bound in _BOUNDS))
"""The value that each level stands for; from 128 on the levels of documents whose title or tags have the term."""


def text_part(tf: int, length: int) -> float:
    """BM25's part for `tf` occurrences in a text of `length` tokens, from 0 to K1 + 1."""
    return tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / PIVOT))


def short_length(length: int) -> int:
    """A length to four significant bits: all that values depend on."""
    shift = max(length.bit_length() - 4, 0)
    return length >> shift << shift


def step(importance: float) -> int:
    """An importance as a number of fifteenths, rounded down."""
    return int(importance * STEPS)


Rows = tuple[bytes, bytes, bytes, bytes]


@lru_cache(maxsize=512)
def levels(length: int, importance: int, journal: bool) -> Rows:
    """The levels of a term in sections of a length (`short_length`) of documents of an importance (`step`).

    Four tables by how often the own text has the term, up to `TF_MAX`: for terms that stand in the text alone (filled up
    to serve `bytes.translate`), for those that a heading above has too, the own heading, and both.
    """

    def table(named: float) -> bytes:
        return bytes(_level(text_part(tf, length) + named, importance, journal) for tf in range(TF_MAX + 1))

    return table(0.0) + bytes(255 - TF_MAX), table(TRAIL), table(HEADING), table(HEADING + TRAIL)


def _level(found: float, importance: int, journal: bool) -> int:
    value = (found * JOURNAL if journal else found) + PRIOR * importance / STEPS
    return bisect_right(_BOUNDS, value)


def bare_level(title: bool, importance: int, journal: bool) -> int:
    """The level of a document whose title, or only whose tags, have a term."""
    return _level(BARE_TITLE if title else BARE_TAG, importance, journal)


_JOURNAL: Final = re.compile(
    r"(?:^|/)(?:journals?|diary|diaries|daily|logbook)/|/[0-9]{4}-[0-9]{2}-[0-9]{2}[^/]*$", re.I
)


def is_journal(path: str) -> bool:
    """Whether a document is of the kind that mentions everything: in a journal's folder, or named by a date."""
    return _JOURNAL.search(path) is not None


def weight(sections: int, having: int) -> float:
    """How much a term counts that `having` of `sections` sections have: BM25's idf, always positive."""
    return log(1 + (sections - having + 0.5) / (having + 0.5))


def shares(weights: Sequence[float]) -> list[float]:
    """Weights that sum to one."""
    total = sum(weights)
    return [value / total for value in weights]
