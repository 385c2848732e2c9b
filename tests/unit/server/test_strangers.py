"""Datagrams that belong to no connection: aioquic's reading and writing of them is the measure of ours."""

import pytest
from aioquic.buffer import Buffer  # type: ignore[attr-defined]
from aioquic.quic.packet import (
    QuicPacketType,
    QuicProtocolVersion,
    encode_quic_version_negotiation,
    get_retry_integrity_tag,
    pull_quic_header,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from app.server.strangers import (
    ID_LENGTH,
    VERSIONS,
    First,
    Proofs,
    destination,
    first,
    reset_token,
    stateless_reset,
    version_negotiation,
)
from tests.unit.server.quic_pair import SERVER, Peer, varint

ADDRESS = ("192.0.2.7", 5000)
V1, V2 = VERSIONS


def first_flight(version: QuicProtocolVersion = QuicProtocolVersion.VERSION_1) -> bytes:
    peer = Peer(original_version=version, supported_versions=[version])
    peer.quic.connect(SERVER, 0.0)
    return peer.send(0.0)[0]


def opened() -> First:
    head = first(first_flight())
    assert head is not None
    return head


class TestDestination:
    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            (b"", None),
            (b"\x40", None),
            (b"\x40" + b"12345678", b"12345678"),
            (b"\x40" + b"12345678" + bytes(50), b"12345678"),
            (b"\x40" + b"1234567", None),
            (b"\xc0" + bytes(4) + b"\x08" + b"12345678" + b"\x00", b"12345678"),
            (b"\xc0" + bytes(4) + b"\x00" + b"\x00" * 3, b""),
            (b"\xc0" + bytes(4) + b"\x15" + bytes(40), None),
            (b"\xc0" + bytes(4) + b"\x08" + b"1234567", None),
            (b"\xc0" * 6, None),
        ],
    )
    def test_of(self, data: bytes, expected: bytes | None) -> None:
        assert destination(data) == expected

    @settings(deadline=None, max_examples=200)
    @given(
        st.binary(max_size=60),
        st.sampled_from([b"", b"\x40", b"\xc0\x00\x00\x00\x01\x08", b"\xc0\x00\x00\x00\x01"]),
    )
    def test_of_anything(self, data: bytes, head: bytes) -> None:
        found = destination(head + data)
        assert found is None or found in head + data


class TestFirst:
    def test_of_a_client(self) -> None:
        head = opened()
        assert (head.supported, head.version, head.token) == (True, V1, b"")
        assert len(head.destination) == 8

    def test_of_a_client_that_speaks_version_2(self) -> None:
        head = first(first_flight(QuicProtocolVersion.VERSION_2))
        assert head is not None
        assert (head.supported, head.version) == (True, V2)

    def test_a_short_datagram_is_nobodys_first(self) -> None:
        assert first(first_flight()[:1199]) is None

    @pytest.mark.parametrize(
        "data",
        [
            encode_quic_version_negotiation(
                source_cid=bytes(8), destination_cid=bytes(8), supported_versions=[1]
            ),
            b"\xc0" + bytes(4) + b"\x08" + bytes(8) + b"\x08" + bytes(8),  # version 0
            b"\xc0" + V1 + b"\x04" + bytes(8) + b"\x00" * 4 + b"\x44\x00",  # too short an id
        ],
    )
    def test_gets_no_answer(self, data: bytes) -> None:
        assert first(data.ljust(1200, b"\x00")) is None

    def test_only_an_initial_opens(self) -> None:
        data = first_flight()
        for mark in (0x10, 0x20, 0x30, 0x40):
            assert first(bytes([data[0] ^ mark]) + data[1:]) is None

    @settings(deadline=None, max_examples=300)
    @given(
        st.sampled_from([V1, V2]),
        st.integers(0, 255),
        st.tuples(st.integers(0, 24), st.integers(0, 24)),
        st.one_of(st.integers(0, 300), st.integers(0, 2**62 - 1)),
        st.one_of(st.integers(0, 1300), st.integers(0, 2**62 - 1)),
        st.binary(max_size=40),
    )
    def test_is_read_as_aioquic_reads_it(
        self, version: bytes, mark: int, ids: tuple[int, int], token: int, rest: int, noise: bytes
    ) -> None:
        mine, yours = (bytes([size]) + bytes(range(size)) for size in ids)
        data = bytes([mark]) + version + yours + mine + varint(token)
        data = (data + bytes(min(token, 300)) + varint(rest) + noise).ljust(1200, b"\x07")
        head = first(data)
        try:
            header = pull_quic_header(Buffer(data=data), host_cid_length=ID_LENGTH)
        except ValueError:
            assert head is None
            return
        if head is None:
            empty = header.packet_length == data.index(header.token or varint(rest)) + len(varint(rest))
            assert header.packet_type is not QuicPacketType.INITIAL or ids[1] < ID_LENGTH or empty or not rest
        else:
            assert (head.destination, head.source) == (header.destination_cid, header.source_cid)
            assert head.token == header.token
            assert header.packet_type is QuicPacketType.INITIAL

    @settings(deadline=None, max_examples=200)
    @given(
        st.binary(max_size=60),
        st.sampled_from(
            [b"", b"\xc0\x00\x00\x00\x01\x08", b"\xd0\x6b\x33\x43\xcf\x14", b"\xc0\x1a\x1a\x1a\x1a\x08"]
        ),
        st.sampled_from([b"\x00", b"\x08", b"\xff"]),
    )
    def test_of_anything(self, data: bytes, start: bytes, filling: bytes) -> None:
        for datagram in (start + data, (start + data).ljust(1200, filling)):
            head = first(datagram)
            assert head is None or len(head.destination) >= ID_LENGTH

    def test_other_versions_are_told_ours(self) -> None:
        data = b"\xca" + b"\x1a\x2a\x3a\x4a" + b"\x08" + b"abcdefgh" + b"\x04" + b"wxyz"
        head = first(data.ljust(1200, b"\x00"))
        assert head is not None
        assert not head.supported
        header = pull_quic_header(Buffer(data=version_negotiation(head)))
        assert header.packet_type is QuicPacketType.VERSION_NEGOTIATION
        assert (header.destination_cid, header.source_cid) == (b"wxyz", b"abcdefgh")
        assert header.supported_versions == [QuicProtocolVersion.VERSION_1, QuicProtocolVersion.VERSION_2]


