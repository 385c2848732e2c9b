"""The section index against body mode done plainly: whatever was written, whoever asks, whatever was folded."""

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from app.search.catalog import Catalog
from app.search.index import SectionIndex
from app.search.query import Query, parse_query
from app.search.tokens import Recall
from tests.unit.search.plain import (
    BODIES,
    CALLERS,
    METADATA,
    PATHS,
    QUERIES,
    WORLDS,
    Caller,
    Document,
    Plain,
    Tidied,
    filled,
    found,
)

LIMITS = st.sampled_from(["1", "3", "10", "1000"])
SCOPES = st.sampled_from(["/", "/", "/guide", "/private", "/nowhere"])
FILTERS = st.sampled_from(["", "", "kind=x", "tag=pump", "modified-after=1970-01-01T00:16:41Z"])
RECALLS: list[Recall] = ["reference", "wide"]


def asked(text: str, limit: str = "1000", scope: str = "/", filter_: str = "") -> Query:
    return parse_query(scope, {"query": f"{text} ..", "limit": limit, "filter": filter_, "match": "body"})


class Writes(Tidied):
    """Puts, drops, folds and questions in any order; every answer is the plain one."""

    @initialize(recall=st.sampled_from(RECALLS), world=WORLDS)
    def start(self, recall: Recall, world: list[tuple[str, dict[str, str], bytes]]) -> None:
        self.plain = Plain(recall)
        self.catalog = Catalog()
        self.index = SectionIndex(self.catalog, recall)
        self.version = 0
        for path, metadata, body in world:
            self.put(path, metadata, body, False)

    @rule(path=st.sampled_from(PATHS), metadata=METADATA, body=BODIES, packed=st.booleans())
    def put(self, path: str, metadata: dict[str, str], body: bytes, packed: bool) -> None:
        self.version += 1
        entry, body, version = self.plain.put(path, metadata, body, self.version)
        make = self.index.extract if packed else self.index.gather
        self.catalog.put(entry)
        self.index.put(make(entry, body, version))

    @rule(path=st.sampled_from(PATHS))
    def drop(self, path: str) -> None:
        self.plain.drop(path)
        self.catalog.drop(path)
        self.index.drop(path)

    @rule(
        texts=st.lists(QUERIES, min_size=8, max_size=8),
        limit=LIMITS,
        scope=SCOPES,
        filter_=FILTERS,
        caller=st.sampled_from(CALLERS),
    )
    def ask(self, texts: list[str], limit: str, scope: str, filter_: str, caller: Caller) -> None:
        for text in texts:
            query = asked(text, limit, scope, filter_)
            assert found(self.index.match(query, caller)) == self.plain.match(query, caller)

    @rule(texts=st.lists(QUERIES, min_size=8, max_size=8), caller=st.sampled_from(CALLERS))
    def start_anew(self, texts: list[str], caller: Caller) -> None:
        """The answer is that of a fresh start, and of a world that holds only what the caller may read."""
        readable = [one for path, one in self.plain.documents.items() if caller.may_read(path)]
        fresh = filled(self.plain.documents.values(), self.plain.recall)
        only = filled(readable, self.plain.recall)
        for text in texts:
            query = asked(text)
            answer = found(self.index.match(query, caller))
            assert answer == found(fresh.match(query, caller))
            assert answer == found(only.match(query, Caller()))

    def teardown(self) -> None:
        if hasattr(self, "index"):
            stats = self.index.stats()
            assert stats.documents == len(self.plain.documents)
            for path in PATHS:
                self.drop(path)
            assert self.index.stats().postings == self.index.stats().segments == 0


