"""Go's quoting, and what may go to a log (wire §8.2, operations §5)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.text import WHITE, go_quote, log_value, strip_control, trim


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", '""'),
        ("plain text", '"plain text"'),
        ('a"b\\c', r'"a\"b\\c"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\0\x01\x1f\x7f", r'"\x00\x01\x1f\x7f"'),
        ("\x80\x9f", r'"\u0080\u009f"'),
        ("é潮😀", '"é潮😀"'),
        ("\u00a0\u00ad\u3000", r'"\u00a0\u00ad\u3000"'),
        ("e\u0301", '"e\u0301"'),
        ("\u200b\u200e\u2028\ufeff\ue000", r'"\u200b\u200e\u2028\ufeff\ue000"'),
        ("\ufffd", '"\ufffd"'),
        ("\U000e0001\U0010ffff", r'"\U000e0001\U0010ffff"'),
        (b"a\xff\xc3".decode("utf-8", "surrogateescape"), r'"a\xff\xc3"'),
        ("'`/<>&", '"\'`/<>&"'),
    ],
)
def test_go_quote(text: str, quoted: str) -> None:
    assert go_quote(text) == quoted


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec="utf-8")))
def test_a_quoted_text_is_one_printable_line(text: str) -> None:
    assert go_quote(text).isprintable()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("/logs/pump.md", "/logs/pump.md"),
        ("é", "é"),
        ("a\\b", "a\\b"),
        ("", '""'),
        ("a b", '"a b"'),
        ("a=b", '"a=b"'),
        ('a"b', r'"a\"b"'),
        ("a\nb", r'"a\nb"'),
        ("a\u00a0b", r'"a\u00a0b"'),
        ("a\udcff", r'"a\xff"'),
    ],
)
def test_log_value(text: str, value: str) -> None:
    assert log_value(text) == value


def test_strip_control() -> None:
    everything = "".join(map(chr, range(0x100)))
    assert strip_control(everything) == "".join(map(chr, [*range(0x20, 0x7F), *range(0xA0, 0x100)]))
    assert strip_control("a\x1b[31mb\x9b0m\r\n") == "a[31mb0m"


def test_trim_knows_white_space_as_go_does() -> None:
    assert trim(WHITE + "\u200b x\x1c" + WHITE) == "\u200b x\x1c"
