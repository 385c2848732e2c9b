"""Where a document's links lead: those in its text, and those its author declared as `rel-*` metadata.

A link is resolved as a browser would resolve it: relative to the folder of the document, percent escapes decoded, `..` not above the root. What
does not lead into a world of this protocol (a web page, a mail address) stays as it was written. Pure; nothing is asked.
"""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote_to_bytes

import msgspec

from app.markdown.cmark import targets
from app.protocol.addresses import Address, BadAddress, parse_address
from app.protocol.paths import canonical, parent, split_version
from app.protocol.publisher import split_tags

LINK = "link"
"""The relation of a link in the text."""

_RELATION = "rel-"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class Link(msgspec.Struct, frozen=True):
    """A link: what kind it is, and where it leads. `address` is None for what is no place in a world; `text` always says it."""

    relation: str
    address: Address | None
    text: str


def links(where: Address, metadata: Mapping[str, str], body: bytes) -> list[Link]:
    """The links of the document at an address: declared ones by relation, then those of the text, each place once."""
    declared = [
        (key.removeprefix(_RELATION), target)
        for key, value in sorted(metadata.items())
        if key.startswith(_RELATION)
        for target in split_tags(value)
    ]
    found = [
        _link(where, relation, target)
        for relation, target in [*declared, *((LINK, one) for one in targets(body))]
    ]
    return list(dict.fromkeys(found))


def leading_to(found: Iterable[Link], place: Address) -> list[Link]:
    """Those that lead to a document, whatever section or version of it they name."""
    wanted = document(place)
    return [one for one in found if one.address is not None and document(one.address) == wanted]


def document(where: Address) -> Address:
    """The address of the document, without section and version."""
    path = canonical(where.path)
    version = split_version(path)
    return Address(where.host, where.port, version[0] if version and version[0].endswith(".md") else path)


def _link(where: Address, relation: str, target: str) -> Link:
    try:
        address = _resolved(where, target)
        if address is not None:
            address = parse_address(str(address))  # what no request can carry is no place
    except BadAddress:
        address = None
    return Link(relation, address, target if address is None else str(address))


def _resolved(where: Address, target: str) -> Address | None:
    if _SCHEME.match(target) or target.startswith("//"):
        return parse_address(target) if target[:5].lower() == "mark:" else None
    path, _, fragment = target.partition("#")
    path = path.partition("?")[0]
    here = document(where).path
    if not path:
        return Address(where.host, where.port, here, _plain(fragment))
    base = "" if path.startswith("/") else f"{parent(here)}/"
    segments: list[str] = []
    for segment in f"{base}{_plain(path)}".split("/"):
        if segment == "..":
            segments[-1:] = []
        elif segment not in {"", "."}:
            segments.append(segment)
    return Address(where.host, where.port, "/" + "/".join(segments), _plain(fragment))


def _plain(text: str) -> str:
    return unquote_to_bytes(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
