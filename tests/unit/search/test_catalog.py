"""The catalog against a plain loop over all entries, after any writes, with blocks so small that they split and join."""

from collections.abc import Callable, Iterable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.protocol.paths import sort_key
from app.protocol.runes import fold, lower
from app.protocol.tables import LookupRow
from app.search import catalog as module
from app.search.catalog import Catalog
from app.search.entry import Entry, entry_of
from app.search.query import Query, parse_query


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_MAX", 4)
        patch.setattr(module, "COMMON", 2)
        yield


# Making forty writes is all the work here; on a busy machine hypothesis would complain.
SLOW_BOARD = [HealthCheck.too_slow]


def anybody(path: str) -> bool:
    return True


def plain_lookup(entries: Iterable[Entry], query: Query, may_read: Callable[[str], bool]) -> list[LookupRow]:
    """Lookup §4 and §5, sentence by sentence."""
    found = []
    for entry in entries:
        tags = {fold(tag) for tag in entry.tags}
        score = sum(fold(term) in tags or term in lower(entry.title) for term in query.terms)
        meets = query.text == "*" or score > 0
        in_scope = query.scope == "/" or entry.path.startswith(query.scope + "/")
        if meets and in_scope and query.filter.matches(entry) and may_read(entry.path):
            order = (
                0 if query.text == "*" else -score,
                -entry.importance,
                -entry.modified,
                sort_key(entry.path),
            )
            found.append((order, LookupRow(entry.path, "", entry.importance, entry.title, entry.tags, "")))
    return [row for _, row in sorted(found, key=lambda pair: pair[0])][: query.limit]


SEGMENTS = ["a", "b", "é", "\udcff", "\udc80", "\U0001f600", "\ue000"]
PATHS = st.lists(st.sampled_from(SEGMENTS), min_size=1, max_size=3).map(
    lambda names: "/" + "/".join(names) + ".md"
)
WORDS = ["a", "B", "ab", "Σς", "x,y", "\u0130", "\U0001f600", "*"]
TAGS = st.lists(st.sampled_from([*WORDS, " ", "a b", "x"]), max_size=4).map(",".join)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "tags": TAGS,
        "title": st.lists(st.sampled_from([*WORDS, "\t", "b\ra"]), max_size=3).map(" ".join),
        "importance": st.sampled_from(["0", "-0", "1", "0.5", "x"]),
        "type": st.sampled_from(["", "a", "b"]),
        "a": st.sampled_from(["", "type", "b"]),
    },
)
ENTRIES = st.builds(entry_of, PATHS, METADATA, st.just(b"# aB\n"), st.integers(-1, 2))
WRITES = st.lists(ENTRIES | PATHS, max_size=40)
CLAUSES = [
    "type=a",
    "type=b",
    "a=type",
    "tag=x",
    "tag=ab",
    "tag=s",
    "tag=a b",
    "modified-after=1970-01-01",
    "modified-before=1970-01-01T00:00:02Z",
    "a=type\n\ntype\na",
    "type=a\n\na\ntype",
]
REQUESTS = st.fixed_dictionaries(
    {
        "query": st.just("*")
        | st.lists(st.sampled_from([*WORDS, "\u017f", "σσ", ","]), min_size=2, max_size=5).map(" ".join)
    },
    optional={
        "limit": st.sampled_from(["1", "2", "5", "1000"]),
        "filter": st.lists(st.sampled_from(CLAUSES), max_size=2).map(",".join),
    },
)
SCOPES = st.sampled_from(["/", "/a", "/a/b", "/\udcff", "/é"])


def written(writes: Iterable[Entry | str]) -> tuple[Catalog, dict[str, Entry]]:
    """A catalog after these puts and drops, and what it should hold."""
    catalog, held = Catalog(), dict[str, Entry]()
    for write in writes:
        if isinstance(write, Entry):
            catalog.put(write)
            held[write.path] = write
        else:
            catalog.drop(write)
            held.pop(write, None)
    return catalog, held


@settings(max_examples=200, deadline=None, suppress_health_check=SLOW_BOARD)
@given(WRITES, REQUESTS, SCOPES, st.sets(PATHS, max_size=5))
def test_rows_are_those_of_a_plain_loop(
    writes: list[Entry | str], request_: dict[str, str], scope: str, unreadable: set[str]
) -> None:
    catalog, held = written(writes)
    query = parse_query(scope, request_)

    def may_read(path: str) -> bool:
        return path not in unreadable

    assert catalog.lookup(query, may_read) == plain_lookup(held.values(), query, may_read)


@settings(max_examples=100, deadline=None, suppress_health_check=SLOW_BOARD)
@given(WRITES, WRITES, REQUESTS)
def test_answers_between_writes_leave_no_trace(
    first: list[Entry | str], then: list[Entry | str], request_: dict[str, str]
) -> None:
    query = parse_query("/", request_)
    catalog, held = written(first)
    assert catalog.lookup(query, anybody) == written(held.values())[0].lookup(query, anybody)
    catalog.prepare()
    for write in then:
        if isinstance(write, Entry):
            catalog.put(write)
            held[write.path] = write
        else:
            catalog.drop(write)
            held.pop(write, None)
    fresh, _ = written(held.values())
    assert catalog.lookup(query, anybody) == fresh.lookup(query, anybody)


