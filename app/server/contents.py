"""Keeps the world that is served equal to the folder it comes from, while requests are answered (store §8, §13).

A reload runs in a thread beside everything else, and takes effect in one step between two requests; how it finds what
has changed is `world.refresh`'s affair. Three things are seen to here: that only one runs at a time, that our own
writes and a reload do not overtake one another, and that the content root may be a link: where it leads now is looked
up again by every full reload, and another folder is loaded beside the old one before it replaces it.
"""

import gc
import time
from collections.abc import Callable, Collection
from typing import TypeVar

import msgspec
import trio

from app.markdown.cmark import hand_back
from app.protocol.text import Log
from app.server import contentwatch
from app.server.dispatch import Dispatcher
from app.world.errors import WorldError
from app.world.refresh import WHOLE, Changes
from app.world.world import World

_T = TypeVar("_T")

AGAIN_SECONDS = 2.0
"""After how long a content root that could not be watched is tried again."""


class Reloaded(msgspec.Struct, frozen=True):
    """How a reload of the content ended: what was found, or why the old content stays in force.

    `cause` is who asked for it, `at` the wall clock at its end, `seconds` what it took.
    """

    changes: Changes
    cause: str
    at: float
    seconds: float
    error: str = ""

    @property
    def text(self) -> str:
        """One line for a person."""
        if self.error:
            return self.error
        counts = [f"{count} {name}" for name, count in self.counts.items() if count]
        return f"{', '.join(counts) or 'nothing new'} in {self.seconds * 1000:.0f} ms ({self.cause})"

    @property
    def counts(self) -> dict[str, int]:
        """Documents, by what has happened to them."""
        names = ("added", "replaced", "archived", "unarchived", "gone")
        return {name: getattr(self.changes, name) for name in names}


class Contents:
    """The content at `root` as a dispatcher serves it; `recorded` is called after every reload that is worth telling."""

    def __init__(
        self, root: str, dispatcher: Dispatcher, recorded: Callable[[Reloaded], None], log: Log
    ) -> None:
        self._root = root
        self._dispatcher = dispatcher
        self._log = log
        self._one = trio.Lock()
        self._thread = trio.CapacityLimiter(1)
        self._watching = trio.CancelScope()
        self._recorded = recorded
        self._told = ""
        self.last: Reloaded | None = None
        """How the last reload worth telling ended."""

    @property
    def world(self) -> World:
        return self._dispatcher.world

    async def reload(self, cause: str) -> Reloaded:
        """Take over whatever has changed anywhere, and say so in the log whatever comes of it."""
        self._told = ""
        return await self._carry_out(WHOLE, cause)

    async def look_at(self, scope: Collection[str], cause: str = "watch") -> Reloaded:
        """Take over what has changed in some documents and directories (see `Refresh`); logged if there is anything."""
        return await self._carry_out(scope, cause)

    async def _looked_at(self, scope: Collection[str]) -> bool:
        return not (await self.look_at(scope)).error

    async def follow(self) -> None:
        """Takes over changes as they happen, until cancelled."""
        while True:
            with trio.CancelScope() as self._watching:
                await contentwatch.watch(self.world.figures.root, self._looked_at, self._log)
            if not self._watching.cancelled_caught:  # the folder itself has gone
                await trio.sleep(AGAIN_SECONDS)
                await self.look_at(WHOLE)

    async def _carry_out(self, scope: Collection[str], cause: str) -> Reloaded:
        async with self._one:
            began = time.monotonic()
            changes, error = Changes(), ""
            try:
                changes = await self._refreshed(scope)
            except WorldError as failure:
                error = str(failure)
            except Exception as failure:  # a fault of ours costs this reload, not the server
                error = f"unexpected error, {type(failure).__name__}: {failure}"
            reloaded = Reloaded(changes, cause, time.time(), time.monotonic() - began, error)
        self._tell(reloaded)
        return reloaded

    async def _refreshed(self, scope: Collection[str]) -> Changes:
        if "/" in scope and not await self._in_thread(self.world.is_at, self._root):
            return await self._replaced()
        dispatcher = self._dispatcher
        with self.world.refresh(scope) as refresh:
            await self._in_thread(refresh.survey)
            async with dispatcher.writer.held():
                await self._in_thread(refresh.catch_up)
                async with dispatcher.index:
                    changes = refresh.apply()
                dispatcher.grown()
        built = refresh.built
        del refresh  # and the old content with it
        if built:
            self._settle()
        return changes

    async def _replaced(self) -> Changes:
        """The root leads somewhere else now."""
        dispatcher = self._dispatcher
        world, changes = await self._in_thread(self.world.successor, self._root)
        async with dispatcher.writer.held(), dispatcher.index:
            dispatcher.use_world(world)
        self._log("info", "content root switched", root=self._root, target=world.figures.root)
        self._watching.cancel()
        self._settle()
        return changes

    @staticmethod
    def _settle() -> None:
        """What was just read lives long: the collector need not look at it again and again."""
        gc.collect()
        gc.freeze()
        hand_back()

    async def _in_thread(self, step: Callable[..., _T], *args: object) -> _T:
        return await trio.to_thread.run_sync(step, *args, limiter=self._thread, abandon_on_cancel=True)

    def _tell(self, reloaded: Reloaded) -> None:
        if reloaded.cause == "watch" and not reloaded.error and not reloaded.changes.documents:
            self._told = ""
            return
        self.last = reloaded
        self._recorded(reloaded)
        if not reloaded.error:
            self._told = ""
            self._log(
                "info",
                "content reloaded",
                cause=reloaded.cause,
                **reloaded.counts,
                ms=round(reloaded.seconds * 1000),
                read_bytes=reloaded.changes.read,
            )
        elif reloaded.error != self._told:
            self._told = reloaded.error
            self._log(
                "error",
                "content reload failed, the old content stays in force",
                cause=reloaded.cause,
                root=self._root,
                error=reloaded.error,
            )
