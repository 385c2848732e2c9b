"""Work on request: asked for during a run it is done once more, and outcomes belong to the question."""

import trio
import trio.testing

from app.server.rounds import Rounds


async def test_what_is_asked_during_a_run_is_one_run_more(autojump_clock: trio.testing.MockClock) -> None:
    began: list[float] = []

    async def work() -> int:
        began.append(trio.current_time())
        await trio.sleep(1)
        return len(began)

    rounds = Rounds(work, 0.5)
    start = trio.current_time()
    first = rounds.ask()
    assert rounds.ask() is first
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rounds.run)
        await trio.sleep(0.1)
        asked = [rounds.ask() for _ in range(50)]
        assert set(asked) == {asked[0]}
        assert asked[0] is not first
        assert await first.outcome() == 1
        assert await asked[-1].outcome() == 2
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    assert [moment - start for moment in began] == [0.0, 1.5]


async def test_the_last_of_many_is_never_lost(autojump_clock: trio.testing.MockClock) -> None:
    began: list[float] = []

    async def work() -> None:
        began.append(trio.current_time())

    rounds = Rounds(work, 0.1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rounds.run)
        for _ in range(50):
            rounds.ask()
            await trio.sleep(0.02)
        last = trio.current_time()
        rounds.ask()
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    assert len(began) <= 12
    assert began[-1] >= last
