"""`selftest`: whether this executable works on this machine, from markdown to a signal, one line for each step.

What it is for: a frozen program may lack a library, or sit on a kernel or C library that refuses it, and that shows only where the part is
used. So every part is used once, on a scratch world: the markdown library, the token file, and the server itself, started as a process of its own
the way a service manager would, and asked over a real connection. Nothing outside the scratch folder is touched.
"""

import argparse
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from app.commands.outcomes import Exit, Failure
from app.commands.parser import Command
from app.commands.terminal import line, note

if TYPE_CHECKING:
    import trio

    from app.client.client import Client
    from app.protocol.message import Response

PATIENCE = 60.0
"""Seconds for the whole test; an emulated or very slow board takes a third of it."""

_PATH = "/selftest/pump.md"
_BODY = b"# Pump seals\n\nWhen to look.\n\n## Changing the `O-ring` & gasket\n\nClose the valve first.\n"
_OUTLINE = [
    (1, "Pump seals", "pump-seals"),
    (2, "Changing the O-ring & gasket", "changing-the-o-ring--gasket"),
]
_LOG_MAX = 65536  # bytes of log up to that line
_LOOK = 0.02  # seconds between looks into the log
_STARTED = re.compile(rb'msg="server started" addr=\S*:([0-9]+)')


class _Steps:
    """Prints the steps: each has the time since the one before."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    def done(self, what: str) -> None:
        now = time.monotonic()
        line(f"ok    {what} ({now - self._since:.2f} s)")
        self._since = now

    def hold(self, right: bool, what: str, seen: object) -> None:
        """A step that is right only if `right`; what was seen is shown otherwise."""
        if not right:
            raise Failure(f"{what} failed: {seen}")
        self.done(what)


def run(options: argparse.Namespace) -> int:
    import trio

    from app.client.errors import ClientError

    steps = _Steps()
    with tempfile.TemporaryDirectory(prefix="demarkus-selftest-") as scratch:
        try:
            _markdown(steps)
            token = _token(steps, scratch)
            with open(os.path.join(scratch, "log"), "w+b") as log:
                trio.run(_serve_and_ask, steps, scratch, token, log.fileno())
        except* trio.TooSlowError:
            raise Failure(f"the test did not end within {PATIENCE:.0f} s") from None
        except* ClientError as group:
            raise Failure(str(group.exceptions[0])) from group
    note("all steps passed")
    return Exit.DONE


def _markdown(steps: _Steps) -> None:
    from app.markdown.outline import outline

    found = [(heading.level, heading.text, heading.anchor) for heading in outline(_BODY)]
    steps.hold(found == _OUTLINE, "markdown: headings and anchors", found)


def _token(steps: _Steps, scratch: str) -> str:
    from app.world import tokenfile

    printed = tokenfile.generate(
        "selftest", ["/**"], ["read", "publish"], os.path.join(scratch, "tokens.toml")
    )
    token = printed.out.strip()
    steps.hold(len(token) == 64, "tokens: one minted", f"a token of {len(token)} characters")
    return token


async def _serve_and_ask(steps: _Steps, scratch: str, token: str, log: int) -> None:
    import trio

    from app.client.client import Client
    from app.server.certificate import make_own

    root, state = os.path.join(scratch, "root"), os.path.join(scratch, "state")
    os.mkdir(root)
    fingerprint = make_own(state, "").fingerprint
    steps.done(f"certificate: {fingerprint}")
    foreign = ("DEMARKUS_", "NOTIFY_", "WATCHDOG_", "LISTEN_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | {
        "DEMARKUS_LISTEN": "127.0.0.1",
        "DEMARKUS_PORT": "0",
        "DEMARKUS_ROOT": root,
        "DEMARKUS_STATE_DIR": state,
        "DEMARKUS_TOKENS": os.path.join(scratch, "tokens.toml"),
    }
    with trio.fail_after(PATIENCE):
        async with _server(environment, log) as (process, port):
            steps.done(f"server: listens on 127.0.0.1, UDP port {port}")
            async with Client("127.0.0.1", port, pin=fingerprint, token=token) as client:
                await _ask(steps, client)
                process.send_signal(signal.SIGHUP)
                answer = await client.fetch(_PATH)
                steps.hold(answer.body == _BODY, "reload: SIGHUP taken, still answering", answer)
            process.send_signal(signal.SIGTERM)
            code = await process.wait()
            steps.hold(code == 0, "stop: SIGTERM taken, exit code 0", f"exit code {code}")
    _verify(steps, root)


async def _ask(steps: _Steps, client: "Client") -> None:
    health = await client.fetch("/health")
    steps.hold(health.status == "ok", "handshake: TLS with the pinned certificate, FETCH /health", health)
    written = await client.publish(
        _PATH, _BODY, expected_version=0, metadata={"title": "Zymurgy pump", "tags": "pump,seal"}
    )
    right = (written.status, written.metadata.get("version")) == ("created", "1")
    steps.hold(right, "PUBLISH: created, version 1", written)
    fetched = await client.fetch(_PATH)
    steps.hold(fetched.body == _BODY, "FETCH: the same bytes", fetched)
    seal = _OUTLINE[1][2]
    for mode, query, anchor in (("catalog", "zymurgy", ""), ("body", "valve", seal), ("task", "valve", seal)):
        found = await client.lookup("/", query, match=mode)
        right = (found.metadata.get("match"), _rows(found)) == (mode, [(_PATH, anchor)])
        steps.hold(right, f"LOOKUP: match {mode}", found)
    history = await client.versions(_PATH)
    steps.hold(history.metadata.get("chain-valid") == "true", "VERSIONS: the hash chain holds", history)


def _rows(answer: "Response") -> list[tuple[str, str]]:
    from app.protocol.tables import parse_lookup_body

    return [(row.path, row.anchor) for row in parse_lookup_body(answer.body)]


def _verify(steps: _Steps, root: str) -> None:
    from app.world.verify import verify

    faults = list(verify(root))
    steps.hold(not faults, "verify: the folder is sound", faults)


@asynccontextmanager
async def _server(environment: dict[str, str], log: int) -> "AsyncIterator[tuple[trio.Process, int]]":
    """This program as a server in a process of its own, with its port, once it listens; ended with the block at the latest."""
    import trio

    # Frozen, the executable is the program; else it is an interpreter.
    frozen = getattr(sys, "frozen", False)
    program = [sys.executable] if frozen else [sys.executable, "-m", "app.commands.program"]
    async with trio.open_nursery() as nursery:
        process: trio.Process = await nursery.start(
            partial(trio.run_process, [*program, "serve"], env=environment, stderr=log, check=False)
        )
        try:
            yield process, await _port(process, log)
        finally:
            nursery.cancel_scope.cancel()


async def _port(process: "trio.Process", log: int) -> int:
    """The port from the line of the log that says the server listens."""
    import trio

    while True:
        ended = process.poll() is not None
        text = os.pread(log, _LOG_MAX, 0)
        found = _STARTED.search(text)
        if found:
            return int(found[1])
        if ended:
            raise Failure(f"the server did not start: {text.decode('utf-8', 'replace').strip()}")
        await trio.sleep(_LOOK)


COMMAND = Command(
    name="selftest",
    summary="check that this executable works on this machine: markdown, certificate, server, every step of a write",
    examples=("selftest", "selftest --debug"),
    run=run,
    notes="Uses a scratch folder in $TMPDIR and a free port of 127.0.0.1. Exit code 1 at the first step that fails.",
)
