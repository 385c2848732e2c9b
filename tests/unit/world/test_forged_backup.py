"""A file from a stranger restores nothing that no world would hold."""

import io
import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.world.backup import FORMAT, HEAD, LAST
from app.world.restore import CannotRestore, restore
from app.world.tarblocks import TarWriter, members
from tests.unit.world.roots import plain

pytestmark = pytest.mark.usefixtures("syncs_do_not_wait")


def forged(
    *entries: tuple[str, bytes | str], last: dict[str, object] | None = None, head: object = None
) -> bytes:
    """A file that a stranger made: text is a symlink's target. Its sum is right, and so are its counts unless `last` says otherwise."""
    out = io.BytesIO()
    writer = TarWriter(out.write)
    writer.file(HEAD, json.dumps(head or {"format": FORMAT, "program": "x"}).encode(), 0, 0o600)
    for name, data in entries:
        raw = name.encode("utf-8", "surrogateescape")
        if isinstance(data, str):
            writer.link(raw, data.encode(), 0)
        else:
            writer.file(raw, data, 0, 0o644)
    told = {"documents": 1, "versions": 1, "unsound": 0, "sha256": writer.digest} | (last or {})
    writer.file(LAST, json.dumps(told).encode(), 0, 0o600)
    writer.end()
    return out.getvalue()


VERSION = ("world/versions/a.md/v1", plain(1, b"text"))
POINTER = ("world/a.md", "versions/a.md/v1")


def test_the_forger_can_make_a_good_one(tmp_path: Path) -> None:
    """So that what the next test sees refused is refused for what it adds."""
    told = restore(io.BytesIO(forged(VERSION, POINTER)).read, os.fspath(tmp_path / "new"), {})
    assert (told.documents, told.versions) == (1, 1)


@pytest.mark.parametrize(
    "added",
    [
        ("world/../../escaped", b"x"),
        ("world/../versions/b.md/v1", b"x"),
        ("/etc/passwd", b"x"),
        ("world//etc/passwd", b"x"),
        ("../escaped", b"x"),
        ("etc/../../escaped", b"x"),
        ("etc/a/b", b"x"),
        ("etc/link", "/etc/passwd"),
        ("elsewhere", b"x"),
        ("world/plain.md", b"x"),
        ("world/versions", "/etc"),
        ("world/b.md", "/etc/passwd"),
        ("world/b.md", "../../etc/passwd"),
        ("world/b.md", "versions/a.md/v1"),
        ("world/b.md", "versions/b.md/v01"),
        ("world/b.md", "versions/b.md/v0"),
        ("world/versions/b.md/v1", "/etc/passwd"),
        ("world/versions/b.md/v01", b"x"),
        ("world/versions/b.md/v0", b"x"),
        ("world/versions/b.md/vx", b"x"),
        ("world/versions/b.md/other", b"x"),
        ("world/versions/versions/v1", b"x"),
        ("world/versions/d/versions/b.md/v1", b"x"),
        ("world/versions//v1", b"x"),
        ("world/d/./versions/b.md/v1", b"x"),
        ("world/versions/v1", b"x"),
        ("world/v1", b"x"),
        ("world/", b"x"),
        ("world", "."),
        ("world/a.md/versions/b.md/v1", b"x"),
        ("world/a.md/b.md", "versions/b.md/v1"),
        VERSION,
        POINTER,
        ("world/" + "n" * 256, "versions/" + "n" * 256 + "/v1"),
        ("world/" + "d/" * 2100 + "b.md", "versions/b.md/v1"),
        ("world/versions/b.md/v1", plain(1, b"no pointer")),
        ("world/b.md", "versions/b.md/v1"),
        ("world/versions/a.md/v2", plain(2, b"no chain, and the pointer is behind")),
        (HEAD.decode(), b"{}"),
    ],
    ids=lambda added: str(added)[:60],
)
def test_what_a_world_would_not_hold_is_refused_and_nothing_is_left(
    tmp_path: Path, added: tuple[str, bytes | str]
) -> None:
    tar = forged(VERSION, POINTER, added)
    (tmp_path / "here").mkdir()
    with pytest.raises(CannotRestore):
        restore(
            io.BytesIO(tar).read, os.fspath(tmp_path / "here" / "new"), {"link": os.fspath(tmp_path / "link")}
        )
    assert list(tmp_path.rglob("*")) == [tmp_path / "here"]


