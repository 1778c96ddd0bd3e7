"""Lower and lower plans by ejection (eject_core.py): for what the exact searches do worse within their time, hundreds
of buffers with gaps, or can not take, more fixed offsets than the search over orders has blocks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
AGAIN = 30  # times at most that the largest come first
AGAIN_SEED = 1_000_003  # from the seed of one to that of the next


@dataclass(frozen=True, slots=True)
class Descent:
    """Lower and lower heights. `stale`: steps per buffer after which one is given up; `lower`: by which part of it a
    height is lower than the plan before, the next part where that failed; `share`: of the nodes and of the time left;
    `largest`: as in `Limits`."""

    share: float
    stale: int
    lower: tuple[int, ...]
    largest: bool = False


LONG = Descent(0.5, 3000, (1000, 1000, 3000))
SHORT = Descent(0.3, 100, (1000, 1000, 1000), largest=True)


def suits(problem: Problem) -> bool:
    """Whether ejection comes before the exact searches; it accepts no aliases."""
    if any(buffer.offset is not None for buffer in problem.buffers):
        return True
    return len(problem.buffers) >= FEWEST and any(buffer.gaps for buffer in problem.buffers)


def ejected(problem: Problem, best: Plan, bound: Bound, account: Account) -> Plan:
    """The lowest plan of one open region found within a share of the budget, `best` if none is lower; the same on
    every machine where nodes alone limit it. MemoryError if tables find no room.

    One long descent; of many buffers, short ones in which the largest come first, from the same plan with other seeds.
    """
    buffers = [buffer for buffer in problem.buffers if buffer.size_bytes]
    heights = _Heights(
        problem, buffers, movables_of(buffers), bound, max(bound.bytes, account.budget.enough_bytes or 0)
    )
    first = _settled(problem, best, bound)
    share = _share_of(LONG, account)
    best = heights.descend(LONG, first, share, 0)
    account.nodes += share.nodes
    if len(buffers) < FEWEST:  # the exact search comes next
        return best
    share = _share_of(SHORT, account)
    for again in range(1, 1 + AGAIN):
        if best.peak_bytes <= heights.goal or share.spent():
            break
        best = min(best, heights.descend(SHORT, first, share, again * AGAIN_SEED), key=lambda plan: plan.peak_bytes)
    account.nodes += share.nodes
    return best


def _share_of(way: Descent, account: Account) -> Account:
    seconds = account.seconds_left()
    return Account(Budget(int(way.share * account.nodes_left()), None if seconds is None else way.share * seconds))


@dataclass(frozen=True, slots=True)
class _Heights:
    """Plans of a problem at lower and lower heights, down to `goal` bytes."""

    problem: Problem
    buffers: Sequence[Buffer]
    movables: Movables
    bound: Bound
    goal: int

    def descend(self, way: Descent, best: Plan, share: Account, seed: int) -> Plan:
        """The lowest plan that one descent from a plan finds."""
        failures, count = 0, len(self.buffers)
        while best.peak_bytes > self.goal and failures < len(way.lower) and not share.spent():
            height = max(self.goal, best.peak_bytes - max(1, best.peak_bytes // way.lower[failures]))
            steps = min(PER_NODE * share.nodes_left() // count, way.stale * count)
            limits = Limits(height, steps, best.peak_bytes + failures + seed, share.left().seconds, way.largest)
            found, steps = self._ejected(best, limits)
            share.nodes += 1 + steps * count // PER_NODE
            failures = 0 if found is not None else failures + 1
            best = best if found is None else found
        return best

    def _ejected(self, best: Plan, limits: Limits) -> tuple[Plan | None, int]:
        """A plan within the limits, if one is found, and the steps that were taken."""
        offsets = [best.offsets[buffer.name] for buffer in self.buffers]
        found, steps = eject_compiled(self.movables, offsets, limits) or eject_python(self.movables, offsets, limits)
        if found is None:
            return None, steps
        places = dict(zip((buffer.name for buffer in self.buffers), found, strict=True))
        made = make_plan(self.problem, {**best.offsets, **places}, NAME, bound=self.bound)
        return _settled(self.problem, made, self.bound), steps


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
