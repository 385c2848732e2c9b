"""The session: requests, answers, limits and deadlines of one connection, against aioquic's client, with the clock in hand."""

import pytest
import trio

from app.server.datagrams import Datagram
from app.server.exchange import PIECE, Exchange
from app.server.session import AHEAD, RATE_LIMITED
from tests.unit.server.quic_pair import Pair, Peer, echo, stream_frame, varint

MIB = 1 << 20
FLOW_CONTROL_ERROR = 3
STREAM_LIMIT_ERROR = 4
FINAL_SIZE_ERROR = 6


def keep(exchange: Exchange) -> None:
    """A handler that will answer later."""


def stubborn(peer: Peer) -> Peer:
    """A client that never opens its windows further: it acknowledges and does not read."""
    peer.quic._write_stream_limits = lambda **_: None  # type: ignore[method-assign]
    peer.quic._write_connection_limits = lambda **_: None  # type: ignore[method-assign]
    return peer


def close_code(peer: Peer) -> int | None:
    closed = peer.closed()
    return None if closed is None else closed[0]


class TestRequests:
    def test_a_request_is_handed_over_and_its_answer_ends_the_stream(self) -> None:
        pair = Pair()
        peer = pair.connect()
        stream = peer.ask(b"FETCH /")
        pair.pump()
        assert [exchange.request for exchange in pair.handed] == [b"FETCH /"]
        assert pair.handed[0].peer == "192.0.2.7"
        assert (peer.answers, peer.ended) == ({stream: b"FETCH /"}, {stream})

    def test_nothing_is_left_of_an_answered_request(self) -> None:
        pair = Pair()
        peer = pair.connect()
        for _ in range(50):
            peer.ask(b"FETCH /")
            pair.pump()
        pair.advance(1)
        assert len(peer.ended) == 50
        assert (
            pair.session.streams,
            pair.session.queued,
            pair.shared.queued.used,
            pair.shared.held.used,
        ) == (0, 0, 0, 0)

    def test_a_stream_without_a_byte_is_a_request(self) -> None:
        pair = Pair(lambda exchange: exchange.send(b"nothing came"))
        peer = pair.connect()
        stream = peer.ask(b"")
        pair.pump()
        assert (pair.handed[0].request, pair.handed[0].fault) == (b"", "")
        assert peer.answers[stream] == b"nothing came"

    def test_an_empty_answer_ends_the_stream(self) -> None:
        pair = Pair(lambda exchange: exchange.send(b""))
        peer = pair.connect()
        stream = peer.ask(b"x")
        pair.advance(1)
        assert (peer.answers, peer.ended) == ({stream: b""}, {stream})
        assert pair.session.streams == 0

    def test_a_request_that_comes_byte_by_byte(self) -> None:
        pair = Pair()
        peer = pair.connect()
        stream = peer.ask(b"F", end=False)
        for byte in b"ETCH /":
            pair.pump()
            assert pair.handed == []
            peer.quic.send_stream_data(stream, bytes([byte]))
        peer.quic.send_stream_data(stream, b"", end_stream=True)
        pair.pump()
        assert peer.answers[stream] == b"FETCH /"
        assert pair.shared.held.used == 0

    def test_a_request_in_tiny_frames_is_held_in_one_buffer(self) -> None:
        pair = Pair()
        peer = pair.connect()
        peer.ask(b"P", end=False)
        pair.pump()
        for start in range(1, 2000, 100):
            peer.forge(b"".join(stream_frame(0, b"x", offset=at) for at in range(start, start + 100)))
            pair.pump()
        (exchange,) = pair.session._exchanges.values()
        assert exchange.part == b"P" + b"x" * 2000
        assert pair.shared.held.used == 2001

    def test_pieces_in_any_order(self) -> None:
        pair = Pair()
        peer = pair.connect()
        for frame in (
            stream_frame(0, b"CH /", offset=3, fin=True),
            stream_frame(0, b"T", offset=2),
            stream_frame(0, b"FET"),
        ):
            peer.forge(frame)
            pair.pump()
        assert [exchange.request for exchange in pair.handed] == [b"FETCH /"]

    def test_many_requests_at_once_answered_in_another_order(self) -> None:
        pair = Pair(keep)
        peer = pair.connect()
        streams = [peer.ask(b"%d" % number) for number in range(10)]
        pair.pump()
        for exchange in reversed(pair.handed):
            echo(exchange)
        pair.pump()
        assert [peer.answers[stream] for stream in streams] == [b"%d" % number for number in range(10)]

    def test_more_requests_than_streams_wait_in_the_client(self) -> None:
        pair = Pair(max_streams=2, rate=0)
        peer = pair.connect()
        streams = [peer.ask(b"%d" % number) for number in range(300)]
        pair.advance(2)
        assert peer.ended == set(streams)

    def test_an_answer_computed_later_leaves_at_once(self) -> None:
        pair = Pair(keep)
        peer = pair.connect()
        peer.ask(b"x")
        pair.advance(3)
        heard = peer.heard
        pair.handed[0].send(b"late")
        assert peer.heard > heard
        assert peer.answers == {0: b"late"}

    def test_an_answer_in_pieces_over_time(self) -> None:
        pair = Pair(keep)
        peer = pair.connect()
        peer.ask(b"WATCH /")
        pair.pump()
        for piece in (b"one,", b"two,", b""):
            pair.handed[0].send(piece, end=False)
            pair.advance(12)
        assert (peer.answers, peer.ended) == ({0: b"one,two,"}, set())
        assert (pair.session.streams, pair.session.queued) == (1, 0)
        pair.handed[0].send(b"three")
        pair.advance(1)
        assert (peer.answers, peer.ended) == ({0: b"one,two,three"}, {0})
        assert pair.session.streams == 0

    def test_what_is_sent_after_the_end_is_dropped(self) -> None:
        pair = Pair()
        peer = pair.connect()
        peer.ask(b"x")
        pair.pump()
        pair.handed[0].send(b"more")
        pair.handed[0].reset()
        pair.advance(1)
        assert (peer.answers, peer.resets) == ({0: b"x"}, {})

    def test_an_answer_broken_off_is_a_reset(self) -> None:
        pair = Pair(lambda exchange: exchange.send(b"begun", end=False))
        peer = pair.connect()
        peer.ask(b"x")
        pair.pump()
        pair.handed[0].reset()
        pair.advance(1)
        assert (peer.resets, pair.handed[0].gone, pair.session.streams, pair.session.queued) == (
            {0: 0},
            True,
            0,
            0,
        )

    async def test_waiting_for_delivery(self) -> None:
        pair = Pair(keep)
        peer = pair.connect()
        peer.ask(b"x")
        pair.pump()
        (exchange,) = pair.handed
        outcomes: list[bool] = []

        async def send() -> None:
            exchange.send(bytes(3 * PIECE), end=False)
            outcomes.append(await exchange.wait_sent())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await trio.testing.wait_all_tasks_blocked()
            assert outcomes == []
            pair.advance(1)
        assert outcomes == [True]
        async with trio.open_nursery() as nursery:
            peer.deaf = True
            nursery.start_soon(send)
            await trio.testing.wait_all_tasks_blocked()
            pair.session.end()
        assert outcomes == [True, False]
        await exchange.wait_gone()


