"""What is derived from documents so that they can be searched, and the one place where it is told of a change.

A change comes in two halves. `extract` does the work on the document's text; it may take long and runs in the writer's
thread. `put` and `drop` swap the result in; they run where everybody waits, in the same step in which the document
changes, and cost no more than that document does. `fold` tidies up after writes, a few milliseconds at a time.

A whole world is taken in twice over: first every entry, then the sections of every document (`gather`), then `settle`.
What stays is then made before the millions of small objects that only pass through, in a process of their own if they
are many.
"""

import msgspec

from app.markdown.cmark import hand_back
from app.protocol.publisher import readable
from app.search.catalog import Catalog
from app.search.entry import Entry, entry_of
from app.search.extract import Extracted, Gathered
from app.search.index import SectionIndex
from app.search.tokens import Recall
from app.world.documents import Document


class Extract(msgspec.Struct, frozen=True):
    """All that search needs of one document."""

    entry: Entry
    sections: Extracted | None
    """None: they come later, from `gather`."""


class Searches:
    """The catalog (lookup §4) and the section index (lookup §8)."""

    def __init__(self, recall: Recall) -> None:
        self.catalog = Catalog()
        self.index = SectionIndex(self.catalog, recall)

    def extract(self, document: Document) -> Extract:
        """What the document gives to search, packed to be put at once; pure."""
        entry = _entry(document)
        return Extract(entry, self.index.extract(entry, document.body, document.version))

    @staticmethod
    def enter(document: Document) -> Extract:
        """The first half of that, for one of many documents."""
        return Extract(_entry(document), None)

    def put(self, extract: Extract) -> None:
        """The document is live with this content from now on."""
        self.catalog.put(extract.entry)
        if extract.sections is not None:
            self.index.put(extract.sections)

    def gather(self, document: Document) -> Gathered:
        """The second half, for one of many documents whose entries are put; for `index.put` or `batches`, in path order."""
        entry = self.catalog.get(document.path)
        assert entry is not None, "entries come first"
        return self.index.gather(entry, document.body, document.version)

    def drop(self, path: str) -> None:
        """There is no live document at this path any more."""
        self.catalog.drop(path)
        self.index.drop(path)

    def fold(self) -> bool:
        """A few milliseconds of tidying; whether there may be more to do."""
        return self.index.fold()

    def settle(self) -> None:
        """All tidying at once, and what the first question would otherwise wait for."""
        self.index.settle()
        self.catalog.prepare()
        hand_back()


def _entry(document: Document) -> Entry:
    return entry_of(document.path, readable(document.metadata), document.body, document.modified)
