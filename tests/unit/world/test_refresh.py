"""Reloading: the indexes follow what other programs write, and end as a fresh start would have them."""

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.commands.publish import write
from app.search.query import parse_query
from app.world import refresh
from app.world.disk import Names
from app.world.documents import Document, Documents
from app.world.errors import BadRoot, IndexIncomplete, Missing
from app.world.refresh import Changes, Emptied
from app.world.shelf import Shelf
from app.world.walk import Found
from app.world.world import Commit, World
from tests.unit.world.roots import (
    Lines,
    everything,
    folder_of,
    plain,
    point,
    put_document,
    put_version,
    reopen,
)

ALL = parse_query("/", {"query": "*", "limit": "1000"})


def opened(root: Path, log: Lines | None = None) -> World:
    """A world as the server opens it, the files of the test old enough to be trusted."""
    return reopen(root, log=log, now=lambda: time.time() + 1000)


def derived(world: World) -> dict[str, object]:
    """All that the indexes say."""
    indexes = world._held.indexes
    hashes = indexes.hashes
    return {
        "entries": {path: indexes.searches.catalog.get(path) for path in indexes.searches.catalog.paths()},
        "rows": indexes.searches.catalog.lookup(ALL, everything),
        "digests": dict(hashes._digests),
        "by hash": {digest: list(hashes.paths("sha256-" + digest.hex())) for digest in hashes._paths},
        "tree": dict(indexes.tree.below("/")),
        "unread": set(indexes.unread),
        "content": {path: stamp.content for path, stamp in indexes.stamps.items()},
        "bytes": indexes.body_bytes,
    }


def check(world: World, root: Path) -> None:
    fresh = World.open(os.fspath(root), log=Lines())
    try:
        assert derived(world) == derived(fresh)
    finally:
        fresh.close()


def grow(root: Path, count: int, body: bytes = b"# Document %d\n") -> None:
    for number in range(count):
        put_document(root, f"/d{number % 3}/{number}.md", plain(1, body % number))


def archive(root: Path, path: str, state: bytes = b"true\n") -> None:
    (folder_of(root, path) / "archive-state").write_bytes(state)


def remove(root: Path, path: str) -> None:
    (root / path[1:]).unlink()
    shutil.rmtree(folder_of(root, path))


def replace_quietly(root: Path, path: str) -> None:
    """Another text of the same size and time, renamed over the old."""
    file = folder_of(root, path) / "v1"
    times = file.stat()
    fresh = file.with_name("new")
    fresh.write_bytes(file.read_bytes().replace(b"Document", b"Tnemucod"))
    os.utime(fresh, ns=(times.st_atime_ns, times.st_mtime_ns))
    fresh.rename(file)


CASES: dict[str, tuple[Callable[[Path], object], dict[str, int]]] = {
    "nothing": (lambda root: None, {}),
    "added": (lambda root: put_document(root, "/new/a.md", plain(1, b"# New\n")), {"added": 1}),
    "replaced": (lambda root: write(os.fspath(root), "/d0/0.md", b"# More\n", lambda _: {}), {"replaced": 1}),
    "replaced quietly": (lambda root: replace_quietly(root, "/d1/1.md"), {"replaced": 1}),
    "touched": (lambda root: os.utime(folder_of(root, "/d0/0.md") / "v1", (1e9, 1e9)), {"replaced": 1}),
    "archived": (lambda root: archive(root, "/d0/3.md"), {"archived": 1}),
    "unarchived": (lambda root: archive(root, "/d2/old.md", b"false\n"), {"unarchived": 1}),
    "gone": (lambda root: remove(root, "/d0/0.md"), {"gone": 1}),
    "pointer gone": (lambda root: (root / "d0" / "0.md").unlink(), {"gone": 1}),
    "directory gone": (lambda root: shutil.rmtree(root / "d0"), {"gone": 4}),
    "directory renamed": (lambda root: (root / "d0").rename(root / "e0"), {"added": 4, "gone": 4}),
    "damaged": (lambda root: archive(root, "/d0/0.md", b"perhaps\n"), {"gone": 1}),
    "half a version": (lambda root: put_version(root, "/d0/0.md", 2, b"---\nversion: 2\n"), {}),
    "a whole version, not pointed at": (
        lambda root: put_version(root, "/d0/0.md", 2, plain(2, b"# Two\n")),
        {"replaced": 1},
    ),
    "a write on its way": (
        lambda root: (root / "d0" / "0.md.tmp").symlink_to("versions/0.md/v2"),
        {},
    ),
}


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_every_change_is_followed(tmp_path: Path, name: str, whole: bool) -> None:
    grow(tmp_path, 10)
    put_document(tmp_path, "/d2/old.md", plain(1, b"# Old\n"))
    archive(tmp_path, "/d2/old.md")
    log = Lines()
    world = opened(tmp_path, log)
    change, counts = CASES[name]
    change(tmp_path)
    scope = ("/",) if whole else ("/d0/", "/d1/1.md", "/d2/old.md", "/new/", "/e0/", "/none/", "/none.md")
    changes = world.refresh_now(scope)
    assert changes == Changes(**counts, read=changes.read)
    check(world, tmp_path)
    assert world.refresh_now().documents == 0
    assert [line for line in log.warnings() if line[0] == "hash index skipped entry"][1:] == []


