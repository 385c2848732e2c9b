"""Long runs of the markdown room: memory over 10,000 parses, hostile megabytes, random documents, stalls.

Run by scripts/soak; prints one line for each measurement and fails when a bound is passed.
"""

import os
import random
import threading
import time
from pathlib import Path

import pytest

from app.markdown.outline import outline
from app.markdown.sections import sections
from app.markdown.snippet import snippet
from app.markdown.strip import own_text
from tests.unit.markdown.documents import PIECES
from tests.unit.markdown.hostile import HOSTILE

MEGABYTE = 1_000_000


def resident() -> int:
    """Resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def seconds(body: bytes) -> float:
    start = time.process_time()
    sections(body)
    return time.process_time() - start


def test_ten_thousand_parses_keep_no_memory(capsys: pytest.CaptureFixture[str]) -> None:
    piece = (
        "# A &amp; <http://x.y>\n\ntext `code` with *emphasis* and [link](u)\n\n- item\n\n```\nblock\n```\n\n"
    )
    body = (piece * (40_000 // len(piece))).encode()
    for _ in range(200):
        sections(body)
    before = resident()
    for _ in range(10_000):
        sections(body)
    grown = resident() - before
    with capsys.disabled():
        print(f"\n10,000 documents of 40 kB: resident memory {grown / 1e6:+.1f} MB")
    assert grown < 2_000_000


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_megabyte(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    half, whole = (HOSTILE[name](size).encode() for size in (MEGABYTE // 2, MEGABYTE))
    once, twice = seconds(half), seconds(whole)
    longest = 0.0
    worker = threading.Thread(target=sections, args=(whole,))
    worker.start()
    while worker.is_alive():
        start = time.perf_counter()
        time.sleep(0.001)
        longest = max(longest, time.perf_counter() - start)
    kept = resident()
    with capsys.disabled():
        print(
            f"\n{name:40} {twice:6.2f} s  x{twice / max(once, 0.01):4.1f} of half"
            f"  others waited {longest * 1e3:4.0f} ms  resident {kept / 1e6:4.0f} MB"
        )
    assert twice < 3
    assert twice / max(once, 0.05) < 3.2
    assert longest < 0.25
    assert kept < 200 * MEGABYTE


def test_random_documents() -> None:
    chosen = random.Random(20_261_130)
    for _ in range(100_000):
        body = "".join(chosen.choices(PIECES, k=chosen.randint(1, 40))).encode()
        headings = outline(body)
        assert [body.count(b"\n", 0, heading.start) + 1 for heading in headings] == [
            found.line for found in headings
        ]
        for found in sections(body):
            assert own_text(body[found.own_start : found.own_end]) == found.own_text
            assert len(snippet(found.own_text, ["a", "é"]).encode()) <= 240