class TestSizes:
    def test_the_largest_request_is_read_and_one_byte_more_is_not(self) -> None:
        pair = Pair(
            lambda exchange: exchange.send(exchange.fault.encode() or b"%d" % len(exchange.request)),
            request_bytes=300_000,
        )
        peer = pair.connect()
        fits, exceeds = peer.ask(bytes(300_000)), peer.ask(bytes(300_001))
        pair.advance(2)
        assert (peer.answers[fits], peer.answers[exceeds]) == (b"300000", b"unreadable")
        assert pair.shared.held.used == 0

    def test_a_request_without_end_is_cut_off_and_its_stream_comes_back(self) -> None:
        pair = Pair(request_bytes=100_000, max_streams=1, rate=0)
        peer = pair.connect()
        for _ in range(5):
            stream = peer.ask(bytes(150_000), end=False)
            pair.advance(1)
            assert (peer.answers[stream], peer.stops[stream]) == (b"unreadable", 0)
        assert peer.closed() is None
        assert (pair.session.streams, pair.shared.held.used) == (0, 0)

    def test_going_on_after_that_closes_the_connection(self) -> None:
        pair = Pair(request_bytes=100_000)
        peer = pair.connect()
        peer.ask(b"PUBLISH", end=False)
        pair.pump()
        for offset in range(7, 250_000, 1000):
            if peer.closed() is None:
                peer.forge(stream_frame(0, bytes(1000), offset=offset))
                pair.pump()
        assert close_code(peer) in (FLOW_CONTROL_ERROR, FINAL_SIZE_ERROR)
        assert pair.shared.held.used == 0

    def test_many_megabytes_through_a_small_window(self) -> None:
        pair = Pair(rate=0)
        peer = pair.connect()
        for _ in range(5):
            peer.ask(bytes(MIB))
            pair.advance(2)
            assert (
                pair.session._connection._local_max_data.value - pair.session._connection._local_max_data.used
                <= 256 * 1024
            )
        assert len(peer.ended) == 5

    def test_bytes_at_doubling_offsets_cost_no_more_than_the_window(self) -> None:
        pair = Pair()
        peer = pair.connect()
        for power in range(10, 40):
            if peer.closed() is None:
                peer.forge(stream_frame(0, b"x", offset=1 << power))
                pair.pump()
            streams = pair.session._connection._streams.values() if pair.sessions else ()
            assert sum(len(stream.receiver._buffer) for stream in streams) <= pair.limits.receive_window
        assert close_code(peer) == FLOW_CONTROL_ERROR

    def test_gaps_that_are_reset_do_not_eat_the_window(self) -> None:
        pair = Pair(rate=0, max_streams=4)
        peer = pair.connect()
        for number in range(50):
            stream = peer.ask(b"x", end=False)
            pair.pump()
            peer.forge(stream_frame(stream, b"x", offset=100_000))
            pair.pump()
            peer.quic._streams[stream].sender.highest_offset = 100_001
            peer.quic.reset_stream(stream, 0)
            pair.advance(0.2)
            assert peer.closed() is None, number
        last = peer.ask(b"still here")
        pair.pump()
        assert peer.answers[last] == b"still here"

    def test_when_memory_for_requests_is_spent_small_ones_are_still_read(self) -> None:
        pair = Pair(held_total=200_000, held_small=1000, rate=0)
        peer = pair.connect()
        held = peer.ask(bytes(150_000), end=False)
        pair.pump()
        large, small = peer.ask(bytes(60_000)), peer.ask(b"small")
        pair.advance(1)
        assert (peer.answers[large], peer.answers[small]) == (b"unreadable", b"small")
        peer.quic.send_stream_data(held, b"", end_stream=True)
        pair.advance(1)
        assert len(peer.answers[held]) == 150_000
        assert pair.shared.held.used == 0

    def test_a_request_is_held_until_it_is_answered(self) -> None:
        pair = Pair(keep)
        peer = pair.connect()
        peer.ask(bytes(50_000))
        pair.advance(1)
        assert pair.shared.held.used == 50_000
        echo(pair.handed[0])
        pair.advance(1)
        assert pair.shared.held.used == 0


