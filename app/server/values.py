"""Reads the texts of settings: whole numbers, rates, durations, booleans, addresses.

The accepted forms are those of existing units and installers (operations §1), which were written for a Go program: durations are
`1m30s`, booleans are exactly `1 true yes` or `0 false no`. Python's own `int()` and `float()` take more (blanks, underscores, other scripts'
digits), so the shape is tested first.

Each reader takes the text and gives the value, or raises ValueError with the end of a sentence: "must be …, got …".
Nothing here knows which setting it reads.
"""

import ipaddress
import math
import re
from collections.abc import Callable

_WHOLE = re.compile(r"[-+]?[0-9]{1,19}", re.ASCII)
_DECIMAL = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?", re.ASCII)
_DURATION = re.compile(r"[-+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+", re.ASCII)
_PART = re.compile(r"([0-9.]+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST = 2**63 / 1e9  # a Go duration is nanoseconds in 64 bits

TRUE = ("1", "true", "yes")
FALSE = ("0", "false", "no")


def boolean(text: str) -> bool:
    """True or false from exactly one of the six words."""
    if text in TRUE:
        return True
    if text in FALSE:
        return False
    raise ValueError(f'must be one of 1, true, yes, 0, false, no, got "{text}"')


def whole(least: int, most: int) -> Callable[[str], int]:
    """A reader of decimal whole numbers from `least` to `most`."""

    def read(text: str) -> int:
        if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
            raise ValueError(f'must be a whole number from {least} to {most}, got "{text}"')
        return int(text)

    return read


def one_of(*words: str) -> Callable[[str], str]:
    """A reader of one of these words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f'must be {" or ".join(words)}, got "{text}"')
        return text

    return read


def rate(text: str) -> float:
    """A finite decimal number, zero or more, per second."""
    number = float(text) if _DECIMAL.fullmatch(text) else math.nan
    if not math.isfinite(number) or number < 0:
        raise ValueError(f'must be a number of 0 or more, got "{text}"')
    return number


def duration(text: str) -> float:
    """Seconds from a Go duration (`1m30s`, `500ms`, `0`), zero or more."""
    seconds = 0.0
    if text not in ("0", "+0", "-0"):
        if not _DURATION.fullmatch(text):
            raise ValueError(f'must be a duration such as 30s, 500ms or 1m30s, got "{text}"')
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
        if seconds >= _LONGEST:
            raise ValueError(f'is too long a duration: "{text}"')
        if text.startswith("-") and seconds > 0:
            raise ValueError(f'must not be negative, got "{text}"')
    return seconds


def duration_text(seconds: float) -> str:
    """The Go form of a duration, as the log shows it: `10s`, `1m30s`, `1h0m0s`, `1.5s`, `500ms`, `0s`."""
    if seconds <= 0:
        return "0s"
    nanoseconds = round(seconds * 1e9)
    for unit, size in (("ns", 1), ("µs", 1_000), ("ms", 1_000_000)):
        if nanoseconds < size * 1000 and size < 1_000_000_000:
            return _decimal(nanoseconds, size) + unit
    minutes, rest = divmod(nanoseconds, 60_000_000_000)
    hours, minutes = divmod(minutes, 60)
    shown = _decimal(rest, 1_000_000_000) + "s"
    if hours:
        return f"{hours}h{minutes}m{shown}"
    return f"{minutes}m{shown}" if minutes else shown


def _decimal(nanoseconds: int, size: int) -> str:
    whole_part, rest = divmod(nanoseconds, size)
    if not rest:
        return str(whole_part)
    return f"{whole_part}.{rest:0{len(str(size)) - 1}d}".rstrip("0")


def address(text: str) -> str:
    """An IP address to listen on; the empty text means all of them."""
    if text:
        try:
            ipaddress.ip_address(text)
        except ValueError:
            raise ValueError(f'must be an IP address such as 127.0.0.1 or ::, got "{text}"') from None
    return text


def text(text: str) -> str:
    """Any text without NUL, which no path or environment can hold."""
    if "\0" in text:
        raise ValueError("must not hold a NUL byte")
    return text
