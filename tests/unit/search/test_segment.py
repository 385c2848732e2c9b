"""Segments: packed and read back, from any buffer, merged, and with documents left out."""

import mmap
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings

from app.search.extract import Batch, Gathered, alone, extract, gather
from app.search.pages import PIECE
from app.search.postings import BLOCK, HEADING, SOURCE, TAG, TF, TITLE, Lists
from app.search.segment import Segment, join
from tests.unit.search.plain import WORLDS, Document, Plain

World = list[tuple[str, dict[str, str], bytes]]


def documents(world: World) -> list[Document]:
    plain = Plain("wide")
    for version, (path, metadata, body) in enumerate(world):
        plain.put(path, metadata, body, version)
    return sorted(plain.documents.values(), key=lambda one: one.entry.path.encode("utf-8", "surrogateescape"))


def one(path: str, body: str, **metadata: str) -> Document:
    return documents([(path, metadata, body.encode())])[0]


def gathered(document: Document) -> Gathered:
    return gather(document.entry, document.body, document.version, "wide")


def together(chosen: list[Document]) -> bytes:
    batch = Batch()
    for document in chosen:
        assert batch.takes(gathered(document))
        batch.add(gathered(document))
    return bytes(batch.framed().buffer())


def merged(sources: list[tuple[bytes, set[int]]], slice_: int = 50) -> bytes:
    steps = join([(Segment(buffer), struck) for buffer, struck in sources], slice_)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            buffer: bytes = done.value
            return buffer


def listed(lists: Lists, term: int) -> list[tuple[int, int, int]]:
    begin, end = lists.span(term)
    return list(zip(lists.between(begin, end), lists.codes[begin:end], lists.levels[begin:end], strict=True))


def test_what_a_posting_says() -> None:
    document = one(
        "/a.md",
        "Intro\n\n# Pump `net`\n\nthe pump\n\n## Hull\n\n`hull` pump hull\n",
        title="Pump house",
        tags="net",
    )
    segment = Segment(together([document]))
    postings = segment.postings

    def codes(term: str) -> tuple[list[tuple[int, int]], list[int], list[tuple[int, int]]]:
        number = postings.find(term.encode())
        own, above, named = (listed(lists, number) for lists in postings.kinds)
        return [row[:2] for row in own], [row[0] for row in above], [row[:2] for row in named]

    assert codes("pump") == ([(1, HEADING | 1), (2, 1)], [0, 1, 2, 2], [(0, TITLE)])
    assert codes("hull") == ([(2, HEADING | SOURCE | 2)], [], [])
    assert codes("net") == ([(1, HEADING)], [0, 1, 2, 2], [(0, TAG)])
    assert codes("intro") == ([(0, 1)], [], [])
    assert codes("house") == ([], [0, 2], [(0, TITLE)])
    assert [segment.section(number).span for number in range(3)] == [1, 2, 1]
    assert [segment.section(number).length for number in range(3)] == [1, 2, 3]
    assert segment.section(2).heading == "Hull"


def test_counts_are_capped() -> None:
    segment = Segment(together([one("/a.md", "pump " * 300)]))
    ((_, code, _),) = listed(segment.postings.own, segment.postings.find(b"pump"))
    assert code == TF == 31


def test_more_runs_of_sections_than_a_short_number_counts() -> None:
    """By turns below a heading with a word of the title and beside it: two numbers for every section."""
    segment = Segment(together([one("/a.md", "# Pump\n\n## Hull\n\n" * 20_000, title="Pump")]))
    postings = segment.postings
    found = listed(postings.above, postings.find(b"pump"))
    assert segment.sections == 40_000
    assert [number for number, _, _ in found] == [
        at for section in range(40_000) for at in (section, section)
    ]
    assert merged([(bytes(segment.buffer), set())]) == segment.buffer


def test_a_large_segment_is_the_same_in_pieces_and_in_pages_of_its_own() -> None:
    chosen = [one(f"/{number:04}.md", f"# Pump {number}\n\n" + "hull " * 300) for number in range(100)]
    pieces, paged = Batch(), Batch()
    for document in chosen:
        pieces.add(gathered(document))
        paged.add(gathered(document))
    frame = paged.framed()
    buffer = frame.buffer()
    assert isinstance(buffer, memoryview)
    assert len(buffer) == frame.size > PIECE
    assert b"".join(pieces.framed().pieces()) == buffer


def test_aliases_and_description_are_there_for_task_mode_alone() -> None:
    document = one("/a.md", "text\n", aliases="keel, hull box", description="pump pump")
    segment = Segment(together([document]))
    for term, code in ((b"keel", 0x80), (b"box", 0x80), (b"pump", 2)):
        number = segment.postings.find(term)
        assert listed(segment.postings.named, number) == [(0, code, 0)]
        assert listed(segment.postings.above, number) == []


