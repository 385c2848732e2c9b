"""Work that is done again whenever somebody asks: one run at a time, and whatever is asked during one is one run more.

So fifty signals make two runs and not fifty, the last of them begins after the last signal, and who waits for an
outcome gets that of a run which began after the question.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import trio

_T = TypeVar("_T")


class Round(Generic[_T]):
    """One run to come; `outcome` waits for what it gave."""

    def __init__(self) -> None:
        self._done = trio.Event()
        self._outcome: _T

    def end(self, outcome: _T) -> None:
        self._outcome = outcome
        self._done.set()

    async def outcome(self) -> _T:
        await self._done.wait()
        return self._outcome


class Rounds(Generic[_T]):
    """Does `work` on request, with at least `pause` seconds between two runs."""

    def __init__(self, work: Callable[[], Awaitable[_T]], pause: float) -> None:
        self._work = work
        self._pause = pause
        self._next: Round[_T] | None = None
        self._asked = trio.Event()

    def ask(self) -> Round[_T]:
        """The run that is to begin next."""
        if self._next is None:
            self._next = Round()
            self._asked.set()
        return self._next

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            await self._asked.wait()
            self._asked = trio.Event()
            now, self._next = self._next, None
            assert now is not None
            now.end(await self._work())
            await trio.sleep(self._pause)
