"""How well LOOKUP finds, and what it costs in bytes until the text that was asked for is in hand.

`python -m tests.bench.retrieval [--json] [--data DIR]`. No times. Four questions:

**Found?** The catalog questions in catalog mode count the expected document, the body questions in body mode the expected section (path and
heading): recall in the first 1, 5 and 10 rows, and the mean reciprocal rank in 10. Answers are those of the server's own handler.

**At what cost?** For the body questions, bytes of results read: the answer to the LOOKUP as sent, and the texts of its rows, taken in order
until one holds the expected section. Three ways, each with the same words:

- `section`: rows of body mode, each read as the section that its `path#anchor` names (a row without an anchor as the whole document);
- `whole`: the same rows, but every one read as its whole document, once;
- `document`: rows of catalog mode, read as whole documents. It is what there is without body mode.

Where no row leads there, all were read in vain, and the expected document is added, whole: what a caller pays at least who is then told where
to look. Without that, an empty answer would be the cheapest. `found` counts the questions without it.

**What does a task lead to?** For the task questions, each of which wants two or three sections: the share of the wanted sections among the
first five rows, and of the wanted documents among the first five different ones, the cap of five rows lifted. `task` is task mode, `body` body
mode with the same words (every one of which has to be there), `any_term` plain BM25 over sections with their trail, title and tags, where one is enough.
Then for the body and the task questions together, tokens (bytes / 4) of results read until every wanted section is in hand: the answer as
sent, and the texts of its rows in order. `catalog`: documents of catalog mode, read whole; `body`: sections of body mode; `task`: sections of task
mode. What no row leads to is added as its whole document; `answered` counts the questions without it.

**Is the ranking sound?** nDCG@10 on the Cranfield collection, binary judgements, 225 queries, beside BM25 (k1 = 1.2, b = 0.75, average length,
ties in the order of the collection) over the same tokens. Ours is app.search.ranking as it stands, but a document need not have every term: it
gets the sum of weight · value of those that it has. A document is one section without headings, its title a document's title and its importance
the default. BM25 gets title and text as one text. `ours_one_text` is ours on that same text, without a title: the rest of the difference. `task` is task
mode's ranking without its cap of five rows, `task_no_floor` the same without the least number of terms that a document must match.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from app.markdown.outline import Heading, find, outline
from app.markdown.sections import sections
from app.protocol.message import encode_response
from app.protocol.tables import parse_lookup_body
from app.search.entry import Entry, entry_of
from app.search.query import task_query
from app.search.ranking import FIELD_BIT, TF_MAX, VALUES, levels, short_length, step, weight
from app.search.steps import done
from app.search.tokens import Words, body_terms
from app.server.call import Call
from app.server.lookups import lookup
from app.world.tokens import access
from app.world.world import World
from tests.bench.answering import (
    BYTES_PER_TOKEN,
    DEEP,
    Asked,
    Place,
    Wanted,
    asked,
    cost,
    cranfield_ranks,
    shares,
)
from tests.bench.devdata import checked, fill, options, scratch, silent

DEPTH = 10
K1, B = 1.2, 0.75


class Question(NamedTuple):
    """Words, and the document or the section that they are to lead to."""

    query: str
    path: str
    heading: str


class Row(NamedTuple):
    path: str
    anchor: str


class Answer(NamedTuple):
    """The bytes of an answer, and its rows."""

    size: int
    rows: list[Row]


Span = tuple[int, int]


class Library:
    """The imported corpus, asked as a client asks it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._everybody = access(None, None, 0.0)
        self._known: dict[str, tuple[bytes, list[Heading]]] = {}

    def ask(self, question: Question, mode: str) -> Answer:
        metadata = {"query": question.query, "match": mode, "limit": str(DEPTH)}
        response = done(lookup(self._world, Call("LOOKUP", "/", metadata, b"", self._everybody, silent)))
        rows = [Row(row.path, row.anchor) for row in parse_lookup_body(response.body)]
        return Answer(len(encode_response(response)), rows)

    def deep(self, query: str) -> list[Place]:
        """The rows of task mode without its cap."""
        question = msgspec.structs.replace(task_query(query), limit=DEEP)
        return [Place(row.path, row.anchor) for row in self._world.task(question, self._everybody).rows]

    def paths(self) -> list[str]:
        return self._world.paths()

    def entry(self, path: str) -> Entry:
        found = self._world.catalog.get(path)
        assert found is not None
        return found

    def body(self, path: str) -> bytes:
        return self._document(path)[0]

    def size(self, path: str) -> int:
        return len(self._document(path)[0])

    def span(self, row: Row) -> Span:
        """Where the text of a row is in its document."""
        body, headings = self._document(row.path)
        if not row.anchor:
            return 0, len(body)
        heading = find(headings, row.anchor)
        assert heading, row
        return heading.start, heading.end

    def wanted(self, question: Question) -> list[Heading]:
        """The sections that are an answer: those with the heading, as written but for its hashes."""
        body, headings = self._document(question.path)
        written = question.heading.encode()
        found = [one for one in headings if body[one.start : one.own_start].strip(b"# \r\n") == written]
        assert found, question
        return found

    def _document(self, path: str) -> tuple[bytes, list[Heading]]:
        if path not in self._known:
            body = self._world.current(path).body
            self._known[path] = body, outline(body)
        return self._known[path]


