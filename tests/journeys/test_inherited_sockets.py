"""The server with sockets that somebody else has bound, and without any network of its own."""

import os
import signal
import sys
from pathlib import Path

import pytest

from app.client.client import Client
from tests.journeys import passing
from tests.journeys.conftest import TOKEN, StartServer

PASSING = os.fspath(Path(passing.__file__))


def interfaces(process: int) -> list[str]:
    """The network interfaces that a process sees."""
    lines = Path(f"/proc/{process}/net/dev").read_text().splitlines()[2:]
    return [line.split(":")[0].strip() for line in lines]


@pytest.mark.parametrize("hosts", ["127.0.0.1", "127.0.0.1,::1", "::1"])
async def test_it_serves_on_what_it_inherits_and_needs_no_network(
    start_server: StartServer, hosts: str
) -> None:
    server = start_server(command=(sys.executable, PASSING, hosts), LISTEN="192.0.2.1", PORT="9")
    assert "listening on inherited sockets" in server.log
    for host in hosts.split(","):
        async with Client(host, server.port, token=TOKEN, insecure=True) as client:
            written = await client.publish(f"/{len(host)}.md", b"# Inherited\n", expected_version=0)
            assert written.status == "created"
            assert (await client.fetch(f"/{len(host)}.md")).body == b"# Inherited\n"
    assert interfaces(server.process.pid) == ["lo"]
    assert server.stop(signal.SIGTERM) == 0


def test_without_a_socket_it_says_whose_part_that_is(start_server: StartServer) -> None:
    """As in a unit that may make local sockets only, started without its socket unit."""
    server = start_server(command=(sys.executable, "-c", REFUSED), LISTEN="", ready=False)
    assert server.process.wait(20) == 1
    assert "demarkus-appliance.socket" in server.log


# What RestrictAddressFamilies=AF_UNIX does, with the filter left to the C library's name for the call.
REFUSED = """
import errno, os, runpy, socket, sys
made = socket.socket.__init__
def refuse(self, family=-1, *rest, **more):
    if family in (socket.AF_INET, socket.AF_INET6):
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
    made(self, family, *rest, **more)
socket.socket.__init__ = refuse
sys.argv = sys.argv[3:]
sys.argv[0] = "demarkus-appliance"
runpy.run_module("app.commands.program", run_name="__main__")
"""
