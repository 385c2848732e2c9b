"""The client's token store and the order in which tokens are looked for (operations §9)."""

import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.client import tokenstore
from app.client.tokenstore import BadTokenStore, Secret, TokenStore, resolve_token


def test_tokens_are_kept_in_the_reference_form(tmp_path: Path) -> None:
    store = TokenStore(str(tmp_path))
    store.add("b.example:6309", "second")
    store.add("A.example:6309", "first")
    path = tmp_path / "tokens.toml"
    assert path.read_text() == '["a.example:6309"]\ntoken = "first"\n\n["b.example:6309"]\ntoken = "second"\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert store.get("a.example:6309") == store.get("A.EXAMPLE:6309") == "first"
    assert store.remove("a.example:6309")
    assert not store.remove("a.example:6309")
    assert store.all() == {"b.example:6309": "second"}


def test_single_files_are_read_and_the_table_wins(tmp_path: Path) -> None:
    folder = tmp_path / "tokens.d"
    folder.mkdir()
    (folder / "a:1").write_text("  from-file\n")
    (folder / "b:2").write_text("b-file")
    (folder / ".hidden:3").write_text("no")
    (folder / "empty:4").write_text("\n")
    (folder / "directory:5").mkdir()
    store = TokenStore(str(tmp_path))
    store.add("b:2", "b-table")
    assert store.all() == {"a:1": "from-file", "b:2": "b-table"}


def test_an_absent_store_is_empty(tmp_path: Path) -> None:
    assert TokenStore(str(tmp_path / "none")).all() == {}


@pytest.mark.parametrize(
    "content", [b"[broken", b'"a:1" = "x"\n', b'["a:1"]\n', b'["a:1"]\ntoken = 3\n', b"\xff"]
)
def test_a_store_that_cannot_be_read_names_its_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokens.toml").write_bytes(content)
    with pytest.raises(BadTokenStore, match=r"tokens\.toml"):
        TokenStore(str(tmp_path)).get("a:1")


@pytest.mark.parametrize(
    ("explicit", "environment", "stored", "found"),
    [
        ("flag", {"DEMARKUS_AUTH": "env"}, "store", "flag"),
        (None, {"DEMARKUS_AUTH": "env"}, "store", "env"),
        (None, {"DEMARKUS_AUTH": ""}, "store", "store"),
        (None, {}, "store", "store"),
        (None, {}, None, None),
    ],
)
def test_order_of_resolution(
    tmp_path: Path, explicit: str | None, environment: dict[str, str], stored: str | None, found: str | None
) -> None:
    store = TokenStore(str(tmp_path))
    if stored:
        store.add("a:1", stored)
    secret = resolve_token("a:1", Secret(explicit, "--auth") if explicit else None, environment, store)
    assert (secret and secret.token) == found
    origins = {
        "flag": "--auth",
        "env": "DEMARKUS_AUTH",
        "store": f"what is stored for a:1 in {tmp_path}",
        None: None,
    }
    assert (secret and secret.origin) == origins[found]


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_text_survives_toml(text: str) -> None:
    assert tomllib.loads(f"x = {tokenstore._quoted(text)}\n") == {"x": text}
