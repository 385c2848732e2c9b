"""The server as a process: start in order, run, heed signals, stop (operations §2, §3).

Signals are received from the first moment on, before there is a world to serve: a reload that is asked for during start is done right after it,
and a stop during start stops. SIGTERM and SIGINT let running requests finish for a bounded time; a second one cuts that short.

Whatever keeps the server from starting is one plain line that names the thing and the cure, and exit code 1. Nurseries wrap errors in groups;
they are unwrapped here and nowhere else.
"""

import errno
import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import AsyncIterator, Iterator
from types import FrameType

import msgspec
import trio

from app import __version__
from app.protocol.text import Log
from app.server import control, inherited, runtime
from app.server.admission import Limits
from app.server.certificate import BadCertificate, Certificate
from app.server.contents import Contents
from app.server.datagrams import Datagrams, adopt, bind
from app.server.dispatch import Dispatcher
from app.server.endpoint import Endpoint
from app.server.logs import LogWriter, guard_descriptors
from app.server.oversight import Oversight, keep_extending
from app.server.reload import Reloader, load_certificate, parse_tokens, read_tokens
from app.server.settings import BadSetting, Settings
from app.server.systemd import Notifier
from app.server.tokenwatch import watch
from app.server.values import duration_text
from app.world.errors import WorldError
from app.world.tokens import BadTokenFile, TokenTable
from app.world.world import World

PROGRAM = "demarkus-appliance"

TURN_SECONDS = 0.0005
"""How long a thread that indexes may keep the interpreter while a request wants it; Python's own 5 ms add up."""
GRACE_SECONDS = 9.0
"""How long running requests may take after a stop signal; the process is gone before 10 s (wire §1.17)."""
TWICE_SECONDS = 0.5
"""Within this time a second stop signal is the first one's echo; after it, it means now."""
LAST_SECONDS = 0.5
"""How long a write that holds the disk may still take after that."""
IDLE_SECONDS = 30.0
"""The QUIC library's idle timeout, which a setting of 0 asks for."""

_STOP = (signal.SIGTERM, signal.SIGINT)
_SIGNALS = (*_STOP, signal.SIGHUP)


class CannotStart(Exception):
    """The server cannot start; the text names the reason and the cure."""


def run(settings: Settings) -> int:
    """Serves until a signal ends it; gives the exit code: 0 after a signal, 1 if it could not start or go on."""
    early = _note_early_signals()
    guard_descriptors()
    log = LogWriter(level=settings.log_level, form=settings.log_format)
    notifier = Notifier(os.environ)
    try:
        trio.run(_serve, settings, log, early, notifier)
        return 0
    except BaseException as error:
        log.plain(f"{PROGRAM}: {reason(error)}")
        if settings.debug:
            log.plain("".join(traceback.format_exception(error)))
        return 1
    finally:
        notifier.close()
        log.close()


def reason(error: BaseException) -> str:
    """One line for an error that ended the server, whatever groups it is wrapped in."""
    leaves = list(_leaves(error))
    for leaf in leaves:
        if isinstance(leaf, CannotStart | BadSetting):
            return str(leaf)
    leaf = leaves[0]
    text = str(leaf).split("\n", 1)[0]
    return f"stopped by an unexpected error, {type(leaf).__name__}: {text}; --debug shows where"


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error


def _note_early_signals() -> set[int]:
    """Notes the signals that arrive while no event loop receives them: before it starts, and after it has ended."""
    early: set[int] = set()

    def note(number: int, frame: FrameType | None) -> None:
        early.add(number)

    for number in _SIGNALS:
        signal.signal(number, note)
    return early


