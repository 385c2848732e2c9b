"""What a tool says to an agent: a text that names what it is, that ends where it should, and that is never too long.

An agent believes what it reads and pays for each word. So an answer begins with what it is (`status: ok`, `rows: 10 of 23`), a body that was
cut ends with how much was shown of how much and the exact next call, and a failure is an error and never an empty answer. The next call is
written as the tool's name and its arguments as JSON, so that it can be sent back as it stands and a test can hold every argument to the
tool's schema.

What acts and is not seen is shown: an answer lands in terminals, where control characters move the cursor and change titles, and before
people and models, to whom the same characters may show different texts. `visible` is the one place for that; whoever wants the bytes
themselves reads the document as a resource (`resources`).

Two measures of text. `at_most` is never below what a tokenizer makes of it and bounds every answer; `about` is what to expect of prose
and is what a budget is counted in.
"""

import json
import re
import string
from collections.abc import Mapping

import msgspec

LIMIT = 20_000
"""Tokens that no answer exceeds; clients refuse more than 25,000."""

# C0 but for tab and line ends, DEL, C1, what turns the direction of text, and the invisible double of ASCII.
_HIDDEN = re.compile(
    "\r(?!\n)|[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
_ROOM_MIN = 2_000
_HALVES = (string.ascii_lowercase + " ").encode()
_END_WITHIN = 0.2  # of a cut piece: no end of a line or word before its last fifth is worth going back for


class Answer(msgspec.Struct, frozen=True):
    """The text of a tool's result, and whether it is an error."""

    text: str
    failed: bool = False


class Refusal(Exception):
    """Ends a tool call as an error with this text: what is wrong, and what to do about it."""


def at_most(text: str) -> int:
    """An upper bound of the tokens in a text.

    A token has at least one byte. Of small letters and blanks any two make one in the vocabularies in use; of anything else a byte is
    counted as one.
    """
    data = text.encode("utf-8", "replace")
    halves = len(data) - len(data.translate(None, _HALVES))
    return len(data) - halves // 2


def about(text: str) -> int:
    """The tokens to expect in a text of prose, tables and addresses: one for three bytes."""
    return -(-len(text.encode("utf-8", "replace")) // 3)


def call(tool: str, **arguments: object) -> str:
    """A call as an agent can make it: the tool's name and its arguments as JSON; what is None is left out."""
    given = {name: value for name, value in arguments.items() if value is not None}
    text = json.dumps(given, ensure_ascii=False)
    return f"{tool} {_HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], text)}"


def head(status: str, keys: Mapping[str, object]) -> str:
    """`status` and the keys that have a value, one to a line."""
    lines = [
        f"status: {status}",
        *(f"{key}: {one_line(str(value))}" for key, value in keys.items() if value not in (None, "")),
    ]
    return "\n".join(lines) + "\n"


def one_line(text: str) -> str:
    """The text with every run of blanks and line ends as one space, as a key's value or a cell can hold it."""
    return " ".join(text.split())


def visible(text: str) -> str:
    """The text with every character that acts and is not seen written like `<U+001B>`; tabs and line ends stay."""
    return _HIDDEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)


def hidden(data: bytes) -> int:
    """How many characters of a body `readable` does not show as they are."""
    text = data.decode("utf-8", "replace")
    return len(_HIDDEN.findall(text))


def readable(data: bytes) -> str:
    """A body as text that may be shown anywhere; what is not UTF-8 comes as U+FFFD."""
    return visible(data.decode("utf-8", "replace"))


def page(before: str, body: str, after: str = "") -> Answer:
    """Head, empty line, body as it is, and what follows it; held to `LIMIT` whatever the three are."""
    text = f"{before}\n{body}"
    if after:
        text += ("" if text.endswith("\n") else "\n") + f"\n{after}\n"
    return Answer(bounded(text))


def refused(text: str) -> Answer:
    """An error."""
    return Answer(bounded(text), failed=True)


def room(*parts: str) -> int:
    """The tokens left for a body beside these parts."""
    return max(LIMIT - sum(map(at_most, parts)) - 100, _ROOM_MIN)


def fitting(data: bytes, start: int, tokens: int) -> int:
    """Where the longest piece of a body from `start` on ends that has at most so many tokens.

    It ends behind a line or else a word if one ends late enough in it, else between two characters; it is never empty while there is something
    left.
    """
    low, high = start, min(len(data), start + 2 * tokens)
    if at_most(readable(data[start:high])) > tokens:
        while high - low > 1:
            middle = (low + high) // 2
            if at_most(readable(data[start:middle])) <= tokens:
                low = middle
            else:
                high = middle
        high = low
    if high == len(data):
        return high
    for mark in (b"\n", b" "):
        end = data.rfind(mark, start, high) + 1
        if end > high - (high - start) * _END_WITHIN:
            return end
    whole = boundary(data, high)
    return whole if whole > start else _behind_character(data, start)


def _behind_character(data: bytes, start: int) -> int:
    end = start + 1
    while end < min(len(data), start + 4) and data[end] & 0xC0 == 0x80:
        end += 1
    return end


def boundary(data: bytes, offset: int) -> int:
    """The offset, moved back to where a character begins."""
    back = offset
    while back < len(data) and back > max(offset - 4, 0) and data[back] & 0xC0 == 0x80:
        back -= 1
    return back


def bounded(text: str) -> str:
    """The text as it can be sent, cut at `LIMIT` if it has more: the last resort where one name or message is longer than that."""
    data = text.encode("utf-8", "replace")
    text = readable(data)
    if at_most(text) <= LIMIT:
        return text
    end = fitting(data, 0, LIMIT - 200)
    return f"{readable(data[:end])}\n[cut: {end:,} of {len(data):,} bytes of this answer are shown]\n"
