"""The sockets that a service manager has bound for the server (sd_listen_fds(3)): with them it needs no network of its own.

They begin at descriptor 3. LISTEN_FDS says how many there are, LISTEN_PID for which process: a variable that names another one was left by somebody
on the way here, and its descriptors may be anything. (Frozen into one file the server is a child of the process that systemd started; the boot loader
has put the child's number there.) All of it is taken out of the environment and kept from children, who would believe the sockets to be theirs.

One socket for both address families, or one for each. It stays bound while the server is restarted: datagrams that come meanwhile wait in it.
"""

import os
import socket
from collections.abc import MutableMapping

FIRST = 3
"""The descriptor of the first one."""

_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


class NotUsable(Exception):
    """What was inherited is not what the server can listen on; the text names the descriptor and the cure."""


def take(environ: MutableMapping[str, str]) -> list[socket.socket]:
    """The UDP sockets that this process has inherited, none if there are none; takes the variables away. Raises `NotUsable`."""
    process, count, _ = (environ.pop(name, "") for name in _VARIABLES)
    if process != str(os.getpid()) or count in ("", "0"):
        return []
    if not (count.isascii() and count.isdigit() and len(count) < 4):
        raise NotUsable(f"LISTEN_FDS is {count!r}, which is no number of sockets")
    taken: dict[socket.AddressFamily, socket.socket] = {}
    for descriptor in range(FIRST, FIRST + int(count)):
        found = _udp(descriptor)
        other = taken.setdefault(found.family, found)
        if other is not found:
            raise NotUsable(
                f"the inherited descriptors {other.fileno()} and {descriptor} are of one address family: "
                "one socket for IPv4 and one for IPv6 is the most; ListenDatagram=PORT alone is one for both"
            )
    return list(taken.values())


def _udp(descriptor: int) -> socket.socket:
    try:
        os.set_inheritable(descriptor, False)
        found = socket.socket(fileno=descriptor)
    except OSError as error:
        raise NotUsable(f"the inherited descriptor {descriptor} cannot be used: {error.strerror}") from error
    internet = found.family in (socket.AF_INET, socket.AF_INET6)
    if not internet or found.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL) != socket.IPPROTO_UDP:
        raise NotUsable(
            f"the inherited descriptor {descriptor} is no UDP socket; in a .socket unit ListenDatagram= makes one"
        )
    if not found.getsockname()[1] or _has_peer(found):
        raise NotUsable(
            f"the inherited descriptor {descriptor} is a UDP socket without a port of its own, or with a peer; "
            "in a .socket unit ListenDatagram=PORT makes one that anybody can reach"
        )
    return found


def _has_peer(found: socket.socket) -> bool:
    try:
        found.getpeername()
    except OSError:
        return False
    return True
