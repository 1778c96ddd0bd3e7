"""Several regions: each filled in turn, in order of speed, with the exact search inside of each.

A region takes buffers, in one of some orders, as long as the load of what it holds fits; then they are packed by the
portfolio. What does not pack goes on to the next region. Regions also take turns by size: what fits into one memory
alone must find it free. No plan is proven unless it meets the load: which buffers share a region is a choice that
nothing here exhausts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tinyhil.errors import DoesNotFit
from tinyhil.memplan.account import Account
from tinyhil.memplan.bound import Bound, lower_bound
from tinyhil.memplan.placing import make_plan
from tinyhil.memplan.planner import Budget
from tinyhil.memplan.problem import Buffer, Plan, Problem, Region

MOST_BUFFERS = 400  # beyond: simple planners alone
FIRST_SHARE, SHARE_GROWTH = 700, 4  # nodes of the search in one region
MOST_DROPPED = 12  # buffers that a region gives up again because they do not pack

Pack = Callable[[Problem, Account], Plan]
Key = Callable[[Buffer], tuple[int, ...]]

ORDERS: tuple[Key, ...] = (
    lambda b: (-b.size_bytes, b.start),
    lambda b: (-b.size_bytes * (b.end - b.start), b.start),
    lambda b: (b.start - b.end, -b.size_bytes),
    lambda b: (b.start, -b.size_bytes),
)


def fill_regions(problem: Problem, pack: Pack, account: Account) -> Plan | None:
    """The plan of least total peak that filling finds; None if none fits. `pack` plans one region."""
    if len(problem.buffers) > MOST_BUFFERS:
        return None
    bound = lower_bound(problem)
    best: Plan | None = None
    by_size = sorted(problem.regions, key=lambda r: -(r.size_bytes if r.size_bytes is not None else 1 << 62))
    turns = list(dict.fromkeys((problem.regions, tuple(by_size))))
    for share in _shares(account.left(), len(turns) * len(ORDERS) * len(problem.regions)):
        for regions, order in product(turns, ORDERS):
            found = _fill(problem, regions, sorted(problem.buffers, key=order), _Packing(pack, share, account))
            if found is None:
                continue
            plan = _joined(problem, found, bound)
            if best is None or plan.peak_bytes < best.peak_bytes:
                best = plan
            if best.proven or best.peak_bytes <= (account.budget.enough_bytes or 0):
                return best
    return best


def _shares(budget: Budget, parts: int) -> list[Budget]:
    """Of every part, small ones first: what a budget tries a larger one tries, too, so its plan is no worse."""
    nodes, following = [0], FIRST_SHARE
    while sum(nodes) + following <= budget.nodes // parts:
        nodes.append(following)
        following *= SHARE_GROWTH
    seconds = None if budget.seconds is None else budget.seconds / parts / len(nodes)
    return [Budget(each, seconds) for each in nodes]


@dataclass(frozen=True, slots=True)
class _Packing:
    """What plans one region, with how much work each may take, and the account that pays."""

    pack: Pack
    share: Budget
    account: Account


def _fill(problem: Problem, regions: Sequence[Region], order: Sequence[Buffer], packing: _Packing) -> list[Plan] | None:
    """One plan per region; None if something is left over."""
    left = list(order)
    plans = []
    for region in regions:
        taken = _take(problem, region, left)
        plan = _packed(problem, region, taken, packing)
        if plan is None:
            return None
        plans.append(plan)
        left = [buffer for buffer in left if buffer.name not in plan.offsets]
    return None if left else plans


def _take(problem: Problem, region: Region, left: Sequence[Buffer]) -> list[Buffer]:
    """What belongs here, then in order whatever keeps the load within the region."""
    taken = [buffer for buffer in left if buffer.region == region.name]
    free = [buffer for buffer in left if buffer.region is None]
    if region.size_bytes is None:
        return taken + free
    for buffer in free:
        if buffer.size_bytes > region.size_bytes:
            continue
        if lower_bound(_part(problem, region, [*taken, buffer], open_ended=True)).bytes <= region.size_bytes:
            taken.append(buffer)
    return taken


def _packed(problem: Problem, region: Region, taken: list[Buffer], packing: _Packing) -> Plan | None:
    """A plan of these buffers, or of all but the last few that may go elsewhere; three quarters of what is left of the
    share are for each try."""
    share = Account(packing.share)
    for _ in range(MOST_DROPPED):
        attempt = Account(replace(share.left(), nodes=-(-3 * share.nodes_left() // 4)))
        try:
            return packing.pack(_part(problem, region, taken), attempt)
        except DoesNotFit:
            if not taken or taken[-1].region is not None:
                return None
            taken = taken[:-1]
        finally:
            share.nodes += attempt.nodes
            packing.account.nodes += attempt.nodes
    return None


def _part(problem: Problem, region: Region, buffers: Sequence[Buffer], open_ended: bool = False) -> Problem:
    """These buffers and their aliases in this region alone."""
    names = {buffer.name for buffer in buffers}
    aliases = tuple(alias for alias in problem.aliases if {alias.first, alias.second} <= names)
    limit = None if open_ended else region.size_bytes
    return Problem(tuple(b for b in problem.buffers if b.name in names), (replace(region, size_bytes=limit),), aliases)


def _joined(problem: Problem, plans: Sequence[Plan], bound: Bound) -> Plan:
    offsets = {name: offset for plan in plans for name, offset in plan.offsets.items()}
    regions = {name: region for plan in plans for name, region in plan.regions.items()}
    return make_plan(problem, offsets, "portfolio", regions, bound)
