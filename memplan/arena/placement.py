"""Program -> planned Program: passes that make the problem smaller, and the smallest plan that came out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tinyhil.memplan import DEFAULT, Budget, Plan, Problem, lower_bound, plan
from tinyhil.memplan.arena.order import reorder
from tinyhil.memplan.arena.row_choice import with_rows
from tinyhil.memplan.arena.states import with_gaps
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.program import Program


@dataclass(frozen=True, slots=True)
class Passes:
    """`in_place`: operations may write over operands. `gaps`: loop states rest between reader and writer, in place
    where that is on too. `order`: operations may change places. `views`: parts may lie where the whole lies. `rows`:
    chains of convolutions may go row by row through line buffers."""

    in_place: bool = True
    gaps: bool = True
    order: bool = True
    views: bool = True
    rows: bool = True


@dataclass(frozen=True, slots=True)
class Placement:
    """The program as it is to be generated, its planning problem and the plan of it."""

    program: Program
    problem: Problem
    plan: Plan


def place(
    program: Program, passes: Passes | None = None, planner: str = DEFAULT, budget: Budget | None = None
) -> Placement:
    """Plan with each pass in turn and keep the smallest peak; a pass that gains nothing changes nothing."""
    passes = passes or Passes()
    best = _smallest(_candidates(program, passes), None, planner, budget)
    if passes.rows:
        by_rows = with_rows(best.program)
        if by_rows is not best.program:
            best = _smallest(_candidates(by_rows, passes), best, planner, budget)
    return best


def _smallest(
    candidates: Iterator[tuple[Program, Problem]], best: Placement | None, planner: str, budget: Budget | None
) -> Placement:
    for candidate, problem in candidates:
        if best is not None and lower_bound(problem).bytes >= best.plan.peak_bytes:
            continue
        found = plan(problem, planner, budget)
        if best is None or found.peak_bytes < best.plan.peak_bytes:
            best = Placement(candidate, problem, found)
    assert best is not None
    return best


def _candidates(program: Program, passes: Passes) -> Iterator[tuple[Program, Problem]]:
    plain = problem_of(program, in_place=passes.in_place, views=passes.views)
    yield program, plain
    if passes.views:
        copied = problem_of(program, in_place=passes.in_place, views=False)
        if copied != plain:
            yield program, copied
    if passes.gaps:
        idle = with_gaps(program, plain, in_place=passes.in_place)
        if idle != plain:
            yield program, idle
    if passes.order:
        ordered = reorder(program)
        if ordered is not program:
            problem = problem_of(ordered, in_place=passes.in_place, views=passes.views)
            if passes.gaps:
                problem = with_gaps(ordered, problem, in_place=passes.in_place)
            yield ordered, problem
