"""A task through the real server: labelled rows that are fetched as they stand, on the command line and on the wire.

The world is the sample in tests/corpus: real documentation with its headings, tables and code.
"""

import json
import subprocess
from pathlib import Path
from time import monotonic

import pytest
import trio

from app.markdown.outline import section
from app.markdown.strip import own_text
from app.protocol.tables import parse_lookup_body
from app.world.world import World
from tests.journeys.conftest import PROGRAM, Server, StartServer, token_entry
from tests.journeys.test_found_sections import import_corpus

TASKS = [
    "How do I format a date in a template, and which layouts are there?",
    "compare two strings and return a default value",
    "list all pages of a section, sorted by weight",
    "What happens when a type does not implement the trait, and how is the error reported?",
    "default value",
]
FREQUENT = (
    "type value function code example string default error content file page template compiler list name using use "
    "new one more also like only other same no not all see note make see level"
)


def lookup(server: Server, query: str, *options: str) -> "subprocess.CompletedProcess[str]":
    line = [*PROGRAM, "lookup", f"{server.url}/", "--query", query, "--match", "task", "--insecure", *options]
    return subprocess.run(line, capture_output=True, text=True, timeout=30, check=False)


async def test_every_row_can_be_fetched_and_says_what_its_section_says(
    start_server: StartServer, tmp_path: Path
) -> None:
    import_corpus(tmp_path / "root")
    server = start_server(RATE_LIMIT="0")
    labels = set()
    async with server.client() as client:
        for task in TASKS:
            answer = await client.task("/", task)
            assert (answer.status, answer.metadata["match"]) == ("ok", "task")
            rows = parse_lookup_body(answer.body)
            assert 0 < len(rows) <= 5
            assert int(answer.metadata["matches"]) >= len(rows)
            truncated = int(answer.metadata["matches"]) > len(rows)
            assert answer.metadata["truncated"] == ("true" if truncated else "false")
            for row in rows:
                labels.add(row.match)
                body = (await client.fetch(row.path)).body
                part = section(body, row.anchor) if row.anchor else body
                assert part is not None
                text = " ".join(own_text(part).split())
                assert " ".join(row.snippet.strip("…").split()) in text
    assert labels == {"complete", "partial"}


def test_the_command_shows_text_or_json(start_server: StartServer, tmp_path: Path) -> None:
    import_corpus(tmp_path / "root")
    server = start_server(RATE_LIMIT="0")
    text = lookup(server, TASKS[0])
    assert (text.returncode, text.stderr) == (0, "")
    head, *lines = text.stdout.splitlines()
    assert head.endswith(f' matches for "{TASKS[0]}" in /')
    assert lines[-1].startswith("showing 5 of ")
    document = json.loads(lookup(server, TASKS[0], "--json", "--limit", "2").stdout)
    assert list(document) == ["query", "scope", "mode", "matches", "truncated", "terms_ignored", "results"]
    assert (document["mode"], len(document["results"]), document["truncated"]) == ("task", 2, True)
    first = document["results"][0]
    assert lines[0].startswith(f"{first['path']}#{first['anchor']}  {first['title']}")
    nothing = lookup(server, "xqzzy wvutx")
    assert (nothing.returncode, nothing.stdout) == (0, 'no matches for "xqzzy wvutx" in /\n')
    refused = lookup(server, "a b")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "no word to look for" in refused.stderr


async def test_what_a_caller_may_not_read_is_not_there(start_server: StartServer, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    world = World.open(str(root), log=lambda *_, **__: None)
    for path, text in (("/a.md", "gimbal"), ("/b.md", "windlass"), ("/secret/c.md", "gimbal escrow")):
        world.publish(path, f"# {path[1:]}\n\nOne {text}.\n".encode(), {}, None, 1_790_000_000.0)
    world.close()
    server = start_server(tokens=token_entry("all", "reader", ["/secret/**"], ["read"]), RATE_LIMIT="0")
    async with server.client() as stranger:
        answer = await stranger.task("/", "gimbal windlass")
        assert [row.path for row in parse_lookup_body(answer.body)] == ["/a.md", "/b.md"]
        assert (await stranger.task("/", "escrw")).metadata["matches"] == "0"
    async with server.client(token="reader") as reader:
        answer = await reader.task("/", "gimbal windlass")
        assert [row.path for row in parse_lookup_body(answer.body)] == ["/b.md", "/a.md", "/secret/c.md"]


async def test_many_heavy_tasks_keep_nobody_waiting(start_server: StartServer, tmp_path: Path) -> None:
    import_corpus(tmp_path / "root")
    server = start_server(RATE_LIMIT="0")
    waits: list[float] = []
    async with server.client() as busy, server.client() as quick:
        await busy.task("/", FREQUENT)
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(busy.task, "/", f"{FREQUENT} word{number} and/or c++")
            for _ in range(10):
                started = monotonic()
                assert (await quick.fetch("/health")).status == "ok"
                waits.append(monotonic() - started)
    assert sorted(waits)[len(waits) // 2] < 0.5


@pytest.mark.parametrize("query", ["x" * 4097, "*", "a b", "?!"])
async def test_what_cannot_be_looked_for_is_an_error(start_server: StartServer, query: str) -> None:
    server = start_server()
    async with server.client() as client:
        answer = await client.lookup("/", query, match="task")
    assert answer.status == "bad-request"
