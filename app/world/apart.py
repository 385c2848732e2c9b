"""Heavy work in a process of its own, beside which this one goes on answering.

An index over a whole world takes seconds of Python and millions of small objects. Done here, the first would hold up
every request, since threads share one interpreter, and the second would leave memory in pieces that never goes back to
the system. So the work is done by a copy of the process (fork), which sees everything that is here without being
told, and on another core; only its results come back, bytes in pages of their own. It ends with the process it is of.

The copy has one thread, the one that made it, whatever locks the others held: the work must not log and must not wait
for anybody. It keeps no descriptor but those it is given, above all no socket, so that it never stands in the way of the
server's successor; and it is the one to go when memory runs out.
"""

import gc
import os
import resource
import select
import signal
import struct
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from app.markdown.cmark import only_thread
from app.search.pages import pages
from app.world.errors import WorldError

__all__ = ["ApartFailed", "Parcel", "apart"]

Parcel = tuple[int, Iterable[bytes | memoryview]]
"""A result on its way: how many bytes, and the pieces they are in."""

_SIZE = struct.Struct("=q")
_END = -1
LOOK_SECONDS = 1.0
HANGS_SECONDS = 1_800
"""A slow board takes a minute for ten megabytes; a world of any size that fits one is done by then."""
NICE = 10
"""The work waits for requests, on boards whose cores are few."""
FIRST_TO_GO = "900"
"""Of 1,000: what the kernel ends first when memory runs out."""


class ApartFailed(WorldError):
    """The work could not be done in a process of its own."""


def apart(work: Callable[[], Iterable[Parcel]], descriptors: Collection[int]) -> list[memoryview]:
    """The results of a work that is done in a copy of this process, which keeps these descriptors open.

    Takes a thread as long as it lasts; others go on. Raises `ApartFailed`.
    """
    parent = os.getpid()
    reading, writing = os.pipe()
    try:
        with warnings.catch_warnings():
            # Newer Pythons warn of forks beside threads, since locks may be held: see above.
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        raise ApartFailed(f"no process for the index: {error.strerror}") from error
    if process == 0:
        _be_the_copy(parent, work, writing, {*descriptors, writing})
    os.close(writing)
    results: list[memoryview] | None = None
    why = ""
    try:
        results = _received(reading)
    except (OSError, MemoryError) as error:
        why = f": {error}"
    finally:
        os.close(reading)
        if results is None:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        status = _status_of(process)
    if results is None:
        raise ApartFailed(f"the process that made the index ended early, status {status}{why}")
    return results


def _status_of(process: int) -> int:
    """How a process that has ended, or is about to, has done so; -1 if whoever started us has it told to nobody."""
    try:
        return os.waitpid(process, 0)[1]
    except ChildProcessError:
        return -1


def _received(reading: int) -> list[memoryview] | None:
    """All results, None if the last is missing."""
    results: list[memoryview] = []
    while True:
        head = bytearray(_SIZE.size)
        if not _read_into(reading, memoryview(head)):
            return None
        (size,) = _SIZE.unpack(head)
        if size == _END:
            return results
        result = pages(size)
        if not _read_into(reading, result):
            return None
        results.append(result)


def _read_into(reading: int, space: memoryview) -> bool:
    """Fill the space; whether there was enough. Raises `TimeoutError` for a copy that hangs."""
    at = 0
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    while at < len(space):
        if not poll.poll(HANGS_SECONDS * 1_000):
            raise TimeoutError(f"nothing came for {HANGS_SECONDS} s")
        count = os.readv(reading, [space[at:]])
        if not count:
            return False
        at += count
    return True


def _be_the_copy(
    parent: int, work: Callable[[], Iterable[Parcel]], writing: int, descriptors: Collection[int]
) -> None:
    """What the copy does; it never returns."""
    status = 1
    try:
        _let_go(descriptors)
        _end_with(parent)
        only_thread()
        gc.freeze()  # looking at what came with the copy would make copies of its pages
        for size, pieces in work():
            _write(writing, _SIZE.pack(size))
            for piece in pieces:
                _write(writing, piece)
        _write(writing, _SIZE.pack(_END))
        status = 0
    except BrokenPipeError:
        pass  # the server is gone, or has lost interest
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(status)


def _let_go(descriptors: Collection[int]) -> None:
    """Leave behind what belongs to the server alone."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    begin = 3
    for kept in sorted(descriptors):
        os.closerange(begin, kept)
        begin = kept + 1
    os.closerange(begin, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    # Both are wishes: a unit's system call filter may refuse the first, and there need not be a /proc.
    with suppress(OSError):
        os.nice(NICE)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(FIRST_TO_GO)


def _end_with(parent: int) -> None:
    """Look every second whether the parent is still there."""

    def look(*_: object) -> None:
        if os.getppid() != parent:
            os._exit(1)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)


def _write(writing: int, piece: bytes | memoryview) -> None:
    view = memoryview(piece)
    while view:
        view = view[os.write(writing, view) :]
