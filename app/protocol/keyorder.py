"""The order of keys in a metadata block (wire §3.2).

The "natural" order: runs of digits compare as numbers, letters and other characters keep apart. Digits are the
ASCII ones: every key a server writes is `[a-z0-9-]+` or one of its own.
"""

import functools

_DIGITS = frozenset("0123456789")


def compare(a: str, b: str) -> int:
    """Negative, zero or positive as key `a` goes before, equals or goes behind key `b` (wire §3.2)."""
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
    if at is None:
        return len(a) - len(b)
    x, y = a[at], b[at]
    if x.isalpha() and y.isalpha():
        return -1 if x < y else 1
    if x.isalpha() or y.isalpha():
        letter_first = at > 0 and a[at - 1] in _DIGITS
        return -1 if x.isalpha() == letter_first else 1
    run_a, run_b = _run(a, at), _run(b, at)
    if "0" in {x, y} and _digit_before(a, at):
        value_a, value_b = "1" + run_a, "1" + run_b
    else:
        value_a, value_b = run_a.lstrip("0"), run_b.lstrip("0")
    # Numbers without leading zeros compare by length, then as text: any length of run, no conversion.
    return _sign((len(value_a), value_a, len(run_a), x), (len(value_b), value_b, len(run_b), y))


natural_key = functools.cmp_to_key(compare)
"""The sort key of `compare`, for `sorted(keys, key=natural_key)`."""


def _run(text: str, start: int) -> str:
    end = start
    while end < len(text) and text[end] in _DIGITS:
        end += 1
    return text[start:end]


def _digit_before(text: str, at: int) -> bool:
    """Whether the run of digits that ends before `at` holds one that is not zero."""
    while at > 0 and text[at - 1] in _DIGITS:
        at -= 1
        if text[at] != "0":
            return True
    return False


def _sign(a: tuple[int, str, int, str], b: tuple[int, str, int, str]) -> int:
    return -1 if a < b else 1
