"""The dispatcher beyond the golden exchanges: what it logs, where it runs things, paging while the world changes."""

import hashlib
import threading
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.answer import Response
from app.protocol.limits import RESPONSE_MAX
from app.protocol.message import Request, encode_request, encode_response, parse_response
from app.protocol.tables import parse_listing, parse_lookup_body
from app.server.dispatch import Dispatcher
from app.world.documents import History
from app.world.errors import DiskFailure, ReadOnly
from app.world.tokens import TokenTable
from app.world.world import World
from tests.unit.server.planted import plant, silent


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


TOKENS = f"""
[tokens.editor]
hash = "sha256-{digest("editor-token")}"
paths = ["/**"]
operations = ["publish"]

[tokens.reader]
hash = "sha256-{digest("reader-token")}"
paths = ["/private/**"]
operations = ["read"]
"""


class Bench:
    """A dispatcher over a root, with the log it kept."""

    def __init__(self, root: Path, *, read_only: bool = False, tokens: str | None = TOKENS) -> None:
        self.lines: list[str] = []
        self.world = World.open(str(root), log=silent)
        self.dispatcher = Dispatcher(
            self.world,
            tokens=None if tokens is None else TokenTable.parse(tokens.encode()),
            read_only=read_only,
            now=lambda: 1_800_000_000.0,
            timeout=10.0,
            log=self._log,
        )

    def _log(self, level: str, message: str, /, **fields: object) -> None:
        self.lines.append(" ".join([level, message, *(f"{key}={value}" for key, value in fields.items())]))

    async def send(self, data: bytes) -> Response:
        answer = self.dispatcher.respond(data)
        return answer if isinstance(answer, Response) else await answer

    async def ask(self, verb: str, path: str, body: bytes = b"", /, **metadata: str) -> Response:
        given = {key.replace("_", "-"): value for key, value in metadata.items()}
        return await self.send(encode_request(Request(verb, path, given, body)))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    plant(str(tmp_path), "/open.md", [b"# Open\n"])
    plant(str(tmp_path), "/private/secret.md", [b"# Secret\n"])
    plant(str(tmp_path), "/old.md", archived=True)
    return Bench(tmp_path)


HASH = "sha256-" + "0" * 64


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"FETCH //open.md\n", ["info request verb=FETCH path=/open.md"]),
        (b"FETCH /health\n", ["info request verb=FETCH path=/health"]),
        (b"FETCH /none.md\n", ["info request verb=FETCH path=/none.md", "info not found path=/none.md"]),
        (b"FETCH /old.md\n", ["info request verb=FETCH path=/old.md", "info archived path=/old.md"]),
        (b"LIST /none\n", ["info request verb=LIST path=/none", "info not found path=/none"]),
        (
            b"FETCH /%b\n" % HASH.encode(),
            [f"info request verb=FETCH path=/{HASH}", f"info hash not found hash={HASH}"],
        ),
        (
            b"FETCH /private/secret.md\n",
            [
                "info request verb=FETCH path=/private/secret.md",
                "warn unauthorized operation=FETCH path=/private/secret.md",
            ],
        ),
        (
            b"LIST /private\n---\nauth: editor-token\n---\n",
            ["info request verb=LIST path=/private", "warn not-permitted operation=LIST path=/private"],
        ),
        (
            b"ARCHIVE /open.md\n",
            ["info request verb=ARCHIVE path=/open.md", "warn unauthorized operation=ARCHIVE path=/open.md"],
        ),
        (b"FETCH /a/../b\n", ["warn path traversal attempt blocked path=/a/../b"]),
        (b"FROB /x\n", ["warn malformed request error=unknown verb"]),
        (b"WATCH /\n", ["warn malformed request error=unsupported verb: WATCH"]),
        (b"", ["error parse request failed error=no bytes"]),
        (
            "FETCH /tab\tand\x85nel.md\n".encode(),
            ["info request verb=FETCH path=/tabandnel.md", "info not found path=/tabandnel.md"],
        ),
    ],
)
async def test_what_requests_leave_in_the_log(bench: Bench, data: bytes, lines: list[str]) -> None:
    await bench.send(data)
    assert bench.lines == lines


