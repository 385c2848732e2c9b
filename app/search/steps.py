"""Work in steps, so that whoever runs it decides when others get their turn.

A generator pauses after a few milliseconds of work: it yields None. What cannot pause, because it goes through a text
of any size in one piece, it does not do itself: it yields that as a `Job`, and goes on with its result. Who runs the
steps may have the job done in another thread meanwhile. So a job touches nothing that changes: texts, bodies on disk and
segments, but neither the catalog nor what is kept beside a segment.
"""

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any, Final, Generic, ParamSpec, TypeVar

__all__ = ["HEAVY", "Course", "Job", "Steps", "away", "done", "heavy"]

_T = TypeVar("_T")
_P = ParamSpec("_P")

HEAVY: Final = 32 * 1024
"""Bytes of text from which on work is given away: 2 ms at most, which is what changing threads is worth."""


class Job(Generic[_T]):
    """Work that is given away: calling it does it."""

    __slots__ = ("_work", "result")

    result: _T
    """What it gave, once it is done."""

    def __init__(self, work: Callable[[], _T]) -> None:
        self._work = work

    def __call__(self) -> None:
        self.result = self._work()


Steps = Generator[Any, None, _T]
"""Work in steps, and what it comes to. Yields None or a `Job`, which has to be done before the next step."""


class Course(Generic[_T]):
    """Steps in their course: iterate over it, and at the end it has what they come to."""

    __slots__ = ("_steps", "result")

    result: _T

    def __init__(self, steps: Steps[_T]) -> None:
        self._steps = steps

    def __iter__(self) -> Iterator[Job[Any] | None]:
        self.result = yield from self._steps


def away(work: Callable[_P, _T], *given: _P.args, **named: _P.kwargs) -> Steps[_T]:
    """What a function gives, called by whoever runs the steps."""
    job = Job(partial(work, *given, **named))
    yield job
    return job.result


def heavy(size: int, work: Callable[_P, _T], *given: _P.args, **named: _P.kwargs) -> Steps[_T]:
    """What a function gives that goes through so many bytes of text: called here if they are few, else given away."""
    if size < HEAVY:
        return work(*given, **named)
    return (yield from away(work, *given, **named))


def done(steps: Steps[_T]) -> _T:
    """What the steps come to, all at once."""
    course = Course(steps)
    for job in course:
        if job is not None:
            job()
    return course.result
