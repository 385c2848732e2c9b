"""The texts of settings, against the forms operations §1 accepts."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.server import values


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30.0),
        ("500ms", 0.5),
        ("1m30s", 90.0),
        ("1h", 3600.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("100us", 1e-4),
        ("100µs", 1e-4),
        ("5ns", 5e-9),
        ("+2s", 2.0),
        ("0", 0.0),
        ("-0", 0.0),
        ("0s", 0.0),
        ("-0s", 0.0),
    ],
)
def test_durations_are_gos(text: str, seconds: float) -> None:
    assert values.duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "30",
        "s",
        "-1s",
        "1 s",
        " 1s",
        "1s ",
        "1d",
        "1_0s",
        "1e3s",
        "1S",
        ".s",
        "1s2",
        "٣s",
        "300000000h",
        "inf",
        "1s\n",
    ],
)
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|negative"):
        values.duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (10.0, "10s"),
        (90.0, "1m30s"),
        (3600.0, "1h0m0s"),
        (1.5, "1.5s"),
        (0.5, "500ms"),
        (0.0015, "1.5ms"),
        (1e-4, "100µs"),
        (1e-9, "1ns"),
        (59.999, "59.999s"),
        (60.0, "1m0s"),
    ],
)
def test_durations_are_shown_as_go_shows_them(seconds: float, text: str) -> None:
    assert values.duration_text(seconds) == text


@given(st.integers(0, 10**15))
def test_a_shown_duration_reads_back(microseconds: int) -> None:
    seconds = microseconds / 1e6
    assert values.duration(values.duration_text(seconds)) == pytest.approx(seconds, abs=1e-6, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "value"), [(t, True) for t in ("1", "true", "yes")] + [(f, False) for f in ("0", "false", "no")]
)
def test_booleans_are_six_words(text: str, value: bool) -> None:
    assert values.boolean(text) is value


@pytest.mark.parametrize("text", ["True", "YES", "on", "off", "t", "2", " 1", "true\n", ""])
def test_other_booleans_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be one of"):
        values.boolean(text)


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("+7", 7), ("-0", 0), ("65535", 65535)])
def test_whole_numbers(text: str, number: int) -> None:
    assert values.whole(0, 65535)(text) == number


@pytest.mark.parametrize(
    "text", ["", "-1", "65536", "1.0", "1e3", "1_0", " 1", "1 ", "0x10", "٣", "1\n", "9" * 30]
)
def test_other_whole_numbers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a whole number from 0 to 65535"):
        values.whole(0, 65535)(text)


@pytest.mark.parametrize(
    ("text", "number"), [("50", 50.0), ("0", 0.0), ("0.5", 0.5), (".5", 0.5), ("1e2", 100.0), ("5.", 5.0)]
)
def test_rates(text: str, number: float) -> None:
    assert values.rate(text) == number


@pytest.mark.parametrize(
    "text", ["", "NaN", "nan", "Inf", "-Inf", "+inf", "infinity", "-1", "1e999", "0x1p4", "1_0", " 1", "1\n"]
)
def test_other_rates_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number of 0 or more"):
        values.rate(text)


@pytest.mark.parametrize("text", ["", "127.0.0.1", "::", "::1", "0.0.0.0", "fe80::1%eth0"])
def test_addresses(text: str) -> None:
    assert values.address(text) == text


@pytest.mark.parametrize("text", ["localhost", "1.2.3", "::1 ", "[::1]", "127.0.0.1:6309"])
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be an IP address"):
        values.address(text)


@given(
    st.text(),
    st.sampled_from(
        [values.boolean, values.rate, values.duration, values.address, values.whole(0, 10), values.text]
    ),
)
def test_no_text_raises_anything_else(text: str, read: Callable[[str], object]) -> None:
    try:
        value = read(text)
    except ValueError:
        return
    assert not isinstance(value, float) or (math.isfinite(value) and value >= 0)