async def test_what_writes_leave_in_the_log(bench: Bench) -> None:
    auth = {"auth": "editor-token"}
    await bench.ask("PUBLISH", "/new.md", b"one\n", **auth)
    await bench.ask("PUBLISH", "/new.md", b"one\n", **auth)
    await bench.ask("PUBLISH", "/new.md", b"two\n", expected_version="7", **auth)
    await bench.ask("APPEND", "/new.md", b"two\n", expected_version="1", **auth)
    await bench.ask("APPEND", "/new.md", b"two\n", expected_version="1", **auth)
    await bench.ask("APPEND", "/new.md", b"two\n", **auth)
    await bench.ask("PUBLISH", "/new.txt", b"two\n", **auth)
    await bench.ask("ARCHIVE", "/new.md", **auth)
    await bench.ask("PUBLISH", "/new.md", b"three\n", **auth)
    await bench.ask("PUBLISH", "/new.md", **auth)
    await bench.ask("PUBLISH", "/new.md", b"three\n", retention="1", **auth)
    await bench.ask("ARCHIVE", "/none.md", **auth)
    audit = [line.replace("info ", "", 1) for line in bench.lines if "audit=True" in line]
    who = "token_label=editor"
    assert audit == [
        f"publish audit=True operation=publish path=/new.md version=1 {who} success=True size_bytes=4",
        f"publish unchanged audit=True operation=publish path=/new.md version=1 {who} success=True size_bytes=4",
        f"publish conflict audit=True operation=publish path=/new.md {who} success=False expected_version=7 server_version=1",
        f"append audit=True operation=append path=/new.md version=2 {who} success=True size_bytes=4",
        f"append conflict audit=True operation=append path=/new.md {who} success=False expected_version=1 server_version=2",
        f"append rejected audit=True operation=append path=/new.md {who} success=False reason=APPEND requires expected-version metadata",
        f"publish rejected audit=True operation=publish path=/new.txt {who} success=False reason=publish path must end in .md",
        f"archive audit=True operation=archive path=/new.md version=2 {who} success=True",
        f"publish rejected audit=True operation=publish path=/new.md {who} success=False reason=document is archived; unarchive first",
        f"unarchive audit=True operation=unarchive path=/new.md version=2 {who} success=True",
        f"prune audit=True operation=prune path=/new.md pruned_from=1 pruned_to=2 {who} success=True",
        f"publish audit=True operation=publish path=/new.md version=3 {who} success=True size_bytes=6",
        f"archive rejected audit=True operation=archive path=/none.md {who} success=False reason=/none.md not found",
    ]
    assert not any("editor-token" in line for line in bench.lines)


