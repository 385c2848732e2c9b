"""Work in steps: what is given away, and that no step is long, whatever is in the documents (task §14)."""

import time
from typing import Any

import pytest

from app.markdown.sections import Section, sections
from app.search.catalog import Catalog
from app.search.entry import Entry, entry_of
from app.search.index import SectionIndex
from app.search.query import Query, parse_query, task_query
from app.search.steps import HEAVY, Course, Steps, away, done, heavy
from tests.unit.markdown.hostile import HOSTILE
from tests.unit.search.plain import Caller

SIZE = 500_000
START = b"# Zebra\n\nzebra zeta foo-bar net.core.max `some code` the quick "
BODIES = {
    "/words.md": START + b"a " * (SIZE // 2),
    "/lines.md": START + b"a b\n" * (SIZE // 4),
    "/joined.md": START + b"a.b" * (SIZE // 3),
    "/code.md": START + b"\n```\n" + b"foo bar(baz) " * (SIZE // 13),
    "/items.md": START + b"\n" + HOSTILE["items"](SIZE).encode(),
    "/headings.md": b"".join(b"# a b%d\nzeta the foo-bar\n" % (number % 99) for number in range(40_000)),
}
QUERIES = [
    *map(
        task_query,
        [
            "zebra zeta",
            "foo-bar",
            "net.core.max",
            "`some code`",
            '"a a a"',
            '"a b" "b a"',
            "a.b a.b",
            f'"{"a " * 2_000}"',
            "foo bar(baz)",
            "c++ a/b",
            "zebbra",
        ],
    ),
    *(
        parse_query("/", {"query": query, "match": "body", "limit": limit})
        for query in ("zebra zeta", "zeta", "zeta the foo-bar", "ab.".join(map(str, range(9_000))))
        for limit in ("10", "1000")
    ),
]


@pytest.fixture(scope="module")
def index() -> SectionIndex:
    catalog = Catalog()
    index = SectionIndex(catalog)
    for path, body in BODIES.items():
        entry = entry_of(path, {}, body, 0)
        catalog.put(entry)
        index.put(index.extract(entry, body, 1))
    index.settle()
    return index


def steps_of(index: SectionIndex, query: Query) -> Steps[Any]:
    ask = index.task_steps if query.mode == "task" else index.lookup_steps
    return ask(query, Caller(), lambda path, _: BODIES[path])


def longest(steps: Steps[Any]) -> float:
    """Seconds of CPU of the longest step, what is given away not counted."""
    most, before = 0.0, time.thread_time()
    for job in steps:
        most = max(most, time.thread_time() - before)
        if job is not None:
            job()
        before = time.thread_time()
    return max(most, time.thread_time() - before)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: f"{query.mode} {query.text[:16]} {query.limit}")
def test_no_step_is_long(index: SectionIndex, query: Query) -> None:
    """Done in one step, most of these take between a tenth of a second and many seconds."""
    assert any(longest(steps_of(index, query)) < 0.05 for _ in range(3))  # other programs may be in the way


def test_the_one_parser_is_never_waited_for_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer's thread may hold it for seconds."""
    body = b"# A\n\n`net.core` and more\n"
    catalog = Catalog()
    index = SectionIndex(catalog)
    entry = entry_of("/a.md", {}, body, 0)
    catalog.put(entry)
    index.put(index.extract(entry, body, 1))
    elsewhere: list[bool] = []

    def noted(text: bytes) -> list[Section]:
        elsewhere.append(given_away)
        return sections(text)

    monkeypatch.setattr("app.search.texts.sections", noted)
    course = Course(index.task_steps(task_query("net.core"), Caller(), lambda path, _: body))
    given_away = False
    for job in course:
        if job is not None:
            given_away = True
            job()
            given_away = False
    assert [row.anchor for row in course.result.rows] == ["a"]
    assert elsewhere
    assert all(elsewhere)


def test_no_step_in_a_large_catalog_is_long() -> None:
    catalog = Catalog()
    for number in range(20_000):
        title = "the quick brown fox jumps over the lazy dog"
        catalog.put(Entry(f"/{number}.md", title, (), 0.5, 0, {}))
    catalog.prepare()
    query = parse_query("/", {"query": " ".join("abcdefghijklmnopqrstuvwxyz"), "limit": "1000"})
    whole = time.thread_time()
    rows = done(catalog.lookup_steps(query, lambda _: True))
    whole = time.thread_time() - whole
    assert len(rows) == 1000
    assert longest(catalog.lookup_steps(query, lambda _: True)) < whole / 4


@pytest.mark.parametrize(("size", "given_away"), [(0, 0), (HEAVY - 1, 0), (HEAVY, 1)])
def test_long_work_is_given_away_and_its_result_taken(size: int, given_away: int) -> None:
    course = Course(heavy(size, "{}{two}".format, "a", two="b"))
    jobs = 0
    for job in course:
        assert job is not None
        job()
        jobs += 1
    assert course.result == "ab"
    assert jobs == given_away


def test_all_at_once_pauses_are_passed_over_and_work_is_done() -> None:
    def counted() -> Steps[list[int]]:
        yield
        one = yield from away(int, "1")
        yield
        two = yield from heavy(HEAVY, int, "2")
        return [one, two]

    assert done(counted()) == [1, 2]
