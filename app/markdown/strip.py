"""Markup stripping: raw section text to the text that is searched and shown (lookup §7.8).

The eight steps of the contract, each over all lines of a text before the next. They act by line, so a document is
stripped once and its sections take their lines. The steps are the reference's and blind to context on purpose (they
act inside code too): the same words have to be found.

What they lose is kept beside the text for the recall setting ``wide``: the runs between underscores, and the words of
removed tags, autolinks and link titles. Targets of links stay lost.

No regular expression here can try twice, so a line of nothing but ``[`` costs what prose costs; and no call into C is
long, whatever a line holds, so that other threads get their turn.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from app.protocol.runes import WORD, fields, separators, trim

__all__ = ["joined", "own_text", "strip", "wide_words"]

# Step by step: the white space of steps 2-4 is narrower than that of trimming and of step 8.
_WHITE: Final = "\t\n\f\r "
_FENCES: Final = ("```", "~~~")
_STARTERS: Final = frozenset("`~=-|>*+0123456789")
_QUOTE_MARKS: Final = re.compile(rf">(?:[{_WHITE}]?>)*+[{_WHITE}]?")
_LIST_STARTERS: Final = frozenset("-*+0123456789")
_LIST_MARKER: Final = re.compile(rf"(?:[-*+]|[0-9]++[.)])[{_WHITE}]++(?:\[[ xX]\][{_WHITE}]++)?")
_TARGET: Final = re.compile(rf"[{_WHITE}]*+(?:<[^>]*+>?|[^{_WHITE}]*+)")
_TAG: Final = re.compile(r"<(/?[A-Za-z][^>]*+)>")
_TAG_TARGET: Final = re.compile(r"""\b(?:href|src)\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s"']++)""", re.IGNORECASE)


def own_text(raw: bytes) -> str:
    """The own text of a section from its raw own content: the kept lines joined by newlines (lookup §7.8)."""
    return joined(_stripped(raw.decode("utf-8", "replace"))[0])


def wide_words(raw: bytes) -> str:
    """The words of raw own content that the recall setting ``wide`` adds to its own text (lookup §7.8)."""
    return joined(strip(raw.decode("utf-8", "replace"))[1])


def joined(lines: Iterable[str]) -> str:
    """Lines that are not empty, joined by newlines."""
    return "\n".join(filter(None, lines))


def strip(text: str) -> tuple[list[str], list[str]]:
    """The stripped form of every line, empty where the line is dropped, and beside it what ``wide`` adds to it.

    Both lists have one item for each line of ``text.split("\\n")``.
    """
    lines, lost = _stripped(text)
    if "_" in text:
        for number, line in enumerate(lines):
            if "_" in line or "_" in lost[number]:
                lost[number] = f"{lost[number]} {_between_underscores(f'{line} {lost[number]}')}".strip()
    return lines, lost


def _stripped(text: str) -> tuple[list[str], list[str]]:
    """The stripped lines, and the words that steps 5 and 6 lose."""
    python_white = not separators(text)
    lines = text.split("\n")
    lines = [line.strip() for line in lines] if python_white else [trim(line) for line in lines]
    lines = [_unmarked(line) if line[:1] in _STARTERS else line for line in lines]
    lost = [""] * len(lines)
    if "](" in text or "<" in text:
        for number, line in enumerate(lines):
            if "](" in line or "<" in line:
                lines[number], lost[number] = _unlinked_and_untagged(line)
    whole = "\n".join(lines).replace("~~", "").replace("`", "").replace("*", "").replace("|", " ")
    return _collapsed(whole, str.split if python_white else fields), lost


def _collapsed(text: str, split: Callable[[str], list[str]]) -> list[str]:
    """Step 8: the lines of a text, with single spaces for white space."""
    text = text.replace("\t", " ")
    if "\v" in text or "\f" in text or "\r" in text:
        return [" ".join(split(line)) for line in text.split("\n")]
    # An ASCII line without two spaces in a row has nothing to collapse: most lines.
    return [
        line.strip(" ") if "  " not in line and line.isascii() else " ".join(split(line))
        for line in text.split("\n")
    ]


def _between_underscores(line: str) -> str:
    """The runs between underscores of every word that holds one."""
    holding = (field for field in line.split(" ") if "_" in field)
    words = (word[0] for field in holding for word in WORD.finditer(field) if "_" in word[0])
    return " ".join(" ".join(words).replace("_", " ").split())


def _unmarked(line: str) -> str:
    """Steps 1 to 4: a trimmed line without fence, rule, table rule, quote marks and list marker."""
    first = line[0]
    if line.startswith(_FENCES) or (first in "=-" and not line.strip(first)):
        return ""
    if first == "|" and not line.strip("|:-" + _WHITE):
        return ""
    if first == ">":
        line = _QUOTE_MARKS.sub("", line, 1)
    if line[:1] in _LIST_STARTERS:
        marker = _LIST_MARKER.match(line)
        if marker:
            line = line[marker.end() :]
    return line


def _unlinked_and_untagged(line: str) -> tuple[str, str]:
    """Steps 5 and 6 for a line, and the words that they lose, link targets excepted."""
    lost: list[str] = []
    if "](" in line:
        if "![" in line:
            line = _unlinked(line, "![", lost)
        line = _unlinked(line, "[", lost)
    end = line.rfind(">") + 1
    if end:
        # Whatever opens a tag before the last ">" also closes it, so the expression never looks in vain.
        pieces, done = [], 0
        for found in _TAG.finditer(line, 0, end):
            tag = found[1]
            lost.append(_TAG_TARGET.sub(" ", tag) if "=" in tag else tag)
            pieces.append(line[done : found.start()])
            done = found.end()
        line = "".join((*pieces, line[done:]))
    return line, " ".join(filter(None, lost))


def _unlinked(line: str, opening: str, lost: list[str]) -> str:
    """Step 5: images (``![``) or links (``[``) of a line replaced by their bracket text; titles go to ``lost``.

    The bracket text ends at the first ``]``, so a link starts at the first opening behind the ``]`` before; the
    target ends at the first ``)``.
    """
    pieces: list[str] = []
    done = floor = 0  # text is copied up to here; here the search goes on
    middle = line.find("](")
    while middle >= 0:
        start = line.find(opening, max(floor, line.rfind("]", floor, middle) + 1), middle)
        floor = middle + 1
        if start >= 0:
            end = line.find(")", middle + 2)
            if end < 0:
                break
            pieces += line[done:start], line[start + len(opening) : middle]
            lost.append(_TARGET.sub("", line[middle + 2 : end], 1))
            done = floor = end + 1
        middle = line.find("](", floor)
    return "".join((*pieces, line[done:]))
