"""The neighbour of the image test: its question is one that a responder accepts, and only an answer about the host counts as one."""

import socket
import struct

from tests.image.neighbour import answered, question

HOST = "demarkus.local"
ADDRESS = "fe80::1"


def reply(frame: bytes, *, flags: int = 0x8400) -> bytes:
    """The frame with the question turned into an answer."""
    head, message = frame[:62], frame[62:]
    record = message[12:] + struct.pack("!IH", 120, 16) + socket.inet_pton(socket.AF_INET6, ADDRESS)
    return head + struct.pack("!6H", 0, flags, 0, 1, 0, 0) + record


def test_the_question_is_a_sound_datagram_to_the_group() -> None:
    frame = question(HOST)
    source, target, datagram = frame[22:38], frame[38:54], frame[54:]
    assert target == socket.inet_pton(socket.AF_INET6, "ff02::fb")
    assert struct.unpack("!3H", datagram[:6]) == (5353, 5353, len(datagram))
    assert frame[21] == 255  # or a responder takes it for one from another network
    pseudo = source + target + struct.pack("!2I", len(datagram), socket.IPPROTO_UDP) + datagram
    total = sum(struct.unpack(f"!{(len(pseudo) + 1) // 2}H", pseudo + b"\0" * (len(pseudo) % 2)))
    assert total % 0xFFFF == 0  # the checksum of the whole, as the receiver computes it


def test_an_answer_gives_the_address() -> None:
    assert answered(reply(question(HOST)), HOST) == ADDRESS


def test_what_is_no_answer_about_the_host_gives_none() -> None:
    frame = question(HOST)
    assert answered(frame, HOST) is None
    assert answered(reply(frame, flags=0), HOST) is None
    assert answered(reply(frame), "other.local") is None
    assert answered(b"\x08\x06".join((frame[:12], frame[14:])), HOST) is None  # not IPv6
