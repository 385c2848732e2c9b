"""The door to aioquic: the private names behind it, and what a connection tells its client."""

import inspect

import pytest
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import Limit, QuicConnection
from aioquic.quic.stream import QuicStream

from app.server.admission import Limits
from app.server.certificate import Certificate, self_signed
from app.server.quic import Connection, Listener
from app.server.strangers import VERSIONS, First, first, reset_token
from tests.unit.server.quic_pair import SERVER, Pair, Peer, certificate


def listener(own: Certificate | None = None) -> Listener:
    return Listener(own or certificate(), Limits(max_streams=7))


def opened() -> First:
    peer = Peer()
    peer.quic.connect(SERVER, 0.0)
    head = first(peer.send(0.0)[0])
    assert head is not None
    return head


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


def test_aioquic_speaks_the_versions_that_strangers_are_told() -> None:
    spoken = QuicConfiguration().supported_versions
    assert [number.to_bytes(4, "big") for number in spoken] == list(VERSIONS)


class TestResetTokens:
    def test_clients_are_given_those_of_the_key(self) -> None:
        pair = Pair()
        peer = pair.connect()
        pair.advance(1)
        identifiers = {identifier.cid for identifier in pair.session._connection._host_cids}
        given = {peer.quic._peer_cid.cid: peer.quic._peer_cid.stateless_reset_token}
        given |= {
            identifier.cid: identifier.stateless_reset_token for identifier in peer.quic._peer_cid_available
        }
        assert set(given) == identifiers
        key = listener().reset_key  # as after a restart
        assert given == {identifier: reset_token(key, identifier) for identifier in identifiers}

    def test_another_certificate_has_another_key(self) -> None:
        assert listener().reset_key == listener().reset_key
        assert listener().reset_key != listener(self_signed("x")).reset_key
