"""Along the links, forwards and backwards, a page at a time."""

from pathlib import Path

import pytest

from app.agents import exploring
from app.agents.answers import LIMIT, at_most
from tests.unit.agents.local import Board, LocalWorlds, body, keys, local_worlds


@pytest.fixture
def board(tmp_path: Path) -> Board:
    board = Board(tmp_path / "root")
    board.write(
        "/hub.md",
        "".join(f"[{n}](docs/{n:02}.md#x)\n" for n in range(23)),
        title="Hub",
        rel_needs="/docs/00.md",
    )
    for number in range(23):
        board.write(f"/docs/{number:02}.md", "# D\n\n[up](../hub.md) and [again](/hub.md#top)\n")
    board.write("/private/x.md", "[hub](/hub.md)\n")
    return board


async def walk(worlds: LocalWorlds, tool: str, **arguments: object) -> list[str]:
    """The lines of all pages."""
    answer = await worlds.call(tool, **arguments)
    lines: list[str] = []
    for _ in range(100):
        assert not answer.failed
        assert at_most(answer.text) <= LIMIT
        lines += [line for line in body(answer.text).splitlines() if line.startswith(("to ", "from "))]
        if "next: " not in answer.text:
            return lines
        answer = await worlds.follow(answer.text)
    raise AssertionError("it does not come to an end")


async def test_outgoing_links_come_with_their_count(board: Board) -> None:
    async with local_worlds(board) as worlds:
        answer = await worlds.call("mark_explore", url="/hub.md", page_size=10, verbose=True)
        assert keys(answer.text) == {
            "status": "ok",
            "document": "mark://board/hub.md",
            "version": "1",
            "title": "Hub",
            "outgoing": "10 of 24",
        }
        assert body(answer.text).splitlines()[0] == "to    needs    mark://board/docs/00.md"
        assert len(await walk(worlds, "mark_explore", url="/hub.md", page_size=10)) == 24
        only = await worlds.call("mark_explore", url="/hub.md", relations=["needs"])
        assert keys(only.text)["outgoing"] == "1 of 1"


@pytest.mark.parametrize("page_size", [1, 7, 50])
@pytest.mark.parametrize("examined", [3, 400])
async def test_every_page_together_has_every_link_once(
    board: Board, page_size: int, examined: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exploring, "EXAMINED", examined)
    async with local_worlds(board) as worlds:
        lines = await walk(worlds, "mark_explore", url="/hub.md", direction="both", page_size=page_size)
        assert lines == [
            "to    needs    mark://board/docs/00.md",
            *(f"to    link     mark://board/docs/{n:02}.md#x" for n in range(23)),
            *(f"from  link     mark://board/docs/{n:02}.md" for n in range(23)),
        ]
        assert await walk(worlds, "mark_backlinks", url="/hub.md#top") == lines[24:]


async def test_backlinks_say_how_far_they_have_come(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploring, "EXAMINED", 9)
    async with local_worlds(board) as worlds:
        answer = await worlds.call("mark_backlinks", url="/docs/00.md")
        assert keys(answer.text) | {"document": ""} == {
            "status": "ok",
            "document": "",
            "incoming": "0 found",
            "examined": "documents 1 to 9 of 23",
        }
        assert "there is more; next: mark_backlinks " in answer.text
        assert await walk(worlds, "mark_backlinks", url="/docs/00.md") == [
            "from  needs, link mark://board/hub.md"
        ]


async def test_a_link_from_what_may_not_be_read_does_not_show(board: Board) -> None:
    async with local_worlds(board) as worlds:
        text = (await worlds.call("mark_backlinks", url="/hub.md")).text
        assert "private" not in text
        assert "of 23" in text


@pytest.mark.parametrize("cursor", ["x", "out:x", "in:x", "in:", "out:99999999999999999999"])
async def test_a_made_up_cursor_is_an_error(board: Board, cursor: str) -> None:
    async with local_worlds(board) as worlds:
        answer = await worlds.call("mark_explore", url="/hub.md", direction="both", cursor=cursor)
        assert answer.failed
        assert "`cursor` is none that an answer has given" in answer.text


async def test_a_server_that_goes_away_meanwhile_is_an_error(board: Board) -> None:
    async with local_worlds(board) as worlds:
        board.unreachable = True
        assert (await worlds.call("mark_backlinks", url="/hub.md")).failed
        assert (await worlds.call("mark_explore", url="/hub.md")).failed


async def test_a_page_of_endless_links_is_not_too_long(board: Board) -> None:
    board.write("/wide.md", "".join(f"[x](/{'漢' * 200}{number}.md)\n" for number in range(60)))
    async with local_worlds(board) as worlds:
        assert len(await walk(worlds, "mark_explore", url="/wide.md", page_size=100)) == 60
