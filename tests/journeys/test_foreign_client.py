"""The frozen executable and a client in Go on quic-go (report 20), which shares no line with it: QUIC, TLS, YAML and the protocol are all another's.

tests/foreign/client.go takes a plan and gives a report; all judging is here. `TLS` and `QUIC` in a plan are quic-go's own settings by their own
names, durations in nanoseconds. Compiler and libraries are those of Debian 12.
"""

import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from app.server.admission import Limits
from app.server.certificate import Certificate, load_own, pem
from tests.journeys.conftest import PROJECT, TOKEN, Server, StartFrozen, frozen_servers
from tests.journeys.raw import RawClient
from tests.journeys.relay import Fate, relay

SOURCE = PROJECT / "tests" / "foreign" / "client.go"
COMPILER = "/usr/lib/go-1.19/bin/go"
LIBRARIES = "/usr/share/gocode"
PACKAGES = (
    f"{COMPILER}:golang-1.19-go",
    f"{LIBRARIES}/src/github.com/lucas-clemente/quic-go:golang-github-lucas-clemente-quic-go-dev",
    f"{LIBRARIES}/src/gopkg.in/yaml.v3:golang-gopkg-yaml.v3-dev",
)

STREAMS = 10  # that a client may have open (wire §1.6)
CRYPTO_ERROR = 0x100  # and a TLS alert (RFC 9001 §4.8)
MS = 1_000_000  # a Go duration
MIB = 1 << 20

Request = dict[str, Any]
FETCH: Request = {"Verb": "FETCH", "Path": "/one.md"}
LONG_HELLO = {"NextProtos": [*(letter * 250 for letter in "abcdefghij"), "mark"]}
"""A first flight of several datagrams, as of clients whose key share is to withstand quantum computers."""

ONE = "# One\n\nThe first word is *zymurgy*.\n"


class Failure(msgspec.Struct, rename="pascal"):
    kind: str
    code: int
    remote: bool
    message: str


class Answer(msgspec.Struct, rename="pascal"):
    metadata: dict[str, str]
    body: str
    error: Failure | None
    seconds: float

    @property
    def status(self) -> str:
        assert self.error is None, self.error
        return self.metadata["status"]


class Report(msgspec.Struct, rename="pascal"):
    answers: list[Answer]
    error: Failure | None
    events: dict[str, int]

    @property
    def statuses(self) -> set[str]:
        assert self.error is None, self.error
        return {answer.status for answer in self.answers}


class Go:
    """The client's program, and the server it talks to unless it is told otherwise."""

    def __init__(self, program: Path, server: Server) -> None:
        self.program = program
        self.server = server

    async def __call__(self, *requests: Request, **plan: Any) -> Report:
        """Carries out a plan, in less than half a minute."""
        async with self.started(*requests, **plan) as process:
            with trio.fail_after(30):
                return await report_of(process)

    @asynccontextmanager
    async def started(self, *requests: Request, **plan: Any) -> AsyncIterator[trio.Process]:
        """The program at work on a plan: for this server, trusting its certificate, in its protocol, unless the plan says otherwise."""
        host, port = plan.pop("to", self.server.address)
        given = {"Address": f"{host}:{port}", "Pin": self.fingerprint, "Requests": requests} | plan
        given["TLS"] = {"NextProtos": ["mark"]} | plan.get("TLS", {})
        async with trio.open_nursery() as nursery:
            yield await nursery.start(
                partial(
                    trio.run_process,
                    [self.program],
                    stdin=msgspec.json.encode(given),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=os.environ | {"QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING": "true"},
                )
            )
            nursery.cancel_scope.cancel()

    @property
    def certificate(self) -> Certificate:
        found = load_own(os.fspath(self.server.state))
        assert found is not None
        return found

    @property
    def fingerprint(self) -> str:
        return self.certificate.fingerprint


async def report_of(process: trio.Process) -> Report:
    assert process.stdout is not None
    return msgspec.json.decode(b"".join([piece async for piece in process.stdout]), type=Report)


