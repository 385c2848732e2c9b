"""The real program over real QUIC: every verb once, and requests that no client should send."""

import re

import trio

from app.protocol.limits import BODY_MAX, PATH_MAX
from app.protocol.message import Request, encode_request, parse_response
from tests.journeys.conftest import Server, StartServer, token_entry
from tests.journeys.raw import connect

BAD_REQUEST = b"---\nstatus: bad-request\n---\n\n# Bad request\n\nbad request\n"
UNREADABLE = b"---\nstatus: server-error\n---\n\n# Server error\n\ncould not read request\n"


async def test_every_verb_over_the_network(server: Server) -> None:
    async with server.client(server.token) as client:
        created = await client.publish(
            "/docs/pump.md", b"# Pump\n", expected_version=0, metadata={"tags": "pump", "title": "The pump"}
        )
        assert (created.status, created.metadata["version"]) == ("created", "1")
        appended = await client.append("/docs/pump.md", b"More.\n", expected_version=1)
        assert (appended.status, appended.metadata["version"]) == ("created", "2")
        fetched = await client.fetch("/docs/pump.md")
        assert (fetched.status, fetched.body) == ("ok", b"# Pump\nMore.\n")
        assert fetched.metadata["title"] == "The pump"
        # Read your writes, by every way in.
        assert (await client.fetch("/docs/pump.md/v2")).body == fetched.body
        assert (await client.fetch("/" + fetched.metadata["content-hash"])).body == fetched.body
        again = await client.fetch("/docs/pump.md", if_none_match=fetched.metadata["etag"])
        assert again.status == "not-modified"
        listed = await client.list("/docs")
        assert (listed.status, listed.metadata["complete"]) == ("ok", "true")
        assert b"- [pump.md](pump.md)\n" in listed.body
        history = await client.versions("/docs/pump.md")
        assert (history.metadata["total"], history.metadata["chain-valid"]) == ("2", "true")
        found = await client.lookup("/", "pump", match="body")
        assert (found.metadata["matches"], found.metadata["match"]) == ("1", "body")
        same = await client.publish(
            "/docs/pump.md",
            fetched.body,
            expected_version=2,
            metadata={"tags": "pump", "title": "The pump"},
        )
        assert (same.status, same.metadata["version"]) == ("ok", "2")
        archived = await client.archive("/docs/pump.md")
        assert archived.metadata == {"archived": "true", "version": "2"}
        assert (await client.fetch("/docs/pump.md")).status == "archived"
        assert (await client.lookup("/", "pump")).metadata["matches"] == "0"
        health = await client.fetch("/health")
        assert health.body == b"# Health Check\n\nServer is healthy.\n"
    assert server.stop() == 0
    assert 'msg="server stopped"' in server.log
    assert server.token not in server.log
    assert "The pump" not in server.log
    line = r"level=INFO msg=append audit=true operation=append path=/docs/pump.md version=2 token_label=journey success=true size_bytes=6\n"
    assert re.search(line, server.log)


async def test_unknown_verbs_are_answered_at_once_and_harm_nothing(server: Server) -> None:
    async with connect(server.address) as client:
        with trio.fail_after(1):
            streams = [client.send(data) for data in (b"WATCH /\n", b"FROB /x\n", b" /x\n", b"", b"LIST /\n")]
            watch, frob, empty, nothing, listing = [await client.answer(stream) for stream in streams]
        assert watch.startswith(b"---\nstatus: bad-request\n---\n")
        assert watch.endswith(b"unsupported verb: WATCH\n")
        assert frob == empty == BAD_REQUEST
        assert nothing == UNREADABLE
        assert parse_response(listing).status == "ok"


