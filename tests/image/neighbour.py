"""A neighbour on the board's network that knows it by name only: one question over multicast DNS (RFC 6762), in Ethernet frames.

The frames are made and read by hand, since the host that runs the test is not on that network.
"""

import socket
import struct
import time

_GROUP = socket.inet_pton(socket.AF_INET6, "ff02::fb")
_OWN = socket.inet_pton(socket.AF_INET6, "fe80::d0c")
_OWN_MAC = bytes.fromhex("020000000d0c")
_GROUP_MAC = bytes.fromhex("3333000000fb")
_PORT = 5353
_AAAA = 28


def _name(host: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in host.split(".")) + b"\0"


def _checksum(data: bytes) -> int:
    words = struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2))
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF or 0xFFFF


def question(host: str) -> bytes:
    """The frame that asks everybody for the IPv6 address of a host."""
    message = struct.pack("!6H", 0, 0, 1, 0, 0, 0) + _name(host) + struct.pack("!2H", _AAAA, 1)
    length = 8 + len(message)
    pseudo = _OWN + _GROUP + struct.pack("!2I", length, socket.IPPROTO_UDP)
    bare = struct.pack("!4H", _PORT, _PORT, length, 0) + message
    datagram = struct.pack("!4H", _PORT, _PORT, length, _checksum(pseudo + bare)) + message
    header = struct.pack("!IHBB", 6 << 28, length, socket.IPPROTO_UDP, 255) + _OWN + _GROUP
    return _GROUP_MAC + _OWN_MAC + b"\x86\xdd" + header + datagram


def answered(frame: bytes, host: str) -> str | None:
    """The IPv6 address that a frame gives for a host, if it is an answer about it."""
    if (
        frame[12:14] != b"\x86\xdd"
        or frame[20] != socket.IPPROTO_UDP
        or frame[54:56] != struct.pack("!H", _PORT)
    ):
        return None
    message = frame[62:]
    is_answer, record = message[2] & 0x80, _name(host) + struct.pack("!H", _AAAA)
    at = message.find(record)
    if not is_answer or at < 0:
        return None
    start = at + len(record) + 8  # class, time to live, length
    return socket.inet_ntop(socket.AF_INET6, message[start : start + 16])


def ask(lan: socket.socket, board: int, host: str, *, within: float) -> str | None:
    """Asks again every second until somebody answers; None if nobody does. `board` is the port where the board's frames go in."""
    deadline = time.monotonic() + within
    lan.settimeout(1.0)
    while time.monotonic() < deadline:
        lan.sendto(question(host), ("127.0.0.1", board))
        try:
            while time.monotonic() < deadline:
                found = answered(lan.recv(65536), host)
                if found is not None:
                    return found
        except TimeoutError:
            continue
    return None