class _Wishes:
    """What signals have asked for."""

    def __init__(self, log: Log) -> None:
        self.stop = trio.Event()
        self.stop_now = trio.Event()
        self.reload = trio.Event()
        self._log = log
        self._asked = 0.0

    def note(self, number: int) -> None:
        """Takes one signal."""
        if number == signal.SIGHUP:
            self.reload.set()
        elif self.stop.is_set():
            # The boot loader of the frozen program hands on a signal that its child got by itself: that is one wish.
            if time.monotonic() - self._asked >= TWICE_SECONDS:
                self.stop_now.set()
        else:
            self._asked = time.monotonic()
            self._log(
                "info", "received signal, initiating graceful shutdown", signal=signal.Signals(number).name
            )
            self.stop.set()

    async def listen(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            self.note(number)


class _Parts(msgspec.Struct, frozen=True):
    """What start-up has made ready, in the order it was made."""

    world: World
    certificate: Certificate
    token_file: bytes
    tokens: TokenTable | None
    sockets: list[Datagrams]


async def _serve(settings: Settings, log: Log, early: set[int], notifier: Notifier) -> None:
    wishes = _Wishes(log)
    with trio.open_signal_receiver(*_SIGNALS) as signals:
        for number in early:
            wishes.note(number)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wishes.listen, signals)
            with trio.CancelScope() as starting:
                nursery.start_soon(_cancel_on, wishes.stop, starting)
                notifier.status("loading")
                async with trio.open_nursery() as loading:
                    loading.start_soon(keep_extending, notifier)
                    parts = await _start(settings, log)
                    loading.cancel_scope.cancel()
            if not starting.cancelled_caught:
                await _run(settings, log, wishes, parts, notifier)
            notifier.stopping()
            nursery.cancel_scope.cancel()
    log("info", "server stopped")


async def _start(settings: Settings, log: Log) -> _Parts:
    """Everything up to the bound socket (operations §2). What takes long runs in a thread, so that signals are heeded."""
    for name in settings.unknown:
        log("warn", "unknown setting in the environment, ignored", variable=name)
    if not settings.root:
        raise CannotStart("no content directory: set DEMARKUS_ROOT or --root DIR")
    try:
        world = await trio.to_thread.run_sync(_open_world, settings, log, abandon_on_cancel=True)
        certificate = await trio.to_thread.run_sync(load_certificate, settings, log, abandon_on_cancel=True)
        token_file, tokens = _load_tokens(settings, log)
    except (WorldError, BadCertificate, BadTokenFile) as error:
        raise CannotStart(str(error)) from error
    return _Parts(world, certificate, token_file, tokens, _listen(settings, log))


def _open_world(settings: Settings, log: Log) -> World:
    if not os.path.isdir(settings.root):
        raise CannotStart(
            f"content root {settings.root} is no directory: DEMARKUS_ROOT or --root must name one that exists"
        )
    world = World.open(
        settings.root,
        log=log,
        read_only=settings.read_only,
        now=time.time,
        recall="reference" if settings.lookup_recall == "reference" else "wide",
    )
    # What was just read lives as long as the process: the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(TURN_SECONDS)
    log("info", "store ready", backend=settings.store)
    return world


def _load_tokens(settings: Settings, log: Log) -> tuple[bytes, TokenTable | None]:
    if not settings.tokens:
        log("info", "auth: no tokens file configured, writes disabled")
        return b"", None
    data = read_tokens(settings.tokens)
    tokens = parse_tokens(settings.tokens, data, log)
    log("info", "auth: loaded tokens", path=settings.tokens)
    return data, tokens


def _listen(settings: Settings, log: Log) -> list[Datagrams]:
    """The sockets that were inherited, or else one of the server's own."""
    try:
        sockets = [adopt(found, log=log) for found in inherited.take(os.environ)]
    except inherited.NotUsable as error:
        raise CannotStart(str(error)) from error
    if sockets:
        log("info", "listening on inherited sockets", addr=" ".join(one.address for one in sockets))
        return sockets
    return [_bind(settings, log)]