class TestDeadlines:
    def test_a_request_that_does_not_arrive_is_answered_as_unreadable(self) -> None:
        pair = Pair(request_timeout=10)
        peer = pair.connect()
        slow, other = peer.ask(b"PUB", end=False), peer.ask(b"x")
        pair.advance(9.5)
        assert list(peer.answers) == [other]
        pair.advance(1)
        assert peer.answers[slow] == b"unreadable"
        assert pair.handed[-1].request == b""
        pair.advance(1)
        assert pair.session.streams == 0

    def test_no_deadline_where_none_is_set(self) -> None:
        pair = Pair(request_timeout=0, idle_timeout=3600)
        peer = pair.connect(Peer(idle_timeout=3600))
        slow = peer.ask(b"PUB", end=False)
        pair.advance(1000)
        assert peer.answers == {}
        peer.quic.send_stream_data(slow, b"LISH", end_stream=True)
        pair.pump()
        assert peer.answers[slow] == b"PUBLISH"

    def test_a_handshake_that_is_not_finished_is_forgotten(self) -> None:
        pair = Pair(handshake_timeout=8)
        peer = Peer()
        pair.peers.append(peer)
        peer.quic.connect(("192.0.2.1", 6309), pair.now)
        peer.deaf = True
        pair.advance(7)
        assert len(pair.sessions) == 1
        pair.advance(2)
        assert (pair.sessions, pair.shared.routes) == ([], {})

    def test_a_client_that_vanished_is_forgotten_after_the_idle_timeout(self) -> None:
        pair = Pair(idle_timeout=30)
        peer = pair.connect()
        peer.deaf = True
        pair.advance(29)
        assert len(pair.sessions) == 1
        pair.advance(35)
        assert (pair.sessions, pair.shared.routes) == ([], {})

    def test_pings_keep_a_connection(self) -> None:
        pair = Pair(idle_timeout=30)
        peer = pair.connect()
        for number in range(10):
            pair.advance(25)
            peer.quic.send_ping(number)
        assert len(pair.sessions) == 1


