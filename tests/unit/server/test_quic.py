"""The door to aioquic: the private names behind it, and the answers to datagrams that belong to no connection."""

import inspect

import pytest
from aioquic.buffer import Buffer  # type: ignore[attr-defined]
from aioquic.quic.connection import Limit, QuicConnection
from aioquic.quic.packet import (
    QuicPacketType,
    QuicProtocolVersion,
    encode_quic_version_negotiation,
    pull_quic_header,
)
from aioquic.quic.stream import QuicStream
from hypothesis import given, settings
from hypothesis import strategies as st

from app.server.admission import Limits
from app.server.certificate import self_signed
from app.server.quic import ID_LENGTH, Connection, First, Listener, destination, reset_token
from tests.unit.server.quic_pair import SERVER, Pair, Peer, certificate

ADDRESS = ("192.0.2.7", 5000)


def listener() -> Listener:
    return Listener(certificate(), Limits(max_streams=7))


def first_flight() -> bytes:
    peer = Peer()
    peer.quic.connect(SERVER, 0.0)
    return peer.send(0.0)[0]


def opened() -> First:
    first = listener().first(first_flight())
    assert first is not None
    return first


class TestPrivateNames:
    """aioquic has no setting for these. When a release moves one, a test here says which."""

    def test_the_fields_are_there(self) -> None:
        connection = listener().accept(opened(), None)
        for name in ("_local_max_streams_bidi", "_local_max_streams_uni", "_local_max_data"):
            limit = getattr(connection, name)
            assert isinstance(limit, Limit), name
            assert limit.value == limit.sent, name
        assert isinstance(connection._streams, dict)
        assert QuicStream().sender._buffer == b""
        assert QuicConnection(configuration=Peer().quic.configuration)._ack_delay > 0
        assert [identifier.cid for identifier in connection._host_cids] == [connection.host_cid]

    @pytest.mark.parametrize(
        "name", ["_write_stream_limits", "_write_connection_limits", "_replenish_connection_ids"]
    )
    def test_the_methods_are_there_and_still_take_the_same(self, name: str) -> None:
        ours, theirs = (inspect.signature(getattr(kind, name)) for kind in (Connection, QuicConnection))
        assert list(ours.parameters) == list(theirs.parameters)

    def test_a_client_is_told_how_many_streams_it_may_open(self) -> None:
        peer = Pair(max_streams=7).connect()
        assert (peer.quic._remote_max_streams_bidi, peer.quic._remote_max_streams_uni) == (7, 0)

    def test_windows_do_not_grow(self) -> None:
        pair = Pair(receive_window=100_000, request_bytes=50_000, rate=0)
        peer = pair.connect()
        first = (peer.quic._remote_max_data, peer.quic._remote_max_stream_data_bidi_remote)
        assert first == (100_000, 50_000 + 64 * 1024)
        for _ in range(20):
            stream = peer.ask(bytes(49_000))
            pair.advance(0.5)
            assert stream in peer.ended
        limit = pair.session._connection._local_max_data
        assert limit.value - limit.used <= 100_000
        assert peer.quic._remote_max_data == limit.value

    def test_the_acknowledgement_comes_with_the_answer(self) -> None:
        pair = Pair()
        peer = pair.connect()
        pair.advance(1)
        heard = peer.heard
        peer.ask(b"x")
        pair.pump()
        assert peer.heard == heard + 1
        assert not any(space.ack_eliciting_in_flight for space in peer.quic._loss.spaces)

    def test_what_is_unacknowledged_is_counted(self) -> None:
        pair = Pair(lambda exchange: exchange.send(bytes(5000), end=False))
        peer = pair.connect()
        peer.deaf = True
        stream = peer.ask(b"x")
        pair.pump()
        assert pair.session._connection.unacknowledged(stream) == 5000
        assert pair.session._connection.unacknowledged(stream + 4) == 0
        peer.deaf = False
        pair.advance(2)
        assert pair.session._connection.unacknowledged(stream) == 0


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

    @settings(deadline=None, max_examples=200)
    @given(
        st.binary(max_size=60),
        st.sampled_from(
            [b"", b"\xc0\x00\x00\x00\x01\x08", b"\xc0\x6b\x33\x43\xcf\x14", b"\xc0\x1a\x1a\x1a\x1a\x08"]
        ),
    )
    def test_of_anything_else(self, data: bytes, head: bytes) -> None:
        listening = listener()
        for datagram in (head + data, (head + data).ljust(1200, b"\x00")):
            first = listening.first(datagram)
            assert first is None or len(first.destination) >= ID_LENGTH
            reset = listening.stateless_reset(datagram)
            assert reset is None or len(reset) < len(datagram)


