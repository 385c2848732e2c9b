"""Entries from documents: the title scan against its own rules spelt out, numbers as Go reads them, hostile bodies."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.runes import trim
from app.search.entry import TITLE_MAX, entry_of, importance_of, tags_of, title_of


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1_0e-2", 0.1),
        ("0_1", 1.0),
        ("0.2_5", 0.25),
        ("2_5.e-0_2", 0.25),
        (".2_5", 0.25),
        ("+.25E+0", 0.25),
        ("1e-400", 0.0),
        ("0e999999999999999999999", 0.0),
        ("0x1p-2", 0.25),
        ("0X1P-2", 0.25),
        ("0x.8p-1", 0.25),
        ("0x1.p-2", 0.25),
        ("0x_1p-2", 0.25),
        ("0x1_0p-0_6", 0.25),
        ("0x0.4p0", 0.25),
        ("0xAp-4", 0.625),
        ("0x1p-99999999999999", 0.0),
        ("0x0p99999999999999", 0.0),
        ("\u00a00.25\u3000", 0.25),
    ],
)
def test_forms_of_a_number(text: str, number: float) -> None:
    assert importance_of(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "_0.25",
        "0.25_",
        "0._25",
        "0_.25",
        "0__25e-2",
        "0.25e",
        "0.25e+",
        "0.25e_1",
        "25_e-2",
        "e-1",
        ".",
        "+",
        "-",
        "+-0.25",
        "0x1",
        "0x.p-2",
        "0xp-2",
        "0x1p",
        "0x1p-0xa",
        "0x_.4p0",
        "0x._4p0",
        "0x1p9999999999999999999",
        "0b1",
        "0o1",
        "0.25f",
        "0 .25",
        "infinity",
        "nan",
        "\x1c0.25",
        "²",
        "1e" + "9" * 1000,
        "9" * 5000,
    ],
)
def test_no_number(text: str) -> None:
    assert importance_of(text) == 0.5


@settings(deadline=None)
@given(st.text())
def test_any_text_has_an_importance(text: str) -> None:
    assert 0 <= importance_of(text) <= 1


@settings(deadline=None)
@given(st.text(st.sampled_from("a ,\t\u00a0\x1cä"), max_size=20))
def test_tags_are_trimmed_and_never_empty(text: str) -> None:
    tags = tags_of(text)
    assert all(tag and tag == trim(tag) and "," not in tag for tag in tags)
    assert tags_of(",".join(tags)) == tags


def scanned(body: str) -> str:
    """The title scan of lookup §4.1, word for word."""
    fenced = False
    for line in body.split("\n"):
        text = trim(line)
        if text.startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and not line.startswith(("\t", "    ")) and text.startswith("# "):
            return trim(text[1:])
    return ""


PIECES = st.sampled_from(
    [
        "#",
        "# ",
        "## ",
        " ",
        "    ",
        "\t",
        "\n",
        "\n",
        "\r",
        "\v",
        "\u00a0",
        "\u3000",
        "\u2028",
        "```",
        "~~~",
        "`",
        "a",
        "ü",
        "\ufeff",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=25).map("".join))
def test_title_is_the_one_of_the_line_scan(body: str) -> None:
    assert title_of("/d/a.md", "", body.encode()) == (scanned(body) or "a.md")


@settings(deadline=None)
@given(st.binary(), st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=3))
def test_any_document_has_an_entry_of_single_lines(body: bytes, metadata: dict[str, str]) -> None:
    entry = entry_of("/d/odd\nname.md", metadata, body, 1)
    assert "\n" not in "".join([entry.title, *entry.metadata, *entry.metadata.values()])
    assert entry.title


def test_bytes_that_are_no_text_stay_in_the_title() -> None:
    assert title_of("/a.md", "", b"# caf\xe9 \xff\n") == "caf\udce9 \udcff"


@pytest.mark.parametrize("line", [b"```\n", b" # \n", b"#\n", b"\xc2\xa0" * 64 + b"\n", b"\t# x\n"])
def test_long_bodies_without_a_title(line: bytes) -> None:
    assert title_of("/a.md", "", line * (1_048_576 // len(line))) == "a.md"


def test_a_title_from_a_heading_is_bounded() -> None:
    long = "ä" * 5000
    assert title_of("/a.md", "", f"# {long}\n".encode()) == "ä" * TITLE_MAX
    assert title_of("/a.md", long, b"") == long


@pytest.mark.parametrize("filler", [b"\t", b" ", b"\r", b"\xc2\xa0", b"\t\xe2\x80\x83"])
def test_a_megabyte_of_blanks_is_passed_over_at_once(filler: bytes) -> None:
    body = filler * (1_000_000 // len(filler)) + b"```\n# hidden\n```\n# Shown\n"
    begun = time.process_time()
    assert title_of("/a.md", "", body) == "Shown"
    assert time.process_time() - begun < 0.3  # backtracking took as long for a tenth of it
