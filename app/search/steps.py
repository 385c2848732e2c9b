"""Work in steps, so that whoever runs it decides when others get their turn.

A generator pauses after a few milliseconds of work: it yields None. What cannot pause, because it goes through a text
of any size in one piece, it does not do itself: it yields that as a function without arguments and is sent the result.
Who runs the steps may have the function called in another thread meanwhile. So such a function touches nothing that
changes: texts, bodies on disk and segments, but neither the catalog nor what is kept beside a segment.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

__all__ = ["HEAVY", "Steps", "done", "heavy"]

_T = TypeVar("_T")
_P = ParamSpec("_P")

HEAVY: Final = 32 * 1024
"""Bytes of text from which on work is given away: 2 ms at most, which is what changing threads is worth."""

Steps = Generator[Any, Any, _T]
"""Work in steps, and what it comes to. Yields None or a function, and is sent what that gives."""


def heavy(size: int, work: Callable[_P, _T], *given: _P.args, **named: _P.kwargs) -> Steps[_T]:
    """What a function gives that goes through so many bytes of text: called here if they are few, else given away."""
    if size < HEAVY:
        return work(*given, **named)
    result: _T = yield partial(work, *given, **named)
    return result


def done(steps: Steps[_T]) -> _T:
    """What the steps come to, all at once."""
    sent: Any = None
    while True:
        try:
            work = steps.send(sent)
        except StopIteration as end:
            result: _T = end.value
            return result
        sent = None if work is None else work()
