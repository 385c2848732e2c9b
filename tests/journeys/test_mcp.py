"""An agent with an MCP client: the SDK's own client, over real pipes, to the real program, which asks real servers."""

import base64
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio
from mcp import Client, MCPError, StdioServerParameters
from mcp.types import (
    BlobResourceContents,
    CallToolResult,
    Implementation,
    TextContent,
    TextResourceContents,
)

from app.agents.answers import LIMIT, at_most
from app.agents.tools import BY_NAME
from tests.journeys.conftest import PROGRAM, PROJECT, Server, StartServer
from tests.journeys.test_found_sections import import_corpus
from tests.unit.agents.local import body, calls, keys, next_call

NAME = "journey agent"
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": NAME, "version": "1"}}


class Agent:
    """What an agent does with its client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> str:
        """The text of a call that has to succeed."""
        text, failed = await self.outcome(tool, **arguments)
        assert not failed, text
        return text

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The text of a call that has to fail."""
        text, failed = await self.outcome(tool, **arguments)
        assert failed, text
        return text

    async def outcome(self, tool: str, **arguments: Any) -> tuple[str, bool]:
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        [content] = result.content
        assert isinstance(content, TextContent)
        assert at_most(content.text) <= LIMIT
        return content.text, bool(result.is_error)


@asynccontextmanager
async def agent(home: Path, *line: str, mode: str = "auto", **environment: str) -> AsyncIterator[Agent]:
    """Starts `mcp` as a client's configuration would, with a home directory of its own."""
    started = StdioServerParameters(
        command=sys.executable,
        args=[*PROGRAM[1:], "mcp", *line],
        env={"HOME": str(home), **environment},
        cwd=PROJECT,
    )
    with anyio.fail_after(60):
        async with Client(started, mode=mode, client_info=Implementation(name=NAME, version="1")) as client:
            yield Agent(client)


async def test_an_agent_finds_reads_and_writes(start_server: StartServer, tmp_path: Path) -> None:
    import_corpus(tmp_path / "root")
    server = start_server(RATE_LIMIT="0")
    async with agent(tmp_path, "--host", server.url, "--insecure", DEMARKUS_AUTH=server.token) as one:
        instructions = one.client.instructions or ""
        assert "mark_lookup" in instructions
        overview = await one.call("map")
        assert "50 documents in /" in overview

        found = await one.call(
            "mark_lookup", url="/", query="How can I override the syntax highlighting of a code block?"
        )
        assert keys(found)["match"] == "task"
        [read, *_] = calls(found)
        section = await one.call(read[0], **read[1])
        assert body(section).startswith("#")

        first = await one.call(
            "mark_publish",
            url="/notes/a.md",
            body="# A\n\nOne.\n",
            expected_version=0,
            metadata={"title": "Notes"},
        )
        assert keys(first)["version"] == "1"
        await one.call("mark_append", url="/notes/a.md", body="Two, see [b](b.md).\n")
        assert (
            body(await one.call("mark_fetch", url=f"{server.url}/notes/a.md"))
            == "# A\n\nOne.\nTwo, see [b](b.md).\n"
        )
        verbose = await one.call("mark_fetch", url="/notes/a.md", verbose=True)
        assert keys(verbose)["agent"] == NAME
        assert "is at version 2, not 1" in await one.refused(
            "mark_publish", url="/notes/a.md", body="# B\n", expected_version=1
        )
        assert f"to    link     {server.url}/notes/b.md" in await one.call("mark_explore", url="/notes/a.md")
        found = await one.call("mark_lookup", url="/notes", query="Notes", match="catalog")
        assert keys(found)["rows"] == "1 of 1"
        await one.call("mark_archive", url="/notes/a.md")
        assert "It is archived" in await one.refused("mark_fetch", url="/notes/a.md")
    assert "token_label=journey success=true" in server.log


