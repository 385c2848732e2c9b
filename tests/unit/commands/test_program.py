"""The program's frame: how errors end, which name does what, that help and tables are whole."""

import contextlib
import io
import os
import shlex
import sys
from typing import NoReturn

import pytest

from app.client.errors import BadAnswer, IdentityChanged, OutcomeUnknown, Unreachable, Untrusted
from app.client.pins import BadPin
from app.commands import outcomes, program
from app.commands.outcomes import Exit, Failure, exit_of
from app.commands.parser import command_parser
from app.protocol.addresses import BadAddress

Capture = pytest.CaptureFixture[str]


def test_every_code_has_a_meaning() -> None:
    assert set(outcomes.MEANINGS) == set(Exit)
    assert [code.value for code in Exit] == [0, 1, 2, 3, 4, 5, 6, 7, 130]


def test_statuses() -> None:
    assert {status: exit_of(status).value for status in (
        "ok", "created", "not-modified", "not-found", "archived", "conflict", "unauthorized", "not-permitted",
        "bad-request", "server-error", "rate-limited", "resync", "closing", "too-large", "unavailable", "", "new",
    )} == {
        "ok": 0, "created": 0, "not-modified": 0, "not-found": 3, "archived": 3, "conflict": 4, "unauthorized": 5,
        "not-permitted": 5, "bad-request": 1, "server-error": 1, "rate-limited": 1, "resync": 1, "closing": 1,
        "too-large": 1, "unavailable": 1, "": 1, "new": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (Failure("why", Exit.CONFLICT), 4, "demarkus-appliance: why\n"),
        (Unreachable("h:1", "why"), 6, "demarkus-appliance: h:1: unreachable: why\n"),
        (
            Untrusted("h:1", "why", "sha256:0"),
            6,
            "demarkus-appliance: h:1: the certificate cannot be trusted: why\n",
        ),
        (
            IdentityChanged("h:1", "a", "b"),
            7,
            "demarkus-appliance: h:1: the server's identity changed: pinned a, shown b\n",
        ),
        (OutcomeUnknown("h:1", "why"), 1, "demarkus-appliance: h:1: why\n"),
        (BadAnswer("h:1", "why"), 1, "demarkus-appliance: h:1: why\n"),
        (BadAddress("no"), 2, "demarkus-appliance: no\n"),
        (BadPin("no"), 2, "demarkus-appliance: no\n"),
        (PermissionError(13, "Permission denied", "/x"), 1, "demarkus-appliance: /x: Permission denied\n"),
        (PermissionError(13, "Permission denied", b"/x"), 1, "demarkus-appliance: /x: Permission denied\n"),
        (KeyboardInterrupt(), 130, ""),
        (ExceptionGroup("", [ValueError(), ExceptionGroup("", [Failure("in")])]), 1, None),
        (BaseExceptionGroup("", [ValueError(), KeyboardInterrupt()]), 130, ""),
        (
            ZeroDivisionError("by\x1bzero"),
            1,
            "demarkus-appliance: unexpected error, ZeroDivisionError: byzero; --debug shows where\n",
        ),
        (SystemExit(2), 2, ""),
    ],
)
def test_errors_end_in_one_line_and_a_code(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, error: BaseException, code: int, text: str | None
) -> None:
    def fail(_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(program, "_own", fail)
    assert program.main(["x"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert text is None or captured.err == text
    assert program.main(["x", "--debug"]) == code
    assert ("Traceback" in capsys.readouterr().err) is not isinstance(error, SystemExit)


@pytest.mark.parametrize("name", ["demarkus-server", "demarkus-token", "demarkus-publish", "demarkus"])
def test_the_name_it_was_started_under_decides(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, name: str
) -> None:
    monkeypatch.setattr(sys, "argv", [f"/usr/local/bin/{name}", "-frob", "x"])
    code = program.main()
    assert code == (1 if name == "demarkus-token" else 2)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["demarkus-appliance", "program.py", "demarkus-unknown"])
def test_any_other_name_is_the_appliance(monkeypatch: pytest.MonkeyPatch, capsys: Capture, name: str) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--version"])
    assert program.main() == 0
    assert capsys.readouterr().out.startswith("demarkus-appliance ")


def test_older_programs_know_one_failure_only(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(sys, "argv", ["demarkus", "http://h/"])
    assert program.main() == 1
    assert capsys.readouterr().err.startswith("demarkus: address 'http://h/'")


def test_every_command_has_help_that_begins_with_its_examples() -> None:
    commands = program._commands()
    parser = command_parser(commands)
    assert len({command.name for command in commands}) == len(commands) > 20
    for command in commands:
        for example in command.examples:
            assert example.split(" ")[: len(command.name.split())] == command.name.split()
        if command.name == "serve":
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as caught:
            parser.parse_args([*command.name.split(), "--help"])
        assert caught.value.code == 0
        assert out.getvalue().startswith(
            f"Examples:\n  demarkus-appliance {command.examples[0]}\n  demarkus-appliance {command.examples[1]}\n\nusage: "
        )
        assert ("--json prints one object" in out.getvalue()) is bool(command.shape)


def test_the_examples_are_command_lines_that_parse() -> None:
    parser = command_parser(program._commands())
    for command in program._commands():
        if command.name != "serve":
            for example in command.examples:
                words = shlex.split(example)
                words = words[: next((at for at, word in enumerate(words) if word in "<>"), len(words))]
                assert parser.parse_args(words).command is command


def test_serve_has_its_own_words(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("DEMARKUS_")]:
        monkeypatch.delenv(name)
    assert program.main(["serve", "--help"]) == 0
    assert capsys.readouterr().out.startswith("Examples:\n  demarkus-appliance serve --root ")
    assert program.main(["serve", "--frob"]) == 2
    assert capsys.readouterr().err == "demarkus-appliance serve: unknown flag --frob; --help lists them\n"
    assert program.main(["serve", "--root", "/x", "--port", "many"]) == 1
    assert "--port must be" in capsys.readouterr().err
    assert program.main(["--debug", "serve", "--help"]) == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            ["serv"],
            ["usage: demarkus-appliance [-h]", "unknown command 'serv'; did you mean serve?", "--help"],
        ),
        (["frob"], ["unknown command 'frob' (--help lists them all)"]),
        (["token", "genrate"], ["usage: demarkus-appliance token", "did you mean generate?"]),
        (["--debug", "fetsh", "URL"], ["did you mean fetch?"]),
        (["fetch", "URL", "--frob"], ["usage: demarkus-appliance fetch", "unrecognized arguments: --frob"]),
        (
            ["put", "URL", "--force", "a", "b"],
            ["usage: demarkus-appliance put", "unrecognized arguments: a b"],
        ),
        (["fetch", "URL", "--timeout", "soon"], ["'soon' is no number of seconds"]),
        (["lookup", "URL", "--query", "x", "--limit", "0"], ["'0' is no whole number from 1 to 1000"]),
        (["list", "URL", "--page-size", "many"], ["'many' is no whole number from 1 to 1000"]),
        (["append", "URL", "--body", "x", "--expected-version", "0"], ["no whole number of 1 or more"]),
        (["put", "URL", "--force", "--expected-version", "1" * 5000], ["no whole number of 0 or more"]),
    ],
)
def test_a_line_that_is_not_understood_is_told_with_the_usage_it_belongs_to(
    capsys: Capture, line: list[str], words: list[str]
) -> None:
    assert program.main(line) == 2
    said = capsys.readouterr().err
    assert [word for word in words if word not in said] == []


@pytest.mark.parametrize("line", [["put", "URL", "--force", "file"], ["put", "URL", "file", "--force"]])
def test_a_file_may_stand_behind_options(line: list[str]) -> None:
    options = program.own_parser().parse_args(line)
    assert (options.url, options.file, options.force) == ("URL", "file", True)


def test_a_lazy_parser_has_the_same_help(capsys: Capture) -> None:
    for line in (["put", "--help"], ["token", "generate", "--help"], ["--help"]):
        shown = []
        for lazy in (False, True):
            with pytest.raises(SystemExit):
                command_parser(program._commands(), lazy=lazy).parse_args(line)
            shown.append(capsys.readouterr().out)
        assert shown[0] == shown[1]
