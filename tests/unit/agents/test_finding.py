"""Searching one world and all of them: what is said about what was found, and what never looks like nothing found."""

from pathlib import Path

import pytest

from app.agents.answers import LIMIT, about, at_most
from app.protocol.answer import Response, error_response
from app.protocol.tables import LookupRow, lookup_body, parse_lookup_body
from tests.unit.agents.local import Board, body, calls, keys, local_worlds, next_call

TEXT = "# Pump {0}\n\nBallast.\n\n## Seal\n\nRotate the write token of the pump | here.\n"


@pytest.fixture
def board(tmp_path: Path) -> Board:
    board = Board(tmp_path / "root")
    for number in range(23):
        board.write(f"/docs/{number:02}.md", TEXT.format(number), tags="pump")
    board.write("/private/secret.md", "# Secret\n\n## Zebra\n\nzebra\n")
    return board


@pytest.mark.parametrize("match", ["body", "catalog"])
async def test_the_count_comes_before_the_cut(board: Board, match: str) -> None:
    async with local_worlds(board) as worlds:
        answer = await worlds.call("mark_lookup", url="/", query="pump", match=match)
        head = keys(answer.text)
        assert (head["match"], head["matches"], head["rows"], head["truncated"]) == (
            match,
            "23",
            "10 of 23",
            "true",
        )
        assert len(parse_lookup_body(answer.text.encode())) == 10
        tool, arguments = next_call(answer.text)
        assert (tool, arguments["limit"]) == ("mark_lookup", 23)
        whole = await worlds.call(tool, **arguments)
        assert keys(whole.text)["rows"] == "23 of 23"
        assert keys(whole.text)["truncated"] == "false"
        assert len(parse_lookup_body(whole.text.encode())) == 23


async def test_the_table_is_the_one_that_was_sent_and_its_rows_can_be_read(board: Board) -> None:
    async with local_worlds(board) as worlds:
        answer = await worlds.call("mark_lookup", url="/docs", query="rotate token", match="body", limit=3)
        sent = [request for request in board.requests if request.verb == "LOOKUP"][-1]
        served = (await board.ask(sent)).body.decode().splitlines()
        assert body(answer.text).splitlines()[: 4 + 3] == served[1 : 5 + 3]
        tool, arguments = calls(answer.text)[0]
        row = parse_lookup_body(answer.text.encode())[0]
        assert (tool, arguments) == ("mark_fetch", {"url": f"mark://board{row.path}#{row.anchor}"})
        assert body((await worlds.call(tool, **arguments)).text).startswith("## Seal")


async def test_a_task_is_the_default_and_a_star_lists_everything(board: Board) -> None:
    async with local_worlds(board) as worlds:
        answer = await worlds.call("mark_lookup", url="/", query="How do I rotate the write token?")
        head = keys(answer.text)
        assert (head["match"], head["matches"], head["rows"]) == ("task", "23", "5 of 23")
        assert "a narrower folder or query shows the others" in answer.text
        assert {row.match for row in parse_lookup_body(answer.text.encode())} == {"complete"}
        everything = await worlds.call("mark_lookup", url="/", query="*", limit=50)
        assert (keys(everything.text)["match"], keys(everything.text)["rows"]) == ("catalog", "23 of 23")


async def test_a_budget_drops_snippets_first_and_then_rows_from_the_end_but_never_the_first(
    board: Board,
) -> None:
    async with local_worlds(board) as worlds:
        arguments = {"url": "/", "query": "rotate token", "match": "body"}
        full = await worlds.call("mark_lookup", **arguments)
        places = [(row.path, row.anchor) for row in parse_lookup_body(full.text.encode())]
        last = 10
        for budget in range(about(full.text), 0, -40):
            answer = await worlds.call("mark_lookup", **arguments, budget=budget)
            rows = parse_lookup_body(answer.text.encode())
            assert [(row.path, row.anchor) for row in rows] == places[: len(rows)]
            assert len(rows) <= last
            last = len(rows)
            assert about(answer.text) <= budget or len(rows) == 1
            with_snippet = [bool(row.snippet) for row in rows]
            assert with_snippet == sorted(with_snippet, reverse=True)
            assert len(rows) == 10 or not any(with_snippet)
        assert last == 1
        assert keys(answer.text)["truncated"] == "true"


async def test_nothing_found_says_where_it_was_looked_for(board: Board) -> None:
    async with local_worlds(board) as worlds:
        answer = await worlds.call("mark_lookup", url="/docs", query="zymurgy", match="body")
        assert not answer.failed
        assert keys(answer.text)["rows"] == "0 of 0"
        assert "nothing matches in mark://board/docs (as far as you may read it)" in answer.text
        missing = await worlds.call("mark_lookup", url="/nowhere", query="zebra", match="body")
        hidden = await worlds.call("mark_lookup", url="/private", query="zebra", match="body")
        assert missing.failed
        assert missing.text.replace("nowhere", "X") == hidden.text.replace("private", "X")


async def test_an_empty_catalog_says_that_the_text_was_not_searched(board: Board) -> None:
    said = "only titles and tags were searched; `match` body searches the text"
    async with local_worlds(board) as worlds:
        for tool, where in (("mark_lookup", {"url": "/"}), ("mark_lookup_all", {})):
            answer = await worlds.call(tool, **where, query="ballast", match="catalog")
            assert (answer.failed, said in answer.text) == (False, True)
            for more in ({"query": "zymurgy", "match": "body"}, {"query": "*", "filter": "tag=none"}):
                assert said not in (await worlds.call(tool, **where, **more)).text


