"""Tells which documents of a content root may have changed, by kernel notification on every directory of it.

Every directory is watched: those that hold pointers, those named `versions`, and the version directory of each
document, where archive marks are. New ones are watched as they appear, before they are looked into, so that nothing
falls between. An event names the document or directory it is about; when things have been quiet for a moment, or have
been unquiet for long, all that was named is handed on in one call. Nothing is read here but names of directories.

Where the kernel grants too few watches the root is looked through at intervals instead; where it has lost events, once.
Our own writes are reported as well: whoever looks finds nothing new in them.
"""

import errno
import math
import os
import time
from collections.abc import Awaitable, Callable, Collection, Iterable

import trio
from inotify_simple import Event, INotify, flags

from app.protocol.text import Log

QUIET_SECONDS = 0.150
"""How long nothing must have happened before changes are reported."""
LONGEST_SECONDS = 2.0
"""How long reporting is put off at most, however busy a writer is."""
LOOK_SECONDS = 2.0
"""Without watches: how long between two looks at everything, …"""
LOOK_SHARE = 20
"""… or so many times as long as a look takes, if that is more."""

Changed = Callable[[Collection[str]], Awaitable[bool]]
"""Takes document paths, and directories with a slash at the end; says whether their changes are now known."""

AGAIN_SECONDS = 2.0
"""After which what could not be taken over is looked at again; twice as long each time, up to"""
AGAIN_SECONDS_MAX = 300.0

_MASK = (
    flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO | flags.CLOSE_WRITE | flags.ATTRIB
    | flags.DELETE_SELF | flags.MOVE_SELF | flags.ONLYDIR | flags.DONT_FOLLOW | flags.EXCL_UNLINK
)  # fmt: skip
_COMES = flags.CREATE | flags.MOVED_TO
_LOST = flags.DELETE_SELF | flags.MOVE_SELF | flags.UNMOUNT | flags.IGNORED
_VERSIONS = "versions"


async def watch(root: str, changed: Changed, log: Log) -> None:
    """Calls `changed` with what may have changed below `root`, a real path; runs until cancelled.

    Begins with a look at everything, for what happened before the watches stood. Returns if the root itself has gone.
    """
    try:
        with INotify(nonblocking=True) as notify:
            watches = Watches(notify, root)
            await trio.to_thread.run_sync(watches.add, "/")
            log("info", "contentwatch: watching", root=root, directories=len(watches))
            known = await changed(("/",))
            await _report(notify, watches, changed, log, set() if known else {"/"})
            return
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOTDIR}:
            return
        cure = "; raise fs.inotify.max_user_watches" if error.errno == errno.ENOSPC else ""
        log(
            "warn",
            f"contentwatch: cannot watch every directory, looking through them at intervals{cure}",
            root=root,
            error=error.strerror,
        )
    while True:
        began = time.monotonic()
        await changed(("/",))
        await trio.sleep(max(LOOK_SECONDS, LOOK_SHARE * (time.monotonic() - began)))


async def _report(notify: INotify, watches: "Watches", changed: Changed, log: Log, left: set[str]) -> None:
    """Report what happens. What could not be taken over is `left`, and reported again after a while."""
    told = False
    pause = AGAIN_SECONDS
    while not watches.gone:
        with trio.move_on_after(pause if left else math.inf):
            await trio.lowlevel.wait_readable(notify.fd)
        scope = left | await _until_quiet(notify, watches)
        if watches.overflowed:
            watches.overflowed = False
            if not told:
                told = True
                log("warn", "contentwatch: the kernel has dropped events, looking at everything; said once")
            await trio.to_thread.run_sync(watches.add, "/")
            scope = {"/"}
        if scope:
            known = await changed(scope)
            left = set() if known else scope
            pause = AGAIN_SECONDS if known else min(2 * pause, AGAIN_SECONDS_MAX)


