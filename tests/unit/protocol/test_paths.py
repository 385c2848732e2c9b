"""Canonical paths, content addresses and version paths (wire §2.6, §5.1)."""

import posixpath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.paths import canonical, has_parent_segment, hash_of, name, parent, sort_key, split_version


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("/", "/"),
        ("//", "/"),
        ("/.", "/"),
        ("/./", "/"),
        ("//a", "/a"),
        ("/a/./b/", "/a/b"),
        ("/a//b///", "/a/b"),
        ("/docs/", "/docs"),
        ("/.well-known/x.md", "/.well-known/x.md"),
        ("/...", "/..."),
        ("/a./.b", "/a./.b"),
        ("/a b\t/\udcff", "/a b\t/\udcff"),
        ("/%2e%2e/a", "/%2e%2e/a"),
    ],
)
def test_canonical(raw: str, clean: str) -> None:
    assert canonical(raw) == clean
    assert canonical(clean) == clean


@pytest.mark.parametrize(("raw", "parents"), [
    ("/..", True), ("/../a", True), ("/a/..", True), ("/a/../b", True), ("/a//..//b", True),
    ("/...", False), ("/a..", False), ("/..a/b", False), ("/a/.. /b", False), ("/", False), ("/%2e%2e", False),
])  # fmt: skip
def test_parent_segments(raw: str, parents: bool) -> None:
    assert has_parent_segment(raw) is parents


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("/.a\udcff é"), max_size=12).map(lambda text: "/" + text))
def test_canonical_is_the_clean_path(raw: str) -> None:
    if not has_parent_segment(raw):
        assert canonical(raw) == "/" + posixpath.normpath(raw).lstrip("/")


HEX = "0123456789abcdef" * 4


@pytest.mark.parametrize(("path", "address"), [
    (f"/sha256-{HEX}", f"sha256-{HEX}"),
    (f"/sha256-{HEX.upper()}", None),
    (f"/sha256-{HEX}0", None),
    (f"/sha256-{HEX[1:]}", None),
    (f"/sha256-{HEX}\n", None),
    (f"/sha256-{HEX}/v1", None),
    (f"/a/sha256-{HEX}", None),
    (f"/sha512-{HEX}", None),
    ("/", None),
])  # fmt: skip
def test_content_addresses(path: str, address: str | None) -> None:
    assert hash_of(path) == address


@pytest.mark.parametrize(("path", "split"), [
    ("/a.md/v1", ("/a.md", 1)),
    ("/a/b.md/v12", ("/a/b.md", 12)),
    ("/a.md/v+3", ("/a.md", 3)),
    ("/a.md/v0003", ("/a.md", 3)),
    ("/a.md/v+" + "0" * 4000 + "7", ("/a.md", 7)),
    ("/a\nb/v2", ("/a\nb", 2)),
    ("/v1/v2", ("/v1", 2)),
    ("/a.md/v9223372036854775807", ("/a.md", 2**63 - 1)),
    ("/a.md/v9223372036854775808", None),
    ("/a.md/v" + "9" * 4000, None),
    ("/a.md/v0", None),
    ("/a.md/v+0", None),
    ("/a.md/v-1", None),
    ("/a.md/v++1", None),
    ("/a.md/v", None),
    ("/a.md/v1x", None),
    ("/a.md/v1\n", None),
    ("/a.md/V1", None),
    ("/a.md/v١", None),
    ("/a.mdv1", None),
    ("/v1", None),
    ("/", None),
])  # fmt: skip
def test_version_paths(path: str, split: tuple[str, int] | None) -> None:
    assert split_version(path) == split


@pytest.mark.parametrize(
    ("path", "directory", "last"),
    [("/", "/", ""), ("/a", "/", "a"), ("/a/b.md", "/a", "b.md"), ("/a/b/c", "/a/b", "c")],
)
def test_parent_and_name(path: str, directory: str, last: str) -> None:
    assert (parent(path), name(path)) == (directory, last)


def test_order_is_that_of_bytes() -> None:
    paths = [
        b"/a",
        b"/a!",
        b"/a/b",
        b"/a0",
        b"/\xc3\xa9",
        b"/\xe2\x82\xac",
        b"/\xef\xbf\xbd",
        b"/\xf0\x9f\x98\x80",
        b"/\xff",
    ]
    texts = [path.decode("utf-8", "surrogateescape") for path in paths]
    assert sorted([*texts[4:], *texts[:4]], key=sort_key) == texts
