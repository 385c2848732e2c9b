"""Where a command's words go: the answer to stdout, everything else to stderr.

Bytes from a server or a file are never handed raw to a terminal: control characters could move its cursor, rewrite lines or change its
title. A pipe or a file gets every byte as it came. The only decoration is bold text on a terminal, and none where `NO_COLOR` is set
or the terminal is a dumb one.
"""

import os
import re
import sys
import time

# C0 but line feed and tab, DEL, C1, and what turns the direction of writing.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_BAR_WIDTH = 30
_REDRAW = 0.1  # seconds


def harmless(text: str) -> str:
    """The text without what a terminal would obey instead of showing; bytes that were not UTF-8 as U+FFFD."""
    return _UNSAFE.sub("", text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def answer(data: bytes) -> None:
    """Writes an answer to stdout: harmless on a terminal, byte for byte anywhere else."""
    sys.stdout.flush()
    if sys.stdout.isatty():
        text = harmless(data.decode("utf-8", "surrogateescape"))
        sys.stdout.write(text if text.endswith("\n") or not text else text + "\n")
    else:
        sys.stdout.buffer.write(data)
    sys.stdout.flush()


def line(text: str) -> None:
    """Writes one line of an answer to stdout."""
    answer(text.encode("utf-8", "surrogateescape") + b"\n")


def note(text: str) -> None:
    """Writes a line for the person at the keyboard to stderr. Never fails: stderr may be closed."""
    try:
        print(harmless(text), file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        pass


def entry(name: str, rest: str) -> None:
    """Writes a line of an answer that begins with the name of something, which a terminal shows in bold."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        line(name + rest)
        return
    sys.stdout.write(f"\x1b[1m{harmless(name)}\x1b[0m{harmless(rest)}\n")


class Progress:
    """A bar on stderr, if that is a terminal. To be called with how many are done and how many there are."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._visible = sys.stderr is not None and sys.stderr.isatty()
        self._drawn = -_REDRAW
        self._open = False

    def __call__(self, done: int, total: int) -> None:
        """Draws at most ten times a second, and the end in any case."""
        now = time.monotonic()
        if not self._visible or (now - self._drawn < _REDRAW and done < total):
            return
        self._drawn = now
        filled = _BAR_WIDTH * done // total if total else _BAR_WIDTH
        end = "\n" if done >= total else ""
        sys.stderr.write(f"\r{self._label} [{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {done}/{total}{end}")
        sys.stderr.flush()
        self._open = not end

    def leave(self) -> None:
        """Ends the line of a bar that will not get to its end."""
        if self._open:
            sys.stderr.write("\n")