async def _until_quiet(notify: INotify, watches: "Watches") -> set[str]:
    """What the events that are there and those that follow closely are about."""
    scope: set[str] = set()
    latest = trio.current_time() + LONGEST_SECONDS
    while True:
        scope |= watches.take(notify.read(timeout=0))
        if watches.fresh:
            scope |= await trio.to_thread.run_sync(watches.add, *watches.fresh)
            watches.fresh.clear()
        quiet = trio.current_time() + QUIET_SECONDS
        with trio.move_on_at(min(quiet, latest)):
            await trio.lowlevel.wait_readable(notify.fd)
            if trio.current_time() < latest:
                continue
        return scope


class Watches:
    """The watched directories of a root, by the numbers that events carry; each named with a slash at the end."""

    def __init__(self, notify: INotify, root: str) -> None:
        self._notify = notify
        self._root = os.fsencode(root)
        self._paths: dict[int, str] = {}
        self.fresh: list[str] = []
        """Directories that have appeared and are not watched yet."""
        self.gone = False
        """Whether the root itself was removed, renamed or unmounted."""
        self.overflowed = False
        """Whether events were lost; to be reset by whoever has seen to it."""

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, *tops: str) -> set[str]:
        """Watch these directories and all below them that can hold anything of a world; the documents met there.

        What cannot be watched because it has gone or may not be read is passed over. Raises `OSError` for the root
        itself, and if there are too few watches.
        """
        met: set[str] = set()
        waiting = list(tops)
        while waiting:
            directory = waiting.pop()
            path = self._root + _raw(directory)
            try:
                self._paths[self._notify.add_watch(path, _MASK)] = directory
                parts = directory.split("/")
                if parts[-3:-2] == [_VERSIONS]:  # the version directory of one document
                    met.add("/".join([*parts[:-3], parts[-2]]))
                    continue
                with os.scandir(path) as entries:
                    waiting += [
                        f"{directory}{entry.name.decode('utf-8', 'surrogateescape')}/"
                        for entry in entries
                        if entry.is_dir(follow_symlinks=False)
                    ]
            except OSError as error:
                if directory == "/" or error.errno in {errno.ENOSPC, errno.EMFILE, errno.ENOMEM}:
                    raise
        return met

    def take(self, events: Iterable[Event]) -> set[str]:
        """The documents and directories that events are about."""
        scope: set[str] = set()
        for event in events:
            if event.mask & flags.Q_OVERFLOW:
                self.overflowed = True
                continue
            directory = self._paths.get(event.wd)
            if directory is None:
                continue
            if event.mask & _LOST:
                self.gone = self.gone or directory == "/"
                if event.mask & flags.IGNORED:
                    del self._paths[event.wd]
            elif event.name:
                name = _text(event.name)
                is_directory = bool(event.mask & flags.ISDIR)
                if is_directory and event.mask & flags.MOVED_FROM:
                    self._forget(f"{directory}{name}/")
                if is_directory and event.mask & _COMES:
                    self.fresh.append(f"{directory}{name}/")
                    if name == _VERSIONS:
                        continue  # what is in there is met when it is added
                scope.add(subject_of(directory, name, is_directory))
        return scope

    def _forget(self, top: str) -> None:
        for number in [number for number, path in self._paths.items() if path.startswith(top)]:
            del self._paths[number]
            try:
                self._notify.rm_watch(number)
            except OSError:
                pass


def subject_of(directory: str, name: str, is_directory: bool) -> str:
    """What an event about an entry of a watched directory is about: a document, or all below a directory."""
    parent, _, folder = directory[:-1].rpartition("/")
    if folder == _VERSIONS:
        return f"{parent}/{name}"
    above, _, stored = parent.rpartition("/")
    if stored == _VERSIONS:
        return f"{above}/{folder}"
    if name == _VERSIONS:
        return directory
    return f"{directory}{name}/" if is_directory else f"{directory}{name}"


def _raw(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _text(name: str) -> str:
    """A name as the world's paths have it."""
    return os.fsencode(name).decode("utf-8", "surrogateescape")