def request(verb: str, path: str, body: str = "", **metadata: str) -> Request:
    """A request; writes bring the token. Underscores in keys stand for hyphens."""
    given = {key.replace("_", "-"): value for key, value in metadata.items()}
    if verb in ("PUBLISH", "APPEND", "ARCHIVE"):
        given |= {"auth": TOKEN}
    return {"Verb": verb, "Path": path, "Body": body, "Metadata": given}


def lines(size: int) -> str:
    """A body of so many bytes in which every piece has its place."""
    return "".join(f"{number:07}\n" for number in range(size // 8))


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client, built once for the session; the libraries that went into it are kept for the next."""
    subprocess.run([PROJECT / "scripts" / "need", *PACKAGES], check=True)
    made = tmp_path_factory.mktemp("foreign") / "client"
    settings = {"GO111MODULE": "off", "GOPATH": LIBRARIES, "GOFLAGS": "", "CGO_ENABLED": "0"}
    settings["GOCACHE"] = os.fspath(PROJECT / "build" / "go")
    subprocess.run([COMPILER, "build", "-o", made, SOURCE], env=os.environ | settings, check=True)
    return made


@pytest.fixture(scope="module")
def start(frozen: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartFrozen]:
    with frozen_servers(frozen, tmp_path_factory.mktemp("foreign")) as start_one:
        yield start_one


@pytest.fixture(scope="module")
def server(start: StartFrozen) -> Iterator[Server]:
    """One for all, as shipped but for the rate. What its log complains of is what was asked of it, never how."""
    server = start(command=("env", "DEMARKUS_RATE_LIMIT=0"))
    yield server
    worse = set(re.findall(r'level=(?:WARN|ERROR) msg=("[^"]*"|\S+)', server.log))
    assert worse <= {"unauthorized", '"malformed request"', '"parse request failed"'}


@pytest.fixture
async def go(program: Path, server: Server) -> Go:
    go = Go(program, server)
    written = await go(request("PUBLISH", "/one.md", ONE))
    assert written.statuses <= {"created", "ok"}
    return go


async def ready(process: trio.Process) -> None:
    """The client has what it asked for, and waits."""
    assert process.stderr is not None
    assert await process.stderr.receive_some() == b"ready\n"


# Who is there.


async def test_a_pinned_certificate_is_enough_and_any_other_is_refused(go: Go) -> None:
    assert (await go(FETCH, TLS={"ServerName": "elsewhere.example"})).statuses == {"ok"}
    refused = await go(FETCH, Pin="sha256:" + "0" * 64)
    assert refused.error is not None
    assert (refused.error.kind, refused.error.remote) == ("*qerr.TransportError", False)
    assert go.fingerprint in refused.error.message


@pytest.mark.parametrize(
    ("host", "name", "fault"),
    [
        ("localhost", "", ""),
        ("127.0.0.1", "", ""),
        ("127.0.0.1", "localhost", ""),
        ("127.0.0.1", "elsewhere.example", "not elsewhere.example"),
    ],
)
async def test_the_certificate_is_verified_by_name_and_by_address(
    go: Go, host: str, name: str, fault: str
) -> None:
    trusted = {"Pin": "", "Roots": pem(go.certificate).decode(), "TLS": {"ServerName": name}}
    report = await go(FETCH, to=(host, go.server.port), **trusted)
    if fault:
        assert report.error is not None
        assert fault in report.error.message
    else:
        assert report.statuses == {"ok"}


@pytest.mark.parametrize(
    "tls",
    [
        *({"CipherSuites": [suite]} for suite in (0x1301, 0x1302, 0x1303)),
        *({"CurvePreferences": [group]} for group in (29, 23, 24)),
        {"NextProtos": ["mark/1", "mark"]},
        LONG_HELLO,
    ],
    ids=["AES-128", "AES-256", "ChaCha20", "x25519", "P-256", "P-384", "two protocols", "a long hello"],
)
async def test_every_kind_of_handshake(go: Go, tls: dict[str, Any]) -> None:
    report = await go(FETCH, TLS=tls)
    assert report.statuses == {"ok"}


@pytest.mark.parametrize(
    ("tls", "alert"),
    [({"NextProtos": ["http/0.9"]}, 120), ({"CurvePreferences": [25]}, 40)],
    ids=["protocol", "group"],
)
async def test_a_handshake_that_cannot_be_is_refused_with_its_reason(
    go: Go, tls: dict[str, Any], alert: int
) -> None:
    error = (await go(FETCH, TLS=tls)).error
    assert error is not None
    assert (error.kind, error.remote, error.code) == ("*qerr.TransportError", True, CRYPTO_ERROR + alert)


@pytest.mark.parametrize("version", [0xFF00001D, 0x709A50C4], ids=["draft 29", "a draft of version 2"])
async def test_another_version_of_quic_is_talked_out_of(go: Go, version: int) -> None:
    report = await go(FETCH, QUIC={"Versions": [version, 1]})
    assert report.statuses == {"ok"}
    assert report.events["Version Negotiation"] == 1
    error = (await go(FETCH, QUIC={"Versions": [version]})).error
    assert error is not None
    assert error.kind == "*qerr.VersionNegotiationError"


@pytest.mark.parametrize("tls", [{}, LONG_HELLO], ids=["a hello", "a long hello"])
async def test_a_client_under_suspicion_proves_its_address(go: Go, tls: dict[str, Any]) -> None:
    half_open = [RawClient(go.server.address, None) for _ in range(Limits().retry_above + 1)]
    for stranger in half_open:
        stranger.flush()
    report = await go(FETCH, TLS=tls)
    for stranger in half_open:
        stranger.socket.close()
    assert report.statuses == {"ok"}
    assert report.events["Retry"] == 1


async def test_no_session_is_resumed_and_nothing_sent_before_the_handshake(go: Go) -> None:
    report = await go(FETCH, Connections=3)
    assert report.statuses == {"ok"}
    assert len(report.answers) == 3
    assert "resumption" not in report.events


# What is said.


async def test_a_document_has_its_life(go: Go) -> None:
    title = "Été: \U0001f600 'quoted' \"twice\" #1"
    report = await go(
        request(
            "PUBLISH", "/life/a.md", "# A\n\nA quaggy bog.\n", expected_version="0", title=title, tags="x, y"
        ),
        request("FETCH", "/life/a.md"),
        request("APPEND", "/life/a.md", "## More\n\nGorse.\n", expected_version="1"),
        request("APPEND", "/life/a.md", "late\n", expected_version="1"),
        request("FETCH", "/life/a.md/v1"),
        request("LIST", "/life/"),
        request("VERSIONS", "/life/a.md"),
        request("LOOKUP", "/life", query="quoted"),
        request("LOOKUP", "/", query="gorse", match="body"),
        request("LOOKUP", "/", query="where does gorse grow in a bog", match="task"),
        {"Verb": "PUBLISH", "Path": "/life/a.md", "Body": "x"},
        request("FROB", "/life/a.md"),
        request("ARCHIVE", "/life/a.md"),
        request("FETCH", "/life/a.md"),
    )
    answers = report.answers
    assert " ".join(answer.status for answer in answers) == (
        "created ok created conflict ok ok ok ok ok ok unauthorized bad-request ok archived"
    )
    _, fetched, _, _, first, listed, versions, catalog, body, task, *_ = answers
    assert fetched.body == first.body == "# A\n\nA quaggy bog.\n"
    assert (fetched.metadata["title"], fetched.metadata["tags"], fetched.metadata["version"]) == (
        title,
        "x,y",
        "1",
    )
    assert "- [a.md](a.md)" in listed.body
    assert (versions.metadata["total"], versions.metadata["chain-valid"]) == ("2", "true")
    assert "| /life/a.md | 0.50 |" in catalog.body
    assert "| /life/a.md#more | 0.50 |" in body.body
    assert "/life/a.md#more" in task.body


@pytest.mark.parametrize("window", [0, 4096], ids=["its own windows", "windows of 4 KiB"])
async def test_a_mebibyte_goes_both_ways(go: Go, window: int) -> None:
    body = lines(MIB)
    quic = {"MaxStreamReceiveWindow": window, "MaxConnectionReceiveWindow": window}
    quic |= {f"Initial{name.removeprefix('Max')}": size for name, size in quic.items()}
    report = await go(request("PUBLISH", "/large.md", body), request("FETCH", "/large.md"), QUIC=quic)
    assert report.statuses <= {"created", "ok"}
    assert report.answers[1].body == body


async def test_a_body_that_is_too_large_is_refused_before_its_end_and_the_connection_lives(go: Go) -> None:
    report = await go(request("PUBLISH", "/huge.md", "x" * 4 * MIB), FETCH)
    assert [answer.status for answer in report.answers] == ["server-error", "ok"]
    assert report.events["received StopSendingFrame"] == 1


# Streams.


async def test_a_hundred_requests_at_once_wait_for_their_streams(go: Go) -> None:
    report = await go(FETCH, Repeat=300, Parallel=100)
    assert report.statuses == {"ok"}
    assert {answer.body for answer in report.answers} == {ONE}
    assert report.events["sent StreamsBlockedFrame"] > 0
    assert report.events["received MaxStreamsFrame"] > 0


async def test_a_thousand_requests_one_after_the_other(go: Go) -> None:
    report = await go(FETCH, Repeat=1000)
    assert report.statuses == {"ok"}
    assert {answer.body for answer in report.answers} == {ONE}


@pytest.mark.parametrize("piece", [1 << 20, 1], ids=["the end in a packet of its own", "byte by byte"])
async def test_a_request_arrives_in_pieces(go: Go, piece: int) -> None:
    assert (await go(FETCH, Piece=piece, Gap=20 * MS, Repeat=3)).statuses == {"ok"}


async def test_nothing_is_answered_before_the_end_of_the_request(go: Go) -> None:
    assert (await go(FETCH, Mode="held", Gap=300 * MS)).statuses == {"ok"}


@pytest.mark.parametrize(
    ("mode", "take", "code"),
    [("cancel", 0, None), ("cancel", 5000, None), ("reset", 0, 0), ("abandon", 0, None)],
)
async def test_streams_that_are_broken_off_give_their_room_back(
    go: Go, mode: str, take: int, code: int | None
) -> None:
    """Else the eleventh would wait for ever. A request that was broken off is answered by a reset of the answer (wire §1.13)."""
    await go(request("PUBLISH", "/long.md", "long\n" * 40_000))
    report = await go(request("FETCH", "/long.md"), Mode=mode, Take=take, Repeat=5 * STREAMS, Parallel=3)
    assert report.error is None
    errors = [answer.error for answer in report.answers]
    assert len(errors) == 5 * STREAMS
    if mode == "reset":
        assert {(error.kind, error.code) for error in errors if error} == {("*quic.StreamError", 0)}


async def test_a_server_that_may_open_no_stream_opens_none(go: Go) -> None:
    report = await go(FETCH, QUIC={"MaxIncomingStreams": -1, "MaxIncomingUniStreams": -1})
    assert report.statuses == {"ok"}


async def test_two_clients_at_once(go: Go) -> None:
    reports: dict[str, Report] = {}

    async def one(path: str) -> None:
        body = path + lines(MIB // 2)
        reports[path] = await go(request("PUBLISH", path, body), request("FETCH", path), Repeat=10)

    async with trio.open_nursery() as nursery:
        for path in ("/first.md", "/second.md"):
            nursery.start_soon(one, path)
    for path, report in reports.items():
        assert report.statuses == {"created", "ok"}
        assert {answer.body for answer in report.answers[1::2]} == {path + lines(MIB // 2)}


# What a connection lives through.


async def test_keys_are_changed_in_the_middle(go: Go) -> None:
    report = await go(FETCH, Repeat=300, Parallel=5, KeyUpdateInterval=20)
    assert report.statuses == {"ok"}
    assert report.events["key update"] >= 10


NETWORKS: dict[str, Fate] = {
    "loses": lambda chance, asks: [] if chance.random() < 0.1 else [0],
    "doubles": lambda chance, asks: [0, 0] if chance.random() < 0.3 else [0],
    "reorders": lambda chance, asks: [chance.choice((0, 0, 0.005, 0.02))],
    "holds back": lambda chance, asks: [0.1 if asks else 0],
    "does it all": lambda chance, asks: chance.choices(
        ([], [0], [0, 0.01], [0.02], [0.03, 0.03]), (1, 5, 1, 1, 1)
    )[0],
}


@pytest.mark.parametrize("habit", NETWORKS)
async def test_a_network_that(go: Go, habit: str) -> None:
    path, body = f"/{habit.replace(' ', '-')}.md", lines(MIB // 4)
    async with relay(go.server.address, NETWORKS[habit]) as between:
        report = await go(FETCH, Connections=5, TLS=LONG_HELLO, to=between.address)
        assert report.statuses == {"ok"}
        report = await go(
            request("PUBLISH", path, body),
            request("FETCH", path),
            *[FETCH] * 20,
            to=between.address,
            KeyUpdateInterval=50,
        )
    assert report.statuses == {"created", "ok"}
    assert report.answers[1].body == body


@pytest.mark.parametrize("patience", [1, 20])
async def test_a_client_whose_port_changes_keeps_its_connection(go: Go, patience: int) -> None:
    """Report 34: as behind a NAT. All that was under way to the port before is lost."""
    path, body = f"/port-{patience}.md", lines(MIB // 4)
    async with relay(go.server.address, patience=patience) as between:
        report = await go(
            *[FETCH] * 50, request("PUBLISH", path, body), request("FETCH", path), to=between.address
        )
    assert report.statuses == {"created", "ok"}
    assert report.answers[-1].body == body
    assert between.ports > 10
    assert report.events["received PathChallengeFrame"] > 5


# How it ends.


async def test_silence_ends_a_connection_unless_it_is_kept_alive(program: Path, start: StartFrozen) -> None:
    """The client hears of it at its next request (quic-go believes no server that names less than five seconds)."""
    brief = Go(program, start(command=("env", "DEMARKUS_IDLE_TIMEOUT=3s")))
    pause = {"Mode": "held", "Gap": 3500 * MS}
    report = await brief(FETCH, QUIC={"KeepAlivePeriod": 400 * MS}, **pause)
    assert report.statuses == {"not-found"}
    (answer,) = (await brief(FETCH, **pause)).answers
    assert answer.error is not None
    assert answer.error.kind == "*qerr.StatelessResetError"
    assert answer.seconds < 7


async def test_a_server_that_stops_says_so(program: Path, start: StartFrozen) -> None:
    server = start()
    async with Go(program, server).started(FETCH, Wait=True) as process:
        await ready(process)
        assert server.stop() == 0
        error = (await report_of(process)).error
    assert error == Failure("*qerr.ApplicationError", 0, True, "server closed")


async def test_a_server_that_lost_its_power_says_so_when_it_is_back(
    program: Path, start: StartFrozen
) -> None:
    server = start()
    # A probe of the path's MTU that is not acknowledged keeps quic-go from sending anything else.
    quic = {"KeepAlivePeriod": 200 * MS, "DisablePathMTUDiscovery": True}
    async with Go(program, server).started(FETCH, Wait=True, QUIC=quic) as process:
        await ready(process)
        server.stop(signal.SIGKILL)
        start(command=("env", f"DEMARKUS_PORT={server.port}", f"DEMARKUS_STATE_DIR={server.state}"))
        with trio.fail_after(10):
            error = (await report_of(process)).error
    assert error is not None
    assert error.kind == "*qerr.StatelessResetError"
