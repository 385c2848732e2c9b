"""What people type and complain about when a search loses it, one entry of the field's bug reports each.

Where the contract fixes the answer the test holds the answer; where it only wants documented behaviour, the comment
says what that is. All under recall `wide`, the default, unless said otherwise.
"""

import pytest

from app.protocol.tables import LookupRow, lookup_body, parse_lookup_body
from app.search.index import SectionIndex
from app.search.query import parse_query
from app.search.tokens import Recall
from tests.unit.search.plain import Caller, Document, Plain, filled


class World:
    """Some documents by path; a body, or metadata and body."""

    def __init__(self, bodies: dict[str, str | tuple[dict[str, str], str]], recall: Recall = "wide") -> None:
        plain = Plain(recall)
        self.bodies: dict[str, bytes] = {}
        documents: list[Document] = []
        for path, given in bodies.items():
            metadata, body = ({}, given) if isinstance(given, str) else given
            self.bodies[path] = body.encode()
            documents.append(plain.put(path, metadata, self.bodies[path], 1))
        self.index: SectionIndex = filled(documents, recall)

    def rows(self, text: str, limit: int = 1000) -> list[LookupRow]:
        query = parse_query("/", {"query": text, "limit": str(limit), "match": "body"})
        return self.index.lookup(query, Caller(), lambda path, version: self.bodies[path])

    def places(self, text: str) -> list[str]:
        return [f"{row.path}#{row.anchor}" if row.anchor else row.path for row in self.rows(text)]

    def finds(self, text: str) -> bool:
        return bool(self.rows(text))


def text(body: str, recall: Recall = "wide") -> World:
    """A world of one document with this text below a heading that says nothing."""
    return World({"/d.md": f"# .\n\n{body}\n"}, recall)


@pytest.mark.parametrize("query", ["File-back", "file back", "back lint", "FILE-BACK ingest"])
def test_hyphenated_words(query: str) -> None:
    assert text("File-back Ingest Lint").finds(query)
    assert not text("File-back Ingest Lint").finds("fileback")


@pytest.mark.parametrize(
    "word", ["v0.3.5", "10.0.0.5", "www.example.com", "1234567", "6309", "conf.py", "3.14", "2026-05-01"]
)
def test_versions_addresses_and_numbers(word: str) -> None:
    world = text(f"before {word} after")
    assert world.finds(word)
    assert world.places(f"{word}.") == world.places(word)
    assert text(f"It is {word}.").finds(word)


@pytest.mark.parametrize("query", ["go live", "a live go", "live a go", "go a live"])
def test_words_of_one_letter_are_ignored_on_both_sides(query: str) -> None:
    world = World({"/a.md": "1st go live\n", "/b.md": "go a live\n", "/c.md": "live\n"})
    assert world.places(query) == world.places("live go") == ["/a.md", "/b.md"]


@pytest.mark.parametrize("query", ["c++", "C#", "a b", "x", "+ -"])
def test_a_query_of_dropped_words_finds_nothing(query: str) -> None:
    """Documented: words of one letter and signs are no terms; zero rows and `match: body` (lookup §8.2)."""
    assert text("c++ C# a b x + -").places(f"{query} .") == []


def test_a_command_is_found_by_its_words() -> None:
    assert text("Never run rm -rf here").finds("rm -rf")


def test_typographic_quotes_and_dashes_are_kept_as_typed() -> None:
    """Documented: nothing is folded, so a straight apostrophe is another word; the parts of the word are found."""
    world = text("don’t re–enter\u00a0here")
    assert world.finds("don’t re–enter")
    assert world.finds("enter here")
    assert not world.finds("don't")


@pytest.mark.parametrize(
    "query", ["question?", "(see)", '"quoted"', "#bright", "--verbose", "“quoted”,", "…see…"]
)
def test_punctuation_is_trimmed_at_both_ends(query: str) -> None:
    assert text("a question, see: quoted. bright! verbose").finds(query)
    assert text(f"so {query} there").finds(query.strip('?()"#-“”,…'))


def test_parts_of_slashed_and_colon_words() -> None:
    world = text("application/json workarounds:javaLTSVersions ASI:One X-Forwarded-For")
    for query in (
        "json",
        "application",
        "application/json",
        "workarounds",
        "javaltsversions",
        "asi:one",
        "X-Forwarded-For",
        "forwarded",
    ):
        assert world.finds(query), query
    assert not text("application and json").finds("application/json")


def test_underscores_and_camel_case() -> None:
    """Documented: `_` joins; its parts are found under `wide` alone. Camel case is never split."""
    for recall in ("reference", "wide"):
        world = text("SQLITE_CONFIG_URI maxIdleTime to_node", recall)
        assert world.finds("sqlite_config_uri")
        assert world.finds("maxidletime")
        assert world.finds("to_node")
        assert not world.finds("idle")
        assert world.finds("uri") == (recall == "wide")


def test_all_terms_are_required() -> None:
    """The protocol's body mode stays strict; partial answers are task mode's."""
    assert not text("the pump hums").finds("pump leaks")


@pytest.mark.parametrize("word", ["running", "configure", "analyses", "to_node"])
def test_nothing_is_stemmed(word: str) -> None:
    world = text(f"{word} here")
    assert world.finds(word)
    for other in ("run", "runs", "configured", "analysis", "node_"):
        assert not world.finds(other)


