"""Hostile documents take linear time (lookup §7.4). scripts/soak runs them at full size."""

import time
from collections.abc import Callable

import pytest

from app.markdown.outline import outline, section
from app.markdown.sections import sections
from tests.unit.markdown.hostile import HOSTILE


def seconds(work: Callable[[], object]) -> float:
    """CPU time of this process, so that a busy machine changes little."""
    start = time.process_time()
    work()
    return time.process_time() - start


@pytest.mark.parametrize("name", HOSTILE)
def test_time_is_linear(name: str) -> None:
    """Four times the size: linear work takes four times as long, quadratic work sixteen times."""
    small, large = (HOSTILE[name](size).encode() for size in (25_000, 100_000))
    ratios = []
    for _ in range(3):
        once = seconds(lambda: sections(small))
        ratios.append(seconds(lambda: sections(large)) / max(once, 0.002))
        if ratios[-1] < 9:
            break
    assert min(ratios) < 9


def test_equal_headings_are_numbered_in_linear_time() -> None:
    body = b"# a\n" * 20_000
    assert seconds(lambda: outline(body)) < 1  # 0.1 on a desktop; trying every number takes most of a minute
    assert outline(body)[-1].anchor == "a-19999"


def test_every_heading_of_a_hostile_document_is_fetched() -> None:
    body = HOSTILE["headings of equal and numbered anchors"](600).encode()
    for heading in outline(body):
        assert section(body, heading.anchor) == body[heading.start : heading.end]
