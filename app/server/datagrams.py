"""A UDP socket, mostly one for IPv4 and IPv6: read until it is empty, written with as few system calls as the kernel allows.

Nothing that a network can do may come out of here as an exception: an ICMP error reported on the socket, a full send buffer and an
unreachable client are all the same to QUIC, a datagram that did not arrive. Knows nothing of QUIC and does not wait: the event loop does.
"""

import errno
import socket
import struct
from collections import deque
from typing import Any

from app.protocol.text import Log

Address = tuple[Any, ...]
Datagram = tuple[bytes, Address]

BUFFER = 4 * 1024 * 1024
"""Wanted socket buffers: the default holds some 90 datagrams, a server busy for 30 ms loses the rest of a burst."""

BATCH = 64
"""Datagrams read in one turn, so that a flood cannot keep timers and handlers from running."""

BACKLOG = 1024
"""Datagrams kept when the kernel takes no more; beyond it they are lost, as on any full link."""

_LARGEST = 65535
_UDP_SEGMENT = 103
_SEGMENTS = 48
"""Datagrams in one segmented send: 48 of 1,200 bytes stay below the 64 KiB that one send may carry."""

_CANNOT_SEGMENT = {errno.EIO, errno.EINVAL, errno.ENOPROTOOPT}
"""How a kernel or a network device says that it cannot do it after all: from then on datagrams go one by one."""


class Datagrams:
    """A bound, non-blocking UDP socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.port: int = sock.getsockname()[1]
        self.lost = 0
        self.backlog: deque[Datagram] = deque()
        self.segments = _segments(sock)
        self._buffer = memoryview(bytearray(_LARGEST))

    def close(self) -> None:
        """Closes the socket; what is in the backlog is lost."""
        self.backlog.clear()
        self.socket.close()

    @property
    def address(self) -> str:
        """Where it listens, as it is dialled: `:6309` if that is every address of both families."""
        name = self.socket.getsockname()
        if name[0] == "::" and not self.socket.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY):
            return f":{self.port}"
        host = plain_host(name)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def reaches(self, address: Address) -> bool:
        """Whether the address is one of this socket's family: that of a socket for both is IPv6."""
        return (len(address) == 2) == (self.socket.family == socket.AF_INET)

    def receive(self) -> list[Datagram]:
        """What has arrived, at most `BATCH` datagrams, in order. An error that the kernel reports in between is no datagram."""
        found: list[Datagram] = []
        receive, buffer = self.socket.recvfrom_into, self._buffer
        for _ in range(BATCH):
            try:
                size, address = receive(buffer)
            except BlockingIOError:
                break
            except OSError:
                continue
            found.append((bytes(buffer[:size]), address))
        return found

    def send(self, datagrams: list[Datagram]) -> None:
        """Sends in order; what the kernel does not take now waits in the backlog and goes first next time."""
        if self.backlog:
            self.backlog.extend(datagrams)
            self.send_backlog()
        elif len(datagrams) == 1:
            self._send_one(datagrams[0])
        elif datagrams:
            self._send_many(datagrams)

    def send_backlog(self) -> None:
        """Sends from the backlog until the kernel takes no more."""
        waiting = list(self.backlog)
        self.backlog.clear()
        self._send_many(waiting)

    def _send_one(self, datagram: Datagram) -> None:
        try:
            self.socket.sendto(*datagram)
        except BlockingIOError:
            self._keep([datagram])
        except OSError:
            self.lost += 1

    def _send_many(self, datagrams: list[Datagram]) -> None:
        start = 0
        while start < len(datagrams) and not self.backlog:
            stop = _run(datagrams, start) if self.segments else start + 1
            if stop - start == 1:
                self._send_one(datagrams[start])
            else:
                stop = start + self._send_segmented(datagrams[start:stop])
            start = stop
        self._keep(datagrams[start:])

    def _send_segmented(self, run: list[Datagram]) -> int:
        """Sends a run of equal size to one address in one call; gives how many are dealt with."""
        size = struct.pack("=H", len(run[0][0]))
        try:
            self.socket.sendmsg(
                [data for data, _ in run], [(socket.IPPROTO_UDP, _UDP_SEGMENT, size)], 0, run[0][1]
            )
        except BlockingIOError:
            self._keep(run)
        except OSError as error:
            if error.errno in _CANNOT_SEGMENT:
                self.segments = False
                return 0
            self.lost += len(run)
        return len(run)

    def _keep(self, datagrams: list[Datagram]) -> None:
        room = BACKLOG - len(self.backlog)
        self.backlog.extend(datagrams[:room])
        self.lost += max(0, len(datagrams) - room)


def bind(port: int, host: str | None = None, *, log: Log) -> Datagrams:
    """A socket on this port (0 = any free one) of one address, or of all, IPv6 and IPv4, where the kernel has both.

    Raises OSError if the port is taken or the address is not this machine's.
    """
    if host is None:
        host = "::" if _has_ipv6() else "0.0.0.0"
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind((host, port))
    except BaseException:
        sock.close()
        raise
    return adopt(sock, log=log)


def adopt(sock: socket.socket, *, log: Log) -> Datagrams:
    """A bound socket, with buffers as large as the system lets them be; says so if that is less than wanted."""
    received = _enlarge(sock, socket.SO_RCVBUF, getattr(socket, "SO_RCVBUFFORCE", 33))
    sent = _enlarge(sock, socket.SO_SNDBUF, getattr(socket, "SO_SNDBUFFORCE", 32))
    if min(received, sent) < BUFFER:
        log(
            "info",
            "udp buffers smaller than wanted, bursts may lose datagrams; to enlarge them raise net.core.rmem_max (receive) and net.core.wmem_max (send)",
            receive=received,
            send=sent,
            wanted=BUFFER,
        )
    return Datagrams(sock)


def plain_host(address: Address) -> str:
    """The IP address in a socket address as people write it: no `::ffff:` before IPv4, no `%interface`."""
    host: str = address[0]
    host = host.partition("%")[0]
    return host[7:] if host.startswith("::ffff:") and "." in host else host


def _run(datagrams: list[Datagram], start: int) -> int:
    """The end of the run that one segmented send may carry: one address, one size, the last one may be shorter."""
    first, address = datagrams[start]
    size = len(first)
    stop = start + 1
    for data, to in datagrams[start + 1 : start + _SEGMENTS]:
        if to != address or len(data) > size:
            break
        stop += 1
        if len(data) < size:
            break
    return stop


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            sock.bind(("::", 0))
    except OSError:
        return False
    return True


def _enlarge(sock: socket.socket, option: int, force: int) -> int:
    """Asks for the wanted buffer, past the system's limit where the process may; gives what there is then, in bytes of payload.

    A socket that was inherited with a large one keeps it: asking without that right would make it smaller.
    """
    # The kernel counts its own overhead as much again.
    if (granted := sock.getsockopt(socket.SOL_SOCKET, option) // 2) >= BUFFER:
        return granted
    for asked in (force, option):
        try:
            sock.setsockopt(socket.SOL_SOCKET, asked, BUFFER)
        except OSError:
            continue
        break
    return sock.getsockopt(socket.SOL_SOCKET, option) // 2


def _segments(sock: socket.socket) -> bool:
    """Whether the kernel knows UDP_SEGMENT (Linux 4.18)."""
    try:
        sock.getsockopt(socket.IPPROTO_UDP, _UDP_SEGMENT)
    except OSError:
        return False
    return True