async def test_the_manual_s_one_page_is_enough_to_connect(server: Server, tmp_path: Path) -> None:
    page = (PROJECT / "app" / "manual" / "agents.md").read_text("utf-8")
    [written] = re.findall(r'\{"mcpServers".*\}', page)
    [configured] = json.loads(written)["mcpServers"].values()
    assert configured["command"] == "demarkus-appliance"
    assert configured["args"][0] == "mcp"
    line = [argument.replace("mark://board.local", server.url) for argument in configured["args"][1:]]
    command = next(one.split()[1:] for one in page.splitlines() if "--pin" in one and "health" in one)
    shown = await trio.run_process(
        [*PROGRAM, "fingerprint", "--state-dir", str(server.state)], capture_stdout=True, cwd=PROJECT
    )
    values = {"mark://board.local/health": f"{server.url}/health", "sha256:…": shown.stdout.decode().strip()}
    environment = {**os.environ, "HOME": str(tmp_path)}
    await trio.run_process(
        [*PROGRAM, *(values.get(word, word) for word in command)],
        capture_stdout=True,
        cwd=PROJECT,
        env=environment,
    )
    async with agent(tmp_path, *line) as one:
        assert "0 documents in /" in await one.call("map")


async def test_tools_say_how_they_behave_and_calls_in_answers_fit_their_schemas(
    start_server: StartServer, tmp_path: Path
) -> None:
    import_corpus(tmp_path / "root")
    server = start_server(RATE_LIMIT="0")
    async with agent(tmp_path, "--host", server.url, "--insecure") as one:
        tools = {tool.name: tool for tool in (await one.client.list_tools()).tools}
        assert tools.keys() == BY_NAME.keys()
        for tool in tools.values():
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint == (
                tool.name not in {"mark_publish", "mark_append", "mark_archive"}
            )
            assert tool.annotations.destructive_hint == (tool.name in {"mark_publish", "mark_archive"})
        long = "/rust-rfcs/text/0344-conventions-galore.md"
        seen = [
            await one.call("mark_fetch", url=long),
            await one.call("mark_lookup", url="/", query="type", match="body"),
            await one.call("mark_lookup", url="/", query="type", match="body", budget=200),
            await one.call("mark_lookup", url="/", query="*", limit=3),
            await one.call("mark_lookup_all", query="type", match="body", limit=1000),
            await one.call("mark_list", url="/rust-rfcs/text/", page_size=3),
            await one.call("mark_explore", url=long, direction="both", page_size=2),
            await one.call("map"),
            await one.call("help"),
            await one.call("help", search="rotate a token"),
            await one.refused("mark_fetch", url=f"{long}#none"),
        ]
        made = 0
        for tool_name, arguments in [pair for text in seen for pair in calls(text)]:
            schema = tools[tool_name].input_schema
            assert arguments.keys() <= schema["properties"].keys()
            assert set(schema.get("required", ())) <= arguments.keys()
            await one.call(tool_name, **arguments)
            made += 1
        assert made >= 12


async def test_a_client_of_the_older_protocol_is_served_too(server: Server, tmp_path: Path) -> None:
    async with agent(tmp_path, "--host", server.url, "--insecure", mode="legacy") as one:
        assert one.client.server_info is not None
        assert one.client.server_info.name == "demarkus-appliance"
        assert "0 documents in /" in await one.call("map")
        with pytest.raises(MCPError, match="unknown tool 'mark_nothing'"):
            await one.client.call_tool("mark_nothing", {})


async def test_documents_are_resources(start_server: StartServer, tmp_path: Path) -> None:
    import_corpus(tmp_path / "root")
    server = start_server(RATE_LIMIT="0")
    async with agent(tmp_path, "--host", server.url, "--insecure") as one:
        listed = await one.client.list_resources()
        assert (len(listed.resources), listed.next_cursor) == (50, None)
        for resource in listed.resources[:5]:
            read = await one.client.read_resource(resource.uri)
            [content] = read.contents
            assert isinstance(content, TextResourceContents)
            assert content.text == body(await one.call("mark_fetch", url=resource.uri, force=True))
        [template] = (await one.client.list_resource_templates()).resource_templates
        assert template.uri_template.startswith("mark://")
        with pytest.raises(MCPError, match="not found"):
            await one.client.read_resource(f"{server.url}/none.md")