def questions(data: Path, kind: str) -> list[Question]:
    """The questions of a kind; each expects one thing."""
    found = []
    for one in json.loads((data / "questions-dev.json").read_text())["questions"]:
        if one["kind"] == kind:
            (expected,) = one["expect"]
            found.append(Question(one["query"], "/" + expected["path"], expected.get("heading", "")))
    return found


def rank(rows: Iterable[Row], right: Callable[[Row], bool]) -> int | None:
    """The place of the first right row, from 1."""
    return next((place for place, row in enumerate(rows, 1) if right(row)), None)


def recalls(name: str, ranks: Sequence[int | None]) -> dict[str, float]:
    found = [place for place in ranks if place is not None]
    figures = {f"{name}_hit_at_{n}": sum(place <= n for place in found) / len(ranks) for n in (1, 5, 10)}
    return figures | {f"{name}_mrr": sum(1 / place for place in found) / len(ranks)}


def found(library: Library, data: Path) -> dict[str, float]:
    """Recall and reciprocal rank."""
    catalog = []
    for question in questions(data, "catalog"):
        rows = library.ask(question, "catalog").rows
        catalog.append(rank(rows, lambda row: row.path == question.path))  # noqa: B023
    body = []
    for question in questions(data, "body"):
        right = {(question.path, heading.anchor) for heading in library.wanted(question)}
        body.append(rank(library.ask(question, "body").rows, right.__contains__))
    return recalls("catalog", catalog) | recalls("body", body)


def reading(library: Library, question: Question, answer: Answer, *, whole: bool) -> tuple[int, bool]:
    """The bytes of an answer and of what is then read, and whether a row led there."""
    wanted = library.wanted(question)
    size, read = answer.size, set[Row]()
    for row in answer.rows:
        row = Row(row.path, "") if whole else row
        if row in read:
            continue
        read.add(row)
        start, end = library.span(row)
        size += end - start
        if row.path == question.path and any(
            start <= heading.start and heading.end <= end for heading in wanted
        ):
            return size, True
    return size + library.size(question.path), False


def costs(library: Library, data: Path) -> dict[str, float]:
    """Bytes for each body question."""
    figures: dict[str, float] = {}
    asked = questions(data, "body")
    for name, mode, whole in (
        ("section", "body", False),
        ("whole", "body", True),
        ("document", "catalog", True),
    ):
        read = [reading(library, one, library.ask(one, mode), whole=whole) for one in asked]
        figures[f"bytes_per_question_{name}"] = sum(size for size, _ in read) / len(read)
        figures[f"found_{name}"] = sum(led for _, led in read) / len(read)
    return figures


# --- Tasks


def tasks(library: Library, data: Path) -> dict[str, float]:
    """What the task questions lead to, and tokens for each question."""

    def anchors(wanted: Wanted) -> set[str]:
        return {one.anchor for one in library.wanted(Question("", *wanted))}

    def of_body(query: str) -> list[Place]:
        return [Place(*row) for row in library.ask(Question(query, "", ""), "body").rows]

    figures: dict[str, float] = {}
    plain = _any_term(library)
    wanting = asked(data, "task")
    for name, rows_of in (("task", library.deep), ("body", of_body), ("any_term", plain)):
        found, documents = shares(wanting, rows_of, anchors)
        figures[f"{name}_sections_at_5"], figures[f"{name}_documents_at_5"] = found, documents
    everything = asked(data, "body", "task")
    for mode in ("catalog", "body", "task"):
        read = [_read(library, one, mode) for one in everything]
        figures[f"bytes_per_question_{mode}"] = sum(size for size, _ in read) / len(read)
        figures[f"tokens_per_question_{mode}"] = figures[f"bytes_per_question_{mode}"] / BYTES_PER_TOKEN
        figures[f"answered_{mode}"] = sum(led for _, led in read) / len(read)
    return figures


