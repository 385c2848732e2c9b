"""What kind of place a world is."""

from app.agents.overview import IMPORTANT, Folder, overview, text_lines
from app.protocol.tables import LookupRow


def row(path: str, title: str = "", importance: float = 0.5, *tags: str) -> LookupRow:
    return LookupRow(path, "", importance, title, tags, "")


ROWS = [
    row("/index.md", "Board", 0.9, "start"),
    row("/docs/index.md", "The docs"),
    row("/docs/a.md", "A", 0.7),
    row("/docs/deep/b.md", "B"),
    row("/logs/x.md", "X\nY", 0.1),
    row("/docsy/c.md", "C"),
]


def test_folders_have_titles_and_counts_and_the_important_come_first() -> None:
    found = overview("/", ROWS, 12)
    assert found.folders == (Folder("/docs", "The docs", 3), Folder("/docsy", "", 1), Folder("/logs", "", 1))
    assert (found.documents, found.sections) == (6, 12)
    assert [one.path for one in found.important] == [
        "/index.md",
        "/docs/a.md",
        "/docs/deep/b.md",
        "/docs/index.md",
        "/docsy/c.md",
        "/logs/x.md",
    ]


def test_a_scope_covers_whole_segments() -> None:
    found = overview("/docs", ROWS, None)
    assert found.folders == (Folder("/docs/deep", "", 1),)
    assert [one.path for one in found.important] == ["/docs/a.md", "/docs/deep/b.md", "/docs/index.md"]


def test_the_text_says_how_many_there_are_before_it_shows_some() -> None:
    assert text_lines(overview("/", ROWS, 12)) == [
        "6 documents, 12 sections in /",
        "",
        "folders: 3 of 3",
        "/docs/  3 documents  The docs",
        "/docsy/  1 document",
        "/logs/  1 document",
        "",
        "most important: 6 of 6",
        "/index.md  0.90  Board  [start]",
        "/docs/a.md  0.70  A",
        "/docs/deep/b.md  0.50  B",
        "/docs/index.md  0.50  The docs",
        "/docsy/c.md  0.50  C",
        "/logs/x.md  0.10  X Y",
    ]
    many = text_lines(overview("/", [row(f"/{number}/a.md", "t" * 500) for number in range(100)], None))
    assert many[0] == "100 documents in /"
    assert "folders: 40 of 100" in many
    assert f"most important: {IMPORTANT} of 100" in many
    assert max(map(len, many)) < 150


def test_an_empty_world_says_so() -> None:
    assert text_lines(overview("/", [], 0)) == ["0 documents, 0 sections in /"]