async def test_one_of_two_worlds_is_down(start_server: StartServer, tmp_path: Path) -> None:
    import_corpus(tmp_path / "root")
    server = start_server(RATE_LIMIT="0")
    nobody = "mark://127.0.0.1:1"
    async with agent(tmp_path, "--host", nobody, "--host", server.url, "--insecure") as one:
        text = await one.call("mark_lookup_all", query="default value", match="body", limit=3)
        assert keys(text)["worlds"] == "1 of 2 answered"
        assert f"failed: {nobody}/: 127.0.0.1:1: unreachable: connection refused" in text
        rows = [line for line in text.splitlines() if line.startswith("| mark://")]
        assert len(rows) == 3
        assert all(line.startswith(f"| {server.url}/") for line in rows)
        assert "there are several worlds" in await one.refused("mark_fetch", url="/x.md")
        server.stop()
        both = await one.refused("mark_lookup_all", query="default value", match="body")
        assert both.count("failed: ") == 2


async def test_the_worst_document_is_read_in_pages(server: Server, tmp_path: Path) -> None:
    text = ("é1#" * 30 + "\n") * 3_000
    async with server.client(server.token) as client:
        await client.publish("/worst.md", text.encode(), expected_version=0)
    async with agent(tmp_path, "--host", server.url, "--insecure") as one:
        answer = await one.call("mark_fetch", url="/worst.md", force=True)
        got, pages = b"", 0
        while True:
            start, end, size = (
                int(word.replace(",", "")) for word in keys(answer)["shown"].split() if word[0].isdigit()
            )
            assert (start, size) == (len(got), len(text.encode()))
            got += body(answer).encode()[: end - start]
            pages += 1
            if end == size:
                break
            tool, arguments = next_call(answer)
            answer = await one.call(tool, **arguments)
        assert got == text.encode()
        assert pages > 10


async def test_an_unknown_certificate_is_told_with_its_fingerprint_and_a_pin_opens_the_way(
    server: Server, tmp_path: Path
) -> None:
    async with agent(tmp_path, "--host", server.url) as one:
        text = await one.refused("map")
        pin = next(word for word in text.split() if word.startswith("sha256:"))
        assert f"demarkus-appliance fetch --pin {pin.rstrip('.')} {server.url}/health" in text
    async with agent(tmp_path, "--host", server.url, "--pin", pin.rstrip(".")) as one:
        assert "0 documents" in await one.call("map")
    (tmp_path / ".mark").mkdir()
    (tmp_path / ".mark" / "pins").write_text(f"127.0.0.1:{server.port} {pin.rstrip('.')}\n")
    async with agent(tmp_path, "--host", server.url) as one:
        assert "0 documents" in await one.call("map")


def _run(*line: str, text: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("DEMARKUS_")}
    return subprocess.run(
        [*PROGRAM, "mcp", *line],
        input=text,
        capture_output=True,
        env={**own, **environment},
        cwd=PROJECT,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("--host", "mark://a", "--host", "mark://b", "--auth", "x"), b"--auth is for one --host"),
        (
            ("--host", "mark://a", "--host", "mark://b", "--pin", "sha256:" + "0" * 64),
            b"--pin is for one --host",
        ),
        (("--auth-file", "x"), b"--auth-file is for one --host"),
        (("--host", "mark://a", "--auth", "-"), b"stdin belongs to the MCP client"),
        (("--host", "mark://a/docs"), b"names a server, mark://host[:port], without a path"),
        (("--host", "a"), b"is not a mark:// URL"),
    ],
)
def test_a_wrong_command_line_ends_before_anything_is_said_to_the_client(
    line: tuple[str, ...], said: bytes
) -> None:
    done = _run(*line)
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr


def test_a_token_of_one_world_is_not_shown_to_several() -> None:
    done = _run("--host", "mark://a", "--host", "mark://b", DEMARKUS_AUTH="secret")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"DEMARKUS_AUTH is not used" in done.stderr


