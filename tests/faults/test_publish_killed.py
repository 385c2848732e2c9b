"""`publish` is killed at every call that changes the folder, while a world is being served from it.

Whatever it left, the next reload of that world finds the old state or the new one, whole, and what a fresh start would
find; and the next `publish` succeeds and is followed.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.commands.publish import write
from app.search.query import parse_query
from app.world import writing
from app.world.world import World
from tests.faults.store_disk import CHANGING, Died, Disk
from tests.unit.world.roots import Lines, close_all, everything, folder_of, plain, put_document, reopen

ALL = parse_query("/", {"query": "*", "limit": "1000"})
PATH = "/d/a.md"
OTHER = "/d/other.md"


def old(root: Path) -> None:
    put_document(root, OTHER, plain(1, b"# Other\n"))
    put_document(root, PATH, plain(1, b"# Old\n"))


def new(root: Path) -> None:
    put_document(root, OTHER, plain(1, b"# Other\n"))


def new_directory(root: Path) -> None:
    put_document(root, "/other.md", plain(1, b"# Other\n"))


def leftovers(root: Path) -> None:
    old(root)
    (root / "d" / "a.md.tmp").symlink_to("versions/a.md/v2")
    (folder_of(root, PATH) / ".archive-state-1").write_bytes(b"t")


SCENES: dict[str, Callable[[Path], None]] = {
    "replace": old,
    "create": new,
    "create with directories": new_directory,
    "replace among leftovers": leftovers,
}


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    # A torn version that is seconds old may be another's that is being written; here its writer is dead for sure.
    monkeypatch.setattr(writing, "SETTLING", 0.0)
    disk = Disk(monkeypatch)
    yield disk
    disk.disarm()
    close_all()


def publish(root: Path, body: bytes) -> None:
    write(str(root), PATH, body, lambda _: {"title": body.decode().strip("# \n")})


def told(world: World) -> list[object]:
    """What LOOKUP, LIST and hash FETCH answer from."""
    indexes = world._held.indexes
    return [
        world.catalog.lookup(ALL, everything),
        dict(indexes.tree.below("/")),
        dict(indexes.hashes._digests),
        set(indexes.unread),
        world.children("/", everything, include_archived=False),
    ]


def fresh(root: Path) -> list[object]:
    world = World.open(str(root), log=Lines())
    try:
        return told(world)
    finally:
        world.close()


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("whole", [True, False])
def test_killed_at_every_step(scene: str, whole: bool, tmp_path: Path, disk: Disk) -> None:
    rehearsal = tmp_path / "rehearsal"
    SCENES[scene](rehearsal)
    disk.armed = True
    publish(rehearsal, b"# New\n")
    disk.disarm()
    steps = [at for at, call in enumerate(disk.calls) if call.split()[0] in CHANGING] + [len(disk.calls)]
    assert len(steps) > 6
    seen = set()
    for at in steps:
        root = tmp_path / f"{at}"
        SCENES[scene](root)
        world = reopen(root, now=lambda: time.time() + 1000)
        before = world.catalog.get(PATH)
        disk.calls, disk.die_at, disk.armed = [], at, True
        try:
            publish(root, b"# New\n")
        except Died:
            pass
        disk.disarm()
        disk.forget()
        world.refresh_now(("/",) if whole else (PATH,))
        assert told(world) == fresh(root), at
        entry = world.catalog.get(PATH)
        seen.add(entry and entry.title)
        if entry is not None:
            assert entry.title in {"New", before and before.title}
            assert world.current(PATH).body in {b"# New\n", b"# Old\n"}
        publish(root, b"# Next\n")
        assert world.refresh_now((PATH,)).documents == 1
        entry = world.catalog.get(PATH)
        assert entry is not None
        assert entry.title == "Next"
        assert told(world) == fresh(root), at
        close_all()
    assert seen == {"New", None if before is None else "Old"}
