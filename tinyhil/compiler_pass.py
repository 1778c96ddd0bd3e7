"""A pass of the compiler: one kind, whether it reads operators or kernel calls, and whatever becomes smaller by it.

Passes of one stage stand in one tuple, over which that stage folds; `tinyhil/passes/every.py` is all of these tuples in
the order in which they run, which `hil plan --passes` prints. Where HIL_VERIFY is set, as in all tests and in debug
runs, what a pass has made is looked at before the next one gets it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

SETTING = "HIL_VERIFY"
MOST_FAULTS = 3  # that are named
Made = TypeVar("Made")
Seen = Callable[[str, Any], None]
_watcher: ContextVar[Seen | None] = ContextVar("watcher", default=None)


class Malformed(Exception):
    """A pass left something that the next stage can not rely on: a defect of the compiler, never of a model."""


@dataclass(frozen=True, slots=True)
class Stage(Generic[Made]):
    """What passes hand to each other: in words, and what is wrong with one of it."""

    needs: str
    faults: Callable[[Made], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Pass(Generic[Made]):
    """A pass by name: what it `needs`, what it `gives`. `apply`: of what a stage works on, and what that stage knows
    beside it, the same object if nothing changes; where the planner is to choose, all that it may choose from."""

    name: str
    summary: str
    needs: Stage[Made]
    gives: str
    apply: Callable[..., Made]


def fold(passes: Sequence[Pass[Made]], made: Made, *known: Any, without: Collection[str] = ()) -> Made:
    """What the passes make of it, one after the other; Malformed. `known`: what their stage knows beside it; `without`:
    names of those to leave out."""
    for one in passes:
        if one.name not in without:
            made = one.apply(made, *known)
            verified(made, one.name, one.needs.faults)
            watcher = _watcher.get()
            if watcher is not None:
                watcher(one.name, made)
    return made


def verified(made: Made, maker: str, faults: Callable[[Made], Iterable[str]]) -> None:
    """Where HIL_VERIFY is set, Malformed says what is wrong with it and which pass was the last."""
    if os.environ.get(SETTING):
        found = list(islice(faults(made), MOST_FAULTS))
        if found:
            raise Malformed(f"after {maker}: {'; '.join(found)}")


@contextmanager
def watched(seen: Seen) -> Iterator[None]:
    """Meanwhile `seen` gets the name of every pass that was carried out, and what it made."""
    token = _watcher.set(seen)
    try:
        yield
    finally:
        _watcher.reset(token)
