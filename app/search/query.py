"""A LOOKUP request, checked once and in order, as the value every mode answers from (lookup §3.1 to §3.3, task §2).

The checks here are those of the metadata (3 to 7). The path checks before them belong to dispatch, the scope check
after them to the handler, who knows which directories there are.
"""

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from app.protocol.fault import Fault
from app.protocol.limits import (
    LOOKUP_LIMIT_DEFAULT,
    LOOKUP_LIMIT_MAX,
    LOOKUP_TERMS_MAX,
    TASK_LIMIT_MAX,
    TASK_QUERY_MAX,
)
from app.protocol.runes import fields, lower, trim
from app.protocol.text import go_quote
from app.search.filters import Filter, parse_filter
from app.search.wording import Wording, wording

Mode = Literal["catalog", "body", "task"]

MATCH_ALL = "*"

_INTEGER = re.compile(r"[+-]?[0-9]+")
_INT64_MAX = 2**63 - 1


class Query(msgspec.Struct, frozen=True):
    """What is asked, with every default filled in."""

    scope: str
    """Canonical path of the directory whose documents are asked about; shown in the answer's heading."""
    text: str
    """The trimmed query, shown in the answer's heading."""
    terms: tuple[str, ...]
    """Its distinct lower-cased fields in the order of their first appearance."""
    limit: int = LOOKUP_LIMIT_DEFAULT
    filter: Filter = Filter()
    mode: Mode = "catalog"
    """The mode asked for; the handler may answer in another and then echoes that one."""
    echo: bool = False
    """Whether the answer names its mode: exactly when the request carried `match`, even empty."""
    document: str = ""
    """In task mode, the one document that is asked about; empty for all of the scope."""
    wording: Wording | None = None
    """In task mode, the text taken apart; None if there is nothing in it to look for."""

    def require_terms(self) -> None:
        """The last check of task mode, behind that of the scope (task §2). Raises `Fault` (bad-request)."""
        if self.mode == "task" and self.wording is None:
            raise Fault("bad-request", "query has no word to look for")

    @property
    def match_all(self) -> bool:
        """Whether the query is a lone star: every document of the scope, in catalog mode."""
        return self.text == MATCH_ALL

    @property
    def prefix(self) -> str:
        """What the path of every document in scope starts with (lookup §3.4)."""
        return "/" if self.scope == "/" else self.scope + "/"


def parse_query(scope: str, metadata: Mapping[str, str], *, sections: bool = True) -> Query:
    """The query of a LOOKUP of this canonical scope with these options; unknown keys are ignored.

    Without `sections` to look in, task mode is catalog mode under another name (task §2). Raises `Fault` (bad-request,
    texts of wire §5.7) for the first check that fails.
    """
    mode = metadata.get("match", "")
    if mode == "task" and sections:
        return _task(scope, metadata)
    if mode == "task":
        metadata = {**metadata, "match": "catalog"}
    text = _text(metadata)
    terms = tuple(dict.fromkeys(fields(lower(text))))
    if len(terms) > LOOKUP_TERMS_MAX:
        raise Fault("bad-request", f"query has too many terms: {len(terms)} > {LOOKUP_TERMS_MAX}")
    return Query(
        scope=scope,
        text=text,
        terms=terms,
        limit=_limit(metadata.get("limit", ""), LOOKUP_LIMIT_DEFAULT, LOOKUP_LIMIT_MAX),
        filter=parse_filter(metadata.get("filter", "")),
        mode=_mode(metadata.get("match", "")),
        echo="match" in metadata,
    )


def task_query(
    text: str, scope: str = "/", *, document: str = "", limit: str = "", filters: str = ""
) -> Query:
    """A question in task mode about a directory or, for the surfaces that have documents for a scope, about one document
    (task §1). Raises `Fault` (bad-request) for the first check that fails."""
    query = _task(scope, {"query": text, "limit": limit, "filter": filters})
    query.require_terms()
    return msgspec.structs.replace(query, document=document)


def _task(scope: str, metadata: Mapping[str, str]) -> Query:
    """The checks of task mode in their order (task §2)."""
    text = _text(metadata)
    if len(text.encode("utf-8", "surrogatepass")) > TASK_QUERY_MAX:
        raise Fault("bad-request", f"query must be at most {TASK_QUERY_MAX} bytes")
    limit = _limit(metadata.get("limit", ""), TASK_LIMIT_MAX, TASK_LIMIT_MAX)
    filter_ = parse_filter(metadata.get("filter", ""))
    return Query(scope, text, (), limit, filter_, "task", True, wording=wording(text))


def _text(metadata: Mapping[str, str]) -> str:
    text = trim(metadata.get("query", ""))
    if text != MATCH_ALL and len(text) < 2:
        raise Fault("bad-request", "query must be at least 2 characters")
    return text


def _limit(text: str, default: int, most: int) -> int:
    """Rows asked for: Go's decimal integers only, at least 1, silently at most so many (lookup §3.2)."""
    if not text:
        return default
    digits = text.lstrip("+0")  # a negative keeps its sign, zero keeps nothing
    # More than 19 digits are past 64 bits, and in their thousands past what `int` is willing to read.
    if _INTEGER.fullmatch(text) and digits.isdigit() and len(digits) <= 19 and int(digits) <= _INT64_MAX:
        return min(int(digits), most)
    raise Fault("bad-request", "invalid limit")


def _mode(text: str) -> Mode:
    if text in ("", "catalog"):
        return "catalog"
    if text == "body":
        return "body"
    raise Fault("bad-request", f'match must be "catalog" or "body", got {go_quote(text)}')
