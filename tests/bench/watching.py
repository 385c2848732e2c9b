"""How long small requests wait while something is done to a server: a client in a process of its own, so that it waits for nobody else."""

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import trio

from app.client.client import Client

__all__ = ["Watch", "watching"]


class Watch:
    """The other end of the process that sends FETCH after FETCH."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def begin(self) -> None:
        """Forget what was before."""
        self._pipe.send(None)
        self._pipe.recv()

    def end(self) -> float:
        """The longest FETCH since `begin`, in seconds; waits for the running one."""
        self._pipe.send(None)
        longest: float = self._pipe.recv()
        return longest


@contextmanager
def watching(port: int, path: str) -> Iterator[Watch]:
    """Send FETCH after FETCH of a path, for as long as the context lasts."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_watch, args=(port, path, theirs))
    process.start()
    theirs.close()
    try:
        yield Watch(ours)
    finally:
        process.terminate()
        process.join()


def _watch(port: int, path: str, pipe: Connection) -> None:
    trio.run(_fetch, port, path, pipe)


async def _fetch(port: int, path: str, pipe: Connection) -> None:
    longest = 0.0
    async with Client("127.0.0.1", port, insecure=True) as client:
        while True:
            began = time.perf_counter()
            answer = await client.fetch(path)
            longest = max(longest, time.perf_counter() - began)
            assert answer.status == "ok"
            if pipe.poll():
                pipe.recv()
                pipe.send(longest)
                longest = 0.0
