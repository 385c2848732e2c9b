"""A world of worst cases and the requests that have to go through them: what a client may send and publish, at the limits of the protocol.

Documents of one line of 1 MB or of half a million words, with a quarter of a million headings, ten thousand versions, a thousand levels of
folders, thirty thousand files in one, metadata that could not be more. Nothing here measures.
"""

from collections.abc import Iterator
from pathlib import Path

from app.protocol.limits import BLOCK_MAX, LOOKUP_LIMIT_MAX
from app.protocol.message import Request
from tests.unit.markdown.hostile import HOSTILE
from tests.unit.server.planted import plant

__all__ = ["DEEP", "SIZE", "TEXTS", "asked", "published", "settle"]

SIZE = 1_000_000
WIDE = 30_000
VERSIONS = 10_000
DEEP = 1_000

_ROOM = BLOCK_MAX - 200  # of a metadata block, beside the token

TEXTS: dict[str, bytes] = {name: make(SIZE).encode()[:SIZE] for name, make in HOSTILE.items()} | {
    "different words": b"".join(b"w%d " % number for number in range(SIZE // 7)),
    "joined words": b"a.b" * (SIZE // 3),
    "underscored words": b"a_b " * (SIZE // 4),
    "signs": b"\x01." * (SIZE // 2),
    "accents": "e\u0301a ".encode() * (SIZE // 5),
    "a block of code": b"```\n" + b"foo bar(baz) " * (SIZE // 13),
}
"""Bodies by kind."""

_FOUND = (
    "one word",
    "different words",
    "joined words",
    "underscored words",
    "accents",
    "a block of code",
    "items",
    "links",
    "code spans",
)
_SOURCES = {name: TEXTS[name] for name in _FOUND} | {
    "words": b"a " * (SIZE // 2),
    "lines": b"a b\n" * (SIZE // 4),
    "prose": (b"the quick brown fox jumps over the lazy dog and runs. " * 18 + b"\n") * (SIZE // 1000),
}
_START = b"# Zebra\n\nzebra zeta foo-bar net.core.max `some code` the quick "
_DEEP_FOLDER = "/deep" + "/d" * DEEP


def settle(root: Path) -> None:
    """Write the world."""
    for number, body in enumerate(_SOURCES.values()):
        plant(str(root), f"/big/{number}.md", [_START + body[: SIZE - len(_START)]])
    plant(str(root), "/heads/many.md", [b"# a\n" * (SIZE // 4)])
    plant(
        str(root),
        "/heads/words.md",
        [b"".join(b"# a b%d\nzeta the foo-bar\n" % (n % 99) for n in range(40_000))],
    )
    plant(str(root), f"{_DEEP_FOLDER}/one.md", [b"# Deep\n"])
    plant(str(root), "/versions/one.md", [b"%d\n" % number for number in range(VERSIONS)])
    keys = "".join(f"x-{number:02}: {'v' * 15}\n" for number in range(50))
    plant(str(root), "/metadata/one.md", [b"# Metadata\n"], metadata=keys)
    for number in range(WIDE):
        plant(str(root), f"/wide/{number}.md", [b"# T %d\n\na b c d e f g\n" % number])


def asked() -> Iterator[tuple[str, Request]]:
    """Reads by name."""
    yield "FETCH of 1 MB", Request("FETCH", "/big/0.md")
    yield "FETCH of a folder of 30,000", Request("FETCH", "/wide")
    yield "FETCH below one, as a version", Request("FETCH", "/wide/v3")
    yield "FETCH, a thousand levels down", Request("FETCH", f"{_DEEP_FOLDER}/one.md")
    yield "FETCH of the oldest of 10,000 versions", Request("FETCH", "/versions/one.md/v1")
    yield "FETCH by a hash that is nowhere", Request("FETCH", f"/sha256-{'0' * 64}")
    yield "FETCH, metadata at the limit", Request("FETCH", "/metadata/one.md")
    yield "FETCH, a block of 64 kB", Request("FETCH", "/one.md", {"x": "y" * _ROOM})
    keys = {f"k{number:05}": "v" for number in range(_ROOM // 10)}
    yield "FETCH, a block of 6,500 keys", Request("FETCH", "/one.md", keys)
    yield "LIST of 30,000", Request("LIST", "/wide")
    yield "LIST, a thousand levels down", Request("LIST", _DEEP_FOLDER)
    yield "LIST of the top of these levels", Request("LIST", "/deep")
    yield "VERSIONS, 10,000", Request("VERSIONS", "/versions/one.md")
    letters = " ".join("abcdefghijklmnopqrstuvwxyz012345")
    for mode, query, more in (
        ("catalog", letters, {}),
        ("catalog", letters, {"limit": str(LOOKUP_LIMIT_MAX)}),
        ("catalog", "*", {"limit": str(LOOKUP_LIMIT_MAX)}),
        ("catalog", "*", {"filter": "tag=none"}),
        ("body", "zebra zeta", {}),
        ("body", "zebra zeta foo-bar", {"limit": str(LOOKUP_LIMIT_MAX)}),
        ("body", "zeta", {"limit": str(LOOKUP_LIMIT_MAX)}),
        ("body", "zeta the", {"limit": str(LOOKUP_LIMIT_MAX)}),
        ("body", "ab.".join(map(str, range(9_000))), {}),
        ("task", "zebra zeta", {}),
        ("task", "foo-bar", {}),
        ("task", "net.core.max", {}),
        ("task", "`some code`", {}),
        ("task", '"a a a"', {}),
        ("task", '"a b" "b a"', {}),
        ("task", "a.b a.b", {}),
        ("task", f'"{"a " * 2_000}"', {}),
        ("task", "foo bar(baz)", {}),
        ("task", '"e\u0301a e\u0301a"', {}),
        ("task", "c++ and/or e.g. i.e. a/b b/c c/d x.y", {}),
        ("task", "zebbra fox", {}),
        ("task", letters, {"filter": "tag=none"}),
    ):  # fmt: skip
        name = query if len(query) < 30 else f"{query[:20]}…"
        limit = f", {more['limit']} rows" if "limit" in more else ", filtered" if more else ""
        yield f"{mode}: {name}{limit}", Request("LOOKUP", "/", {"match": mode, "query": query, **more})


def published() -> Iterator[tuple[str, Request]]:
    """Writes by name: new documents of every kind."""
    for name, body in TEXTS.items():
        path = f"/hostile/{name.replace(' ', '-').replace(',', '')}.md"
        yield f"PUBLISH: {name}", Request("PUBLISH", path, {"expected-version": "0"}, body)
    yield "APPEND to 1 MB", Request("APPEND", "/hostile/signs.md", {"expected-version": "1"}, b"a " * 20_000)
    yield "ARCHIVE of 250,000 headings", Request("ARCHIVE", "/heads/many.md")
    yield "and back", Request("PUBLISH", "/heads/many.md")
