"""What is said about the clock, and about a reload, in words."""

import pytest

from app.server.contents import Reloaded
from app.server.oversight import CLOCK_LEAST, DAY, clock_fault
from app.world.refresh import Changes


@pytest.mark.parametrize(
    ("now", "newest", "said"),
    [
        (0.0, 0, "not set: it shows 1970-01-01T00:00:00Z"),
        (CLOCK_LEAST - 1, 0, "not set: it shows 2023-12-31T23:59:59Z"),
        (CLOCK_LEAST, 0, ""),
        (1.8e9, int(1.8e9 + DAY), ""),
        (
            1.8e9,
            int(1.8e9 + DAY + 1),
            "behind: it shows 2027-01-15T08:00:00Z, the newest document is of 2027-01-16T08:00:01Z",
        ),
        (1.8e9, 0, ""),
    ],
)
def test_what_is_wrong_with_the_clock(now: float, newest: int, said: str) -> None:
    assert clock_fault(now, newest) == said


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        (Changes(), "", "nothing new in 12 ms (SIGHUP)"),
        (Changes(added=1, gone=2), "", "1 added, 2 gone in 12 ms (SIGHUP)"),
        (Changes(), "no root", "no root"),
    ],
)
def test_a_reload_in_one_line(changes: Changes, error: str, text: str) -> None:
    assert Reloaded(changes, "SIGHUP", 0.0, 0.012, error).text == text
