"""Piles: what was appended comes back, and what has been read is not held any more."""

import mmap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.search.pages import PIECE, Pile, pages

SIZES = st.sampled_from([0, 1, 7, 1_000, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])


def piled(parts: list[bytes]) -> Pile:
    pile = Pile()
    for part in parts:
        pile.add(part)
    return pile


@given(st.lists(SIZES, max_size=12))
@settings(max_examples=60, deadline=None)
def test_what_was_appended_comes_back_in_order(sizes: list[int]) -> None:
    parts = [bytes([1 + number]) * size for number, size in enumerate(sizes)]
    whole = b"".join(parts)
    pile = piled(parts)
    assert pile.size == len(whole)
    assert pile.read(0, pile.size) == whole
    assert pile.read(len(whole) // 3, len(whole) // 2) == whole[len(whole) // 3 : len(whole) // 2]
    assert b"".join(pile.pieces()) == whole


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_anything_with_bytes_can_be_appended(kind: type[bytes]) -> None:
    assert piled([kind(b"few"), kind(b"x" * PIECE), kind(b"more")]).read(PIECE, PIECE + 7) == b"xxxmore"


def test_what_is_let_go_takes_no_memory_and_nothing_else_goes() -> None:
    page = mmap.PAGESIZE
    pile = piled([b"x" * PIECE, b"y" * PIECE])
    pile.let_go(1, 3 * page + 1)
    whole = pile.read(0, pile.size)
    assert whole[:page] == b"x" * page
    assert whole[page : 3 * page] == bytes(2 * page)  # what the system gives for pages that are not there
    assert whole[3 * page :] == b"x" * (PIECE - 3 * page) + b"y" * PIECE


def test_pieces_are_let_go_as_they_are_given() -> None:
    pile = piled([b"x" * (4 * PIECE)])
    for number, _ in enumerate(pile.pieces()):
        assert not any(pile.read(0, number * PIECE))
        assert pile.read(number * PIECE, pile.size) == b"x" * (4 * PIECE - number * PIECE)


@pytest.mark.parametrize("size", [0, 1, PIECE, 10 * PIECE + 1])
def test_pages_are_as_many_bytes_as_wanted_all_zero(size: int) -> None:
    assert bytes(pages(size)) == bytes(size)
