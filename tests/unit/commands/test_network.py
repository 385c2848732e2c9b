"""The network commands against a server in the same test: what they ask, what they print where, and their exit codes."""

from pathlib import Path

import pytest

from app.protocol.message import Request, Response, error_response
from app.protocol.tables import LookupRow, lookup_body
from tests.unit.commands.asking import CREATED, DOCUMENT, Run


async def test_fetch_prints_the_bytes_and_nothing_else(run: Run) -> None:
    done = await run(DOCUMENT, "fetch", "URL/docs/pump.md")
    assert (done.code, done.out, done.err) == (0, DOCUMENT.body, "")
    assert done.requests == [Request("FETCH", "/docs/pump.md")]


async def test_fetch_of_a_section(run: Run) -> None:
    done = await run(DOCUMENT, "fetch", "URL/docs/pump.md#seal")
    assert (done.code, done.out) == (0, b"## Seal\n\nRubber.\n\n")
    assert done.requests == [Request("FETCH", "/docs/pump.md")]
    done = await run(DOCUMENT, "fetch", "URL/docs/pump.md#valve")
    assert (done.code, done.out) == (3, b"")
    assert "no such section: #valve" in done.err
    assert "#seal" in done.err


async def test_fetch_json(run: Run) -> None:
    done = await run(DOCUMENT, "fetch", "URL/docs/pump.md", "--json", "-v")
    assert done.document == {
        "url": f"mark://127.0.0.1:{done.server.port}/docs/pump.md",
        "status": "ok",
        "message": None,
        "path": "/docs/pump.md",
        "version": 3,
        "current_version": None,
        "modified": "2026-10-05T08:00:00Z",
        "etag": "e" * 64,
        "content_hash": "sha256-x",
        "metadata": {"title": "Pump"},
        "body": DOCUMENT.body.decode(),
    }
    assert done.err.startswith("[ok] content-hash=sha256-x etag=")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("not-found", 3),
        ("archived", 3),
        ("unauthorized", 5),
        ("not-permitted", 5),
        ("bad-request", 1),
        ("server-error", 1),
        ("unheard-of", 1),
    ],
)
@pytest.mark.parametrize("command", ["fetch", "list", "versions", "archive"])
async def test_exit_codes_by_status(run: Run, status: str, code: int, command: str) -> None:
    done = await run(error_response(status, "the reason\x1b[2J"), command, "URL/x.md")
    assert (done.code, done.out) == (code, b"")
    assert done.err.startswith(f"demarkus-appliance: {status}: the reason[2J\n")
    done = await run(error_response(status, "the reason"), command, "URL/x.md", "--json")
    assert done.code == code
    assert (done.document["status"], done.document["message"]) == (status, "the reason")


async def test_list_follows_the_pages_to_the_end(run: Run) -> None:
    def pages(request: Request) -> Response:
        cursor = request.metadata.get("cursor", "")
        following = {"": "one", "one": "two"}.get(cursor)
        keys = {"complete": "false", "next-cursor": following} if following else {"complete": "true"}
        return Response(
            "ok", keys, f"\n# Index of /\n\n- [d{cursor}](d{cursor}/)\n- [a%20b](a%20b{cursor}.md)\n".encode()
        )

    done = await run(pages, "list", "URL/")
    assert done.out == b"d/\na b.md\ndone/\na bone.md\ndtwo/\na btwo.md\n"
    assert [request.metadata.get("cursor") for request in done.requests] == [None, "one", "two"]
    done = await run(pages, "list", "URL/", "--page-size", "2", "--include-archived")
    assert done.requests == [Request("LIST", "/", {"page-size": "2", "include-archived": "true"})]
    assert done.err == "more follows: --cursor one\n"
    done = await run(pages, "list", "URL/", "--cursor", "two", "--json")
    assert done.document["entries"] == [
        {"name": "dtwo", "directory": True},
        {"name": "a btwo.md", "directory": False},
    ]
    assert (done.document["complete"], done.document["next_cursor"]) == (True, None)


