"""Two changes to one text, joined line by line, for whoever has to decide (the reference's `on_conflict: merge`).

The classic three-way merge: what only one side changed is taken from it; what both changed differently stands between markers, both ways. It
proposes and never decides: nothing is written from here.
"""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

import msgspec

LINES_MAX = 5_000
"""Lines of a text beyond which nothing is proposed: the comparison's time grows with their square."""


class Merged(msgspec.Struct, frozen=True):
    """The text with both changes, and at how many places they contradict each other."""

    text: str
    conflicts: int


def merge(base: str, theirs: str, ours: str) -> Merged | None:
    """Both changes of `base` in one text, or None if the texts are too long to compare."""
    texts = [text.splitlines(keepends=True) for text in (base, theirs, ours)]
    if max(map(len, texts)) > LINES_MAX:
        return None
    old, left, right = texts
    pieces: list[str] = []
    conflicts = 0
    for start, end, left_lines, right_lines in _regions(old, left, right):
        origin = old[start:end]
        if left_lines == right_lines or right_lines == origin:
            pieces += left_lines
        elif left_lines == origin:
            pieces += right_lines
        else:
            conflicts += 1
            pieces += [
                "<<<<<<< current\n",
                *_ended(left_lines),
                "=======\n",
                *_ended(right_lines),
                ">>>>>>> yours\n",
            ]
    return Merged("".join(pieces), conflicts)


def _regions(
    old: Sequence[str], left: Sequence[str], right: Sequence[str]
) -> Iterator[tuple[int, int, list[str], list[str]]]:
    """The old text cut so that each piece stands in both others as it is, or was changed by one or both."""
    in_left, in_right = _matches(old, left), _matches(old, right)
    at = at_left = at_right = 0
    for line in range(len(old) + 1):
        there = (
            (len(left), len(right)) if line == len(old) else (in_left.get(line, -1), in_right.get(line, -1))
        )
        if min(there) < 0:
            continue
        if (line, *there) != (at, at_left, at_right):
            yield at, line, list(left[at_left : there[0]]), list(right[at_right : there[1]])
        if line < len(old):
            yield line, line + 1, [left[there[0]]], [right[there[1]]]
        at, at_left, at_right = line + 1, there[0] + 1, there[1] + 1


def _matches(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """Where each line of the old text that was kept is in the new one."""
    blocks = SequenceMatcher(None, old, new).get_matching_blocks()
    return {block.a + step: block.b + step for block in blocks for step in range(block.size)}


def _ended(lines: list[str]) -> list[str]:
    return [*lines[:-1], lines[-1] if lines[-1].endswith("\n") else f"{lines[-1]}\n"] if lines else []
