"""RAM planned to the byte: buffers with live ranges -> offsets, with a lower bound and, if possible, a proof.

problem = Problem((Buffer("x", 490, 0, 2), Buffer("y", 8000, 1, 3)))
best = plan(problem)
best.peak_bytes, best.proven, best.offsets["y"]
"""

from __future__ import annotations

from tinyhil.errors import ConfigError, did_you_mean
from tinyhil.memplan import (
    algorithm_x,
    best_fit,
    branch_and_bound,
    cp_sat,
    first_fit,
    greedy_by_area,
    greedy_by_duration,
    greedy_by_size,
    hill_climb,
    portfolio,
)
from tinyhil.memplan.bound import Bound, load_bytes, lower_bound
from tinyhil.memplan.check import PlanError, check
from tinyhil.memplan.describe import as_record, describe
from tinyhil.memplan.planner import Budget, Planner
from tinyhil.memplan.problem import Alias, Buffer, Plan, Problem, ProblemError, Region

PLANNERS: tuple[Planner, ...] = (
    first_fit.PLANNER,
    greedy_by_size.PLANNER,
    greedy_by_area.PLANNER,
    greedy_by_duration.PLANNER,
    best_fit.PLANNER,
    hill_climb.PLANNER,
    algorithm_x.PLANNER,
    branch_and_bound.PLANNER,
    cp_sat.PLANNER,
    portfolio.PLANNER,
)
DEFAULT = portfolio.NAME

__all__ = [
    "DEFAULT",
    "PLANNERS",
    "Alias",
    "Bound",
    "Budget",
    "Buffer",
    "Plan",
    "PlanError",
    "Planner",
    "Problem",
    "ProblemError",
    "Region",
    "as_record",
    "check",
    "describe",
    "find_planner",
    "load_bytes",
    "lower_bound",
    "plan",
]


def find_planner(name: str) -> Planner:
    """The planner of this name; ConfigError lists those there are."""
    for planner in PLANNERS:
        if planner.name == name:
            return planner
    names = [planner.name for planner in PLANNERS]
    raise ConfigError(f"planner {name!r} does not exist; {did_you_mean(name, names)}there are {', '.join(names)}")


def plan(problem: Problem, planner: str = DEFAULT, budget: Budget | None = None) -> Plan:
    """Plan with the named planner; whatever comes back has passed the checker."""
    found = find_planner(planner).run(problem, budget or Budget())
    check(problem, found)
    return found
