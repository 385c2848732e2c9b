"""Golden exchanges: request bytes in, response bytes out, as wire.md has them (golden/*.txt, written by hand).

Each file is one world from empty on, its requests in order. Lines:

    # comment          @time T, @tokens FILE or none, @read-only: circumstances from here on (the last two stand at the top)
    > text             request line with LF; `>~ text` without LF; `>x hex` bytes as they are
    < text             the same for the response

An exchange ends where the next one begins.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from app.protocol.answer import Response
from app.protocol.message import VERBS, encode_response
from app.protocol.times import parse_rfc3339
from app.server.dispatch import Dispatcher
from app.server.session import RATE_LIMITED
from app.world.tokens import TokenTable
from app.world.world import World

FOLDER = Path(__file__).parent / "golden"
FILES = sorted(path.name for path in FOLDER.glob("*.txt"))


class Exchange(msgspec.Struct):
    """What is sent and what must come back; `time` is the wall clock of the server."""

    line: int
    time: float
    request: bytes = b""
    response: bytes = b""


def octets(line: str) -> bytes:
    kind, text = line[1:2], line[2:]
    if kind == "x":
        return bytes.fromhex(text)
    if kind == "~":
        return text[1:].encode()
    assert kind in ("", " "), line
    return text.encode() + b"\n"


def exchanges(text: str) -> Iterator[Exchange]:
    time, current = 0.0, Exchange(0, 0.0)
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("@time "):
            time = parse_rfc3339(line[6:]) or 0.0
        elif line.startswith(">"):
            if current.response or not current.line:
                if current.line:
                    yield current
                current = Exchange(number, time)
            current.request += octets(line)
        elif line.startswith("<"):
            current.response += octets(line)
        else:
            assert not line or line[0] in "#@", f"line {number}"
    yield current


def silent(level: str, message: str, /, **fields: object) -> None:
    """A log that nobody reads."""


@pytest.mark.parametrize("name", FILES)
async def test_golden_exchanges(name: str, tmp_path: Path) -> None:
    text = (FOLDER / name).read_text()
    tokens = None if "\n@tokens none\n" in text else TokenTable.parse((FOLDER / "tokens.toml").read_bytes())
    clock = 0.0
    dispatcher = Dispatcher(
        World.open(str(tmp_path), log=silent),
        tokens=tokens,
        read_only="\n@read-only\n" in text,
        now=lambda: clock,
        timeout=10.0,
        log=silent,
    )
    for exchange in exchanges(text):
        clock = exchange.time
        answer = dispatcher.respond(exchange.request)
        response = answer if isinstance(answer, Response) else await answer
        assert encode_response(response) == exchange.response, f"{name} line {exchange.line}"


def test_every_verb_and_every_status_has_an_exchange() -> None:
    found = [exchange for name in FILES for exchange in exchanges((FOLDER / name).read_text())]
    assert {exchange.request.split(b" ")[0].decode() for exchange in found} >= set(VERBS)
    statuses = {exchange.response.split(b"status: ")[1].split(b"\n")[0].decode() for exchange in found}
    assert statuses | {"rate-limited"} == {
        "ok",
        "created",
        "not-modified",
        "not-found",
        "archived",
        "unauthorized",
        "not-permitted",
        "conflict",
        "bad-request",
        "server-error",
        "rate-limited",
    }


def test_the_refusal_of_admission_has_no_body() -> None:
    assert RATE_LIMITED == b"---\nstatus: rate-limited\n---\n"
