"""Task mode over the section index against task mode done plainly: whatever was written, whoever asks, whatever was folded."""

from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from app.search.answer import Answer
from app.search.catalog import Catalog
from app.search.entry import entry_of
from app.search.index import SectionIndex
from app.search.query import Query, task_query
from app.search.tokens import Recall
from tests.unit.search.plain import CALLERS, Caller, Document, Tidied, filled
from tests.unit.search.plain_task import BODIES, METADATA, PATHS, QUERIES, WORLDS, PlainTask, Row

LIMITS = st.sampled_from(["", "1", "3"])
SCOPES = st.sampled_from(["/", "/", "/", "/guide", "/private", "/nowhere"])
FILTERS = st.sampled_from(["", "", "kind=x", "tag=pump"])


def rows(answer: Answer) -> tuple[list[Row], int, int]:
    return [Row(row.path, row.anchor, row.match) for row in answer.rows], answer.matches, answer.ignored


class Writes(Tidied):
    """Puts, drops, folds and questions in any order; every answer is the plain one."""

    @initialize(recall=st.sampled_from(["reference", "wide"]), world=WORLDS)
    def start(self, recall: Recall, world: list[tuple[str, dict[str, str], bytes]]) -> None:
        self.recall: Recall = recall
        self.documents: dict[str, Document] = {}
        self.catalog = Catalog()
        self.index = SectionIndex(self.catalog, recall)
        self.version = 0
        for path, metadata, body in world:
            self.put(path, metadata, body, False)

    @rule(path=st.sampled_from(PATHS), metadata=METADATA, body=BODIES, packed=st.booleans())
    def put(self, path: str, metadata: dict[str, str], body: bytes, packed: bool) -> None:
        self.version += 1
        entry = entry_of(path, metadata, body, 1_000 * self.version)
        self.documents[path] = Document(entry, body, self.version)
        self.catalog.put(entry)
        self.index.put((self.index.extract if packed else self.index.gather)(entry, body, self.version))

    @rule(path=st.sampled_from(PATHS))
    def drop(self, path: str) -> None:
        self.documents.pop(path, None)
        self.catalog.drop(path)
        self.index.drop(path)

    def read(self, path: str, version: int) -> bytes:
        assert self.documents[path].version == version
        return self.documents[path].body

    def ask(self, query: Query, caller: Caller) -> Answer:
        return self.index.task(query, caller, self.read)

    @rule(
        texts=st.lists(QUERIES, min_size=8, max_size=8),
        limit=LIMITS,
        scope=SCOPES,
        filter_=FILTERS,
        caller=st.sampled_from(CALLERS),
    )
    def ask_of_a_directory(
        self, texts: list[str], limit: str, scope: str, filter_: str, caller: Caller
    ) -> None:
        for text in texts:
            query = task_query(text, scope, limit=limit, filters=filter_)
            plain = PlainTask(self.documents.values(), query, caller)
            assert rows(self.ask(query, caller)) == plain.answer(), text

    @rule(
        texts=st.lists(QUERIES, min_size=4, max_size=4),
        path=st.sampled_from(PATHS),
        caller=st.sampled_from(CALLERS),
    )
    def ask_of_a_document(self, texts: list[str], path: str, caller: Caller) -> None:
        for text in texts:
            query = task_query(text, document=path)
            plain = PlainTask(self.documents.values(), query, caller)
            assert rows(self.ask(query, caller)) == plain.answer(), text

    @rule(texts=st.lists(QUERIES, min_size=6, max_size=6), caller=st.sampled_from(CALLERS))
    def start_anew(self, texts: list[str], caller: Caller) -> None:
        """The answer, snippets too, is that of a fresh start, and of a world that holds only what the caller may read."""
        readable = [one for path, one in self.documents.items() if caller.may_read(path)]
        fresh = filled(self.documents.values(), self.recall)
        only = filled(readable, self.recall)
        for text in texts:
            query = task_query(text)
            answer = self.ask(query, caller)
            assert answer == fresh.task(query, caller, self.read)
            assert answer == only.task(query, Caller(), self.read)


TestWrites = Writes.TestCase
TestWrites.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)


@settings(max_examples=200, deadline=None)
@given(
    WORLDS,
    st.lists(QUERIES, min_size=6, max_size=6),
    st.sampled_from(["reference", "wide"]),
    st.sampled_from([0, 12, 1_000]),
)
def test_rows_are_the_plain_ones(
    world: list[tuple[str, dict[str, str], bytes]], texts: list[str], recall: Recall, scan: int
) -> None:
    """Whether neighbours are looked for section by section (0) or in all marks at once (1,000)."""
    documents = {path: Document(entry_of(path, metadata, body, 1), body, 1) for path, metadata, body in world}
    index = filled(documents.values(), recall)
    for text in texts:
        query = task_query(text)
        with patch("app.search.exact.SCAN", scan):
            answer = index.task(query, Caller(), lambda path, _: documents[path].body)
        assert rows(answer) == PlainTask(documents.values(), query, Caller()).answer(), text


@settings(max_examples=60, deadline=None)
@given(WORLDS, st.lists(QUERIES, min_size=6, max_size=6), st.sampled_from(CALLERS))
def test_answers_do_not_depend_on_where_their_steps_end(
    world: list[tuple[str, dict[str, str], bytes]], texts: list[str], caller: Caller
) -> None:
    documents = {path: Document(entry_of(path, metadata, body, 1), body, 1) for path, metadata, body in world}
    index = filled(documents.values(), "wide")
    for text in texts:
        query = task_query(text)
        whole = index.task(query, caller, lambda path, _: documents[path].body)
        with (
            patch.multiple("app.search.exact", HEAVY=0, SCAN=1_000, _BLOCK=4, _MANY=1),
            patch("app.search.steps.HEAVY", 0),
            patch("app.search.task._RECORDS", 1),
            patch("app.search.complement._KNOWN", 1),
            patch("app.search.tokens._PIECE", 5),
        ):
            assert index.task(query, caller, lambda path, _: documents[path].body) == whole


def test_a_value_is_rounded_once_where_it_is_compared() -> None:
    """Two records of one document whose values are equal to six decimals only if nothing is rounded on the way (task §9)."""
    body = (
        "## `log` `log level`\n\n- # box\n\n  `log level` x\n\n## box rüst rust\n\nTitle pump\n---".encode()
    )
    metadata = {
        "title": "c++ v1.2",
        "tags": "level pumps,日",
        "description": "to pump.aft",
        "importance": "0",
    }
    document = Document(entry_of("/private/a.md", metadata, body, 1), body, 1)
    query = task_query("to an**ch**or pump.aft wave the `log level`")
    answer = filled([document], "reference").task(query, Caller(), lambda path, version: body)
    assert [row.anchor for row in answer.rows] == ["log-log-level", "", "box"]
    assert rows(answer) == PlainTask([document], query, Caller()).answer()
