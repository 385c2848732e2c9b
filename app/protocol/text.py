"""Text as Go prints it and as a log may hold it.

The protocol's messages quote with Go's `%q` and log lines follow Go's text handler (wire §8.2, operations §5);
trimming is Go's too and comes from `runes`. Pure functions; no I/O.
"""

import re
from typing import Protocol

from app.protocol.runes import WHITE, trim

__all__ = ["WHITE", "Log", "go_quote", "log_value", "strip_control", "trim"]

_ESCAPES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", '"': r"\"", "\\": r"\\"}  # fmt: skip
_ORDINARY = re.compile(r"[ !#-\[\]-~]*")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


class Log(Protocol):
    """Where lines of the log go: a level of debug, info, warn or error, the fixed message, and its fields."""

    def __call__(self, level: str, message: str, /, **fields: object) -> None: ...


def go_quote(text: str) -> str:
    r"""The text as Go's `%q` prints it: in double quotes, non-printables escaped in lower-case hex.

    A byte that was not UTF-8 (a surrogate from `surrogateescape`) comes out as `\xHH`.
    """
    if _ORDINARY.fullmatch(text):
        return f'"{text}"'
    return '"' + "".join(map(_go_rune, text)) + '"'


def _go_rune(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():  # letters, marks, numbers, punctuation, symbols and the space: Go's IsPrint
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def strip_control(text: str) -> str:
    """The text without control characters (C0, DEL, C1), for request strings that go to a log (operations §5)."""
    return _CONTROL.sub("", text)


def log_value(text: str) -> str:
    """The value of a `key=value` log line: quoted if empty or holding blanks, `=`, quotes or non-printables."""
    if text and text.isprintable() and not any(char in ' ="' for char in text):
        return text
    return go_quote(text)
