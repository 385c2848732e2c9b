"""Writing: bytes and modes on disk, the order of refusals, and what a refused write leaves (wire §5.4, §5.5; store §4 to §6)."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.protocol.fault import Fault
from app.protocol.limits import BODY_MAX
from app.world.errors import (
    Archived,
    BadDocument,
    Conflict,
    Damaged,
    DiskFailure,
    LostRace,
    Missing,
    PathCollision,
    ReadOnly,
    TooLarge,
    WorldError,
)
from app.world.shelf import Pruned
from app.world.world import Commit, Outcome, World
from app.world.writing import Unchanged
from tests.unit.world.roots import (
    PUMP_1,
    PUMP_2,
    PUMP_METADATA,
    everything,
    folder_of,
    plain,
    put_document,
    put_version,
    reopen,
    snapshot,
)

PUMP = "/logs/pump.md"
BODY_1 = b"# Pump log\n\nStarted.\n"
NOW = 1_790_000_000.25


@pytest.fixture
def world(tmp_path: Path) -> World:
    return reopen(tmp_path)


def test_the_example_of_the_contract_as_we_write_it(world: World, tmp_path: Path) -> None:
    assert world.publish(PUMP, BODY_1, PUMP_METADATA, 0, NOW) == Outcome(1, 1_790_000_000, created=True)
    assert world.append(PUMP, b"Stopped.\n", {}, 1, NOW + 60) == Outcome(2, 1_790_000_060, created=True)
    assert snapshot(tmp_path) == {
        "logs": None,
        "logs/pump.md": "versions/pump.md/v2",
        "logs/versions": None,
        "logs/versions/pump.md": None,
        "logs/versions/pump.md/v1": PUMP_1,
        "logs/versions/pump.md/v2": PUMP_2,
    }
    assert world.history(PUMP).versions == [(2, 1_790_000_060), (1, 1_790_000_000)]


def test_modes_before_the_umask(world: World, tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        world.publish(PUMP, b"text", {}, None, NOW)
        world.archive(PUMP)
    finally:
        os.umask(mask)
    modes = {path.name: path.stat().st_mode & 0o7777 for path in tmp_path.rglob("*") if not path.is_symlink()}
    assert modes == {"logs": 0o755, "versions": 0o755, "pump.md": 0o755, "v1": 0o644, "archive-state": 0o644}


def test_equal_body_and_metadata_write_nothing(world: World, tmp_path: Path) -> None:
    world.publish(PUMP, BODY_1, PUMP_METADATA, 0, NOW)
    before = snapshot(tmp_path)
    assert world.publish(PUMP, BODY_1, PUMP_METADATA, 1, NOW + 9) == Outcome(1, 1_790_000_000, created=False)
    assert world.prepare_publish(PUMP, BODY_1, PUMP_METADATA, None, NOW) == Unchanged(1, 1_790_000_000)
    assert snapshot(tmp_path) == before
    assert world.publish(PUMP, BODY_1, PUMP_METADATA | {"title": "Other"}, 1, NOW).version == 2
    assert world.publish(PUMP, BODY_1, {}, 2, NOW).version == 3
    assert world.history(PUMP).chain_valid


def test_the_order_of_refusals(world: World, tmp_path: Path) -> None:
    """Each document is refused for several reasons at once; the earlier row of wire §5.4 wins."""
    big = b"x" * (BODY_MAX + 1)
    put_document(tmp_path, "/a.md", plain(1, b"a"))
    (tmp_path / "out.md").symlink_to("/etc/passwd")
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / "d.md").mkdir()
    world.archive("/a.md")
    cases: list[tuple[str, bytes, int | None, type[WorldError]]] = [
        ("/versions/a.md", b"\xff", 9, BadDocument),
        ("/a.md", b"\xff", 9, BadDocument),
        ("/a.md", big, 9, Conflict),
        ("/d.md", big, 9, Conflict),
        ("/out.md", big, 9, Conflict),
        ("/d.md", big, 0, PathCollision),
        ("/a.md/b.md", big, 0, PathCollision),
        ("/a.md", big, 1, Archived),
        ("/a.md", b"a", 1, Archived),
        ("/out.md", big, 0, TooLarge),
        ("/new.md", big, 0, TooLarge),
    ]
    before = snapshot(tmp_path)
    for path, body, expected, error in cases:
        with pytest.raises(error) as caught:
            world.publish(path, body, {}, expected, NOW)
        assert type(caught.value) is error
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(("expected", "current"), [(0, 1), (2, 1), (7, 1)])
def test_a_conflict_carries_the_current_version(world: World, expected: int, current: int) -> None:
    world.publish(PUMP, b"text", {}, None, NOW)
    with pytest.raises(Conflict) as caught:
        world.publish(PUMP, b"other", {}, expected, NOW)
    assert caught.value.current == current
    with pytest.raises(Conflict) as caught:
        world.publish("/none.md", b"other", {}, 3, NOW)
    assert caught.value.current == 0


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/d.md", "directory"), ("/d.md/e.md", "directory"), ("/a.md/b.md", "ancestor"), ("/a.md/b/c/d.md", "ancestor"), ("/flat.md/b.md", "ancestor")],
)  # fmt: skip
def test_a_collision_leaves_nothing_behind(tmp_path: Path, path: str, kind: str) -> None:
    put_document(tmp_path, "/a.md", plain(1, b"a"))
    put_document(tmp_path, "/d.md/e.md/f.md", plain(1, b"f"))
    (tmp_path / "flat.md").write_text("flat")
    before = snapshot(tmp_path)
    with pytest.raises(PathCollision) as caught:
        reopen(tmp_path).publish(path, b"text", {}, None, NOW)
    assert caught.value.kind == kind
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "path",
    ["/versions/a.md", "/d/versions/a.md", "/versions", "/a/versions/b/c.md", "/versions/pump.md/v1", "/", "", "/a\0.md",
     "/../a.md", "/a//b.md", "/\ud800.md", "/" + "x" * 253 + ".md", "/" + "x" * 256 + "/a.md"],
)  # fmt: skip
def test_paths_that_cannot_be_written(world: World, tmp_path: Path, path: str) -> None:
    with pytest.raises(BadDocument):
        world.publish(path, b"text", {}, None, NOW)
    others: tuple[Callable[[], object], ...] = (
        lambda: world.append(path, b"text", {}, 1, NOW),
        lambda: world.archive(path),
        lambda: world.unarchive(path),
    )
    for write in others:
        with pytest.raises(BadDocument if "versions" in path.split("/") else Missing):
            write()
    assert snapshot(tmp_path) == {}


def test_the_longest_names(world: World) -> None:
    path = "/" + "d" * 255 + "/" + "x" * 248 + ".md"
    assert world.publish(path, b"text", {}, 0, NOW).version == 1
    assert world.current(path).body == b"text"


def test_a_published_version_file_is_never_written_again(world: World, tmp_path: Path) -> None:
    """A PUBLISH aimed at the store's own files, which other servers are known to accept."""
    world.publish("/a.md", b"text", {}, None, NOW)
    before = snapshot(tmp_path)
    for path in ("/versions/a.md/v1", "/versions/a.md", "/versions/a.md/v1.md", "/versions/b.md"):
        with pytest.raises(BadDocument, match="reserved"):
            world.publish(path, b"evil", {}, None, NOW)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("position", ["directory", "document"])
