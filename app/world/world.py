"""`World`: everything the board holds, and the one door through which it changes.

It keeps the documents on disk and what is derived from them (content hashes, the tree of directories, search) equal.
Reads ask the disk, so that what other programs write is seen at once; the derived part learns of it at the next start
(store §8).

A change is a `Commit` in three steps, so that a slow disk holds up nobody. `prepare_…` does all disk work up to a
synced version file and belongs to the writer's thread. `show` makes it visible, on disk and in every index, in one
step without a sync; it belongs to the thread that reads. `settle` waits for the disk again, in the writer's thread.
One commit at a time: the next may be prepared when the last is settled or abandoned. Reads belong to one thread;
`current`, `version` and `history` may be called from any.
"""

from collections.abc import Callable, Mapping

import msgspec

from app.protocol.paths import sort_key
from app.protocol.text import Log
from app.search.catalog import Catalog
from app.world.disk import Root
from app.world.documents import Document, Documents, Flight, History
from app.world.errors import BadRoot, Damaged, DiskFailure, IndexIncomplete, Missing, ReadOnly
from app.world.hashindex import HashIndex
from app.world.listing import Directories
from app.world.migration import migrate
from app.world.page import Child, MayRead
from app.world.prepared import NewState, NewVersion
from app.world.searches import Extract, Searches
from app.world.shelf import Pruned
from app.world.tree import Tree
from app.world.walk import Found, OldLayout, walk
from app.world.writing import Unchanged, Writer

SKIPPED_LINES_MAX = 32
"""How many entries that the walk had to skip are logged (store §8)."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What a write came to: the current version and its time, and whether this write created it."""

    version: int
    modified: int
    created: bool


class Commit:
    """A prepared change: `show` it and `settle` it, or `abandon` it. `document` is the document as it will be."""

    def __init__(self, step: NewVersion | NewState, apply: Callable[[], None]) -> None:
        self._step = step
        self._apply = apply
        self.document = step.document

    @property
    def version(self) -> int:
        return self.document.version

    @property
    def modified(self) -> int:
        return self.document.modified

    def show(self) -> None:
        """Make the change visible everywhere. Raises `ReadOnly` or `DiskFailure`, having abandoned it."""
        self._step.show()
        self._apply()

    def settle(self) -> Pruned | None:
        """Wait until the change is durable, then prune by retention (store §6); what was pruned.

        Raises `NotSynced`: the change is visible nevertheless, and nothing was pruned.
        """
        return self._step.settle()

    def abandon(self) -> None:
        """Take everything back; only before `show`."""
        self._step.abandon()