def _read(library: Library, question: Asked, mode: str) -> tuple[int, bool]:
    """Bytes until every wanted section is in hand, and whether rows led to all."""
    answer = library.ask(Question(question.query, "", ""), mode)
    wanted = {Place(one.path, library.wanted(Question("", *one))[0].anchor) for one in question.wanted}
    rows = [Place(*row) for row in answer.rows]
    return cost(answer.size, rows, wanted, lambda place: library.span(Row(*place)), library.size)


def _any_term(library: Library) -> Callable[[str], list[Place]]:
    """The peer: BM25 over sections, each with its trail, title and tags as one text; one term of a query is enough."""
    places: list[Place] = []
    held: list[Abstract] = []
    for path in library.paths():
        entry = library.entry(path)
        for section in sections(library.body(path)):
            places.append(Place(path, section.anchor))
            held.append(abstract("", " ".join((entry.title, *entry.tags, *section.trail, section.own_text))))
    having, score = postings(held), plain_bm25(held)

    def rows(query: str) -> list[Place]:
        terms = [term for term, *_ in body_terms(query, "wide")]
        return [places[number] for number in best(terms, having, len(held), score, DEEP)]

    return rows


# --- Cranfield


class Abstract(NamedTuple):
    """A document as counted tokens."""

    own: Mapping[str, int]
    title: frozenset[str]
    length: int


Postings = Mapping[str, Sequence[int]]
Score = Callable[[str, int], float]
"""What a term is worth in a document, its rarity left out."""


def lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open() as text:
        yield from map(json.loads, text)


def abstract(title: str, text: str) -> Abstract:
    words = Words(text)
    return Abstract(words.own, frozenset(Words(title).own), words.length)


def postings(held: Sequence[Abstract]) -> Postings:
    found: dict[str, list[int]] = {}
    for number, one in enumerate(held):
        for term in one.own.keys() | one.title:
            found.setdefault(term, []).append(number)
    return found


def best(
    terms: Sequence[str], having: Postings, documents: int, score: Score, depth: int = DEPTH
) -> list[int]:
    """The first documents of a disjunctive query, equal ones in their order."""
    scores: dict[int, float] = {}
    for term in terms:
        rarity = weight(documents, len(having.get(term, ())))
        for number in having.get(term, ()):
            scores[number] = scores.get(number, 0.0) + rarity * score(term, number)
    return sorted(scores, key=lambda number: (-scores[number], number))[:depth]


def ours(held: Sequence[Abstract]) -> Score:
    """The value of a term as the index keeps it."""
    importance = step(entry_of("/a.md", {}, b"", 0).importance)

    def score(term: str, number: int) -> float:
        one = held[number]
        level = levels(short_length(one.length), importance, False)[0][min(one.own.get(term, 0), TF_MAX)]
        value: float = VALUES[level | (FIELD_BIT if term in one.title else 0)]
        return value

    return score


def plain_bm25(held: Sequence[Abstract]) -> Score:
    """The peer."""
    lengths = [sum(one.own.values()) for one in held]
    average = sum(lengths) / len(lengths)

    def score(term: str, number: int) -> float:
        tf = held[number].own[term]
        return tf * (K1 + 1) / (tf + K1 * (1 - B + B * lengths[number] / average))

    return score


def ndcg(ranked: Sequence[int], relevant: set[int]) -> float:
    gains: list[float] = [1 / math.log2(place + 1) for place in range(1, DEPTH + 1)]
    gained: float = sum(gain for gain, number in zip(gains, ranked, strict=False) if number in relevant)
    ideal: float = sum(gains[: len(relevant)])
    return gained / ideal


