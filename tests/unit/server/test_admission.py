"""The rules of admission, on a clock that is a number."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.limits import BODY_MAX, REQUEST_MAX
from app.server.admission import Door, Limits, Patience, Rate, Throttle, Verdict, network_of


def test_defaults_are_those_of_the_contract() -> None:
    limits = Limits()
    assert (limits.max_streams, limits.idle_timeout, limits.request_timeout) == (10, 30.0, 10.0)
    assert (limits.rate, limits.burst, limits.patience) == (50.0, 100, 10.0)
    assert limits.request_bytes == REQUEST_MAX > BODY_MAX
    assert Limits(request_timeout=0).patience == 10.0


class TestRate:
    def test_a_burst_passes_at_once_and_the_next_waits(self) -> None:
        rate = Rate(50, 100, 10, 8)
        assert [rate.take("a", 5.0) for _ in range(100)] == [0.0] * 100
        assert rate.take("a", 5.0) == pytest.approx(1 / 50)
        assert rate.take("a", 5.0) == pytest.approx(2 / 50)

    def test_promised_tokens_come_at_the_rate(self) -> None:
        rate = Rate(2, 1, 10, 8)
        arrivals = [0.0, 0.0, 0.0, 0.1, 0.2]
        starts = [now + (rate.take("a", now) or 0) for now in arrivals]
        assert starts == pytest.approx([0, 0.5, 1.0, 1.5, 2.0])

    def test_a_longer_wait_than_the_patience_is_refused_and_costs_nothing(self) -> None:
        rate = Rate(1, 1, 2.0, 8)
        assert [rate.take("a", 0) for _ in range(4)] == [0, 1, 2, None]
        assert [rate.take("a", 0) for _ in range(50)] == [None] * 50
        assert rate.take("a", 1.0) == 2.0

    def test_tokens_are_saved_up_to_the_burst(self) -> None:
        rate = Rate(10, 3, 0, 8)
        assert [rate.take("a", 0) for _ in range(4)] == [0, 0, 0, None]
        assert [rate.take("a", 3600) for _ in range(4)] == [0, 0, 0, None]

    def test_addresses_have_buckets_of_their_own(self) -> None:
        rate = Rate(1, 1, 0, 8)
        assert (rate.take("a", 0), rate.take("b", 0), rate.take("a", 0)) == (0, 0, None)

    def test_the_table_is_bounded_and_keeps_those_seen_last(self) -> None:
        rate = Rate(1, 1, 0, 3)
        for address in ("busy", "1", "2", "busy", "3", "4", "busy", "5", "6"):
            rate.take(address, 0)
        assert len(rate) == 3
        assert rate.take("busy", 0) is None

    def test_rate_0_is_no_limit_and_keeps_nothing(self) -> None:
        rate = Rate(0, 0, 0, 8)
        assert [rate.take("a", 0) for _ in range(1000)] == [0.0] * 1000
        assert len(rate) == 0

    @settings(deadline=None, max_examples=100)
    @given(st.lists(st.floats(0, 0.2), max_size=200), st.floats(1, 100), st.integers(1, 20))
    def test_in_no_interval_more_than_burst_and_rate_allow(
        self, gaps: list[float], speed: float, burst: int
    ) -> None:
        rate = Rate(speed, burst, 3.0, 8)
        now, starts = 0.0, []
        for gap in gaps:
            now += gap
            wait = rate.take("a", now)
            if wait is not None:
                assert 0 <= wait <= 3.0
                starts.append(now + wait)
        assert starts == sorted(starts)
        for first in range(0, len(starts), 7):
            for last in range(first, len(starts), 5):
                assert last - first + 1 <= burst + speed * (starts[last] - starts[first]) + 1e-6


class TestDoor:
    def test_strangers_prove_their_address_when_handshakes_pile_up(self) -> None:
        door = Door(Limits(retry_above=3, half_open=5))
        for index in range(3):
            assert door.judge(f"10.0.0.{index}", 0, proved=False) is Verdict.ACCEPT
            door.enter(f"10.0.0.{index}")
        assert door.judge("10.0.0.9", 0, proved=False) is Verdict.RETRY
        assert door.judge("10.0.0.9", 0, proved=True) is Verdict.ACCEPT
        door.confirm()
        assert door.judge("10.0.0.9", 0, proved=False) is Verdict.ACCEPT
        assert (door.connections, door.half_open, door.retried, door.refused) == (3, 2, 1, 0)

    def test_strangers_prove_their_address_after_many_first_flights_without_sense(self) -> None:
        door = Door(Limits())
        for _ in range(20):
            door.forged(5.0)
            assert door.judge("a", 5.0, proved=False) is Verdict.ACCEPT
        door.forged(5.0)
        assert door.judge("a", 5.0, proved=False) is Verdict.RETRY
        assert door.judge("a", 5.0, proved=True) is Verdict.ACCEPT
        assert door.judge("a", 14.9, proved=False) is Verdict.RETRY
        assert door.judge("a", 15.0, proved=False) is Verdict.ACCEPT

    def test_a_few_first_flights_without_sense_raise_no_suspicion(self) -> None:
        door = Door(Limits())
        for count in range(500):
            door.forged(count / 4)
            assert door.judge("a", count / 4, proved=False) is Verdict.ACCEPT

    def test_an_address_does_not_prove_itself_without_end(self) -> None:
        door = Door(Limits())
        verdicts = [door.judge("2001:db8::1", 0, proved=True) for _ in range(60)]
        assert verdicts == [Verdict.ACCEPT] * 50 + [Verdict.IGNORE] * 10
        assert door.judge("2001:db8::2", 0, proved=True) is Verdict.IGNORE
        assert door.judge("192.0.2.1", 0, proved=True) is Verdict.ACCEPT
        assert door.judge("2001:db8::1", 1, proved=True) is Verdict.ACCEPT

    @pytest.mark.parametrize(
        ("limits", "others"),
        [
            (Limits(max_connections=2), "ab"),
            (Limits(half_open=2), "ab"),
            (Limits(per_address=2), "cc"),
        ],
    )
    def test_where_it_is_full_only_who_proved_his_address_may_take_a_place(
        self, limits: Limits, others: str
    ) -> None:
        door = Door(limits)
        for address in others:
            assert not door.full("c")
            door.enter(address)
        assert door.full("c")
        assert door.judge("c", 0, proved=False) is Verdict.RETRY
        assert door.judge("c", 0, proved=True) is Verdict.ACCEPT
        door.leave(others[0], confirmed=False)
        assert not door.full("c")
        assert door.judge("c", 0, proved=False) is Verdict.ACCEPT

    def test_an_address_has_a_share(self) -> None:
        door = Door(Limits(per_address=2))
        for _ in range(2):
            door.enter("192.0.2.1")
        assert (door.full("192.0.2.1"), door.full("192.0.2.2")) == (True, False)
        assert (door.held("192.0.2.1"), door.held("192.0.2.2")) == (2, 0)

    def test_whose_end_makes_room(self) -> None:
        def yielding(door: Door) -> list[bool]:
            return [
                door.makes_room(other, "2001:db8::9", confirmed=confirmed)
                for other in ("2001:db8::1", "a")
                for confirmed in (True, False)
            ]

        door = Door(Limits(max_connections=2, half_open=2, per_address=2))
        door.enter("a")
        door.confirm()
        door.enter("b")
        assert yielding(door) == [True, True, True, True]
        door.enter("c")
        assert yielding(door) == [False, True, False, True]
        for _ in range(2):
            door.enter("2001:db8::2")
        assert yielding(door) == [True, True, False, False]

    def test_nothing_is_left_of_those_who_left(self) -> None:
        door = Door(Limits())
        for confirmed in (True, False):
            door.enter("2001:db8::1")
            if confirmed:
                door.confirm()
            door.leave("2001:db8::2", confirmed=confirmed)
        assert (door.connections, door.half_open, door._per_network) == (0, 0, {})


class TestPatience:
    def test_all_are_heard_until_the_time_saved_up_is_spent(self) -> None:
        patience = Patience()
        assert patience.all_heard(0.0)
        patience.spend(0.049)
        assert patience.all_heard(0.0)
        patience.spend(0.002)
        assert not patience.all_heard(0.0)
        assert patience.all_heard(0.01)

    def test_no_more_than_the_share_is_spent_and_no_more_than_a_moment_saved(self) -> None:
        patience, spent = Patience(), 0.0
        for step in range(1000):
            if patience.all_heard(100 + step / 100):
                patience.spend(0.005)
                spent += 0.005
        assert spent == pytest.approx(10 / 3, abs=0.1)
        assert patience.all_heard(10_000)
        patience.spend(0.051)
        assert not patience.all_heard(10_000)

    def test_who_asks_again_is_heard_from_the_reserve(self) -> None:
        patience = Patience()
        patience.all_heard(7.0)
        patience.spend(0.05)
        assert not patience.all_heard(7.0)
        assert not patience.asks_again("a", 7.0)
        assert patience.asks_again("a", 7.2)
        patience.spend(0.05)
        assert not patience.asks_again("a", 7.3)
        patience.all_heard(7.4)
        assert patience.asks_again("a", 7.4)

    @pytest.mark.parametrize("begun", [0.0, 1.9, 507.0, 509.9, 1e9])
    def test_nobody_is_remembered_for_long(self, begun: float) -> None:
        patience = Patience()
        assert not patience.asks_again("a", begun)
        assert patience.asks_again("a", begun + 1.9)
        assert not patience.asks_again("a", begun + 6.0)

    def test_a_flood_is_not_taken_for_people_who_ask_again(self) -> None:
        patience = Patience()
        taken = sum(patience.asks_again(number.to_bytes(8, "big"), 1.0) for number in range(20_000))
        assert taken < 2000


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:0:0:1", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::1", "::1", True),
    ],
)
def test_an_ipv6_host_is_its_64(one: str, other: str, same: bool) -> None:
    assert (network_of(one) == network_of(other)) is same


def test_throttle_counts_what_it_holds_back() -> None:
    throttle = Throttle(60)
    assert [throttle.admit(now) for now in (0, 1, 59.9, 60, 61, 300)] == [0, None, None, 2, None, 1]
