"""Every document of a world, more of them than one answer names."""

from pathlib import Path

import pytest

from app.agents import survey
from app.protocol.addresses import parse_address
from tests.unit.agents.local import Board, local_worlds


@pytest.mark.parametrize("most", [3, 7, 1000])
async def test_all_documents_are_found_whatever_an_answer_holds(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "LOOKUP_LIMIT_MAX", most)
    board = Board(tmp_path / "root")
    paths = sorted([f"/{name}/{n}.md" for name in ("a", "b/c", "d e") for n in range(5)] + ["/x.md", "/b.md"])
    for path in paths:
        board.write(path, "# T\n")
    async with local_worlds(board) as worlds:
        assert [row.path for row in await worlds.documents(parse_address("mark://board"))] == paths
        below = await worlds.documents(parse_address("mark://board/b/"))
        assert [row.path for row in below] == [f"/b/c/{n}.md" for n in range(5)]
