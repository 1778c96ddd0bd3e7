"""The exact planner: branch and bound over canonical positions (search_core), part by part between cut points.

It plans one region. With aliases it plans with them accepted as far as they go together, with
some of them and with none, and keeps the best; a proof then needs the peak to reach the bound, which searches of
buffers that may not share bytes raise beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

from tinyhil.errors import DoesNotFit
from tinyhil.memplan import greedy_by_area, greedy_by_duration, greedy_by_size
from tinyhil.memplan.account import Account, Solved
from tinyhil.memplan.blocks import Block, Groups, accepted_groups, make_blocks, peak_step, split
from tinyhil.memplan.bound import Bound, lower_bound
from tinyhil.memplan.cores import as_set, parts_apart
from tinyhil.memplan.exact_search import MOST_BLOCKS, minimise
from tinyhil.memplan.placing import make_plan
from tinyhil.memplan.planner import Budget, Planner
from tinyhil.memplan.problem import Alias, Plan, Problem, ProblemError

NAME = "branch-and-bound"
FEW_ALIASES, MANY_ALIASES = 4, 40
NODES_APART = 20_000  # to raise the bound before aliases are tried
STARTS = (greedy_by_size, greedy_by_area, greedy_by_duration)
STARTS_CACHED = 4096  # parts of plans; a few kB each


@dataclass(frozen=True, slots=True)
class Outcome:
    """Offsets by name, and the bound that the searches proved for these groups of aliases."""

    offsets: dict[str, int]
    peak: int
    lower: int
    nodes: int


def run(problem: Problem, budget: Budget) -> Plan:
    """Exact search within the budget; ProblemError for what it can not plan."""
    reason = unsupported(problem)
    if reason:
        raise ProblemError(f"planner {NAME}: {reason}; the portfolio and the greedy planners can")
    return checked_size(problem, search_plan(problem, Account(budget), NAME))


def unsupported(problem: Problem) -> str | None:
    """Why the exact search can not plan this; None if it can."""
    if len(problem.regions) > 1:
        return f"it can not plan {len(problem.regions)} regions"
    joined = {name for alias in problem.aliases for name in (alias.first, alias.second)}
    for buffer in problem.buffers:
        if buffer.offset is not None and buffer.name in joined:
            return f"it can not keep the fixed offset of a buffer with an alias ({buffer.name!r})"
    if len(problem.buffers) > MOST_BLOCKS:
        return f"it can not plan more than {MOST_BLOCKS} buffers"
    return None


def search_plan(problem: Problem, account: Account, planner: str) -> Plan:
    """The best plan in an arena without a limit, with its certificate."""
    bound, claim = _bound_apart(problem, lower_bound(problem), account)
    variants = _variants(problem)
    best: Outcome | None = None
    for groups in variants:
        outcome = _solve(problem, groups, bound.bytes, account)
        if best is None or outcome.peak < best.peak:
            best = outcome
        if best.peak <= max(bound.bytes, account.budget.enough_bytes or 0):
            break
    assert best is not None
    if not problem.aliases and best.lower > bound.bytes:
        bound, claim = _searched(problem, best, account)
    offsets = {buffer.name: buffer.offset or 0 for buffer in problem.buffers} | best.offsets
    return make_plan(problem, offsets, planner, bound=bound, statement=claim)


def _bound_apart(problem: Problem, bound: Bound, account: Account) -> tuple[Bound, str]:
    """A better bound from buffers that may not share bytes, if aliases are permitted; what was exhausted for it."""
    claim = ""
    for part in parts_apart(problem, bound.bytes) if problem.aliases else ():
        share = Account(replace(account.budget, nodes=min(NODES_APART, account.nodes_left())))
        outcome = _solve(part, (), bound.bytes, share)
        account.nodes += share.nodes
        if outcome.lower > bound.bytes:
            bound, claim = _searched(part, outcome, account)
    return bound, claim


def _searched(problem: Problem, outcome: Outcome, account: Account) -> tuple[Bound, str]:
    """The bound of an exhausted search with its certificate: few buffers that can not lie lower, or a statement."""
    bound = as_set(problem, Bound(outcome.lower, "search"), account)
    step = peak_step(make_blocks(problem))
    statement = (
        f"no plan below {outcome.lower} B: exhausted search of all canonical plans of {len(problem.buffers)} buffers, "
        f"{outcome.nodes} nodes (peaks of canonical plans are multiples of {step} B)"
    )
    return bound, statement


def _variants(problem: Problem) -> list[Groups]:
    """Which aliases to accept: all that go together, those in place alone, all but one where they are not many, any
    where they are few; none."""
    aliases = problem.aliases
    in_place = tuple(alias for alias in aliases if alias.shift_bytes == 0)
    choices: list[tuple[Alias, ...]] = [aliases, in_place]
    if len(aliases) <= FEW_ALIASES:
        choices += [choice for count in range(len(aliases) - 1, 0, -1) for choice in combinations(aliases, count)]
    elif len(aliases) <= MANY_ALIASES:
        choices += combinations(aliases, len(aliases) - 1)
    found: dict[tuple[tuple[tuple[str, int], ...], ...], Groups] = {}
    for choice in choices:
        accepted = frozenset(choice)
        groups = accepted_groups(problem, accepted.__contains__)
        found.setdefault(tuple(tuple(sorted(group.items())) for group in groups), groups)
    found.setdefault((), ())
    return list(found.values())


def checked_size(problem: Problem, plan: Plan) -> Plan:
    """The plan, if its one region is large enough for it. DoesNotFit if the region is smaller."""
    limit = problem.regions[0].size_bytes
    if limit is None or plan.peak_bytes <= limit:
        return plan
    if plan.lower_bound_bytes > limit:
        known = f"no plan can need less than {plan.lower_bound_bytes} B"
    else:
        known = f"the lower bound is {plan.lower_bound_bytes} B: a longer search may find room"
    raise DoesNotFit(
        f"memory plan: {plan.peak_bytes} B > {limit} B of region {problem.regions[0].name!r}; {known}; "
        "use a lower width or a larger memory"
    )


def _solve(problem: Problem, groups: Groups, floor: int, account: Account) -> Outcome:
    """Plan the parts between cut points; no part needs to be lower than the highest bound of any."""
    offsets: dict[str, int] = {}
    lower, peak = floor, 0
    enough = account.budget.enough_bytes or 0
    starts = [(part, _start(tuple(part))) for part in split(make_blocks(problem, groups))]
    goal = max([floor, *(solved.lower for _, solved in starts)])
    for part, solved in sorted(starts, key=lambda pair: -pair[1].peak):
        if solved.peak > max(goal, enough):
            solved = minimise(part, solved, max(goal, enough), account)
        lower, peak = max(lower, solved.lower), max(peak, solved.peak)
        goal = max(goal, lower)
        for block, offset in zip(part, solved.offsets, strict=True):
            offsets.update((name, offset + shift) for name, shift in zip(block.names, block.shifts, strict=True))
    return Outcome(offsets, peak, lower, account.nodes)


@lru_cache(STARTS_CACHED)
def _start(part: tuple[Block, ...]) -> Solved:
    """The best of some greedy plans of this part, each block one rectangle of its largest size, and its bound. Plans
    with other aliases, and those of a search with other widths, have most parts in common."""
    buffers = tuple(block.as_buffer() for block in part)
    problem = Problem(buffers)
    plans = [planner.run(problem, Budget()) for planner in STARTS]
    best = min(plans, key=lambda plan: plan.peak_bytes)
    loose = any(len({size for _, _, size in block.pieces}) > 1 for block in part)
    lower = _load(part) if loose else best.lower_bound_bytes
    return Solved(tuple(best.offsets[block.names[0]] for block in part), best.peak_bytes, lower)


def _load(part: Sequence[Block]) -> int:
    pieces = [piece for block in part for piece in block.pieces]
    times = {start for start, _, _ in pieces}
    return max(sum(size for start, end, size in pieces if start <= time < end) for time in times)


PLANNER = Planner(NAME, run, "exact search over canonical positions", exact=True)
