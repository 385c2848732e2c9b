"""Work in a copy of the process: its results come back, and nothing of it stays or gets in the way."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.markdown.sections import sections
from app.search.query import parse_query
from app.world import refresh
from app.world.apart import ApartFailed, Parcel, apart
from app.world.documents import Document
from app.world.indexes import Indexes
from app.world.refresh import AT_ONCE
from app.world.searches import Extract
from app.world.tokens import access
from app.world.world import World

NOW = 1_700_000_000
EVERYBODY = access(None, None, NOW)


def silent(level: str, message: str, /, **fields: object) -> None:
    """Says nothing."""


def test_results_come_back_in_order_whatever_their_size() -> None:
    expected = [b"", b"one", bytes(range(256)) * 5_000]

    def work() -> Iterator[Parcel]:
        for result in expected:
            yield len(result), [result[:1], memoryview(result)[1:]]

    assert [bytes(result) for result in apart(work, ())] == expected


def test_what_the_copy_changes_is_its_own() -> None:
    seen: list[int] = []

    def work() -> Iterator[Parcel]:
        seen.append(os.getpid())
        yield 1, [b"x"]

    assert len(apart(work, ())) == 1
    assert seen == []


def failing() -> Iterator[Parcel]:
    yield 4, [b"half"]
    raise ValueError("broken")


def killed() -> Iterator[Parcel]:
    yield 4, [b"half"]
    os.kill(os.getpid(), signal.SIGKILL)


def short() -> Iterator[Parcel]:
    yield 10, [b"half"]
    os._exit(0)


@pytest.mark.parametrize("work", [failing, killed, short])
def test_work_that_ends_early_is_an_error_and_leaves_no_process(
    work: object, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    fork = os.fork

    def noted() -> int:
        process = fork()
        made.append(process)
        return process

    monkeypatch.setattr(os, "fork", noted)
    with pytest.raises(ApartFailed):
        apart(work, ())  # type: ignore[arg-type]
    (process,) = made
    with pytest.raises(ChildProcessError):
        os.waitpid(process, 0)
    assert ("ValueError: broken" in capfd.readouterr().err) == (work is failing)


def test_a_copy_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def hanging() -> Iterator[Parcel]:
        yield 1, [b"x"]
        os.kill(os.getpid(), signal.SIGSTOP)

    monkeypatch.setattr("app.world.apart.HANGS_SECONDS", 1)
    with pytest.raises(ApartFailed, match=f"status {int(signal.SIGKILL)}: nothing came for 1 s"):
        apart(hanging, ())


def test_a_program_started_with_its_children_s_ends_ignored() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert [bytes(result) for result in apart(lambda: [(1, [b"x"])], ())] == [b"x"]
        with pytest.raises(ApartFailed):
            apart(failing, ())
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_no_process_to_be_had_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refused)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ApartFailed, match="Resource temporarily unavailable"):
        apart(failing, ())
    assert len(os.listdir("/proc/self/fd")) == before


def test_wishes_that_are_refused_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The unit's system call filter answers so to setpriority, and a root without /proc to the other."""

    def refused(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "nice", refused)
    monkeypatch.setattr("builtins.open", refused)
    assert [bytes(result) for result in apart(lambda: [(1, [b"x"])], ())] == [b"x"]


def test_the_copy_keeps_what_it_is_given_and_no_socket() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        kept, other = os.pipe()

        def work() -> Iterator[Parcel]:
            for descriptor in (kept, other, bound.fileno()):
                try:
                    os.fstat(descriptor)
                    yield 1, [b"y"]
                except OSError:
                    yield 1, [b"n"]

        try:
            assert b"".join(map(bytes, apart(work, (kept,)))) == b"ynn"
        finally:
            os.close(kept)
            os.close(other)


def test_the_copy_parses_though_another_thread_was_parsing_when_it_was_made() -> None:
    hostile, over = b"> " * 100_000, threading.Event()

    def parse() -> None:
        while not over.is_set():
            sections(hostile)

    def work() -> Iterator[Parcel]:
        text = sections(b"# Pump\n")[0].heading.encode()
        yield len(text), [text]

    parsing = threading.Thread(target=parse)
    parsing.start()
    try:
        for _ in range(10):
            assert [bytes(result) for result in apart(work, ())] == [b"Pump"]
    finally:
        over.set()
        parsing.join()


def test_signals_for_the_server_do_not_reach_its_handlers_in_the_copy() -> None:
    def work() -> Iterator[Parcel]:
        os.kill(os.getpid(), signal.SIGHUP)  # ignored
        yield 1, [b"x"]
        os.kill(os.getpid(), signal.SIGTERM)  # ends it
        yield 1, [b"y"]

    with pytest.raises(ApartFailed, match=str(int(signal.SIGTERM))):
        apart(work, ())