@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("mark_lookup", {"query": "seal"}),
        ("mark_lookup", {"query": "seal", "match": "body"}),
        ("mark_list", {}),
        ("map", {}),
    ],
)
async def test_a_document_where_a_folder_is_wanted_is_not_said_to_be_gone(
    board: Board, tool: str, more: dict[str, str]
) -> None:
    async with local_worlds(board) as worlds:
        answer = await worlds.call(tool, url="/docs/03.md", **more)
        assert answer.failed
        assert "This call takes a folder" in answer.text
        assert "It is not there" not in answer.text
        assert not (await worlds.follow(answer.text)).failed
        absent = await worlds.call(tool, url="/docs/none.md", **more)
        assert absent.text == answer.text.replace("03.md", "none.md")


async def test_one_world_need_not_be_named(board: Board, tmp_path: Path) -> None:
    async with local_worlds(board) as worlds:
        answer = await worlds.call("mark_lookup", query="pump")
        assert keys(answer.text)["scope"] == "mark://board/"
    async with local_worlds(board, Board(tmp_path / "attic", "attic")) as worlds:
        answer = await worlds.call("mark_lookup", query="pump")
        assert answer.failed
        assert "there are several worlds" in answer.text


@pytest.mark.parametrize(
    "failure",
    [
        error_response("server-error", "internal error"),
        Response("rate-limited"),
        Response("", {}, b"garbage"),
    ],
    ids=lambda failure: failure.status or "garbage",
)
@pytest.mark.parametrize("match", ["task", "body", "catalog"])
async def test_a_failed_search_is_an_error(board: Board, failure: Response, match: str) -> None:
    board.canned["LOOKUP"] = failure
    async with local_worlds(board) as worlds:
        for answer in (
            await worlds.call("mark_lookup", url="/", query="pump", match=match),
            await worlds.call("mark_lookup_all", query="pump", match=match),
        ):
            assert answer.failed
            assert "rows" not in answer.text
            assert failure.status in answer.text


async def test_an_answer_in_another_mode_says_so(board: Board) -> None:
    rows = [LookupRow("/a.md", "", 0.5, "A", (), "")]
    board.canned["LOOKUP"] = Response("ok", {"matches": "1"}, lookup_body("pump", "/", rows, "catalog"))
    async with local_worlds(board) as worlds:
        answer = await worlds.call("mark_lookup", url="/", query="pump", match="body")
        assert keys(answer.text)["match"] == "catalog"
        assert "this server has answered with `match` catalog: it does not know body" in answer.text


@pytest.mark.parametrize("match", ["task", "body", "catalog"])
async def test_no_answer_is_too_long(board: Board, match: str) -> None:
    for number in range(40):
        board.write(
            f"/docs/{'漢' * 60}{number}.md",
            f"# {'pump ' * 150}\n\n## {'pump ' * 100}\n\n{'pump ' * 100}\n",
            tags="pump," + "x" * 900,
        )
    async with local_worlds(board) as worlds:
        for answer in (
            await worlds.call("mark_lookup", url="/", query="pump", match=match, limit=1000),
            await worlds.call("mark_lookup_all", query="pump", match=match, limit=1000),
            await worlds.call("mark_lookup", url="/", query="pump " * 800 + "x", match="task", verbose=True),
        ):
            assert at_most(answer.text) <= LIMIT


async def test_all_worlds_answer_together_and_each_row_has_its_whole_address(
    board: Board, tmp_path: Path
) -> None:
    attic = Board(tmp_path / "attic", "attic")
    attic.write(
        "/pump.md", "# Old pump\n\n## Token\n\nRotate the write token of the old pump.\n", importance="1"
    )
    async with local_worlds(board, attic) as worlds:
        answer = await worlds.call("mark_lookup_all", query="rotate the write token", match="body")
        assert (keys(answer.text)["rows"], keys(answer.text)["worlds"]) == ("10 of 24", "2 of 2 answered")
        assert "mark://board/: body, 10 of 23" in answer.text
        assert "mark://attic/: body, 1 of 1" in answer.text
        lines = [line for line in answer.text.splitlines() if line.startswith("| mark://")]
        places = [line.split(" | ")[0].removeprefix("| ") for line in lines]
        assert places[:3] == [
            "mark://board/docs/00.md#seal",
            "mark://attic/pump.md#token",
            "mark://board/docs/01.md#seal",
        ]
        for place in places:
            assert "Rotate" in (await worlds.call("mark_fetch", url=place)).text
        assert all(len(line.replace("\\|", "").split("|")) == 8 for line in lines)


async def test_a_failing_world_is_told_beside_the_rows_of_the_others(board: Board, tmp_path: Path) -> None:
    attic = Board(tmp_path / "attic", "attic")
    attic.unreachable = True
    async with local_worlds(attic, board) as worlds:
        answer = await worlds.call("mark_lookup_all", query="pump", match="body", limit=3)
        assert not answer.failed
        assert keys(answer.text)["worlds"] == "1 of 2 answered"
        assert "failed: mark://attic/: mark://attic/: unreachable: connection refused" in answer.text
        assert keys(answer.text)["rows"] == "3 of 23"
        board.unreachable = True
        answer = await worlds.call("mark_lookup_all", query="pump", match="body")
        assert answer.failed
        assert answer.text.count("failed: ") == 2
    async with local_worlds() as worlds:
        assert (await worlds.call("mark_lookup_all", query="pump")).failed
