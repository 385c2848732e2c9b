"""Body mode as the contract words it, over whole documents and without an index: what the section index is held to.

Also small worlds for the property tests: documents made of few words, so that everything meets everything.
"""

import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from app.markdown.sections import Section, sections
from app.protocol.paths import sort_key
from app.protocol.runes import fields
from app.search.catalog import Catalog
from app.search.entry import Entry, entry_of
from app.search.index import Match, SectionIndex
from app.search.query import Query
from app.search.ranking import (
    FIELD_BIT,
    VALUES,
    bare_level,
    is_journal,
    levels,
    shares,
    short_length,
    step,
    weight,
)
from app.search.tokens import Recall, Words, body_terms, tokens

__all__ = [
    "BODIES",
    "CALLERS",
    "METADATA",
    "PATHS",
    "QUERIES",
    "WORLDS",
    "Caller",
    "Document",
    "Plain",
    "filled",
    "found",
]


class Document(NamedTuple):
    entry: Entry
    body: bytes
    version: int


class Caller:
    """May read what does not start with one of some prefixes."""

    def __init__(self, *denied: str) -> None:
        self.key = denied

    def may_read(self, path: str) -> bool:
        return not path.startswith(self.key)


CALLERS = [Caller(), Caller("/private/"), Caller("/guide/", "/journal/"), Caller("/")]

WORDS = [
    "anchor", "pump", "net.pump", "read-only", "max_wave", "Vec<pump>", "hull", "the", "wave", "don't", "café", "cafe\u0301",
    "a", "<https://hull.example>", "[pump](/hull.md)", "`code`", "__init__", "v1.2", "日本語",
]  # fmt: skip

PATHS = [
    "/a.md", "/b.md", "/guide/a.md", "/guide/b.md", "/guide/deep/c.md", "/guides.md", "/journal/2026-01-01.md", "/journal/x.md",
    "/private/a.md", "/private/b.md", "/z\udcff.md", "/é.md",
]  # fmt: skip

_text = st.lists(st.sampled_from(WORDS), min_size=2, max_size=10).map(" ".join)
_heading = st.tuples(
    st.integers(1, 3), st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
).map(lambda heading: f"{'#' * heading[0]} {heading[1]}")
BODIES = st.lists(st.one_of(_text, _heading), min_size=1, max_size=10).map(
    lambda parts: "\n\n".join(parts).encode()
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "title": st.lists(st.sampled_from(WORDS), max_size=2).map(" ".join),
        "tags": st.lists(st.sampled_from(WORDS), max_size=2).map(",".join),
        "importance": st.sampled_from(["0", "0.2", "0.21", "0.9", "1"]),
        "aliases": st.sampled_from(["anchor", "hull, wave"]),
        "description": st.sampled_from(["the pump", "pump pump wave"]),
        "kind": st.sampled_from(["x", "y"]),
    },
)
_word = st.sampled_from(
    [
        "pump",
        "anchor",
        "hull",
        "the",
        "wave",
        "café",
        "cafe\u0301",
        "net.pump",
        "read",
        "max_wave",
        "vec",
        "md",
    ]
)
QUERIES = st.one_of(
    _word,
    _word,
    st.lists(_word, min_size=2, max_size=3).map(" ".join),
    st.lists(st.sampled_from([*WORDS, "PUMP", "(hull)", "absent", "a.md"]), min_size=1, max_size=2).map(
        " ".join
    ),
)
WORLDS = st.lists(st.tuples(st.sampled_from(PATHS), METADATA, BODIES), min_size=3, max_size=9)


class Plain:
    """The documents of a world."""

    def __init__(self, recall: Recall) -> None:
        self.recall: Recall = recall
        self.documents: dict[str, Document] = {}

    def put(self, path: str, metadata: dict[str, str], body: bytes, version: int) -> Document:
        document = Document(entry_of(path, metadata, body, 1_000 * version), body, version)
        self.documents[path] = document
        return document

    def drop(self, path: str) -> None:
        self.documents.pop(path, None)

    def match(self, query: Query, caller: Caller) -> list[tuple[str, int, str, str]]:
        """Path, version, anchor and heading of every row."""
        terms = body_terms(query.text, self.recall)
        if not terms:
            return []
        readable = [
            _Read(one, self.recall) for one in self.documents.values() if caller.may_read(one.entry.path)
        ]
        count = sum(len(one.sections) for one in readable)
        having = [
            sum(any(token in own for token in term) for one in readable for own in one.own) for term in terms
        ]
        weights = shares([weight(count, number) for number in having])
        rows = []
        for one in readable:
            entry = one.document.entry
            if entry.path.startswith(query.prefix) and query.filter.matches(entry):
                for place, (score, anchor, heading) in enumerate(one.rows(terms, weights)):
                    key = (-score, -entry.importance, sort_key(entry.path), anchor.encode(), place)
                    rows.append((key, (entry.path, one.document.version, anchor, heading)))
        return [row for _, row in sorted(rows)][: query.limit]


