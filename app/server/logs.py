"""The log: one line for each event on stderr, as text or JSON (operations §5).

A call formats its line and puts it into memory; a thread writes what has gathered a few times a second. So a request never waits for the
journal, a full pipe or a slow card, and a reader that went away cannot stop the server: what cannot be written is dropped, and counted where it
can still be told. Python's `logging` stays out: it costs several times as much per line and takes a lock around the write.

Text values are quoted in Go's manner, which also keeps every event on its own line whatever bytes it carries.
"""

import os
import re
import select
import threading
import time

import msgspec

from app.protocol.text import log_value

LEVELS = {"debug": 10, "info": 20, "warn": 30, "error": 40}

GATHER_SECONDS = (
    0.05  # lines that come within this time share one write; too short to be missed by a reader of the log
)
QUEUE_BYTES = 1 << 20  # some 8,000 lines wait while nobody reads stderr; what is more is dropped
STUCK_SECONDS = 1.0  # a write that makes no progress for this long is given up

_PLAIN = re.compile(r"[!#-<>-~]+").fullmatch  # printable ASCII but blank, quote and equals sign


class LogWriter:
    """Writes events to a file descriptor. Safe to call from any thread; never blocks and never raises.

    `form` is "json", everything else is text; `level` is the least level that is written, an unknown one means info.
    """

    def __init__(self, *, level: str = "info", form: str = "text", descriptor: int = 2) -> None:
        self._least = LEVELS.get(level, LEVELS["info"])
        self._format = _Json() if form == "json" else _Text()
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._lines: list[bytes] = []
        self._bytes = 0
        self._dropped = 0
        self._closing = False
        self._work = threading.Event()
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    def __call__(self, level: str, message: str, /, **fields: object) -> None:
        """Writes one event: level (debug, info, warn, error), a constant message, and its fields in order."""
        if LEVELS[level] < self._least:
            return
        line = self._format(time.time_ns(), level.upper(), message, fields)
        with self._lock:
            if self._bytes >= QUEUE_BYTES:
                self._dropped += 1
                return
            self._lines.append(line)
            self._bytes += len(line)
            first = len(self._lines) == 1
        if first:
            self._work.set()

    def plain(self, text: str) -> None:
        """Writes a sentence for the operator's eyes: as it is in text form, as an error event in JSON form."""
        if isinstance(self._format, _Json):
            self("error", text)
            return
        with self._lock:
            self._lines.append(text.encode("utf-8", "backslashreplace") + b"\n")
        self._work.set()

    def close(self) -> None:
        """Writes what is waiting and ends the thread; gives up on a reader that takes nothing."""
        self._closing = True
        self._hurry.set()
        self._work.set()
        self._thread.join(3 * STUCK_SECONDS)

    def _write_all(self) -> None:
        while True:
            self._work.wait()
            self._hurry.wait(GATHER_SECONDS)
            self._work.clear()
            closing = self._closing
            with self._lock:
                lines, self._lines, self._bytes = self._lines, [], 0
                dropped, self._dropped = self._dropped, 0
            if dropped:
                lines.append(self._format(time.time_ns(), "WARN", "log lines dropped", {"count": dropped}))
            self._write(b"".join(lines))
            if closing:
                return

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                if not select.select((), (self._descriptor,), (), STUCK_SECONDS)[1]:
                    if self._closing:
                        return
                    continue
                # A pipe that is ready takes at least this much without blocking (PIPE_BUF).
                rest = rest[os.write(self._descriptor, rest[:4096]) :]
            except BlockingIOError:
                continue
            except (OSError, ValueError):
                return


class _Text:
    """`time=… level=… msg=… key=value …`, local time with milliseconds."""

    def __init__(self) -> None:
        self._stamp = _Stamp()

    def __call__(self, now: int, level: str, message: str, fields: dict[str, object]) -> bytes:
        second, zone = self._stamp.at(now // 1_000_000_000)
        parts = [f"time={second}.{now // 1_000_000 % 1000:03d}{zone} level={level} msg={_quoted(message)}"]
        parts += [f"{key}={_value(value)}" for key, value in fields.items()]
        return (" ".join(parts) + "\n").encode("utf-8", "backslashreplace")


class _Json:
    """One object per line, time with nanoseconds."""

    def __init__(self) -> None:
        self._stamp = _Stamp()
        self._encode = msgspec.json.Encoder(enc_hook=str).encode

    def __call__(self, now: int, level: str, message: str, fields: dict[str, object]) -> bytes:
        second, zone = self._stamp.at(now // 1_000_000_000)
        fraction = f".{now % 1_000_000_000:09d}".rstrip("0").rstrip(".")
        event: dict[str, object] = {"time": f"{second}{fraction}{zone}", "level": level, "msg": message}
        event.update(fields)
        try:
            return self._encode(event) + b"\n"
        except UnicodeEncodeError:  # a path that is not UTF-8
            return self._encode({key: _readable(value) for key, value in event.items()}) + b"\n"


class _Stamp:
    """Date, time to the second, and zone; remembered for as long as the second lasts."""

    def __init__(self) -> None:
        self._known = (-1, "", "")

    def at(self, second: int) -> tuple[str, str]:
        known, text, zone = self._known
        if known != second:
            local = time.localtime(second)
            text = time.strftime("%Y-%m-%dT%H:%M:%S", local)
            minutes = local.tm_gmtoff // 60
            zone = (
                "Z"
                if minutes == 0
                else f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
            )
            self._known = (second, text, zone)
        return text, zone


def _quoted(text: str) -> str:
    return text if _PLAIN(text) else log_value(text)


def _value(value: object) -> str:
    if type(value) is str:
        return _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format(value, "g")
    return _quoted(str(value))


def _readable(value: object) -> object:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def guard_descriptors() -> None:
    """Opens /dev/null where stdin, stdout or stderr is closed, so that no later file gets their numbers and, with it, the log."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
