"""RFC 3339 in both directions (wire §5.1), reading as leniently as Go does."""

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.times import is_date, parse_rfc3339, rfc3339


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_791_187_200, "2026-10-05T08:00:00Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (-1, "1969-12-31T23:59:59Z"),
        (253_402_300_799, "9999-12-31T23:59:59Z"),
        (-62_135_596_800, "0001-01-01T00:00:00Z"),
        (2**62, "9999-12-31T23:59:59Z"),
        (-(2**62), "0001-01-01T00:00:00Z"),
    ],
)
def test_writing(seconds: int, text: str) -> None:
    assert rfc3339(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-10-05T08:00:00Z", 1_791_187_200),
        ("2026-10-05T8:00:00Z", 1_791_187_200),
        ("2026-10-05T08:00:00+00:00", 1_791_187_200),
        ("2026-10-05T08:00:00-00:00", 1_791_187_200),
        ("2026-10-05T10:30:00+02:30", 1_791_187_200),
        ("2026-10-04T22:00:00-10:00", 1_791_187_200),
        ("2026-10-06T09:00:00+24:60", 1_791_187_200),
        ("2026-10-05T08:00:00.5Z", 1_791_187_200.5),
        ("2026-10-05T08:00:00,25Z", 1_791_187_200.25),
        ("2026-10-05T08:00:00.000Z", 1_791_187_200),
        ("0001-01-01T00:00:00Z", -62_135_596_800),
        ("0000-02-29T00:00:00Z", -62_135_596_800 - 307 * 86400),
        ("9999-12-31T23:59:59Z", 253_402_300_799),
    ],
)
def test_reading(text: str, seconds: float) -> None:
    assert parse_rfc3339(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-10-05",
        "2026-10-05T08:00Z",
        "2026-10-05T08:00:00",
        "2026-10-05 08:00:00Z",
        "2026-10-05t08:00:00Z",
        "2026-10-05T08:00:00z",
        "2026-10-05T08:00:00+0200",
        "2026-10-05T08:00:00+02",
        "2026-10-05T08:00:00+25:00",
        "2026-10-05T08:00:00+02:61",
        "2026-10-05T08:00:00.Z",
        "2026-10-05T08:0:00Z",
        "2026-10-5T08:00:00Z",
        "2026-1-05T08:00:00Z",
        "26-10-05T08:00:00Z",
        "02026-10-05T08:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2016-12-31T23:59:60Z",
        " 2026-10-05T08:00:00Z",
        "2026-10-05T08:00:00Z\n",
        "٢٠٢٦-10-05T08:00:00Z",
    ],
)
def test_what_is_no_time(text: str) -> None:
    assert parse_rfc3339(text) is None


def test_fractions_compare_with_whole_seconds_as_exact_times_would() -> None:
    for whole in ("1970-01-01T00:00:00", "2026-10-05T08:00:00", "9999-12-31T23:59:58", "0001-01-01T00:00:00"):
        start = parse_rfc3339(whole + "Z")
        assert start is not None
        for digits in ("000000001", "999999999", "9999999999999", "5"):
            value = parse_rfc3339(f"{whole}.{digits}Z")
            assert value is not None
            assert start < value < start + 1
        assert parse_rfc3339(whole + ".0000000000001Z") == start  # nanoseconds are the finest


@settings(max_examples=200, deadline=None)
@given(st.integers(-62_135_596_800, 253_402_300_799))
def test_what_is_written_is_read_back(seconds: int) -> None:
    assert parse_rfc3339(rfc3339(seconds)) == seconds
    if seconds >= 0:
        moment = datetime.fromtimestamp(seconds, UTC)
        assert rfc3339(seconds) == moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("0123456789-:TZ+.,"), max_size=30))
def test_any_text_gives_a_time_or_none(text: str) -> None:
    value = parse_rfc3339(text)
    assert value is None or math.isfinite(value)


def test_dates() -> None:
    assert is_date(2024, 2, 29)
    assert is_date(0, 2, 29)
    assert not is_date(2100, 2, 29)
    assert not is_date(2026, 4, 31)
    assert not is_date(2026, 0, 1)
