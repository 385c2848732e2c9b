"""The catalog's record of a document, and how it is read from the document (lookup §4.1).

An `Entry` is a value; how the catalog keeps it in memory is the catalog's business. The title scan is the catalog's
own line scan and not the heading parser of the section rule: the two disagree on purpose. Nothing here fails:
whatever a document holds, there is an entry.
"""

import re
from collections.abc import Mapping

import msgspec

from app.protocol.runes import WHITE, trim

DEFAULT_IMPORTANCE = 0.5


class Entry(msgspec.Struct, frozen=True, gc=False):
    """What LOOKUP knows of a document besides its sections (lookup §1).

    `metadata` is the declared publisher metadata as stored; `title`, `tags` and `importance` are derived. `modified`
    is whole seconds since the epoch. No text but the path holds a line feed: version files and titles are lines.
    """

    path: str
    title: str
    tags: tuple[str, ...]
    importance: float
    modified: int
    metadata: dict[str, str]


def entry_of(path: str, metadata: Mapping[str, str], body: bytes, modified: int) -> Entry:
    """The entry of a document from its canonical path, declared metadata, body and time (lookup §4.1)."""
    return Entry(
        path=path,
        title=title_of(path, metadata.get("title", ""), body),
        tags=tags_of(metadata.get("tags", "")),
        importance=importance_of(metadata.get("importance", "")),
        modified=modified,
        metadata={key: value for key, value in metadata.items() if key and "\n" not in key + value},
    )


def tags_of(text: str) -> tuple[str, ...]:
    """The tags of a comma-separated list, in their order and case, with their repeats."""
    return tuple(tag for part in text.split(",") if (tag := trim(part)))


# A float as Go reads it: ASCII digits, `_` between digits, and hexadecimal only with a binary exponent.
_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_HEX = r"[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*"
_DECIMAL_FLOAT = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_HEX_FLOAT = re.compile(rf"[+-]?0[xX](?:_?{_HEX}(?:\.(?:{_HEX})?)?|\.{_HEX})[pP][+-]?{_DIGITS}")


def importance_of(text: str) -> float:
    """The number a declared importance stands for; 0.5 if it is none from 0 to 1. Negative zero stays as it is."""
    text = trim(text)
    if _DECIMAL_FLOAT.fullmatch(text):
        number = float(text.replace("_", ""))
    elif _HEX_FLOAT.fullmatch(text):
        try:
            number = float.fromhex(text.replace("_", ""))
        except OverflowError:
            return DEFAULT_IMPORTANCE
    else:
        return DEFAULT_IMPORTANCE
    return number if 0 <= number <= 1 else DEFAULT_IMPORTANCE


# A line whose first text is a fence marker or `# `. White space is Go's, here as UTF-8 and without the line feed;
# starting at the line feed lets `re` leap from line to line. One class for ASCII and no backtracking: a megabyte of
# tabs is passed over in a millisecond, in which nothing else can run.
_WIDE_BYTES = b"|".join(re.escape(char.encode()) for char in WHITE if not char.isascii())
_MARKED_LINE = re.compile(rb"\n([\t\v\f\r ]*+(?:(?:%b)[\t\v\f\r ]*+)*+)(```|~~~|# )" % _WIDE_BYTES)

TITLE_MAX = 1000
"""Runes of a title that is taken from a heading; the contract has no bound, but a line of a megabyte is no title."""


def title_of(path: str, declared: str, body: bytes) -> str:
    """The declared title if not blank, else the first level-one heading line, else the last path segment."""
    return trim(declared).replace("\n", " ") or _heading(body) or path.rpartition("/")[2].replace("\n", " ")


def _heading(body: bytes) -> str:
    """The first `# ` line outside fences; indented by a tab or four spaces it is code (lookup §4.1)."""
    lines = b"\n" + body
    fenced = False
    for line in _MARKED_LINE.finditer(lines):
        indent, marker = line.groups()
        if marker != b"# ":
            fenced = not fenced
        elif not fenced and not indent.startswith((b"\t", b"    ")):
            end = lines.find(b"\n", line.end())
            rest = lines[line.end() : end if end >= 0 else len(lines)]
            if title := trim(trim(rest.decode("utf-8", "surrogateescape"))[:TITLE_MAX]):
                return title
    return ""
