"""Directories as callers see them (wire §5.1, §5.2): entries, pages, and that what is hidden leaves no trace."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.world.errors import Damaged, Missing
from app.world.listing import Directories
from app.world.page import Child
from app.world.tokens import Access, TokenTable, access, hash_of_token
from app.world.world import World
from tests.unit.world.roots import (
    close_all,
    everything,
    folder_of,
    nothing,
    plain,
    point,
    put_document,
    put_version,
    reopen,
)


def names(
    world: World, path: str, may_read: Callable[[str], bool] = everything, archived: bool = False
) -> list[str]:
    """The names listed, those of directories with a slash."""
    return [child.name + "/" * child.is_directory for child in world.children(path, may_read, archived)]


def archive(root: Path, path: str, state: bytes = b"true\n") -> None:
    (folder_of(root, path) / "archive-state").write_bytes(state)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path in (
        "/b.md",
        "/a/c.md",
        "/a/d/e/f.md",
        "/a.md",
        "/.hidden.md",
        "/.dir/x.md",
        "/ä.md",
        "/Z.md",
        "/h/.x/y.md",
    ):
        put_document(tmp_path, path, plain(1, path.encode()))
    (tmp_path / "empty" / "below").mkdir(parents=True)
    (tmp_path / "flat.md").write_text("no versions")
    (tmp_path / "image.png").write_bytes(b"png")
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "logo.png").write_bytes(b"png")
    put_version(tmp_path, "/unpublished.md", 1, plain(1, b"x"))
    return tmp_path


@pytest.mark.parametrize("known", [True, False])
def test_what_is_listed(root: Path, tmp_path_factory: pytest.TempPathFactory, known: bool) -> None:
    """The same whether the documents were there at start or came later from elsewhere."""
    if known:
        world = reopen(root)
    else:
        late = tmp_path_factory.mktemp("late")
        world = reopen(late)
        shutil.copytree(root, late, symlinks=True, dirs_exist_ok=True)
    assert names(world, "/") == ["Z.md", "a/", "a.md", "b.md", "ä.md"]
    assert names(world, "/a") == ["c.md", "d/"]
    assert names(world, "/a/d") == ["e/"]
    assert names(world, "/h") == names(world, "/empty") == names(world, "/assets") == []
    assert names(world, "/.dir") == ["x.md"]
    for path in ("/none", "/b.md", "/flat.md", "/a/c.md/x", "/versions/b.md/v1", "/sha256-" + "0" * 64):
        assert not world.visible_directory(path, everything)
        with pytest.raises(Missing):
            world.children(path, everything, False)


def test_archived_documents_are_listed_on_demand(root: Path) -> None:
    archive(root, "/b.md")
    archive(root, "/a/d/e/f.md")
    world = reopen(root)
    assert names(world, "/") == ["Z.md", "a/", "a.md", "ä.md"]
    assert names(world, "/a") == ["c.md"]
    assert names(world, "/", archived=True) == ["Z.md", "a/", "a.md", "b.md", "ä.md"]
    assert names(world, "/a", archived=True) == ["c.md", "d/"]
    assert world.visible_directory("/a/d/e", everything)
    assert names(world, "/a/d/e") == []


def test_the_legacy_archived_line_counts(tmp_path: Path) -> None:
    put_document(tmp_path, "/a.md", plain(1, b"x", archived=True))
    world = reopen(tmp_path)
    assert names(world, "/") == []
    assert names(world, "/", archived=True) == ["a.md"]


def test_changes_behind_our_back_show_at_once(root: Path) -> None:
    world = reopen(root)
    put_document(root, "/new.md", plain(1, b"new"))
    put_document(root, "/x/y/new.md", plain(1, b"new"))
    archive(root, "/b.md")
    archive(root, "/a/d/e/f.md")
    (root / "a" / "c.md").unlink()
    shutil.rmtree(root / "versions" / "Z.md")
    assert names(world, "/") == ["a.md", "new.md", "x/", "ä.md"]
    assert names(world, "/x") == ["y/"]
    archive(root, "/a/d/e/f.md", b"false\n")
    archive(root, "/b.md", b"false\n")
    assert names(world, "/") == ["a/", "a.md", "b.md", "new.md", "x/", "ä.md"]


def test_a_directory_archived_when_it_was_read_shows_when_it_comes_alive(root: Path) -> None:
    archive(root, "/a/d/e/f.md")
    world = reopen(root)
    assert names(world, "/a/d") == []
    archive(root, "/a/d/e/f.md", b"false\n")
    assert names(world, "/a/d") == ["e/"]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, None])
def test_pages(root: Path, limit: int | None) -> None:
    archive(root, "/a.md")
    world = reopen(root)
    for archived in (False, True):
        whole = world.children("/", everything, archived)
        paged: list[Child] = []
        for _ in range(10):
            page = world.children(
                "/", everything, archived, after=paged[-1].name if paged else "", limit=limit
            )
            assert limit is None or len(page) <= limit
            if not page:
                break
            paged += page
        assert paged == whole
    assert [child.name for child in world.children("/", everything, True, after="a", limit=9)] == [
        "a.md",
        "b.md",
        "ä.md",
    ]
    assert world.children("/", everything, True, after="\udcff") == []


def test_a_malformed_sidecar_fails_the_listing_of_its_directory(root: Path) -> None:
    archive(root, "/b.md", b"perhaps")
    archive(root, "/a/c.md", b"perhaps")
    world = reopen(root)
    for limit in (None, 1):
        with pytest.raises(Damaged):
            world.children("/", everything, False, limit=limit)
        with pytest.raises(Damaged):
            world.children("/", everything, False, after="b.md", limit=limit)
    assert names(world, "/", archived=True) == ["Z.md", "a/", "a.md", "b.md", "ä.md"]
    assert names(world, "/", lambda path: path != "/b.md") == ["Z.md", "a/", "a.md", "ä.md"]
    (folder_of(root, "/b.md") / "archive-state").unlink()
    assert names(world, "/") == ["Z.md", "a/", "a.md", "b.md", "ä.md"]
    assert names(world, "/a/d") == ["e/"]


def test_what_may_not_be_read_is_not_listed(root: Path) -> None:
    world = reopen(root)
    assert names(world, "/", lambda path: path != "/a.md") == ["Z.md", "a/", "b.md", "ä.md"]
    assert names(world, "/", lambda path: path != "/a/") == ["Z.md", "a.md", "b.md", "ä.md"]
    assert names(world, "/", lambda path: not path.endswith(("f.md", "c.md"))) == [
        "Z.md",
        "a.md",
        "b.md",
        "ä.md",
    ]
    assert names(world, "/", nothing) == []


@pytest.mark.parametrize(
    ("path", "all_", "none"),
    [("/", True, True), ("/a", True, False), ("/a/d", True, False), ("/empty", True, True), ("/empty/below", True, True),
     ("/assets", True, True), ("/h", True, False), ("/.dir", True, False), ("/none", False, False), ("/a.md", False, False),
     ("/versions", False, False), ("/versions/a.md", False, False), ("/a/versions", False, False)],
)  # fmt: skip
@pytest.mark.parametrize("known", [True, False])
def test_which_directories_exist_for_a_caller(
    root: Path, tmp_path_factory: pytest.TempPathFactory, path: str, all_: bool, none: bool, known: bool
) -> None:
    if known:
        world = reopen(root)
    else:
        late = tmp_path_factory.mktemp("late")
        world = reopen(late)
        shutil.copytree(root, late, symlinks=True, dirs_exist_ok=True)
    assert world.visible_directory(path, everything) is all_
    assert world.visible_directory(path, nothing) is none


def test_archived_documents_hold_a_directory_for_those_who_may_read_them(root: Path) -> None:
    archive(root, "/a/d/e/f.md")
    world = reopen(root)
    assert world.visible_directory("/a/d", everything)
    assert not world.visible_directory("/a/d", nothing)


def test_documents_that_another_server_put_below_a_versions_directory(tmp_path: Path) -> None:
    put_document(tmp_path, "/a.md", plain(1, b"a"))
    put_document(tmp_path, "/versions/b.md", plain(1, b"b"))
    world = reopen(tmp_path)
    assert world.current("/versions/b.md").body == b"b"
    assert world.visible_directory("/versions", everything)
    assert not world.visible_directory("/versions", nothing)
    assert names(world, "/versions") == ["b.md"]
    assert not world.visible_directory("/versions/a.md", everything)
    assert names(world, "/") == ["a.md"]
    assert world.paths() == ["/a.md"]


def test_a_symlinked_directory_is_not_listed(root: Path) -> None:
    (root / "link").symlink_to("a")
    assert names(reopen(root), "/") == ["Z.md", "a/", "a.md", "b.md", "ä.md"]


def test_a_pointer_in_another_form_is_listed(root: Path) -> None:
    (root / "b.md").unlink()
    (root / "b.md").symlink_to(root / "versions" / "b.md" / "v1")
    (root / "a.md").unlink()
    (root / "a.md").write_bytes(plain(1, b"copied"))
    put_document(root, "/Z.md", plain(1, b""), plain(2, b"two"))
    point(root, "/Z.md", 1)
    assert names(reopen(root), "/") == ["Z.md", "a/", "a.md", "b.md", "ä.md"]


# What a caller with patterns may not read takes no time to deny.


def by_patterns(protected: str, granted: str = "/none") -> Access:
    """A caller with a grant, where others have one as well."""
    tokens = [
        f'[tokens.{label}]\nhash = "{hash_of_token(label)}"\npaths = ["{path}"]\noperations = ["read"]\n'
        for label, path in (("other", protected), ("mine", granted))
    ]
    return access(TokenTable.parse("".join(tokens).encode()), "mine", 0.0)


def test_a_closed_directory_is_not_looked_at(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, caller = reopen(root), by_patterns("/a/**")

    def fail(*_: object, **__: object) -> int:
        raise AssertionError("looked")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fail)
        for path in ("/a", "/a/d", "/a/none", "/a/d/e"):
            assert not world.visible_directory(path, caller)
    assert names(world, "/", caller) == ["Z.md", "a.md", "b.md", "ä.md"]
    assert world.visible_directory("/a", by_patterns("/a/**", "/a/d/e/f.md"))
    assert names(world, "/", by_patterns("/a/**", "/a/**")) == ["Z.md", "a/", "a.md", "b.md", "ä.md"]


def test_a_directory_found_empty_for_a_caller_is_looked_at_again_when_something_changes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, caller = reopen(root), by_patterns("/a/**", "/a/*/mine.md")
    asked: list[str] = []
    monkeypatch.setattr(Directories, "_shows", looking(asked))
    for _ in range(3):
        assert not world.visible_directory("/a", caller)
        assert not world.visible_directory("/a", by_patterns("/a/**", "/a/*/mine.md"))
    assert asked == ["/a"]
    assert not world.visible_directory("/a", by_patterns("/a/**", "/a/*/other.md"))
    assert not world.visible_directory("/a/d", caller)
    assert asked == ["/a", "/a", "/a/d"]
    world.publish("/b.md", b"changed", {}, None, 0)
    assert not world.visible_directory("/a", caller)
    (root / "a" / "x").mkdir()
    put_document(root, "/a/y/mine.md", plain(1, b"mine"))
    assert world.visible_directory("/a", caller)
    assert asked[3:] == ["/a", "/a"]


def looking(asked: list[str]) -> Callable[..., bool]:
    real = Directories._shows

    def shows(self: Directories, path: str, may_read: Callable[[str], bool]) -> bool:
        asked.append(path)
        return real(self, path, may_read)

    return shows


def test_what_is_known_to_be_unseen_is_bounded(root: Path) -> None:
    world = reopen(root)
    for number in range(600):
        assert not world.visible_directory("/a", by_patterns("/a/**", f"/a/*/{number}.md"))
    assert len(world._held.indexes.tree._unseen) <= 256


# Whatever a caller may not read, the answers are those of a world without it.

DOCUMENTS = ["/a.md", "/b.md", "/x/a.md", "/x/y/a.md", "/x/y/b.md", "/x/.h/a.md", "/z/a.md", "/z/w/a.md"]
DIRECTORIES = [
    "/",
    "/x",
    "/x/y",
    "/x/.h",
    "/z",
    "/z/w",
    "/e",
    "/e/f",
    "/versions",
    "/x/versions",
    "/x/versions/a.md",
]
SOME = st.sets(st.sampled_from(DOCUMENTS))


@settings(max_examples=60, deadline=None)
@given(
    present=st.dictionaries(st.sampled_from(DOCUMENTS), st.sampled_from([b"one", b"two"])),
    late=SOME,
    archived=SOME,
    damaged=SOME,
    denied=st.sets(st.sampled_from(DOCUMENTS + [directory + "/" for directory in DIRECTORIES[1:]])),
)
def test_what_is_denied_leaves_no_trace(
    present: dict[str, bytes], late: set[str], archived: set[str], damaged: set[str], denied: set[str]
) -> None:
    def may_read(path: str) -> bool:
        return path not in denied

    def build(directory: str, documents: set[str]) -> World:
        root = Path(directory)
        (root / "e" / "f").mkdir(parents=True)

        def add(paths: set[str]) -> None:
            for path in paths:
                put_document(root, path, plain(1, present[path]))
                if path in archived | damaged:
                    archive(root, path, b"true\n" if path in archived else b"?")

        add(documents - late)
        world = reopen(root)
        add(documents & late)
        return world

    def answers(world: World) -> list[object]:
        found: list[object] = []
        for path in DIRECTORIES:
            found.append(world.visible_directory(path, may_read))
            for include_archived in (False, True) if found[-1] else ():
                try:
                    found.append(world.children(path, may_read, include_archived))
                except Damaged as error:
                    found.append(str(error))
        for body in (b"one", b"two"):
            content_hash = "sha256-" + hashlib.sha256(body).hexdigest()
            try:
                found.append(world.by_hash(content_hash, may_read).path)
            except Exception as error:
                found.append(type(error))
        return found

    with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as reduced:
        readable = {path for path in present if may_read(path)}
        try:
            assert answers(build(whole, set(present))) == answers(build(reduced, readable))
        finally:
            close_all()


def test_a_large_directory_costs_few_system_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(60):
        put_document(tmp_path, f"/{number:03}.md", plain(1, b"x"))
    archive(tmp_path, "/050.md")
    world = reopen(tmp_path)
    opened: list[object] = []
    real = os.open

    def count(path: str | bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        opened.append(path)
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", count)
    assert len(world.children("/", everything, False, limit=10)) == 10
    assert (
        len(opened) <= 10 + 5
    )  # a directory for each entry of the page, the root, `versions`, the one sidecar
