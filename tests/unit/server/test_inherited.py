"""Sockets from a service manager: which are taken, which are refused by name, and that nobody else gets them.

Descriptor 3 may be anything in the process of the tests, so each case runs in one of its own.
"""

import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import pytest

_CHILD = """
import json, os, sys
wanted, variables = json.loads(sys.argv[1]), json.loads(sys.argv[2])
for place, one in enumerate(wanted):
    os.dup2(one, 90 + place)  # out of the way of those that go to 3 and 4
for place in range(len(wanted)):
    os.dup2(90 + place, 3 + place)
os.closerange(3 + len(wanted), 200)
from app.server import inherited
environ = {name: text.replace("OWN", str(os.getpid())) for name, text in variables.items()}
try:
    taken = inherited.take(environ)
except inherited.NotUsable as error:
    print(json.dumps(["refused", str(error)]))
else:
    told = [[one.fileno(), one.family.name, one.get_inheritable()] for one in taken]
    print(json.dumps(["taken", told, sorted(environ)]))
"""


def taken(sockets: list[Any], **variables: str) -> list[object]:
    numbers = [one.fileno() for one in sockets]
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, json.dumps(numbers), json.dumps(variables)],
        capture_output=True,
        check=True,
        pass_fds=numbers,
    )
    for one in sockets:
        one.close()
    answer: list[object] = json.loads(done.stdout)
    return answer


def udp(family: int = socket.AF_INET) -> socket.socket:
    found = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6:
        found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    found.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
    return found


def test_one_of_each_family_is_taken_and_kept_from_children() -> None:
    found = taken(
        [udp(socket.AF_INET6), udp()], LISTEN_PID="OWN", LISTEN_FDS="2", LISTEN_FDNAMES="a:b", HOME="/"
    )
    assert found == ["taken", [[3, "AF_INET6", False], [4, "AF_INET", False]], ["HOME"]]


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"LISTEN_FDS": "1"},
        {"LISTEN_FDS": "1", "LISTEN_PID": "1"},
        {"LISTEN_FDS": "1", "LISTEN_PID": "OWN0"},
        {"LISTEN_PID": "OWN"},
        {"LISTEN_PID": "OWN", "LISTEN_FDS": "0"},
    ],
    ids=str,
)
def test_what_is_meant_for_another_process_is_not_taken(variables: dict[str, str]) -> None:
    assert taken([udp()], **variables) == ["taken", [], []]


@pytest.mark.parametrize("count", ["-1", "x", "1 ", "９", "100000"])
def test_a_count_that_is_none_is_refused(count: str) -> None:
    kind, text = taken([udp()], LISTEN_PID="OWN", LISTEN_FDS=count)
    assert kind == "refused"
    assert str(text).startswith("LISTEN_FDS is ")


def listening() -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.bind(("127.0.0.1", 0))
    found.listen()
    return found


def connected() -> socket.socket:
    found = udp()
    found.connect(("127.0.0.1", 9))
    return found


@pytest.mark.parametrize(
    ("sockets", "count", "said"),
    [
        ([tempfile.TemporaryFile], "1", "descriptor 3 cannot be used: Socket operation on non-socket"),
        ([listening], "1", "descriptor 3 is no UDP socket"),
        ([lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)], "1", "descriptor 3 is no UDP socket"),
        (
            [lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)],
            "1",
            "descriptor 3 is a UDP socket without a port",
        ),
        ([connected], "1", "descriptor 3 is a UDP socket without a port of its own, or with a peer"),
        ([udp, udp], "2", "descriptors 3 and 4 are of one address family"),
        ([udp], "2", "descriptor 4 cannot be used: Bad file descriptor"),
    ],
)
def test_what_the_server_cannot_listen_on_is_refused_by_its_number(
    sockets: list[Callable[[], Any]], count: str, said: str
) -> None:
    kind, text = taken([make() for make in sockets], LISTEN_PID="OWN", LISTEN_FDS=count)
    assert kind == "refused"
    assert said in str(text)