def _bind(settings: Settings, log: Log) -> Datagrams:
    address = f"{settings.listen or 'all addresses'}, UDP port {settings.port}"
    try:
        return bind(settings.port, settings.listen or None, log=log)
    except OSError as error:
        cures = {
            errno.EADDRINUSE: "another server has it; stop that one, or choose another with DEMARKUS_PORT or --port",
            errno.EACCES: "ports below 1024 need a privilege; choose another with DEMARKUS_PORT or --port",
            errno.EADDRNOTAVAIL: "the address is none of this machine's; see DEMARKUS_LISTEN",
            errno.EAFNOSUPPORT: "this service may open no network sockets; start demarkus-appliance.socket, which has one for it",
        }
        cure = cures.get(error.errno or 0, "see DEMARKUS_LISTEN and DEMARKUS_PORT")
        raise CannotStart(f"cannot listen on {address} ({error.strerror}): {cure}") from error


async def _run(settings: Settings, log: Log, wishes: _Wishes, parts: _Parts, notifier: Notifier) -> None:
    """Serves until a stop is wished for, then lets running requests finish."""
    dispatcher = Dispatcher(
        parts.world,
        tokens=parts.tokens,
        read_only=settings.read_only,
        now=time.time,
        timeout=settings.request_timeout,
        log=log,
    )
    endpoint = Endpoint(dispatcher.answer, parts.certificate, _limits(settings), log=log)
    oversight = Oversight(settings, endpoint, notifier, parts.certificate)
    oversight.contents = contents = Contents(settings.root, dispatcher, oversight.recorded, log)
    oversight.reloader = reloader = Reloader(
        settings,
        tokens=parts.token_file,
        use_certificate=oversight.use_certificate,
        use_tokens=dispatcher.use_tokens,
        content=contents.reload,
        log=log,
    )
    async with trio.open_nursery() as nursery:
        if settings.tokens:
            nursery.start_soon(watch, settings.tokens, reloader.tokens_changed, log)
        oversight.address = parts.sockets[0].address
        await nursery.start(endpoint.serve, *parts.sockets)
        nursery.start_soon(dispatcher.tidy)
        nursery.start_soon(oversight.rounds.run)
        nursery.start_soon(_reload, wishes, oversight)
        if settings.watch == "auto":
            nursery.start_soon(contents.follow)
        nursery.start_soon(_answer_questions, settings, oversight, log)
        nursery.start_soon(oversight.give_signs_of_life, dispatcher.index)
        log(
            "info",
            "server started",
            addr=oversight.address,
            root=settings.root,
            idle_timeout=duration_text(settings.idle_timeout),
            request_timeout=duration_text(settings.request_timeout),
            version=__version__,
        )
        notifier.ready(oversight.line)
        await wishes.stop.wait()
        notifier.stopping()
        with trio.CancelScope() as patience:
            nursery.start_soon(_cancel_on, wishes.stop_now, patience)
            await endpoint.drain(GRACE_SECONDS)
        await dispatcher.writer.close(LAST_SECONDS)
        nursery.cancel_scope.cancel()


async def _answer_questions(settings: Settings, oversight: Oversight, log: Log) -> None:
    """Answers `status` and `reload`, if there is a place for the socket."""
    directory = settings.runtime_dir
    try:
        if not directory:
            raise OSError(errno.ENOENT, "no runtime directory is known")
        if runtime.is_below(directory, settings.root):
            raise OSError(errno.EINVAL, "it lies in the content directory")
        listener, name = runtime.listen(directory, settings.root)
    except OSError as error:
        log(
            "warn",
            "control: status and reload cannot ask this server; set DEMARKUS_RUNTIME_DIR to a directory that can be written",
            dir=directory,
            error=error.strerror,
        )
        return
    try:
        await control.serve(listener, oversight.status, oversight.answer_reload, log)
    finally:
        runtime.remove(directory, name)


def _limits(settings: Settings) -> Limits:
    return Limits(
        max_streams=settings.max_streams,
        idle_timeout=settings.idle_timeout or IDLE_SECONDS,
        request_timeout=settings.request_timeout,
        rate=settings.rate_limit,
        burst=settings.rate_burst,
    )


async def _reload(wishes: _Wishes, oversight: Oversight) -> None:
    while True:
        await wishes.reload.wait()
        wishes.reload = trio.Event()
        oversight.rounds.ask()


async def _cancel_on(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
