"""The control socket from both sides: who may ask, what is answered, what is left behind."""

import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from app.server import control, runtime
from app.server.control import ReloadAnswer, Status
from app.server.runtime import Ask, NoAnswer, ask, listen, servers
from tests.unit.server.planted import silent

STATUS = Status(
    version="1",
    pid=2,
    uptime=3,
    address=":1",
    root="/r",
    folder="/r",
    tokens="/t",
    read_only=False,
    documents=4,
    sections=5,
    index_bytes=6,
    body_bytes=7,
    connections=8,
    watching=True,
    reloaded=None,
    reload_ok=None,
    reload_text=None,
    fingerprint="sha256:0",
    certificate_expires="9999-12-31T23:59:59Z",
    clock_ok=True,
    clock="plausible",
)


async def reloads(question: Ask) -> ReloadAnswer:
    return ReloadAnswer(ok=True, added=1, version=9 if question.path == "/a.md" else None)


@asynccontextmanager
async def serving(directory: Path) -> AsyncIterator[tuple[str, str]]:
    listener, name = listen(str(directory), "/r")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(control.serve, listener, lambda: STATUS, reloads, silent)
        yield str(directory), name
        nursery.cancel_scope.cancel()
    runtime.remove(str(directory), name)


async def asked(place: tuple[str, str], question: Ask) -> dict[str, object]:
    return await trio.to_thread.run_sync(ask, place, question, 5.0)


async def test_questions_and_answers(tmp_path: Path) -> None:
    directory = tmp_path / ("long" * 30) / "run"
    async with serving(directory) as place:
        assert list(servers([str(tmp_path / "none"), str(directory)])) == [place]
        told = await asked(place, Ask("status"))
        assert told["documents"] == 4
        assert set(told) == set(Status.__struct_fields__)
        assert (await asked(place, Ask("reload", "/a.md", "/r")))["version"] == 9
        assert (await asked(place, Ask("reload")))["version"] is None
        assert (await asked(place, Ask("frob")))["error"] == "unknown question frob"
    assert list(servers([str(directory)])) == []


@pytest.mark.parametrize("sent", [b"\n", b"{}\n", b"[1]\n", b"\xff\n", b'{"op": 1}\n', b"x" * 70_000])
async def test_junk_is_answered_and_the_next_question_too(tmp_path: Path, sent: bytes) -> None:
    async with serving(tmp_path / "run") as place:
        stream = await trio.open_unix_socket(os.path.join(*place))
        async with stream:
            await stream.send_all(sent)
            answer = bytes(await stream.receive_some(65536))
        assert answer.startswith(b'{"error":"no question: ')
        assert (await asked(place, Ask("status")))["pid"] == 2


async def test_who_goes_away_is_missed_by_nobody(tmp_path: Path) -> None:
    async with serving(tmp_path / "run") as place:
        for sent in (b"", b'{"op":', b'{"op":"status"}\n'):
            stream = await trio.open_unix_socket(os.path.join(*place))
            if sent:
                await stream.send_all(sent)
            await stream.aclose()
        assert (await asked(place, Ask("status")))["pid"] == 2


async def test_another_user_gets_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "peer_is_trusted", lambda _: False)
    async with serving(tmp_path / "run") as place:
        with pytest.raises(NoAnswer, match=r"closed the connection|Connection reset|Broken pipe"):
            await asked(place, Ask("status"))


def test_who_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = socket.socketpair(socket.AF_UNIX)
    with left, right:
        assert runtime.peer_is_trusted(left)
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert runtime.peer_is_trusted(left) is (os.getuid() == 0)


def test_only_the_user_can_reach_it(tmp_path: Path) -> None:
    listener, name = listen(str(tmp_path / "run"), "/r")
    with listener:
        assert stat.S_IMODE((tmp_path / "run" / name).stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700


def test_what_a_killed_server_left_is_cleared_and_what_a_running_one_has_is_not(tmp_path: Path) -> None:
    directory = str(tmp_path)
    first, first_name = listen(directory, "/r")
    second, second_name = listen(directory, "/r")
    assert first_name != second_name
    assert len(list(servers([directory]))) == 2
    first.close()
    third, third_name = listen(directory, "/r")
    assert {name for _, name in servers([directory])} == {second_name, third_name}
    assert third_name == first_name
    second.close()
    third.close()
    with pytest.raises(NoAnswer, match="refused"):
        ask((directory, third_name), Ask("status"), 1.0)
    with pytest.raises(NoAnswer, match="No such file"):
        ask((directory, "none.sock"), Ask("status"), 1.0)


def test_a_server_that_says_nothing_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    listener, name = listen(str(tmp_path), "/r")
    with listener, pytest.raises(NoAnswer, match="within 0 s"):
        ask((str(tmp_path), name), Ask("status"), 0.05)


async def test_a_fault_of_ours_costs_one_answer(tmp_path: Path) -> None:
    def fail() -> Status:
        raise ZeroDivisionError

    listener, name = listen(str(tmp_path), "/r")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(control.serve, listener, fail, reloads, silent)
        assert await asked((str(tmp_path), name), Ask("status")) == {"error": "internal error"}
        assert (await asked((str(tmp_path), name), Ask("reload")))["ok"] is True
        nursery.cancel_scope.cancel()
