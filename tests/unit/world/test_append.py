"""APPEND: what is joined to what, and what is refused (store §3)."""

from pathlib import Path

import pytest

from app.protocol.fault import Fault
from app.protocol.limits import BODY_MAX
from app.world.errors import Archived, Conflict, Missing, TooLarge
from app.world.world import World
from tests.unit.world.roots import plain, put_document, reopen, snapshot

NOW = 1_790_000_000.25


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