async def test_list_leaves_a_server_whose_pages_lead_nowhere(run: Run) -> None:
    def pages(request: Request) -> Response:
        cursor = request.metadata.get("cursor", "") + "x"  # ever a new one
        return Response("ok", {"complete": "false", "next-cursor": cursor}, b"- [a](a)\n")

    done = await run(pages, "list", "URL/")
    assert (done.code, done.out, len(done.requests)) == (1, b"", 2)
    assert "does not come to an end" in done.err


HISTORY = Response(
    "ok",
    {"current": "2", "total": "2", "chain-valid": "false"},
    b"\n# Version History: /a.md\n\n- [v2](%2Fa.md/v2) - 2026-10-05T09:30:00Z\n- [v1](%2Fa.md/v1) - 2026-10-05T08:00:00Z\n",
)


async def test_versions(run: Run) -> None:
    done = await run(HISTORY, "versions", "URL/a.md")
    assert (done.code, done.out) == (0, b"v2  2026-10-05T09:30:00Z\nv1  2026-10-05T08:00:00Z\n")
    assert "chain" in done.err
    done = await run(HISTORY, "versions", "URL/a.md", "--json")
    assert (done.document["current"], done.document["total"], done.document["chain_valid"]) == (2, 2, False)
    assert done.document["versions"][0] == {"version": 2, "modified": "2026-10-05T09:30:00Z"}


FOUND = Response(
    "ok",
    {"matches": "2", "match": "body"},
    b'\n# Lookup matches for "pump" in /\n\n| Path | Importance | Title | Tags | Snippet |\n'
    b"|------|------------|-------|------|---------|\n"
    b"| /a.md#seal | 0.80 | Pump \xe2\x80\xba Seal | x, y | a \\| b |\n| /b.md | 0.50 | B |  |  |\n",
)


async def test_lookup(run: Run) -> None:
    done = await run(
        FOUND, "lookup", "URL/", "--query", "pump", "--match", "body", "--limit", "2", "--filter", "a=b"
    )
    assert done.requests == [
        Request("LOOKUP", "/", {"query": "pump", "match": "body", "limit": "2", "filter": "a=b"}),
    ]
    assert done.out.decode() == "/a.md#seal  0.80  Pump › Seal  [x, y]\n    a | b\n/b.md  0.50  B\n"
    assert done.err == "the first 2; there may be more (--limit)\n"
    done = await run(FOUND, "lookup", "URL/", "--query", "pump", "--json")
    assert (done.document["matches"], done.document["match"], done.document["query"]) == (2, "body", "pump")
    assert done.document["rows"] == [
        {
            "path": "/a.md",
            "anchor": "seal",
            "importance": 0.8,
            "title": "Pump › Seal",
            "tags": ["x", "y"],
            "snippet": "a | b",
        },
        {"path": "/b.md", "anchor": None, "importance": 0.5, "title": "B", "tags": [], "snippet": None},
    ]
    done = await run(
        Response("ok", {"matches": "9", "match": "catalog"}),
        "lookup",
        "URL/",
        "--query",
        "zz",
        "--match",
        "body",
    )
    assert "titles and tags only" in done.err
    nothing = Response("ok", {"matches": "0"}, b"")
    done = await run(nothing, "lookup", "URL/", "--query", "zz")
    only = "no matches: only titles and tags were searched; --match body searches the text\n"
    assert (done.code, done.out, done.err) == (0, b"", only)
    done = await run(nothing, "lookup", "URL/", "--query", "*")
    assert (done.code, done.out, done.err) == (0, b"", "no matches\n")


@pytest.mark.parametrize("query", ["c++", "C# x", "*", "x" * 33])
async def test_lookup_of_a_query_that_has_no_word(run: Run, query: str) -> None:
    reason = (
        "no word of the query can be looked for: words need two letters or digits, and at most 32 bytes\n"
    )
    line = ("lookup", "URL/", "--query", query, "--match", "body")
    nothing = Response("ok", {"matches": "0", "match": "body"}, b"")
    done = await run(nothing, *line)
    assert (done.code, done.out, done.err) == (0, b"", reason)
    done = await run(nothing, *line[:3], f"pump {query}", *line[4:])
    assert (done.code, done.out, done.err) == (0, b"", "no matches\n")
    done = await run(nothing, *line, "--json")
    assert (done.code, done.document["matches"], done.err) == (0, 0, "")
    older = await run(Response("ok", {"matches": "0"}, b""), *line)
    assert older.err == "this server has searched titles and tags only, not the text\nno matches\n"