async def test_a_disk_that_fails_is_no_detail_for_the_client(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DiskFailure("/open.md: Input/output error")

    monkeypatch.setattr(bench.world, "current", fail)
    monkeypatch.setattr(bench.world, "prepare_publish", fail)
    internal = b"\n# Server error\n\ninternal error\n"
    assert (await bench.ask("FETCH", "/open.md")).body == internal
    assert (
        bench.lines[-1]
        == "error request failed operation=FETCH path=/open.md error=/open.md: Input/output error"
    )
    assert (await bench.ask("PUBLISH", "/open.md", b"x\n", auth="editor-token")).body == internal
    assert bench.lines[-1].startswith("info publish failed audit=True")
    assert bench.lines[-1].endswith("reason=/open.md: Input/output error")


async def test_a_root_that_turns_out_read_only_refuses_plainly(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ReadOnly("/open.md: Read-only file system")

    monkeypatch.setattr(bench.world, "prepare_publish", fail)
    refusal = await bench.ask("PUBLISH", "/open.md", b"x\n", auth="editor-token")
    assert (refusal.status, refusal.body) == ("not-permitted", b"\n# Not permitted\n\nserver is read-only\n")


async def test_a_broken_chain_is_told_and_logged(bench: Bench, tmp_path: Path) -> None:
    plant(str(tmp_path), "/chain.md", [b"one\n", b"two\n"])
    (tmp_path / "versions" / "chain.md" / "v1").write_bytes(
        b"---\nversion: 1\narchived: false\n---\nforged\n"
    )
    history = await bench.ask("VERSIONS", "/chain.md")
    assert history.metadata["chain-valid"] == "false"
    assert history.metadata["chain-error"] == "chain integrity check failed"
    assert bench.lines[-1].startswith("warn chain verification failed path=/chain.md error=v2")


async def test_a_new_table_counts_for_the_next_request_and_not_for_a_running_one(bench: Bench) -> None:
    running = bench.dispatcher.respond(b"VERSIONS /private/secret.md\n---\nauth: reader-token\n---\n")
    bench.dispatcher.use_tokens(
        TokenTable.parse(TOKENS.replace(digest("reader-token"), digest("other-token")).encode())
    )
    assert not isinstance(running, Response)
    assert (await running).status == "ok"
    refused = await bench.ask("VERSIONS", "/private/secret.md", auth="reader-token")
    assert refused.status == "unauthorized"


async def test_what_may_take_long_leaves_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(501):
        plant(str(tmp_path), f"/big/{number}.md")
    bench = Bench(tmp_path)
    threads: list[str] = []
    children, history = bench.world.children, bench.world.history

    def noted_children(*arguments: object, **options: object) -> object:
        threads.append(threading.current_thread().name)
        return children(*arguments, **options)  # type: ignore[arg-type]

    def noted_history(path: str) -> History:
        threads.append(threading.current_thread().name)
        return history(path)

    monkeypatch.setattr(bench.world, "children", noted_children)
    monkeypatch.setattr(bench.world, "history", noted_history)
    assert (await bench.ask("LIST", "/big")).metadata["entries"] == "501"
    assert (await bench.ask("FETCH", "/big")).metadata["entries"] == "501"
    assert (await bench.ask("VERSIONS", "/big/1.md")).status == "ok"
    assert len(threads) == 3
    assert threading.main_thread().name not in threads
    for quick in ("/big/1.md", "/big/1.md/v1", "/" + HASH):
        assert isinstance(bench.dispatcher.respond(f"FETCH {quick}\n".encode()), Response)


async def test_a_read_that_passes_the_deadline_is_answered(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    monkeypatch.setattr(bench.world, "history", lambda path: released.wait(10))
    bench.dispatcher._timeout = 0.05
    with trio.fail_after(5):
        answer = await bench.ask("VERSIONS", "/open.md")
    released.set()
    assert answer.status == "server-error"
    assert bench.lines[-1].endswith("error=the request deadline passed")


async def test_pages_follow_one_another_while_the_directory_grows(tmp_path: Path) -> None:
    """2,500 documents paged while 50 more are published."""
    before = {f"d{number:04}.md" for number in range(2500)}
    for name in before:
        plant(str(tmp_path), f"/docs/{name}")
    bench = Bench(tmp_path)
    seen: list[str] = []
    cursor: dict[str, str] = {}
    published = 0
    while True:
        page = await bench.ask("LIST", "/docs", page_size="200", **cursor)
        seen += parse_listing(page.body)
        if page.metadata["complete"] == "true":
            break
        cursor = {"cursor": page.metadata["next-cursor"]}
        for _ in range(4):
            name = f"d{published * 40:04}-new.md"
            answer = await bench.ask("PUBLISH", f"/docs/{name}", b"new\n", auth="editor-token")
            assert answer.status == "created"
            published += 1
    assert published >= 48
    assert len(seen) == len(set(seen))
    assert before <= set(seen)
    for keys in ({"cursor": "AQAABS9sb2dzcHVtcC5tZA"}, {**cursor, "include_archived": "true"}):
        assert (await bench.ask("LIST", "/docs", **keys)).status == "bad-request"
    # The same cursor again gives the same page again, not the first one.
    again = await bench.ask("LIST", "/docs", page_size="200", **cursor)
    assert parse_listing(again.body) == seen[-int(again.metadata["entries"]) :]


async def test_lookup_gives_no_more_than_a_client_reads(tmp_path: Path) -> None:
    title = "long " + "w" * 1_000_000
    for number in range(6):
        plant(
            str(tmp_path),
            f"/{number}.md",
            [b"text\n"],
            metadata=f"meta.importance: 0.{9 - number}\ntitle: {title}\n",  # no network write could
        )
    bench = Bench(tmp_path)
    answer = await bench.ask("LOOKUP", "/", query="long", limit="1000")
    assert len(encode_response(answer)) <= RESPONSE_MAX
    rows = parse_lookup_body(answer.body)
    assert [row.path for row in rows] == ["/0.md", "/1.md", "/2.md", "/3.md"]
    assert answer.metadata["matches"] == "4"


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.builds(
            lambda verb, path, rest: b"%b /%b\n%b" % (verb.encode(), path, rest),
            st.sampled_from(["FETCH", "LIST", "VERSIONS", "LOOKUP", "PUBLISH", "APPEND", "ARCHIVE", "WATCH"]),
            st.binary(max_size=40),
            st.one_of(
                st.binary(max_size=60),
                st.builds(
                    lambda key, value: (
                        b"---\n%b: %b\nauth: editor-token\n---\nbody\n" % (key.encode(), value)
                    ),
                    st.sampled_from(
                        [
                            "query",
                            "limit",
                            "filter",
                            "match",
                            "cursor",
                            "page-size",
                            "expected-version",
                            "tags",
                        ]
                    ),
                    st.binary(max_size=20),
                ),
            ),
        ),
    )
)
def test_any_bytes_get_an_answer(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    bench = Bench(tmp_path_factory.mktemp("root"))

    async def send() -> Response:
        return await bench.send(data)

    response = trio.run(send)
    assert parse_response(encode_response(response)).status == response.status
    bench.world.close()