async def test_bodies_around_the_limit(server: Server) -> None:
    async with connect(server.address) as client, server.client(server.token) as reader:
        for size, status in (
            (BODY_MAX - 1, "created"),
            (BODY_MAX, "created"),
            (BODY_MAX + 1, "server-error"),
        ):
            body = (b"0123456789abcde\n" * (size // 16 + 1))[:size]
            request = Request("PUBLISH", f"/big/{size}.md", {"auth": server.token}, b"")
            answer = await client.ask(encode_request(request) + body)
            assert parse_response(answer).status == status, size
            if status == "created":
                fetched = await reader.fetch(f"/big/{size}.md")
                assert fetched.body == body
            else:
                assert answer == UNREADABLE
        # A document that is full takes no more.
        full = await reader.append(f"/big/{BODY_MAX}.md", b"x", expected_version=1)
        assert (full.status, full.body) == (
            "server-error",
            b"\n# Server error\n\ncontent exceeds size limit\n",
        )
        assert (await reader.list("/big")).metadata["entries"] == "2"


async def test_a_request_line_and_a_block_around_their_limits(server: Server) -> None:
    def line(length: int) -> bytes:
        return b"FETCH /" + b"a" * (length - len(b"FETCH /"))

    def block(length: int) -> bytes:
        return b"FETCH /x\n---\nk: " + b"v" * (length - len(b"k: ")) + b"\n---\n"

    async with connect(server.address) as client:
        # 4,093 is the longest line whose path still is a path; to 4,096 it is a bad path, beyond it no line.
        longest = PATH_MAX + len(b"FETCH ")
        for data, status, message in (
            (line(longest), "not-found", b" not found\n"),
            (line(longest + 1), "bad-request", b"\nbad request\n"),
            (line(4096) + b"\r\n", "bad-request", b"\nbad request\n"),
            (line(4097), "server-error", b"\ncould not read request\n"),
            (block(65536), "not-found", b"/x not found\n"),
            (block(65537), "server-error", b"\ncould not read request\n"),
        ):
            answer = parse_response(await client.ask(data))
            assert (answer.status, answer.body.endswith(message)) == (status, True), data[:40]


async def test_a_path_may_hold_every_byte_that_the_grammar_allows(start_server: StartServer) -> None:
    server = start_server(RATE_LIMIT="0")
    forbidden = {*range(0x09), *range(0x0A, 0x20), 0x7F}
    async with connect(server.address) as client:
        for byte in range(256):
            name = b"/bytes/a%bz.md" % bytes([byte])
            answer = await client.ask(b"PUBLISH %b\n---\nauth: %b\n---\nx\n" % (name, server.token.encode()))
            if byte == 0x0A:  # the line ends early: what is left of it is a body, without a token
                assert parse_response(answer).status == "unauthorized"
                continue
            if byte in forbidden:
                assert answer == BAD_REQUEST, byte
                continue
            assert parse_response(answer).status == "created", byte
            document = await client.ask(b"FETCH %b\n" % name)
            assert parse_response(document).body == b"x\n", byte
        listing = await client.ask(b"LIST /bytes\n")
        # The slash has made a directory, which is an entry too.
        assert int(parse_response(listing).metadata["entries"]) == 256 - len(forbidden)
        assert b"(a%FFz.md)" in listing
        assert b"- [a\\[z.md](a%5Bz.md)\n" in listing


async def test_what_a_caller_may_not_read_shows_nowhere(start_server: StartServer) -> None:
    """A secret word in a path, a title, a tag and a body; a caller without a token asks everything."""
    tokens = (
        token_entry("keeper", "keeper-token", ["/vault/**", "/vault.md"], ["read", "publish"])
        + token_entry("everyone", "everyone-token", ["/**"], ["publish"])
        + token_entry("pen", "pen-token", ["/vault/**"], ["publish"])
    )
    server = start_server(tokens=tokens, RATE_LIMIT="0")
    async with server.client("keeper-token") as keeper, server.client("everyone-token") as everyone:
        await keeper.publish(
            "/vault/xyzzy.md", b"# xyzzy\n", expected_version=0, metadata={"tags": "xyzzy", "title": "xyzzy"}
        )
        await everyone.publish("/open.md", b"# Open\n", expected_version=0)
        fetched = await keeper.fetch("/vault/xyzzy.md")
        content_hash = fetched.metadata["content-hash"]
        for token in ("", "nobody", "pen-token"):
            async with server.client(token) as stranger:
                answers = [
                    await stranger.list("/"),
                    await stranger.list("/vault"),
                    await stranger.fetch("/"),
                    await stranger.fetch("/vault/"),
                    await stranger.versions("/vault/a.md"),
                    await stranger.lookup("/", "xy"),
                    await stranger.lookup("/", "*", limit=1000),
                    await stranger.fetch("/.well-known/agent-manifest.md"),
                    await stranger.fetch("/" + content_hash),
                ]
                assert not any(
                    b"xyzzy" in answer.body or "xyzzy" in str(answer.metadata) for answer in answers
                )
                # Word for word the answers about something that is not there.
                for verb in (stranger.fetch, stranger.versions):
                    there, absent = await verb("/vault/xyzzy.md"), await verb("/vault/absent.md")
                    assert there == absent
                unknown = await stranger.fetch("/sha256-" + "0" * 64)
                assert answers[-1].body == unknown.body.replace(b"0" * 64, content_hash[7:].encode())
        async with server.client("pen-token") as pen:
            # Who may only write learns of a conflict, not of the content.
            conflict = await pen.publish("/vault/xyzzy.md", b"mine\n", expected_version=0)
            assert (conflict.status, b"# xyzzy" in conflict.body) == ("conflict", False)
    server.stop()
    lines = [line for line in server.log.splitlines() if "xyzzy" in line]
    # The path that was asked for is in the log; title, tags and body never are.
    assert all("path=/vault/xyzzy.md" in line for line in lines)
