"""The one door to cmark: text in, headings, code fields and link targets out, in document order.

The ``cmarkgfm`` wheel is used for the library inside it, not for its Python functions: those free neither the tree
nor the text they return. Its extension module exports the whole C API, so this module parses, walks and frees
through ctypes, with every signature declared. Nothing outside this module touches ctypes or cmarkgfm, and no
pointer leaves it.

Two handles on the same library: ``CDLL`` lets other threads run during a parse or a free, which on hostile text
take seconds; ``PyDLL`` keeps the interpreter lock for the accessors, which take nanoseconds and would only pay for
giving it away. Only block containers and headings are visited (and the inlines of paragraphs that hold a backtick);
the walk follows sibling and parent links and never recurses, so nesting half a million levels deep costs no stack.

One parse at a time: the tree of a hostile megabyte is 200-300 MB. glibc keeps freed small blocks, so a large parse
ends with ``malloc_trim``.
"""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from cmarkgfm import _cmark
from msgspec import Struct

from app.markdown.verbatim import Verbatim

__all__ = ["Title", "blocks", "hand_back", "only_thread", "targets"]

TRIM_FROM: Final = 128 * 1024
"""Bytes of text from which a parse hands freed memory back to the system (20 ms after the worst megabyte)."""

# Node types of cmark-gfm (cmark-gfm.h): a bit for block or inline, and a number.
_BLOCK_QUOTE: Final = 0x8002
_LIST: Final = 0x8003
_ITEM: Final = 0x8004
_CODE_BLOCK: Final = 0x8005
_PARAGRAPH: Final = 0x8008
_HEADING: Final = 0x8009
_TEXT: Final = 0xC001
_CODE: Final = 0xC004
_EMPHASIS: Final = 0xC007
_STRONG: Final = 0xC008
_LINK: Final = 0xC009
_IMAGE: Final = 0xC00A
_CONTAINERS: Final = frozenset((_BLOCK_QUOTE, _LIST, _ITEM))
_NESTING: Final = frozenset((_EMPHASIS, _STRONG, _LINK, _IMAGE))

_OPTIONS: Final = 0  # CMARK_OPT_DEFAULT: CommonMark without extensions

_Node = int  # the address of a node; 0 or None is none

_free_lock = ctypes.CDLL(_cmark.__file__)
_held_lock = ctypes.PyDLL(_cmark.__file__)

_parse_document = _free_lock.cmark_parse_document
_parse_document.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int)
_parse_document.restype = ctypes.c_void_p
_free = _free_lock.cmark_node_free
_free.argtypes = (ctypes.c_void_p,)
_free.restype = None

_first_child = _held_lock.cmark_node_first_child
_next = _held_lock.cmark_node_next
_parent = _held_lock.cmark_node_parent
for _link in (_first_child, _next, _parent):
    _link.argtypes = (ctypes.c_void_p,)
    _link.restype = ctypes.c_void_p
_type = _held_lock.cmark_node_get_type
_level = _held_lock.cmark_node_get_heading_level
_start_line = _held_lock.cmark_node_get_start_line
_end_line = _held_lock.cmark_node_get_end_line
for _number in (_type, _level, _start_line, _end_line):
    _number.argtypes = (ctypes.c_void_p,)
    _number.restype = ctypes.c_int
_literal = _held_lock.cmark_node_get_literal
# Only of a block that has inlines: of any other it is a pointer to freed memory.
_content = _held_lock.cmark_node_get_string_content
_url = _held_lock.cmark_node_get_url
for _text in (_literal, _content, _url):
    _text.argtypes = (ctypes.c_void_p,)
    _text.restype = ctypes.c_char_p

# Only glibc has it, and only glibc needs it.
_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


def hand_back() -> None:
    """Gives memory that is free, but held by the C library for later, back to the system."""
    if _malloc_trim is not None:
        _malloc_trim(0)


_one_at_a_time = threading.Lock()


