"""LOOKUP through the dispatcher: keys and form in task mode, order of the checks, and others' turns in every mode (task §2, §12.1, §14)."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from app.protocol.answer import Response
from app.protocol.limits import RESPONSE_MAX
from app.protocol.message import Request, encode_request, encode_response
from app.protocol.tables import parse_lookup_body
from app.server import lookups
from app.server.dispatch import Dispatcher
from app.world.tokens import TokenTable
from app.world.world import World
from tests.unit.server.planted import plant, silent

_TASK = {"match": "task"}


class Asked:
    """A dispatcher over some documents."""

    def __init__(self, root: Path, timeout: float = 10.0) -> None:
        self.world = World.open(str(root), log=silent)
        self.dispatcher = Dispatcher(
            self.world, tokens=None, read_only=False, now=lambda: 0.0, timeout=timeout, log=silent
        )

    def publish(self, path: str, body: str) -> None:
        self.world.publish(path, body.encode(), {}, None, 1_700_000_000.0)

    async def lookup(self, scope: str = "/", **metadata: str) -> Response:
        answer = self.dispatcher.respond(encode_request(Request("LOOKUP", scope, _TASK | metadata)))
        return answer if isinstance(answer, Response) else await answer


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    for number in range(7):
        plant(str(tmp_path), f"/d/{number}.md", [f"# Pump\n\nseal {number}\n".encode()])
    found = Asked(tmp_path)
    yield found
    found.world.close()


async def test_keys_and_rows(asked: Asked) -> None:
    answer = await asked.lookup(query="pump seal")
    assert answer.metadata == {"match": "task", "matches": "7", "truncated": "true"}
    rows = parse_lookup_body(answer.body)
    assert [(row.path, row.anchor, row.match) for row in rows] == [
        (f"/d/{number}.md", "pump", "complete") for number in range(5)
    ]
    answer = await asked.lookup(query="pump seal", limit="7")
    assert len(parse_lookup_body(answer.body)) == 5
    answer = await asked.lookup("/d", query=" ".join(["pump", *(f"word{at}" for at in range(40))]))
    assert answer.metadata == {"match": "task", "matches": "0", "truncated": "false", "terms-ignored": "9"}
    assert answer.body.endswith(b"| Match |\n|------|------------|-------|------|---------|-------|\n")


@pytest.mark.parametrize(
    ("scope", "metadata", "status"),
    [
        ("/", {"query": "a b"}, "bad-request"),
        ("/", {"query": "*"}, "bad-request"),
        ("/none", {"query": "a b"}, "not-found"),
        ("/none", {"query": "a b", "limit": "x"}, "bad-request"),
        ("/none", {"query": "x" * 4097}, "bad-request"),
        ("/d/1.md", {"query": "pump"}, "not-found"),
    ],
)
async def test_the_first_check_that_fails_decides(
    asked: Asked, scope: str, metadata: dict[str, str], status: str
) -> None:
    assert (await asked.lookup(scope, **metadata)).status == status


MODES = ["task", "body", "catalog"]


@pytest.mark.parametrize("match", MODES)
async def test_others_get_their_turn(asked: Asked, monkeypatch: pytest.MonkeyPatch, match: str) -> None:
    monkeypatch.setattr(lookups, "_TURN", 0.0)
    monkeypatch.setattr("app.search.catalog.BLOCK_MAX", 1)
    for number in range(7, 30):
        asked.publish(f"/d/{number}.md", f"# Pump\n\nseal {number}\n")
    turns = 0
    done = trio.Event()

    async def other() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        answer = await asked.lookup(query="pump", match=match, limit="1000")
        done.set()
    assert int(answer.metadata["matches"]) >= 10
    assert turns >= 10


@pytest.mark.parametrize("match", MODES)
@pytest.mark.parametrize("limit", ["1", "1000"])
async def test_an_answer_is_the_same_however_it_comes_about(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, match: str, limit: str
) -> None:
    query = {"query": "seal pump", "match": match, "limit": limit}
    at_once = await asked.lookup("/d", **query)
    monkeypatch.setattr(lookups, "_TURN", 0.0)
    monkeypatch.setattr(lookups, "_STEP", 1)
    monkeypatch.setattr("app.search.steps.HEAVY", 0)
    assert await asked.lookup("/d", **query) == at_once
    assert parse_lookup_body(at_once.body)


async def test_what_is_found_within_a_turn_needs_no_task_and_what_is_not_begins_anew(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = encode_request(Request("LOOKUP", "/d", {"match": "body", "query": "seal"}))
    answer = asked.dispatcher.respond(request)
    assert isinstance(answer, Response)
    monkeypatch.setattr("app.search.steps.HEAVY", 0)
    later = asked.dispatcher.respond(request)
    assert not isinstance(later, Response)
    assert await later == answer


@pytest.mark.parametrize("match", ["task", "body"])
async def test_long_texts_are_gone_through_in_a_thread(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, match: str
) -> None:
    threads: set[int] = set()
    original = trio.to_thread.run_sync

    async def noted(work: Callable[[], object], **options: Any) -> object:
        def noting() -> object:
            threads.add(threading.get_ident())
            return work()

        return await original(noting, **options)

    monkeypatch.setattr(trio.to_thread, "run_sync", noted)
    asked.publish("/d/long.md", "# Valve\n\n" + "valve gasket " * 10_000)
    answer = await asked.lookup(query="gasket", match=match)
    assert "valve gasket" in parse_lookup_body(answer.body)[0].snippet
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("match", ["task", "body"])
async def test_the_deadline_does_not_wait_for_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, match: str
) -> None:
    plant(str(tmp_path), "/a.md", [b"# Pump\n\nseal\n"])
    asked = Asked(tmp_path, timeout=0.05)
    released = threading.Event()

    def stuck(path: str, number: int) -> bytes | None:
        released.wait(20)
        return None

    monkeypatch.setattr("app.search.steps.HEAVY", 0)
    monkeypatch.setattr(asked.world, "_matched_body", stuck)
    try:
        with trio.fail_after(10):
            answer = await asked.lookup(query="seal", match=match)
        assert answer.status == "server-error"
        assert not asked.dispatcher.index.locked()
    finally:
        released.set()
    asked.world.close()


async def test_the_deadline_ends_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(str(tmp_path), "/a.md", [b"# Pump\n"])
    asked = Asked(tmp_path, timeout=0.01)
    monkeypatch.setattr(lookups, "_TURN", 0.0)

    async def asleep() -> None:
        await trio.sleep(1)

    monkeypatch.setattr("app.server.lookups.trio.lowlevel.checkpoint", asleep)
    answer = await asked.lookup(query="pump")
    assert answer.status == "server-error"
    asked.world.close()


async def test_writes_wait_until_a_search_is_at_its_end(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer is of one state of the world."""
    monkeypatch.setattr(lookups, "_TURN", 0.0)
    asked.dispatcher.use_tokens(
        TokenTable.parse(
            b'[tokens.t]\nhash = "sha256-'
            b'9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"\npaths = ["/**"]\noperations = ["publish"]\n'
        )
    )
    answers: list[Response] = []

    async def write() -> None:
        data = encode_request(
            Request("PUBLISH", "/d/9.md", {"auth": "test", "expected-version": "0"}, b"# Pump\n\nseal 9\n")
        )
        answer = asked.dispatcher.respond(data)
        assert not isinstance(answer, Response)
        answers.append(await answer)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        for _ in range(20):
            found = await asked.lookup(query="pump seal")
            assert found.metadata["matches"] in ("7", "8")
    assert answers[0].status == "created"
    assert (await asked.lookup(query="pump seal")).metadata["matches"] == "8"


async def test_an_answer_that_no_client_would_read_is_cut(tmp_path: Path) -> None:
    for number in range(5):
        plant(str(tmp_path), f"/{number}.md", [b"# Pump\n\n## " + b"*pump_" * 160_000 + b"\n\nseal valve\n"])
    asked = Asked(tmp_path)
    answer = await asked.lookup(query="seal valve")
    rows = parse_lookup_body(answer.body)
    assert len(encode_response(answer)) <= RESPONSE_MAX
    assert 0 < len(rows) < 5
    assert (answer.metadata["matches"], answer.metadata["truncated"]) == ("5", "true")
    asked.world.close()