class TestFirst:
    def test_of_a_client(self) -> None:
        first = opened()
        assert (first.supported, first.version, first.token) == (True, QuicProtocolVersion.VERSION_1, b"")
        assert len(first.destination) == 8

    def test_a_short_datagram_is_nobodys_first(self) -> None:
        assert listener().first(first_flight()[:1199]) is None

    def test_a_version_negotiation_packet_is_not_answered(self) -> None:
        packet = encode_quic_version_negotiation(
            source_cid=bytes(8), destination_cid=bytes(8), supported_versions=[1]
        )
        assert listener().first(packet.ljust(1200, b"\x00")) is None

    def test_version_0_is_not_answered(self) -> None:
        assert (
            listener().first(
                (b"\xc0" + bytes(4) + b"\x08" + bytes(8) + b"\x08" + bytes(8)).ljust(1200, b"\x00")
            )
            is None
        )

    def test_too_short_an_id_is_not_answered(self) -> None:
        assert (
            listener().first(
                (b"\xc0\x00\x00\x00\x01\x04" + bytes(8) + b"\x00" * 4 + b"\x44\x00").ljust(1200, b"\x00")
            )
            is None
        )

    def test_only_an_initial_opens(self) -> None:
        data = first_flight()
        assert listener().first(bytes([data[0] | 0x20]) + data[1:]) is None

    def test_other_versions_are_told_ours(self) -> None:
        data = b"\xca" + b"\x1a\x2a\x3a\x4a" + b"\x08" + b"abcdefgh" + b"\x04" + b"wxyz"
        first = listener().first(data.ljust(1200, b"\x00"))
        assert first is not None
        assert not first.supported
        header = pull_quic_header(Buffer(data=listener().version_negotiation(first)))
        assert header.packet_type is QuicPacketType.VERSION_NEGOTIATION
        assert (header.destination_cid, header.source_cid) == (b"wxyz", b"abcdefgh")
        assert header.supported_versions == [QuicProtocolVersion.VERSION_1, QuicProtocolVersion.VERSION_2]


class TestRetry:
    def again(self, listening: Listener, *, now: float = 0.0) -> First:
        """What a client sends after a Retry."""
        peer = Peer()
        peer.quic.connect(SERVER, 0.0)
        first = listening.first(peer.send(0.0)[0])
        assert first is not None
        assert listening.proved(first, ADDRESS, now) is None
        peer.receive(listening.retry(first, ADDRESS, 0.0), 0.0)
        second = listening.first(peer.send(0.0)[0])
        assert second is not None
        self.original = first.destination
        return second

    def test_a_token_proves_the_address(self) -> None:
        listening = listener()
        second = self.again(listening)
        assert listening.proved(second, ADDRESS, 1.0) == self.original

    @pytest.mark.parametrize(
        ("address", "now"), [(("192.0.2.8", 5000), 1.0), (("192.0.2.7", 5001), 1.0), (ADDRESS, 31.0)]
    )
    def test_not_another_one_and_not_for_ever(self, address: tuple[str, int], now: float) -> None:
        listening = listener()
        assert listening.proved(self.again(listening), address, now) is None

    def test_not_to_another_server(self) -> None:
        assert listener().proved(self.again(listener()), ADDRESS, 1.0) is None

    @settings(deadline=None, max_examples=100)
    @given(st.binary(max_size=120))
    def test_other_tokens_count_as_none(self, token: bytes) -> None:
        first = opened()
        other = First(True, first.version, first.destination, first.source, token)
        assert listener().proved(other, ADDRESS, 0.0) is None


class TestStatelessReset:
    def packet(self, size: int, identifier: bytes = b"12345678") -> bytes:
        return (b"\x40" + identifier).ljust(size, b"\x55")

    def test_the_tokens_are_those_that_clients_were_given(self) -> None:
        pair = Pair()
        peer = pair.connect()
        pair.advance(1)
        identifiers = {identifier.cid for identifier in pair.session._connection._host_cids}
        given = {peer.quic._peer_cid.cid: peer.quic._peer_cid.stateless_reset_token}
        given |= {
            identifier.cid: identifier.stateless_reset_token for identifier in peer.quic._peer_cid_available
        }
        assert set(given) == identifiers
        after_restart = Listener(certificate(), Limits())
        for identifier, token in given.items():
            reset = after_restart.stateless_reset(self.packet(100, identifier))
            assert reset is not None
            assert reset[-16:] == token

    def test_another_key_gives_other_tokens(self) -> None:
        one, other = (
            Listener(own, Limits()).stateless_reset(self.packet(60))
            for own in (certificate(), self_signed("x"))
        )
        assert one is not None
        assert other is not None
        assert one[-16:] != other[-16:]
        assert reset_token(b"a", b"1") != reset_token(b"a", b"2")

    @pytest.mark.parametrize(("size", "answer"), [(21, None), (22, 21), (30, 29), (44, 43), (1200, 43)])
    def test_is_shorter_than_what_it_answers(self, size: int, answer: int | None) -> None:
        reset = listener().stateless_reset(self.packet(size))
        assert (None if reset is None else len(reset)) == answer
        assert reset is None or reset[0] & 0xC0 == 0x40

    def test_only_short_headers_are_answered(self) -> None:
        for head in (0x00, 0x80, 0xC0):
            assert listener().stateless_reset(bytes([head]) + bytes(100)) is None
