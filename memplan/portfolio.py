"""The default: simple planners until one meets the lower bound, then the exact search with the rest of the budget.

The same problem and budget of nodes give the same plan on every machine.
"""

from __future__ import annotations

from dataclasses import replace

from tinyhil.errors import DoesNotFit
from tinyhil.memplan import best_fit, first_fit, greedy_by_area, greedy_by_duration, greedy_by_size
from tinyhil.memplan.blocks import accepted_groups
from tinyhil.memplan.bound import Bound, lower_bound
from tinyhil.memplan.branch_and_bound import checked_size, search_plan, unsupported
from tinyhil.memplan.exact import Account
from tinyhil.memplan.placing import make_plan
from tinyhil.memplan.planner import Budget, Planner
from tinyhil.memplan.problem import Plan, Problem
from tinyhil.memplan.several import fill_regions

NAME = "portfolio"
SIMPLE = (greedy_by_size, first_fit, greedy_by_duration, greedy_by_area, best_fit)


def run(problem: Problem, budget: Budget) -> Plan:
    if len(problem.regions) > 1:
        return replace(_several(problem, budget), planner=NAME)
    open_ended = problem.in_region(None, problem.regions[0].name)
    account = Account(budget)
    best = _best_simple(open_ended, budget)
    done = best.proven or best.peak_bytes <= (budget.enough_bytes or 0)
    if not done and not account.spent() and unsupported(problem) is None:
        found = search_plan(open_ended, account.left(), NAME)
        known = Bound(found.lower_bound_bytes, found.how, found.witness, found.witnesses)
        best = found if found.peak_bytes <= best.peak_bytes else claim(problem, best, known, found.statement)
    return checked_size(problem, replace(best, planner=NAME))


def _several(problem: Problem, budget: Budget) -> Plan:
    """The simple planners take the first region with room; where they fail or stay above the bound, fill by search."""
    best: Plan | None = None
    failure: DoesNotFit | None = None
    try:
        best = _best_simple(problem, budget)
    except DoesNotFit as error:
        failure = error
    if best is not None and (best.proven or best.peak_bytes <= (budget.enough_bytes or 0)):
        return best
    filled = fill_regions(problem, run, budget)
    if filled is not None and (best is None or filled.peak_bytes < best.peak_bytes):
        best = filled
    if best is None:
        assert failure is not None
        raise failure
    return best


def _best_simple(problem: Problem, budget: Budget) -> Plan:
    """The lowest plan of the simple planners, with and without the permitted aliases."""
    best: Plan | None = None
    failure: DoesNotFit | None = None
    account = Account(budget)
    bound = lower_bound(problem)
    variants = [problem]
    if problem.aliases and accepted_groups(problem):
        variants.append(Problem(problem.buffers, problem.regions))
    for variant in variants:
        for planner in SIMPLE:
            if best is not None and account.spent():
                return best
            try:
                plan = claim(problem, planner.run(variant, account.left()), bound)
            except DoesNotFit as error:
                failure = failure or error
                continue
            if best is None or plan.peak_bytes < best.peak_bytes:
                best = plan
            if best.proven or best.peak_bytes <= (budget.enough_bytes or 0):
                return best
    if best is None:
        assert failure is not None
        raise failure
    return best


def claim(problem: Problem, plan: Plan, bound: Bound, statement: str = "") -> Plan:
    """The same offsets as an answer to this problem, with this bound as certificate."""
    regions = dict(plan.regions)
    return make_plan(problem, dict(plan.offsets), plan.planner, regions, bound, statement)


PLANNER = Planner(NAME, run, "simple planners until the bound is met, then the exact search", exact=True)