def only_thread() -> None:
    """For a copy of the process in which one thread is left: nobody is there who could hold the lock."""
    global _one_at_a_time
    _one_at_a_time = threading.Lock()


class Title(Struct, frozen=True, gc=False):
    """A heading; ``line`` is the line of its first text, counted from 1."""

    level: int
    line: int
    text: str


def blocks(source: Verbatim, *, codes: bool) -> list[Title | str]:
    """The headings of a source and, with ``codes``, its code fields (as text), both in document order.

    Code fields are the contents of code spans in paragraphs and of fenced and indented code blocks. ATX headings
    without content are left out (lookup §7.1). Never raises, takes linear time, and keeps no memory.
    """
    with _parsed(source.text) as root:
        return _found_below(root, source, codes)


def targets(text: bytes) -> list[str]:
    """Where the links of a text lead, autolinks included, in document order, as CommonMark reads them.

    Images are no links. Never raises, takes linear time, and keeps no memory.
    """
    found = []
    with _parsed(text) as root:
        node = _first_child(root)
        while node:
            if _type(node) == _LINK:
                found.append((_url(node) or b"").decode("utf-8", "replace"))
            node = _first_child(node) or _next(node) or _after(node, root)
    return found


@contextmanager
def _parsed(text: bytes) -> Iterator[_Node]:
    """The tree of a text, for as long as it is looked at."""
    with _one_at_a_time:
        root = _parse_document(text, len(text), _OPTIONS)
        try:
            yield root
        finally:
            _free(root)
            if len(text) >= TRIM_FROM:
                hand_back()


def _found_below(root: _Node, source: Verbatim, codes: bool) -> list[Title | str]:
    found: list[Title | str] = []
    node = _first_child(root)
    while node:
        kind = _type(node)
        if kind == _PARAGRAPH:
            if codes and _first_child(node) and b"`" in _content(node):
                found += _code_spans(node, source)
        elif kind in _CONTAINERS:
            child = _first_child(node)
            if child:
                node = child
                continue
        elif kind == _HEADING:
            child = _first_child(node)
            if child:
                found.append(Title(_level(node), _first_text_line(node), _title_text(node, child, source)))
        elif kind == _CODE_BLOCK and codes:
            found.append(source.code(_literal(node) or b""))
        node = _next(node) or _after(node, root)
    return found


def _first_text_line(heading: _Node) -> int:
    """The line of a heading's first text, below the link definitions that cmark counts to a setext heading."""
    start: int = _start_line(heading)
    end: int = _end_line(heading)
    if start == end:  # ATX
        return start
    content: bytes = _content(heading)
    return end - 1 - content.count(b"\n")  # cmark ends a setext heading at the line after its underline


def _title_text(heading: _Node, node: _Node | None, source: Verbatim) -> str:
    """Text and code spans of a heading from ``node`` on; breaks, raw HTML, autolinks give nothing (lookup §7.2)."""
    pieces = []
    while node:
        kind = _type(node)
        if kind == _TEXT:
            pieces.append(source.plain(_literal(node) or b""))
        elif kind == _CODE:
            pieces.append(source.code(_literal(node) or b""))
        elif kind in _NESTING:
            child = _first_child(node)
            if child and not (
                kind == _LINK and _type(child) == _TEXT and source.autolink in (_literal(child) or b"")
            ):
                node = child
                continue
        node = _next(node) or _after(node, heading)
    return "".join(pieces)


def _code_spans(paragraph: _Node, source: Verbatim) -> list[str]:
    found = []
    node = _first_child(paragraph)
    while node:
        kind = _type(node)
        if kind == _CODE:
            found.append(source.code(_literal(node) or b""))
        elif kind in _NESTING:
            child = _first_child(node)
            if child:
                node = child
                continue
        node = _next(node) or _after(node, paragraph)
    return found


def _after(node: _Node, within: _Node) -> _Node | None:
    """What follows a last child in document order: the next sibling of the nearest parent inside ``within``."""
    while (node := _parent(node)) != within:
        following: int | None = _next(node)
        if following:
            return following
    return None