TestWrites = Writes.TestCase
TestWrites.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@given(WORLDS, st.lists(QUERIES, min_size=8, max_size=8), LIMITS, st.sampled_from(CALLERS))
@settings(max_examples=60, deadline=None)
def test_answers_do_not_depend_on_where_their_steps_end(
    world: list[tuple[str, dict[str, str], bytes]], texts: list[str], limit: str, caller: Caller
) -> None:
    plain = Plain("wide")
    for version, (path, metadata, body) in enumerate(world):
        plain.put(path, metadata, body, version)
    index = filled(plain.documents.values(), "wide")
    with (
        patch.multiple("app.search.matching", _STEP=1, _ROWS=2, _TERMS=1),
        patch.multiple("app.search.index", _TERMS=1, _MANY=0),
    ):
        for text in texts:
            query = asked(text, limit)
            assert found(index.match(query, caller)) == plain.match(query, caller)


@given(WORLDS, QUERIES)
@settings(max_examples=60, deadline=None)
def test_wide_only_adds_rows(world: list[tuple[str, dict[str, str], bytes]], text: str) -> None:
    plain = Plain("wide")
    for version, (path, metadata, body) in enumerate(world):
        plain.put(path, metadata, body, version)
    documents = plain.documents.values()
    narrow = found(filled(documents, "reference").match(asked(text), Caller()))
    assert set(found(filled(documents, "wide").match(asked(text), Caller()))).issuperset(narrow)


def document(path: str, body: str, version: int = 1, **metadata: str) -> Document:
    return Plain("wide").put(path, metadata, body.encode(), version)


def test_a_word_typed_decomposed_is_as_rare_as_its_own_sections_make_it() -> None:
    """What stands above a section does not make a word frequent, whichever of its two spellings that is (lookup §8.4)."""
    plain = Plain("wide")
    plain.put("/a.md", {"tags": "caf\u00e9"}, "pump caf\u00e9\n\n# anchor\n\n# pump".encode(), 1)
    index = filled(plain.documents.values(), "wide")
    for spelling in ("caf\u00e9", "cafe\u0301"):
        query = asked(f"pump {spelling}", "5")
        assert found(index.match(query, Caller())) == plain.match(query, Caller())
        assert [row[2] for row in found(index.match(query, Caller()))] == ["", "pump"]


def test_the_text_shown_is_of_the_version_matched() -> None:
    index = filled([document("/a.md", "# One\n\nthe pump\n", version=7)], "wide")
    asked_for = []

    def read_body(path: str, version: int) -> bytes:
        asked_for.append((path, version))
        return b"# One\n\nthe pump\n"

    (row,) = index.lookup(asked("pump"), Caller(), read_body)
    assert (row.anchor, row.title, row.snippet) == ("one", "One › One", "the pump")
    assert asked_for == [("/a.md", 7)]


def test_a_body_that_cannot_be_read_costs_the_snippet_only() -> None:
    index = filled([document("/a.md", "# One\n\nthe pump\n")], "wide")
    (row,) = index.lookup(asked("pump"), Caller(), lambda path, version: None)
    assert (row.path, row.snippet) == ("/a.md", "")


def test_a_document_is_read_once_and_not_for_a_bare_row() -> None:
    index = filled(
        [document("/a.md", "# One\n\npump\n\n## Two\n\npump\n"), document("/pump.md", "\n", title="Pump")],
        "wide",
    )
    asked_for = []

    def read_body(path: str, version: int) -> bytes:
        asked_for.append(path)
        return b"# One\n\npump\n\n## Two\n\npump\n"

    assert len(index.lookup(asked("pump"), Caller(), read_body)) == 3
    assert asked_for == ["/a.md"]


@pytest.mark.parametrize("text", ["", "a b", "*", "日 本", "c++ C#", "... --- !!!"])
def test_nothing_usable_finds_nothing(text: str) -> None:
    index = filled([document("/a.md", "a b * 日 本 c++ C# ... ---\n")], "wide")
    assert index.match(asked(text), Caller()) == []


def test_an_empty_index_answers() -> None:
    index = SectionIndex(Catalog())
    assert index.match(asked("pump"), Caller()) == []
    assert not index.fold()
    index.settle()
    assert index.stats().size == 0
