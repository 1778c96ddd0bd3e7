"""The default: simple planners until one meets the lower bound, then the exact search with the rest of the budget, then
CP-SAT where it is installed.

The same problem and budget of nodes give the same plan on every machine with the same solver, or all without.
"""

from __future__ import annotations

from dataclasses import replace
from time import monotonic

from tinyhil.errors import DoesNotFit
from tinyhil.memplan import best_fit, cp_sat, first_fit, greedy_by_area, greedy_by_duration, greedy_by_size
from tinyhil.memplan.account import Account
from tinyhil.memplan.blocks import accepted_groups
from tinyhil.memplan.bound import Bound, lower_bound
from tinyhil.memplan.branch_and_bound import checked_size, search_plan, unsupported
from tinyhil.memplan.placing import make_plan
from tinyhil.memplan.planner import Budget, Planner
from tinyhil.memplan.problem import Plan, Problem
from tinyhil.memplan.promote import promoted
from tinyhil.memplan.several import fill_regions

NAME = "portfolio"
MOST_FOR_SOLVER, LEAST_NODES = 120, 100_000  # searches of widths, which plan by the thousand, give fewer nodes
SOLVER_EFFORT = 2.0  # deterministic seconds, some more real ones
SIMPLE = (greedy_by_size, first_fit, greedy_by_duration, greedy_by_area, best_fit)


def run(problem: Problem, budget: Budget) -> Plan:
    """The best plan of several planners within the budget, over one region or several."""
    if len(problem.regions) > 1:
        return replace(_several(problem, budget), planner=NAME)
    open_ended = problem.in_region(None, problem.regions[0].name)
    account = Account(budget)
    best = _best_simple(open_ended, budget)
    done = best.proven or best.peak_bytes <= (budget.enough_bytes or 0)
    if not done and unsupported(problem) is not None:
        bound = Bound(best.lower_bound_bytes, best.how, best.witness, best.witnesses)
        best = promoted(open_ended, best, bound, account)
    elif not done and not account.spent():
        found = search_plan(open_ended, _share(problem, account.left()), NAME)
        known = Bound(found.lower_bound_bytes, found.how, found.witness, found.witnesses)
        best = found if found.peak_bytes <= best.peak_bytes else claim(open_ended, best, known, found.statement)
        if _asks_solver(problem, budget, best, account):
            best = cp_sat.improved(open_ended, best, account, SOLVER_EFFORT)
    return checked_size(problem, replace(best, planner=NAME))


def _asks_solver(problem: Problem, budget: Budget, best: Plan, account: Account) -> bool:
    """Where OR-Tools is installed, of few buffers that took the whole of an ample budget of nodes."""
    done = best.proven or best.peak_bytes <= (budget.enough_bytes or 0)
    seconds = account.seconds_left()
    return not done and (seconds is None or seconds > 0) and _may_ask(problem, budget)


def _may_ask(problem: Problem, budget: Budget) -> bool:
    return len(problem.buffers) <= MOST_FOR_SOLVER and budget.nodes >= LEAST_NODES and cp_sat.is_installed()


def _share(problem: Problem, left: Budget) -> Budget:
    """Of the seconds left half are the solver's."""
    if left.seconds is None or not _may_ask(problem, left):
        return left
    return replace(left, seconds=left.seconds / 2)


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
    longest_s = 0.0
    for variant in variants:
        for planner in SIMPLE:
            left = account.seconds_left()
            if best is not None and (account.spent() or (left is not None and left < longest_s)):
                return best  # cut short it would not be lower
            began = monotonic()
            try:
                plan = claim(problem, planner.run(variant, account.left()), bound)
            except DoesNotFit as error:
                failure = failure or error
                continue
            finally:
                longest_s = max(longest_s, monotonic() - began)
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
