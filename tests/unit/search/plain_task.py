"""Task mode as the contract words it, over whole texts and without an index: what the section index is held to (task §3 to §11).

Only the analysis of the query is shared; it has its own tests. Everything else is done the long way: every field is a
text, every term is looked for in every field, every record is scored, every edit distance is a table.
"""

import re
from collections.abc import Iterable, Sequence
from math import log
from typing import NamedTuple

from hypothesis import strategies as st

from app.markdown.sections import sections
from app.protocol.paths import sort_key
from app.protocol.runes import fields, lower
from app.search.entry import tags_of
from app.search.query import Query
from app.search.wording import Unit, settle
from tests.unit.search.plain import Caller, Document

__all__ = ["BODIES", "METADATA", "PATHS", "QUERIES", "WORLDS", "PlainTask", "Row"]

LONG = "abcdefgh" * 5
_WORDS = [
    "pump", "pumps", "box", "boxes", "anchor", "the", "to", "net.pump", "pump.aft", "read-only", "read only", "max_wave", "wave",
    "`log level`", "`log`", "level", "log", "c++", "`Vec<pump>`", "<b>anchor</b>", "an**ch**or", "v1.2", "v1.20", "ΟΔΟΣ", LONG, "a",
    "box|wave", "[pump](/box.md)", "`anchor box` and", "rust", "rüst", "日本", "日",
]  # fmt: skip
_text = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=9).map(" ".join)
_heading = st.tuples(
    st.integers(1, 3), st.lists(st.sampled_from(_WORDS), min_size=1, max_size=3).map(" ".join)
).map(lambda heading: f"{'#' * heading[0]} {heading[1]}")
_odd = st.sampled_from(
    [
        "```\nlog level\npump box\n```",
        "    read only box",
        "> ## pump\n> read-only wave",
        "- # box\n\n  `log level` x",
        "Title pump\n---",
    ]
)
BODIES = st.lists(st.one_of(_text, _text, _heading, _odd), max_size=9).map(
    lambda parts: "\n\n".join(parts).encode()
)
_few = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=2).map(" ".join)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "title": _few,
        "tags": st.lists(_few, max_size=2).map(",".join),
        "aliases": st.lists(_few, max_size=2).map(",".join),
        "importance": st.sampled_from(["0", "0.9", "1"]),
        "description": _few,
        "kind": st.sampled_from(["x", "y"]),
    },
)
PATHS = [
    "/a.md",
    "/anchor.md",
    "/guide/a.md",
    "/guide/log-level.md",
    "/guides.md",
    "/private/a.md",
    "/private/pumps.md",
    "/é.md",
]
WORLDS = st.lists(st.tuples(st.sampled_from(PATHS), METADATA, BODIES), min_size=2, max_size=7)
_asked = st.sampled_from(
    [*(word for word in _WORDS if len(word) > 1), '"log level"', '"pump box"', '"read-only wave"', "pump-box", "absent", "anchr", "lgo", "levle",
     "log-level", "`anchor box`", "box's", "guide", "anchor.", "rsut"]
)  # fmt: skip
QUERIES = st.one_of(_asked, st.lists(_asked, min_size=2, max_size=6).map(" ".join))

_RUN = re.compile(r"[^\W_]+")
_WEIGHTS = {"title": 100, "tag": 75, "heading": 50, "ancestor": 50, "code": 30, "text": 10}


class Row(NamedTuple):
    path: str
    anchor: str
    match: str


class _Field(NamedTuple):
    kind: str
    text: str
    own: bool


class _Record(NamedTuple):
    anchor: str
    fields: list[_Field]
    texts: list[str]
    """The own text, folded; the head's may be two."""

    @property
    def length(self) -> int:
        return sum(len(_RUN.findall(text)) for text in self.texts)

    def weight(self, unit: Unit, own: bool, text: bool = False) -> int:
        """The highest weight of a field that has the unit, that of the text only if it is asked for."""
        found = [
            _WEIGHTS[field.kind]
            for field in self.fields
            if (field.own or not own) and _times(unit, field.text)
        ]
        if text and self.times(unit):
            found.append(_WEIGHTS["text"])
        return max(found, default=0)

    def times(self, unit: Unit) -> int:
        return min(sum(_times(unit, text) for text in self.texts), 31)

    def has(self, unit: Unit, own: bool = False) -> bool:
        return bool(self.weight(unit, own) or self.times(unit))


