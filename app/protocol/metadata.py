"""The metadata block between the fences: a map of text to text, written and read (wire §2.4, §3.2, §3.3).

Writing is our own to the byte (`keyorder`, `scalars`). Reading takes any YAML: the parser's events are folded into
a small tree here, because no ready-made loader has the contract's rules (every scalar is its source text, repeated
keys are refused, a null key is dropped) or is safe to feed with hostile text. Aliases share what they point to,
merges are counted, and what both come to is bounded, so neither can grow far beyond the block that holds them.

Fences are `message`'s business. This is the only module that knows a YAML library.
"""

import base64
import binascii
import functools
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from app.protocol.fault import Fault, malformed
from app.protocol.keyorder import compare, natural_key
from app.protocol.limits import BLOCK_MAX
from app.protocol.scalars import scalar

__all__ = ["compare", "decode_block", "encode_block", "natural_key"]

# ---------------------------------------------------------------------------------------------------------------
# Writing


def encode_block(metadata: Mapping[str, str]) -> bytes:
    """The lines of the block, without fences: `key: scalar`, in natural order; empty for an empty map."""
    lines = [head + scalar(metadata[key]) for key, head in _heads(tuple(metadata))]
    lines.append("")
    return "\n".join(lines).encode("utf-8")


@functools.lru_cache(maxsize=256)  # a world's documents share a few sets of keys
def _heads(keys: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The keys in their order, each with the text that goes before its value."""
    return tuple((key, _head(key)) for key in sorted(keys, key=natural_key))


def _head(key: str) -> str:
    written = '"<<"' if key == "<<" else scalar(key)  # plain, it would read as a merge
    if "\n" in written or len(written) > _SIMPLE_KEY_MAX:
        return f"? {written}\n: "
    return f"{written}: "


_SIMPLE_KEY_MAX = 1024  # characters; YAML readers look no further for the colon

# ---------------------------------------------------------------------------------------------------------------
# Reading


def decode_block(block: bytes) -> dict[str, str]:
    """The map that the text between the fences holds (wire §2.4).

    Keys and values are text; bytes of a `!!binary` scalar that are not UTF-8 are kept as surrogates
    (`surrogateescape`). Raises `Fault` `bad-request` on everything that is not a map of texts; its detail names
    the line and the fault and quotes nothing, since a block may hold a token. Time and memory are proportional to
    the length of the block.
    """
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        raise malformed(f"metadata: byte {error.start} is not UTF-8") from None
    simple = _decode_simple(text)
    if simple is not None:
        return simple
    if found := _FORBIDDEN.search(text):
        raise malformed(f"metadata: character {ord(found[0]):#04x}")
    try:
        root = _Composer(text).root()
    except yaml.YAMLError as error:
        raise malformed(f"metadata: {_reason(error)}") from None
    except UnicodeDecodeError:  # percent escapes in a tag, which the library hands on unchecked
        raise malformed("metadata: a tag that is not UTF-8") from None
    if isinstance(root, _Scalar) and root.null:
        return {}
    if not isinstance(root, _Map):
        raise malformed("metadata: not a map")
    texts = _Reader().texts(root)
    if sum(map(len, texts)) + sum(map(len, texts.values())) > _TEXT_MAX:
        raise malformed("metadata: aliases repeat too much text")
    return texts


# The common case, line by line: harmless text as writers of this protocol put it. This is only an earlier answer: a
# block that is not made of such lines throughout is read as YAML.
_SIMPLE_LINE = re.compile(
    r"""([a-z][a-z0-9-]{0,100}):\ (?:
        ([\w/][\w/.+=()$-]*(?:(?:\ +|:+|,+)[\w/.+=()$-]+)*)
      | (["'])([\ !#-&(-\[\]-~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]*)\3
    )""",
    re.VERBOSE,
)
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


def _decode_simple(text: str) -> dict[str, str] | None:
    result: dict[str, str] = {}
    for line in text.split("\n"):
        found = _SIMPLE_LINE.fullmatch(line)
        if found is None:
            return None
        key, plain, _, quoted = found.groups()
        if key in result or key == "null" or plain in _NULLS:
            return None
        result[key] = quoted if plain is None else plain
    return result


# All of YAML. A character YAML does not allow, wherever it stands, even behind the first document.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BINARY, _NULL, _MERGE = (f"tag:yaml.org,2002:{name}" for name in ("binary", "null", "merge"))

_DEPTH_MAX = 100  # of collections within collections, through aliases; a block that decodes needs three
_VISITS_MAX = BLOCK_MAX // 3  # maps and pairs read in all: so many distinct keys fill a block without aliases
_TEXT_MAX = 4 * BLOCK_MAX  # characters of all texts: what aliases repeat is small, or it is there to hurt


class _Scalar(msgspec.Struct, frozen=True, gc=False):
    line: int
    text: str
    null: bool = False
    merge: bool = False
    depth: int = 0


class _List(msgspec.Struct, frozen=True):
    line: int
    depth: int
    items: "list[_Node]"


class _Map(msgspec.Struct, frozen=True):
    line: int
    depth: int
    pairs: "list[tuple[_Node, _Node]]"


_Node = _Scalar | _List | _Map


class _Composer:
    """Makes the tree of the first document; an alias is one more reference to a node that is complete."""

    def __init__(self, text: str) -> None:
        self._events = yaml.parse(text, Loader=yaml.CBaseLoader)
        self._anchors: dict[str, _Node] = {}

    def root(self) -> _Node:
        """The document's node, to the document's end; a null if there is no document."""
        root: _Node = _Scalar(1, "", null=True)
        for event in self._events:
            if isinstance(event, yaml.DocumentEndEvent):
                if not event.explicit:
                    next(self._events)  # the stream's end or `---`; refuses what is neither
                break
            if isinstance(event, yaml.NodeEvent):
                root = self._node(event, level=0)
        return root

    def _node(self, event: Any, level: int) -> _Node:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:  # so is an alias within what it points to
                raise _malformed(line, "undefined alias")
            return self._anchors[event.anchor]
        if isinstance(event, yaml.ScalarEvent):
            made: _Node = _scalar_node(line, event)
        else:
            made = self._collection(event, line, level)
        if event.anchor is not None:
            self._anchors[event.anchor] = made
        return made

    def _collection(self, start: Any, line: int, level: int) -> "_List | _Map":
        if level > _DEPTH_MAX:
            raise _malformed(line, "nested too deeply")
        items: list[_Node] = []
        while not isinstance(event := next(self._events), yaml.CollectionEndEvent):
            items.append(self._node(event, level + 1))
        depth = 1 + max((item.depth for item in items), default=0)
        if depth > _DEPTH_MAX:  # through aliases, which do not count in the level
            raise _malformed(line, "nested too deeply")
        if isinstance(start, yaml.SequenceStartEvent):
            return _List(line, depth, items)
        return _Map(line, depth, list(zip(items[::2], items[1::2], strict=True)))


def _scalar_node(line: int, event: Any) -> _Scalar:
    text, tag = event.value, event.tag
    if tag is None:
        plain = event.implicit[0]
        return _Scalar(line, text, null=plain and text in _NULLS, merge=plain and text == "<<")
    if tag == _BINARY:
        try:
            data = base64.b64decode(text.replace("\n", ""), validate=True)
        except (binascii.Error, ValueError):
            raise _malformed(line, "not base64") from None
        return _Scalar(line, data.decode("utf-8", "surrogateescape"))
    return _Scalar(line, text, null=tag == _NULL, merge=tag == _MERGE)


class _Reader:
    """Reads maps of texts out of a tree, merges included, and counts what it visits."""

    def __init__(self) -> None:
        self._left = _VISITS_MAX

    def texts(self, node: _Map) -> dict[str, str]:
        result: dict[str, str] = {}
        seen: set[str] = set()
        bases: list[_Node] = []
        self._visit(node.line)
        for key, value in node.pairs:
            self._visit(key.line)
            if not isinstance(key, _Scalar):
                raise _malformed(key.line, "a key that is not a text")
            if key.text in seen:
                raise _malformed(key.line, "a repeated key")
            seen.add(key.text)
            if key.merge:
                bases += value.items if isinstance(value, _List) else [value]
            elif not key.null:
                if not isinstance(value, _Scalar):
                    raise _malformed(value.line, "a value that is not a text")
                result[key.text] = "" if value.null else value.text
        for base in bases:  # the map's own keys win, then the earlier base
            if not isinstance(base, _Map):
                raise _malformed(base.line, "a merge of something that is not a map")
            for name, text in self.texts(base).items():
                result.setdefault(name, text)
        return result

    def _visit(self, line: int) -> None:
        self._left -= 1
        if self._left < 0:
            raise _malformed(line, "too many aliases")


def _malformed(line: int, reason: str) -> Fault:
    return malformed(f"metadata line {line}: {reason}")


def _reason(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}: " if mark else ""
    return where + str(getattr(error, "problem", None) or type(error).__name__)
