"""Writes, and what is said when they were not done, or may have been."""

from pathlib import Path

import pytest

from app.agents.answers import LIMIT, at_most
from tests.unit.agents.local import Board, body, calls, keys, local_worlds


@pytest.fixture
def board(tmp_path: Path) -> Board:
    board = Board(tmp_path / "root")
    board.write("/a.md", "one\n\ntwo\n\nthree\n", title="The A", tags="x,y", agent="somebody")
    return board


async def test_a_document_is_written_once_and_says_who_wrote_it(board: Board) -> None:
    async with local_worlds(board) as worlds:
        arguments = {"url": "/new.md", "body": "# New\n", "expected_version": 0, "metadata": {"title": "N"}}
        answer = await worlds.call("mark_publish", **arguments)
        assert (answer.failed, keys(answer.text)["status"], keys(answer.text)["version"]) == (
            False,
            "created",
            "1",
        )
        stored = board.world.current("/new.md")
        assert stored.body == b"# New\n"
        assert {key: stored.metadata[key] for key in ("agent", "title")} == {
            "agent": "test client",
            "title": "N",
        }
        again = await worlds.call("mark_publish", **arguments)
        assert again.failed
        assert "is at version 1, not 0" in again.text
        assert board.world.current("/new.md").version == 1


async def test_metadata_left_out_is_kept_and_metadata_given_replaces_it(board: Board) -> None:
    async with local_worlds(board) as worlds:
        await worlds.call("mark_publish", url="/a.md", body="new\n", expected_version=1)
        kept = board.world.current("/a.md").metadata
        assert {key: kept[key] for key in ("title", "tags", "agent")} == {
            "title": "The A",
            "tags": "x,y",
            "agent": "test client",
        }
        await worlds.call(
            "mark_publish", url="/a.md", body="new\n", expected_version=2, metadata={"agent": "me"}
        )
        bare = board.world.current("/a.md").metadata
        assert "title" not in bare
        assert bare["agent"] == "me"


async def test_the_same_again_writes_nothing_and_says_so(board: Board) -> None:
    async with local_worlds(board) as worlds:
        arguments = {"url": "/s.md", "body": "x\n", "metadata": {}}
        await worlds.call("mark_publish", **arguments, expected_version=0)
        answer = await worlds.call("mark_publish", **arguments, expected_version=1)
        assert keys(answer.text) == {"status": "ok", "version": "1", "modified": "2027-01-15T08:00:00Z"}
        assert "nothing was written" in answer.text


async def test_a_conflict_shows_both_changes_joined_and_what_to_do_next(board: Board) -> None:
    board.write("/a.md", "ONE\n\ntwo\n\nthree\n")
    async with local_worlds(board) as worlds:
        answer = await worlds.call(
            "mark_publish", url="/a.md", body="one\n\ntwo\n\nTHREE\n", expected_version=1
        )
        assert answer.failed
        assert "No place was changed on both sides." in answer.text
        joined = "ONE\n\ntwo\n\nTHREE\n"
        assert answer.text.endswith(joined)
        arguments = calls_with(answer.text)
        assert not (await worlds.call("mark_publish", **{**arguments, "body": joined})).failed
        assert board.world.current("/a.md").body == joined.encode()
        answer = await worlds.call(
            "mark_publish", url="/a.md", body="1\n\ntwo\n\nthree\n", expected_version=1
        )
        assert "1 place changed on both sides stands between" in answer.text
        assert "<<<<<<< current\nONE\n=======\n1\n>>>>>>> yours\n" in answer.text


def calls_with(text: str) -> dict[str, object]:
    return next(arguments for tool, arguments in calls(text) if tool == "mark_publish")


async def test_who_may_write_but_not_read_is_told_how_to_write(board: Board) -> None:
    board.write("/private/x.md", "one\n")
    async with local_worlds(board) as worlds:
        for tool, more in (
            ("mark_publish", {"body": "two\n", "expected_version": 1}),
            ("mark_append", {"body": "two\n"}),
        ):
            answer = await worlds.call(tool, url="/private/x.md", **more)
            assert answer.failed
            assert keys(answer.text)["status"] == "not-permitted"
            assert "may not read here; it may still be one that may write here" in answer.text
            assert "a token with read and publish" in answer.text
            assert "does not cover this" not in answer.text
            [(again, arguments)] = calls(answer.text)
            version = board.world.current("/private/x.md").version
            done = await worlds.call(again, **{**arguments, "body": "two\n", "expected_version": version})
            assert not done.failed
        stale = await worlds.call(
            "mark_publish", url="/private/x.md", body="four\n", expected_version=1, metadata={}
        )
        assert keys(stale.text)["status"] == "conflict"
        assert "Nothing was written" in stale.text


async def test_appending_to_nothing_says_how_to_create_it(board: Board) -> None:
    async with local_worlds(board) as worlds:
        for more in ({}, {"expected_version": 3}):
            answer = await worlds.call("mark_append", url="/none.md", body="x", **more)
            assert answer.failed
            [(tool, arguments)] = calls(answer.text)
            assert (tool, arguments["expected_version"]) == ("mark_publish", 0)
        assert not (await worlds.call(tool, **{**arguments, "body": "x"})).failed
        assert board.world.current("/none.md").version == 1


