"""`World`: everything the board holds, and the one door through which it changes.

It keeps the documents on disk and what is derived from them (content hashes, the tree of directories, search) equal.
Reads ask the disk, so that what other programs write is seen at once; the derived part learns of it by a `refresh`
(store §8).

A change is a `Commit` in three steps, so that a slow disk holds up nobody. `prepare_…` does all disk work up to a
synced version file and belongs to the writer's thread. `show` makes it visible, on disk and in every index, in one
step without a sync; it belongs to the thread that reads. `settle` waits for the disk again, in the writer's thread.
One commit at a time: the next may be prepared when the last is settled or abandoned. Reads belong to one thread;
`current`, `version` and `history` may be called from any.
"""

import os
import weakref
from collections.abc import Callable, Collection, Mapping

import msgspec

from app.protocol.paths import sort_key
from app.protocol.tables import LookupRow
from app.protocol.text import Log
from app.search.answer import Answer
from app.search.catalog import Catalog
from app.search.query import Query
from app.search.reader import Reader
from app.search.steps import Steps, done
from app.search.tokens import Recall
from app.world.disk import Root
from app.world.documents import Document, Documents, Flight, History
from app.world.errors import BadRoot, Damaged, DiskFailure, IndexIncomplete, Missing, ReadOnly, WorldError
from app.world.indexes import Indexes
from app.world.listing import Directories
from app.world.migration import migrate
from app.world.page import Child, MayRead
from app.world.prepared import NewState, NewVersion
from app.world.refresh import WHOLE, Changes, Emptied, Held, Refresh, Skips, compared, fill, unlinked
from app.world.shelf import Pruned
from app.world.stamps import Clock, stamp_of
from app.world.walk import OldLayout, walk
from app.world.writing import Unchanged, Writer


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What a write came to: the current version and its time, and whether this write created it."""

    version: int
    modified: int
    created: bool


class Figures(msgspec.Struct, frozen=True, gc=False):
    """How much a world holds, and where: live documents, the bytes of their bodies, their sections and what the index
    of these takes, and the time of the newest document in seconds since the epoch."""

    root: str
    documents: int
    body_bytes: int
    sections: int
    index_bytes: int
    newest: int


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
    def open(
        cls,
        root: str,
        *,
        log: Log,
        read_only: bool = False,
        now: Clock | None = None,
        recall: Recall = "wide",
    ) -> "World":
        """Open a content root: migrate the old layout (store §10), then build every index in one walk.

        `read_only` refuses all writes, a migration included. `now` gives the wall clock in seconds since the epoch;
        without it, the first `refresh` reads every document again. `recall` is how much a word of a LOOKUP in body
        mode finds (lookup §7.8). Raises `BadRoot`.
        """
        opened = Root(root)
        try:
            return cls(opened, log, read_only, now, recall)
        except BaseException:
            opened.close()
            raise

    def __init__(self, root: Root, log: Log, read_only: bool, now: Clock | None, recall: Recall) -> None:
        self._flight = Flight()
        self._root = root
        self._log = log
        self._now = now
        self._recall = recall
        self._read_only = read_only
        self._documents = Documents(root, self._flight)
        self._writer = Writer(root, self._documents, self._flight)
        try:
            self._held = self._load(migrated=False)
        except OldLayout:
            if read_only:
                raise BadRoot(
                    "the root is in an old layout; open it for writing once to convert it"
                ) from None
            migrate(root)
            self._held = self._load(migrated=True)
        # A world that another has replaced is closed when the last read in it has ended.
        self._close = weakref.finalize(self, root.close)
        self._close.atexit = False

    def _load(self, *, migrated: bool) -> Held:
        held = Held(Indexes(self._recall), Skips(self._log))
        items = walk(self._root, self._documents, self._now, known={}, migrated=migrated)
        fill(held.indexes, self._documents, items, held.skips, self._log, first=True)
        self._log("info", "content hash index built", entries=len(held.indexes.hashes))
        self._log("info", "lookup catalog built", entries=len(held.indexes.searches.catalog))
        return held

    def close(self) -> None:
        """Give the root back. Nothing is to be called afterwards."""
        self._close()

    @property
    def catalog(self) -> Catalog:
        """The entries of all live documents."""
        return self._held.indexes.searches.catalog

    @property
    def figures(self) -> "Figures":
        """How much there is."""
        indexes = self._held.indexes
        stats = indexes.searches.index.stats()
        return Figures(
            os.fsdecode(self._root.path),
            len(indexes.hashes),
            indexes.body_bytes,
            stats.sections,
            stats.size,
            indexes.newest,
        )

    # Following what other programs write.

    def refresh(self, scope: Collection[str] = WHOLE) -> Refresh:
        """A reload of what other programs have changed, to be carried out by the caller: see `Refresh`."""
        return Refresh(self._held, self._root, self._documents, self._log, self._now, scope)

    def refresh_now(self, scope: Collection[str] = WHOLE) -> Changes:
        """The same in one go, for programs that have no reader to wait for. Raises `BadRoot`."""
        with self.refresh(scope) as refresh:
            refresh.survey()
            refresh.catch_up()
            return refresh.apply()

    def is_at(self, root: str) -> bool:
        """Whether the path leads to the directory that is open here. Raises `BadRoot` if it leads nowhere."""
        try:
            there, here = os.stat(root), os.fstat(self._root.fd)
        except OSError as error:
            raise BadRoot(f"content root {root}: {error.strerror}") from error
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino) and (
            os.path.realpath(os.fsencode(root)) == self._root.path
        )

    def successor(self, root: str) -> tuple["World", Changes]:
        """The world at another root, to be served instead of this one, and what is different there.

        Raises `BadRoot`, also if this one has documents and that one has none.
        """
        other = World.open(root, log=self._log, read_only=self._read_only, now=self._now, recall=self._recall)
        old, new = self._held.indexes, other._held.indexes
        if old.stamps and not new.stamps:
            other.close()
            raise Emptied
        return other, compared(old.stamps.copy(), new.stamps, new.body_bytes)

    def followed(self, path: str) -> int | None:
        """The version of the document if the indexes know it as it is on disk, else None. Raises as `current` does."""
        stamp = self._held.indexes.stamps.get(unlinked(self._root, path))
        document = self._documents.current(path)
        known = stamp is not None and stamp.content == stamp_of(document).content
        return document.version if known else None

    # Searching by text; `catalog` answers by tags and titles.

    def body(self, query: Query, reader: Reader) -> list[LookupRow]:
        """The sections and documents that a body-mode query finds, each with a snippet from the version that was matched
        (lookup §8). Reads the documents."""
        return done(self.body_steps(query, reader))

    def body_steps(self, query: Query, reader: Reader) -> Steps[list[LookupRow]]:
        """The same, a few milliseconds at a time; the indexes must not change until it is at its end."""
        return self._held.indexes.searches.index.lookup_steps(query, reader, self._matched_body)

    def task(self, query: Query, reader: Reader) -> Answer:
        """The sections that cover a task together (task §1). Raises `Fault` if the query has no term."""
        return done(self.task_steps(query, reader))

    def task_steps(self, query: Query, reader: Reader) -> Steps[Answer]:
        """The same in such steps."""
        return self._held.indexes.searches.index.task_steps(query, reader, self._matched_body)

    def _matched_body(self, path: str, number: int) -> bytes | None:
        stamp = self._held.indexes.stamps.get(path)
        try:
            document, _ = self._documents.version(path, number)
        except WorldError:
            return None
        same = stamp is not None and stamp.content == stamp_of(document).content
        return document.body if same else None  # replaced on disk, and not reloaded yet

    def fold(self) -> bool:
        """A few milliseconds of tidying after writes; whether there may be more to do. Answers do not change."""
        return self._held.indexes.searches.fold()

    def paths(self) -> list[str]:
        """The paths of all live documents, sorted bytewise."""
        return sorted((path for path, live in self._held.indexes.tree.below("/") if live), key=sort_key)

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
        indexes = self._held.indexes
        unread = any(map(may_read, indexes.unread))
        for path in indexes.hashes.paths(content_hash):
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

    @property
    def _directories(self) -> Directories:
        return Directories(self._root, self._documents, self._held.indexes.tree, self._flight)

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
            extract = self._held.indexes.extract(step.document)
        except BaseException:
            step.abandon()
            raise
        return Commit(step, lambda: self._held.put(step.document, extract))


def _finish(commit: Commit | Unchanged, *, creates: bool) -> Outcome:
    if isinstance(commit, Unchanged):
        return Outcome(commit.version, commit.modified, created=False)
    commit.show()
    commit.settle()
    return Outcome(commit.version, commit.modified, created=creates)
