"""OR-Tools CP-SAT as an independent second opinion: pairwise disjunctions, minimum peak.

Needs the extra `tinyhil[solver]`; imported only when it is used. One worker and a fixed seed; limited by seconds.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from typing import Any

from tinyhil.errors import ConfigError
from tinyhil.memplan import greedy_by_size
from tinyhil.memplan.account import Account
from tinyhil.memplan.bound import Bound, lower_bound
from tinyhil.memplan.branch_and_bound import checked_size
from tinyhil.memplan.placing import make_plan
from tinyhil.memplan.planner import Budget, Planner
from tinyhil.memplan.problem import Buffer, Plan, Problem, ProblemError, first_shared_instant

NAME = "cp-sat"
DEFAULT_SECONDS = 60.0


def run(problem: Problem, budget: Budget) -> Plan:
    """Plan with OR-Tools within the budget; ProblemError for what it can not plan."""
    if len(problem.regions) > 1:
        raise ProblemError(f"planner {NAME}: it can not plan {len(problem.regions)} regions; the portfolio can")
    _import_solver()
    account = Account(replace(budget, seconds=budget.seconds or DEFAULT_SECONDS))
    start = greedy_by_size.run(problem.in_region(None, problem.regions[0].name), budget)
    start = make_plan(problem, dict(start.offsets), NAME, bound=lower_bound(problem))
    return checked_size(problem, improved(problem, start, account))


def is_installed() -> bool:
    """Whether OR-Tools is there."""
    return importlib.util.find_spec("ortools") is not None


def improved(problem: Problem, start: Plan, account: Account, effort: float | None = None) -> Plan:
    """What the solver makes of a plan of one region: a lower one, a better bound, or the same. `effort` in the
    solver's deterministic seconds: the same plan on every machine."""
    cp_model = _import_solver()
    model = cp_model.CpModel()
    built = _build(model, problem, start.lower_bound_bytes, start, account)
    if built is None:  # the time went into the model
        return start
    peak, offsets = built
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    if account.budget.seconds is not None:
        solver.parameters.max_time_in_seconds = account.left().seconds
    if effort is not None:
        solver.parameters.max_deterministic_time = effort
    state = solver.solve(model)
    found, reached = dict(start.offsets), start.lower_bound_bytes
    if state in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        found = {name: solver.value(offset) for name, offset in offsets.items()}
        reached = max(reached, solver.value(peak) if state == cp_model.OPTIMAL else ceil(solver.best_objective_bound))
    bound, statement = Bound(start.lower_bound_bytes, start.how, start.witness, start.witnesses), start.statement
    if reached > start.lower_bound_bytes:
        bound, statement = Bound(reached, "search"), f"no plan below {reached} B, says CP-SAT"
    return make_plan(problem, found, start.planner, bound=bound, statement=statement)


def _import_solver() -> Any:
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise ConfigError(f"planner {NAME} needs OR-Tools: pip install 'tinyhil[solver]'") from error
    return cp_model


def _build(
    model: Any, problem: Problem, bound_bytes: int, start: Plan, account: Account
) -> tuple[Any, dict[str, Any]] | None:
    """The variables of peak and offsets; None if the time was over before all was in the model."""
    top = start.peak_bytes
    peak = model.new_int_var(bound_bytes, top, "peak")
    offsets = {}
    for buffer in problem.buffers:
        if account.spent():
            return None
        multiple = model.new_int_var(0, top // buffer.alignment, buffer.name)
        offsets[buffer.name] = multiple * buffer.alignment
        model.add(offsets[buffer.name] + buffer.size_bytes <= (peak if buffer.size_bytes else top))
        if buffer.offset is not None:
            model.add(offsets[buffer.name] == buffer.offset)
        model.add_hint(multiple, start.offsets[buffer.name] // buffer.alignment)
    shifts = problem.alias_shifts()
    for one, other in _meeting(problem):
        if account.spent():
            return None
        below, above = model.new_bool_var(""), model.new_bool_var("")
        a, b = offsets[one.name], offsets[other.name]
        model.add(a + one.size_bytes <= b).only_enforce_if(below)
        model.add(b + other.size_bytes <= a).only_enforce_if(above)
        choices = [below, above]
        for shift in sorted(shifts.get((one.name, other.name), ())):
            same = model.new_bool_var("")
            model.add(b - a == shift).only_enforce_if(same)
            choices.append(same)
        model.add_bool_or(choices)
    model.minimize(peak)
    return peak, offsets


def _meeting(problem: Problem) -> Iterator[tuple[Buffer, Buffer]]:
    """Pairs of buffers that are live at once."""
    live: list[Buffer] = []
    for other in sorted((b for b in problem.buffers if b.size_bytes), key=lambda b: b.start):
        live = [one for one in live if one.end > other.start]
        yield from ((one, other) for one in live if first_shared_instant(one, other) is not None)
        live.append(other)


PLANNER = Planner(NAME, run, "OR-Tools CP-SAT, the second opinion (extra)", exact=True)