class TestRateLimit:
    def test_a_request_over_the_rate_waits_for_its_token(self) -> None:
        pair = Pair(rate=2, burst=3)
        peer = pair.connect()
        for number in range(5):
            peer.ask(b"%d" % number)
        pair.pump()
        assert len(pair.handed) == 3
        pair.advance(0.5)
        assert len(pair.handed) == 4
        pair.advance(0.5)
        assert [exchange.request for exchange in pair.handed] == [b"0", b"1", b"2", b"3", b"4"]

    def test_the_time_to_arrive_begins_with_the_token(self) -> None:
        pair = Pair(rate=0.2, burst=1, request_timeout=5)
        peer = pair.connect()
        peer.ask(b"first")
        slow = peer.ask(b"PUB", end=False)
        pair.advance(9)
        assert slow not in peer.answers
        pair.advance(1.5)
        assert peer.answers[slow] == b"unreadable"

    def test_a_request_without_a_token_in_time_is_refused_unread(self) -> None:
        pair = Pair(rate=1, burst=1, request_timeout=1.5)
        peer = pair.connect()
        streams = [peer.ask(b"%d" % number) for number in range(4)]
        pair.pump()
        assert [len(pair.handed), pair.refusals] == [1, ["192.0.2.7"] * 2]
        assert [peer.answers.get(stream) for stream in streams] == [b"0", None, RATE_LIMITED, RATE_LIMITED]
        pair.advance(2)
        assert peer.answers[streams[1]] == b"1"

    @pytest.mark.parametrize("end", [True, False])
    def test_a_refused_stream_returns_its_credit(self, end: bool) -> None:
        pair = Pair(rate=0.01, burst=1, max_streams=2)
        peer = pair.connect()
        streams = [peer.ask(b"x" * 5000, end=end) for _ in range(40)]
        pair.advance(3)
        assert [peer.answers.get(stream) for stream in streams[1:]] == [RATE_LIMITED] * 39
        assert pair.session.streams <= 1

    def test_connections_of_one_address_share_a_bucket(self) -> None:
        pair = Pair(rate=0.01, burst=2)
        peers = [pair.connect(Peer(("192.0.2.7", port))) for port in (1, 2, 3)]
        stranger = pair.connect(Peer(("192.0.2.8", 1)))
        for peer in (*peers, stranger):
            peer.ask(b"x")
            pair.pump()
        assert [peer.answers[0] for peer in (*peers, stranger)] == [b"x", b"x", RATE_LIMITED, b"x"]


