"""What a server and the processes it makes for heavy work take of memory, together."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["Peak", "anonymous", "children", "peak_of"]

EVERY = 0.01  # seconds between two looks


def anonymous(pid: int) -> int:
    """Bytes of memory that is no file's, of a process and its children; pages that several share are counted once."""
    return sum(map(_share, (pid, *children(pid))))


def children(pid: int) -> list[int]:
    """The children of a process, whichever of its threads made them."""
    found = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _share(pid: int) -> int:
    """A process's proportional share of anonymous and shared memory; nothing if it has just ended."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(
            int(line.split()[1]) * 1024 for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:"))
        )
    return 0


def _held(pid: int) -> int:
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return sum(
            int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:"))
        )
    return 0


class Peak:
    """The most that was seen: of the process alone, and of it and its children."""

    def __init__(self) -> None:
        self.alone = 0
        self.together = 0


@contextmanager
def peak_of(pid: int) -> Iterator[Peak]:
    """Watch a process and its children for as long as the context lasts."""
    peak, over = Peak(), threading.Event()

    def watch() -> None:
        while not over.is_set():
            peak.alone = max(peak.alone, _held(pid))
            peak.together = max(peak.together, anonymous(pid))
            time.sleep(EVERY)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()
