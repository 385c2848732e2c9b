"""Small parts of the process; starting, signals and stopping are journeys (tests/journeys/test_server_life.py)."""

import signal

import pytest

from app.server.serve import TWICE_SECONDS, CannotStart, _limits, _Wishes, reason
from app.server.settings import settings_from
from tests.unit.server.planted import silent


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (CannotStart("no root: set it"), "no root: set it"),
        (
            ExceptionGroup("a", [ExceptionGroup("b", [CannotStart("no root: set it")])]),
            "no root: set it",
        ),
        (
            BaseExceptionGroup("a", [ValueError("other"), CannotStart("no root: set it")]),
            "no root: set it",
        ),
        (
            ExceptionGroup("a", [ValueError("odd\nthing")]),
            "stopped by an unexpected error, ValueError: odd; --debug shows where",
        ),
        (KeyError(), "stopped by an unexpected error, KeyError: ; --debug shows where"),
    ],
)
def test_whatever_ended_it_is_one_line(error: BaseException, line: str) -> None:
    assert reason(error) == line


def test_limits_come_from_the_settings() -> None:
    names = {
        "MAX_STREAMS": "7",
        "IDLE_TIMEOUT": "0",
        "REQUEST_TIMEOUT": "2s",
        "RATE_LIMIT": "1.5",
        "RATE_BURST": "3",
    }
    limits = _limits(settings_from({}, {f"DEMARKUS_{name}": value for name, value in names.items()}, {}))
    assert (limits.max_streams, limits.idle_timeout, limits.request_timeout) == (7, 30.0, 2.0)
    assert (limits.rate, limits.burst) == (1.5, 3)


def test_a_first_stop_signal_asks_its_echo_does_not_and_a_second_insists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moments = iter((100.0, 100.0 + TWICE_SECONDS * 0.99, 100.0 + TWICE_SECONDS))
    monkeypatch.setattr("app.server.serve.time.monotonic", moments.__next__)
    wishes = _Wishes(silent)
    wishes.note(signal.SIGHUP)
    assert wishes.reload.is_set()
    assert not wishes.stop.is_set()
    wishes.note(signal.SIGTERM)
    assert wishes.stop.is_set()
    wishes.note(signal.SIGTERM)
    assert not wishes.stop_now.is_set()
    wishes.note(signal.SIGINT)
    assert wishes.stop_now.is_set()
