"""Every system call of a write fails once, kills the process once, and is the last before a power cut once.

Afterwards the world holds the old state or the new one, whole; a write that was answered is there; nothing temporary
is left once the next write is done; and that write succeeds.
"""

import errno
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from app.world.errors import Missing, NotSynced, WorldError
from app.world.verify import verify
from app.world.world import World
from tests.faults.store_disk import CHANGING, Died, Disk
from tests.unit.world.roots import close_all, everything, plain, put_document, put_version, reopen, snapshot

OLD = b"# Old\n"
NEW = b"# New\n"
PATH = "/d/a.md"
State = tuple[int, bytes, bool] | None
Action = Callable[[World], object]


def prepare_empty(root: Path) -> None:
    root.mkdir()


def prepare_old(root: Path) -> None:
    put_document(root, PATH, plain(1, OLD))


def prepare_archived(root: Path) -> None:
    prepare_old(root)
    (root / "d" / "versions" / "a.md" / "archive-state").write_bytes(b"true\n")


def prepare_torn(root: Path) -> None:
    prepare_old(root)
    put_version(root, PATH, 2, b"")


def prepare_leftovers(root: Path) -> None:
    prepare_old(root)
    (root / "d" / "a.md.tmp").symlink_to("versions/a.md/v2")
    folder = root / "d" / "versions" / "a.md"
    (folder / ".archive-state-1").write_bytes(b"t")
    (folder / ".version-1").write_bytes(b"v")
    (folder / ".pointer-1").symlink_to("versions/a.md/v2")


def publish(world: World) -> object:
    return world.publish(PATH, NEW, {"title": "T"}, None, 2e9)


def publish_pruning(world: World) -> object:
    return world.publish(PATH, NEW, {"retention": "1"}, 1, 2e9)


def append(world: World) -> object:
    return world.append(PATH, b"more\n", {}, 1, 2e9)


def archive(world: World) -> object:
    return world.archive(PATH)


def unarchive(world: World) -> object:
    return world.unarchive(PATH)


SCENES: dict[str, tuple[Callable[[Path], None], Action]] = {
    "create": (prepare_empty, publish),
    "replace": (prepare_old, publish),
    "replace pruning": (prepare_old, publish_pruning),
    "append": (prepare_old, append),
    "replace torn": (prepare_torn, publish),
    "replace among leftovers": (prepare_leftovers, publish),
    "archive": (prepare_old, archive),
    "archive among leftovers": (prepare_leftovers, archive),
    "unarchive": (prepare_archived, unarchive),
}


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk(monkeypatch)
    yield disk
    disk.disarm()
    close_all()


def state(world: World) -> State:
    try:
        document = world.current(PATH)
    except Missing:
        return None
    return document.version, document.body, document.archived


def answers(world: World) -> list[object]:
    """What the world says of everything the scenes touch."""
    found: list[object] = [state(world), world.paths(), [world.catalog.get(path) for path in world.paths()]]
    for directory in ("/", "/d"):
        if world.is_directory(directory):
            found += [world.children(directory, everything, archived) for archived in (False, True)]
        found.append(world.visible_directory(directory, everything))
    if found[0] is not None:
        history = world.history(PATH)
        assert history.chain_valid
        found.append(history)
    return found


def temporary(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.endswith(".tmp") or "/." in name]


def check_usable(root: Path, disk: Disk) -> None:
    """A fresh start, and the next writes, work and clear up."""
    world = reopen(root)
    held = state(world)
    if held is not None and held[2]:
        world.unarchive(PATH)
    world.publish(PATH, b"# Next\n", {}, held[0] if held else 0, 2e9)
    world.archive(PATH)
    world.unarchive(PATH)
    assert world.current(PATH).body == b"# Next\n"
    assert temporary(snapshot(root)) == []
    assert list(verify(str(root))) == []
    assert answers(world) == answers(reopen(root))
    close_all()


def rehearsed(scene: str, tmp_path: Path, disk: Disk) -> tuple[list[str], State, State]:
    """The calls of the action when nothing goes wrong, and the states before and after it."""
    prepare, action = SCENES[scene]
    root = tmp_path / "rehearsal"
    prepare(root)
    world = reopen(root)
    before = state(world)
    disk.armed = True
    action(world)
    disk.disarm()
    after = state(world)
    assert before != after
    close_all()
    return disk.calls, before, after


def changes(call: str) -> bool:
    return call.split()[0] in CHANGING


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_every_call_fails_once(scene: str, code: int, tmp_path: Path, disk: Disk) -> None:
    prepare, action = SCENES[scene]
    calls, before, after = rehearsed(scene, tmp_path, disk)
    for at, call in enumerate(calls):
        if call.startswith("release ") or (code == errno.EIO and not changes(call)):
            continue  # a file that gives EIO when read is torn, which is another matter
        root = tmp_path / f"{at}"
        prepare(root)
        on_disk = snapshot(root)
        world = reopen(root)
        disk.calls, disk.fail_at, disk.code, disk.armed = [], at, code, True
        try:
            action(world)
            failed: WorldError | None = None
        except WorldError as error:
            failed = error
        disk.disarm()
        shown = failed is None or isinstance(failed, NotSynced)
        assert state(world) == (after if shown else before), call
        assert answers(world) == answers(reopen(root)), call
        if not shown:
            undone = {name.removesuffix(".torn"): held for name, held in snapshot(root).items()}
            assert undone.items() <= on_disk.items(), call
            assert set(on_disk) - set(undone) <= set(temporary(on_disk)), call
        check_usable(root, disk)


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("lost", ["nothing", "data", "entries"])
def test_the_process_dies_at_every_call(scene: str, lost: str, tmp_path: Path, disk: Disk) -> None:
    """`lost` is what a power cut takes with it; the last round is a power cut after the answer."""
    prepare, action = SCENES[scene]
    calls, before, after = rehearsed(scene, tmp_path, disk)
    seen = set()
    for at in [at for at, call in enumerate(calls) if changes(call)] + [len(calls)]:
        root = tmp_path / f"{at}"
        prepare(root)
        world = reopen(root)
        disk.calls, disk.die_at, disk.armed = [], at, True
        try:
            action(world)
            answered = True
        except Died:
            answered = False
        disk.disarm()
        {"nothing": lambda: None, "data": disk.lose_data, "entries": disk.lose_entries}[lost]()
        disk.forget()
        close_all()
        found = state(reopen(root))
        assert (found is None) == (before is None and not same(found, after))
        assert same(found, after) if answered else same(found, before) or same(found, after), (at, calls[:at])
        seen.add(found and found[1:])
        check_usable(root, disk)
        shutil.rmtree(root)
    assert {before and before[1:], after and after[1:]} <= seen


def same(found: State, wanted: State) -> bool:
    """Equal but for the number, which a version that never became current may have raised (store §5.4)."""
    return found == wanted or (found is not None and wanted is not None and found[1:] == wanted[1:])
