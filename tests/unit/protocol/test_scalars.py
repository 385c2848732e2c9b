"""How a text is written as a scalar: the steps, both lists and the table of wire §3.3, against a reader."""

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.protocol.scalars import by_steps, scalar

words = str.split

TABLE = [
    ("3", '"3"'),
    ("0.70", '"0.70"'),
    ("08", '"08"'),
    ("1e3", '"1e3"'),
    ("1e", "1e"),
    ("0o8", "0o8"),
    ("yes", '"yes"'),
    ("-", "'-'"),
    ("2026-01-01T00:00:00Z", '"2026-01-01T00:00:00Z"'),
    ("2026-01-01 00:00:00Z", "2026-01-01 00:00:00Z"),
    ("2026-13-45", "2026-13-45"),
    ("2026-1-1", '"2026-1-1"'),
    ("12:30", '"12:30"'),
    ("1:60", "1:60"),
    ("1.2.3", "1.2.3"),
    ("--", "--"),
    ("a: b", "'a: b'"),
    ("a:b", "a:b"),
    ("a:", "'a:'"),
    ("#x", "'#x'"),
    ("it's: x", "'it''s: x'"),
    ("😀", '"\\U0001F600"'),
    ("é", "é"),
    ("a\tb", '"a\\tb"'),
]

# Step a and step c: empty, and what some reader takes for something else than text.
DOUBLE = [
    *words(
        "true True TRUE false False FALSE null Null NULL ~ y Y yes Yes YES n N no No NO on On ON off Off OFF"
    ),
    *words(".nan .NaN .NAN .inf .Inf .INF +.inf -.Inf +.INF"),
    *words(".5 .5e1 .5E-1 .1_0 .5e1_0"),
    *words(
        "0 7 -7 +7 12 1_000 1__0 1_ -_1 017 0_7 00 9223372036854775807 18446744073709551615 99999999999999999999"
    ),
    *words("0x1F 0X1f -0x1F 0x_1 0xFFFFFFFFFFFFFFFF -0x8000000000000000 +0x7FFFFFFFFFFFFFFF"),
    *words("0b1 0B1 -0b1 0o7 0O7 -0o7 0b-1 0b+1 0o-7 0o+7 0b_1"),
    *words("1.5 1. -.5 +.5 -1.5 1e3 1E+3 1.e3 .5e3 1e308 1e-400 1_0.5e1_0"),
    *words("2026-01-01 2026-1-1 2024-2-29 0000-02-29 9999-12-31"),
    "2026-01-01 0:0:0",
    "2026-01-01 23:59:59.123456789012",
    *words(
        "2026-01-01t0:0:0Z 2026-1-1T1:2:3Z 2026-01-01T00:00:00.5Z 2026-01-01T00:00:00+05:30 2026-01-01T00:00:00-24:60"
    ),
    *words("1:0 12:30 12:30:45 -12:30 +1_2:3 1:2.5 1:59._0 0:0"),
    "1" * 64,
    "1" * 61 + "e05",
    "1" * 61 + "e99",
]
PLAIN = [
    *words("a tRUE nULL nuLL yEs Y1 n- on. .nan. .5. ._5 .5_ .5__0 .5e ..5 . .e1 .5e999 +- +.nan -.NaN"),
    *words("0x 0xG -0xFFFFFFFFFFFFFFFF +0xFFFFFFFFFFFFFFFF 0x1FFFFFFFFFFFFFFFF 0b 0b2 0B-1 -0b-1 0o8 0O8"),
    *words("_1 + 1e 1e+ 1e999 1.5.5 1,5 1a 1-1 ++1 1e1.5 0x1p3 infinity nan inf 1f"),
    *words("2026-13-45 2026-02-30 2026-2-29 2026-00-01 2026-01-001 20260-1-1 202-1-1 2026-1-1T24:00:00Z"),
    *words(
        "2026-01-01T00:00:00 2026-01-01T00:00:00z 2026-01-01T00:60:00Z 2026-01-01T00:00:60Z 2026-01-01T00:00Z"
    ),
    *words(
        "2026-01-01T00:00:00+25:00 2026-01-01T00:00:00+05:61 2026-01-01T00:00:00+0530 2026-01-01T00:00:00.Z 2026/01/01"
    ),
    "2026-01-01 00:00:00Z",
    "2026-01-01 00:00",
    "2026-01-01 23:59:59,5",
    *words("1:60 1:2:3:60 1:2:a :1 1:_2 a1:2 1:2.5.5"),
    *words("a,b a[b a{b} it's mark://h/p a#b -a ?a :a = << --a -1a a|b a>b a&b a*b a!b a%b a@b a`b"),
    "a - b ? c",
    "a :b",
    "a  b",
    "a\u00a0b",
    "ä ö \u3042 \ufffd",
    "f" * 64,
    "1e" * 32,
    "0b" + "1" * 62 + "2a",
]
SINGLE = [
    *words(
        "--- ---a ... ...a # #a , ,a [ [a ] ]a { {a } }a & &a * *a ! !a | |a > >a ' 'a % %a @ @a ` `a ? : - a: ::"
    ),
    *(" a", "a ", " ", "? a", ": a", "- a", "a #b", "a: b", "a:  b", "a #"),
]
SINGLE += ['"', '"a"']
ESCAPED = [
    ("\0", r"\0"),
    ("\a\b\t\v\f\r\x1b", r"\a\b\t\v\f\r\e"),
    ('\t"\\', r"\t\"\\"),
    ("\x85\u2028\u2029", r"\N\L\P"),
    ("\x01\x1f\x7f\x80\x9f", r"\x01\x1F\x7F\x80\x9F"),
    ("a\ufeff", r"a\uFEFF"),
    ("\ufffe\uffff", r"\uFFFE\uFFFF"),
    ("/é\u00a0\t", "/é\u00a0\\t"),
    ("😀 \U0010ffff", r"\U0001F600 \U0010FFFF"),
    ("\ufeffa é", r"\uFEFF\x61\x20\xE9"),
    ("\ufeff\u00a0\n\u2028", r"\uFEFF\xA0\n\L"),
]  # fmt: skip
LITERAL = [
    ("a\nb", "|-\n    a\n    b"),
    ("a\n\n  b", "|-\n    a\n\n      b"),
    (" a\nb", "|4-\n     a\n    b"),
    ("\na", "|4-\n\n    a"),
    ("---\n...\n# a: b", "|-\n    ---\n    ...\n    # a: b"),
]
LITERAL_IS_NOT_ENOUGH = [
    ("a\n", r"a\n"),
    ("\n", r"\n"),
    ("a \nb", r"a \nb"),
    ("a\nb ", r"a\nb "),
    ("a\n\tb", r"a\n\tb"),
    ("\r\n", r"\r\n"),
]