def test_what_is_as_it_was_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(tmp_path, 10)
    world = opened(tmp_path)
    write(os.fspath(tmp_path), "/d0/0.md", b"# More\n", lambda _: {})
    read: list[str] = []
    real = Documents.read

    def noting(self: Documents, parent: int, names: Names, path: str) -> tuple[Document, Shelf]:
        read.append(path)
        return real(self, parent, names, path)

    monkeypatch.setattr(Documents, "read", noting)
    assert world.refresh_now() == Changes(replaced=1, read=7)
    assert read == ["/d0/0.md"]
    del read[:]
    assert world.refresh_now() == Changes()
    assert read == []


def test_our_own_writes_are_nothing_new(tmp_path: Path) -> None:
    grow(tmp_path, 3)
    world = opened(tmp_path)
    world.publish("/d0/0.md", b"# Mine\n", {}, 1, time.time())
    world.archive("/d1/1.md")
    assert world.refresh_now().documents == 0
    check(world, tmp_path)


@pytest.mark.parametrize("count", [refresh.AT_ONCE - 1, refresh.AT_ONCE + 10])
def test_few_changes_and_many_come_to_the_same(tmp_path: Path, count: int) -> None:
    grow(tmp_path, 100)
    world = opened(tmp_path)
    before = world._held.indexes
    for number in range(count):
        replace_quietly(tmp_path, f"/d{number % 3}/{number}.md")
    with world.refresh() as running:
        running.survey()
        assert world._held.indexes is before
        running.catch_up()
        changes = running.apply()
        assert running.built is (count > refresh.AT_ONCE)
    assert (changes.replaced, changes.documents) == (count, count)
    check(world, tmp_path)
    assert world.refresh_now() == Changes()


def test_large_texts_count_as_many_changes(tmp_path: Path) -> None:
    grow(tmp_path, 8)
    world = opened(tmp_path)
    for number in range(5):
        put_document(tmp_path, f"/big/{number}.md", plain(1, b"x\n" * 500_000))
    with world.refresh() as running:
        running.survey()
        assert running.built
        running.catch_up()
        assert running.apply().added == 5
    check(world, tmp_path)


@pytest.mark.parametrize("many", [False, True])
def test_what_is_written_by_us_meanwhile_is_neither_lost_nor_undone(tmp_path: Path, many: bool) -> None:
    grow(tmp_path, 100)
    world = opened(tmp_path)
    for number in range(80 if many else 5):
        replace_quietly(tmp_path, f"/d{number % 3}/{number}.md")
    with world.refresh() as running:
        running.survey()
        world.publish("/d0/0.md", b"# Both\n", {}, 1, time.time())
        world.publish("/new/a.md", b"# New\n", {}, 0, time.time())
        world.archive("/d1/1.md")
        world.archive("/d2/2.md")
        world.unarchive("/d2/2.md")
        commit = world.prepare_publish("/d0/3.md", b"# Later\n", {}, 1, time.time())
        running.catch_up()
        running.apply()
        assert world.catalog.get("/new/a.md") is not None
        assert world.catalog.get("/d1/1.md") is None
    assert isinstance(commit, Commit)
    commit.show()
    commit.settle()
    check(world, tmp_path)
    assert world.refresh_now().documents == 0


