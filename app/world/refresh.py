"""Reloading: what other programs have changed on disk is found, read, and taken over in one step (store §8, §13).

A reload has three parts, so that no request waits for it and none sees half of it. `survey` finds and reads what has
changed; it takes long and belongs to a thread of its own, beside which requests are answered and writes go on.
`catch_up` looks again at what our own writer has written meanwhile; a thread as well, while the writer is held. `apply`
makes the result visible and costs no more than a moment; it belongs where requests are answered.

A few changed documents are put into the indexes that are there: at most `AT_ONCE` of them, which is what `apply` may
cost. For more, a second set of indexes is built beside the first from one walk that reads everything, and takes its
place: that costs time and memory, but no request waits.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import TracebackType

import msgspec

from app.markdown.cmark import hand_back
from app.protocol.paths import sort_key
from app.protocol.text import Log
from app.search.extract import batches
from app.world.apart import ApartFailed, Parcel, apart
from app.world.disk import Root, names_of, path_of
from app.world.documents import VERSIONS, Document, Documents
from app.world.errors import BadRoot, Escapes, WorldError
from app.world.indexes import Indexes
from app.world.searches import Extract
from app.world.stamps import Clock, Stamp, stamp_of
from app.world.walk import Found, Item, Same, Skipped, look, walk

AT_ONCE = 64
"""Documents that are put into the indexes in one step; some 0.3 ms each on a board."""
AT_ONCE_BYTES = 4 * 1024 * 1024
"""The bodies of these together."""
APART_FROM = 1024 * 1024
"""A world with so many bytes of bodies gets its sections in a process of their own; for less that is not worth it."""
SKIPPED_LINES_MAX = 32
"""How many entries that cannot be taken in are logged (store §8)."""

WHOLE = ("/",)
"""The scope of a reload that looks everywhere."""


class Changes(msgspec.Struct, frozen=True, gc=False):
    """What a reload found: documents by what happened to them, and the bytes of the bodies that were read."""

    added: int = 0
    replaced: int = 0
    archived: int = 0
    unarchived: int = 0
    gone: int = 0
    read: int = 0

    @property
    def documents(self) -> int:
        """How many documents have changed."""
        return self.added + self.replaced + self.archived + self.unarchived + self.gone


class Emptied(BadRoot):
    """There were documents and now there is none: more likely a missing mount than a wish."""

    def __init__(self) -> None:
        super().__init__("there is no document in the content root any more; what was known stays in force")


class Skips:
    """Entries that could not be taken in, the first of them logged, each once for as long as it is there."""

    def __init__(self, log: Log, before: "Skips | None" = None) -> None:
        self._log = log
        self._before = before._told if before is not None else set()
        self._told: set[str] = set()

    def note(self, item: Skipped) -> None:
        told = f"{item.path}\n{item.why}"
        if item.passing or told in self._told or len(self._told) >= SKIPPED_LINES_MAX:
            return
        self._told.add(told)
        if told not in self._before:
            self._log("warn", "hash index skipped entry", path=item.path, error=item.why)

    def join(self, others: "Skips") -> None:
        """Entries that were met elsewhere."""
        self._told |= others._told


def fill(
    indexes: Indexes, documents: Documents, items: Iterable[Item], skips: Skips, log: Log, *, first: bool
) -> int:
    """Put everything that a walk finds into new indexes; the bytes of the bodies found.

    Every body is read a second time for its sections, since no more than one is held: see `Searches`. Those of a large
    world are made in a process of their own. If that ends early, the `first` indexes of a world are made here instead;
    for others, which there is less room for, `ApartFailed` is raised.
    """
    read = sum(_put(indexes, item, indexes.enter, skips, log) for item in items)
    searches = indexes.searches
    paths = sorted(searches.catalog.paths(), key=sort_key)
    if read >= APART_FROM:
        try:
            *segments, changed = apart(lambda: _parcels(indexes, documents, paths), documents.descriptors)
        except ApartFailed as failure:
            if not first:
                raise
            log("warn", "the section index is built in this process", reason=str(failure))
        else:
            for segment in segments:
                searches.index.add(segment)
            paths = list(filter(None, bytes(changed).decode("utf-8", "surrogateescape").split("\0")))
    left: list[str] = []
    for document in _as_known(indexes, documents, paths, left):
        searches.index.put(searches.gather(document))
    for path in left:
        _take_changed(indexes, documents, path)
    searches.settle()
    return read


def _parcels(indexes: Indexes, documents: Documents, paths: Iterable[str]) -> Iterator[Parcel]:
    """The segments of these documents, and at last the paths of those that have changed, NULs between."""
    left: list[str] = []
    gathered = map(indexes.searches.gather, _as_known(indexes, documents, paths, left))
    for frame in batches(gathered):
        hand_back()  # before the process that asked gets what is still here
        yield frame.size, frame.pieces()
    changed = "\0".join(left).encode("utf-8", "surrogateescape")
    yield len(changed), [changed]


def _as_known(
    indexes: Indexes, documents: Documents, paths: Iterable[str], left: list[str]
) -> Iterator[Document]:
    """The documents that are still what the indexes know; the paths of others go to `left`."""
    for path in paths:
        try:
            document = documents.current(path)
        except WorldError:
            left.append(path)
            continue
        if stamp_of(document).content == indexes.stamps[path].content:
            yield document
        else:
            left.append(path)


def _take_changed(indexes: Indexes, documents: Documents, path: str) -> None:
    """Take in a document that was gone, broken or replaced when its sections were to be made."""
    try:
        document = documents.current(path)
    except WorldError:
        indexes.drop(path)
    else:  # the stamp is unsure, so the next reload looks again
        indexes.put(document, indexes.extract(document))


def _put(
    indexes: Indexes, item: Item, extract: Callable[[Document], Extract | None], skips: Skips, log: Log
) -> int:
    """Put what was found at one place into indexes that nobody uses yet; the bytes of its body."""
    if isinstance(item, Found):
        tell_torn(item, log)
        indexes.put(item.document, extract(item.document), item.stamp)
        return item.stamp.size
    if isinstance(item, Skipped):
        skips.note(item)
        if item.damaged:
            indexes.unread[item.path] = None
    return 0


def tell_torn(item: Found, log: Log) -> None:
    """Log the versions that are set aside."""
    for torn in item.torn:
        log("warn", "version set aside", path=item.path, version=torn.number, error=torn.why)


def compared(old: Mapping[str, Stamp], new: Mapping[str, Stamp], read: int) -> Changes:
    """What is different between two sets of documents."""
    counts = dict.fromkeys(("added", "replaced", "archived", "unarchived"), 0)
    for path, stamp in new.items():
        kind = kind_of(old.get(path), stamp)
        if kind:
            counts[kind] += 1
    return Changes(**counts, gone=sum(path not in new for path in old), read=read)


def kind_of(before: Stamp | None, stamp: Stamp) -> str:
    """What has happened to a document, as the field of `Changes` that counts it; empty for nothing."""
    if before is None:
        return "added"
    if before.content == stamp.content:
        return ""
    if before.archived == stamp.archived:
        return "replaced"
    return "archived" if stamp.archived else "unarchived"


def unlinked(root: Root, path: str) -> str:
    """The path by which indexes know a document: the one that leads to it without links to directories."""
    names = names_of(path)
    if not names:
        return path
    try:
        return path_of((*root.resolve(names[:-1]), names[-1]))
    except Escapes:
        return path


class Held:
    """The `indexes` in force; while a reload runs, the paths `written` by our own writer; what is known to be skipped."""

    def __init__(self, indexes: Indexes, skips: Skips) -> None:
        self.indexes = indexes
        self.skips = skips
        self.written: set[str] | None = None

    def put(self, document: Document, extract: Extract | None) -> None:
        """Our own writer has made the document what is given."""
        self.indexes.put(document, extract)
        if self.written is not None:
            self.written.add(document.path)


class _Change(msgspec.Struct, frozen=True):
    document: Document
    extract: Extract | None
    stamp: Stamp


class _TooMany(Exception):
    """More has changed than may be applied at once."""


class Refresh:
    """One reload, to be used as a context: `survey`, `catch_up`, `apply`, in this order.

    `scope` names what to look at: document paths, and directories with a slash at the end. One reload at a time.
    """

    def __init__(
        self,
        held: Held,
        root: Root,
        documents: Documents,
        log: Log,
        now: Clock | None,
        scope: Collection[str],
    ) -> None:
        self._held = held
        self._root = root
        self._documents = documents
        self._log = log
        self._now = now
        self._scope = scope
        self._whole = "/" in scope
        self._before = held.indexes
        self._skips = Skips(log, held.skips)
        # A copy, for the walk takes long and the original changes under it.
        self._known = held.indexes.stamps.copy() if self._whole else held.indexes.stamps
        self._found: dict[str, Found] = {}
        self._changed: dict[str, _Change] = {}
        self._stamped: dict[str, Stamp] = {}
        self._gone: set[str] = set()
        self._unread: dict[str, None] = {}
        self._size = 0
        self._read = 0
        self._beside: Indexes | None = None
        self._changes = Changes()

    def __enter__(self) -> "Refresh":
        self._held.written = set()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.written = None

    @property
    def built(self) -> bool:
        """Whether so much has changed that other indexes were built."""
        return self._beside is not None

    def survey(self) -> None:
        """Find and read what has changed. Raises `BadRoot` if the root cannot be read or is suddenly empty."""
        try:
            self._compare()
        except _TooMany:
            self._found.clear()
            self._stamped.clear()
            self._gone.clear()
            self._build()
        else:
            self._extract()
            left = len(self._before.stamps) - len(self._gone)
            added = sum(path not in self._known for path in self._changed)
            if self._gone and left + added == 0:
                raise Emptied

    def catch_up(self) -> None:
        """Look again at the documents that our writer has written since the reload began; nobody writes meanwhile."""
        written, self._held.written = self._held.written or set(), set()
        for path in sorted(written):
            names = names_of(path) or ()
            if self._beside is not None:
                self._beside.drop(path)
                self._fill(self._beside, self._look(names, {}))
                continue
            self._changed.pop(path, None)
            self._stamped.pop(path, None)
            self._unread.pop(path, None)
            self._gone.discard(path)
            self._take(path, self._look(names, self._before.stamps), self._before.stamps, limited=False)
        self._extract()
        if self._beside is not None:
            self._changes = compared(self._known, self._beside.stamps, self._read)

    def apply(self) -> Changes:
        """Put what was found into force."""
        if self._whole:
            self._held.skips = self._skips
        else:
            self._held.skips.join(self._skips)
        if self._beside is not None:
            self._held.indexes = self._beside
            return self._changes
        indexes = self._before
        counts = dict.fromkeys(("added", "replaced", "archived", "unarchived"), 0)
        for path, change in self._changed.items():
            counts[kind_of(indexes.stamps.get(path), change.stamp) or "replaced"] += 1
            indexes.put(change.document, change.extract, change.stamp)
        for path in self._gone:
            indexes.drop(path)
        indexes.stamps.update(self._stamped)
        looked_at = tuple(path for path in self._scope if path.endswith("/"))
        for path in [path for path in indexes.unread if path in self._stamped or path.startswith(looked_at)]:
            del indexes.unread[path]
        indexes.unread.update(self._unread)
        return Changes(**counts, gone=len(self._gone), read=self._read)

    # A few changes.

    def _compare(self) -> None:
        if self._whole:
            self._compare_below("/")
            return
        tops = {path for path in self._scope if path.endswith("/")}
        for path in sorted(self._scope):
            names = names_of(path.rstrip("/"))
            if not names or VERSIONS in names or any(path.startswith(top) for top in tops - {path}):
                continue
            if path.endswith("/"):
                self._compare_below(path)
            else:
                self._compare_one(path)

    def _compare_one(self, path: str) -> None:
        path = unlinked(self._root, path)
        self._take(path, self._look(names_of(path) or (), self._known), self._known)

    def _compare_below(self, top: str) -> None:
        known = self._known
        left = {path for path in known.copy() if path.startswith(top)}
        kept: list[str] = []
        names = () if top == "/" else names_of(top.rstrip("/")) or ()
        for item in walk(self._root, self._documents, self._now, known=known, migrated=True, top=names):
            if isinstance(item, Skipped) and item.path.endswith("/"):
                kept.append(item.path)
                self._skip(item)
                continue
            if not isinstance(item, Skipped):
                left.discard(item.path)
            self._take(item.path, item, known)
        for path in left:
            if not any(path.startswith(prefix) for prefix in kept):
                self._drop(path, limited=True)

    def _look(self, names: tuple[bytes, ...], known: Mapping[str, Stamp]) -> Item | None:
        return look(self._root, self._documents, self._now, known, names)

    def _take(
        self, path: str, item: Item | None, known: Mapping[str, Stamp], *, limited: bool = True
    ) -> None:
        """Note what one document has come to."""
        before = known.get(path)
        if isinstance(item, Same):
            return
        if not isinstance(item, Found):
            if item is not None:
                self._skip(item)
                if item.path.endswith("/"):
                    return  # its directory cannot be read: what was known of it stays
            if before is not None:
                self._drop(path, limited)
            return
        self._read += item.stamp.size
        self._gone.discard(path)
        if not kind_of(before, item.stamp):
            self._stamped[path] = item.stamp
            return
        tell_torn(item, self._log)
        self._size += item.stamp.size
        if limited and self._exceeds():
            raise _TooMany
        self._found[path] = item

    def _extract(self) -> None:
        """The heavy half for what was found, once it is known to be so little that it is needed."""
        for path in list(self._found):
            item = self._found.pop(path)
            extract = self._before.extract(item.document)
            document = msgspec.structs.replace(item.document, body=b"")
            self._changed[path] = _Change(document, extract, item.stamp)

    def _drop(self, path: str, limited: bool) -> None:
        self._found.pop(path, None)
        self._stamped.pop(path, None)
        self._gone.add(path)
        if limited and self._exceeds():
            raise _TooMany

    def _exceeds(self) -> bool:
        return len(self._found) + len(self._gone) >= AT_ONCE or self._size > AT_ONCE_BYTES

    def _skip(self, item: Skipped) -> None:
        self._skips.note(item)
        if item.damaged:
            self._unread[item.path] = None

    # Many changes.

    def _build(self) -> None:
        indexes = self._before.successor()
        self._whole = True
        items = walk(self._root, self._documents, self._now, known={}, migrated=True)
        self._read = fill(
            indexes, self._documents, self._readable(items), self._skips, self._log, first=False
        )
        if not indexes.stamps:
            raise Emptied
        self._beside = indexes

    def _readable(self, items: Iterator[Item]) -> Iterator[Item]:
        """The items, as long as no directory that held documents has become unreadable."""
        for item in items:
            if isinstance(item, Skipped) and item.path.endswith("/") and self._knows_below(item.path):
                raise BadRoot(f"{item.path} cannot be read: {item.why}; what was known stays in force")
            yield item

    def _knows_below(self, directory: str) -> bool:
        return any(path.startswith(directory) for path in self._known.copy())

    def _fill(self, indexes: Indexes, item: Item | None) -> None:
        if item is not None:
            self._read += _put(indexes, item, indexes.extract, self._skips, self._log)