ORPHANED = """
import os, time
from app.world.apart import apart

def work():
    print(os.getpid(), flush=True)
    time.sleep(60)
    yield 0, []

apart(work, (1,))
"""


def test_the_copy_ends_with_a_parent_that_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", ORPHANED], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    with parent.stdout:
        assert int(parent.stdout.readline()) != parent.pid
        parent.kill()
        parent.wait()
        assert parent.stdout.read() == b""  # it holds the other end for as long as it lives


# --- A world whose sections are made apart


def filled(root: Path, documents: int = 40) -> None:
    with_words = [
        f"# Title {number}\n\npump word{number}\n\n## Hull\n\nhull pump\n" for number in range(documents)
    ]
    world = World.open(str(root), log=silent)
    for number, body in enumerate(with_words):
        world.publish(f"/d{number % 7}/{number}.md", body.encode(), {}, None, NOW + number)
    world.close()


def answers(world: World) -> list[object]:
    queries = ("pump", "hull pump", "word7", "title", "nothing")
    asked = [parse_query("/", {"query": query, "match": "body", "limit": "100"}) for query in queries]
    return [world.body(query, EVERYBODY) for query in asked]


@pytest.fixture
def always_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "APART_FROM", 1)


def test_sections_made_apart_are_those_made_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path)
    here = World.open(str(tmp_path), log=silent)
    monkeypatch.setattr(refresh, "APART_FROM", 1)
    other = World.open(str(tmp_path), log=silent)
    assert answers(other) == answers(here)
    assert other.figures == here.figures
    assert any(answers(here))


@pytest.mark.usefixtures("always_apart")
def test_a_document_replaced_or_gone_between_the_two_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path)

    def meanwhile(work: object, descriptors: tuple[int, ...]) -> list[memoryview]:
        monkeypatch.setattr("app.world.refresh.apart", apart)
        other = World.open(str(tmp_path), log=silent)
        other.publish("/d0/0.md", b"# Title 0\n\nwinch\n", {}, 1, NOW + 1_000)
        (tmp_path / "d1" / "1.md").unlink()
        other.close()
        return apart(work, descriptors)  # type: ignore[arg-type]

    monkeypatch.setattr("app.world.refresh.apart", meanwhile)
    world = World.open(str(tmp_path), log=silent)
    query = parse_query("/", {"query": "winch", "match": "body"})
    assert [row.path for row in world.body(query, EVERYBODY)] == ["/d0/0.md"]
    query = parse_query("/", {"query": "word0", "match": "body"})
    assert world.body(query, EVERYBODY) == []


@pytest.mark.usefixtures("always_apart")
def test_a_start_whose_builder_is_killed_makes_the_sections_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path)
    monkeypatch.setattr(refresh, "_parcels", lambda *_: killed())
    lines: list[str] = []

    def log(level: str, message: str, /, **fields: object) -> None:
        lines.append(message)

    world = World.open(str(tmp_path), log=log)
    assert len(world.body(parse_query("/", {"query": "pump", "match": "body"}), EVERYBODY)) == 10
    assert "the section index is built in this process" in lines


@pytest.mark.usefixtures("always_apart")
def test_a_reload_whose_builder_is_killed_keeps_the_old_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, 80)
    world = World.open(str(tmp_path), log=silent)
    before = answers(world)
    for version in tmp_path.glob("*/versions/*/v1"):
        version.write_bytes(version.read_bytes().replace(b"pump", b"mast"))
    monkeypatch.setattr(refresh, "_parcels", lambda *_: killed())
    with pytest.raises(ApartFailed):
        world.refresh_now()
    assert [len(rows) for rows in answers(world)] == [len(rows) for rows in before]  # type: ignore[arg-type]
    monkeypatch.undo()
    world.refresh_now()
    assert answers(world)[0] == []


@pytest.mark.usefixtures("always_apart")
@pytest.mark.parametrize(("changed", "extracted"), [(AT_ONCE, AT_ONCE), (AT_ONCE + 1, 0)])
def test_nothing_is_extracted_here_that_is_made_apart(
    changed: int, extracted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, 80)
    world = World.open(str(tmp_path), log=silent)
    for version in sorted(tmp_path.glob("*/versions/*/v1"))[:changed]:
        version.write_bytes(version.read_bytes().replace(b"pump", b"mast"))
    done: list[str] = []
    extract = Indexes.extract

    def noted(indexes: Indexes, document: Document) -> Extract | None:
        done.append(document.path)
        return extract(indexes, document)

    monkeypatch.setattr(Indexes, "extract", noted)
    assert world.refresh_now().replaced == changed
    assert len(done) == extracted
    query = parse_query("/", {"query": "mast", "match": "body", "limit": "1000"})
    assert len({row.path for row in world.body(query, EVERYBODY)}) == changed
