"""Source text through cmark and back, letter by letter (lookup §7.2, §13)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.markdown.outline import outline
from app.markdown.sections import sections
from app.markdown.verbatim import Verbatim


def heading(source: str) -> str:
    (found,) = outline(source.encode())
    return found.text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a &amp; &copy; &#35; &#x41; & &nosuch; &&", "a &amp; &copy; &#35; &#x41; & &nosuch; &&"),
        (r"\* \\ \& \&amp; \a \_x\_ \\\\ \<b\>", r"\* \\ \& \&amp; \a \_x\_ \\\\ \<b\>"),
        (r"tail \\", r"tail \\"),
        ("x\\", "x\\"),
        ("`&amp;` `\\*` `\\\\` `a\\` b", "&amp; \\* \\\\ a\\ b"),
        ("`` \\` & ``", "\\` &"),
        ("`<http://x.y>` `<m@n.o>` `<mailto:m@n.o>`", "<http://x.y> <m@n.o> <mailto:m@n.o>"),
        ("a <http://x.y/?a&b> b <m&n@o.p> c <mailto:q@r.s> d", "a  b  c  d"),
        (r"\<ab:_b_>", r"\<ab:b>"),
        (r"\<m@n.o>", r"\<m@n.o>"),
        ("<ab: c> <1b:c>", "<ab: c> <1b:c>"),
        ("[<http://x.y> t](u)", " t"),
        ("[http://x.y](u)", "http://x.y"),
        ('a <b title="<ab:c> \\* &amp;">t</b>', "a t"),
        ("<!-- <ab:x--> y", " y"),
        ("[a&b\\]c]", "a&b\\]c"),
        ("![al&amp;t *x* `&`](u)", "al&amp;t x &"),
        ("\ue000\ue001 <http://x.y> \ue007", "\ue000\ue001  \ue007"),
        ("a\0b `\0`", "a\0b \0"),
        ("a\rb", "a\rb"),
        ("mailto:x <m@n.o>", "mailto:x "),
    ],
)
def test_heading_text(content: str, text: str) -> None:
    assert heading(f"# {content}\n\n[a&b\\]c]: u\n") == text


@pytest.mark.parametrize(
    ("document", "texts"),
    [
        ("</pre>\n# A\n", ["A"]),
        ("> - </Script >  \n> # A\n", ["A"]),
        ("1. </style>\n   # A\n", ["A"]),
        ("</textarea>\n===\n", [""]),
        ("</pre>\nB\n---\n", ["B"]),
        ("</p>\n# hidden\n", []),
        ("<pre>\n# hidden\n</pre>\n# A\n", ["A"]),
        ("<!--\n</pre>\n# hidden\n-->\n# A\n", ["A"]),
        ("```\n</pre>\n```\n# A `</pre>`\n", ["A </pre>"]),
    ],
)
def test_a_lone_closing_tag_opens_no_html_block(document: str, texts: list[str]) -> None:
    assert [found.text for found in outline(document.encode())] == texts


@pytest.mark.parametrize(
    ("document", "texts"),
    [
        ("\ufeff# A\n# B\n", ["B"]),
        ("\ufeffA\n=\n", ["\ufeffA"]),
        ("# A\ufeff\n", ["A\ufeff"]),
        ("a\r# B\n", []),
        ("# A\r\r\n# B\n", ["A\r", "B"]),
        ("\0# A\n", []),
        ("# A\n\0\n=\n", ["A", "\0"]),
    ],
)
def test_byte_order_mark_carriage_return_and_nul_are_characters(document: str, texts: list[str]) -> None:
    assert [found.text for found in outline(document.encode())] == texts


def test_code_blocks_come_back_as_typed() -> None:
    code = 'if (a && b) x = "\\n" + \'\\\\\' + "\\"" + "&lt;"; <http://x.y> <m@n.o> \\\n</pre>\nend\\'
    (section,) = sections(f"```\n{code}\n```\n".encode())
    assert section.codes == (" ".join(code.split()),)


PLAIN = st.text("abZ09 &;#\\!\"'$%()+,-./:=>?@^{|}~é\xa0\0\ue000\ue001😀\u0301\x1c", min_size=1)
"""Runes with no meaning inside a line, but for references and escapes."""


@settings(max_examples=200, deadline=None)
@given(PLAIN)
def test_plain_text_comes_back_as_typed(line: str) -> None:
    assert heading(f"# x{line}x") == f"x{line}x"


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_characters="\n\r`", codec="utf-8"), min_size=1))
def test_code_comes_back_as_typed(content: str) -> None:
    assert heading(f"# `x{content}x`") == f"x{content}x"


def test_a_text_that_holds_every_private_rune() -> None:
    private = "".join(
        map(chr, [*range(0xE000, 0xF900), *range(0xF0000, 0xFFFFE), *range(0x100000, 0x110000)])
    )
    assert heading(f"# <http://x.y>\0&\\*\n\n{private}") == "\0&\\*"


def test_a_text_without_anything_to_decode_goes_as_it_is() -> None:
    assert Verbatim("# A *b* `c`\r\n").text == b"# A *b* `c`\n\n\n"
