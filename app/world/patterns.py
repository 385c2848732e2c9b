"""Path patterns of the token file: globs compiled to one regular expression for a whole set (wire §7.2).

A glob is read as Go's `path.Match` reads it, with one `**` on top. Patterns come from the operator but paths come
from anyone, so matching must not backtrack: Go's matcher takes the leftmost place for what follows a star and never
comes back, and here each star with what follows it is an atomic group, which is the same rule. Only what follows the
last star of a path, or `/**/`, is looked for in more than one place, and that costs the path's length each time.
"""

import re
from collections.abc import Iterable

_CACHE_MAX = 16_384  # answers kept for each set of patterns: some 2 MB
_CACHED_PATH_MAX = 256  # longer paths are asked for once, by somebody who makes them up

_SPECIAL = re.compile(r"[*?\[\\]")


class BadPattern(ValueError):
    """A pattern that cannot be read; the text names it and says why."""


class Patterns:
    """A set of patterns, asked as one: does any of them match?"""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        """Raises `BadPattern`."""
        self.patterns = tuple(sorted(set(patterns)))
        self._match = re.compile("|".join(map(expression, self.patterns)) or "(?!)", re.DOTALL).match
        self._covered: dict[str, bool] = {}
        whole = (pattern for pattern in self.patterns if pattern.endswith("/**"))
        self._match_whole = re.compile("|".join(map(expression, whole)) or "(?!)", re.DOTALL).match
        self._heads = tuple((pattern, _SPECIAL.split(pattern, 1)[0]) for pattern in self.patterns)

    def matches(self, path: str) -> bool:
        """Whether a pattern matches this path in whole, as it stands."""
        return self._match(path) is not None

    def cover_below(self, directory: str) -> bool:
        """Whether one pattern matches every path below this directory, for sure: its `/**` begins there or above."""
        return self._match_whole(_top(directory)) is not None

    def may_match_below(self, directory: str) -> bool:
        """Whether a pattern might match a path below this directory; False is sure.

        What a pattern demands to the letter, up to its first special character, decides.
        """
        top = _top(directory)
        return any(
            head.startswith(top) or (head != pattern and top.startswith(head))
            for pattern, head in self._heads
        )

    def covers(self, path: str) -> bool:
        """Whether a pattern matches the path, or the path as a directory, that is with a slash (wire §7.4).

        Answers are remembered: one LOOKUP asks about thousands of paths, and the next one about the same.
        """
        if not self.patterns:
            return False
        known = self._covered.get(path)
        if known is not None:
            return known
        covered = self.matches(path) or (not path.endswith("/") and self.matches(path + "/"))
        if len(path) <= _CACHED_PATH_MAX:
            if len(self._covered) >= _CACHE_MAX:
                self._covered.clear()
            self._covered[path] = covered
        return covered


def _top(directory: str) -> str:
    """What every path below a directory begins with."""
    return directory.rstrip("/") + "/"


def expression(pattern: str) -> str:
    """The regular expression, without groups that capture and with its own end, of one pattern. Raises `BadPattern`."""
    head, stars, tail = pattern.partition("**")
    if not stars:
        return _glob(pattern, pattern) + r"\Z"
    if "**" in tail or tail.startswith("*"):
        raise BadPattern(f'bad pattern "{pattern}": only one ** is possible')
    if not head.endswith("/") or (tail and not tail.startswith("/")):
        raise BadPattern(f'bad pattern "{pattern}": ** must stand as /** at the end or as /**/ inside')
    prefix = _glob(head, pattern)
    return prefix if not tail else prefix + r"(?:.*/)?" + _glob(tail[1:], pattern) + r"\Z"


def _glob(glob: str, pattern: str) -> str:
    """Stars cut the glob into runs of single characters; every run but the last stays where it first matches."""
    first, *runs = _runs(glob, pattern)
    if not runs:
        return first
    return first + "".join([f"(?>[^/]*?{run})" for run in runs[:-1]]) + f"[^/]*{runs[-1]}"


def _runs(glob: str, pattern: str) -> list[str]:
    runs = [""]
    at = 0
    while at < len(glob):
        char = glob[at]
        at += 1
        if char == "*":
            runs.append("")
        elif char == "?":
            runs[-1] += "[^/]"
        elif char == "[":
            one, at = _class(glob, at, pattern)
            runs[-1] += one
        else:
            if char == "\\":
                if at == len(glob):
                    raise BadPattern(f'bad pattern "{pattern}": nothing follows the backslash')
                char = glob[at]
                at += 1
            runs[-1] += re.escape(char)
    return runs


def _class(glob: str, at: int, pattern: str) -> tuple[str, int]:
    """The expression of the class whose bracket opens before `at`, and where the class ends.

    As in Go, a class may match a slash, and a range whose ends are the wrong way round holds nothing.
    """
    negated = glob.startswith("^", at)
    at += negated
    members = ""
    first = at
    while not glob.startswith("]", at) or at == first:
        low, at = _member(glob, at, pattern)
        high = low
        if glob.startswith("-", at):
            high, at = _member(glob, at + 1, pattern)
        if low <= high:
            members += f"{re.escape(low)}-{re.escape(high)}"
    if not members:
        return ("." if negated else "(?!)"), at + 1
    return f"[{'^' * negated}{members}]", at + 1


def _member(glob: str, at: int, pattern: str) -> tuple[str, int]:
    """One character of a class, perhaps escaped, and where the next one begins; the class must go on."""
    if glob.startswith(("-", "]"), at):
        raise BadPattern(f'bad pattern "{pattern}": a {glob[at]} in brackets needs a backslash')
    at += glob.startswith("\\", at)
    if at + 1 >= len(glob):
        raise BadPattern(f'bad pattern "{pattern}": the bracket is not closed')
    return glob[at], at + 1
