"""The default: simple planners until one meets the lower bound, then the exact searches and, where it is installed,
CP-SAT; very many buffers are laid from below, or in rounds that promote some.

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
from tinyhil.memplan.compiled_cores import MOST_ORDERED
from tinyhil.memplan.eject import ejected, suits
from tinyhil.memplan.exact_search import MOST_BLOCKS
from tinyhil.memplan.placing import make_plan
from tinyhil.memplan.planner import Budget, Planner
from tinyhil.memplan.problem import Plan, Problem
from tinyhil.memplan.promote import promoted
from tinyhil.memplan.several import fill_regions
from tinyhil.memplan.skyline import can_fill, skylines

NAME = "portfolio"
MOST_FOR_SOLVER = 120  # buffers
SEARCHED_FIRST = 500_000  # nodes; searches of widths, which plan by the thousand, have fewer and never ask the solver
AFTER_EJECTION = 4_000  # nodes, of hundreds of buffers with gaps: some seconds
SOLVER_EFFORT, SOLVER_NODES = 2.0, 500_000  # its deterministic seconds, and as many nodes
FROM_BELOW = 500  # buffers: with fewer the exact searches are as quick
SLOWER_BY_SIZE = 2.0  # times what a plan from below takes, with all that comes before it
SIMPLE = tuple(one.PLANNER for one in (greedy_by_size, first_fit, greedy_by_duration, greedy_by_area, best_fit))


def run(problem: Problem, budget: Budget) -> Plan:
    """The best plan of several planners within the budget, over one region or several."""
    return plan_within(problem, Account(budget))


def plan_within(problem: Problem, account: Account) -> Plan:
    """The same, charged to the account."""
    if len(problem.regions) > 1:
        return replace(_several(problem, account), planner=NAME)
    open_ended = problem.in_region(None, problem.regions[0].name)
    if len(problem.buffers) > MOST_BLOCKS:
        best = _of_very_many(open_ended, account)
    else:
        bound = lower_bound(open_ended)
        best = _best_simple(open_ended, account, bound)
        if len(problem.buffers) >= FROM_BELOW and can_fill(open_ended) and not _is_done(best, account):
            best = min((best, *skylines(open_ended, bound, account)), key=lambda each: each.peak_bytes)
        ejects = suits(open_ended)
        if ejects and not _is_done(best, account):
            best = claim(open_ended, ejected(open_ended, best, bound, account), bound)
        if not _is_done(best, account) and unsupported(problem) is None:
            most = AFTER_EJECTION if ejects and len(problem.buffers) > MOST_ORDERED else account.nodes_left()
            best = _exact(open_ended, best, Account(replace(account.left(), nodes=min(most, account.nodes_left()))))
    return checked_size(problem, replace(best, planner=NAME))


def _of_very_many(problem: Problem, account: Account) -> Plan:
    """From below, and by size. If that is lower, what promotes buffers follows, which needs the most time, and the
    other simple planners; else, from below in other ways."""
    bound = lower_bound(problem)
    lower = skylines(problem, bound, account) if can_fill(problem) else iter(())
    best = next(lower, None)
    left, by_size_s = account.seconds_left(), SLOWER_BY_SIZE * account.elapsed()
    if best is not None and (_is_done(best, account) or (left is not None and left < by_size_s)):
        return best
    by_size = _best_simple(problem, account, bound, SIMPLE[:1])
    if best is not None and best.peak_bytes <= by_size.peak_bytes:
        return min((best, *lower), key=lambda each: each.peak_bytes)
    one_s, best = account.elapsed(), by_size
    if not _is_done(best, account):
        best = promoted(problem, best, bound, account)
    left = account.seconds_left()
    if _is_done(best, account) or (left is not None and left < one_s):
        return best
    return _best_simple(problem, account, bound, SIMPLE[1:], best)


def _exact(problem: Problem, best: Plan, account: Account) -> Plan:
    """The exact searches; where OR-Tools is installed it is asked in between, of few buffers and in an ample budget."""
    asks = _may_ask(problem, account.budget)
    best = _searched(problem, best, account, SEARCHED_FIRST if asks else account.nodes_left())
    if asks and not _is_done(best, account):
        best = cp_sat.improved(problem, best, account, SOLVER_EFFORT)
        account.nodes += SOLVER_NODES
        best = _searched(problem, best, account, account.nodes_left())
    return best


def _searched(problem: Problem, best: Plan, account: Account, nodes: int) -> Plan:
    """The lower one of this plan and what the exact searches find with so many nodes, with the better bound."""
    if _is_done(best, account):
        return best
    share = Account(replace(account.left(), nodes=min(nodes, account.nodes_left())))
    found = search_plan(problem, share, NAME)
    account.nodes += share.nodes
    low = found if found.peak_bytes <= best.peak_bytes else best
    sure = found if found.lower_bound_bytes >= best.lower_bound_bytes else best
    if low is sure:
        return low
    return claim(problem, low, Bound(sure.lower_bound_bytes, sure.how, sure.witness, sure.witnesses), sure.statement)


def _is_done(best: Plan, account: Account) -> bool:
    """Whether nothing better is wanted, possible or paid for."""
    return best.proven or best.peak_bytes <= (account.budget.enough_bytes or 0) or account.spent()


def _may_ask(problem: Problem, budget: Budget) -> bool:
    few = len(problem.buffers) <= MOST_FOR_SOLVER
    return few and budget.nodes >= SEARCHED_FIRST + SOLVER_NODES and cp_sat.is_installed()


def _several(problem: Problem, account: Account) -> Plan:
    """The simple planners take the first region with room; where they fail or stay above the bound, fill by search."""
    best: Plan | None = None
    failure: DoesNotFit | None = None
    try:
        best = _best_simple(problem, account, lower_bound(problem))
    except DoesNotFit as error:
        failure = error
    if best is not None and _is_done(best, account):
        return best
    filled = fill_regions(problem, plan_within, account)
    if filled is not None and (best is None or filled.peak_bytes < best.peak_bytes):
        best = filled
    if best is None:
        assert failure is not None
        raise failure
    return best


def _best_simple(
    problem: Problem,
    account: Account,
    bound: Bound,
    planners: tuple[Planner, ...] = SIMPLE,
    best: Plan | None = None,
) -> Plan:
    """The lowest plan of the simple planners, with and without the permitted aliases."""
    failure: DoesNotFit | None = None
    variants = [problem]
    if problem.aliases and accepted_groups(problem):
        variants.append(Problem(problem.buffers, problem.regions))
    longest_s = 0.0
    for variant in variants:
        for planner in planners:
            left = account.seconds_left()
            if best is not None and (_is_done(best, account) or (left is not None and left < longest_s)):
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
    if best is None:
        assert failure is not None
        raise failure
    return best


def claim(problem: Problem, plan: Plan, bound: Bound, statement: str = "") -> Plan:
    """The same offsets as an answer to this problem, with this bound as certificate."""
    regions = dict(plan.regions)
    return make_plan(problem, dict(plan.offsets), plan.planner, regions, bound, statement)


PLANNER = Planner(NAME, run, "simple planners until the bound is met, then the exact search", exact=True)