@settings(max_examples=100, deadline=None, suppress_health_check=SLOW_BOARD)
@given(WRITES, SCOPES)
def test_everything_put_and_not_dropped_is_there(writes: list[Entry | str], scope: str) -> None:
    catalog, held = written(writes)
    assert len(catalog) == len(held)
    assert {path: catalog.get(path) for path in held} == held
    assert catalog.get("/none.md") is None
    below = {path for path in held if scope == "/" or path.startswith(scope + "/")}
    assert set(catalog.paths(scope)) == below


@settings(max_examples=100, deadline=None, suppress_health_check=SLOW_BOARD)
@given(WRITES, REQUESTS, st.sets(PATHS))
def test_permission_is_asked_only_about_what_matches(
    writes: list[Entry | str], request_: dict[str, str], unreadable: set[str]
) -> None:
    catalog, held = written(writes)
    query = parse_query("/", request_ | {"limit": "1000"})
    matching = {row.path for row in plain_lookup(held.values(), query, anybody)}
    asked: list[str] = []

    def may_read(path: str) -> bool:
        asked.append(path)
        return path not in unreadable

    catalog.lookup(query, may_read)
    assert len(asked) == len(set(asked))
    assert set(asked) <= matching


def test_permission_is_not_asked_beyond_the_limit() -> None:
    catalog, _ = written(entry_of(f"/{number}.md", {"tags": "x"}, b"", number) for number in range(100))
    asked: list[str] = []

    def may_read(path: str) -> bool:
        asked.append(path)
        return path != "/98.md"

    rows = catalog.lookup(parse_query("/", {"query": "tag x", "limit": "3"}), may_read)
    assert [row.path for row in rows] == ["/99.md", "/97.md", "/96.md"]
    # No later document can score more than these, but that is only known once a block has no place for both terms.
    assert asked == ["/99.md", "/98.md", "/97.md", "/96.md"]


def test_blocks_go_with_their_documents() -> None:
    catalog, _ = written(entry_of(f"/{number}.md", {}, b"", number) for number in range(200))
    for number in range(200):
        if number % 50:
            catalog.drop(f"/{number}.md")
    assert len(catalog) == 4
    assert len(catalog._blocks) <= 4
    for number in range(0, 200, 50):
        catalog.drop(f"/{number}.md")
    assert catalog._blocks == []
    assert catalog.lookup(parse_query("/", {"query": "*"}), anybody) == []


def test_a_negative_zero_keeps_its_sign_and_ties_with_zero() -> None:
    catalog, _ = written(
        [entry_of("/b.md", {"importance": "-0"}, b"", 1), entry_of("/a.md", {"importance": "0"}, b"", 1)]
    )
    rows = catalog.lookup(parse_query("/", {"query": "*"}), anybody)
    assert [(row.path, f"{row.importance:.2f}") for row in rows] == [("/a.md", "0.00"), ("/b.md", "-0.00")]


@pytest.mark.parametrize(
    ("metadata", "request_", "found"),
    [
        ({"a": "type", "type": "a"}, {"query": "*", "filter": "a=type\n\ntype\na"}, False),
        ({"a": "b"}, {"query": "*", "filter": "t\n\na=b"}, False),
        ({"a": "b"}, {"query": "*", "filter": "a=b"}, True),
        ({"a": "bc"}, {"query": "*", "filter": "a=b"}, False),
        ({"ba": "b"}, {"query": "*", "filter": "a=b"}, False),
        ({"a": "", "b": "a"}, {"query": "*", "filter": "b=a"}, True),
        ({"": "a", "b": ""}, {"query": "*", "filter": "a=b"}, False),
        ({"tags": "x,y"}, {"query": "x,y"}, False),
        ({"tags": "x,y"}, {"query": ",,"}, False),
        ({"tags": "x,y", "title": "x,y"}, {"query": "x,y"}, True),
        ({"tags": "deck"}, {"query": "dec"}, False),
        ({"tags": "ſtraße"}, {"query": "Straẞe"}, True),
        ({"tags": "\u212aelvin"}, {"query": "kelvin"}, True),
        ({"tags": "\u0130i"}, {"query": "\u0130i"}, False),
        ({"title": "\u0130i"}, {"query": "\u0130i"}, True),
        ({"title": "\ud800 \udcff"}, {"query": "\ud800 zz"}, True),
        ({"a": "\ud800"}, {"query": "*", "filter": "a=\ud800"}, True),
    ],
)
def test_texts_do_not_run_into_each_other(
    metadata: dict[str, str], request_: dict[str, str], found: bool
) -> None:
    before, after = entry_of("/a.md", {"tags": "x"}, b"", 2), entry_of("/c.md", {"tags": "y"}, b"", 0)
    catalog, _ = written([before, entry_of("/b.md", metadata, b"", 1), after])
    rows = catalog.lookup(parse_query("/", request_), anybody)
    assert [row.path for row in rows] == (["/b.md"] if found else [])


def test_a_new_entry_is_found_by_its_new_texts_only() -> None:
    catalog, _ = written([entry_of("/a.md", {"title": "old", "tags": "was"}, b"", 1)])
    assert [len(catalog.lookup(parse_query("/", {"query": word}), anybody)) for word in ("old", "was")] == [
        1,
        1,
    ]
    catalog.put(entry_of("/a.md", {"title": "new", "tags": "is"}, b"", 1))
    words = ("old", "was", "new", "is")
    assert [len(catalog.lookup(parse_query("/", {"query": word}), anybody)) for word in words] == [0, 0, 1, 1]
