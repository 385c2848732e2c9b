"""Backups and what becomes of them: worlds of every state, taken while they change, and files that are no backups."""

import fcntl
import io
import json
import os
import random
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.world import backup as module
from app.world.backup import FORMAT, HEAD, LAST, BackupReport, write_backup
from app.world.restore import CannotRestore, Restored, restore
from app.world.tarblocks import TarWriter, members
from app.world.verify import verify
from app.world.versionfile import FILE_MAX
from app.world.world import World
from tests.unit.world.roots import folder_of, plain, point, put_document, put_version, reopen, snapshot

NOW = 1_790_000_000.0
ETC = {"settings": b"DEMARKUS_PORT=6310\n", "tokens.toml": b"[tokens]\n"}


@pytest.fixture(autouse=True)
def _syncs_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync waits for whatever is written on the whole machine."""
    monkeypatch.setattr(os, "sync", lambda: None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Documents of every state: with history, pruned, archived and brought back, hidden, with a name that is no text."""
    root = tmp_path / "root"
    root.mkdir()
    world = reopen(root)
    for number in range(1, 5):
        world.publish("/a/log.md", b"# Log\n\n%d\n" % number, {"title": "Log"}, None, NOW + number)
    for number in range(1, 6):
        world.publish("/pruned.md", b"%d" % number, {"retention": "2"}, None, NOW - number)
    world.publish("/gone.md", b"gone", {}, None, NOW)
    world.archive("/gone.md")
    world.publish("/back.md", b"back", {}, None, NOW)
    world.archive("/back.md")
    world.unarchive("/back.md")
    world.publish("/.well-known/agent-manifest.md", b"hidden", {}, None, NOW)
    world.publish("/" + "n" * 120 + "/\udcff.md", b"bytes", {}, None, NOW)
    world.close()
    return root


def backed_up(root: Path, file: Path, etc: dict[str, bytes] | None = None) -> BackupReport:
    return write_backup(os.fspath(root), os.fspath(file), etc or {}, NOW, "test")


def restored(file: Path, root: Path, places: dict[str, str] | None = None) -> Restored:
    with file.open("rb") as source:
        return restore(source.read, os.fspath(root), places or {})


def times(root: Path) -> dict[str, int]:
    return {
        os.fspath(path.relative_to(root)): int(path.lstat().st_mtime)
        for path in root.rglob("v[0-9]*")
        if path.is_file()
    }


def test_a_world_comes_back_as_it_was(root: Path, tmp_path: Path) -> None:
    file, target = tmp_path / "b.tar", tmp_path / "new"
    report = backed_up(root, file, ETC)
    assert (report.documents, report.versions) == (6, 10)
    assert (report.left_out, report.curtailed, report.unsound, report.plain) == ([], [], [], 0)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    places = {name: os.fspath(tmp_path / "etc" / name) for name in ETC}
    told = restored(file, target, places)
    assert (told.documents, told.versions, told.faults) == (6, 10, [])
    assert told.places == places
    assert snapshot(target) == snapshot(root)
    assert times(target) == times(root)
    assert list(verify(os.fspath(target))) == []
    assert {name: Path(place).read_bytes() for name, place in places.items()} == ETC
    assert sorted(os.listdir(tmp_path)) == ["b.tar", "etc", "new", "root"]


def test_a_backup_may_have_the_longest_of_names(root: Path, tmp_path: Path) -> None:
    target = tmp_path / ("b" * 251 + ".tar")
    write_backup(os.fspath(root), os.fspath(target), {}, NOW, "test")
    assert target.stat().st_size > 0


def test_only_files_are_replaced_and_a_link_is_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "stick").mkdir()
    meant, pipe = tmp_path / "stick" / "b.tar", tmp_path / "pipe"
    (tmp_path / "b.tar").symlink_to(meant)
    backed_up(root, tmp_path / "b.tar")
    assert (tmp_path / "b.tar").is_symlink()
    assert os.listdir(tmp_path / "stick") == ["b.tar"]
    os.mkfifo(pipe)
    for target in (pipe, tmp_path / "stick"):
        before = target.lstat()
        with pytest.raises(FileExistsError):
            backed_up(root, target)
        assert os.path.samestat(target.lstat(), before)
    assert sorted(os.listdir(tmp_path)) == ["b.tar", "pipe", "root", "stick"]