class TestClientsThatChangeTheirMind:
    def test_resets_return_their_credit(self) -> None:
        pair = Pair(max_streams=3, rate=0)
        peer = pair.connect()
        for _ in range(30):
            stream = peer.ask(b"PUBLISH /a", end=False)
            pair.pump()
            peer.quic.reset_stream(stream, 0)
            pair.advance(0.2)
        last = peer.ask(b"x")
        pair.pump()
        assert peer.answers[last] == b"x"
        assert ([exchange.request for exchange in pair.handed], pair.shared.held.used) == ([b"x"], 0)

    def test_a_reset_of_a_stream_without_data_returns_its_credit(self) -> None:
        pair = Pair(max_streams=1, rate=0)
        peer = pair.connect()
        for number in range(5):
            peer.quic.reset_stream(4 * number, 0)
            pair.advance(0.2)
        last = peer.ask(b"x")
        pair.pump()
        assert peer.answers[last] == b"x"

    def test_stop_sending_before_the_answer_is_survived(self) -> None:
        pair = Pair(keep, max_streams=2, rate=0)
        peer = pair.connect()
        for number in range(10):
            stream = peer.ask(b"x")
            pair.pump()
            peer.quic.stop_stream(stream, 0)
            for _ in range(3):
                pair.pump()
                peer.forge(b"\x05" + varint(stream) + b"\x00")
            assert pair.handed[number].gone
            pair.handed[number].send(bytes(MIB))
            pair.advance(0.2)
        assert (peer.answers, pair.session.streams, pair.session.queued) == ({}, 0, 0)

    def test_stop_sending_in_the_middle_of_a_large_answer(self) -> None:
        pair = Pair(lambda exchange: exchange.send(bytes(MIB)))
        peer = stubborn(pair.connect(Peer(max_stream_data=50_000)))
        stream = peer.ask(b"x")
        pair.pump()
        assert pair.session.queued > MIB / 2
        peer.quic.stop_stream(stream, 0)
        pair.advance(1)
        assert (pair.handed[0].gone, pair.session.queued, pair.shared.queued.used) == (True, 0, 0)

    def test_stop_sending_while_the_request_arrives(self) -> None:
        pair = Pair(max_streams=1, rate=0)
        peer = pair.connect()
        for _ in range(5):
            stream = peer.ask(b"PUBLISH", end=False)
            pair.pump()
            peer.quic.stop_stream(stream, 0)
            pair.advance(0.2)
        assert (pair.handed, pair.session.streams, pair.shared.held.used) == ([], 0, 0)
        last = peer.ask(b"x")
        pair.pump()
        assert peer.answers[last] == b"x"

    def test_a_request_reset_in_the_turn_that_answers_it(self) -> None:
        pair = Pair()
        peer = pair.connect()
        peer.forge(stream_frame(0, b"x", fin=True) + b"\x05\x00\x00")
        pair.pump()
        assert len(pair.handed) == 1
        assert pair.session.queued == 0

    def test_a_client_that_closes_leaves_nothing(self) -> None:
        pair = Pair(keep)
        peer = pair.connect()
        peer.ask(b"x")
        pair.pump()
        peer.quic.close()
        pair.advance(3)
        assert (pair.sessions, pair.shared.routes, pair.handed[0].gone) == ([], {}, True)
        pair.handed[0].send(b"too late")


