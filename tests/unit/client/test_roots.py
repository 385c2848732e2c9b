"""Which authorities are trusted: OpenSSL's own places, then the distributions' files, then the bundled ones."""

import ssl
from pathlib import Path
from typing import NamedTuple

import pytest

from app.client import roots


class Places(NamedTuple):
    cafile: str | None
    capath: str | None


def system(
    monkeypatch: pytest.MonkeyPatch, cafile: str | None, capath: Path | None, bundles: tuple[str, ...]
) -> None:
    monkeypatch.setattr(
        ssl, "get_default_verify_paths", lambda: Places(cafile, None if capath is None else str(capath))
    )
    monkeypatch.setattr(roots, "_BUNDLES", bundles)


def test_openssls_own_places_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "hash.0").write_text("x")
    system(monkeypatch, "/ca.pem", tmp_path, ())
    assert roots.system_roots() == ("/ca.pem", str(tmp_path))
    system(monkeypatch, None, tmp_path, ())
    assert roots.system_roots() == (None, str(tmp_path))


def test_an_empty_directory_does_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    empty = tmp_path / "empty"
    empty.mkdir()
    bundle.write_text("x")
    system(monkeypatch, None, empty, (str(tmp_path / "none.pem"), str(bundle)))
    assert roots.system_roots() == (str(bundle), None)
    system(monkeypatch, None, tmp_path / "absent", ())
    assert roots.system_roots() == (None, None)


def test_the_environment_is_heeded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bundle = tmp_path / "mine.pem"
    bundle.write_text("x")
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    assert roots.system_roots()[0] == str(bundle)
