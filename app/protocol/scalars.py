"""How one text is written as a YAML scalar: plain, quoted, literal or binary (wire §3.3).

The law is the table of steps a to g in `scalar`. It is the habit of one YAML writer, to the byte, and not what a
YAML library of ours would choose; so every decision is made here. Reading is `metadata`'s business.
"""

import base64
import math
import re

from app.protocol.times import is_date

# Step c: whole texts that some YAML reader takes for a boolean, a null or a number without digits.
_SPECIAL = frozenset({
    "true", "True", "TRUE", "false", "False", "FALSE", "null", "Null", "NULL", "~",
    "y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF",
    ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF",
})  # fmt: skip
_FRACTION = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_PREFIXED = re.compile(r"([-+]?)0(?:[xX](?P<hex>[0-9a-fA-F]+)|[bB](?P<bin>[01]+)|[oO](?P<oct>[0-7]+))")
_SIGN_INSIDE = re.compile(r"0(?:b(?P<bin>[-+][01]+)|o(?P<oct>[-+][0-7]+))")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[Tt](\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.\d+)?(?:Z|[-+](\d\d):(\d\d))| (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.\d+)?)?",
    re.ASCII,
)
_BASES = {"hex": 16, "bin": 2, "oct": 8}

# Step e: what only a double-quoted scalar can hold. NEL and DEL are in the ranges; U+2028 and U+2029 count as
# line breaks to a reader, so they go with TAB and CR. (What is allowed would be shorter, but `re` takes milliseconds
# over ranges of so many characters, at every start.)
_AWKWARD = re.compile(
    r"[\0-\t\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff\U00010000-\U0010ffff]"
)
_MUST_ESCAPE = re.compile(
    r"[\0-\x1f\"\\\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff\U00010000-\U0010ffff]"
)
_ESCAPES = {
    "\0": r"\0", "\a": r"\a", "\b": r"\b", "\t": r"\t", "\n": r"\n", "\v": r"\v", "\f": r"\f", "\r": r"\r", "\x1b": r"\e",
    '"': r"\"", "\\": r"\\", "\x85": r"\N", "\u2028": r"\L", "\u2029": r"\P",
}  # fmt: skip

# Step f. Blank is space, TAB or a line break, of which only the space gets this far.
_CANNOT_BE_PLAIN = re.compile(r"---|\.\.\.|[ #,\[\]{}&*!|>'\"%@`]|[?:-](?: |\Z)|.*(?: \Z|:(?: |\Z)| #)")

# Most texts need no look at the steps: harmless characters behind a letter or slash, a digest that cannot be a number
# for a letter in it (plain, groups 1 and 2), and the numbers and times that servers write (quoted, group 3).
_QUICK = re.compile(
    r"""([A-Za-z/][A-Za-z0-9_/.,+=@()-]*(?:(?:\ +|:+)[A-Za-z0-9_/.,+=@()-]+)*)
      | ((?!0b)[0-9]*[a-df][0-9a-f]*)
      | ([0-9]{1,15}(?:\.[0-9]{1,15})? | [0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z)
    """,
    re.VERBOSE,
)


def scalar(text: str) -> str:
    """The text as written behind `key: ` (or as a key), in the form of wire §3.3.

    A literal block spans lines, each indented by four spaces, and has no line end behind its last one. A `str` that
    holds surrogates stands for the bytes that `surrogateescape` made it from, and is written as `!!binary`.
    """
    quick = _QUICK.fullmatch(text)
    if quick:
        if quick.lastindex == 3:
            return f'"{text}"'
        if text not in _SPECIAL:
            return text
    return by_steps(text)


def by_steps(text: str) -> str:
    """What `scalar` gives, by steps a to g of wire §3.3 alone."""
    if not text:
        return '""'
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "!!binary " + base64.b64encode(text.encode("utf-8", "surrogateescape")).decode("ascii")
    if reads_as_other(text):
        return _double(text)
    if "\n" in text:
        return _literal(text)
    if _AWKWARD.search(text):
        return _double(text)
    if _CANNOT_BE_PLAIN.match(text):
        return "'" + text.replace("'", "''") + "'"
    return text


def reads_as_other(text: str) -> bool:
    """Whether a typing YAML reader could take the plain text for a number, boolean, null or time (step c)."""
    if text in _SPECIAL:
        return True
    first = text[:1]
    if first == ".":
        return bool(_FRACTION.fullmatch(text)) and _finite(text)
    if first not in "+-0123456789" or not first:
        return False
    bare = text.replace("_", "")
    if _FLOAT.fullmatch(bare) and _finite(bare):
        return True
    return _is_prefixed_integer(bare) or bool(_SEXAGESIMAL.fullmatch(text)) or _is_timestamp(text)


def _finite(number: str) -> bool:
    return math.isfinite(float(number))


def _is_prefixed_integer(bare: str) -> bool:
    """A hexadecimal, binary or octal integer of 64 bits: signed, or unsigned if it carries no sign."""
    found = _PREFIXED.fullmatch(bare)
    if found:
        sign = found[1]
    else:
        found = _SIGN_INSIDE.fullmatch(bare)
        if not found:
            return False
        sign = bare[2]
    digits = found[found.lastgroup or 0]
    value = int(digits, _BASES[found.lastgroup or ""])
    if sign == "-":
        return abs(value) <= 2**63
    return value < (2**63 if sign else 2**64)


def _is_timestamp(text: str) -> bool:
    found = _TIMESTAMP.fullmatch(text)
    if not found:
        return False
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    hour, minute, second = (int(found[i] or found[i + 5] or 0) for i in (4, 5, 6))
    return (
        is_date(year, month, day)
        and hour < 24 and minute < 60 and second < 60
        and int(found[7] or 0) <= 24 and int(found[8] or 0) <= 60
    )  # fmt: skip


def _double(text: str) -> str:
    must = re.compile("(?s:.)") if text.startswith("\ufeff") else _MUST_ESCAPE
    return '"' + must.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    if char in _ESCAPES:
        return _ESCAPES[char]
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


def _literal(text: str) -> str:
    """A literal block, if the text comes back from one; else double-quoted.

    Lines that end in a space do not survive everywhere. A final LF would have to be kept by the line end of the
    scalar, which the last scalar of a block shares with the closing fence.
    """
    if _AWKWARD.search(text) or " \n" in text or text[-1] in " \n":
        return _double(text)
    indent = "4" if text[0] in " \n" else ""
    return f"|{indent}-" + "".join("\n" + (f"    {line}" if line else "") for line in text.split("\n"))