@pytest.mark.parametrize(
    ("trust", "said"),
    [
        (("--insecure",), "\nready: {url}/ (fingerprint sha256:"),
        ((), "The certificate shown has the fingerprint sha256:"),
    ],
)
def test_it_says_at_once_whether_each_world_can_be_used(
    start_server: StartServer, tmp_path: Path, trust: tuple[str, ...], said: str
) -> None:
    server = start_server()
    wanted = [said.format(url=server.url), "\nnot ready: 127.0.0.1:1: unreachable: connection refused"]
    with (
        open(tmp_path / "said", "w+") as heard,
        subprocess.Popen(
            [*PROGRAM, "mcp", "--host", server.url, "--host", "mark://127.0.0.1:1", *trust],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=heard,
            env={**os.environ, "HOME": str(tmp_path)},
            cwd=PROJECT,
        ) as started,
    ):
        try:
            deadline = time.monotonic() + 30
            text = ""
            while not all(one in f"\n{text}" for one in wanted):
                assert time.monotonic() < deadline, text
                time.sleep(0.05)
                text = (tmp_path / "said").read_text()
            out, _ = started.communicate(timeout=20)  # closes its stdin
            assert (started.returncode, out) == (0, b"")
        finally:
            started.kill()


def test_it_ends_when_the_client_closes_and_survives_what_is_no_message() -> None:
    ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
    done = _run("--host", "mark://a", text=b"garbage\n\xff\xfe\n{}\n" + json.dumps(ping).encode() + b"\n")
    assert done.returncode == 0
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers if "result" in answer] == [7]


def test_lines_that_are_piped_in_all_get_their_answers() -> None:
    """The end of the input is no reason to give up what was asked before it; what was taken back is not waited for."""
    call = {"name": "help", "arguments": {"search": "rotate a token"}}
    lines: list[dict[str, object]] = [
        {"method": "initialize", "id": "hello", "params": HELLO},
        {"method": "notifications/initialized"},
        *({"method": "tools/call", "id": number, "params": call} for number in range(20)),
        {"method": "tools/call", "id": "taken back", "params": call},
        {"method": "notifications/cancelled", "params": {"requestId": "taken back"}},
        {"method": "notifications/cancelled", "params": {"requestId": [1]}},
    ]
    text = "".join(json.dumps({"jsonrpc": "2.0"} | line) + "\n" for line in lines)
    done = _run("--host", "mark://a", text=text.encode())
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    got = {answer["id"] for answer in answers if "result" in answer}
    assert got - {"taken back"} == {"hello", *range(20)}
    assert done.returncode == 0


def test_without_the_sdk_it_says_how_to_get_it(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "sys.modules['mcp'] = None\n"  # as if it were not installed
        "{frozen}"
        "from app.commands.program import main\n"
        "sys.exit(main(['mcp', '--host', 'mark://a']))\n"
    )
    for frozen, said in (
        ("", b"`pip install '/path/to/demarkus[mcp]'`, or `scripts/venv dev`"),
        ("", b"once it is published, `pip install 'demarkus-appliance[mcp]'`"),
        ("sys.frozen = True\n", b"the one-file program has no MCP server in it"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", script.format(frozen=frozen)],
            capture_output=True,
            cwd=PROJECT,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (1, b"")
        assert said in done.stderr
        assert b"Traceback" not in done.stderr


def test_a_line_that_is_no_message_is_answered_and_the_next_one_too() -> None:
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode(),
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"help","arguments":{"search":"\\ud800"}}}',
        b"\xff\xfe",
        b"",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":3,"method":"ping"}',
    ]
    done = _run("--host", "mark://a", text=b"\n".join(lines) + b"\n")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted((str(one["id"]), one.get("error", {}).get("code", 0)) for one in answers) == [
        ("1", 0),
        ("2", -32700),
        ("3", 0),
        *[("None", -32700)] * 2,
        ("None", -32600),
    ]


async def test_control_characters_reach_no_terminal_and_no_model(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server()
    async with agent(tmp_path, "--host", server.url, "--insecure", DEMARKUS_AUTH=server.token) as one:
        odd = "# Odd\n\nred \x1b[31m \u202e\n"
        await one.call("mark_publish", url="/odd.md", body=odd, expected_version=0)
        shown = await one.call("mark_fetch", url="/odd.md")
        assert "red <U+001B>[31m <U+202E>\n" in shown
        found = re.search(r"resource (mark://\S+)\]", shown)
        assert found is not None
        [content] = (await one.client.read_resource(found[1])).contents
        assert isinstance(content, BlobResourceContents)
        assert base64.b64decode(content.blob) == odd.encode()