class World:
    """The documents of one content root."""

    @classmethod
    def open(cls, root: str, *, log: Log, read_only: bool = False) -> "World":
        """Open a content root: migrate the old layout (store §10), then build every index in one walk.

        `read_only` refuses all writes, a migration included. Raises `BadRoot`.
        """
        opened = Root(root)
        try:
            return cls(opened, log, read_only)
        except BaseException:
            opened.close()
            raise

    def __init__(self, root: Root, log: Log, read_only: bool) -> None:
        flight = Flight()
        self._root = root
        self._read_only = read_only
        self._documents = Documents(root, flight)
        self._writer = Writer(root, self._documents, flight)
        try:
            self._load(log, migrated=False)
        except OldLayout:
            if read_only:
                raise BadRoot(
                    "the root is in an old layout; open it for writing once to convert it"
                ) from None
            migrate(root)
            self._load(log, migrated=True)
        self._directories = Directories(root, self._documents, self._tree, flight)

    def _load(self, log: Log, *, migrated: bool) -> None:
        self._hashes = HashIndex()
        self._tree = Tree()
        self._searches = Searches()
        self._unread: dict[str, None] = {}
        skipped = 0
        for item in walk(self._root, self._documents, migrated=migrated):
            if isinstance(item, Found):
                for torn in item.torn:
                    log(
                        "warn",
                        "version set aside",
                        path=item.document.path,
                        version=torn.number,
                        error=torn.why,
                    )
                self._put(item.document, self._extract(item.document))
                continue
            if item.damaged:
                self._unread[item.path] = None
            skipped += 1
            if skipped <= SKIPPED_LINES_MAX:
                log("warn", "hash index skipped entry", path=item.path, error=item.why)
        log("info", "content hash index built", entries=len(self._hashes))
        log("info", "lookup catalog built", entries=len(self._searches.catalog))

    def close(self) -> None:
        """Give the root back. Nothing is to be called afterwards."""
        self._root.close()

    @property
    def catalog(self) -> Catalog:
        """The entries of all live documents."""
        return self._searches.catalog

    def paths(self) -> list[str]:
        """The paths of all live documents, sorted bytewise."""
        return sorted((path for path, live in self._tree.below("/") if live), key=sort_key)

    # Reading.

    def current(self, path: str) -> Document:
        """The current version, archived or not (wire §5.1). Raises `Missing`, `Damaged`, `DiskFailure`."""
        return self._documents.current(path)

    def version(self, path: str, number: int) -> tuple[Document, int]:
        """A version, and the number of the current one (wire §5.1). Raises as `current` does."""
        return self._documents.version(path, number)

    def history(self, path: str) -> History:
        """The versions present and the state of their chain (wire §5.3). Raises as `current` does."""
        return self._documents.history(path)

    def by_hash(self, content_hash: str, may_read: MayRead) -> Document:
        """The live document, first bytewise of those the caller may read, whose current body has this hash.

        Raises `Missing`; `IndexIncomplete` if that is unsure, since something that the caller may read could not be
        read at start or cannot be read now (wire §5.1).
        """
        unread = any(map(may_read, self._unread))
        for path in self._hashes.paths(content_hash):
            if may_read(path):
                try:
                    document = self._documents.current(path)
                except Missing:
                    continue
                except (Damaged, DiskFailure):
                    unread = True
                    continue
                if document.content_hash == content_hash and not document.archived:
                    return document
        if unread:
            raise IndexIncomplete(content_hash)
        raise Missing(content_hash)

    def is_directory(self, path: str) -> bool:
        """Whether the path is a directory on disk."""
        return self._directories.exists(path)

    def visible_directory(self, path: str, may_read: MayRead) -> bool:
        """Whether the path is a directory that exists for the caller: see `Directories.visible`."""
        return self._directories.visible(path, may_read)

    def children(
        self,
        path: str,
        may_read: MayRead,
        include_archived: bool,
        *,
        after: str = "",
        limit: int | None = None,
    ) -> list[Child]:
        """What a directory lists for the caller (wire §5.2): see `Directories.children`."""
        return self._directories.children(path, may_read, include_archived, after, limit)

    # Writing, step by step.

    def prepare_publish(
        self, path: str, body: bytes, metadata: Mapping[str, str], expected: int | None, now: float
    ) -> Commit | Unchanged:
        """A new version with this body and all of this normalised metadata (wire §5.4 rows 6 to 12).

        `expected` is the version it replaces, 0 for none, None for whatever is there; `now` seconds since the epoch.
        Raises as `Writer.publish` does.
        """
        return self._prepared(self._writable().publish(path, body, metadata, expected, now))

    def prepare_append(
        self, path: str, body: bytes, metadata: Mapping[str, str], expected: int, now: float
    ) -> Commit:
        """A new version with this text behind the current body (wire §5.5). Raises as `Writer.append` does."""
        return self._commit(self._writable().append(path, body, metadata, expected, now))

    def prepare_archive(self, path: str) -> Commit | Unchanged:
        """The document archived (wire §5.6). Raises as `Writer.set_archived` does."""
        return self._prepared(self._writable().set_archived(path, True))

    def prepare_unarchive(self, path: str) -> Commit | Unchanged:
        """The document live again (wire §5.4.1). Raises as `Writer.set_archived` does."""
        return self._prepared(self._writable().set_archived(path, False))

    # Writing in one go, for programs that have no reader to wait for.

    def publish(
        self, path: str, body: bytes, metadata: Mapping[str, str], expected: int | None, now: float
    ) -> Outcome:
        """As `prepare_publish`, shown and settled."""
        return _finish(self.prepare_publish(path, body, metadata, expected, now), creates=True)

    def append(
        self, path: str, body: bytes, metadata: Mapping[str, str], expected: int, now: float
    ) -> Outcome:
        """As `prepare_append`, shown and settled."""
        return _finish(self.prepare_append(path, body, metadata, expected, now), creates=True)

    def archive(self, path: str) -> Outcome:
        """As `prepare_archive`, shown and settled."""
        return _finish(self.prepare_archive(path), creates=False)

    def unarchive(self, path: str) -> Outcome:
        """As `prepare_unarchive`, shown and settled."""
        return _finish(self.prepare_unarchive(path), creates=False)

    def _writable(self) -> Writer:
        if self._read_only:
            raise ReadOnly("the world was opened for reading only")
        return self._writer

    def _prepared(self, step: NewVersion | NewState | Unchanged) -> Commit | Unchanged:
        return step if isinstance(step, Unchanged) else self._commit(step)

    def _commit(self, step: NewVersion | NewState) -> Commit:
        try:
            extract = self._extract(step.document)
        except BaseException:
            step.abandon()
            raise
        return Commit(step, lambda: self._put(step.document, extract))

    def _extract(self, document: Document) -> Extract | None:
        return None if document.archived else self._searches.extract(document)

    def _put(self, document: Document, extract: Extract | None) -> None:
        """Every index learns of a document, which is archived if it has no extract; nothing else changes them."""
        path = document.path
        self._unread.pop(path, None)
        self._tree.put(path, extract is not None)
        if extract is None:
            self._hashes.drop(path)
            self._searches.drop(path)
        else:
            self._hashes.put(path, document.content_hash)
            self._searches.put(extract)


def _finish(commit: Commit | Unchanged, *, creates: bool) -> Outcome:
    if isinstance(commit, Unchanged):
        return Outcome(commit.version, commit.modified, created=False)
    commit.show()
    commit.settle()
    return Outcome(commit.version, commit.modified, created=creates)