CASES = [
    *TABLE,
    ("", '""'),
    *((text, f'"{text}"') for text in DOUBLE),
    *((text, text) for text in PLAIN),
    *((text, "'" + text.replace("'", "''") + "'") for text in SINGLE),
    *((text, f'"{inner}"') for text, inner in ESCAPED + LITERAL_IS_NOT_ENOUGH),
    *LITERAL,
    ("\udcff\udcfe", "!!binary //4="),
    ("a\udce9", "!!binary Yek="),
]


@pytest.mark.parametrize(("text", "written"), CASES)
def test_form(text: str, written: str) -> None:
    assert scalar(text) == written
    assert by_steps(text) == written


@pytest.mark.parametrize("text", [text for text, written in CASES if not written.startswith("!!binary")])
def test_a_reader_gets_the_text_back(text: str) -> None:
    assert yaml.load(f"key: {scalar(text)}\n", yaml.CBaseLoader) == {"key": text}


pieces = st.sampled_from(
    [*"-+.:_eEx0179 #'\"[]{}abfnoyzé\t\n\\", "---", "0x", "0b", "2026-", "T", ": ", " #", "😀", "\ufeff"]
)
texts = st.one_of(
    st.lists(pieces, max_size=12).map("".join), st.text(st.characters(codec="utf-8"), max_size=30)
)


@settings(max_examples=300, deadline=None)
@given(texts)
@example("0b" + "1" * 62)
@example("1" * 63 + "e")
def test_any_text_comes_back_and_the_short_way_agrees_with_the_steps(text: str) -> None:
    assert scalar(text) == by_steps(text)
    assert yaml.load(f"key: {scalar(text)}\n", yaml.CBaseLoader) == {"key": text}
    assert yaml.load(f"key: {scalar(text)}\nz: z\n", yaml.CBaseLoader) == {"key": text, "z": "z"}


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("0123456789eE+-.:_xob"), max_size=10))
def test_numbers_never_lose_their_quotes(text: str) -> None:
    """What Python takes for a finite number is quoted, except in forms that YAML does not have."""
    try:
        number = float(text)
    except ValueError:
        return
    if text[0] not in "_" and abs(number) < float("inf"):
        assert scalar(text) == f'"{text}"'


def test_long_texts_take_no_long_time() -> None:
    for text in (
        "a " * 30_000,
        "1" * 65_000,
        "1:" * 30_000,
        "1_" * 30_000,
        ":" * 60_000,
        "a: " * 20_000,
        "0x" + "f" * 60_000,
    ):
        assert yaml.load(f"key: {scalar(text)}\n", yaml.CBaseLoader) == {"key": text}
