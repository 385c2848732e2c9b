"""By what names and addresses others reach a server on this machine, as well as the machine can tell.

No packet is sent. A UDP socket that is connected shows which of the machine's addresses the kernel would speak from; a name that ends in `.local` is
given only if something answers for it here (RFC 6762), which shows by the port.
"""

import socket
from contextlib import suppress

from app.protocol.addresses import Address

_MDNS_PORT = 5353
# Addresses of the documentation (RFC 5737, RFC 3849): nobody has them, but they have a route where anything has.
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def addresses(listening: str) -> list[Address]:
    """Where a server can be asked that listens on this (`:6309` is every address), the most lasting first.

    Empty if the machine has no address that others could use.
    """
    host, _, port = listening.rpartition(":")
    host = host.strip("[]")
    if host not in ("", "::", "0.0.0.0"):
        return [Address(host, int(port))]
    names = [own] if (own := _own_address()) else []
    if names and _answers_for_its_name():
        names.insert(0, f"{socket.gethostname().split('.')[0].lower()}.local")
    return [Address(name, int(port)) for name in names]


def _own_address() -> str:
    for family, elsewhere in _ELSEWHERE:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))
            own: str = probe.getsockname()[0]
            return own
    return ""


def _answers_for_its_name() -> bool:
    """Whether a process here has the port of multicast DNS: avahi, or systemd-resolved with that switched on."""
    wanted = f":{_MDNS_PORT:04X}"
    for table in ("udp", "udp6"):
        with suppress(OSError), open(f"/proc/self/net/{table}", encoding="ascii") as lines:
            if any(line.split()[1].endswith(wanted) for line in lines):
                return True
    return False
