"""Tells when the token file may have changed, by kernel notification on its directory (operations §4).

The directory is watched, not the file: an atomic rename, a swapped symlink and a file that comes back are then all seen. Every event on the
file itself counts, and so does any entry created, renamed or removed beside it (a symlink may lead through it); writes and chmods of
siblings do not, else a log file in the same directory would cause reloads for ever.

This module knows no tokens: it calls `changed` after things have been quiet for a moment, and what to do then is the caller's affair.
"""

import os
from collections.abc import Callable, Iterable

import trio
from inotify_simple import Event, INotify, flags

from app.protocol.text import Log

QUIET_SECONDS = 0.150
"""How long nothing relevant must have happened before a change is reported."""
MISSING_SECONDS = 0.075
"""A file that is missing at that moment gets this much longer: somebody is between unlink and rename."""
LONGEST_SECONDS = 2.0
"""A directory that is never quiet must not put off a revocation for ever."""

_ENTRIES = flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO
_CONTENT = flags.MODIFY | flags.CLOSE_WRITE | flags.ATTRIB
_LOST = flags.DELETE_SELF | flags.MOVE_SELF | flags.IGNORED | flags.UNMOUNT
_MASK = _ENTRIES | _CONTENT | flags.DELETE_SELF | flags.MOVE_SELF | flags.ONLYDIR


async def watch(path: str, changed: Callable[[], None], log: Log) -> None:
    """Calls `changed` whenever the file at `path` may have changed; runs until cancelled.

    Returns, after a warning, if the directory cannot be watched (any more): reloading then takes a signal.
    """
    directory, name = os.path.split(os.path.abspath(path))  # noqa: ASYNC240  two calls that touch at most an inode
    try:
        with INotify(nonblocking=True) as notify:
            watched = notify.add_watch(directory, _MASK)
            log(
                "info",
                "configwatch: watching",
                target=path,
                dir=directory,
                debounce=f"{QUIET_SECONDS * 1000:.0f}ms",
            )
            changed()  # whatever happened before the watch stood
            while True:
                await trio.lowlevel.wait_readable(notify.fd)
                events = notify.read(timeout=0)
                if not relevant(events, name):
                    continue
                events += await _until_quiet(notify, name)
                if not os.path.exists(path):  # noqa: ASYNC240
                    await trio.sleep(MISSING_SECONDS)
                if any(event.wd == watched and event.mask & _LOST for event in events):
                    # The directory itself was replaced: watch the one that stands at its path now.
                    watched = notify.add_watch(directory, _MASK)
                changed()
    except OSError as error:
        log(
            "warn", "configwatch: cannot watch, send SIGHUP after a change", target=path, error=error.strerror
        )


def relevant(events: Iterable[Event], name: str) -> bool:
    """Whether one of these events in a directory may mean that its entry `name` reads differently now."""
    # After an overflow events are missing, so anything may have happened.
    return any(event.name == name or event.mask & (_ENTRIES | _LOST | flags.Q_OVERFLOW) for event in events)


async def _until_quiet(notify: INotify, name: str) -> list[Event]:
    seen: list[Event] = []
    latest = trio.current_time() + LONGEST_SECONDS
    quiet = trio.current_time() + QUIET_SECONDS
    while True:
        with trio.move_on_at(min(quiet, latest)):
            await trio.lowlevel.wait_readable(notify.fd)
            events = notify.read(timeout=0)
            if relevant(events, name):
                quiet = trio.current_time() + QUIET_SECONDS
            seen += events
            continue
        return seen
