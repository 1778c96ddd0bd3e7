"""Hill climbing over orders: swap a buffer that reaches the peak with another, keep what is not worse.

The orders are placed first-fit. The random numbers have a fixed seed, so the plan is the same every time.
"""

from __future__ import annotations

import random
from time import monotonic

from tinyhil.memplan.bound import lower_bound
from tinyhil.memplan.placing import place_in_order
from tinyhil.memplan.planner import Budget, Planner
from tinyhil.memplan.problem import Buffer, Plan, Problem

NAME = "hill-climb"
TRIES = 300
NODES_PER_TRY = 1000  # one placing of all buffers costs about as much as this many nodes of the exact search


def run(problem: Problem, budget: Budget) -> Plan:
    """Change the order of placing while the peak falls, until the bound or the budget."""
    chance = random.Random(1)
    order = sorted(problem.buffers, key=lambda buffer: (-buffer.size_bytes, buffer.start))
    bound = lower_bound(problem)
    began = monotonic()
    best = place_in_order(problem, order, NAME, bound=bound, seconds=budget.seconds)
    for _ in range(min(TRIES, budget.nodes // NODES_PER_TRY)):
        if best.peak_bytes <= max(bound.bytes, budget.enough_bytes or 0) or len(order) < 2:
            break
        left = None if budget.seconds is None else began + budget.seconds - monotonic()
        if left is not None and left <= 0:
            break
        changed = _swapped(order, best, chance)
        plan = place_in_order(problem, changed, NAME, bound=bound, seconds=left)
        if plan.peak_bytes <= best.peak_bytes:
            best, order = plan, changed
    return best


def _swapped(order: list[Buffer], plan: Plan, chance: random.Random) -> list[Buffer]:
    highest = max(plan.offsets[buffer.name] + buffer.size_bytes for buffer in order)
    at_peak = [i for i, buffer in enumerate(order) if plan.offsets[buffer.name] + buffer.size_bytes == highest]
    one, other = chance.choice(at_peak), chance.randrange(len(order))
    changed = list(order)
    changed[one], changed[other] = changed[other], changed[one]
    return changed


PLANNER = Planner(NAME, run, "swaps in the order of placing, kept when not worse")
