"""`map` and `help` as tools."""

from pathlib import Path

import pytest

from app.agents.answers import LIMIT, at_most
from app.agents.pages import manual
from app.protocol.tables import parse_lookup_body
from tests.unit.agents.local import Board, body, calls, keys, local_worlds


@pytest.fixture
def board(tmp_path: Path) -> Board:
    board = Board(tmp_path / "root")
    board.write("/index.md", "# Harbour\n", importance="0.9")
    board.write("/ops/index.md", "# Operations\n")
    board.write(
        "/ops/tokens.md",
        "# Write tokens\n\n## Rotation\n\nRotate a token by minting a second one.\n\n## Renewal\n\nRenew the pair.\n",
    )
    return board


async def test_without_a_task_a_map_is_an_overview(board: Board) -> None:
    async with local_worlds(board) as worlds:
        answer = await worlds.call("map")
        assert body(answer.text).splitlines()[:4] == [
            "3 documents in /",
            "",
            "folders: 1 of 1",
            "/ops/  2 documents  Operations",
        ]
        assert (await worlds.call("map", url="/nowhere/")).failed


async def test_with_a_task_a_map_names_sections(board: Board) -> None:
    async with local_worlds(board) as worlds:
        for url in ("/", "/ops", "/ops/tokens.md"):
            answer = await worlds.call("map", url=url, search="rotate a token")
            assert (keys(answer.text)["match"], keys(answer.text)["rows"]) == ("task", "1 of 1")
            row = parse_lookup_body(answer.text.encode())[0]
            assert (row.path, row.anchor, row.match) == ("/ops/tokens.md", "rotation", "complete")
            tool, arguments = calls(answer.text)[0]
            assert body((await worlds.call(tool, **arguments)).text).startswith("## Rotation")
        nothing = await worlds.call("map", url="/ops/tokens.md", search="zymurgy")
        assert (nothing.failed, keys(nothing.text)["rows"]) == (False, "0 of 0")
        assert "nothing matches in mark://board/ops/tokens.md" in nothing.text
        assert (await worlds.call("map", url="/ops/tokens.md", search="x")).failed


async def test_help_lists_shows_and_finds_pages_of_the_manual() -> None:
    async with local_worlds() as worlds:
        listed = await worlds.call("help")
        paths = [line.split()[0] for line in body(listed.text).splitlines() if line.startswith("/")]
        assert paths == sorted(row.path for row in manual().rows())
        assert keys(listed.text)["pages"] == f"{len(paths)} of {len(paths)}"
        board = await worlds.call("help", page="/board")
        assert "/board/power.md" in board.text
        assert "/tokens.md" not in board.text
        for path in paths:
            answer = await worlds.call("help", page=path)
            assert not answer.failed
            assert at_most(answer.text) <= LIMIT
            assert "bytes of this answer are shown" not in answer.text
        found = await worlds.call("help", search="give a colleague the right to publish")
        assert parse_lookup_body(found.text.encode())
        for tool, arguments in calls(found.text):
            assert not (await worlds.call(tool, **arguments)).failed
        below = await worlds.call("help", search="power cut", page="/board")
        assert {row.path.split("/")[1] for row in parse_lookup_body(below.text.encode())} == {"board"}
        for arguments in ({"page": "/none.md"}, {"page": "/tokens.md#none"}, {"search": "x"}):
            assert (await worlds.call("help", **arguments)).failed


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("tokens", "/tokens.md"),
        ("tokens.md", "/tokens.md"),
        ("/tokens", "/tokens.md"),
        ("power", "/board/power.md"),
    ],
)
async def test_a_page_is_found_by_its_name(name: str, path: str) -> None:
    async with local_worlds() as worlds:
        assert keys((await worlds.call("help", page=name)).text)["page"] == path


async def test_a_page_that_is_not_there_comes_with_what_may_have_been_meant() -> None:
    async with local_worlds() as worlds:
        answer = await worlds.call("help", page="token.md")
        assert answer.failed
        assert "the manual has no page token.md; perhaps /tokens.md" in answer.text
        assert keys((await worlds.follow(answer.text)).text)["page"] == "/tokens.md"
        nothing = await worlds.call("help", search="xqzzy wvutx")
        assert "nothing matches in /" in nothing.text
