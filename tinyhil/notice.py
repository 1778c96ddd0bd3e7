"""Lines for whoever waits: where one goes, and who is told what something waits for, set once by who listens, so that
the way there needs no parameter for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Say = Callable[[str], None]  # takes a line for the user
WARNING = "warning: "  # how a line begins without which figures are misread: sweeps keep it beside them
_listener: ContextVar[Say | None] = ContextVar("listener", default=None)


@contextmanager
def telling(say: Say) -> Iterator[None]:
    """Meanwhile `say` gets the lines."""
    token = _listener.set(say)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(line: str) -> None:
    """To whoever listens, if anybody does."""
    say = _listener.get()
    if say is not None:
        say(line)
