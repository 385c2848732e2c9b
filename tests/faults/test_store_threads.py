"""Reading while a writer's thread is at work: what is read is the state before a write or the state after it."""

import os
import queue
import threading
from pathlib import Path

import pytest

from app.world.errors import Missing
from app.world.world import Commit, World
from tests.unit.world.roots import close_all, everything, reopen

ROUNDS = 40


class Writer(threading.Thread):
    """Prepares a version of /a.md and of a new document below a new directory each round, and settles what was shown."""

    def __init__(self, world: World) -> None:
        super().__init__(daemon=True)
        self.world = world
        self.prepared: queue.Queue[Commit | BaseException] = queue.Queue()
        self.shown: queue.Queue[bool] = queue.Queue()

    def run(self) -> None:
        try:
            for number in range(2, ROUNDS + 2):
                for path, expected in (("/a.md", number - 1), (f"/d{number}/e/b.md", 0)):
                    for keep in (False, True):
                        commit = self.world.prepare_publish(
                            path, b"# %d\n" % number, {"retention": "5"}, expected, number
                        )
                        assert isinstance(commit, Commit)
                        if not keep:
                            commit.abandon()
                            continue
                        self.prepared.put(commit)
                        self.shown.get(timeout=30)
                        commit.settle()
        except BaseException as error:
            self.prepared.put(error)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    world = reopen(tmp_path)
    world.publish("/a.md", b"# 1\n", {}, 0, 1)
    return world


def check(world: World, version: int, made: int) -> None:
    """The world as of these versions, and nothing of the next."""
    current = world.current("/a.md")
    assert (current.version, current.body, current.modified) == (version, b"# %d\n" % version, version)
    assert world.version("/a.md", version) == (current, version)
    for later in (version + 1, version + 2):
        with pytest.raises(Missing):
            world.version("/a.md", later)
    assert world.by_hash(current.content_hash, everything).version in {1, version}
    history = world.history("/a.md")
    assert (history.current, history.versions[0][0], history.chain_valid) == (version, version, True)
    with pytest.raises(Missing):
        world.current(f"/d{made + 1}/e/b.md")
    for directory in (f"/d{made + 1}", f"/d{made + 1}/e"):
        assert not world.is_directory(directory)
        assert not world.visible_directory(directory, everything)
    assert len(world.children("/", everything, False)) == made


def test_a_reader_never_sees_half_a_write(world: World) -> None:
    writer = Writer(world)
    writer.start()
    version = made = 1
    reads = 0
    while made <= ROUNDS:
        try:
            item = writer.prepared.get_nowait()
        except queue.Empty:
            check(world, version, made)
            reads += 1
            continue
        if isinstance(item, BaseException):
            raise item
        check(world, version, made)
        item.show()
        if item.document.path == "/a.md":
            version = item.version
        else:
            made += 1
        check(world, version, made)
        writer.shown.put(True)
    writer.join(30)
    assert reads > 0
    close_all()


def test_documents_may_be_read_from_any_thread(world: World) -> None:
    writer = Writer(world)
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        last = 0
        while not stop.is_set():
            try:
                current, history = world.current("/a.md"), world.history("/a.md")
                if (
                    current.body != b"# %d\n" % current.version
                    or not last <= current.version <= history.current
                ):
                    wrong.append((last, current, history))
                if not history.chain_valid:
                    wrong.append(history)
                last = history.current
            except Exception as error:
                wrong.append(error)

    readers = [threading.Thread(target=read, daemon=True) for _ in range(2)]
    for thread in (writer, *readers):
        thread.start()
    for _ in range(2 * ROUNDS):
        item = writer.prepared.get(timeout=30)
        if isinstance(item, BaseException):
            raise item
        item.show()
        writer.shown.put(True)
    stop.set()
    for thread in (writer, *readers):
        thread.join(30)
    assert wrong == []
    close_all()
