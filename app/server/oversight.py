"""The running server as others see it: reloads on request, status for people, signs of life for systemd.

Signals and the control socket ask here. Every full reload is a round (see `rounds`), announced to the service manager
at its begin and end. A sign of life is given only after a round trip through the world, disk and index, has come back.
"""

import os
import time

import trio

from app import __version__
from app.protocol.paths import canonical
from app.protocol.times import rfc3339
from app.search.query import parse_query
from app.server.certificate import Certificate
from app.server.contents import Contents, Reloaded
from app.server.control import ReloadAnswer, Status
from app.server.endpoint import Endpoint
from app.server.reload import Outcome, Reloader
from app.server.rounds import Rounds
from app.server.runtime import Ask
from app.server.settings import Settings
from app.server.systemd import EXTEND_SECONDS, Notifier
from app.world.errors import WorldError
from app.world.world import World

RELOAD_SECONDS = 0.1
"""At most one full reload in this time: signals that come faster share one, and the last one is never lost."""
DAY = 86400.0
CLOCK_LEAST = 1_704_067_200.0
"""The start of 2024: a clock that shows an earlier time was never set."""

_EVERYTHING = parse_query("/", {"query": "*", "limit": "1"})


class Oversight:
    """Knows how the server is. `contents`, `reloader` and `address` are to be given before anybody asks."""

    def __init__(
        self, settings: Settings, endpoint: Endpoint, notifier: Notifier, certificate: Certificate
    ) -> None:
        self._settings = settings
        self._endpoint = endpoint
        self._notifier = notifier
        self._began = time.monotonic()
        self._cause = "SIGHUP"
        self.address = ""
        self.certificate = certificate
        self.contents: Contents
        self.reloader: Reloader
        self.rounds: Rounds[Outcome] = Rounds(self._reload, RELOAD_SECONDS)

    def use_certificate(self, certificate: Certificate) -> None:
        """New handshakes show this certificate."""
        self.certificate = certificate
        self._endpoint.use_certificate(certificate)

    def recorded(self, reloaded: Reloaded) -> None:
        """A reload has ended."""
        self._notifier.status(self.line)

    @property
    def line(self) -> str:
        """The server in one line, for `systemctl status`."""
        figures = self.contents.world.figures
        last = self.contents.last
        reloaded = f"; last reload {rfc3339(int(last.at))}: {last.text}" if last is not None else ""
        return (
            f"{figures.documents} documents, {figures.sections} sections, "
            f"{figures.index_bytes} index bytes{reloaded}"
        )

    def status(self) -> Status:
        """Everything that `status` prints."""
        figures = self.contents.world.figures
        last = self.contents.last
        clock = clock_fault(time.time(), figures.newest)
        return Status(
            version=__version__,
            pid=os.getpid(),
            uptime=int(time.monotonic() - self._began),
            address=self.address,
            root=_shown(os.path.abspath(self._settings.root)),
            folder=_shown(figures.root),
            tokens=_shown(os.path.abspath(self._settings.tokens)) if self._settings.tokens else None,
            read_only=self._settings.read_only,
            documents=figures.documents,
            sections=figures.sections,
            index_bytes=figures.index_bytes,
            body_bytes=figures.body_bytes,
            connections=self._endpoint.stats.connections,
            watching=self._settings.watch == "auto",
            reloaded=rfc3339(int(last.at)) if last is not None else None,
            reload_ok=not last.error if last is not None else None,
            reload_text=last.text if last is not None else None,
            fingerprint=self.certificate.fingerprint,
            certificate_expires=rfc3339(int(self.certificate.chain[0].not_valid_after_utc.timestamp())),
            clock_ok=not clock,
            clock=clock or "plausible",
        )

    async def answer_reload(self, ask: Ask) -> ReloadAnswer:
        """Reloads everything, or looks at the one document asked about if that is in the root that is served."""
        if ask.path and ask.root == self.contents.world.figures.root:
            content = await self.contents.look_at((canonical(ask.path),), "request")
            failed = {"content": content.error} if content.error else {}
        else:
            self._cause = "request"
            outcome = await self.rounds.ask().outcome()
            content = outcome.content
            failed = {part: error for part, error in outcome.parts.items() if error}
        return ReloadAnswer(
            ok=not failed,
            failed=failed,
            **content.counts,
            read_bytes=content.changes.read,
            milliseconds=round(content.seconds * 1000),
            version=await self._version(ask.path) if ask.path else None,
        )

    async def _version(self, path: str) -> int | None:
        try:
            return await trio.to_thread.run_sync(self.contents.world.followed, canonical(path))
        except WorldError:
            return None

    async def _reload(self) -> Outcome:
        cause, self._cause = self._cause, "SIGHUP"
        self._notifier.reloading(time.monotonic())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_extending, self._notifier)
            outcome = await self.reloader.reload(cause)
            nursery.cancel_scope.cancel()
        self._notifier.ready(self.line)
        return outcome

    async def give_signs_of_life(self, index: trio.Lock) -> None:
        """Tells the watchdog, if there is one, that the world still answers; until cancelled."""
        if not self._notifier.watchdog:
            return
        while True:
            async with index:
                await trio.to_thread.run_sync(_pulse, self.contents.world)
            self._notifier.alive()
            await trio.sleep(self._notifier.watchdog / 3)


def _pulse(world: World) -> None:
    """A round trip: the disk, then the index."""
    world.is_directory("/")
    world.catalog.lookup(_EVERYTHING, lambda _: True)


async def keep_extending(notifier: Notifier) -> None:
    """Asks for more time, again and again until cancelled, while something long is under way and the loop is alive."""
    while True:
        notifier.extend()
        await trio.sleep(EXTEND_SECONDS / 3)


def clock_fault(now: float, newest: int) -> str:
    """What is wrong with the wall clock, as far as can be told: never set, or far behind the newest document."""
    if now < CLOCK_LEAST:
        return f"not set: it shows {rfc3339(int(now))}"
    if now + DAY < newest:
        return f"behind: it shows {rfc3339(int(now))}, the newest document is of {rfc3339(newest)}"
    return ""


def _shown(path: str) -> str:
    """A path as JSON can hold it."""
    return os.fsencode(path).decode("utf-8", "replace")
