"""Writing: bytes and modes on disk, the order of refusals, and what a refused write leaves (wire §5.4, §5.5; store §4 to §6)."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.protocol.limits import BODY_MAX
from app.world.errors import (
    Archived,
    BadDocument,
    Conflict,
    DiskFailure,
    LostRace,
    Missing,
    PathCollision,
    ReadOnly,
    TooLarge,
    WorldError,
)
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
