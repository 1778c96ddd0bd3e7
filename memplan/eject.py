"""Lower and lower plans by ejection (eject_core.py): for what the exact searches do worse within their time, hundreds
of buffers with gaps, or can not take, more fixed offsets than the search over orders has blocks for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyhil.memplan.account import Account
from tinyhil.memplan.bound import Bound
from tinyhil.memplan.compiled_cores import eject_compiled
from tinyhil.memplan.eject_core import Limits, Movables, eject_python
from tinyhil.memplan.placing import make_plan, place_in_order
from tinyhil.memplan.planner import Budget
from tinyhil.memplan.problem import Buffer, Plan, Problem

NAME = "ejection"
FEWEST = 100  # buffers with gaps, from which on this is better than the exact searches
PER_NODE = 1800  # buffers looked at in the time of a node
SHARE = 0.5  # of the nodes and of the time left
STALE = 3000  # steps per buffer, after which a height is given up
LOWER = (1000, 1000, 3000)  # a height is lower than the plan before by this part of it; the next where that failed


def suits(problem: Problem) -> bool:
    """Whether ejection comes before the exact searches; it accepts no aliases."""
    if any(buffer.offset is not None for buffer in problem.buffers):
        return True
    return len(problem.buffers) >= FEWEST and any(buffer.gaps for buffer in problem.buffers)


def ejected(problem: Problem, best: Plan, bound: Bound, account: Account) -> Plan:
    """The lowest plan of one open region found within a share of the budget, `best` if none is lower; the same on
    every machine where nodes alone limit it. MemoryError if tables find no room."""
    buffers = [buffer for buffer in problem.buffers if buffer.size_bytes]
    goal = max(bound.bytes, account.budget.enough_bytes or 0)
    movables = movables_of(buffers)
    seconds = account.seconds_left()
    share = Account(Budget(int(SHARE * account.nodes_left()), None if seconds is None else SHARE * seconds))
    best = _settled(problem, best, bound)
    failures = 0
    while best.peak_bytes > goal and failures < len(LOWER) and not share.spent():
        height = max(goal, best.peak_bytes - max(1, best.peak_bytes // LOWER[failures]))
        steps = min(PER_NODE * share.nodes_left() // len(buffers), STALE * len(buffers))
        limits = Limits(height, steps, best.peak_bytes + failures, share.left().seconds)
        offsets = [best.offsets[buffer.name] for buffer in buffers]
        found, steps = eject_compiled(movables, offsets, limits) or eject_python(movables, offsets, limits)
        share.nodes += 1 + steps * len(buffers) // PER_NODE
        if found is None:
            failures += 1
            continue
        failures = 0
        places = dict(zip((buffer.name for buffer in buffers), found, strict=True))
        best = _settled(problem, make_plan(problem, {**best.offsets, **places}, NAME, bound=bound), bound)
    account.nodes += share.nodes
    return best


def movables_of(buffers: Sequence[Buffer]) -> Movables:
    """What meets what, of buffers of some size each."""
    sections = np.array([section for buffer in buffers for section in buffer.sections], np.int64).reshape(-1, 2)
    start, end = sections[:, 0], sections[:, 1]
    first = np.cumsum([0, *(len(buffer.sections) for buffer in buffers)])[:-1]
    overlap = (start[:, None] < end[None, :]) & (start[None, :] < end[:, None])
    meets = np.logical_or.reduceat(np.logical_or.reduceat(overlap, first, axis=0), first, axis=1)
    np.fill_diagonal(meets, False)
    fixed = [buffer.offset is not None for buffer in buffers]
    return Movables([b.size_bytes for b in buffers], [b.alignment for b in buffers], fixed, meets.astype(np.uint8))


def _settled(problem: Problem, plan: Plan, bound: Bound) -> Plan:
    """Each buffer, the lowest first, as low as those below it permit."""
    order = sorted(problem.buffers, key=lambda buffer: plan.offsets[buffer.name])
    return min(plan, place_in_order(problem, order, NAME, bound=bound), key=lambda each: each.peak_bytes)
