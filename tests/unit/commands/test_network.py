"""The network commands against a server in the same test: what they ask, what they print where, and their exit codes."""

import getpass
import io
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from app.client import client as client_module
from app.commands import program
from app.protocol.message import Request, Response, encode_response, error_response, parse_request
from app.protocol.tables import LookupRow, lookup_body
from tests.unit.client.loopback import Loopback, Misdeed, loopback, unused_port

Answer = Callable[[Request], Response | Misdeed]

DOCUMENT = Response(
    "ok",
    {
        "version": "3",
        "title": "Pump",
        "etag": "e" * 64,
        "content-hash": "sha256-x",
        "modified": "2026-10-05T08:00:00Z",
    },
    b"# Pump\n\nText.\n\n## Seal\n\nRubber.\n\n## End\n",
)


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DEMARKUS_AUTH", raising=False)
    monkeypatch.setattr(client_module, "PAUSE", 0.01)
    return tmp_path


class Outcome:
    def __init__(self, code: int, captured: Any, server: Loopback) -> None:
        self.code = code
        self.out: bytes = captured.out
        self.err: str = captured.err.decode()
        self.requests = [parse_request(data) for data in server.requests]
        self.server = server

    @property
    def document(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def _called_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["demarkus-appliance"])


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Any]:
    """Runs a command line against a server that answers so; `URL` in it stands for the server's address."""

    async def call(answer: Answer | Response, *line: str, trust: str = "--insecure") -> Outcome:
        def script(data: bytes) -> bytes | Misdeed:
            given = answer(parse_request(data)) if callable(answer) else answer
            return encode_response(given) if isinstance(given, Response) else given

        async with loopback(script) as server:
            words = [word.replace("URL", f"mark://127.0.0.1:{server.port}") for word in line]
            code = await trio.to_thread.run_sync(program.main, [*words, *([trust] if trust else [])])
        return Outcome(code, capsysbinary.readouterr(), server)

    return call


Run = Callable[..., Any]


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


CREATED = Response("created", {"version": "4", "modified": "2026-10-05T08:00:00Z"})


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


