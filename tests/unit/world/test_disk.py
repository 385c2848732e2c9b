"""Nothing outside the root is ever read, listed or written (store §2; every link here leads outside or through)."""

import os
from pathlib import Path

import pytest

from app.world.disk import names_of, path_of
from app.world.errors import BadDocument, BadRoot, Conflict, Escapes, Missing, PathCollision
from app.world.world import World
from tests.unit.world.roots import PUMP_1, everything, folder_of, plain, put_document, reopen, snapshot


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A second world beside the root, with a document, a secret file and a version."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_bytes(plain(1, b"secret"))
    put_document(outside, "/doc.md", plain(1, b"secret"))
    return outside


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    put_document(root, "/a.md", plain(1, b"mine"))
    return root


def assert_hidden(world: World, path: str, parent: str = "/") -> None:
    """No read gives anything at the path, and its directory does not list it."""
    with pytest.raises(Missing):
        world.current(path)
    with pytest.raises(Missing):
        world.version(path, 1)
    with pytest.raises(Missing):
        world.history(path)
    assert path not in set(world.catalog.paths())
    if world.is_directory(parent):
        assert path.rpartition("/")[2] not in [
            child.name for child in world.children(parent, everything, True)
        ]


def test_a_pointer_to_a_file_outside(root: Path, outside: Path) -> None:
    put_document(root, "/x.md", plain(1, b"x"))
    (root / "x.md").unlink()
    (root / "x.md").symlink_to(outside / "secret.md")
    before = snapshot(outside)
    world = reopen(root)
    assert_hidden(world, "/x.md")
    for expected in (None, 0):
        with pytest.raises(Escapes):
            world.publish("/x.md", b"new", {}, expected, 0)
    with pytest.raises(Conflict):
        world.publish("/x.md", b"new", {}, 1, 0)
    with pytest.raises(Missing):
        world.append("/x.md", b"new", {}, 1, 0)
    with pytest.raises(Missing):
        world.archive("/x.md")
    assert snapshot(outside) == before


@pytest.mark.parametrize("target", ["../outside", "{outside}", "sub/../../outside"])
def test_a_directory_that_leads_outside(root: Path, outside: Path, target: str) -> None:
    (root / "sub").mkdir()
    (root / "d").symlink_to(target.format(outside=outside))
    before = snapshot(outside)
    world = reopen(root)
    assert_hidden(world, "/d/doc.md", "/d")
    assert not world.is_directory("/d")
    assert not world.visible_directory("/d", everything)
    with pytest.raises(Missing):
        world.children("/d", everything, True)
    for path in ("/d/doc.md", "/d/new.md", "/d/e/f/new.md"):
        with pytest.raises(Escapes):
            world.publish(path, b"new", {}, None, 0)
    assert snapshot(outside) == before
    assert [child.name for child in world.children("/", everything, True)] == ["a.md"]


@pytest.mark.parametrize("name", ["versions", "versions/a.md"])
def test_a_version_directory_that_leads_outside(root: Path, outside: Path, name: str) -> None:
    (root / name).rename(root / "aside")
    (root / name).symlink_to(outside / "versions")
    put_document(outside, "/a.md", plain(1, b"secret"))
    (outside / "versions" / "v1").write_bytes(plain(1, b"secret"))
    before = snapshot(outside)
    world = reopen(root)
    assert_hidden(world, "/a.md")
    with pytest.raises(Escapes):
        world.publish("/a.md", b"new", {}, None, 0)
    assert snapshot(outside) == before


def test_links_swapped_in_after_indexing(root: Path, outside: Path) -> None:
    put_document(root, "/d/b.md", plain(1, b"b"))
    put_document(root, "/c.md", plain(1, b"c"))
    world = reopen(root)
    content_hash = world.current("/d/b.md").content_hash
    (root / "d").rename(root / "old")
    (root / "d").symlink_to(outside)
    put_document(outside, "/b.md", plain(1, b"b"))
    (root / "c.md").unlink()
    (root / "c.md").symlink_to(outside / "secret.md")
    (root / "versions" / "a.md").rename(root / "moved")
    (root / "versions" / "a.md").symlink_to(outside / "versions" / "doc.md")
    before = snapshot(outside)
    for path in ("/d/b.md", "/c.md", "/a.md"):
        with pytest.raises(Missing):
            world.current(path)
        with pytest.raises(Escapes):
            world.publish(path, b"new", {}, None, 0)
    with pytest.raises(Missing):
        world.by_hash(content_hash, everything)
    assert [child.name for child in world.children("/", everything, True)] == ["old"]
    assert snapshot(outside) == before


def test_a_version_file_must_not_be_a_link(root: Path, outside: Path) -> None:
    (folder_of(root, "/a.md") / "v2").symlink_to(outside / "secret.md")
    world = reopen(root)
    assert world.current("/a.md").version == 1
    with pytest.raises(Missing):
        world.version("/a.md", 2)


