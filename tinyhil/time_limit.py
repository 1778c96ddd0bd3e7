"""Until when work may go on, where somebody has limited that: what takes long asks, and ends when the time is over.

For the thread that said so; time is that of the monotonic clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LIMIT: ContextVar[tuple[float, Callable[[], None]] | None] = ContextVar("time limit", default=None)


@contextmanager
def until(at: float | None, over: Callable[[], None]) -> Iterator[None]:
    """`check` calls `over` here, which raises, once the clock has passed `at`; None: never."""
    known = _LIMIT.set(None if at is None else (at, over))
    try:
        yield
    finally:
        _LIMIT.reset(known)


def check() -> None:
    """If the time is over, what was agreed on then: an exception, unless work is to go on all the same."""
    limit = _LIMIT.get()
    if limit is not None and time.monotonic() >= limit[0]:
        limit[1]()


def seconds_left(usual: float) -> float:
    """Of so many those that the limit leaves."""
    limit = _LIMIT.get()
    return usual if limit is None else max(0.0, min(usual, limit[0] - time.monotonic()))
