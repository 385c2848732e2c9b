"""The archive state and its sidecar (store §4)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.world.errors import Archived, Damaged, Missing
from app.world.world import Outcome, World
from app.world.writing import Unchanged
from tests.unit.world.roots import everything, folder_of, plain, put_document, put_version, reopen, snapshot

NOW = 1_790_000_000.25


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
