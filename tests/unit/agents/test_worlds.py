"""Who is asked with which secret, and what is said when nobody answers."""

from pathlib import Path

import pytest
import trio

from app.agents.answers import Refusal
from app.agents.worlds import Host, Worlds, open_worlds, refusal, told
from app.client.client import Client
from app.client.errors import BadAnswer, IdentityChanged, OutcomeUnknown, Unreachable, Untrusted
from app.protocol.addresses import parse_address
from app.protocol.answer import Response, error_response
from tests.unit.agents.local import Board, local_worlds

PIN = "sha256:" + "ab" * 32
OTHER = "sha256:" + "cd" * 32
WHERE = parse_address("mark://board/a.md")


class _Noted(Worlds):
    def secrets(self, url: str) -> dict[str, object]:
        """What a client for an address would be given."""
        client = self._new(parse_address(url))
        return {name: vars(client)[f"_{name}"] for name in ("token", "pin", "insecure")}


async def test_each_server_gets_what_is_meant_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".mark").mkdir()
    (tmp_path / ".mark" / "pins").write_text(f"attic:6309 {OTHER}\n")
    (tmp_path / ".mark" / "tokens.toml").write_text(
        '["attic:6309"]\ntoken = "stored"\n["board:6309"]\ntoken = "no"\n'
    )
    monkeypatch.setenv("DEMARKUS_AUTH", "for the named host only")
    async with trio.open_nursery() as nursery:
        worlds = _Noted([Host(parse_address("mark://board"), "given", PIN, True)], nursery, None)
        assert worlds.secrets("mark://board/x") == {"token": "given", "pin": PIN, "insecure": True}
        assert worlds.secrets("mark://attic/x") == {"token": "stored", "pin": OTHER, "insecure": False}
        assert worlds.secrets("mark://board:7000/x") == {"token": None, "pin": None, "insecure": False}
        (tmp_path / ".mark" / "pins").write_text("attic:6309 broken\n")
        with pytest.raises(Refusal, match=r"kept for attic:6309 cannot be read"):
            worlds.secrets("mark://attic/x")


async def test_one_client_serves_all_calls_to_a_server() -> None:
    async with open_worlds([]) as worlds:
        seen: list[Client] = []

        async def note(client: Client) -> Response:
            seen.append(client)
            return Response("ok")

        async with trio.open_nursery() as nursery:
            for url in ("mark://a/1", "mark://a/2", "mark://a:6310/", "mark://a/1"):
                nursery.start_soon(worlds.ask, parse_address(url), note)
        assert len(set(map(id, seen))) == 2


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Unreachable("board:6309", "connection refused"), "Nothing was changed there"),
        (
            Untrusted("board:6309", "self-signed", PIN),
            f"demarkus-appliance fetch --pin {PIN} mark://board/health",
        ),
        (IdentityChanged("board:6309", PIN, OTHER), "Nothing was sent"),
        (OutcomeUnknown("board:6309", "lost"), "lost"),
        (BadAnswer("board:6309", "garbage"), "garbage"),
    ],
)
def test_what_stands_in_the_way_is_told_with_who_can_help(error: Exception, said: str) -> None:
    text = told(error, WHERE)  # type: ignore[arg-type]
    assert said in text
    assert "board:6309" in text


@pytest.mark.parametrize(
    "status", ["unauthorized", "not-permitted", "archived", "not-found", "rate-limited", "bad-request", ""]
)
def test_a_refusal_names_the_document_and_the_status(status: str) -> None:
    text = refusal(error_response(status, "the reason"), WHERE)
    assert text.startswith(f"status: {status or 'none'}\n\nmark://board/a.md: the reason\n")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Response("ok"), "ready: mark://board/"),
        (
            error_response("server-error", "internal error"),
            "not ready: mark://board/: it answers server-error: internal error",
        ),
        (None, "not ready: mark://board/: unreachable: connection refused; each call asks again"),
    ],
)
async def test_whether_a_server_can_be_used_is_told_in_a_line(
    tmp_path: Path, answer: Response | None, said: str
) -> None:
    board = Board(tmp_path / "root")
    board.unreachable = answer is None
    if answer is not None:
        board.canned["FETCH"] = answer
    async with local_worlds(board) as worlds:
        assert (await worlds.ready(worlds.hosts[0])).startswith(said)
    assert [request.path for request in board.requests] == ["/health"]