async def test_a_key_that_is_none_is_told_with_the_rule(board: Board) -> None:
    async with local_worlds(board) as worlds:
        answer = await worlds.call(
            "mark_publish", url="/b.md", body="x", expected_version=0, metadata={"Tags": "x"}
        )
        assert "contains invalid characters: lower-case letters, digits and hyphens" in answer.text


@pytest.mark.parametrize("mode", ["fail", "merge"])
async def test_a_conflict_without_a_proposal_says_to_read_again(board: Board, mode: str) -> None:
    long = "line\n" * 6_000
    board.write("/l.md", long)
    board.write("/l.md", long + "more\n")
    async with local_worlds(board) as worlds:
        answer = await worlds.call(
            "mark_publish", url="/l.md", body=long + "mine\n", expected_version=1, on_conflict=mode
        )
        assert answer.failed
        assert "Nothing was written" in answer.text
        assert "<<<<" not in answer.text
        assert 'mark_fetch {"url": "mark://board/l.md", "force": true}' in answer.text
        assert at_most(answer.text) <= LIMIT


async def test_text_is_added_at_the_end(board: Board) -> None:
    async with local_worlds(board) as worlds:
        answer = await worlds.call("mark_append", url="/a.md", body="four\n")
        assert keys(answer.text)["version"] == "2"
        document = board.world.current("/a.md")
        assert document.body == b"one\n\ntwo\n\nthree\nfour\n"
        assert document.metadata["title"] == "The A"
        assert (
            await worlds.call("mark_append", url="/a.md", body="five\n", expected_version=2)
        ).failed is False
        stale = await worlds.call("mark_append", url="/a.md", body="five\n", expected_version=2)
        assert stale.failed
        assert '"expected_version": 3' in stale.text
        assert (await worlds.call("mark_append", url="/none.md", body="x")).failed
        assert (await worlds.call("mark_append", url="/a.md", body="")).failed


async def test_an_archived_document_is_brought_back_by_the_call_it_names(board: Board) -> None:
    async with local_worlds(board) as worlds:
        answer = await worlds.call("mark_archive", url="/a.md")
        assert keys(answer.text) == {"status": "ok", "version": "1", "archived": "true"}
        assert (await worlds.call("mark_fetch", url="/a.md")).failed
        back = await worlds.call("mark_publish", **calls_with(answer.text))
        assert "is live, at version 1; no text was written" in back.text
        assert not (await worlds.call("mark_fetch", url="/a.md")).failed


async def test_a_lost_answer_is_looked_up(board: Board) -> None:
    board.lost = {"PUBLISH", "APPEND"}
    async with local_worlds(board) as worlds:
        answer = await worlds.call("mark_publish", url="/a.md", body="new\n", expected_version=1, metadata={})
        assert (answer.failed, keys(answer.text)["version"]) == (False, "2")
        answer = await worlds.call("mark_publish", url="/new.md", body="new\n", expected_version=0)
        assert (answer.failed, keys(answer.text)["version"]) == (False, "1")
        answer = await worlds.call("mark_append", url="/a.md", body="more", expected_version=2)
        assert (answer.failed, keys(answer.text)["version"]) == (False, "3")
        # The version that this would have made is somebody else's.
        answer = await worlds.call("mark_append", url="/a.md", body="other", expected_version=2)
        assert answer.failed
        assert "nothing of yours was written: version 3 holds another text" in answer.text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"url": "/x.txt"}, "publish path must end in .md"),
        ({"metadata": {"retention": "1"}}, "retention, which deletes old versions for good"),
        ({"metadata": {"auth": "x"}}, "auth, which is no metadata"),
        ({"metadata": {"version": "9"}}, 'metadata key "version" is reserved'),
        ({"metadata": {"title": "a\nb"}}, "contains newlines"),
        ({"metadata": {"x": "y" * 2000}}, "metadata too large"),
        ({"body": "x" * 1_048_577}, "a document holds at most 1,048,576"),
        ({"body": "\ud800"}, "no Unicode text"),
    ],
)
async def test_what_cannot_be_written_is_refused_with_the_reason(
    board: Board, arguments: dict[str, object], said: str
) -> None:
    async with local_worlds(board) as worlds:
        answer = await worlds.call(
            "mark_publish", **{"url": "/x.md", "body": "x", "expected_version": 0, **arguments}
        )
        assert answer.failed
        assert said in answer.text


async def test_who_may_not_write_is_told_so(board: Board) -> None:
    async with local_worlds(board, token=None) as worlds:
        for tool, more in (
            ("mark_publish", {"body": "x", "expected_version": 0}),
            ("mark_append", {"body": "x"}),
            ("mark_archive", {}),
        ):
            answer = await worlds.call(tool, url="/a.md", **more)
            assert answer.failed
            assert keys(answer.text)["status"] == "unauthorized"
            assert "A token is needed" in body(answer.text)


async def test_an_unreachable_server_is_told_and_may_be_asked_again(board: Board) -> None:
    board.unreachable = True
    async with local_worlds(board) as worlds:
        answer = await worlds.call("mark_publish", url="/a.md", body="x", expected_version=0)
        assert answer.failed
        assert "Nothing was changed there" in answer.text