def test_there_are_no_stop_words() -> None:
    world = World({"/a.md": "to be or not to be\n", "/b.md": "the end\n"})
    assert world.places("to be or not to be") == ["/a.md"]
    assert world.places("the") == ["/b.md"]


def test_a_heading_beats_a_long_page_that_repeats_the_word() -> None:
    filler = "The windlass hauls the anchor chain over the gypsy and into the locker below. " * 3
    page = "\n\n".join(f"{filler} mooring {filler}" for _ in range(200))
    assert len(page) > 60_000
    short = "\n\n".join(f"## Part {number}\n\nmooring mooring" for number in range(100))
    world = World(
        {
            "/a.md": f"# Long\n\n{page}\n",
            "/b.md": f"# Many\n\n{short}\n",
            "/z.md": "# Guide\n\n## Mooring\n\nUse two lines.\n",
        }
    )
    assert world.places("mooring")[0] == "/z.md#mooring"


def test_a_guide_comes_before_a_journal() -> None:
    diary = "# Day\n\n" + "Checked the bilge, then the bilge again. " * 5
    world = World({
        "/journal/2026-01-01.md": ({"importance": "1"}, diary),
        "/guide.md": ({"importance": "0"}, "# Guide\n\n## Bilge\n\nKeep it dry.\n"),
    })  # fmt: skip
    assert world.places("bilge") == ["/guide.md#bilge", "/journal/2026-01-01.md#day"]


def test_importance_alone_never_beats_a_heading() -> None:
    world = World({
        "/a.md": ({"importance": "1"}, "# A\n\nbilge\n"),
        "/b.md": ({"importance": "0.0"}, "# B\n\n## Bilge\n\nother words that are many\n"),
    })  # fmt: skip
    assert world.places("bilge") == ["/b.md#bilge", "/a.md#a"]


def test_equal_sections_come_in_order_of_path_and_anchor() -> None:
    body = "# Same\n\nmedlar\n\n## Note\n\nmedlar\n\n## Note\n\nmedlar\n"
    world = World({"/c.md": body, "/a.md": body, "/b.md": body})
    expected = [f"/{name}.md#{anchor}" for anchor in ("note", "note-1", "same") for name in "abc"]
    assert sorted(world.places("medlar")) == sorted(expected)
    assert all(world.places("medlar") == world.places("medlar") for _ in range(10))
    assert [place for place in world.places("medlar") if "same" in place] == [
        "/a.md#same",
        "/b.md#same",
        "/c.md#same",
    ]
    assert [place for place in world.places("medlar") if "/a.md" in place][-2:] == [
        "/a.md#note",
        "/a.md#note-1",
    ] or (world.places("medlar").index("/a.md#note") < world.places("medlar").index("/a.md#note-1"))


def test_one_row_for_each_section_and_a_table_that_nothing_breaks() -> None:
    code = "```\nlet pump = a|b; `x` ](y) [z](\n```\n"
    world = text(f"pump first\n\npump | pipe\n\n{code}\nmore pump pump\n")
    rows = world.rows("pump x")
    assert len(rows) == 1
    assert len(rows[0].snippet.encode()) <= 240
    for row in (*rows, *world.rows("pipe")):
        (parsed,) = parse_lookup_body(lookup_body("pump x", "/", [row], "body"))
        assert parsed == row


def test_dotted_capital_i_is_a_plain_i() -> None:
    """Documented: one rune for one, so `İstanbul` is `istanbul` in text and query (lookup §2.3)."""
    world = text("Feribot İstanbul limanından kalkar")
    for query in ("istanbul", "İSTANBUL", "ISTANBUL"):
        (row,) = world.rows(query)
        assert "İstanbul" in row.snippet


@pytest.mark.parametrize(
    "query",
    [
        "pump AND hull",
        "NOT pump",
        '"pump"',
        "pump OR",
        "pu*",
        "pump~2",
        "title:pump",
        "pump -hull",
        "(",
        "\\",
    ],
)
def test_operators_are_words(query: str) -> None:
    """Documented: there is no query language; AND, OR and NOT are words like any other."""
    world = text("pump hull")
    assert world.finds(f"{query} .") == (query in {'"pump"', "pump -hull"})


def test_emphasis_tags_autolinks_and_accents_lose_nothing() -> None:
    body = "an _important_ note, `Vec<Widget>`, <https://yard.example/berths> and cafe\u0301s, <b title='Keel bolt'>x</b>"
    wide, reference = text(body), text(body, "reference")
    for query in ("important", "widget", "berths", "cafés", "cafe\u0301s", "keel bolt"):
        assert wide.finds(query), query
    for query in ("important", "widget", "berths", "cafés", "keel bolt"):
        assert not reference.finds(query), query
    assert not text("[berth](/harbour/plan.md)").finds("harbour")  # targets of links stay lost


def test_composed_and_decomposed_spellings_meet() -> None:
    for written in ("café", "cafe\u0301"):
        world = World(
            {
                "/a.md": f"# .\n\nthe {written} here\n",
                "/b.md": f"# The {written}\n\nx\n",
                "/c.md": ({"title": f"{written} plan"}, "y\n"),
            }
        )
        for typed in ("café", "cafe\u0301"):
            assert {row.path for row in world.rows(typed)} == {"/a.md", "/b.md", "/c.md"}, (written, typed)