async def test_lookup_of_a_task(run: Run) -> None:
    body = lookup_body(
        "rotate token", "/", [LookupRow("/a.md", "s", 0.5, "A › S", (), "x", "partial")], "task"
    )
    answer = Response("ok", {"match": "task", "matches": "1", "truncated": "false"}, body)
    line = ("lookup", "URL/", "--query", "rotate token", "--match", "task", "--limit", "9", "--filter", "a=b")
    done = await run(answer, *line)
    assert done.requests == [
        Request("LOOKUP", "/", {"query": "rotate token", "match": "task", "limit": "9", "filter": "a=b"})
    ]
    assert done.out.decode() == '1 match for "rotate token" in /\n/a.md#s  A › S  [partial]\n    x\n'
    done = await run(answer, *line, "--json")
    assert (done.code, done.document["mode"], done.document["results"][0]["match"]) == (0, "task", "partial")

    def older(request: Request) -> Response:
        known = request.metadata["match"] == "body"
        return FOUND if known else error_response("bad-request", 'match must be "catalog" or "body"')

    done = await run(older, *line)
    assert (done.code, [request.metadata["match"] for request in done.requests]) == (0, ["task", "body"])
    assert done.out.decode().startswith('2 matches for "rotate token" in /, by body: ')
    done = await run(error_response("bad-request", "invalid filter"), *line, "--json")
    assert (done.code, done.document["status"], done.document["rows"]) == (1, "bad-request", [])


async def test_put(run: Run, tmp_path: Path) -> None:
    done = await run(
        CREATED,
        "put",
        "URL/a.md",
        "--body",
        "text",
        "--expected-version",
        "3",
        "--meta",
        "title=T=1",
        "--meta",
        "tags=a,b",
    )
    assert done.requests == [
        Request("PUBLISH", "/a.md", {"expected-version": "3", "title": "T=1", "tags": "a,b"}, b"text")
    ]
    assert (done.code, done.out) == (0, b"created /a.md v4\n")
    file = tmp_path / "a.md"
    file.write_bytes(b"---\nfrom a file\n")
    done = await run(CREATED, "put", "URL/a.md", str(file), "--force", "--json")
    assert done.requests == [Request("PUBLISH", "/a.md", {}, b"---\nfrom a file\n")]
    assert (done.document["version"], done.document["modified"]) == (4, "2026-10-05T08:00:00Z")


async def test_put_conflict(run: Run) -> None:
    conflict = Response(
        "conflict", {"server-version": "7", "your-version": "3"}, b"# Version Conflict\n\nlong text\n"
    )
    done = await run(conflict, "put", "URL/a.md", "--body", "x", "--expected-version", "3")
    assert (done.code, done.out) == (4, b"")
    assert "the document is at version 7, not 3" in done.err
    assert "nothing was written" in done.err
    done = await run(conflict, "put", "URL/a.md", "--body", "x", "--expected-version", "3", "--json")
    assert (done.code, done.document["server_version"], done.document["version"]) == (4, 7, None)


async def test_append_finds_the_current_version_by_itself(run: Run) -> None:
    done = await run(
        lambda request: HISTORY if request.verb == "VERSIONS" else CREATED,
        "append",
        "URL/a.md",
        "--body",
        "x",
    )
    assert [request.verb for request in done.requests] == ["VERSIONS", "APPEND"]
    assert done.requests[1] == Request("APPEND", "/a.md", {"expected-version": "2"}, b"x")
    assert done.out == b"created /a.md v4\n"
    done = await run(CREATED, "append", "URL/a.md", "--body", "x", "--expected-version", "9")
    assert [request.metadata for request in done.requests] == [{"expected-version": "9"}]
    done = await run(error_response("not-found", "/a.md not found"), "append", "URL/a.md", "--body", "x")
    assert (done.code, len(done.requests)) == (3, 1)


async def test_archive_and_back(run: Run) -> None:
    done = await run(Response("ok", {"archived": "true", "version": "2"}), "archive", "URL/a.md")
    assert (done.out, done.requests) == (b"archived /a.md v2\n", [Request("ARCHIVE", "/a.md")])
    done = await run(Response("ok", {"version": "2"}), "archive", "--undo", "URL/a.md")
    assert (done.out, done.requests) == (b"ok /a.md v2\n", [Request("PUBLISH", "/a.md")])