def test_a_root_that_is_suddenly_empty_or_unreadable_keeps_what_was_known(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for many in (3, 100):
        grow(root, many)
        world = opened(root)
        held = derived(world)
        aside = tmp_path / f"aside{many}"
        aside.mkdir()
        for entry in list(root.iterdir()):
            entry.rename(aside / entry.name)
        with pytest.raises(Emptied):
            world.refresh_now()
        with pytest.raises(Emptied):
            world.refresh_now(("/d0/", "/d1/", "/d2/"))
        assert derived(world) == held
        root.rmdir()
        with pytest.raises(BadRoot):
            world.refresh_now()
        with pytest.raises(BadRoot):
            world.is_at(os.fspath(root))
        assert derived(world) == held
        aside.rename(root)
        assert not world.is_at(os.fspath(root))
        other, changes = world.successor(os.fspath(root))
        assert changes.documents == 0
        assert derived(other) == held
        other.close()


def test_a_directory_that_cannot_be_read_keeps_what_was_known_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(tmp_path, 9)
    world = opened(tmp_path)
    rows = world.catalog.lookup(ALL, everything)
    real = type(world._root).open_directory

    def refuse(self: object, names: tuple[bytes, ...]) -> int:
        if names == (b"d0",):
            raise PermissionError(13, "Permission denied")
        return real(self, names)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(type(world._root), "open_directory", refuse)
        assert world.refresh_now() == Changes()
        with pytest.raises(IndexIncomplete):
            world.by_hash("sha256-" + "0" * 64, everything)
    assert world.catalog.lookup(ALL, everything) == rows
    assert world.refresh_now() == Changes()
    with pytest.raises(Missing):
        world.by_hash("sha256-" + "0" * 64, everything)


def test_a_link_may_lead_to_another_root(tmp_path: Path) -> None:
    grow(tmp_path / "rel1", 6)
    grow(tmp_path / "rel2", 5)
    replace_quietly(tmp_path / "rel2", "/d0/0.md")
    current = tmp_path / "current"
    current.symlink_to("rel1")
    world = opened(current)
    assert world.is_at(os.fspath(current))
    current.unlink()
    current.symlink_to("rel2")
    assert not world.is_at(os.fspath(current))
    other, changes = world.successor(os.fspath(current))
    assert (changes.replaced, changes.gone, changes.added) == (1, 1, 0)
    check(other, tmp_path / "rel2")
    other.close()
    shutil.rmtree(tmp_path / "rel2")
    (tmp_path / "rel2").mkdir()
    with pytest.raises(Emptied):
        world.successor(os.fspath(current))


def test_a_world_that_was_replaced_is_closed_with_its_last_use(tmp_path: Path) -> None:
    grow(tmp_path, 1)
    world = World.open(os.fspath(tmp_path), log=Lines())
    fd = world._root.fd
    os.fstat(fd)
    del world
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_an_entry_that_cannot_be_taken_in_is_told_once(tmp_path: Path) -> None:
    grow(tmp_path, 3)
    (tmp_path / "odd.md").symlink_to("nowhere")
    log = Lines()
    world = opened(tmp_path, log)
    assert len(log.warnings()) == 1
    for _ in range(3):
        world.refresh_now()
    assert len(log.warnings()) == 1
    (tmp_path / "odder.md").symlink_to("nowhere")
    world.refresh_now()
    world.refresh_now()
    assert [fields["path"] for _, fields in log.warnings()] == ["/odd.md", "/odder.md"]


def test_a_document_that_is_mended_is_no_longer_missed(tmp_path: Path) -> None:
    grow(tmp_path, 3)
    archive(tmp_path, "/d0/0.md", b"perhaps\n")
    for scope in (("/",), ("/d0/0.md",), ("/d0/",)):
        world = opened(tmp_path)
        assert world._held.indexes.unread == {"/d0/0.md": None}
        archive(tmp_path, "/d0/0.md", b"false\n")
        assert world.refresh_now(scope).added == 1
        assert world._held.indexes.unread == {}
        archive(tmp_path, "/d0/0.md", b"perhaps\n")
        assert world.refresh_now(scope).gone == 1
        assert world._held.indexes.unread == {"/d0/0.md": None}


def test_a_document_behind_a_link_to_its_directory_is_the_document(tmp_path: Path) -> None:
    grow(tmp_path, 3)
    (tmp_path / "link").symlink_to("d0")
    world = opened(tmp_path)
    write(os.fspath(tmp_path), "/link/0.md", b"# More\n", lambda _: {})
    assert world.followed("/link/0.md") is None
    assert world.refresh_now(("/link/0.md",)).replaced == 1
    assert world.followed("/link/0.md") == world.followed("/d0/0.md") == 2
    assert world.refresh_now(("/d0/versions/0.md", "/versions/", "/../x.md")).documents == 0
    check(world, tmp_path)


@pytest.mark.parametrize("seed", range(6))
def test_any_run_of_changes_ends_as_a_fresh_start(tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    grow(tmp_path, 20)
    world = opened(tmp_path)
    root = os.fspath(tmp_path)
    for _ in range(12):
        for _ in range(chosen.choice([1, 3, 30])):
            path = f"/d{chosen.randrange(4)}/{chosen.randrange(40)}.md"
            there = os.path.lexists(tmp_path / path[1:])
            match chosen.randrange(6):
                case 0 | 1:
                    if not there or not (folder_of(tmp_path, path) / "archive-state").exists():
                        write(root, path, chosen.randbytes(4).hex().encode(), lambda _: {"title": "T"})
                case 2 if there:
                    remove(tmp_path, path)
                case 3 if there:
                    archive(tmp_path, path, chosen.choice([b"true\n", b"false\n", b"odd\n"]))
                case 4 if there:
                    point(tmp_path, path, 1)
                case 5:
                    mine = f"/d5/{chosen.randrange(5)}.md"
                    world.publish(mine, chosen.randbytes(4).hex().encode(), {}, None, time.time())
        scope = ("/",) if chosen.random() < 0.5 else tuple(f"/d{number}/" for number in range(6))
        world.refresh_now(scope)
        check(world, tmp_path)


@pytest.mark.parametrize("there", [True, False])
def test_the_last_of_two_looks_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    grow(tmp_path, 6)
    (tmp_path / "link").symlink_to("d0")
    world = opened(tmp_path)
    replace_quietly(tmp_path, "/d0/0.md")
    pointer, aside = tmp_path / "d0" / "0.md", tmp_path / "aside"
    pointer.rename(aside)
    places = [(aside, pointer), (pointer, aside)]
    real = refresh.Refresh._compare_one

    def between(self: refresh.Refresh, path: str) -> None:
        if path == "/link/0.md" or not there:
            source, target = places.pop(0)
            source.rename(target)
        real(self, path)

    monkeypatch.setattr(refresh.Refresh, "_compare_one", between)
    changes = world.refresh_now(("/d0/0.md", "/link/0.md"))
    assert changes.documents == 1
    assert (changes.replaced, changes.gone) == ((1, 0) if there else (0, 1))
    aside.unlink(missing_ok=True)
    check(world, tmp_path)


def test_what_a_directory_covers_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(tmp_path, 6)
    world = opened(tmp_path)
    looks: list[str] = []
    monkeypatch.setattr(refresh.Refresh, "_compare_one", lambda self, path: looks.append(path))
    monkeypatch.setattr(refresh.Refresh, "_compare_below", lambda self, top: looks.append(top))
    world.refresh_now(("/d0/", "/d0/0.md", "/d0/deep/", "/d1/1.md", "/d0", "/d/"))
    assert looks == ["/d/", "/d0", "/d0/", "/d1/1.md"]


def test_a_walk_says_what_it_read(tmp_path: Path) -> None:
    from app.world.walk import Same, walk

    grow(tmp_path, 4)
    world = opened(tmp_path)
    items = list(
        walk(world._root, world._documents, world._now, known=world._held.indexes.stamps, migrated=True)
    )
    assert {type(item) for item in items} == {Same}
    items = list(walk(world._root, world._documents, world._now, known={}, migrated=True))
    assert {type(item) for item in items} == {Found}