class _Read:
    """A document, read."""

    def __init__(self, document: Document, recall: Recall) -> None:
        self.document = document
        entry = document.entry
        wide = recall == "wide"
        self.prior = step(entry.importance), is_journal(entry.path)
        self.sections = sections(document.body)
        self.title = set(_tokens(entry.title))
        self.field = self.title.union(*map(_tokens, entry.tags))
        lost = set[str]()
        if wide:
            lost = set(_wide(entry.title)).union(*map(_wide, entry.tags)) - self.field
        self.headings = [
            {*_tokens(one.heading), *(_wide(one.heading) if wide else ())} for one in self.sections
        ]
        self.above = [
            lost.union(
                *(
                    self.headings[other]
                    for other in range(number)
                    if self.sections[other].level and self.sections[other].after > number
                )
            )
            for number in range(len(self.sections))
        ]
        self.texts = [_words(one, wide) for one in self.sections]
        self.own = [{*text, *heading} for (text, _), heading in zip(self.texts, self.headings, strict=True)]

    def rows(self, terms: Iterable[tuple[str, ...]], weights: list[float]) -> list[tuple[float, str, str]]:
        """Score, anchor and heading of each row."""
        terms = list(terms)
        if all(term[0] in self.field for term in terms):
            found = [bare_level(term[0] in self.title, *self.prior) for term in terms]
            return [(_score(found, weights), "", "")]
        rows = []
        for number, section in enumerate(self.sections):
            values = [self.level(number, term) for term in terms]
            if all(values):
                # The bare path shows no heading, but the section under an empty anchor may have one.
                rows.append((_score(values, weights), section.anchor, section.heading))
        return rows

    def level(self, number: int, term: tuple[str, ...]) -> int:
        """The best level of the tokens that satisfy a term; only the first counts as a word of title and tags."""
        first, *others = (self.level_of(number, token) for token in term)
        if not others:
            return first
        return max(level & ~FIELD_BIT for level in (first, *others)) | first & FIELD_BIT

    def level_of(self, number: int, token: str) -> int:
        counts, length = self.texts[number]
        headed, above, field = (
            token in self.headings[number],
            token in self.above[number],
            token in self.field,
        )
        if token in counts or headed:
            found = levels(short_length(length), *self.prior)[2 * headed + above][
                min(counts.get(token, 0), 31)
            ]
        elif above or field:
            found = levels(0, *self.prior)[above][0]
        else:
            return 0
        return found | FIELD_BIT * field


def _score(values: Iterable[int], weights: list[float]) -> float:
    score = 0.0
    for value, share in zip(values, weights, strict=True):
        score += share * VALUES[value]
    return score


def _tokens(text: str) -> list[str]:
    return [token for field in fields(text) for token in tokens(field)]


def _wide(text: str) -> list[str]:
    """What recall `wide` sees in a text beyond its tokens, repeats kept but for composed forms."""
    found: list[str] = []
    for field in fields(text):
        found += Words(field).pieces.keys()
        composed = unicodedata.normalize("NFC", field)
        if composed != field:
            found += set(tokens(composed)) - set(tokens(field))
    return found


def _words(section: Section, wide: bool) -> tuple[dict[str, int], int]:
    """How often each token stands in a section's text, and how long the text is."""
    text = section.own_text
    if wide:
        text += f"\n{section.wide}\n" + (
            section.wide.translate(str.maketrans("=\"'", "   ")) if "=" in section.wide else ""
        )
    counts: dict[str, int] = {}
    for token in _tokens(text):
        counts[token] = counts.get(token, 0) + 1
    words = Words(text)
    if wide:
        for token, times in words.pieces.items():
            counts[token] = counts.get(token, 0) + times
        for token, times in words.composed.items():
            counts.setdefault(token, times)
    return counts, words.length


def filled(documents: Iterable[Document], recall: Recall) -> SectionIndex:
    """A fresh index, as a start makes it."""
    catalog = Catalog()
    index = SectionIndex(catalog, recall)
    for entry, body, version in sorted(documents, key=lambda document: sort_key(document.entry.path)):
        catalog.put(entry)
        index.put(index.gather(entry, body, version))
    index.settle()
    return index


def found(matches: Iterable[Match]) -> list[tuple[str, int, str, str]]:
    """Matches as `Plain.match` gives them."""
    return [(match.path, match.version, *match.cut[:2]) for match in matches]


class Tidied(RuleBasedStateMachine):
    """Writes whose index is tidied in between, which no answer may show."""

    index: SectionIndex

    @rule(steps=st.integers(1, 4))
    def fold(self, steps: int) -> None:
        for _ in range(steps):
            self.index.fold()

    @rule()
    def settle(self) -> None:
        self.index.settle()
        assert self.index.stats().segments <= 1