def test_every_byte_value_in_names(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, position: str
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    paths = []
    for value in set(range(1, 256)) - {ord("/")}:
        name = bytes([value]).decode("utf-8", "surrogateescape") + "n"
        paths.append(f"/d{name}/a.md" if position == "directory" else f"/{name}.md")
    for path in paths:
        assert world.publish(path, b"# " + str(len(path)).encode(), {}, 0, NOW).version == 1
    fresh = reopen(tmp_path)
    assert fresh.paths() == world.paths()
    assert sorted(fresh.paths()) == sorted(paths) == sorted(fresh.catalog.paths())
    for path in paths:
        assert fresh.current(path) == world.current(path)
        parent = path.rpartition("/")[0] or "/"
        assert path.rpartition("/")[2] in [
            child.name for child in fresh.children(parent, everything, False)
        ] or path.startswith("/.")


def test_a_flat_file_is_replaced_unread(world: World, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("flat")
    assert world.publish("/a.md", b"flat", {}, 0, NOW).version == 1
    assert (tmp_path / "a.md").readlink() == Path("versions/a.md/v1")


def test_time_never_goes_backwards_within_a_document(world: World, tmp_path: Path) -> None:
    assert world.publish(PUMP, b"one", {}, None, NOW).modified == 1_790_000_000
    assert world.publish(PUMP, b"two", {}, None, 10.0).modified == 1_790_000_000
    assert world.append(PUMP, b"three", {}, 2, NOW - 1).modified == 1_790_000_000
    assert world.publish("/young.md", b"x", {}, None, 10.0).modified == 10
    assert [modified for _, modified in reopen(tmp_path).history(PUMP).versions] == [1_790_000_000] * 3


# APPEND.


@pytest.mark.parametrize(
    ("base", "added", "whole"),
    [
        (b"a\n", b"b", b"a\nb"),
        (b"a", b"b\n", b"a\nb\n"),
        (b"a\n\n", b"b", b"a\n\nb"),
        (b"a\r\n", b"b", b"a\r\nb"),
    ],
)
def test_the_line_end_between_base_and_addition(
    world: World, base: bytes, added: bytes, whole: bytes
) -> None:
    world.publish("/a.md", base, {}, 0, NOW)
    world.append("/a.md", added, {}, 1, NOW)
    assert world.current("/a.md").body == whole


def test_an_empty_base_gets_no_line_end(tmp_path: Path) -> None:
    put_document(tmp_path, "/a.md", plain(1, b""))
    world = reopen(tmp_path)
    world.append("/a.md", b"b", {}, 1, NOW)
    assert world.current("/a.md").body == b"b"


def test_an_append_merges_metadata_without_retention(world: World) -> None:
    world.publish("/a.md", b"a", {"title": "T", "tags": "x,y", "retention": "5", "type": "Note"}, 0, NOW)
    world.append("/a.md", b"b", {"tags": "z", "agent": "me"}, 1, NOW)
    assert world.current("/a.md").metadata == {"title": "T", "tags": "z", "agent": "me", "type": "Note"}


def test_an_append_types_the_untyped(world: World) -> None:
    world.publish("/a.md", b"a", {}, 0, NOW)
    world.publish("/index.md", b"a", {}, 0, NOW)
    world.append("/a.md", b"b", {}, 1, NOW)
    world.append("/index.md", b"b", {}, 1, NOW)
    assert world.current("/a.md").metadata == {"type": "Document"}
    assert world.current("/index.md").metadata == {}


def test_the_order_of_append_refusals(world: World) -> None:
    with pytest.raises(Missing):
        world.append("/a.md", b"b", {}, 1, NOW)
    world.publish("/a.md", b"x" * BODY_MAX, {"note": "x" * 1000}, 0, NOW)
    world.archive("/a.md")
    with pytest.raises(Conflict) as caught:
        world.append("/a.md", b"b", {"more": "y" * 100}, 2, NOW)
    assert caught.value.current == 1
    with pytest.raises(Archived):
        world.append("/a.md", b"b", {"more": "y" * 100}, 1, NOW)
    world.unarchive("/a.md")
    with pytest.raises(Fault, match="invalid publisher metadata: metadata too large"):
        world.append("/a.md", b"b", {"more": "y" * 100}, 1, NOW)
    with pytest.raises(TooLarge):
        world.append("/a.md", b"b", {}, 1, NOW)
    assert world.current("/a.md").version == 1


@pytest.mark.parametrize(("size", "fits"), [(BODY_MAX - 1, True), (BODY_MAX, True), (BODY_MAX + 1, False)])
def test_bodies_around_the_limit(world: World, tmp_path: Path, size: int, fits: bool) -> None:
    if fits:
        assert world.publish("/a.md", b"x" * size, {}, 0, NOW).created
        assert len(reopen(tmp_path).current("/a.md").body) == size
    else:
        with pytest.raises(TooLarge):
            world.publish("/a.md", b"x" * size, {}, 0, NOW)
        assert snapshot(tmp_path) == {}


# The archive state (store §4).


def test_archive_and_back(world: World, tmp_path: Path) -> None:
    world.publish("/a.md", b"# A\n", {}, 0, NOW)
    before = snapshot(tmp_path)
    assert world.unarchive("/a.md") == Outcome(1, 1_790_000_000, created=False)
    assert snapshot(tmp_path) == before
    assert world.archive("/a.md").version == 1
    assert world.current("/a.md").archived
    assert len(world.catalog) == 0
    assert snapshot(tmp_path) == before | {"versions/a.md/archive-state": b"true\n"}
    assert isinstance(world.prepare_archive("/a.md"), Unchanged)
    with pytest.raises(Missing):
        world.by_hash(world.current("/a.md").content_hash, everything)
    world.unarchive("/a.md")
    assert snapshot(tmp_path) == before | {"versions/a.md/archive-state": b"false\n"}
    assert not world.current("/a.md").archived
    assert world.by_hash(world.current("/a.md").content_hash, everything).path == "/a.md"
    assert [world.catalog.get(path) for path in world.catalog.paths()] == [
        reopen(tmp_path).catalog.get("/a.md")
    ]


def test_an_explicit_false_overrides_a_legacy_archived_line(tmp_path: Path) -> None:
    put_document(tmp_path, "/a.md", plain(1, b"text", archived=True))
    world = reopen(tmp_path)
    with pytest.raises(Archived):
        world.publish("/a.md", b"new", {}, 1, NOW)
    world.unarchive("/a.md")
    assert (folder_of(tmp_path, "/a.md") / "archive-state").read_bytes() == b"false\n"
    assert world.publish("/a.md", b"new", {}, 1, NOW).version == 2
    assert b"archived: false" in (folder_of(tmp_path, "/a.md") / "v2").read_bytes()


def test_a_malformed_sidecar_refuses_new_versions(tmp_path: Path) -> None:
    put_document(tmp_path, "/a.md", plain(1, b"text"))
    (folder_of(tmp_path, "/a.md") / "archive-state").write_bytes(b"maybe")
    world = reopen(tmp_path)
    before = snapshot(tmp_path)
    writes: tuple[Callable[[], object], ...] = (
        lambda: world.publish("/a.md", b"new", {}, 1, NOW),
        lambda: world.append("/a.md", b"new", {}, 1, NOW),
    )
    for write in writes:
        with pytest.raises(Damaged):
            write()
    assert snapshot(tmp_path) == before


def make_text(sidecar: Path) -> None:
    sidecar.write_bytes(b"maybe")


def make_link(sidecar: Path) -> None:
    sidecar.symlink_to("/etc/passwd")


@pytest.mark.parametrize("archived", [True, False])
@pytest.mark.parametrize("make", [make_text, make_link])
def test_a_malformed_sidecar_is_repaired_by_a_change_of_state(
    tmp_path: Path, archived: bool, make: Callable[[Path], None]
) -> None:
    put_document(tmp_path, "/a.md", plain(1, b"text"))
    sidecar = folder_of(tmp_path, "/a.md") / "archive-state"
    make(sidecar)
    world = reopen(tmp_path)
    with pytest.raises(Damaged):
        world.current("/a.md")
    assert (world.archive if archived else world.unarchive)("/a.md").version == 1
    assert sidecar.read_bytes() == (b"true\n" if archived else b"false\n")
    assert not sidecar.is_symlink()
    assert world.current("/a.md").archived == archived
    assert len(world.catalog) == (0 if archived else 1)
    assert len(world.children("/", everything, False)) == (0 if archived else 1)


def test_the_sidecar_of_a_document_that_is_gone_does_not_archive_its_successor(tmp_path: Path) -> None:
    put_version(tmp_path, "/a.md", 1, plain(1, b"text"))
    (folder_of(tmp_path, "/a.md") / "archive-state").write_bytes(b"true\n")
    world = reopen(tmp_path)
    assert world.publish("/a.md", b"new", {}, 0, NOW).version == 2
    assert not world.current("/a.md").archived


# Retention (store §6).


def publish_many(world: World, count: int, metadata: dict[str, str]) -> None:
    for number in range(1, count + 1):
        world.publish("/a.md", b"%d" % number, metadata, number - 1, NOW)


def numbers(world: World) -> list[int]:
    return [number for number, _ in world.history("/a.md").versions]


def test_retention_keeps_the_newest_and_applies_to_its_own_write_only(world: World) -> None:
    publish_many(world, 4, {})
    world.publish("/a.md", b"five", {"retention": "2"}, 4, NOW)
    assert numbers(world) == [5, 4]
    assert world.history("/a.md").chain_valid
    world.append("/a.md", b"six", {}, 5, NOW)
    world.publish("/a.md", b"seven", {}, 6, NOW)
    assert numbers(world) == [7, 6, 5, 4]
    world.publish("/a.md", b"eight", {"retention": "9"}, 7, NOW)
    assert numbers(world) == [8, 7, 6, 5, 4]
    world.publish("/a.md", b"nine", {"retention": "1"}, 8, NOW)
    assert numbers(world) == [9]
    with pytest.raises(Missing):
        world.version("/a.md", 8)


def test_what_was_pruned_is_told(world: World, tmp_path: Path) -> None:
    publish_many(world, 3, {})
    commit = world.prepare_publish("/a.md", b"four", {"retention": "2"}, 3, NOW)
    assert isinstance(commit, Commit)
    commit.show()
    assert numbers(world) == [4, 3, 2, 1]
    assert commit.settle() == Pruned(1, 2)
    commit = world.prepare_publish("/a.md", b"five", {"retention": "9"}, 4, NOW)
    assert isinstance(commit, Commit)
    commit.show()
    assert commit.settle() is None


def test_pruning_stops_at_the_first_failure(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_many(world, 4, {})
    real = os.unlink

    def unlink(path: str | bytes, *, dir_fd: int | None = None) -> None:
        if path == "v2":
            raise OSError(5, "Input/output error")
        real(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", unlink)
    commit = world.prepare_publish("/a.md", b"five", {"retention": "1"}, 4, NOW)
    assert isinstance(commit, Commit)
    commit.show()
    assert commit.settle() == Pruned(1, 1, "Input/output error")
    assert numbers(world) == [5, 4, 3, 2]


def test_pruning_removes_nothing_but_version_files(world: World, tmp_path: Path) -> None:
    publish_many(world, 2, {})
    folder = folder_of(tmp_path, "/a.md")
    victim = tmp_path / "victim"
    victim.write_text("victim")
    (folder / "v2").rename(folder / "kept")
    (folder / "v2").symlink_to(victim)
    (folder / "v1").unlink()
    (folder / "v1").mkdir()
    put_version(tmp_path, "/a.md", 3, plain(3, b"three"))
    world.publish("/a.md", b"four", {"retention": "1"}, 3, NOW)
    assert sorted(os.listdir(folder)) == ["kept", "v1", "v2", "v4"]
    assert victim.read_text() == "victim"


# The three steps.


def prepared(world: World, path: str, body: bytes, metadata: dict[str, str] | None = None) -> Commit:
    commit = world.prepare_publish(path, body, metadata or {}, None, NOW)
    assert isinstance(commit, Commit)
    return commit


def view(world: World, *paths: str) -> list[object]:
    """What a reader finds at the paths and in their directories."""
    seen: list[object] = [world.paths(), [world.catalog.get(path) for path in world.paths()]]
    for path in paths:
        for read in (
            world.current,
            world.history,
            lambda path: world.version(path, 1),
            lambda path: world.version(path, 2),
        ):
            try:
                seen.append(read(path))
            except WorldError as error:
                seen.append(repr(error))
        while path != "/":
            path = path.rpartition("/")[0] or "/"
            seen.append((world.is_directory(path), world.visible_directory(path, everything)))
            if world.is_directory(path):
                seen.append(world.children(path, everything, True))
    return seen


@pytest.mark.parametrize(
    "path", ["/a.md", "/new.md", "/d/e/new.md", "/d/new.md", "/flat.md", "/link.md", "/begun.md"]
)
def test_nothing_shows_before_show_and_all_at_once_after(tmp_path: Path, path: str) -> None:
    put_document(tmp_path, "/a.md", plain(1, b"old"))
    (tmp_path / "d").mkdir()
    (tmp_path / "flat.md").write_text("flat")
    (tmp_path / "link.md").symlink_to("flat.md")
    put_version(tmp_path, "/begun.md", 1, plain(1, b"begun"))
    world = reopen(tmp_path)
    before, disk = view(world, path), snapshot(tmp_path)
    commit = prepared(world, path, b"# New\n")
    assert view(world, path) == before
    commit.abandon()
    assert (view(world, path), snapshot(tmp_path)) == (before, disk)
    commit.abandon()
    commit = prepared(world, path, b"# New\n")
    assert view(world, path) == before
    commit.show()
    after = view(world, path)
    assert after == view(reopen(tmp_path), path)
    assert world.current(path) == commit.document
    assert (commit.version, commit.modified) == (commit.document.version, commit.document.modified)
    assert commit.settle() is None
    assert view(world, path) == after


def test_a_change_of_state_shows_at_once(tmp_path: Path) -> None:
    put_document(tmp_path, "/a.md", plain(1, b"old"))
    world = reopen(tmp_path)
    before, disk = view(world, "/a.md"), snapshot(tmp_path)
    commit = world.prepare_archive("/a.md")
    assert isinstance(commit, Commit)
    assert view(world, "/a.md") == before
    commit.abandon()
    assert (view(world, "/a.md"), snapshot(tmp_path)) == (before, disk)
    commit = world.prepare_archive("/a.md")
    assert isinstance(commit, Commit)
    commit.show()
    assert view(world, "/a.md") == view(reopen(tmp_path), "/a.md")
    commit.settle()
    commit = world.prepare_unarchive("/a.md")
    assert isinstance(commit, Commit)
    commit.show()
    commit.settle()
    assert view(world, "/a.md") == before


def test_a_failure_while_search_reads_the_text_takes_everything_back(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no parser today")

    monkeypatch.setattr("app.world.searches.entry_of", fail)
    with pytest.raises(RuntimeError):
        world.publish("/d/a.md", b"text", {}, 0, NOW)
    assert snapshot(tmp_path) == {}


# Other processes, and disks that refuse.


def racing(number: int, root: Path, then: Callable[[], None] = lambda: None) -> Callable[..., None]:
    """`os.link`, with another process creating that version of /a.md just before we do."""
    real = os.link

    def linked(source: bytes, name: bytes, **options: Any) -> None:
        if name == b"v%d" % number:
            put_version(root, "/a.md", number, plain(number, b"theirs"))
            then()
        real(source, name, **options)

    return linked


@pytest.mark.parametrize("expected", [None, 1])
def test_a_lost_race_for_a_number(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: int | None
) -> None:
    world.publish("/a.md", b"one", {}, 0, NOW)
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", racing(2, tmp_path))
        with pytest.raises(LostRace if expected is None else Conflict) as caught:
            world.publish("/a.md", b"ours", {}, expected, NOW)
    assert expected is None or (isinstance(caught.value, Conflict) and caught.value.current == 2)
    assert (folder_of(tmp_path, "/a.md") / "v2").read_bytes() == plain(2, b"theirs")
    assert sorted(os.listdir(tmp_path)) == ["a.md", "versions"]
    assert sorted(os.listdir(folder_of(tmp_path, "/a.md"))) == ["v1", "v2"]
    assert world.publish("/a.md", b"ours", {}, 2, NOW).version == 3


@pytest.mark.parametrize("expected", [None, 1])
@pytest.mark.parametrize("now", [NOW, NOW + 1.5, NOW - 1.5])
def test_a_version_that_another_process_is_writing_is_left_alone(
    tmp_path: Path, expected: int | None, now: float
) -> None:
    put_document(tmp_path, "/a.md", plain(1, b"one"))
    os.utime(put_version(tmp_path, "/a.md", 2, b""), (NOW, NOW))
    world = reopen(tmp_path)
    before = snapshot(tmp_path)
    assert world.current("/a.md").version == 1
    with pytest.raises(LostRace if expected is None else Conflict) as caught:
        world.publish("/a.md", b"ours", {}, expected, now)
    assert expected is None or (isinstance(caught.value, Conflict) and caught.value.current == 2)
    assert snapshot(tmp_path) == before
    assert world.publish("/a.md", b"ours", {}, expected, NOW + 3).version == 3


@pytest.mark.parametrize("code", [30, 13, 1])
def test_a_root_that_may_not_be_written(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(ReadOnly):
        world.publish("/a.md", b"ours", {}, 0, NOW)
    assert snapshot(tmp_path) == {}


def test_a_world_opened_for_reading(tmp_path: Path) -> None:
    put_document(tmp_path, "/a.md", plain(1, b"old"))
    world = reopen(tmp_path, read_only=True)
    assert world.current("/a.md").body == b"old"
    before = snapshot(tmp_path)
    writes: tuple[Callable[[], object], ...] = (
        lambda: world.publish("/a.md", b"new", {}, None, NOW),
        lambda: world.append("/a.md", b"new", {}, 1, NOW),
        lambda: world.archive("/a.md"),
        lambda: world.unarchive("/a.md"),
    )
    for write in writes:
        with pytest.raises(ReadOnly):
            write()
    assert snapshot(tmp_path) == before


def test_numbers_can_be_used_up(tmp_path: Path) -> None:
    put_version(tmp_path, "/a.md", 2**31 - 1, plain(2**31 - 1, b"last"))
    (tmp_path / "a.md").symlink_to(f"versions/a.md/v{2**31 - 1}")
    world = reopen(tmp_path)
    assert world.current("/a.md").version == 2**31 - 1
    with pytest.raises(DiskFailure, match="used up"):
        world.publish("/a.md", b"new", {}, None, NOW)
