"""Points in time as text: RFC 3339 in both directions (wire §5.1, §5.3).

Below the edge a time is a number of seconds since 1970 in UTC; no clock is read here. Reading is as lenient as
Go's `time.Parse(time.RFC3339, …)`, which is what the protocol's servers use.
"""

import math
import re
from datetime import date, datetime, timedelta

_EPOCH = datetime(1970, 1, 1)  # naive on purpose: everything here is UTC
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_FIRST, _LAST = -62_135_596_800, 253_402_300_799  # the years 1 to 9999, which the text form can hold

_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:Z|([-+])([0-9]{2}):([0-9]{2}))"
)


def rfc3339(seconds: int) -> str:
    """The time as `YYYY-MM-DDTHH:MM:SSZ`; years outside 1 to 9999 become the nearest end of that range."""
    moment = _EPOCH + timedelta(seconds=min(max(seconds, _FIRST), _LAST))
    return moment.isoformat() + "Z"


def parse_rfc3339(text: str) -> float | None:
    """Seconds since 1970 of an RFC 3339 time, None if it is not one.

    As in Go: `T` and `Z` in upper case, one digit of the hour suffices, a comma may begin the fraction, a zone may
    be up to 24:60, and leap seconds are no times. The result compares with whole seconds as the exact time would.
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[i]) for i in range(1, 7))
    zone_hour, zone_minute = int(found[9] or 0), int(found[10] or 0)
    if not (is_date(year, month, day) and hour < 24 and minute < 60 and second < 60):
        return None
    if zone_hour > 24 or zone_minute > 60:
        return None
    zone = (zone_hour * 60 + zone_minute) * (-60 if found[8] == "-" else 60)
    whole = (_days(year, month, day) * 24 + hour) * 3600 + minute * 60 + second - zone
    return _with_fraction(whole, (found[7] or "")[:9])


def is_date(year: int, month: int, day: int) -> bool:
    """Whether the day exists in the proleptic calendar, year 0 (a leap year) included."""
    try:
        date(year or 4, month, day)
    except ValueError:
        return False
    return True


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970; the calendar repeats after 400 years of 146,097 days."""
    if year == 0:
        return date(400, month, day).toordinal() - 146_097 - _EPOCH_DAY
    return date(year, month, day).toordinal() - _EPOCH_DAY


def _with_fraction(whole: int, digits: str) -> float:
    """The sum, kept strictly between the two whole seconds where a double is too coarse to tell."""
    if not digits.strip("0"):
        return float(whole)
    value = whole + float(f"0.{digits}")
    return min(max(value, math.nextafter(whole, math.inf)), math.nextafter(whole + 1, -math.inf))