def cranfield(folder: Path) -> dict[str, float]:
    """nDCG@10, mean over the queries with judgements."""
    texts = list(lines(folder / "docs.jsonl"))
    places = {text["id"]: number for number, text in enumerate(texts)}
    relevant: dict[str, set[int]] = {}
    for line in (folder / "qrels.tsv").read_text().splitlines()[1:]:
        query, document, degree = line.split("\t")
        if int(degree) > 0:
            relevant.setdefault(query, set()).add(places[document])
    titled = [abstract(text["title"], text["text"]) for text in texts]
    one_text = [abstract("", f"{text['title']}\n{text['text']}") for text in texts]
    ways = {
        "cranfield_ndcg_10": (postings(titled), ours(titled)),
        "cranfield_ndcg_10_ours_one_text": (postings(one_text), ours(one_text)),
        "cranfield_ndcg_10_plain_bm25": (postings(one_text), plain_bm25(one_text)),
    }
    worded = {query["id"]: query["text"] for query in lines(folder / "queries.jsonl")}
    queries = {number: [term for term, *_ in body_terms(text, "wide")] for number, text in worded.items()}
    ranks = {
        name: {query: best(queries[query], having, len(texts), score) for query in relevant}
        for name, (having, score) in ways.items()
    }
    for name, floor in (("cranfield_ndcg_10_task", True), ("cranfield_ndcg_10_task_no_floor", False)):
        ranks[name] = cranfield_ranks(texts, worded, floor=floor)
    return {
        name: sum(ndcg(ranked[query], right) for query, right in relevant.items()) / len(relevant)
        for name, ranked in ranks.items()
    }


def measure(data: Path) -> dict[str, float]:
    with scratch() as name:
        fill(Path(name) / "root", data)
        world = World.open(str(Path(name) / "root"), log=silent)
        library = Library(world)
        figures = found(library, data) | costs(library, data) | tasks(library, data)
        world.close()
    return figures | cranfield(data / "ir" / "cranfield")


def show(figures: Mapping[str, float]) -> None:
    print(f"{'':<10}" + "".join(f"{name:>12}" for name in ("recall@1", "recall@5", "recall@10", "MRR")))
    for mode in ("catalog", "body"):
        keys = [*(f"{mode}_hit_at_{n}" for n in (1, 5, 10)), f"{mode}_mrr"]
        print(f"{mode:<10}" + "".join(f"{figures[key]:>12.3f}" for key in keys))
    print(f"\n{'read as':<10}{'bytes':>12}{'/ document':>12}{'found':>12}")
    for way in ("section", "whole", "document"):
        size = figures[f"bytes_per_question_{way}"]
        ratio = size / figures["bytes_per_question_document"]
        print(f"{way:<10}{size:>12,.0f}{ratio:>12.3f}{figures[f'found_{way}']:>12.3f}")
    print(f"\n{'tasks':<10}{'sections@5':>12}{'documents@5':>12}")
    for way in ("task", "body", "any_term"):
        found_, right = figures[f"{way}_sections_at_5"], figures[f"{way}_documents_at_5"]
        print(f"{way:<10}{found_:>12.3f}{right:>12.3f}")
    print(f"\n{'mode':<10}{'tokens':>12}{'/ catalog':>12}{'answered':>12}")
    for mode in ("catalog", "body", "task"):
        tokens = figures[f"tokens_per_question_{mode}"]
        ratio = tokens / figures["tokens_per_question_catalog"]
        print(f"{mode:<10}{tokens:>12,.0f}{ratio:>12.3f}{figures[f'answered_{mode}']:>12.3f}")
    print(f"\n{'Cranfield':<15}{'nDCG@10':>12}{'/ BM25':>12}")
    plain = figures["cranfield_ndcg_10_plain_bm25"]
    for way, key in (
        ("ours", ""),
        ("ours, one text", "_ours_one_text"),
        ("task", "_task"),
        ("task, no floor", "_task_no_floor"),
        ("plain BM25", "_plain_bm25"),
    ):
        value = figures[f"cranfield_ndcg_10{key}"]
        print(f"{way:<15}{value:>12.4f}{value / plain:>12.3f}")


def main() -> None:
    given = options(__doc__).parse_args()
    figures = measure(checked(given.data))
    if given.json:
        print(json.dumps({key: round(value, 4) for key, value in figures.items()}))
    else:
        show(figures)


if __name__ == "__main__":
    main()