def test_links_that_stay_inside_are_followed(root: Path) -> None:
    put_document(root, "/real/b.md", PUMP_1)
    (root / "alias").symlink_to("real")
    (root / "absolute").symlink_to(root / "real")
    world = reopen(root)
    assert world.current("/alias/b.md").etag == world.current("/real/b.md").etag
    assert world.current("/absolute/b.md").path == "/absolute/b.md"
    assert world.is_directory("/alias")
    assert world.visible_directory("/alias", everything)
    assert [child.name for child in world.children("/alias", everything, False)] == ["b.md"]
    assert [child.name for child in world.children("/", everything, False)] == ["a.md", "real"]
    assert list(world.catalog.paths()) == ["/a.md", "/real/b.md"]
    assert world.publish("/alias/b.md", b"new\n", {"title": "New"}, 1, 0).version == 2
    assert world.publish("/alias/c/d.md", b"new\n", {}, 0, 0).version == 1
    assert world.archive("/absolute/c/d.md").version == 1
    assert world.current("/real/b.md").version == 2
    fresh = reopen(root)
    for catalog in (world.catalog, fresh.catalog):
        assert sorted(catalog.paths()) == ["/a.md", "/real/b.md"]
    assert world.catalog.get("/real/b.md") == fresh.catalog.get("/real/b.md")
    (root / "store").symlink_to("versions")
    with pytest.raises(BadDocument, match="reserved"):
        world.publish("/store/a.md", b"evil", {}, None, 0)


def test_a_pointer_of_foreign_form_is_followed_inside(root: Path) -> None:
    put_document(root, "/b.md", plain(1, b"b"))
    (root / "b.md").unlink()
    (root / "b.md").symlink_to(root / "versions" / "a.md" / "v1")
    world = reopen(root)
    assert (world.current("/b.md").body, world.current("/b.md").version) == (b"mine", 1)
    assert world.publish("/b.md", b"new", {}, 1, 0).version == 2
    assert (root / "b.md").readlink() == Path("versions/b.md/v2")


def test_a_pointer_to_a_directory_is_a_directory(root: Path) -> None:
    (root / "b.md").symlink_to(".")
    world = reopen(root)
    assert_hidden(world, "/b.md")
    assert world.is_directory("/b.md")
    with pytest.raises(PathCollision):
        world.publish("/b.md", b"new", {}, None, 0)


@pytest.mark.parametrize("target", ["loop", "nowhere", "nowhere/at/all"])
def test_a_directory_link_that_leads_nowhere(root: Path, target: str) -> None:
    (root / "loop").symlink_to(target)
    before = snapshot(root)
    world = reopen(root)
    assert_hidden(world, "/loop/b.md", "/loop")
    with pytest.raises(PathCollision, match="ancestor"):
        world.publish("/loop/b.md", b"new", {}, None, 0)
    assert snapshot(root) == before


def test_the_root_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to("root")
    world = reopen(tmp_path / "current")
    assert world.current("/a.md").body == b"mine"
    assert world.publish("/b/c.md", b"new", {}, 0, 0).created
    assert (root / "b" / "c.md").is_symlink()


@pytest.mark.parametrize("name", ["absent", "file"])
def test_a_root_that_cannot_be_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadRoot, match=name):
        reopen(tmp_path / name)


def test_names_of_paths_and_back() -> None:
    assert names_of("/") == ()
    assert names_of("/a/b.md") == (b"a", b"b.md")
    assert names_of("/\udcff\udc80/ä") == (b"\xff\x80", "ä".encode())
    assert path_of((b"\xff\x80", "ä".encode())) == "/\udcff\udc80/ä"
    assert path_of(()) == "/"
    for path in ("", "a", "/a/", "//a", "/a//b", "/.", "/..", "/a/../b", "/a\0b", "/\ud800"):
        assert names_of(path) is None


def test_no_descriptor_is_left_open(root: Path, outside: Path) -> None:
    (root / "d").symlink_to(outside)
    (root / "x.md").symlink_to(outside / "secret.md")
    put_document(root, "/s/t/u.md", plain(1, b"u"), b"")
    world = reopen(root)
    before = len(os.listdir("/proc/self/fd"))
    for path in ("/a.md", "/d/doc.md", "/x.md", "/s/t/u.md", "/s", "/a.md/b.md", "/none/a.md"):
        for read in (world.current, world.history, lambda path: world.version(path, 1)):
            try:
                read(path)
            except Missing:
                pass
        world.is_directory(path)
        world.visible_directory(path, everything)
        for write in (
            lambda path: world.publish(path, b"new", {}, None, 0),
            lambda path: world.publish(path, b"new", {}, None, 0),
            lambda path: world.append(path, b"more", {}, 1, 0),
            world.archive,
            world.archive,
            lambda path: world.publish(path, b"newer", {}, None, 0),
            world.unarchive,
        ):
            try:
                write(path)
            except Exception:
                pass
    world.children("/", everything, False)
    assert len(os.listdir("/proc/self/fd")) == before
