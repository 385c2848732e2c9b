"""Which server a command means, when there is none, one, or several on the machine."""

import os
from pathlib import Path
from typing import Any

import pytest

from app.commands import program, running
from app.commands.outcomes import Exit, Failure
from app.server import runtime
from app.server.runtime import Ask, NoAnswer

Answers = dict[str, dict[str, Any] | str]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answers:
    """The answer of each socket on the machine; a text is why there is none."""
    answers: Answers = {}

    def ask(place: tuple[str, str], question: Ask, timeout: float) -> dict[str, Any]:
        answer = answers[place[1]]
        if isinstance(answer, str):
            raise NoAnswer(answer)
        return answer

    monkeypatch.setattr(runtime, "servers", lambda places: [(places[0], name) for name in answers])
    monkeypatch.setattr(runtime, "ask", ask)
    monkeypatch.delenv("DEMARKUS_ROOT", raising=False)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "current").symlink_to("two")
    return answers


def status(root: Path, folder: Path | None = None) -> dict[str, Any]:
    return {"root": os.fspath(root), "folder": os.fspath(folder or root)}


def test_the_only_one_needs_no_name(machine: Answers, tmp_path: Path) -> None:
    machine.update({"stale.sock": "Connection refused", "a.sock": status(tmp_path / "one")})
    place, told = running.server_of(None, "/run/x")
    assert (place, told["root"]) == (("/run/x", "a.sock"), os.fspath(tmp_path / "one"))


@pytest.mark.parametrize("root", ["one", "two", "current"])
def test_a_root_is_known_by_its_name_or_by_where_it_leads(
    machine: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str
) -> None:
    machine["a.sock"] = status(tmp_path / "one")
    machine["b.sock"] = status(tmp_path / "current", tmp_path / "two")
    expected = "a.sock" if root == "one" else "b.sock"
    assert running.server_of(os.fspath(tmp_path / root), "/run/x")[0][1] == expected
    monkeypatch.chdir(tmp_path)
    assert running.server_of(root, "/run/x")[0][1] == expected
    monkeypatch.setenv("DEMARKUS_ROOT", root)
    assert running.server_of(None, "/run/x")[0][1] == expected


def test_none_and_several_are_said(machine: Answers, tmp_path: Path) -> None:
    cure = "start it, use sudo if another user runs it, or name its --runtime-dir"
    with pytest.raises(Failure, match=f"no server answers on this machine to this user: {cure}$") as caught:
        running.server_of(None, "/run/x")
    assert caught.value.code == Exit.UNREACHABLE
    machine["a.sock"] = "Permission denied"
    with pytest.raises(Failure, match=r"to this user \(/run/x/a\.sock: Permission denied\)"):
        running.server_of(None, "/run/x")
    machine["a.sock"] = status(tmp_path / "one")
    with pytest.raises(Failure, match=r"no server of /nowhere answers .*another --root or its --runtime-dir"):
        running.server_of("/nowhere", "/run/x")
    machine["b.sock"] = status(tmp_path / "two")
    with pytest.raises(Failure, match="several servers run here") as caught:
        running.server_of(None, "/run/x")
    assert caught.value.code == Exit.USAGE


def test_what_the_server_refuses_is_a_failure(machine: Answers) -> None:
    machine["a.sock"] = {"error": "unknown question frob"}
    with pytest.raises(Failure, match="unknown question frob"):
        running.ask_for(("/run/x", "a.sock"), Ask("frob"))
    machine["a.sock"] = "the server closed the connection"
    with pytest.raises(Failure, match=r"/run/x/a\.sock: the server closed") as caught:
        running.ask_for(("/run/x", "a.sock"), Ask("reload"))
    assert caught.value.code == Exit.UNREACHABLE


def test_where_servers_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("DEMARKUS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    monkeypatch.setenv("DEMARKUS_STATE_DIR", "/state")
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    assert running._places("/x") == ["/x"]
    assert running._places("") == [
        "/run/user/7/demarkus-appliance",
        "/run/demarkus-appliance",
        "/state/run",
    ]


def test_the_index_is_shown_as_a_multiple_of_the_text(
    machine: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {
        "version": "1", "pid": 1, "uptime": 1, "address": ":6309", "root": "/w", "folder": "/w", "documents": 1,
        "sections": 2, "index_bytes": 116, "body_bytes": 100, "connections": 0, "watching": True,
        "fingerprint": "sha256:4f", "certificate_expires": "9999-12-31T23:59:59Z", "clock_ok": True, "clock": "plausible",
    }  # fmt: skip
    machine["a.sock"] = told
    assert program.main(["status", "--runtime-dir", "/run/x"]) == 0
    assert "2, index 116 bytes, 1.16 × the text\n" in capsys.readouterr().out