async def test_where_the_token_comes_from(run: Run, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    async def auth(*options: str) -> str | None:
        done = await run(DOCUMENT, "fetch", "URL/", *options)
        assert done.code == 0
        token: str | None = done.requests[0].metadata.get("auth")
        return token

    assert await auth() is None
    (home / ".mark" / "tokens.d").mkdir(parents=True)
    file = home / "token"
    file.write_text("from-file\n")
    monkeypatch.setenv("DEMARKUS_AUTH", "from-environment")
    assert await auth() == "from-environment"
    assert await auth("--auth-file", str(file)) == "from-file"
    assert await auth("--auth", "from-flag") == "from-flag"


async def test_a_token_from_stdin(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from-stdin\nrest\n")
    with secret.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        done = await run(DOCUMENT, "fetch", "URL/", "--auth", "-")
    assert done.requests[0].metadata == {"auth": "from-stdin"}
    for content in ("", "\n", "two\nlines"):
        secret.write_text(content)
        done = await run(DOCUMENT, "fetch", "URL/", "--auth-file", str(secret))
        assert (done.code, done.requests) == (1, [])
    done = await run(DOCUMENT, "fetch", "URL/", "--auth-file", str(tmp_path / "none"))
    assert (done.code, done.requests) == (1, [])
    assert f"{tmp_path}/none: No such file" in done.err


async def test_a_token_typed_at_a_terminal_is_not_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Keyboard(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Keyboard())
    monkeypatch.setattr(getpass, "getpass", lambda prompt: "typed")
    done = await run(DOCUMENT, "fetch", "URL/", "--auth", "-")
    assert done.requests[0].metadata == {"auth": "typed"}


async def test_a_first_connect_to_a_self_signed_server_says_how_to_trust_it(run: Run, home: Path) -> None:
    done = await run(DOCUMENT, "fetch", "URL/", trust="")
    seen = done.server.identity.fingerprint
    assert (done.code, done.out, done.requests) == (6, b"", [])
    assert f"fingerprint shown: {seen}" in done.err
    assert f"fetch --pin {seen} mark://127.0.0.1:{done.server.port}/health\n" in done.err


async def test_a_pin_is_remembered_and_a_changed_identity_is_refused(run: Run, home: Path) -> None:
    pins = home / ".mark" / "pins"

    async with loopback(lambda _: encode_response(DOCUMENT)) as server:
        url = f"mark://127.0.0.1:{server.port}/"
        seen = server.identity.fingerprint
        assert await trio.to_thread.run_sync(program.main, ["fetch", url, "--pin", seen.upper()]) == 0
        assert pins.read_text() == f"127.0.0.1:{server.port} {seen}\n"
        assert stat.S_IMODE(pins.stat().st_mode) == 0o644
        assert await trio.to_thread.run_sync(program.main, ["fetch", url]) == 0
        other = "sha256:" + "0" * 64
        assert await trio.to_thread.run_sync(program.main, ["fetch", url, "--pin", other]) == 7
        assert other not in pins.read_text()
        pins.write_text(f"127.0.0.1:{server.port} {other}\n")
        count = len(server.requests)
        assert await trio.to_thread.run_sync(program.main, ["fetch", url]) == 7
        assert len(server.requests) == count
        assert await trio.to_thread.run_sync(program.main, ["fetch", url, "--insecure"]) == 0


async def test_the_message_of_a_changed_identity_says_what_to_do(
    home: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    (home / ".mark").mkdir()
    async with loopback(lambda _: encode_response(DOCUMENT)) as server:
        url = f"mark://127.0.0.1:{server.port}/"
        (home / ".mark" / "pins").write_text(f"127.0.0.1:{server.port} sha256:{'0' * 64}\n")
        assert await trio.to_thread.run_sync(program.main, ["fetch", url]) == 7
    said = capsysbinary.readouterr().err.decode()
    assert "IDENTITY CHANGED" in said
    assert f"fetch --pin {server.identity.fingerprint} {url}health" in said
    assert str(home / ".mark" / "pins") in said


async def test_unreachable(run: Run) -> None:
    line = ["fetch", f"mark://127.0.0.1:{unused_port()}/", "--insecure"]
    assert await trio.to_thread.run_sync(program.main, line) == 6
    done = await run(lambda _: Misdeed.SILENCE, "fetch", "URL/", "--timeout", "0.2")
    assert done.code == 6
    assert "unreachable: no answer within 0.2 s" in done.err
    assert f"is UDP port {done.server.port} open" in done.err
    done = await run(lambda _: Misdeed.RESET, "put", "URL/a.md", "--body", "x", "--force")
    assert done.code == 1
    assert "unknown" in done.err


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


async def test_a_given_pin_that_differs_is_no_reason_to_take_another(run: Run, home: Path) -> None:
    done = await run(DOCUMENT, "fetch", "URL/", trust="--pin=" + "0" * 64)
    assert done.code == 7
    assert "not the one given with --pin" in done.err
    assert f"given: sha256:{'0' * 64}" in done.err
    assert f"shown: {done.server.identity.fingerprint}" in done.err
    assert "fetch --pin" not in done.err
    assert "remembered" not in done.err


CURES = [
    ("unauthorized", "authentication required", ("fetch", "URL/x.md"), "No token was sent for /x.md: give"),
    (
        "unauthorized",
        "authentication required",
        ("put", "URL/x.md", "--force", "--body", "x", "--auth", "t"),
        "The token that was sent, from --auth, is unknown to this server or has expired.",
    ),
    (
        "not-permitted",
        "insufficient permissions",
        ("archive", "URL/x.md", "--auth", "t"),
        "from --auth, may not write /x.md: `token list`",
    ),
    (
        "not-permitted",
        "insufficient permissions",
        ("append", "URL/x.md", "--body", "x", "--auth", "t"),
        "Without --expected-version, append also has to read the document.",
    ),
    ("not-permitted", "insufficient permissions", ("list", "URL/x", "--auth", "t"), "may not read /x:"),
    ("not-permitted", "publishing requires auth configuration", ("archive", "URL/x.md"), "no token file"),
    ("not-permitted", "server is read-only", ("archive", "URL/x.md"), "takes no writes"),
    (
        "archived",
        "/x.md is archived",
        ("fetch", "URL/x.md"),
        "by their numbers. To bring it back: demarkus-appliance archive --undo mark://",
    ),
    (
        "archived",
        "document is archived; unarchive first",
        ("put", "URL/x.md", "--force", "--body", "x"),
        "/x.md\n",
    ),
    (
        "not-found",
        "/x.md not found",
        ("append", "URL/x.md", "--body", "x"),
        "/x.md --expected-version 0, with the text.",
    ),
    ("not-found", "/x.md not found", ("list", "URL/x.md"), "If it is a document, use `fetch` or `versions`."),
    (
        "not-found",
        "/x.md not found",
        ("lookup", "URL/x.md", "--query", "xx"),
        "if it is a document, use `fetch`.",
    ),
    (
        "not-found",
        "/x not found",
        ("lookup", "URL/x", "--query", "xx"),
        "The path is the folder to search.\n",
    ),
    ("not-found", "/x not found", ("versions", "URL/x"), "If it is a folder, use `list`"),
    ("not-found", "/x.md/v1 not found", ("versions", "URL/x.md/v1"), "leave the version out"),
    ("not-found", "/x not found", ("fetch", "URL/x"), "The name of a document ends in .md."),
    (
        "server-error",
        "content exceeds size limit",
        ("append", "URL/x.md", "--body", "x"),
        "at most 1048576 bytes",
    ),
]


@pytest.mark.parametrize(("status", "message", "line", "words"), CURES)
async def test_a_refusal_comes_with_its_cure(
    run: Run, status: str, message: str, line: tuple[str, ...], words: str
) -> None:
    done = await run(error_response(status, message), *line)
    said = done.err.splitlines()
    assert said[0] == f"demarkus-appliance: {status}: {message}"
    assert len(said) == 2
    assert words in done.err
    assert len(done.requests) == 1


async def test_a_refusal_that_speaks_for_itself_stands_alone(run: Run) -> None:
    done = await run(error_response("not-found", "/x.md not found"), "fetch", "URL/x.md")
    assert done.err == "demarkus-appliance: not-found: /x.md not found\n"
