"""Of very many buffers: those that end above the bound are placed earlier the next time (squeaky wheel)."""

from __future__ import annotations

from time import monotonic

from tinyhil.memplan.account import Account
from tinyhil.memplan.bound import Bound
from tinyhil.memplan.placing import is_plain, place_in_order
from tinyhil.memplan.problem import Plan, Problem

ROUNDS = 12
NODES_PER_BUFFER = 4  # to place it: as much as some nodes of the exact search
SIMPLE_PLANNERS = 5  # have taken the time so far


def promoted(problem: Problem, best: Plan, bound: Bound, account: Account) -> Plan:
    """The lowest plan of some rounds over the order of sizes; no round that time would cut short."""
    if not is_plain(problem):
        return best
    goal, longest_s = max(bound.bytes, account.budget.enough_bytes or 0), account.elapsed() / SIMPLE_PLANNERS
    order, plan = sorted(problem.buffers, key=lambda buffer: -buffer.size_bytes), best
    for _ in range(ROUNDS):
        left = account.seconds_left()
        if best.peak_bytes <= goal or account.spent() or (left is not None and left < longest_s):
            break
        began = monotonic()
        places = {
            buffer.name: place / 2 - 1 if plan.offsets[buffer.name] + buffer.size_bytes > bound.bytes else place
            for place, buffer in enumerate(order)
        }
        order.sort(key=lambda buffer: places[buffer.name])
        plan = place_in_order(problem, order, best.planner, bound=bound)
        best = min(best, plan, key=lambda each: each.peak_bytes)
        account.nodes += NODES_PER_BUFFER * len(order)
        longest_s = max(longest_s, monotonic() - began)
    return best
