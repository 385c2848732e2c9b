"""Whom the network commands trust and with what token, and what they say when they are refused."""

import getpass
import io
import stat
from pathlib import Path

import pytest
import trio

from app.commands import program
from app.protocol.message import encode_response, error_response
from tests.unit.client.loopback import Misdeed, loopback, unused_port
from tests.unit.commands.asking import DOCUMENT, Run


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
