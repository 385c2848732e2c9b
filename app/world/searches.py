"""What is derived from documents so that they can be searched, and the one place where it is told of a change.

A change comes in two halves. `extract` does the work on the document's text; it may take long and runs in the writer's
thread. `put` and `drop` swap the result in; they run where everybody waits, in the same step in which the document
changes, and cost no more than that document does.
"""

import msgspec

from app.protocol.publisher import readable
from app.search.catalog import Catalog
from app.search.entry import Entry, entry_of
from app.world.documents import Document


class Extract(msgspec.Struct, frozen=True):
    """All that search needs of one document."""

    entry: Entry


class Searches:
    """The catalog (lookup §4)."""

    def __init__(self) -> None:
        self.catalog = Catalog()

    @staticmethod
    def extract(document: Document) -> Extract:
        """What the document gives to search; pure."""
        return Extract(entry_of(document.path, readable(document.metadata), document.body, document.modified))

    def put(self, extract: Extract) -> None:
        """The document is live with this content from now on."""
        self.catalog.put(extract.entry)

    def drop(self, path: str) -> None:
        """There is no live document at this path any more."""
        self.catalog.drop(path)
