"""The door to cmark: what it gives, that it keeps no memory, and that no text is too deep or too strange for it."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings

from app.markdown.cmark import Title, blocks, targets
from app.markdown.verbatim import Verbatim
from tests.unit.markdown.documents import MARKDOWN


class Undisguised(Verbatim):
    """A text that goes to cmark as it is."""

    __slots__ = ()

    def __init__(self, source: str) -> None:
        super().__init__("")
        self.text = source.encode() + b"\n\n"


def titles(source: Verbatim) -> list[tuple[int, int]]:
    return [(block.level, block.line) for block in blocks(source, codes=False) if isinstance(block, Title)]


def resident() -> int:
    """Resident memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_headings_and_code_in_document_order() -> None:
    source = Verbatim(
        "Top `one`\n=========\n\ntext `two` *and [`three`](u)*\n\n"
        "> ## Quoted\n> - item `four`\n>\n>   ```sh\n>   five\n>   ```\n\n1. # Listed\n\n       six\n\n***\n\n<p>`no`</p>\n"
    )
    assert blocks(source, codes=True) == [
        Title(1, 1, "Top one"),
        "two",
        "three",
        Title(2, 6, "Quoted"),
        "four",
        "five\n",
        Title(1, 13, "Listed"),
        "six\n",
    ]


def test_code_is_given_only_when_asked_for() -> None:
    assert blocks(Verbatim("# A\n\n`b`\n\n    c\n"), codes=False) == [Title(1, 1, "A")]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\n=\n", 1),
        ("x\n\na\nb\nc\n---\ny\n", 3),
        ("[d]: u\na\n=\n", 2),
        ("[d]: u\n[e]: u\n'title'\na\nb\n=\n", 4),
        ("> [d]: u\n> a\n> =\n", 2),
        ("- [d]: u\n  a\n  =", 2),
        ("a\r\nb\r\n=\r\n", 1),
    ],
)
def test_a_setext_heading_starts_at_its_first_text_line(text: str, line: int) -> None:
    assert titles(Verbatim(text)) in ([(1, line)], [(2, line)])


def test_nesting_costs_no_stack() -> None:
    assert titles(Verbatim("> " * 50_000 + "# deep\n")) == [(1, 1)]
    assert titles(Verbatim("# " + "*a " * 20_000 + "a* " * 20_000)) == [(1, 1)]


def test_parses_keep_no_memory() -> None:
    piece = (
        "# A &amp; <http://x.y>\n\ntext `code` with *emphasis* and [link](u)\n\n- item\n\n```\nblock\n```\n\n"
    )
    source = Verbatim(piece * (40_000 // len(piece)))
    for _ in range(10):
        blocks(source, codes=True)
    before = resident()
    for _ in range(50):
        blocks(source, codes=True)
    assert resident() - before < 1_000_000


def test_memory_of_a_large_parse_is_handed_back() -> None:
    blocks(Verbatim(">"), codes=True)
    before = resident()
    blocks(Verbatim(">" * 300_000), codes=True)  # 80 MB while it lasts
    assert resident() - before < 16_000_000


def test_threads_take_turns() -> None:
    source = Verbatim("# A `b`\n\n`c`\n\n" * 200)
    expected = blocks(source, codes=True)
    found: list[list[Title | str]] = []
    threads = [threading.Thread(target=lambda: found.append(blocks(source, codes=True))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


@settings(max_examples=200, deadline=None)
@given(MARKDOWN)
def test_the_disguise_changes_no_structure(text: str) -> None:
    for disguised_on_purpose in ("\r", "\0", "\ufeff", "</pre>"):
        text = text.replace(disguised_on_purpose, "")
    assert titles(Verbatim(text)) == titles(Undisguised(text))


@settings(max_examples=200, deadline=None)
@given(MARKDOWN)
def test_no_text_raises(text: str) -> None:
    for block in blocks(Verbatim(text), codes=True):
        if isinstance(block, Title):
            assert 1 <= block.level <= 6
            assert 1 <= block.line <= text.count("\n") + 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"[a](x.md) *[b](<y z.md> 't')*\n\n> - [c][1]\n\n[1]: /q#r\n", ["x.md", "y z.md", "/q#r"]),
        (b"# [in a title](t.md)\n\nSetext [two](u.md)\n===\n", ["t.md", "u.md"]),
        (b"<https://x.y> <a@b.c>\n", ["https://x.y", "mailto:a@b.c"]),
        (b"![image](i.png) [![both](j.png)](k.md)\n", ["k.md"]),
        (b"`[no](a)`\n\n    [no](b)\n\n```\n[no](c)\n```\n\n<p>[no](d)</p>\n\n[none]\n[e]()\n", [""]),
        (b"[&amp;](a&amp;b\\).md)\n\xff[x](\xff.md)\n", ["a&b).md", "\ufffd.md"]),
        (b"", []),
    ],
)
def test_links_lead_where_commonmark_says(text: bytes, found: list[str]) -> None:
    assert targets(text) == found


@settings(max_examples=100, deadline=None)
@given(MARKDOWN)
def test_no_text_breaks_the_search_for_links(text: str) -> None:
    assert all(isinstance(target, str) for target in targets(text.encode("utf-8", "surrogatepass")))


def test_looking_for_links_keeps_no_memory() -> None:
    text = b"- [a](b.md) and <https://x.y>\n" * 1_000
    for _ in range(20):
        targets(text)
    before = resident()
    for _ in range(300):
        targets(text)
    assert resident() - before < 4 << 20
