"""What is read, and what is found, where neighbours have to be told from words that only both are there (task §6, §14)."""

import time
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.markdown.sections import sections
from app.protocol.tables import LookupRow
from app.search import marks
from app.search.catalog import Catalog
from app.search.collection import Collection
from app.search.entry import entry_of
from app.search.exact import locate
from app.search.extract import extract
from app.search.index import SectionIndex
from app.search.marks import mark
from app.search.query import task_query
from app.search.records import Records
from app.search.steps import done
from app.search.texts import Texts
from app.search.wording import Unit, folded, occurrences
from tests.unit.search.plain import Caller
from tests.unit.search.plain_task import BODIES


class Shelf:
    """Documents in memory that notes what is read."""

    def __init__(self, *bodies: str) -> None:
        self.bodies = {f"/{number}.md": body.encode() for number, body in enumerate(bodies)}
        self.lost: set[str] = set()
        self.reads: list[str] = []
        catalog = Catalog()
        self.index = SectionIndex(catalog)
        for path, body in self.bodies.items():
            entry = entry_of(path, {"title": "T"}, body, 0)
            catalog.put(entry)
            self.index.put(self.index.extract(entry, body, 1))

    def read(self, path: str, _: int) -> bytes | None:
        self.reads.append(path)
        return None if path in self.lost else self.bodies[path]

    def ask(self, query: str, caller: Caller | None = None) -> list[LookupRow]:
        self.reads.clear()
        return self.index.task(task_query(query), caller or Caller(), self.read).rows


def complete(rows: list[LookupRow]) -> list[str]:
    return [row.path for row in rows if row.match == "complete"]


def test_words_that_are_no_neighbours_are_told_without_reading() -> None:
    shelf = Shelf(*(f"pump {number} seal" for number in range(50)), "a pump-seal here")
    assert complete(shelf.ask("pump-seal x9")) == []
    assert set(shelf.reads) == {"/50.md"}  # for the row's own text


def test_a_phrase_is_found_without_reading_more_than_the_rows() -> None:
    shelf = Shelf(*("the pump seal leaks" for _ in range(50)))
    assert len(shelf.ask('"pump seal"')) == 5
    assert len(shelf.reads) == 5


def test_words_with_one_mark_are_told_apart() -> None:
    met: dict[int, str] = {}
    twins = next(
        (word, met[mark(word)])
        for number in count()
        if mark(word := f"w{number}") in met or met.setdefault(mark(word), word) is None
    )
    one, other = twins
    shelf = Shelf(
        f"pump {one} and {other}", f"pump {other} and {one}", f"{one} {other}", f"{other} {one} and {one}"
    )
    assert complete(shelf.ask(f'"pump {one}"')) == ["/0.md"]
    assert complete(shelf.ask(f'"pump {other}"')) == ["/1.md"]
    assert complete(shelf.ask(f'"{one} {other}"')) == ["/2.md"]
    assert complete(shelf.ask(f'"{other} {one}"')) == ["/3.md"]


def test_what_cannot_be_read_has_no_literal_and_no_snippet() -> None:
    shelf = Shelf("the net.core limit", "the net.core limit")
    shelf.lost.add("/0.md")
    assert [row.path for row in shelf.ask("net.core")] == ["/1.md"]
    assert [row.snippet for row in shelf.ask("limit")] == ["", "the net.core limit"]


def test_nothing_is_read_that_the_caller_may_not_read() -> None:
    shelf = Shelf(*("the net.core c++ limit" for _ in range(3)))
    for query in ("net.core", "c++", "limit", "f" * 40):
        shelf.ask(query, Caller("/1.md"))
        assert "/1.md" not in shelf.reads


def records_of(body: bytes) -> Records:
    collection = Collection()
    collection.put(extract(entry_of("/a.md", {}, body, 0), body, 1, "wide"))
    (held,) = collection
    return done(held.records())


_UNITS = [
    Unit("literal", "v1.2"),
    Unit("literal", "read-only"),
    Unit("quoted", "log level"),
    Unit("literal", "vec<pump>"),
    Unit("literal", "an/ch"),
    Unit("joined", "pump box"),
    Unit("word", "abcdefgh" * 5),
    Unit("literal", "c++"),
]


@settings(max_examples=200, deadline=None)
@given(BODIES, st.sampled_from(_UNITS))
def test_lines_and_sections_say_what_the_whole_document_says(body: bytes, unit: Unit) -> None:
    records = records_of(body)
    texts = Texts(records, lambda _: None, lambda *_: body)
    for number, section in enumerate(sections(body)):
        row = records.segment.marks(number)
        own = section.own_text, records.segment.lengths()[number]
        assert marks.marks(marks.runs(own[0]), [], [])[:-2] == row[: 2 * own[1]]
        assert done(texts.times(unit, number)) == len(list(occurrences(unit, folded(section.own_text))))
        assert done(texts.in_code(unit, number)) == any(
            list(occurrences(unit, folded(code))) for code in section.codes
        )


@pytest.mark.parametrize(
    ("body", "kind", "wanted", "found"),
    [
        ("a an**d/o**r b", "literal", "and/or", True),
        ("a [and](x)/or b", "literal", "and/or", True),
        ("a <b>and</b>/or b", "literal", "and/or", True),
        ("and\n\n/or", "literal", "and/or", False),
        ("and or", "quoted", "and/or", False),
        ("`Vec<String>` x", "literal", "vec<string>", True),
        ("Vec<String> x", "literal", "vec<string>", False),
        ("```\nlog --all\n```", "quoted", "log --all", True),
        ("> - ## T\n>   `a --all`", "literal", "--all", True),
        ("C++ and c", "literal", "c++", True),
        ("c+ and c", "literal", "c++", False),
        ("# About C++\n\nx", "literal", "c++", True),
        (f"sum {'f' * 40} x", "word", "f" * 40, True),
        (f"sum {'f' * 41} x", "word", "f" * 40, False),
        (f"sum {'a' * 40}s x", "word", "a" * 40, True),
        (f"x `<{'f' * 40}>`", "word", "f" * 40, True),
        ("pump seal " * 40, "quoted", "pump seal", True),
        ("pump pumps", "joined", "pump-pump", True),
        ("pump pumps", "quoted", "pump pump", False),
        ("x|pump y", "literal", "x|pump", False),
        ("card\n\n# restore", "joined", "card-restore", False),
        ("`card` `restore`", "joined", "card-restore", True),
        ("`<card>` `<restore>`", "joined", "card-restore", False),
        ("x `<card>` restore", "joined", "x-restore", True),
    ],
)
def test_what_a_document_holds(body: str, kind: str, wanted: str, found: bool) -> None:
    encoded = body.encode()
    records, unit = records_of(encoded), Unit(kind, wanted)  # type: ignore[arg-type]
    entry = entry_of("/a.md", {}, b"", 0)
    column = done(locate(unit, records, None, Texts(records, lambda _: entry, lambda *_: encoded)))
    assert (column is not None) == found


HOSTILE = ["c++ " * 50_000, "# c++\n\n" * 8_000, "`c++` " * 40_000, "a" * 200_000, "and/or " * 30_000]


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("query", ["c++", "and/or", "a" * 4000, '"c++ c++ c++"', "a.a " * 1000])
def test_a_hostile_document_takes_no_long_time(body: str, query: str) -> None:
    shelf = Shelf(body)
    started = time.thread_time()
    shelf.ask(query)
    assert time.thread_time() - started < 3
