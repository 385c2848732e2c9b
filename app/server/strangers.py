"""Datagrams of no connection we know: how to read their head, and the answers that leave nothing behind.

A stranger costs nothing to forge and may come by the thousand, so all of this works on plain bytes, keeps no state and makes no connection:
the head of an Initial, the Retry that demands a proof of address and the token in it, Version Negotiation, the stateless reset. Which of them a
stranger gets is decided elsewhere. Nothing here knows the library that speaks QUIC once a connection is there.
"""

import hmac
import os

import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from app.server.datagrams import Address

ID_LENGTH = 8
"""The length of our connection ids."""

SMALLEST_FIRST = 1200
"""Bytes of the smallest datagram that may open a connection (RFC 9000 §14.1)."""

_LONGEST_ID = 20
_TOKEN_LIFETIME = 30.0
"""Seconds: clients bring a Retry's token back at once (RFC 9000 §8.1.4)."""

_STAMP = 8
_TAG = 16

_RESET_TRIGGER = 22
"""A shorter datagram cannot be a packet of ours with a payload, and the reset must be shorter than what it answers."""


class _Version(msgspec.Struct, frozen=True):
    """What differs between the versions of QUIC before a connection is there."""

    initial: int
    retry: int
    seal: AESGCM
    nonce: bytes


VERSIONS = {
    # RFC 9001 §5.8
    b"\x00\x00\x00\x01": _Version(
        0xC0,
        0xF0,
        AESGCM(bytes.fromhex("be0c690b9f66575a1d766b54e368c84e")),
        bytes.fromhex("461599d35d632bf2239825bb"),
    ),
    # RFC 9369 §3.2, §3.3.3
    b"\x6b\x33\x43\xcf": _Version(
        0xD0,
        0xC0,
        AESGCM(bytes.fromhex("8fb4b01b56ac48e260fbcbcead7ccc92")),
        bytes.fromhex("d86969bc2d7c6d9990efb04a"),
    ),
}
"""The versions we speak, by their four bytes, the preferred one first."""


class First(msgspec.Struct, frozen=True, gc=False):
    """The head of a datagram by which a stranger asks for a connection. An unsupported version has only the two ids."""

    supported: bool
    version: bytes
    destination: bytes
    source: bytes
    token: bytes


def destination(data: bytes) -> bytes | None:
    """The connection id that a datagram is addressed to, None if it is too short to have one."""
    if len(data) > ID_LENGTH:
        if not data[0] & 0x80:
            return data[1 : 1 + ID_LENGTH]
        length = data[5] if len(data) > 6 else 0xFF
        if len(data) > 6 + length and length <= _LONGEST_ID:
            return data[6 : 6 + length]
    return None


def first(data: bytes) -> First | None:
    """The head of a datagram that may open a connection; None for every other: too short, not Initial, a Version Negotiation itself."""
    if len(data) < SMALLEST_FIRST or not data[0] & 0x80:
        return None
    length = data[5]
    end = 6 + length
    start = end + 1
    if not ID_LENGTH <= length <= _LONGEST_ID or data[end] > _LONGEST_ID:
        return None
    stop = start + data[end]
    number = data[1:5]
    version = VERSIONS.get(number)
    if version is None:
        if not any(number):
            return None
        return First(False, number, data[6:end], data[start:stop], b"")
    if data[0] & 0xF0 != version.initial:
        return None
    size, begin = _varint(data, stop)
    token = data[begin : begin + size]
    size, begin = _varint(data, begin + size)
    if not 0 < size <= len(data) - begin:
        return None
    return First(True, number, data[6:end], data[start:stop], token)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The variable-length integer at an offset and the offset behind it (RFC 9000 §16); 0 where the data ends too soon."""
    if at >= len(data):
        return 0, at
    size = 1 << (data[at] >> 6)
    end = at + size
    if end > len(data):
        return 0, end
    return int.from_bytes(data[at:end], "big") & ((1 << (8 * size - 2)) - 1), end


class Proofs:
    """Demands and checks proofs of address without remembering whom it asked: all that must be known later is in the token.

    The MAC over address, time and the id that the client chose is both the id that the client has to use next and the seal of the token, so a
    token is good for one address, one id and half a minute.
    """

    def __init__(self) -> None:
        self._key = os.urandom(32)

    def retry(self, head: First, address: Address, now: float) -> bytes:
        """A demand to come again with a token that only this address can have received."""
        stamp = int(now * 1000).to_bytes(_STAMP, "big")
        mac = self._mac(stamp, head.destination, address)
        version = VERSIONS[head.version]
        original, source = head.destination, head.source
        packet = b"%c%b%c%b%c%b%b%b%b" % (
            version.retry,
            head.version,
            len(source),
            source,
            ID_LENGTH,
            mac[:ID_LENGTH],
            stamp,
            original,
            mac[ID_LENGTH : ID_LENGTH + _TAG],
        )
        return packet + version.seal.encrypt(
            version.nonce, b"", b"%c%b%b" % (len(original), original, packet)
        )

    def check(self, head: First, address: Address, now: float) -> bytes | None:
        """The id that the client first asked for, if it brings back the token of our Retry. Other tokens count as none."""
        token = head.token
        original = token[_STAMP:-_TAG]
        if not ID_LENGTH <= len(original) <= _LONGEST_ID:
            return None
        stamp = token[:_STAMP]
        mac = self._mac(stamp, original, address)[: ID_LENGTH + _TAG]
        if not hmac.compare_digest(mac, head.destination + token[-_TAG:]):
            return None
        return original if now - int.from_bytes(stamp, "big") / 1000 <= _TOKEN_LIFETIME else None

    def _mac(self, stamp: bytes, original: bytes, address: Address) -> bytes:
        where = b"%c%b%b%d %b" % (len(original), original, stamp, address[1], address[0].encode())
        return hmac.digest(self._key, where, "sha256")


def version_negotiation(head: First) -> bytes:
    """The versions we speak, for a client that asked in another one."""
    return b"%c\x00\x00\x00\x00%c%b%c%b%b" % (
        os.urandom(1)[0] | 0x80,
        len(head.source),
        head.source,
        len(head.destination),
        head.destination,
        b"".join(VERSIONS),
    )


def stateless_reset(key: bytes, data: bytes) -> bytes | None:
    """The answer to a packet of a connection we no longer know, so that its client need not wait for its timeout; None if it is no such packet."""
    if len(data) < _RESET_TRIGGER or data[0] & 0xC0 != 0x40:
        return None
    token = reset_token(key, data[1 : 1 + ID_LENGTH])
    noise = os.urandom(min(len(data) - 1, 43) - len(token))
    return b"%c%b%b" % (noise[0] & 0x3F | 0x40, noise[1:], token)


def reset_token(key: bytes, identifier: bytes) -> bytes:
    """The stateless reset token of a connection id (RFC 9000 §10.3.2)."""
    return hmac.digest(key, identifier, "sha256")[:16]