def test_a_tree_too_deep_to_remove_is_refused_like_any_other(tmp_path: Path) -> None:
    deep = "world/" + "d/" * 1500
    tar = forged(VERSION, POINTER, (deep + "versions/b.md/v1", plain(1, b"no pointer")))
    for _ in range(2):
        with pytest.raises(CannotRestore):
            restore(io.BytesIO(tar).read, os.fspath(tmp_path / "new"), {})
        assert not (tmp_path / "new").exists()
    subprocess.run(["rm", "-rf", tmp_path / ".new.restoring"], check=True)


@pytest.mark.parametrize(
    "tar",
    [
        forged(VERSION, POINTER, head={"format": 2, "program": "later"}),
        forged(VERSION, POINTER, head={"format": "1"}),
        forged(VERSION, POINTER, last={"sha256": "0" * 64}),
        forged(VERSION, POINTER, last={"documents": 2}),
        forged(VERSION, POINTER, last={"unsound": 1}),
        forged(VERSION, POINTER, last={"unsound": "many"}),
        forged(VERSION, POINTER)[512:],
        b"",
        b"PK\x03\x04" + bytes(2000),
    ],
    ids=range(9),
)
def test_a_file_that_is_no_backup_restores_nothing(tmp_path: Path, tar: bytes) -> None:
    with pytest.raises(CannotRestore):
        restore(io.BytesIO(tar).read, os.fspath(tmp_path / "new"), {})
    assert list(tmp_path.iterdir()) == []


def test_members_behind_the_last_one_are_refused(tmp_path: Path) -> None:
    tar = forged(VERSION, POINTER)
    out = io.BytesIO()
    TarWriter(out.write).file(b"world/versions/b.md/v1", plain(1, b"x"), 0, 0o644)
    with pytest.raises(CannotRestore, match="after its end"):
        restore(io.BytesIO(tar[:-1024] + out.getvalue() + bytes(1024)).read, os.fspath(tmp_path / "new"), {})


@pytest.mark.parametrize("rest", [b"x", bytes(600) + b"x", bytes(20 * 512), forged(VERSION, POINTER)])
def test_a_stream_that_goes_on_after_its_end_is_refused(tmp_path: Path, rest: bytes) -> None:
    with pytest.raises(CannotRestore, match="after its end"):
        restore(io.BytesIO(forged(VERSION, POINTER) + rest).read, os.fspath(tmp_path / "new"), {})


def test_zeros_up_to_a_record_are_what_other_tars_end_with(tmp_path: Path) -> None:
    tar = forged(VERSION, POINTER)
    told = restore(io.BytesIO(tar + bytes(-len(tar) % (20 * 512))).read, os.fspath(tmp_path / "new"), {})
    assert told.documents == 1


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_a_damaged_or_shortened_backup_restores_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    whole = forged(VERSION, POINTER, ("etc/tokens.toml", b"[tokens]\n"))
    covered = len(whole) - 2 * 512  # what a tar ends with says nothing
    place = data.draw(st.integers(0, covered - 1))
    if data.draw(st.booleans()):
        tar = whole[:place]
    else:
        tar = whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :]
    tokens = folder / "tokens.toml"
    try:
        told = restore(io.BytesIO(tar).read, os.fspath(folder / "new"), {"tokens.toml": os.fspath(tokens)})
    except CannotRestore:
        assert list(folder.iterdir()) == []
        return
    # The last member vouches for what is before it. What changed is a byte of its own that says nothing.
    assert (told.documents, told.versions) == (1, 1)
    found, meant = (list(members(io.BytesIO(one).read)) for one in (tar, whole))
    assert found[:-1] == meant[:-1]
    assert place >= covered - 2 * 512
