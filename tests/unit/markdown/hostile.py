"""Documents made to be slow to parse, walk or strip, each of about ``size`` bytes."""

from collections.abc import Callable
from typing import Final


def _repeated(piece: str, before: str = "", after: str = "") -> Callable[[int], str]:
    return lambda size: before + piece * ((size - len(before) - len(after)) // len(piece)) + after


HOSTILE: Final[dict[str, Callable[[int], str]]] = {
    "quotes": _repeated(">"),
    "quotes around a heading": _repeated("> ", after="# a\n"),
    "quotes, then lazy lines": lambda size: ">" * (size // 2) + "a\n" + "b\n" * (size // 4),
    "lists": _repeated("- ", after="a\n"),
    "lists of growing indent": lambda size: "".join(f"{'  ' * step}- a\n" for step in range(int(size**0.5))),
    "items": _repeated("- `a`\n"),
    "open brackets": _repeated("["),
    "open image brackets": _repeated("!["),
    "open brackets before a target": lambda size: "[" * (size // 2) + "](u)" * (size // 8),
    "middles of links": _repeated("]("),
    "links": _repeated("[a](b)"),
    "unclosed links": _repeated('[a](b "'),
    "images in links": _repeated("![[]()"),
    "stars": _repeated("*"),
    "openers of emphasis": _repeated("*a "),
    "openers of two kinds": _repeated("*_ a"),
    "closers of emphasis": _repeated("a**b"),
    "backticks": _repeated("`"),
    "backticks of every length": lambda size: "".join(
        f"{'`' * (step % 80 + 1)}a" for step in range(size // 41)
    ),
    "code spans": _repeated("`a` "),
    "angles": _repeated("<"),
    "open tags": _repeated('<a x="'),
    "open tags behind an end": _repeated("<a", before=">"),
    "comments": _repeated("<!-- a"),
    "processing instructions": _repeated("<?a "),
    "autolinks": _repeated("<ab:c>"),
    "unclosed autolinks": _repeated("<ab:c"),
    "mail addresses": _repeated("<a@b.c>"),
    "unclosed mail address": _repeated("a.", before="<a@"),
    "references": _repeated("&amp;"),
    "ampersands": _repeated("&"),
    "escapes": _repeated("\\*"),
    "backslashes": _repeated("\\"),
    "headings": _repeated("# a\n"),
    "headings of equal and numbered anchors": _repeated("# a-1\n# a\n"),
    "headings in quotes": _repeated("> # a\n"),
    "headings and links": _repeated("# a [b](c)\n\n[b](c) `d`\n\n"),
    "a heading of emphasis": _repeated("*a* ", before="# ", after="\n"),
    "setext underlines": _repeated("a\n=\n"),
    "a setext heading of many lines": _repeated("a\n", after="===\n"),
    "definitions": _repeated("[a]: b\n"),
    "different definitions": lambda size: "".join(f"[{step}]: b\n" for step in range(size // 12)),
    "definitions above headings": _repeated("[a]: b\nx\n=\n"),
    "closing tags": _repeated("</pre>\n"),
    "fences": _repeated("```\na\n```\n"),
    "underscores": _repeated("_a"),
    "one word": _repeated("a", before="_"),
    "empty lines": _repeated("\n"),
    "carriage returns": _repeated("\r"),
    "zeros": _repeated("\0"),
}