class TestProofs:
    def again(self, proofs: Proofs, *, now: float = 0.0) -> First:
        """What a client sends after a Retry."""
        peer = Peer()
        peer.quic.connect(SERVER, now)
        head = first(peer.send(now)[0])
        assert head is not None
        assert proofs.check(head, ADDRESS, now) is None
        peer.receive(proofs.retry(head, ADDRESS, now), now)
        second = first(peer.send(now)[0])
        assert second is not None
        self.original = head.destination
        return second

    def test_a_token_proves_the_address(self) -> None:
        proofs = Proofs()
        second = self.again(proofs)
        assert proofs.check(second, ADDRESS, 1.0) == self.original

    @pytest.mark.parametrize(
        ("address", "now"),
        [
            (("192.0.2.8", 5000), 1.0),
            (("192.0.2.7", 5001), 1.0),
            (("192.0.2.75", 500), 1.0),
            (ADDRESS, 31.0),
        ],
    )
    def test_not_another_one_and_not_for_ever(self, address: tuple[str, int], now: float) -> None:
        proofs = Proofs()
        assert proofs.check(self.again(proofs), address, now) is None

    def test_not_for_another_connection(self) -> None:
        proofs = Proofs()
        second = self.again(proofs)
        other = First(True, second.version, b"12345678", second.source, second.token)
        assert proofs.check(other, ADDRESS, 1.0) is None

    def test_not_to_another_server(self) -> None:
        assert Proofs().check(self.again(Proofs()), ADDRESS, 1.0) is None

    @pytest.mark.parametrize("place", [0, 7, 8, 15, 16, 31])
    def test_not_a_changed_one(self, place: int) -> None:
        proofs = Proofs()
        second = self.again(proofs)
        changed = bytearray(second.token)
        changed[place] ^= 1
        other = First(True, second.version, second.destination, second.source, bytes(changed))
        assert proofs.check(other, ADDRESS, 1.0) is None

    @settings(deadline=None, max_examples=100)
    @given(st.binary(max_size=120))
    def test_other_tokens_count_as_none(self, token: bytes) -> None:
        head = opened()
        other = First(True, head.version, head.destination, head.source, token)
        assert Proofs().check(other, ADDRESS, 0.0) is None

    @settings(deadline=None, max_examples=100)
    @given(
        st.sampled_from([V1, V2]),
        st.binary(min_size=8, max_size=20),
        st.binary(max_size=20),
        st.sampled_from([ADDRESS, ("2001:db8::1", 7, 0, 0), ("fe80::1%eth0", 65535, 0, 2)]),
        st.floats(0, 1e9),
    )
    def test_a_retry_is_what_aioquic_expects(
        self, version: bytes, chosen: bytes, source: bytes, address: tuple[object, ...], now: float
    ) -> None:
        proofs = Proofs()
        head = First(True, version, chosen, source, b"")
        packet = proofs.retry(head, address, now)
        assert len(packet) < 120
        header = pull_quic_header(Buffer(data=packet))
        assert header.packet_type is QuicPacketType.RETRY
        number = int.from_bytes(version, "big")
        assert (header.version, header.destination_cid) == (number, source)
        assert header.integrity_tag == get_retry_integrity_tag(packet[:-16], chosen, number)
        second = First(True, version, header.source_cid, source, header.token)
        assert proofs.check(second, address, now + 1) == chosen


class TestStatelessReset:
    def packet(self, size: int, identifier: bytes = b"12345678") -> bytes:
        return (b"\x40" + identifier).ljust(size, b"\x55")

    def test_carries_the_token_of_the_id(self) -> None:
        reset = stateless_reset(b"key", self.packet(100))
        assert reset is not None
        assert reset[-16:] == reset_token(b"key", b"12345678")
        assert reset_token(b"key", b"1") != reset_token(b"key", b"2")
        assert reset_token(b"key", b"1") != reset_token(b"other", b"1")

    @pytest.mark.parametrize(("size", "answer"), [(21, None), (22, 21), (30, 29), (44, 43), (1200, 43)])
    def test_is_shorter_than_what_it_answers(self, size: int, answer: int | None) -> None:
        reset = stateless_reset(b"key", self.packet(size))
        assert (None if reset is None else len(reset)) == answer
        assert reset is None or reset[0] & 0xC0 == 0x40

    def test_only_short_headers_are_answered(self) -> None:
        for head in (0x00, 0x80, 0xC0):
            assert stateless_reset(b"key", bytes([head]) + bytes(100)) is None
