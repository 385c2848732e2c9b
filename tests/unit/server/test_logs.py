"""Log lines (operations §5): their bytes, and that nobody's pipe can hold the server up."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.server import logs
from app.server.logs import LogWriter


class Pipe:
    """A log into a pipe, read to its end once it is closed."""

    def __init__(self, *, form: str = "text", level: str = "info") -> None:
        self.reader, self.writer = os.pipe()
        self.log = LogWriter(descriptor=self.writer, form=form, level=level)

    def text(self) -> str:
        self.log.close()
        os.close(self.writer)
        with os.fdopen(self.reader, "rb") as source:
            return source.read().decode()


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at(monkeypatch: pytest.MonkeyPatch, nanoseconds: int) -> None:
    monkeypatch.setattr("app.server.logs.time.time_ns", lambda: nanoseconds)


@pytest.mark.usefixtures("utc")
def test_a_text_line(monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, 1_791_187_200_123_456_789)
    pipe = Pipe()
    pipe.log("info", "request", verb="FETCH", path="/logs/pump.md")
    assert (
        pipe.text() == "time=2026-10-05T08:00:00.123Z level=INFO msg=request verb=FETCH path=/logs/pump.md\n"
    )


def test_the_zone_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, 1_791_187_200_000_000_000)
    try:
        for zone, shown in (("XXX-5:30", "13:30:00.000+05:30"), ("XXX+3", "05:00:00.000-03:00")):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            pipe = Pipe()
            pipe.log("warn", "m")
            assert pipe.text() == f"time=2026-10-05T{shown} level=WARN msg=m\n"
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [(0, "00"), (123_456_789, "00.123456789"), (120_000_000, "00.12"), (9, "00.000000009")],
)
def test_a_json_line(monkeypatch: pytest.MonkeyPatch, nanoseconds: int, shown: str) -> None:
    at(monkeypatch, 1_791_187_200_000_000_000 + nanoseconds)
    pipe = Pipe(form="json")
    pipe.log("error", "tls: certificate reload failed", error='a "b"', count=3, audit=True)
    text = pipe.text()
    assert json.loads(text) == {
        "time": f"2026-10-05T08:00:{shown}Z",
        "level": "ERROR",
        "msg": "tls: certificate reload failed",
        "error": 'a "b"',
        "count": 3,
        "audit": True,
    }
    assert text.index('"time"') < text.index('"level"') < text.index('"msg"') < text.index('"error"')


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "x"', r'"say \"x\""'),
        ("back\\slash", "back\\slash"),
        ("tab\t", r'"tab\t"'),
        ("line\nbreak", r'"line\nbreak"'),
        ("é", "é"),
        ("\udcff", r'"\xff"'),
        ("\x7f", r'"\x7f"'),
        (True, "true"),
        (False, "false"),
        (12, "12"),
        (0.5, "0.5"),
        (None, "None"),
        (ValueError("bad thing"), '"bad thing"'),
    ],
)
def test_values_are_quoted_as_go_does(value: object, shown: str) -> None:
    pipe = Pipe()
    pipe.log("info", "m", k=value)
    assert pipe.text().endswith(f" level=INFO msg=m k={shown}\n")


@given(st.text(), st.sampled_from(["text", "json"]))
def test_an_event_is_one_line_whatever_it_holds(value: str, form: str) -> None:
    pipe = Pipe(form=form)
    pipe.log("info", "m", value=value)
    text = pipe.text()
    assert text.count("\n") == 1
    assert not re.search("[\x00-\x09\x0b-\x1f]", text)


def test_a_path_that_is_not_utf8_is_readable_in_json() -> None:
    pipe = Pipe(form="json")
    pipe.log("info", "request", path="/a\udcff")
    assert json.loads(pipe.text())["path"] == "/a?"


def test_lines_below_the_level_are_not_written() -> None:
    for level, count in (("debug", 4), ("info", 3), ("warn", 2), ("error", 1), ("loud", 3)):
        pipe = Pipe(level=level)
        for each in logs.LEVELS:
            pipe.log(each, "m")
        assert pipe.text().count("\n") == count


def test_a_sentence_is_plain_in_text_and_an_event_in_json() -> None:
    pipe = Pipe(level="error")
    pipe.log.plain("cannot listen: in use")
    assert pipe.text() == "cannot listen: in use\n"
    pipe = Pipe(form="json", level="error")
    pipe.log.plain("cannot listen: in use")
    assert json.loads(pipe.text())["msg"] == "cannot listen: in use"


def test_lines_appear_without_closing() -> None:
    pipe = Pipe()
    pipe.log("info", "m")
    with os.fdopen(os.dup(pipe.reader), "rb") as source:
        assert source.readline().endswith(b"msg=m\n")
    assert pipe.text() == ""


def test_a_reader_that_went_away_stops_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    log = LogWriter(descriptor=writer)
    for _ in range(100):
        log("info", "m")
    log.close()
    os.close(writer)
    assert not any(thread.name == "log" and thread.is_alive() for thread in threading.enumerate())


def test_a_reader_that_takes_nothing_costs_lines_and_never_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "STUCK_SECONDS", 0.05)
    monkeypatch.setattr(logs, "QUEUE_BYTES", 200_000)
    pipe = Pipe()
    started = time.perf_counter()
    for _ in range(20_000):
        pipe.log("info", "request", verb="FETCH", path="/logs/pump.md")
    assert time.perf_counter() - started < 2.0
    drained: list[bytes] = []

    def drain() -> None:
        with os.fdopen(os.dup(pipe.reader), "rb") as source:
            drained.extend(source)

    reader = threading.Thread(target=drain)
    reader.start()
    rest = pipe.text()
    reader.join()
    lines = b"".join(drained).decode() + rest
    assert lines.count("msg=request") < 20_000
    assert 'level=WARN msg="log lines dropped" count=' in lines


def test_a_closed_stderr_is_replaced_before_a_file_can_take_its_number() -> None:
    program = (
        "import os\nfrom app.server import logs\nlogs.guard_descriptors()\n"
        "print(os.readlink('/proc/self/fd/2'), os.open('/dev/null', os.O_RDONLY) > 2)"
    )
    shell = f'exec "{sys.executable}" -c "$PROGRAM" 2>&- 0<&-'
    done = subprocess.run(
        ["sh", "-c", shell], env={**os.environ, "PROGRAM": program}, stdout=subprocess.PIPE, check=True
    )
    assert done.stdout == b"/dev/null True\n"
