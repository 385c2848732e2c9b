"""All that is derived from the documents and held in memory, in one piece: it is told of a change in one call, and
replaced whole when a new one was built beside it.

Content hashes, the tree of directories, search, what could not be read, and the stamps by which a reload knows what it
need not read again. One thread at a time; but `stamps` may be asked from another.
"""

from app.search.tokens import Recall
from app.world.documents import Document
from app.world.hashindex import HashIndex
from app.world.searches import Extract, Searches
from app.world.stamps import Stamp, stamp_of
from app.world.tree import Tree


class Indexes:
    """`newest` is the latest modification time of all documents ever held; `body_bytes` counts live bodies."""

    def __init__(self, recall: Recall) -> None:
        self.hashes = HashIndex()
        self.tree = Tree()
        self.searches = Searches(recall)
        self.unread: dict[str, None] = {}
        self.stamps: dict[str, Stamp] = {}
        self.body_bytes = 0
        self.newest = 0

    def extract(self, document: Document) -> Extract | None:
        """What search needs of a document, None for an archived one. May take long; safe in any thread."""
        return None if document.archived else self.searches.extract(document)

    def enter(self, document: Document) -> Extract | None:
        """The first half of that, for one of many documents: see `Searches`."""
        return None if document.archived else self.searches.enter(document)

    def successor(self) -> "Indexes":
        """Empty ones of the same kind."""
        return Indexes(self.searches.index.recall)

    def put(self, document: Document, extract: Extract | None, stamp: Stamp | None = None) -> None:
        """The document is as given from now on, `extract` being what `extract` made of it."""
        path = document.path
        self._count(path, stamp or stamp_of(document))
        self.unread.pop(path, None)
        self.newest = max(self.newest, document.modified)
        self.tree.put(path, extract is not None)
        if extract is None:
            self.hashes.drop(path)
            self.searches.drop(path)
        else:
            self.hashes.put(path, document.content_hash)
            self.searches.put(extract)

    def drop(self, path: str) -> None:
        """There is no document at this path any more."""
        self._count(path, None)
        self.unread.pop(path, None)
        self.tree.drop(path)
        self.hashes.drop(path)
        self.searches.drop(path)

    def _count(self, path: str, stamp: Stamp | None) -> None:
        before = self.stamps.get(path)
        for one, sign in ((before, -1), (stamp, 1)):
            if one is not None and not one.archived:
                self.body_bytes += sign * one.size
        if stamp is not None:
            self.stamps[path] = stamp
        else:
            self.stamps.pop(path, None)