class TestAnswers:
    def test_aioquic_never_holds_more_than_a_few_pieces(self) -> None:
        pair = Pair(lambda exchange: exchange.send(bytes(4 * MIB)), rate=0)
        peer = stubborn(pair.connect(Peer(max_stream_data=100_000)))
        stream = peer.ask(b"x")
        pair.advance(1)
        assert AHEAD - PIECE <= pair.session._connection.unacknowledged(stream) <= AHEAD + PIECE

    def test_bursts_are_short(self) -> None:
        pair = Pair(lambda exchange: exchange.send(bytes(2 * MIB)), rate=0)
        peer = pair.connect()
        bursts: list[int] = []
        genuine = pair.session.settle

        def settle(now: float) -> list[Datagram]:
            datagrams = genuine(now)
            bursts.append(len(datagrams))
            return datagrams

        pair.session.settle = settle  # type: ignore[method-assign]
        stream = peer.ask(b"x")
        pair.advance(3)
        assert stream in peer.ended
        assert max(bursts) <= 32

    def test_an_answer_that_nobody_takes_ends_the_connection(self) -> None:
        pair = Pair(lambda exchange: exchange.send(bytes(MIB)), write_deadline=10)
        peer = stubborn(pair.connect(Peer(max_stream_data=50_000)))
        peer.ask(b"x")
        pair.advance(9)
        assert peer.closed() is None
        pair.advance(2)
        assert peer.closed() == (0, "server closed")
        assert (pair.sessions, pair.shared.queued.used, pair.handed[0].gone) == ([], 0, True)

    def test_an_answer_that_nobody_acknowledges_ends_the_connection(self) -> None:
        pair = Pair(lambda exchange: exchange.send(b"short"), write_deadline=10, idle_timeout=600)
        peer = pair.connect()
        peer.ask(b"x")
        for datagram in peer.send(pair.now):
            peer.forged.append(datagram)
        peer.deaf = True
        pair.advance(12)
        assert (pair.sessions, pair.shared.queued.used) == ([], 0)

    def test_a_slow_reader_keeps_its_connection(self) -> None:
        pair = Pair(lambda exchange: exchange.send(bytes(5 * PIECE)), write_deadline=10)
        peer = stubborn(pair.connect(Peer(max_stream_data=PIECE)))
        stream = peer.ask(b"x")
        for step in range(1, 8):
            pair.advance(8)
            limit = (step + 1) * PIECE
            peer.quic._streams[stream].max_stream_data_local = limit
            peer.forge(b"\x11\x00" + (limit | 0x80000000).to_bytes(4, "big"))
            pair.advance(0.5)
            if stream in peer.ended:
                break
        assert (peer.closed(), stream in peer.ended) == (None, True)

    def test_a_stream_that_is_not_read_does_not_hold_up_the_others(self) -> None:
        pair = Pair(
            lambda exchange: exchange.send(bytes(MIB if exchange.request == b"large" else 20_000)), rate=0
        )
        peer = stubborn(pair.connect(Peer(max_stream_data=50_000)))
        blocked = peer.ask(b"large")
        pair.advance(1)
        for _ in range(5):
            stream = peer.ask(b"small")
            pair.pump()
            assert stream in peer.ended
        assert blocked not in peer.ended

    def test_requests_wait_while_the_client_takes_no_answers(self) -> None:
        pair = Pair(
            lambda exchange: exchange.send(bytes(MIB)),
            queued_per_connection=2 * MIB - 200_000,
            write_deadline=60,
            rate=0,
        )
        peer = stubborn(pair.connect(Peer(max_stream_data=50_000, max_data=1 << 30)))
        streams = [peer.ask(b"x") for _ in range(6)]
        pair.advance(1)
        assert len(pair.handed) == 2
        peer.quic.stop_stream(streams[0], 0)
        pair.pump()
        assert len(pair.handed) == 3
        assert pair.shared.queued.used == pair.session.queued <= 2 * MIB

    def test_waiting_requests_run_when_answers_are_taken(self) -> None:
        pair = Pair(lambda exchange: exchange.send(bytes(MIB)), queued_per_connection=MIB, rate=0)
        peer = pair.connect()
        streams = {peer.ask(b"x") for _ in range(6)}
        pair.advance(3)
        assert peer.ended == streams


