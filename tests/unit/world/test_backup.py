"""Backups and what becomes of them: worlds of every state, taken while they change, and files that are no backups."""

import fcntl
import os
import random
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from app.world import backup as module
from app.world.backup import BackupReport, write_backup
from app.world.restore import CannotRestore, Restored, restore
from app.world.tarblocks import TarWriter
from app.world.verify import verify
from app.world.versionfile import FILE_MAX
from app.world.world import World
from tests.unit.world.roots import folder_of, plain, point, put_document, put_version, reopen, snapshot

pytestmark = pytest.mark.usefixtures("syncs_do_not_wait")

NOW = 1_790_000_000.0
ETC = {"settings": b"DEMARKUS_PORT=6310\n", "tokens.toml": b"[tokens]\n"}


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
