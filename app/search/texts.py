"""The documents of a segment as texts: read when marks and postings do not decide, a section at a time (task §14).

Markup is stripped line by line and a section under a heading of its own is a document of its own, so only the lines and
the sections in question are looked at, never a whole body. Bodies are not kept, but for the last one.

Texts of any size are read and gone through elsewhere (`app.search.steps`). Code is always looked for there, since
another thread may hold the one parser.
"""

import re
from collections.abc import Callable
from typing import Final

from app.markdown.sections import sections
from app.markdown.strip import own_text
from app.protocol.runes import lower
from app.search.entry import Entry
from app.search.postings import TF
from app.search.records import Records
from app.search.steps import Steps, away, heavy
from app.search.wording import Unit, folded, times

__all__ = ["Texts"]

_NESTING: Final = b" \t>-+*0123456789"
"""What the line of a heading begins with that is in a list or in a quote, and of some others."""


_CODE: Final = re.compile(r"[`~\t]|    ")
"""What a text with code in it has."""


class Texts:
    """Entries by path, and bodies by path and version; a body is None if it cannot be read now."""

    def __init__(
        self, records: Records, entry: Callable[[str], Entry | None], read: Callable[[str, int], bytes | None]
    ) -> None:
        self._records = records
        self._entry = entry
        self._read = read
        self._last = -1
        self._body = b""

    def entry(self, document: int) -> Entry:
        """The entry of a document."""
        entry = self._entry(self._records.segment.path(document))
        assert entry is not None, "catalog and sections change together"
        return entry

    def body(self, document: int) -> Steps[bytes]:
        """The body of a document; empty if it cannot be read now."""
        if document != self._last:
            segment = self._records.segment
            read = yield from heavy(
                segment.body_size(document), self._read, segment.path(document), segment.version(document)
            )
            self._body, self._last = read or b"", document
        return self._body

    def times(self, unit: Unit, section: int) -> Steps[int]:
        """How often the own text of a section has a unit, at most `TF`."""
        body = yield from self.body(self._records.of[section])
        _, _, start, end = self._records.segment.cut(section)
        return (yield from heavy(end - start, _times, unit, body[start:end]))

    def in_code(self, unit: Unit, section: int) -> Steps[bool]:
        """Whether a code field of a section has a unit."""
        segment = self._records.segment
        body = yield from self.body(self._records.of[section])
        _, _, own_start, end = segment.cut(section)
        if not (yield from heavy(end - own_start, _may_have_code, unit, body[own_start:end])):
            return False
        start = segment.start(section)
        if segment.level(section) and body[start : start + 1] in _NESTING:
            start, end = 0, len(body)
        return (yield from away(_has_code, unit, body[start:end], own_start - start))


def _times(unit: Unit, raw: bytes) -> int:
    """How often a text has a unit once it is stripped, at most `TF`."""
    if " " not in unit.text:
        raw = _lines(raw, unit.text if unit.verbatim else max(unit.tokens, key=len))
    return times(unit, folded(own_text(raw)), TF) if raw else 0


def _may_have_code(unit: Unit, raw: bytes) -> bool:
    """Whether a look for a unit in the code fields of a text is worth parsing it."""
    text = lower(raw.decode("utf-8", "replace"))
    wanted = unit.text.split(" ") if unit.verbatim else []
    return _CODE.search(text) is not None and all(word in text for word in wanted)


def _has_code(unit: Unit, text: bytes, own_start: int) -> bool:
    """Whether a code field of the section whose own content begins there has a unit."""
    own = (one for one in sections(text) if one.own_start == own_start)
    return any(times(unit, folded(code), 1) for one in own for code in one.codes)


def _lines(raw: bytes, wanted: str) -> bytes:
    """The lines that may have a text without spaces once they are stripped."""
    text = raw.decode("utf-8", "replace")
    plain = lower(text).replace("*", "").replace("`", "").replace("~~", "")
    lines = zip(text.split("\n"), plain.split("\n"), strict=True)
    return "\n".join([line for line, bare in lines if wanted in bare or "](" in line or "<" in line]).encode()
