"""What reaches a terminal, a pipe and a file."""

import io
import sys

import pytest

from app.commands import terminal

HOSTILE = "a\x1b[2Jb\x07\x9bc\x7f\u202ed\re\tf\ng"


class Screen(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    def shown(self) -> str:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode()


def show_on_screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Makes stdout a terminal; not as a fixture, because pytest puts its own stdout back before a test begins."""
    made = Screen()
    monkeypatch.setattr(sys, "stdout", made)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return made


def test_harmless_text_has_nothing_a_terminal_obeys() -> None:
    assert terminal.harmless(HOSTILE) == "a[2Jbcde\tf\ng"
    assert terminal.harmless("\udcff") == "\ufffd"


def test_a_terminal_gets_harmless_text(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = show_on_screen(monkeypatch)
    terminal.answer(HOSTILE.encode() + b"\xff")
    assert screen.shown() == "a[2Jbcde\tf\ng\ufffd\n"


def test_a_pipe_gets_the_bytes(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    data = HOSTILE.encode() + b"\xff\x00"
    terminal.answer(data)
    assert capsysbinary.readouterr().out == data
    terminal.line("\udcff\x1b")
    assert capsysbinary.readouterr().out == b"\xff\x1b\n"


def test_notes_are_harmless_and_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.note(HOSTILE)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "a[2Jbcde\tf\ng\n")


def test_a_note_without_stderr_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    terminal.note("x")
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    terminal.note("x")
    assert closed.closed


def test_bold_on_a_terminal_only_and_never_against_a_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = show_on_screen(monkeypatch)
    terminal.entry("/a\x1b.md", " rest\x07")
    assert screen.shown() == "\x1b[1m/a.md\x1b[0m rest\n"
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as inner:
            inner.setenv(name, value)
            plain = Screen()
            inner.setattr(sys, "stdout", plain)
            terminal.entry("/a.md", " rest")
            assert plain.shown() == "/a.md rest\n"


def test_progress_draws_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.Progress("import")(3, 3)
    assert capsys.readouterr().err == ""
    bar = Screen()
    monkeypatch.setattr(sys, "stderr", bar)
    progress = terminal.Progress("import")
    for done in range(101):
        progress(done, 100)
    assert bar.shown().startswith("\rimport [..............................] 0/100")
    assert bar.shown().endswith("\rimport [##############################] 100/100\n")
    assert bar.shown().count("\r") < 10
    terminal.Progress("nothing")(0, 0)
    assert bar.shown().endswith("] 0/0\n")
