"""The world of a vectors file as the section index holds it, and who asks."""

from typing import Any

from app.protocol.times import parse_rfc3339
from app.search.catalog import Catalog
from app.search.entry import entry_of
from app.search.index import SectionIndex
from app.search.tokens import Recall


class Caller:
    """May read all but some paths."""

    def __init__(self, unreadable: list[str]) -> None:
        self.key = frozenset(unreadable)

    def may_read(self, path: str) -> bool:
        return path not in self.key


def world(documents: list[dict[str, Any]], recall: Recall) -> SectionIndex:
    """An index over the documents of a vectors file; archived ones have been put and dropped."""
    catalog = Catalog()
    index = SectionIndex(catalog, recall)
    for document in documents:
        modified = parse_rfc3339(document["modified"])
        assert modified is not None
        body = document["body"].encode()
        entry = entry_of(document["path"], document["meta"], body, int(modified))
        catalog.put(entry)
        index.put(index.extract(entry, body, 1))
    for document in documents:
        if document.get("archived"):
            catalog.drop(document["path"])
            index.drop(document["path"])
    return index