USAGE = [
    ("put", "URL/a.md", "--body", "x"),
    ("put", "URL/a.md", "--body", "x", "--expected-version", "1", "--force"),
    ("put", "URL/a.md", "--body", "x", "--expected-version", "-1"),
    ("put", "URL/a.md", "--body", "", "--force"),
    ("put", "URL/a.md", "file", "--body", "x", "--force"),
    ("put", "URL/a.md", "--body", "x", "--force", "--meta", "novalue"),
    ("put", "URL/a.md", "--body", "x", "--force", "--meta", "auth=x"),
    ("put", "URL/a.md", "--body", "x", "--force", "--meta", "retention=2"),
    ("put", "URL/a.md", "--body", "x", "--force", "--meta", "importance=7"),
    ("put", "URL/a.md", "--body", "x", "--force", "--meta", "importance=high"),
    ("put", "URL/a.md", "--body", "x", "--force", "--meta", "version=1"),
    ("append", "URL/a.md", "--body", "x", "--meta", "importance=-0.1"),
    ("put", "URL/a.md", "-", "--force", "--auth", "-"),
    ("append", "URL/a.md", "--body", ""),
    ("fetch", "http://127.0.0.1/"),
    ("fetch", "mark://user@127.0.0.1/"),
    ("fetch", "URL/", "--pin", "sha256:12", "--timeout", "5"),
    ("fetch", "URL/", "--timeout", "0"),
    ("fetch", "URL/", "--timeout", "nan"),
    ("fetch",),
    ("lookup", "URL/"),
    ("lookup", "URL/", "--query", "x", "--match", "tasks"),
    ("lookup", "URL/", "--que", "x"),
    ("frob",),
    (),
]


@pytest.mark.parametrize("line", USAGE)
async def test_wrong_usage_sends_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch, line: tuple[str, ...]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    done = await run(CREATED, *line, trust="")
    assert (done.code, done.out, done.requests) == (2, b"", [])
    assert done.err
    assert "Traceback" not in done.err


async def test_a_key_that_no_server_takes_is_told_with_the_rule(run: Run) -> None:
    done = await run(CREATED, "put", "URL/a.md", "--body", "x", "--force", "--meta", "Tags=x")
    assert (done.code, done.requests) == (2, [])
    assert (
        'metadata key "Tags" contains invalid characters: lower-case letters, digits and hyphens' in done.err
    )


async def test_bodies_that_no_server_takes_are_not_sent(run: Run, tmp_path: Path) -> None:
    big, binary = tmp_path / "big", tmp_path / "binary"
    big.write_bytes(b"x" * 2000000)
    binary.write_bytes(b"ok \xff")
    for file, reason in (
        (big, "larger than 1048576 bytes, the most that a document holds: it has 2000000"),
        (binary, "not UTF-8 (byte 3)"),
        (tmp_path / "none", "No such file"),
    ):
        done = await run(CREATED, "put", "URL/a.md", str(file), "--force")
        assert (done.code, done.requests) == (1, [])
        assert reason in done.err
    big.write_bytes(b"x" * 1048576)
    assert (await run(CREATED, "put", "URL/a.md", str(big), "--force")).code == 0


async def test_outline_prints_sizes_anchors_and_headings(run: Run) -> None:
    done = await run(DOCUMENT, "outline", "URL/docs/pump.md")
    lines = [line.split() for line in done.out.decode().splitlines()]
    assert done.code == 0
    assert lines == [["40", "#pump", "Pump"], ["18", "#seal", "Seal"], ["7", "#end", "End"]]
    whole = (await run(DOCUMENT, "outline", "URL/docs/pump.md", "--json")).document
    assert whole["bytes"] == len(DOCUMENT.body)
    assert [heading["level"] for heading in whole["headings"]] == [1, 2, 2]


async def test_outline_of_nothing_is_not_found(run: Run) -> None:
    done = await run(Response("not-found", {}, b"\n# Not found\n\n/a.md not found\n"), "outline", "URL/a.md")
    assert (done.code, done.out) == (3, b"")