def _folded(text: str) -> str:
    return lower(" ".join(fields(text)))


def _times(unit: Unit, text: str) -> int:
    """How often a folded text has a unit (task §6)."""
    if unit.verbatim:
        ends = r"\w" if re.match(r"\w", unit.text) else "", r"\w" if re.search(r"\w\Z", unit.text) else ""
        before = f"(?<!{ends[0]})" if ends[0] else ""
        after = f"(?!{ends[1]})" if ends[1] else ""
        return len(re.findall(f"(?={before}{re.escape(unit.text)}{after})", text))
    tokens, wanted = _RUN.findall(text), unit.choices
    return sum(
        all(token in choice for token, choice in zip(tokens[at:], wanted, strict=False))
        for at in range(len(tokens) - len(wanted) + 1)
    )


def _records(document: Document) -> list[_Record]:
    entry = document.entry
    named = [_Field("title", _folded(entry.title), True)]
    named += [
        _Field("tag", _folded(one), True)
        for one in (*entry.tags, *tags_of(entry.metadata.get("aliases", "")))
    ]
    inherited = [field._replace(own=False) for field in named]
    texts = [_folded(entry.metadata["description"])] if "description" in entry.metadata else []
    found = sections(document.body)
    head = _Record("", named, texts)
    records = [head]
    for section in found:
        codes = [_Field("code", _folded(code), True) for code in section.codes]
        text = _folded(section.own_text)
        if not section.level:
            head.fields.extend(codes)
            head.texts.append(text)
            continue
        above = [_Field("ancestor", _folded(one), False) for one in section.trail[:-1]]
        heading = _Field("heading", _folded(section.heading), True)
        records.append(_Record(section.anchor, [*inherited, *above, heading, *codes], [text]))
    return records


class _Scored(NamedTuple):
    path: str
    place: int
    record: _Record
    parts: list[float]
    own: float
    """Own strength, with what an own phrase adds."""
    score: float
    phrase: int
    matched: int


