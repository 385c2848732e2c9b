"""The one writer: order, visibility, patience, and what neither cancellation nor a dead disk may do."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from app.protocol.answer import Response
from app.server.call import Call
from app.server.writes import Writer
from app.world.errors import NotSynced
from app.world.tokens import access
from app.world.world import Commit, World
from tests.unit.server.planted import silent


def call(path: str, body: bytes = b"x\n", verb: str = "PUBLISH", /, **metadata: str) -> Call:
    return Call(verb, path, metadata, body, access(None, None, 0.0), silent)


class Slow:
    """Holds a step of a world's commits until it is let go, in the thread that runs it."""

    def __init__(self) -> None:
        self.reached = trio.Event()
        self._go = threading.Event()

    def hold(self, step: Callable[..., object]) -> Callable[..., object]:
        token = trio.lowlevel.current_trio_token()

        def held(*arguments: object) -> object:
            token.run_sync_soon(self.reached.set)
            assert self._go.wait(10)
            return step(*arguments)

        return held

    def let_go(self) -> None:
        self._go.set()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World.open(str(tmp_path), log=silent)


def writer_of(world: World, patience: float = 10.0) -> Writer:
    return Writer(
        world, index=trio.Lock(), now=lambda: 1_800_000_000.0, patience=patience, grown=lambda: None
    )


async def test_writes_run_in_the_order_they_came(world: World) -> None:
    writer = writer_of(world)
    versions: list[str] = []

    async def append(number: int) -> None:
        answer = await writer.handle(call("/a.md", b"%d\n" % number), "me")
        versions.append(answer.metadata["version"])

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(append, number)
            await trio.testing.wait_all_tasks_blocked()
    assert versions == [str(number) for number in range(1, 11)]
    assert world.current("/a.md").body == b"9\n"


async def test_nothing_is_seen_before_the_version_is_safe_and_all_of_it_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow()
    writer = writer_of(world)
    monkeypatch.setattr(Commit, "settle", slow.hold(Commit.settle))
    async with trio.open_nursery() as nursery:
        answered: list[Response] = []

        async def write() -> None:
            answered.append(await writer.handle(call("/a.md", b"# Seen\n"), "me"))

        nursery.start_soon(write)
        await slow.reached.wait()
        # Shown, not settled: readers see it everywhere, and reads run on; the writer is not told yet.
        assert world.current("/a.md").body == b"# Seen\n"
        assert world.catalog.get("/a.md") is not None
        assert answered == []
        slow.let_go()
    assert answered[0].status == "created"


async def test_the_index_does_not_change_under_a_thread_that_reads_it(world: World) -> None:
    index = trio.Lock()
    writer = Writer(world, index=index, now=lambda: 0.0, patience=10.0, grown=lambda: None)
    async with trio.open_nursery() as nursery, index:
        nursery.start_soon(writer.handle, call("/a.md"), "me")
        await trio.sleep(0.2)
        assert world.catalog.get("/a.md") is None
    assert world.catalog.get("/a.md") is not None


async def test_a_cancelled_request_does_not_stop_its_write(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow()
    writer = writer_of(world)
    monkeypatch.setattr(world, "prepare_publish", slow.hold(world.prepare_publish))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.handle, call("/a.md"), "me")
        await slow.reached.wait()
        nursery.cancel_scope.cancel()
        slow.let_go()
    assert world.current("/a.md").version == 1


async def test_a_write_that_waits_is_cancelled_without_a_trace(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow()
    writer = writer_of(world)
    monkeypatch.setattr(world, "prepare_archive", slow.hold(world.prepare_archive))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.handle, call("/a.md", b"", "ARCHIVE"), "me")
        await slow.reached.wait()
        nursery.start_soon(writer.handle, call("/b.md"), "me")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        slow.let_go()
    assert len(world.catalog) == 0


async def test_the_wait_for_a_turn_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    writer = writer_of(world, patience=0.05)
    monkeypatch.setattr(world, "prepare_archive", slow.hold(world.prepare_archive))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.handle, call("/a.md", b"", "ARCHIVE"), "me")
        await slow.reached.wait()
        answer = await writer.handle(call("/b.md"), "me")
        slow.let_go()
    assert answer.status == "server-error"
    assert answer.body.endswith(b"timed out waiting for an earlier write; nothing was written\n")
    assert len(world.catalog) == 0


async def test_writes_that_wait_are_bounded_in_bytes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    writer = writer_of(world)
    monkeypatch.setattr("app.server.writes.WAITING_BYTES", 100)
    monkeypatch.setattr(world, "prepare_archive", slow.hold(world.prepare_archive))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.handle, call("/a.md", b"x" * 60, "ARCHIVE"), "me")
        await slow.reached.wait()
        refused = await writer.handle(call("/b.md", b"x" * 60), "me")
        nursery.start_soon(writer.handle, call("/c.md", b"x" * 40), "me")
        await trio.testing.wait_all_tasks_blocked()
        slow.let_go()
    assert refused.body.endswith(b"too many writes are waiting; nothing was written\n")
    assert [*world.catalog.paths()] == ["/c.md"]
    # One that is larger than the bound by itself still runs when nothing else does.
    assert (await writer.handle(call("/d.md", b"x" * 200), "me")).status == "created"


async def test_a_disk_that_never_answers_does_not_keep_the_process(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow()
    writer = writer_of(world)
    monkeypatch.setattr(world, "prepare_publish", slow.hold(world.prepare_publish))
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.handle, call("/a.md"), "me")
            await slow.reached.wait()
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await writer.close(0.05)
    slow.let_go()


async def test_closing_waits_for_the_running_write(world: World) -> None:
    writer = writer_of(world)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.handle, call("/a.md"), "me")
        await trio.testing.wait_all_tasks_blocked()
        await writer.close(5)
        assert world.current("/a.md").version == 1


async def test_a_change_that_is_current_but_not_synced_is_an_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(commit: Commit) -> None:
        raise NotSynced("/: Input/output error")

    monkeypatch.setattr(Commit, "settle", fail)
    answer = await writer_of(world).handle(call("/a.md"), "me")
    assert (answer.status, answer.body) == ("server-error", b"\n# Server error\n\ninternal error\n")
    assert world.catalog.get("/a.md") is not None


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", "created"),
        ("0", "created"),
        ("+0", "created"),
        ("-0", "created"),
        ("00", "created"),
        ("1", "conflict"),
        ("9223372036854775807", "conflict"),
        ("9223372036854775808", "bad-request"),
        ("-1", "bad-request"),
        ("0x0", "bad-request"),
        ("1_0", "bad-request"),
        (" 0", "bad-request"),
        ("0.0", "bad-request"),
        ("٠", "bad-request"),
        ("9" * 5000, "bad-request"),
    ],
)
async def test_expected_versions(world: World, text: str, status: str) -> None:
    answer = await writer_of(world).handle(call("/a.md", **{"expected-version": text}), "me")
    assert answer.status == status
