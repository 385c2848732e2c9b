"""Folders into a world and back."""

import os
from pathlib import Path
from typing import Any

import pytest

from app.protocol.limits import BODY_MAX
from app.world.documents import Document
from app.world.errors import DiskFailure
from app.world.transfer import ExportReport, ImportReport, export_tree, import_tree
from tests.unit.world.roots import folder_of, put_version, reopen, snapshot

NOW = 1_790_000_000.0


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(
        tmp_path / "source",
        {
            "index.md": b"# Home\n",
            "guide/start.md": b"# Start\n",
            ".well-known/agent-manifest.md": b"# Agent\n",
            "a b.md": b"x",
        },
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


METADATA: dict[str, dict[str, object]] = {
    "guide/start.md": {"title": "Start here", "tags": ["guide", "site:north, south"], "importance": 0.8},
    "a b.md": {"importance": 1, "draft": True, "none": None},
}


def test_import_with_metadata(source: Path, root: Path) -> None:
    world = reopen(root)
    calls: list[tuple[int, int]] = []
    report = import_tree(
        world, str(source), "/docs", METADATA, NOW, lambda done, total: calls.append((done, total))
    )
    assert report == ImportReport(4, 0)
    assert calls == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    assert world.paths() == [
        "/docs/.well-known/agent-manifest.md",
        "/docs/a b.md",
        "/docs/guide/start.md",
        "/docs/index.md",
    ]
    start = world.current("/docs/guide/start.md")
    assert start.body == b"# Start\n"
    assert start.modified == int(NOW)
    assert start.metadata == {
        "title": "Start here",
        "tags": "guide,site:north,south",
        "importance": "0.8",
        "type": "Document",
    }
    assert world.current("/docs/a b.md").metadata == {"importance": "1", "draft": "true", "type": "Document"}
    assert world.current("/docs/index.md").metadata == {}


@pytest.mark.parametrize("metadata", [METADATA, {}])
def test_import_again_changes_nothing(
    source: Path, root: Path, metadata: dict[str, dict[str, object]]
) -> None:
    import_tree(reopen(root), str(source), "/", METADATA, NOW)
    before = snapshot(root)
    assert import_tree(reopen(root), str(source), "/", metadata, NOW + 9) == ImportReport(0, 4)
    assert snapshot(root) == before


def test_import_of_a_change_keeps_what_the_metadata_does_not_name(source: Path, root: Path) -> None:
    world = reopen(root)
    import_tree(world, str(source), "/", METADATA, NOW)
    world.publish("/a b.md", b"x", {"title": "Mine", "retention": "3", "type": "Note"}, 1, NOW)
    (source / "a b.md").write_bytes(b"y")
    assert import_tree(world, str(source), "/", METADATA, NOW) == ImportReport(1, 3)
    assert world.current("/a b.md").metadata == {
        "title": "Mine",
        "type": "Note",
        "importance": "1",
        "draft": "true",
    }


def test_what_is_left_out_is_told(source: Path, root: Path) -> None:
    write(
        source,
        {
            ".git/readme.md": b"git",
            "big.md": b"x" * (BODY_MAX + 1),
            "empty.md": b"",
            "latin.md": b"\xe4",
            "line\nfeed.md": b"x",
            "logo.png": b"png",
            "versions/a.md": b"x",
            "full.md": b"x",
            "taken.md/deep.md": b"x",
            "archived.md": b"x",
            "bad.md": b"x",
            "odd.md": b"x",
            "vital.md": b"x",
        },
    )
    (source / "link.md").symlink_to("index.md")
    world = reopen(root)
    world.publish("/taken.md", b"x", {}, 0, NOW)
    world.publish("/archived.md", b"x", {}, 0, NOW)
    world.archive("/archived.md")
    metadata: dict[str, dict[str, object]] = {
        "full.md": {"note": "x" * 1100},
        "bad.md": {"Not A Key": "x"},
        "odd.md": {"tags": {"a": 1}},
        "gone.md": {"title": "Gone"},
        "vital.md": {"importance": 7},
    }
    report = import_tree(world, str(source), "/", metadata, NOW)
    assert report.created == 4
    assert dict(report.passed_over) == {".git/": "a hidden folder", "logo.png": "not named .md"}
    assert dict(report.left_out) == {
        "archived.md": "/archived.md is archived",
        "bad.md": 'invalid publisher metadata: metadata key "Not A Key" contains invalid characters',
        "big.md": "1048577 bytes, more than the 1048576 that a document holds",
        "empty.md": "the file is empty",
        "full.md": "invalid publisher metadata: metadata too large (max 1024 bytes)",
        "gone.md": "has metadata, but is not among the files",
        "latin.md": "document body must be valid UTF-8 text",
        "line\nfeed.md": "the name holds a control character",
        "link.md": "a symlink",
        "odd.md": "metadata 'tags' is no text, number or list of tags",
        "taken.md/deep.md": "a document exists at an ancestor",
        "versions/a.md": "the name versions is reserved",
        "vital.md": "importance 7 is not from 0 to 1",
    }


@pytest.mark.parametrize("prefix", ["/a/../b", "/" + "x" * 4080])
def test_a_prefix_that_no_document_can_have(source: Path, root: Path, prefix: str) -> None:
    report = import_tree(reopen(root), str(source), prefix, {}, NOW)
    assert (report.created, len(report.left_out)) == (0, 4)


def test_a_disk_that_refuses_ends_the_import(
    source: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.world.writing.write_all", full)
    with pytest.raises(DiskFailure, match="No space left"):
        import_tree(reopen(root), str(source), "/", {}, NOW)
    assert snapshot(root) == {}


def test_a_source_that_is_not_there(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        import_tree(reopen(root), str(root / "none"), "/", {}, NOW)


def test_export_and_import_again(source: Path, root: Path, tmp_path: Path) -> None:
    world = reopen(root)
    import_tree(world, str(source), "/", METADATA, NOW)
    world.publish("/\udcff/ü.md", b"odd name", {"type": "Document"}, 0, NOW)
    world.publish("/old.md", b"archived", {}, 0, NOW)
    world.archive("/old.md")
    calls: list[tuple[int, int]] = []
    report = export_tree(str(root), str(tmp_path / "out"), lambda done, total: calls.append((done, total)))
    assert report == ExportReport(5)
    assert calls[-1] == (6, 6)
    assert snapshot(tmp_path / "out") == {**snapshot(source), "\udcff": None, "\udcff/ü.md": b"odd name"}
    assert import_tree(world, str(tmp_path / "out"), "/", METADATA, NOW) == ImportReport(0, 5)


def test_export_overwrites_nothing(root: Path, tmp_path: Path) -> None:
    write(tmp_path / "out", {"mine.txt": b"mine"})
    with pytest.raises(FileExistsError):
        export_tree(str(root), str(tmp_path / "out"))


def refusing(monkeypatch: pytest.MonkeyPatch, *names: bytes) -> None:
    """Lets whatever opens a file or directory refuse what ends in one of the names, whoever asks."""
    real_open, real_scan, real_file = os.open, os.scandir, open

    def opened(path: str | bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if os.fsencode(path).endswith(names):
            raise PermissionError(13, "Permission denied")
        return real_open(path, flags, mode, dir_fd=dir_fd)

    def files(name: Any, *rest: Any, **more: Any) -> Any:
        if isinstance(name, bytes) and name.endswith(names):
            raise PermissionError(13, "Permission denied")
        return real_file(name, *rest, **more)

    def scanned(path: Any = ".") -> Any:
        if isinstance(path, bytes) and path.endswith(names):
            raise PermissionError(13, "Permission denied")
        return real_scan(path)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "scandir", scanned)
    monkeypatch.setattr("builtins.open", files)


def test_an_import_goes_on_past_what_it_cannot_read(
    source: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = reopen(root)
    refusing(monkeypatch, b"source/guide", b"source/index.md")
    report = import_tree(world, str(source), "/", {}, NOW)
    assert report == ImportReport(
        2,
        0,
        [
            ("guide/", "cannot be read: Permission denied"),
            ("index.md", "cannot be read: Permission denied"),
        ],
    )


def test_an_import_goes_on_past_a_document_of_the_world_that_cannot_be_read(
    source: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = reopen(root)
    import_tree(world, str(source), "/", {}, NOW)
    real = world.current

    def current(path: str) -> Document:
        if path == "/index.md":
            raise DiskFailure(f"{path}: Input/output error")
        return real(path)

    monkeypatch.setattr(world, "current", current)
    report = import_tree(world, str(source), "/", {}, NOW)
    assert (report.created, report.unchanged) == (0, 3)
    assert report.left_out == [("index.md", "the document cannot be read: /index.md: Input/output error")]


def test_an_import_that_is_interrupted_has_said_how_far_it_came(source: Path, root: Path) -> None:
    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    report = ImportReport()
    with pytest.raises(KeyboardInterrupt):
        import_tree(reopen(root), str(source), "/", {}, NOW, stop, report)
    assert report == ImportReport(2, 0)


def test_an_export_names_every_document_that_it_could_not_write(
    source: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = reopen(root)
    import_tree(world, str(source), "/", {}, NOW)
    for name in ("torn", "newer", "damaged", "locked"):
        world.publish(f"/{name}.md", b"x", {}, 0, NOW)
    (root / "index.md").unlink()
    put_version(root, "/torn.md", 1, b"")
    put_version(root, "/newer.md", 2, b"")
    (folder_of(root, "/damaged.md") / "archive-state").write_bytes(b"?")
    (root / "gone.md").symlink_to("versions/gone.md/v1")
    (root / "plain.md").write_bytes(b"no document")
    (root / "b.md.tmp").symlink_to("versions/b.md/v3")
    refusing(monkeypatch, b"locked.md", b"guide")
    report = export_tree(str(root), str(tmp_path / "out"))
    assert report == ExportReport(
        3,
        [
            ("/locked.md", "its versions cannot be read: Permission denied"),
            ("/guide", "cannot be read: Permission denied"),
            ("/damaged.md", "archive-state is malformed"),
            ("/gone.md", "the pointer leads to no version that can be read"),
            ("/index.md", "has versions but no pointer"),
            ("/torn.md", "the pointer leads to no version that can be read"),
        ],
        [("/newer.md", "v2 is torn: empty; v1 was written")],
    )
    assert sorted(os.listdir(tmp_path / "out")) == [".well-known", "a b.md", "newer.md"]
