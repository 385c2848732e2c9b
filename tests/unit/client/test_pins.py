"""The pin file: what is read, what is kept, what is an error."""

import os
import stat
from pathlib import Path

import pytest

from app.client.pins import BadPin, PinFile, parse_pin

PIN = "sha256:" + "ab" * 32
OTHER = "sha256:" + "cd" * 32


@pytest.mark.parametrize("text", [PIN, "AB" * 32, "sha256:" + ":".join(["ab"] * 32), f"  {PIN.upper()}\n"])
def test_spellings_of_a_pin(text: str) -> None:
    assert parse_pin(text) == PIN


@pytest.mark.parametrize(
    "text", ["", "sha256:", "sha256:" + "ab" * 31, "sha256:" + "xy" * 32, "md5:" + "ab" * 32, PIN + "0"]
)
def test_what_is_no_pin(text: str) -> None:
    with pytest.raises(BadPin, match="64 hexadecimal"):
        parse_pin(text)


def test_a_pin_is_remembered_and_replaced_and_the_rest_of_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "state" / "pins"
    pins = PinFile(str(path))
    assert pins.get("board:6309") is None
    pins.put("board:6309", PIN)
    path.write_text(f"# mine\nother:1 {OTHER}\n" + path.read_text())
    pins.put("Board:6309", OTHER)
    assert pins.get("board:6309") == OTHER
    assert pins.get("other:1") == OTHER
    assert path.read_text() == f"# mine\nother:1 {OTHER}\nboard:6309 {OTHER}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["pins"]


@pytest.mark.parametrize("content", [b"board:6309 nonsense\n", b"board:6309\n", b"\xff\xfe"])
def test_a_broken_line_is_an_error_and_not_a_missing_pin(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pins").write_bytes(content)
    with pytest.raises(BadPin, match="pins"):
        PinFile(str(tmp_path / "pins")).get("board:6309")


def test_by_default_the_file_is_in_the_home_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert PinFile().path == str(tmp_path / ".mark" / "pins")
