"""Reading documents: what exists, what is served, and what a crash may leave (store §1, §4, §5.4, §7)."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.world.errors import Damaged, IndexIncomplete, Missing
from app.world.versionfile import FILE_MAX, hash_of
from tests.unit.world.roots import (
    PUMP_1,
    PUMP_2,
    PUMP_METADATA,
    Lines,
    everything,
    folder_of,
    plain,
    point,
    put_document,
    put_version,
    reopen,
)

PUMP = "/logs/pump.md"
ETAG_1 = "285b49e14e520431dcef0e8a412ab0d0e0e0ed8bb941df74f9e828075374bbd5"
ETAG_2 = "bb2edd604fd2a3cb6a3a115420936b96682d03f854cda2d060ec6fde9928e17c"
HASH_1 = "sha256-69a61cb614f75e58b624f3c3e4c22c8d971ddfa825e9d0b1cf69b269472a14e4"
HASH_2 = "sha256-9f4c511f62107ef80f51b95c955455080c4b8bfb7c5ac601517159e20fd7939a"


def test_the_example_of_the_contract(tmp_path: Path) -> None:
    put_document(tmp_path, PUMP, PUMP_1, PUMP_2)
    os.utime(folder_of(tmp_path, PUMP) / "v1", ns=(0, 1_790_000_000_999_999_999))
    os.utime(folder_of(tmp_path, PUMP) / "v2", ns=(0, 1_790_000_060_999_999_999))
    world = reopen(tmp_path)
    current = world.current(PUMP)
    assert (current.path, current.version, current.archived) == (PUMP, 2, False)
    assert (current.etag, current.content_hash, current.modified) == (ETAG_2, HASH_2, 1_790_000_060)
    assert current.metadata == PUMP_METADATA
    assert current.body == b"# Pump log\n\nStarted.\nStopped.\n"
    first, newest = world.version(PUMP, 1)
    assert (first.version, first.etag, first.content_hash, first.modified) == (
        1,
        ETAG_1,
        HASH_1,
        1_790_000_000,
    )
    assert newest == 2
    assert world.version(PUMP, 2) == (current, 2)
    history = world.history(PUMP)
    assert history.versions == [(2, 1_790_000_060), (1, 1_790_000_000)]
    assert (history.current, history.chain_valid, history.chain_error) == (2, True, "")
    assert world.by_hash(HASH_2, everything) == current
    with pytest.raises(Missing):
        world.by_hash(HASH_1, everything)
    for number in (0, 3):
        with pytest.raises(Missing):
            world.version(PUMP, number)


@pytest.mark.parametrize(
    "path",
    ["/", "/logs", "/logs/other.md", "/logs/pump.md/x.md", "/logs/pump.md/v1", "/none/pump.md", "/logs/../logs/pump.md",
     "/logs/./pump.md", "//logs/pump.md", "/logs/pump.md/", "logs/pump.md", "", "/" + "x" * 300 + ".md", "/\0.md",
     "/logs/versions/pump.md", "/logs/versions/pump.md/v1", "/\ud800.md"],
)  # fmt: skip
def test_what_is_no_document(tmp_path: Path, path: str) -> None:
    put_document(tmp_path, PUMP, PUMP_1)
    world = reopen(tmp_path)
    with pytest.raises(Missing):
        world.current(path)
    with pytest.raises(Missing):
        world.version(path, 1)
    with pytest.raises(Missing):
        world.history(path)


def test_a_flat_file_without_versions_is_no_document(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("flat")
    with pytest.raises(Missing):
        reopen(tmp_path).current("/a.md")


def test_a_pointer_turned_into_a_file_by_a_copy_is_still_served(tmp_path: Path) -> None:
    put_document(tmp_path, PUMP, PUMP_1, PUMP_2)
    pointer = tmp_path / "logs" / "pump.md"
    pointer.unlink()
    pointer.write_bytes(PUMP_2)
    (folder_of(tmp_path, PUMP) / "archive-state").write_bytes(b"true\n")
    world = reopen(tmp_path)
    assert (world.current(PUMP).etag, world.current(PUMP).version, world.current(PUMP).archived) == (
        ETAG_2,
        2,
        True,
    )
    with pytest.raises(Missing):
        world.by_hash(HASH_2, everything)


def test_only_regular_files_are_versions(tmp_path: Path) -> None:
    put_document(tmp_path, "/a.md", plain(1, b"one"))
    folder = folder_of(tmp_path, "/a.md")
    (folder / "v2").mkdir()
    (folder / "v3").symlink_to("v1")
    os.mkfifo(folder / "v4")
    (folder / "note").write_text("ignored")
    (folder / "v5x").write_text("ignored")
    world = reopen(tmp_path)
    assert world.current("/a.md").version == 1
    assert [number for number, _ in world.history("/a.md").versions] == [1]
    for number in (2, 3, 4):
        with pytest.raises(Missing):
            world.version("/a.md", number)
    assert world.publish("/a.md", b"two", {}, 1, 0).version == 5


def test_a_number_may_be_spelled_with_zeros_and_the_canonical_spelling_wins(tmp_path: Path) -> None:
    put_document(tmp_path, "/a.md", plain(1, b"one"), plain(2, b"two"))
    folder = folder_of(tmp_path, "/a.md")
    (folder / "v1").rename(folder / "v01")
    (folder / "v02").write_bytes(plain(2, b"stray"))
    world = reopen(tmp_path)
    assert world.version("/a.md", 1)[0].body == b"one"
    assert world.current("/a.md").body == b"two"


@pytest.mark.parametrize(("sidecar", "archived"), [(None, False), (b"true\n", True), (b"false\n", False)])
def test_the_archive_sidecar(tmp_path: Path, sidecar: bytes | None, archived: bool) -> None:
    put_document(tmp_path, PUMP, PUMP_1)
    if sidecar is not None:
        (folder_of(tmp_path, PUMP) / "archive-state").write_bytes(sidecar)
    world = reopen(tmp_path)
    assert world.current(PUMP).archived is archived
    assert world.version(PUMP, 1)[0].archived is archived
    assert len(world.catalog) == (0 if archived else 1)


@pytest.mark.parametrize(("sidecar", "archived"), [(None, True), (b"true\n", True), (b"false\n", False)])
def test_the_legacy_archived_line_holds_without_a_sidecar(
    tmp_path: Path, sidecar: bytes | None, archived: bool
) -> None:
    put_document(tmp_path, "/a.md", plain(1, b"text", archived=True))
    if sidecar is not None:
        (folder_of(tmp_path, "/a.md") / "archive-state").write_bytes(sidecar)
    assert reopen(tmp_path).current("/a.md").archived is archived


@pytest.mark.parametrize(
    "sidecar", [b"", b"true", b"True\n", b"true\n\n", b"false", b"yes\n", b"x" * 2_000_000]
)
def test_a_malformed_sidecar_fails_every_read(tmp_path: Path, sidecar: bytes) -> None:
    put_document(tmp_path, PUMP, PUMP_1)
    (folder_of(tmp_path, PUMP) / "archive-state").write_bytes(sidecar)
    world = reopen(tmp_path)
    assert len(world.catalog) == 0
    with pytest.raises(Damaged):
        world.current(PUMP)
    with pytest.raises(Damaged):
        world.version(PUMP, 1)
    with pytest.raises(Damaged):
        world.history(PUMP)


def test_a_sidecar_must_be_a_regular_file(tmp_path: Path) -> None:
    put_document(tmp_path, PUMP, PUMP_1)
    (folder_of(tmp_path, PUMP) / "state").write_bytes(b"true\n")
    (folder_of(tmp_path, PUMP) / "archive-state").symlink_to("state")
    with pytest.raises(Damaged):
        reopen(tmp_path).current(PUMP)


# Crash states that a reader must tolerate (store §5.4).


def test_a_pointer_behind_its_newest_version(tmp_path: Path) -> None:
    put_document(tmp_path, PUMP, PUMP_1, PUMP_2)
    point(tmp_path, PUMP, 1)
    world = reopen(tmp_path)
    current = world.current(PUMP)
    assert (current.version, current.etag) == (2, ETAG_1)
    assert world.version(PUMP, 2)[0].etag == ETAG_2
    assert world.history(PUMP).current == 2
    assert world.by_hash(HASH_1, everything).path == PUMP
    assert world.publish(PUMP, current.body, PUMP_METADATA, 2, 0).version == 3
    assert world.history(PUMP).chain_valid
    assert world.current(PUMP).version == 3
    assert world.current(PUMP).body == current.body


def test_leftovers_of_a_crash_are_nothing(tmp_path: Path) -> None:
    put_document(tmp_path, PUMP, PUMP_1)
    (tmp_path / "logs" / "pump.md.tmp").symlink_to("versions/pump.md/v2")
    (folder_of(tmp_path, PUMP) / ".archive-state-abc").write_bytes(b"tr")
    (tmp_path / "logs" / "versions" / "empty.md").mkdir()
    world = reopen(tmp_path)
    assert [child.name for child in world.children("/logs", everything, True)] == ["pump.md"]
    for name in ("pump.md.tmp", "empty.md"):
        with pytest.raises(Missing):
            world.current(f"/logs/{name}")
    assert world.publish(PUMP, b"new\n", {}, 1, 0).version == 2
    assert sorted(os.listdir(tmp_path / "logs")) == ["pump.md", "versions"]
    assert sorted(os.listdir(folder_of(tmp_path, PUMP))) == ["v1", "v2"]


def test_versions_without_a_pointer_are_continued(tmp_path: Path) -> None:
    put_version(tmp_path, PUMP, 1, PUMP_1)
    world = reopen(tmp_path)
    with pytest.raises(Missing):
        world.current(PUMP)
    assert world.publish(PUMP, PUMP_2[-30:], PUMP_METADATA, 0, 0).version == 2
    assert world.current(PUMP).etag == ETAG_2
    assert world.history(PUMP).chain_valid


def test_a_dangling_pointer_of_our_form_is_served_as_the_newest_whole_version(tmp_path: Path) -> None:
    put_document(tmp_path, PUMP, PUMP_1)
    point(tmp_path, PUMP, 2)
    world = reopen(tmp_path)
    assert (world.current(PUMP).version, world.current(PUMP).etag) == (1, ETAG_1)
    assert [child.name for child in world.children("/logs", everything, False)] == ["pump.md"]


# Torn newest versions.

TORN = {
    "empty": b"",
    "cut": PUMP_2[:100],
    "unwritten blocks": b"\0" * 249,
    "too large": b"x" * (FILE_MAX + 1),
}


@pytest.mark.parametrize("torn", TORN.values(), ids=TORN.keys())
@pytest.mark.parametrize("pointed", [1, 2])
def test_a_torn_newest_version_is_set_aside(tmp_path: Path, torn: bytes, pointed: int) -> None:
    put_document(tmp_path, PUMP, PUMP_1, torn)
    point(tmp_path, PUMP, pointed)
    world = reopen(tmp_path)
    assert (world.current(PUMP).version, world.current(PUMP).etag) == (1, ETAG_1)
    assert [number for number, _ in world.history(PUMP).versions] == [1]
    assert world.history(PUMP).current == 1
    with pytest.raises(Missing):
        world.version(PUMP, 2)
    assert len(world.catalog) == 1
    assert [child.name for child in world.children("/logs", everything, False)] == ["pump.md"]
    assert world.publish(PUMP, b"next\n", {}, 1, 0).version == 3
    assert [number for number, _ in world.history(PUMP).versions] == [3, 1]
    assert world.history(PUMP).chain_valid
    folder = folder_of(tmp_path, PUMP)
    assert sorted(os.listdir(folder)) == ["v1", "v2.torn", "v3"]
    assert (folder / "v2.torn").read_bytes() == torn
    assert hash_of(PUMP_1).encode() in (folder / "v3").read_bytes()


def test_a_number_set_aside_is_not_used_again(tmp_path: Path) -> None:
    put_document(tmp_path, PUMP, PUMP_1)
    (folder_of(tmp_path, PUMP) / "v7.torn").write_bytes(b"")
    assert reopen(tmp_path).publish(PUMP, b"next\n", {}, 1, 0).version == 8


def test_several_torn_versions_and_an_unreadable_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_document(tmp_path, PUMP, PUMP_1, b"", b"---\nver", PUMP_2)
    real = os.read

    def read(fd: int, length: int, /) -> bytes:
        if os.fstat(fd).st_size == len(PUMP_2):
            raise OSError(5, "Input/output error")
        return real(fd, length)

    monkeypatch.setattr(os, "read", read)
    world = reopen(tmp_path)
    assert world.current(PUMP).version == 1
    assert world.publish(PUMP, b"next\n", {}, 1, 0).version == 5
    assert [number for number, _ in world.history(PUMP).versions] == [5, 1]


def test_running_out_of_descriptors_does_not_make_a_version_torn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_document(tmp_path, PUMP, PUMP_1, PUMP_2)
    world = reopen(tmp_path)
    real = os.open

    def full(path: bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == b"v2":
            raise OSError(24, "Too many open files")
        return real(path, flags, mode, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        with pytest.raises(Exception, match="Too many open files"):
            world.current(PUMP)
    assert world.current(PUMP).version == 2


def test_a_document_with_no_whole_version_does_not_exist_and_can_be_written(tmp_path: Path) -> None:
    put_document(tmp_path, PUMP, b"")
    world = reopen(tmp_path)
    with pytest.raises(Missing):
        world.current(PUMP)
    assert [child.name for child in world.children("/logs", everything, False)] == []
    assert world.publish(PUMP, b"again\n", {}, 0, 0).version == 2
    assert world.current(PUMP).body == b"again\n"
    assert world.history(PUMP).chain_valid


def test_a_document_of_which_nothing_can_be_read_is_damaged_and_can_be_written(tmp_path: Path) -> None:
    put_document(tmp_path, PUMP, b"", b"x" * (FILE_MAX + 1))
    world = reopen(tmp_path)
    reads: tuple[Callable[[], object], ...] = (
        lambda: world.current(PUMP),
        lambda: world.history(PUMP),
        lambda: world.version(PUMP, 2),
    )
    for read in reads:
        with pytest.raises(Damaged, match="v2 cannot be read: 1050625 bytes, more than a version may have"):
            read()
    assert world.children("/logs", everything, False) == []
    with pytest.raises(IndexIncomplete):
        world.by_hash("sha256-" + "0" * 64, everything)
    (tmp_path / "logs" / "pump.md").rename(tmp_path / "logs" / "away")
    with pytest.raises(Missing):
        world.current(PUMP)
    (tmp_path / "logs" / "away").rename(tmp_path / "logs" / "pump.md")
    assert world.publish(PUMP, b"again\n", {}, 0, 0).version == 3
    assert world.current(PUMP).body == b"again\n"


@pytest.mark.parametrize(
    "foreign",
    [
        b"no block at all\n",
        b"---\ntitle: T\n---\n# Foreign\n",
        b"---\ntitle: unclosed",
        PUMP_1,
        b"---\nversion: 9\n---\nx",
    ],
)
def test_foreign_newest_versions_are_whole(tmp_path: Path, foreign: bytes) -> None:
    put_document(tmp_path, "/a.md", PUMP_1, foreign)
    current = reopen(tmp_path).current("/a.md")
    assert current.version == 2
    assert foreign.endswith(current.body)
    assert not reopen(tmp_path).history("/a.md").chain_valid


# The chain (store §7).


def test_a_broken_link_wins_over_faults_of_form(tmp_path: Path) -> None:
    put_document(tmp_path, PUMP, PUMP_1.replace(b"archived: false", b"archived: what"), PUMP_2)
    history = reopen(tmp_path).history(PUMP)
    assert (history.chain_valid, history.chain_error) == (
        False,
        "v2 does not name the hash of the version before it",
    )


def test_a_pruned_chain_is_valid(tmp_path: Path) -> None:
    put_document(tmp_path, PUMP, PUMP_1, PUMP_2)
    (folder_of(tmp_path, PUMP) / "v1").unlink()
    history = reopen(tmp_path).history(PUMP)
    assert (history.chain_valid, len(history.versions), history.current) == (True, 1, 2)


def test_an_old_version_that_is_too_large_fails_the_history(tmp_path: Path) -> None:
    put_document(tmp_path, PUMP, b"x" * (FILE_MAX + 1), PUMP_2)
    world = reopen(tmp_path)
    with pytest.raises(Damaged):
        world.history(PUMP)
    with pytest.raises(Damaged):
        world.version(PUMP, 1)
    assert world.current(PUMP).version == 2


def test_the_log_says_once_what_was_set_aside(tmp_path: Path) -> None:
    put_document(tmp_path, PUMP, PUMP_1, b"")
    lines = Lines()
    reopen(tmp_path, log=lines)
    assert lines.warnings() == [("version set aside", {"path": PUMP, "version": 2, "error": "empty"})]
