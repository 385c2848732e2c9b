"""What the card says, and which addresses it finds."""

import os
import re
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.commands import card, program, reachable, running
from app.commands.shapes import ServerStatus
from app.protocol.addresses import Address, parse_address

TOKEN = "5e" * 32


def status(**given: Any) -> ServerStatus:
    told = {
        "version": "1", "pid": 1, "uptime": 1, "address": ":6309", "root": "/srv/world", "folder": "/srv/world",
        "documents": 1, "sections": 1, "index_bytes": 1, "body_bytes": 1, "connections": 0, "watching": True,
        "tokens": "/etc/tokens.toml", "read_only": False, "fingerprint": "sha256:" + "4f" * 32,
        "certificate_expires": "9999-12-31T23:59:59Z", "clock_ok": True, "clock": "plausible",
    }  # fmt: skip
    return msgspec.convert(told | given, ServerStatus)


def test_the_first_card_holds_a_link_that_clients_take() -> None:
    shown = card.text(status(), [Address("board.local"), Address("192.0.2.7")], TOKEN)
    link = re.search(r"^Join\n  (\S+)$", shown, re.MULTILINE)
    assert link is not None
    assert link[1] == f"mark://board.local#token={TOKEN}"  # operations §9
    assert parse_address(link[1]).dial == "board.local:6309"
    assert shown.count(TOKEN) == 1
    assert "mark://192.0.2.7/" in shown
    assert f"/health --pin \\\n    sha256:{'4f' * 32}\n" in shown
    assert "/srv/world" in shown
    assert [line for line in shown.splitlines() if len(line) > 80] == [f"  {link[1]}"]
    assert "token generate" in shown


def test_a_later_card_holds_no_secret_and_says_how_to_make_another() -> None:
    shown = card.text(status(), [Address("192.0.2.7", 6310)])
    assert "token=" not in shown
    assert "Join" not in shown
    assert shown.count("  mark://192.0.2.7:6310/\n") == 1
    assert "\n  demarkus-appliance token generate" in shown
    assert "--tokens /etc/tokens.toml" in shown


@pytest.mark.parametrize(("place", "root_only"), [("/run/demarkus-appliance", True), ("/run/user/7", False)])
def test_only_the_tokens_of_the_service_need_root(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str, root_only: bool
) -> None:
    told = msgspec.to_builtins(status(address="127.0.0.1:6309"))
    monkeypatch.setattr(running, "server_of", lambda root, runtime_dir: ((place, "a.sock"), told))
    assert program.main(["card"]) == 0
    assert ("sudo demarkus-appliance token" in capsys.readouterr().out) == root_only


@pytest.mark.parametrize(
    ("given", "said"), [({"tokens": None}, "no token file"), ({"read_only": True}, "read-only")]
)
def test_where_nobody_can_write_it_says_so(given: dict[str, Any], said: str) -> None:
    shown = card.text(status(**given), [Address("192.0.2.7")])
    assert said in shown
    assert "--expected-version" not in shown


def test_without_a_network_it_says_so() -> None:
    assert "no network" in card.text(status(), [])


@pytest.mark.parametrize(
    ("listening", "expected"),
    [
        ("127.0.0.1:6310", [Address("127.0.0.1", 6310)]),
        ("[::1]:6309", [Address("::1")]),
        (":6309", [Address("192.0.2.7")]),
        ("[::]:6310", [Address("192.0.2.7", 6310)]),
        ("0.0.0.0:6309", [Address("192.0.2.7")]),
    ],
)
def test_an_address_of_its_own_is_found_where_it_listens_on_all(
    monkeypatch: pytest.MonkeyPatch, listening: str, expected: list[Address]
) -> None:
    monkeypatch.setattr(reachable, "_own_address", lambda: "192.0.2.7")
    monkeypatch.setattr(reachable, "_answers_for_its_name", lambda: False)
    assert reachable.addresses(listening) == expected


def test_a_name_goes_first_if_something_answers_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachable, "_own_address", lambda: "192.0.2.7")
    monkeypatch.setattr(socket, "gethostname", lambda: "Board.example.org")
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as responder:
        responder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        responder.bind(("::1", 5353))
        assert reachable.addresses(":6309") == [Address("board.local"), Address("192.0.2.7")]


def test_a_machine_without_a_network_has_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", unreachable)
    assert reachable.addresses(":6309") == []


def test_what_cannot_be_shown_is_not_kept(tmp_path: Path) -> None:
    from app.world.tokenfile import mint_first

    file = tmp_path / "tokens.toml"
    file.touch()

    def gone(_token: str) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        mint_first("owner", ["/**"], ["publish"], os.fspath(file), gone)
    assert file.read_bytes() == b""


@pytest.mark.parametrize("text", ["[tokens]\n", "\n", "# none\n"])
def test_a_file_that_ever_held_anything_gets_no_first_token(tmp_path: Path, text: str) -> None:
    from app.world.tokenfile import mint_first

    file = tmp_path / "tokens.toml"
    file.write_text(text)
    shown: list[str] = []
    assert not mint_first("owner", ["/**"], ["publish"], os.fspath(file), shown.append)
    assert (shown, file.read_text()) == ([], text)
