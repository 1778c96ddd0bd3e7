"""Of very many buffers: laid from below, row by row, so that least is lost at instants at which most is live.

Where the load is well below the bound, bytes may be lost. Sections weigh the more the closer their load is to it, and
each buffer is chosen for the weight that it covers, less what is lost beside it (skyline_core.py). Gaps of a buffer
count as live.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from tinyhil.memplan.account import Account
from tinyhil.memplan.bound import Bound
from tinyhil.memplan.compiled_cores import fill_compiled
from tinyhil.memplan.placing import is_plain, make_plan
from tinyhil.memplan.problem import Buffer, Plan, Problem
from tinyhil.memplan.skyline_core import Crowd, Numbers, Weighing, fill_python

NAME = "skyline"
# How much heavier the fullest section is than an empty one, the share of its load within which that falls off, what
# bytes lost cost, and the width of a gap that may be filled, in mean live ranges: one plan each, in this order.
SETTINGS = (
    (100.0, 0.04, 1.0, 1.0),
    (300.0, 0.03, 4.0, 1.0),
    (100.0, 0.04, 4.0, 1.0),
    (30.0, 0.04, 2.0, 1.0),
    (100.0, 0.03, 4.0, 0.3),
    (300.0, 0.02, 4.0, 1.0),
)
NODES_PER_BUFFER = 1


def can_fill(problem: Problem) -> bool:
    """Whether skylines can plan this: one region without a limit, no aliases or fixed offsets."""
    return is_plain(problem) and any(buffer.size_bytes for buffer in problem.buffers)


def skylines(problem: Problem, bound: Bound, account: Account) -> Iterator[Plan]:
    """Plans, each lower than the one before, until the settings, nodes or seconds are used up; the first one takes no
    nodes, and where there is a compiled core it comes even if no seconds are left."""
    buffers, crowd = crowd_of([buffer for buffer in problem.buffers if buffer.size_bytes])
    lowest, goal = sum(buffer.size_bytes + buffer.alignment for buffer in buffers), account.budget.enough_bytes or 0
    nodes, longest_s = NODES_PER_BUFFER * len(buffers), 0.0
    for index, setting in enumerate(SETTINGS):
        left, began = account.seconds_left(), monotonic()
        if index:
            if account.nodes_left() <= nodes or (left is not None and left < longest_s):
                return
            account.nodes += nodes
        offsets = _fill(crowd, weighing(crowd, *setting), left)
        if offsets is None:
            return
        peak = int((offsets + crowd.size).max())
        longest_s = max(longest_s, monotonic() - began)
        if peak < lowest:
            lowest = peak
            named = dict.fromkeys((buffer.name for buffer in problem.buffers), 0)
            named.update(zip((buffer.name for buffer in buffers), offsets.tolist(), strict=True))
            yield make_plan(problem, named, NAME, bound=bound)
        if lowest <= max(bound.bytes, goal):
            return


def _fill(crowd: Crowd, weights: Weighing, seconds: float | None) -> Numbers | None:
    """None: the Python form would take longer than that."""
    placed = fill_compiled(crowd, weights)
    return fill_python(crowd, weights, seconds) if placed is None else placed


def crowd_of(buffers: Sequence[Buffer]) -> tuple[list[Buffer], Crowd]:
    """The buffers, none of them empty, in the order of the arrays. A section is what lies between two instants at
    which something ends: what is live in it meets."""
    times = np.unique([b.end for b in buffers])
    first = np.searchsorted(times, [b.start for b in buffers], "right")
    last = np.searchsorted(times, [b.end for b in buffers]) + 1
    order = np.lexsort((-last, first))
    first, last = first[order], last[order]
    by_last = np.lexsort((first, -last))
    ordered, sections = [buffers[place] for place in order], np.arange(len(times) + 1)
    sizes = [(b.size_bytes, b.alignment) for b in ordered]
    size, alignment = np.ascontiguousarray(np.array(sizes, np.int64).T)
    from_first = np.searchsorted(first, sections)
    from_last = np.searchsorted(-last[by_last], -sections)
    return ordered, Crowd(first, last, size, alignment, by_last, from_first, from_last)


def weighing(crowd: Crowd, heavier: float, share: float, gap_cost: float, fillable: float) -> Weighing:
    """Weights of the sections by their loads, from 1 to 1 + `heavier`; by sums, products and quotients alone, which
    are the same on every machine."""
    live = _live(crowd)
    falling = 1.0 + (live.max() - live) / (8.0 * share * live.max())
    for _ in range(3):  # to the power of 8: about exponential
        falling = falling * falling
    before = np.concatenate(([0.0], np.cumsum(1.0 + heavier / falling)))
    mean = float((crowd.last - crowd.first).sum()) / len(crowd.first)
    return Weighing(before, gap_cost, fillable * mean)


def _live(crowd: Crowd) -> NDArray[np.float64]:
    """Bytes live in each section."""
    changes = np.zeros(len(crowd.from_first), np.int64)
    np.add.at(changes, crowd.first, crowd.size)
    np.subtract.at(changes, crowd.last, crowd.size)
    return np.cumsum(changes[:-1]).astype(np.float64)
