r"""Makes cmark give back the source: what is written before the parse so that decoding undoes it.

cmark decodes character references and backslash escapes and keeps no columns that would lead back to the source; the
section rule wants the letters as typed (lookup §7.2). So the whole text is escaped once more, in place and line by
line, and cmark's own decoding then restores it. Read left to right:

=====================  =================================  ====================================================
source                 written                            because
=====================  =================================  ====================================================
``&``                  ``&amp;``                          decoded to ``&``; what follows is then no reference
``\`` + punctuation    ``\\\`` + punctuation              decoded to both; a ``&`` taken here is not doubled
``<scheme:…>``         ``<scheme:`` mark ``…>``           a link whose text holds the mark is an autolink
``<name@host>``        ``<mailto:`` mark mark ``…>``      the same, and ``mailto:`` can be taken away again
``</pre>`` alone       mark ``</pre>``                    opens an HTML block in cmark, not in CommonMark
first byte order mark  stand-in                           cmark drops it; to the contract it is a character
lone CR, NUL           stand-ins                          a line end and U+FFFD to cmark, to the contract likewise
=====================  =================================  ====================================================

Mark and stand-ins are private-use runes that the text lacks. The mark stands where no delimiter run can feel it:
behind the colon, since before the ``>`` it would break a ``-->``. So flanking, block structure, line numbers and the
equality of reference labels stay as they were. Inside code cmark decodes nothing; ``code`` turns that back.
"""

import re
from collections.abc import Iterator
from itertools import chain, repeat
from typing import Final

__all__ = ["Verbatim"]

_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_AUTOLINK: Final = (
    r"<(?:[A-Za-z][A-Za-z0-9.+-]{1,31}:(?=[^\x00-\x20<>]*+>)"
    rf"|(?=[A-Za-z0-9.!#$%&'*+/=?^_`{{|}}~-]++@{_LABEL}(?:\.{_LABEL})*+>))"
)
_DECODED: Final = re.compile(rf"&|\\[!-/:-@\[-`{{-~]|{_AUTOLINK}")
_DECODED_UNESCAPED: Final = re.compile(_AUTOLINK)  # in a text without backslashes; ten times as fast
_IN_CODE: Final = re.compile(r"&amp;|\\\\(\\.?)")

# A closing tag of the four names that CommonMark §4.6 keeps out of condition 7, and what may stand before it on its
# line if the tag is all that the line holds.
_LONE_TAG: Final = re.compile(
    r"</(?:pre|script|style|textarea)[ \t\v\f]*>[ \t\v\f]*$", re.IGNORECASE | re.MULTILINE
)
_CONTAINERS: Final = re.compile(r"(?:[ \t>]|[-+*][ \t]|[0-9]{1,9}[.)][ \t])*+")

_HANDY: Final = "\ue000\ue001\ue002\ue003\ue004\ue005\ue006\ue007"
_PRIVATE: Final = range(0xE000, 0xF900)
_BEYOND: Final = range(0x10FFFF, 0xFFFF, -1)


class Verbatim:
    """One text on its way through cmark.

    ``text`` is what to parse: UTF-8 without NUL and CR, with an empty line at its end, since cmark knows where a setext
    heading ends only by the line that follows. ``plain`` and ``code`` give the source back for a literal that cmark
    found; a link whose first text holds ``autolink`` is one in angle brackets.
    """

    __slots__ = ("_mark", "_stand_ins", "autolink", "text")

    def __init__(self, source: str) -> None:
        unused = _unused(source)
        self._mark = mark = next(unused)
        self._stand_ins: dict[int, str] = {}
        text = source
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        if text.startswith("\ufeff"):
            text = self._stand_in("\ufeff", next(unused)) + text[1:]
        for character in "\r\0":
            if character in text:
                text = text.replace(character, self._stand_in(character, next(unused)))
        if "</" in text:
            text = _marked_lone_tags(text, mark)
        if "\\" in text:
            text = _DECODED.sub(self._written, text)
        else:
            text = _DECODED_UNESCAPED.sub(self._written, text).replace("&", "&amp;")
        self.autolink = mark.encode()
        self.text = text.encode() + b"\n\n"

    def plain(self, literal: bytes) -> str:
        """The source of a text, in which cmark has decoded references and escapes."""
        text = literal.decode()
        return text if text.isascii() else self._given_back(text)

    def code(self, literal: bytes) -> str:
        """The source of the content of a code span or code block, in which cmark decodes nothing."""
        text = literal.decode()
        if "&" in text or "\\" in text:
            text = _IN_CODE.sub(lambda found: found[1] or "&", text)
        return text if text.isascii() else self._given_back(text)

    def _written(self, found: re.Match[str]) -> str:
        piece = found[0]
        if piece == "&":
            return "&amp;"
        if piece[0] == "\\":
            return "\\\\" + piece
        return piece + self._mark if piece != "<" else f"<mailto:{self._mark}{self._mark}"

    def _stand_in(self, character: str, rune: str) -> str:
        self._stand_ins[ord(rune)] = character
        return rune

    def _given_back(self, text: str) -> str:
        mark = self._mark
        text = text.replace(f"mailto:{mark}{mark}", "").replace(mark, "")
        return text.translate(self._stand_ins) if self._stand_ins else text


def _marked_lone_tags(text: str, mark: str) -> str:
    """The mark put before every tag that is alone on its line and would open an HTML block in cmark only."""
    pieces: list[str] = []
    done = 0
    for found in _LONE_TAG.finditer(text):
        start = found.start()
        line = text.rfind("\n", done, start) + 1 or done
        if _CONTAINERS.fullmatch(text, line, start):
            pieces += text[done:start], mark
            done = start
    return "".join((*pieces, text[done:])) if pieces else text


def _unused(text: str) -> Iterator[str]:
    """Runes that the text does not hold: private-use ones, else any beyond the basic plane."""
    yield from (rune for rune in _HANDY if rune not in text)
    taken = {*text, *_HANDY}
    yield from (rune for rune in map(chr, chain(_PRIVATE, _BEYOND)) if rune not in taken)
    yield from repeat("\ufffd")  # a text of more than four megabytes can hold them all