class TestConnections:
    def test_more_streams_than_allowed_close_the_connection(self) -> None:
        pair = Pair(max_streams=10)
        peer = pair.connect()
        peer.forge(stream_frame(4 * 9, b"x"))
        pair.pump()
        assert peer.closed() is None
        peer.forge(stream_frame(4 * 10, b"x"))
        pair.pump()
        assert close_code(peer) == STREAM_LIMIT_ERROR

    def test_one_way_streams_are_not_allowed(self) -> None:
        pair = Pair()
        peer = pair.connect()
        peer.forge(stream_frame(2, b"x"))
        pair.pump()
        assert close_code(peer) == STREAM_LIMIT_ERROR

    def test_a_first_flight_that_cannot_be_decrypted_is_forgotten_at_once(self) -> None:
        pair = Pair()
        peer = Peer()
        pair.peers.append(peer)
        peer.quic.connect(("192.0.2.1", 6309), pair.now)
        (first,) = peer.send(pair.now)
        peer.forged.append(first[:100] + bytes([first[100] ^ 1]) + first[101:])
        pair.pump()
        assert (pair.sessions, pair.shared.routes) == ([], {})

    def test_connection_ids_come_and_go(self) -> None:
        pair = Pair(rate=0)
        peer = pair.connect()
        before = set(pair.shared.routes)
        assert len(before) == 8
        for _ in range(20):
            peer.quic.change_connection_id()
            stream = peer.ask(b"x")
            pair.pump()
            assert peer.answers[stream] == b"x"
        assert len(pair.shared.routes) == 8
        assert not before & set(pair.shared.routes)
        pair.session.end()
        assert pair.shared.routes == {}

    def test_a_client_whose_address_changes_goes_on(self) -> None:
        pair = Pair(keep)
        peer = pair.connect()
        peer.ask(b"one")
        pair.pump()
        peer.address = ("198.51.100.9", 6000)
        peer.ask(b"two")
        pair.pump()
        for exchange in pair.handed:
            echo(exchange)
        pair.advance(1)
        assert (peer.answers, len(pair.sessions)) == ({0: b"one", 4: b"two"}, 1)

    def test_every_second_packet_missing_is_no_harm(self) -> None:
        pair = Pair(rate=0)
        peer = pair.connect()
        for _ in range(300):
            peer.quic._packet_number += 1
            peer.quic.send_ping(0)
            pair.pump()
        stream = peer.ask(b"x")
        pair.pump()
        assert peer.answers[stream] == b"x"

    def test_while_draining_a_new_stream_is_answered_with_nothing(self) -> None:
        pair = Pair(keep, max_streams=2)
        peer = pair.connect()
        running = peer.ask(b"running")
        pair.pump()
        pair.shared.draining = True
        late = [peer.ask(b"late"), peer.ask(b"half", end=False), peer.ask(b"late")]
        pair.advance(1)
        assert [peer.answers.get(stream) for stream in late] == [b""] * 3
        assert set(late) <= peer.ended
        assert (pair.session.running(), pair.session.arriving()) == (1, 0)
        echo(pair.handed[0])
        pair.advance(1)
        assert peer.answers[running] == b"running"
        assert pair.session.running() == 0

    def test_frames_that_nobody_understands_close_the_connection(self) -> None:
        for frames in (
            b"\x21",
            b"\x08",
            b"\x0a\x00",
            b"\x06\x00\x41\x00",
            b"\x18\x00\x00\x00",
            b"\x1e",
            b"\x02\x00\x00\x00\x41",
        ):
            pair = Pair()
            peer = pair.connect()
            peer.forge(frames + b"\xff" * 8)
            pair.pump()
            assert close_code(peer), frames
            pair.advance(2)
            assert pair.shared.routes == {}