@given(WORLDS)
@settings(max_examples=40, deadline=None)
def test_merging_gives_what_packing_together_gives(world: World) -> None:
    chosen = documents(world)
    half = len(chosen) // 2
    expected = together(chosen)
    singles = [(bytes(alone(gathered(document)).buffer()), set[int]()) for document in reversed(chosen)]
    assert merged(singles) == expected
    assert merged(singles, slice_=10**9) == expected
    interleaved = [(together(chosen[0::2]), set[int]()), (together(chosen[1::2]), set[int]())]
    assert merged(interleaved) == expected
    assert merged([(together(chosen), set(range(half)))]) == together(chosen[half:])
    assert merged([(together(chosen), set(range(len(chosen))))]) == together([])


@given(WORLDS)
@settings(max_examples=30, deadline=None)
def test_terms_are_found_and_nothing_else(world: World) -> None:
    postings = Segment(together(documents(world))).postings
    terms = postings.terms(0, postings.size)
    assert terms == sorted(set(terms))
    assert [postings.find(term) for term in terms] == list(range(postings.size))
    for term in terms:
        assert postings.place(term)[0] == postings.find(term)
        for absent in (term + b"\xff", term[:-1], b"", b"\n" + term):
            assert (postings.find(absent) >= 0) == (absent in terms)
    assert all(any(lists.counts[term] for lists in postings.kinds) for term in range(postings.size))


def test_a_term_goes_with_its_last_posting() -> None:
    first, second = one("/a.md", "pump hull\n"), one("/b.md", "pump\n")
    rest = Segment(merged([(together([first, second]), {0})]))
    assert rest.postings.find(b"hull") == -1
    assert rest.postings.find(b"pump") >= 0


@pytest.mark.parametrize("count", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_blocks_of_terms(count: int) -> None:
    words = [f"w{number:03}" for number in range(count)]
    buffer = alone(gathered(one("/a.md", " ".join(words), title="="))).buffer()
    postings = Segment(buffer).postings
    assert postings.terms(0, postings.size) == [word.encode() for word in words]
    assert sum(postings.weights()) == sum(len(lists.levels) for lists in postings.kinds)
    assert [postings.terms(at, at + 2) for at in range(0, count, 2)] == [
        [word.encode() for word in words[at : at + 2]] for at in range(0, count, 2)
    ]


def mapped(buffer: bytes) -> mmap.mmap:
    memory = mmap.mmap(-1, len(buffer))
    memory.write(buffer)
    return memory


@pytest.mark.parametrize(
    "kind", [bytes, bytearray, memoryview, mapped, lambda buffer: memoryview(b"x" + buffer)[1:]]
)
def test_any_buffer_will_do(kind: Callable[[bytes], bytes | memoryview]) -> None:
    buffer = together([one("/a.md", "# Pump\n\nhull\n"), one("/b.md", "# Hull\n")])
    segment = Segment(kind(buffer))
    assert segment.path(1) == "/b.md"
    assert Counter(segment.postings.terms(0, segment.postings.size)) == Counter([b"pump", b"hull"])
    assert merged([(bytes(segment.buffer), set())]) == buffer


def test_scopes_are_ranges_of_documents() -> None:
    paths = [
        "/a.md",
        "/guide-x.md",
        "/guide/a.md",
        "/guide/z/b.md",
        "/guide0.md",
        "/guides/a.md",
        "/\udcff.md",
    ]
    segment = Segment(
        together(
            [
                one(path, "x")
                for path in sorted(paths, key=lambda path: path.encode("utf-8", "surrogateescape"))
            ]
        )
    )

    def inside(prefix: str) -> list[str]:
        return [segment.path(document) for document in range(*segment.scope(prefix))]

    assert inside("/guide/") == ["/guide/a.md", "/guide/z/b.md"]
    assert inside("/nowhere/") == []
    assert len(inside("/")) == len(paths)
    assert segment.find(b"/guide/a.md") == 2
    assert segment.find(b"/guide") == -1


def test_numbered_anchors_and_versions_are_kept() -> None:
    document = one("/a.md", "# One\n\n# One\n\n# !!!\n")._replace(version=2**40)
    segment = Segment(extract(document.entry, document.body, document.version, "wide").segment)
    assert [segment.cut(number)[:2] for number in range(3)] == [("one", "One"), ("one-1", "One"), ("", "!!!")]
    assert segment.version(0) == 2**40
