"""The documents of a segment as texts: read when marks and postings do not decide, a section at a time (task §14).

Markup is stripped line by line and a section under a heading of its own is a document of its own, so only the lines and
the sections in question are looked at, never a whole body. Bodies are not kept, but for the last one.
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

    def body(self, document: int) -> bytes:
        """The body of a document; empty if it cannot be read now."""
        if document != self._last:
            segment = self._records.segment
            self._body = self._read(segment.path(document), segment.version(document)) or b""
            self._last = document
        return self._body

    def times(self, unit: Unit, section: int) -> int:
        """How often the own text of a section has a unit, at most `TF`."""
        body = self.body(self._records.of[section])
        _, _, start, end = self._records.segment.cut(section)
        raw = body[start:end]
        if " " not in unit.text:
            raw = _lines(raw, unit.text if unit.verbatim else max(unit.tokens, key=len))
        return times(unit, folded(own_text(raw)), TF) if raw else 0

    def in_code(self, unit: Unit, section: int) -> bool:
        """Whether a code field of a section has a unit."""
        body, segment = self.body(self._records.of[section]), self._records.segment
        _, _, own_start, end = segment.cut(section)
        text = lower(body[own_start:end].decode("utf-8", "replace"))
        wanted = unit.text.split(" ") if unit.verbatim else []
        if not _CODE.search(text) or not all(word in text for word in wanted):
            return False
        start = segment.start(section)
        if segment.level(section) and body[start : start + 1] in _NESTING:
            start, end = 0, len(body)
        for one in sections(body[start:end]):
            if one.own_start == own_start - start:
                return any(times(unit, folded(code), 1) for code in one.codes)
        return False


def _lines(raw: bytes, wanted: str) -> bytes:
    """The lines that may have a text without spaces once they are stripped."""
    text = raw.decode("utf-8", "replace")
    plain = lower(text).replace("*", "").replace("`", "").replace("~~", "")
    lines = zip(text.split("\n"), plain.split("\n"), strict=True)
    return "\n".join([line for line, bare in lines if wanted in bare or "](" in line or "<" in line]).encode()
