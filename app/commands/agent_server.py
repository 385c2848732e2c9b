"""`mcp`: a server of the Model Context Protocol on stdin and stdout, through which an agent reads and writes worlds.

A client starts it and speaks to it over two pipes, so that nothing but the protocol may go to stdout and nothing else be read from stdin. It
needs the SDK, which servers on boards do without: it is an extra of the package and no part of the frozen program.
"""

import argparse
import os
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from app.commands import remote
from app.commands.outcomes import Exit, Failure
from app.commands.parser import PROGRAM, Command
from app.commands.terminal import note

if TYPE_CHECKING:
    from app.agents.worlds import Host


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host",
        metavar="URL",
        action="append",
        default=[],
        help="mark://host[:port] of a world; repeated, mark_lookup_all searches them all",
    )
    remote.access(parser)


def run(options: argparse.Namespace) -> int:
    import trio

    hosts = _hosts(options)
    _check_sdk()
    from app.agents.mcp_server import serve
    from app.agents.worlds import open_worlds

    async def answer() -> None:
        async with open_worlds(hosts, patience=options.timeout) as worlds, trio.open_nursery() as beside:

            async def tell(host: "Host") -> None:
                note(await worlds.ready(host))

            for host in hosts:
                beside.start_soon(tell, host)
            await serve(worlds)
            beside.cancel_scope.cancel()

    if sys.stdin is None or sys.stdin.isatty():
        note("speaking MCP on stdin and stdout: this is for an MCP client to start; Ctrl-C ends it")
    # A thread of the SDK waits for the next line of stdin and cannot be called back from there.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    trio.run(answer)
    return Exit.DONE


def _hosts(options: argparse.Namespace) -> "list[Host]":
    """The worlds that were named. Raises `Failure` for what would show one world's secret to another."""
    from app.agents.worlds import Host

    urls: list[str] = options.host
    if options.auth == "-":
        raise Failure(
            "stdin belongs to the MCP client: give the token with --auth-file or in DEMARKUS_AUTH", Exit.USAGE
        )
    several = len(set(urls)) > 1
    for option in ("auth", "auth_file", "pin"):
        if getattr(options, option) is not None and len(set(urls)) != 1:
            name = option.replace("_", "-")
            raise Failure(
                f"--{name} is for one --host; for several keep tokens in ~/.mark/tokens.toml and pins in ~/.mark/pins",
                Exit.USAGE,
            )
    environment: Mapping[str, str] = os.environ
    if several and environment.get("DEMARKUS_AUTH"):
        note("DEMARKUS_AUTH is not used: there are several --host, and it is a secret of one of them")
        environment = {}
    hosts = {}
    for url in urls:
        whom = remote.target(options, url, environment)
        if whom.address.path != "/" or whom.address.fragment:
            raise Failure(f"--host names a server, mark://host[:port], without a path: {url}", Exit.USAGE)
        token = whom.secret.token if whom.secret is not None else None
        hosts[whom.address.dial] = Host(whom.address, token, whom.pin, whom.insecure)
    return list(hosts.values())


def _check_sdk() -> None:
    """Raises `Failure` that says where the SDK is to be had."""
    from importlib.util import find_spec

    if find_spec("mcp") is not None:
        return
    if getattr(sys, "frozen", False):
        raise Failure(
            "the one-file program has no MCP server in it: install the package where the agent runs, from a clone of the source with "
            f"`pip install '/path/to/demarkus[mcp]'` (once it is published: `pip install '{PROGRAM}[mcp]'`), and let it connect to this server"
        )
    raise Failure(
        "the MCP server needs the MCP SDK: from a clone of the source, `pip install '/path/to/demarkus[mcp]'`, or `scripts/venv dev`, "
        f"whose environment has it; once it is published, `pip install '{PROGRAM}[mcp]'`"
    )


COMMAND = Command(
    name="mcp",
    summary="let an agent read and write worlds: an MCP server on stdin and stdout",
    examples=(
        "mcp --host mark://board.local",
        "mcp --host mark://board.local --host mark://attic.local",
    ),
    arguments=arguments,
    run=run,
    notes="For the configuration of an MCP client. Tokens and pins are those of the other commands; for several hosts they come from ~/.mark.",
)
