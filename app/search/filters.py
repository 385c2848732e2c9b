"""The `filter` of a LOOKUP: clauses joined by commas, all of which must hold (lookup §5).

`Filter` is plain data, so that a catalog may test its clauses in whatever order and over whatever columns are
cheapest; `matches` says what they mean for one entry. Many clauses of one kind are kept as the one that decides
(the latest `after`, the earliest `before`), so that a long filter costs no more than a short one.
"""

import msgspec

from app.protocol.fault import Fault
from app.protocol.runes import fold, trim
from app.protocol.tables import parse_rfc3339
from app.protocol.text import go_quote
from app.search.entry import Entry


class Filter(msgspec.Struct, frozen=True):
    """What an entry must meet. The empty filter is met by every entry."""

    tags: tuple[str, ...] = ()
    """Folded tags the entry must carry."""
    declared: tuple[tuple[str, str], ...] = ()
    """Keys and the values they must be declared with, byte for byte."""
    after: float | None = None
    """The entry is modified strictly later than this, in seconds since the epoch."""
    before: float | None = None
    """The entry is modified strictly earlier than this."""

    def matches(self, entry: Entry) -> bool:
        """Whether the entry meets every clause."""
        return (
            (self.after is None or entry.modified > self.after)
            and (self.before is None or entry.modified < self.before)
            and all(entry.metadata.get(key) == value for key, value in self.declared)
            and (not self.tags or set(map(fold, entry.tags)).issuperset(self.tags))
        )


def parse_filter(text: str) -> Filter:
    """The filter a request asks for. Raises `Fault` (bad-request) with its own text for a malformed clause."""
    tags: dict[str, None] = {}
    declared: dict[tuple[str, str], None] = {}
    after: float | None = None
    before: float | None = None
    for clause in map(trim, text.split(",")):
        if not clause:
            continue
        key, equals, value = clause.partition("=")
        key, value = trim(key), trim(value)
        if not (equals and key and value):
            raise Fault("bad-request", f"invalid filter clause {go_quote(clause)}: must be key=value")
        if key == "tag":
            tags[fold(value)] = None
        elif key == "modified-after":
            instant = _instant(key, value)
            after = instant if after is None else max(after, instant)
        elif key == "modified-before":
            instant = _instant(key, value)
            before = instant if before is None else min(before, instant)
        else:
            declared[key, value] = None
    return Filter(tags=tuple(tags), declared=tuple(declared), after=after, before=before)


def _instant(key: str, value: str) -> float:
    """Seconds since the epoch of an RFC 3339 time, or of the midnight (UTC) that begins a bare date."""
    seconds = parse_rfc3339(value if "T" in value else f"{value}T00:00:00Z")
    if seconds is None:
        message = f"invalid filter time {go_quote(value)} for {key}: must be YYYY-MM-DD or an RFC 3339 time"
        raise Fault("bad-request", message)
    return seconds