class PlainTask:
    """The documents that take part."""

    def __init__(self, documents: Iterable[Document], query: Query, caller: Caller) -> None:
        admitted = [one for one in documents if caller.may_read(one.entry.path)]
        admitted = [one for one in admitted if query.filter.matches(one.entry)]
        self.documents = {
            one.entry.path: (one, _records(one))
            for one in admitted
            if one.entry.path == query.document
            or (not query.document and one.entry.path.startswith(query.prefix))
        }
        self.query = query

    def answer(self) -> tuple[list[Row], int, int]:
        """Rows, population, and terms ignored."""
        assert self.query.wording is not None
        everything = [record for _, records in self.documents.values() for record in records]
        terms, ignored = settle(
            self.query.wording.units, lambda unit: any(one.has(unit) for one in everything)
        )
        rows, population = self._ranked(terms)
        if not population:
            found = self._recovered()
            rows, population = [Row(path, "", "metadata") for path in found], len(found)
        return rows[: self.query.limit], population, ignored

    def _ranked(self, terms: Sequence[Unit]) -> tuple[list[Row], int]:
        assert self.query.wording is not None
        phrase = self.query.wording.phrase
        scored = self._scored(terms)
        highest = max((one.phrase for several in scored.values() for one in several), default=0)
        if highest and (phrase.technical or highest >= 30):
            chosen = {path: [one for one in several if one.phrase] for path, several in scored.items()}
            rows = [_best(several) for several in chosen.values() if several]
            return [_row(one, "complete") for one in sorted(rows, key=_order)], len(rows)
        complete = {
            path: several
            for path, all_ in scored.items()
            if (several := [one for one in all_ if one.matched == len(terms)])
        }
        first = sorted((_best(several) for several in complete.values()), key=_order)
        rows_out = [_row(one, "complete") for one in first]
        if len(first) >= 5:
            return rows_out, len(first)
        left: list[_Scored] = []
        for path, several in scored.items():
            together = sum(any(one.record.has(term) for one in several) for term in terms)
            if path in complete or together < (35 * len(terms) + 99) // 100 or not together:
                continue
            having = [one for one in several if any(one.record.has(term, own=True) for term in terms)]
            head = [one for one in having if one.place == 0]
            if head and len(having) > 1 and not any(head[0].record.times(term) for term in terms):
                having.remove(head[0])
            left += having
        population = len(first) + len(left)
        covered: set[int] = set()
        while left:
            values = [
                (-round(one.score - sum(one.parts[t] for t in covered) / 2, 6), *_order(one)[1:])
                for one in left
            ]
            taken = left.pop(values.index(min(values)))
            covered.update(number for number, part in enumerate(taken.parts) if part)
            rows_out.append(_row(taken, "partial"))
        return rows_out, population

    def _scored(self, terms: Sequence[Unit]) -> dict[str, list[_Scored]]:
        assert self.query.wording is not None
        phrase = self.query.wording.phrase.unit
        records = [record for _, several in self.documents.values() for record in several]
        lengths = [record.length for record in records if record.length]
        average = sum(lengths) / len(lengths) if lengths else 1.0
        size = len(self.documents)
        rarities = [
            log(
                (size + 1)
                / (sum(any(one.has(term) for one in several) for _, several in self.documents.values()) + 1)
            )
            + 1
            for term in terms
        ]

        def part(record: _Record, number: int, own: bool) -> float:
            count = record.times(terms[number]) + record.weight(terms[number], own) / 10
            length = 1 / 4 + 3 / 4 * record.length / average
            return 1000 * rarities[number] / sum(rarities) * count / (count + 2 * length) if count else 0.0

        found: dict[str, list[_Scored]] = {}
        for path, (document, several) in self.documents.items():
            found[path] = []
            for place, record in enumerate(several):
                parts = [part(record, number, False) for number in range(len(terms))]
                own = sum(part(record, number, True) for number in range(len(terms)))
                weight, own_weight = record.weight(phrase, False, True), record.weight(phrase, True, True)
                score = sum(parts) + 10 * document.entry.importance + (2000 + 10 * weight if weight else 0)
                own += 2000 + 10 * own_weight if own_weight else 0
                matched = sum(record.has(term) for term in terms)
                found[path].append(_Scored(path, place, record, parts, round(own, 6), score, weight, matched))
        return found

    def _recovered(self) -> list[str]:
        key = " ".join(_RUN.findall(_folded(self.query.text)))
        if not 4 <= len(key) <= 64 or key.count(" ") >= 8:
            return []
        ranks = []
        for path, (document, _) in self.documents.items():
            bare = path[1:].removesuffix(".md")
            entry = document.entry
            texts = [
                entry.title,
                *entry.tags,
                *tags_of(entry.metadata.get("aliases", "")),
                bare,
                bare.rpartition("/")[2],
            ]
            ranks += [
                (rank, sort_key(path), path) for text in texts if (rank := _likeness(key, text)) is not None
            ]
        return list(dict.fromkeys(path for _, _, path in sorted(ranks)))


def _best(several: Sequence[_Scored]) -> _Scored:
    """The best record of a document: more terms, stronger by itself, earlier."""
    return min(several, key=lambda one: (-one.matched, -one.own, one.place))


def _order(one: _Scored) -> tuple[float, bytes, int]:
    return -round(one.score, 6), sort_key(one.path), one.place


def _row(one: _Scored, match: str) -> Row:
    return Row(one.path, one.record.anchor, match)


def _likeness(key: str, text: str) -> int | None:
    """The rank of a name (task §10)."""
    words = _RUN.findall(_folded(text))
    name, size = " ".join(words), key.count(" ") + 1
    if not name:
        return None
    if name.startswith(key):
        return 0 if name == key else 1
    if any(" ".join(words[at:]).startswith(key) for at in range(1, len(words))):
        return 4
    candidates = {name, *(" ".join(words[at : at + size]) for at in range(len(words) - size + 1))}
    near = [
        edits
        for one in candidates
        if len(one) >= 4 and re.findall(r"\d", one) == re.findall(r"\d", key)
        if (edits := _edits(key, one)) <= _most(max(len(key), len(one)))
    ]
    return 10 + min(near) if near else None


def _most(runes: int) -> int:
    return 1 if runes <= 5 else 2 if runes <= 8 else 3 if runes <= 11 else 4


def _edits(one: str, other: str) -> int:
    """Optimal string alignment, by the table."""
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in range(len(one) + 1):
        for j in range(len(other) + 1):
            if not i or not j:
                table[i][j] = i + j
                continue
            same = one[i - 1] == other[j - 1]
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (not same))
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]
