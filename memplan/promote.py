"""Of very many buffers: those that end above the bound are placed earlier the next time (squeaky wheel)."""

from __future__ import annotations

from time import monotonic

from tinyhil.memplan.account import Account
from tinyhil.memplan.bound import Bound
from tinyhil.memplan.placing import is_plain, place_in_order
from tinyhil.memplan.problem import Buffer, Plan, Problem

MOST_STALE = 12  # rounds without a lower plan
NODES_PER_BUFFER = 4  # to place it: as much as some nodes of the exact search
SIZE_POWER = 8  # one of the first orders is by size to this power times duration


def promoted(problem: Problem, best: Plan, bound: Bound, account: Account) -> Plan:
    """The lowest plan of some rounds from each of two orders; no round that the budget would cut short. So far the
    account has paid for one placing."""
    if not is_plain(problem):
        return best
    longest_s = account.elapsed()
    by_size = sorted(problem.buffers, key=lambda buffer: -buffer.size_bytes)
    for order in (sorted(by_size, key=_weight, reverse=True), _earlier(by_size, best, bound)):
        best, longest_s = _rounds(problem, order, best, bound, account, longest_s)
    return best


def _rounds(
    problem: Problem, order: list[Buffer], best: Plan, bound: Bound, account: Account, longest_s: float
) -> tuple[Plan, float]:
    """The lowest plan and the time of the longest round."""
    goal, stale, nodes = max(bound.bytes, account.budget.enough_bytes or 0), 0, NODES_PER_BUFFER * len(order)
    while stale < MOST_STALE and best.peak_bytes > goal and account.nodes_left() > nodes:
        left, began = account.seconds_left(), monotonic()
        if left is not None and left < longest_s:
            break
        plan = place_in_order(problem, order, best.planner, bound=bound)
        stale = 0 if plan.peak_bytes < best.peak_bytes else stale + 1
        best = min(best, plan, key=lambda each: each.peak_bytes)
        order = _earlier(order, plan, bound)
        account.nodes += nodes
        longest_s = max(longest_s, monotonic() - began)
    return best, longest_s


def _weight(buffer: Buffer) -> int:
    return buffer.size_bytes**SIZE_POWER * (buffer.end - buffer.start)


def _earlier(order: list[Buffer], plan: Plan, bound: Bound) -> list[Buffer]:
    """What ends above the bound in half its place."""
    places = {
        buffer.name: place / 2 - 1 if plan.offsets[buffer.name] + buffer.size_bytes > bound.bytes else place
        for place, buffer in enumerate(order)
    }
    return sorted(order, key=lambda buffer: places[buffer.name])