def test_a_restore_that_ends_between_anothers_opening_and_locking_keeps_its_world(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, target = tmp_path / "b.tar", tmp_path / "new"
    backed_up(root, file)
    lock = fcntl.flock

    def after_the_other(fd: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        restored(file, target)
        lock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", after_the_other)
    with pytest.raises(CannotRestore, match=r"another restore to .* has just ended"):
        restored(file, target)
    assert snapshot(target) == snapshot(root)


def test_an_empty_folder_is_a_target_and_keeps_its_mode(root: Path, tmp_path: Path) -> None:
    file, target = tmp_path / "b.tar", tmp_path / "new"
    backed_up(root, file)
    target.mkdir(mode=0o711)
    (tmp_path / "link").symlink_to(target)
    restored(file, tmp_path / "link")
    assert snapshot(target) == snapshot(root)
    assert stat.S_IMODE(target.stat().st_mode) == 0o711


@pytest.mark.parametrize(
    ("existing", "taken"),
    [
        (None, True),
        (b"", True),
        (b"# one\n\n ; two\n", True),
        (b"[tokens]\n", True),
        (b"[tokens.a]\n", False),
    ],
)
def test_the_operators_files_are_never_overwritten(
    root: Path, tmp_path: Path, existing: bytes | None, taken: bool
) -> None:
    file, target, tokens = tmp_path / "b.tar", tmp_path / "new", tmp_path / "tokens.toml"
    backed_up(root, file, ETC)
    if existing is not None:
        tokens.write_bytes(existing)
    if taken:
        told = restored(file, target, {"tokens.toml": os.fspath(tokens)})
        assert told.without_place == ["settings"]
        assert tokens.read_bytes() == ETC["tokens.toml"]
    else:
        with pytest.raises(CannotRestore, match=r"tokens\.toml exists"):
            restored(file, target, {"tokens.toml": os.fspath(tokens)})
        assert tokens.read_bytes() == existing
        assert not target.exists()


def test_a_target_that_is_in_use_is_refused(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "b.tar"
    backed_up(root, file)
    before = snapshot(root)
    with pytest.raises(CannotRestore, match="not empty"):
        restored(file, root)
    with pytest.raises(CannotRestore, match="no folder"):
        restored(file, tmp_path / "a" / "b")
    assert snapshot(root) == before
    assert sorted(os.listdir(tmp_path)) == ["b.tar", "root"]


def test_a_mounted_target_is_refused_since_it_cannot_be_renamed_over(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backed_up(root, tmp_path / "b.tar")
    (tmp_path / "card").mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: path == os.fspath(tmp_path / "card"))
    with pytest.raises(CannotRestore, match="mounted"):
        restored(tmp_path / "b.tar", tmp_path / "card")
    assert list((tmp_path / "card").iterdir()) == []


# What a world may be like.


def damage_chain(root: Path) -> None:
    (folder_of(root, "/a/log.md") / "v2").write_bytes(plain(2, b"forged"))


def damage_state(root: Path) -> None:
    (folder_of(root, "/gone.md") / "archive-state").write_bytes(b"perhaps")


@pytest.mark.parametrize("damage", [damage_chain, damage_state])
def test_what_had_a_fault_comes_back_with_it_and_is_named(
    root: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    damage(root)
    file, target = tmp_path / "b.tar", tmp_path / "new"
    report = backed_up(root, file)
    assert (report.documents, len(report.unsound)) == (6, 1)
    assert restored(file, target).faults == list(verify(os.fspath(root)))
    assert snapshot(target) == snapshot(root)


def test_what_is_no_document_is_passed_over_and_what_cannot_be_read_is_named(
    root: Path, tmp_path: Path
) -> None:
    (root / "notes.txt").write_text("plain")
    put_version(root, "/lost.md", 1, plain(1, b"no pointer"))
    put_document(root, "/huge.md", b"x" * (FILE_MAX + 1))
    put_document(root, "/torn.md", plain(1, b"whole"), b"---\nversion: 2\n")
    (root / "outside").symlink_to("/etc")
    file, target = tmp_path / "b.tar", tmp_path / "new"
    report = backed_up(root, file)
    assert report.plain == 1
    assert sorted(path for path, _ in report.left_out) == ["/huge.md", "/lost.md", "/outside"]
    assert [path for path, _ in report.curtailed] == ["/torn.md"]
    assert report.documents == 7
    told = restored(file, target)
    assert (told.documents, told.faults) == (7, [])


def test_a_pointer_that_is_behind_is_set_right(root: Path, tmp_path: Path) -> None:
    point(root, "/a/log.md", 3)
    file, target = tmp_path / "b.tar", tmp_path / "new"
    backed_up(root, file)
    assert restored(file, target).faults == []
    assert (target / "a" / "log.md").readlink() == Path("versions/log.md/v4")


def test_it_is_whole_while_the_world_is_written_to(root: Path, tmp_path: Path) -> None:
    """Writers publish, prune and archive as fast as they can; each backup taken meanwhile is sound to the last document."""
    over = threading.Event()
    world = World.open(os.fspath(root), log=lambda *_, **__: None)

    def write() -> None:
        chosen = random.Random(7)
        number = 0
        while not over.is_set():
            number += 1
            path = chosen.choice(["/a/log.md", "/pruned.md", f"/new/{number % 40}.md"])
            world.publish(
                path, b"%d" % number, {"retention": "2"} if "pruned" in path else {}, None, NOW + number
            )
            change = world.archive if number % 3 else world.unarchive
            change(f"/new/{number % 40}.md" if "new" in path else "/back.md")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(6):
            file, target = tmp_path / f"{number}.tar", tmp_path / f"{number}"
            report = backed_up(root, file)
            assert (report.curtailed, report.unsound) == ([], [])
            told = restored(file, target)
            assert told.faults == []
            assert told.documents >= 6
    finally:
        over.set()
        writer.join()
        world.close()


def test_a_document_that_is_pruned_while_it_is_read_loses_its_oldest_versions_only(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(root, "/a/log.md")
    real = TarWriter.file

    def file(self: TarWriter, name: bytes, data: bytes, modified: int, mode: int) -> None:
        if name.endswith(b"log.md/v4"):
            for number in (1, 2):
                (folder / f"v{number}").unlink()
        real(self, name, data, modified, mode)

    monkeypatch.setattr(TarWriter, "file", file)
    report = backed_up(root, tmp_path / "b.tar")
    assert (report.documents, report.curtailed, report.unsound) == (6, [], [])
    restored(tmp_path / "b.tar", tmp_path / "new")
    assert sorted(os.listdir(folder_of(tmp_path / "new", "/a/log.md"))) == ["v3", "v4"]


def test_a_disk_that_is_full_ends_it_and_leaves_the_one_before(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "b.tar"
    file.write_bytes(b"the one before")
    written = 0

    def full(fd: int, data: bytes) -> None:
        nonlocal written
        written += len(data)
        if written > 4000:
            raise OSError(28, "No space left on device")
        os.write(fd, data)

    monkeypatch.setattr(module, "write_all", full)
    with pytest.raises(OSError, match="No space"):
        backed_up(root, file)
    assert file.read_bytes() == b"the one before"
    assert sorted(os.listdir(tmp_path)) == ["b.tar", "root"]


# What is no backup.


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


def test_a_leftover_of_a_restore_that_was_cut_off_is_removed(root: Path, tmp_path: Path) -> None:
    file, target = tmp_path / "b.tar", tmp_path / "new"
    backed_up(root, file)
    put_document(tmp_path / ".new.restoring", "/half.md", plain(1, b"half"))
    restored(file, target)
    assert snapshot(target) == snapshot(root)
    assert not (tmp_path / ".new.restoring").exists()


def test_two_restores_at_once_do_not_meet(root: Path, tmp_path: Path) -> None:
    file, target = tmp_path / "b.tar", tmp_path / "new"
    backed_up(root, file)
    source = file.open("rb")
    refused: list[str] = []

    def read(size: int) -> bytes:
        if not refused:
            with pytest.raises(CannotRestore, match="another restore") as caught:
                restored(file, target)
            refused.append(str(caught.value))
        return source.read(size)

    with source:
        restore(read, os.fspath(target), {})
    assert len(refused) == 1
    assert snapshot(target) == snapshot(root)


def test_what_root_restores_belongs_to_whom_the_folder_belongs_to(root: Path, tmp_path: Path) -> None:
    assert os.geteuid() == 0, "this test gives files away; run the suite as root, as CI does"
    file, target = tmp_path / "b.tar", tmp_path / "new"
    backed_up(root, file, ETC)
    target.mkdir()
    os.chown(target, 4711, 4712)
    (tmp_path / "etc").mkdir()
    os.chown(tmp_path / "etc", 4711, 4712)
    restored(file, target, {"tokens.toml": os.fspath(tmp_path / "etc" / "tokens.toml")})
    found = [target, *target.rglob("*"), *(tmp_path / "etc").rglob("*")]
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in found} == {(4711, 4712)}
