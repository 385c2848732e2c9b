"""A home of its own, and a network command run against a server in the same test."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from app.client import client as client_module
from app.commands import program
from app.protocol.message import Response, encode_response, parse_request
from tests.unit.client.loopback import Misdeed, loopback
from tests.unit.commands.asking import Answer, Outcome


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DEMARKUS_AUTH", raising=False)
    monkeypatch.setattr(client_module, "PAUSE", 0.01)
    monkeypatch.setattr("sys.argv", ["demarkus-appliance"])
    return tmp_path


@pytest.fixture
def run(home: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Any]:
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
