"""Documents as resources."""

from pathlib import Path

import pytest

from app.agents import resources
from app.agents.answers import LIMIT, Refusal, at_most
from app.protocol.answer import Response
from tests.unit.agents.local import Board, local_worlds, next_call


@pytest.fixture
def boards(tmp_path: Path) -> list[Board]:
    boards = [Board(tmp_path / name, name) for name in ("board", "attic")]
    for board in boards:
        for number in range(5):
            board.write(f"/d/{number}.md", f"# D{number}\n\n## Part\n\nx\n")
    return boards


@pytest.mark.parametrize("size", [1, 3, 5, 200])
async def test_the_pages_list_every_document_of_every_world(
    boards: list[Board], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "PAGE", size)
    async with local_worlds(*boards) as worlds:
        seen, cursor = [], None
        while True:
            page = await resources.list_documents(worlds, cursor)
            assert len(page.documents) <= size
            seen += page.documents
            cursor = page.cursor
            if cursor is None:
                break
        assert [one.uri for one in seen] == [
            f"mark://{host}/d/{n}.md" for host in ("board", "attic") for n in range(5)
        ]
        assert (seen[0].name, seen[0].title) == ("/d/0.md", "D0")


async def test_a_resource_is_the_text_or_the_section(boards: list[Board]) -> None:
    async with local_worlds(*boards) as worlds:
        assert await resources.read_document(worlds, "mark://attic/d/3.md") == "# D3\n\n## Part\n\nx\n"
        assert await resources.read_document(worlds, "mark://attic/d/3.md#part") == "## Part\n\nx\n"
        for uri in ("mark://attic/none.md", "mark://attic/d/3.md#none", "nonsense"):
            with pytest.raises(Refusal):
                await resources.read_document(worlds, uri)


async def test_a_long_resource_is_cut_and_says_how_to_go_on(boards: list[Board]) -> None:
    boards[0].write("/long.md", "word " * 30_000)
    async with local_worlds(*boards) as worlds:
        text = await resources.read_document(worlds, "mark://board/long.md")
        assert isinstance(text, str)
        assert at_most(text) <= LIMIT
        tool, arguments = next_call(text)
        assert f"[bytes 0 to {arguments['offset']:,} of 150,000; next:" in text
        assert not (await worlds.call(tool, **arguments)).failed


@pytest.mark.parametrize("text", [b"# \x1b[1m\n", b"\xff\n", b"a\rb\n", "\u202e".encode() * 30_000])
async def test_a_text_that_cannot_be_shown_as_it_is_comes_as_its_bytes(
    boards: list[Board], text: bytes
) -> None:
    boards[0].canned["FETCH"] = Response("ok", {"version": "1"}, text)
    async with local_worlds(*boards) as worlds:
        assert await resources.read_document(worlds, "mark://board/odd.md") == text


async def test_an_unreachable_world_is_an_error_and_no_empty_list(boards: list[Board]) -> None:
    boards[1].unreachable = True
    async with local_worlds(*boards) as worlds:
        with pytest.raises(Refusal, match="unreachable"):
            await resources.list_documents(worlds, None)
        with pytest.raises(Refusal, match="none that a list has given"):
            await resources.list_documents(worlds, "mark://other/x.md")
