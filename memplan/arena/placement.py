"""Program -> planned Program: passes that make the problem smaller, and the smallest plan of each program by rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tinyhil.compiler_pass import fold
from tinyhil.language.program import Program
from tinyhil.memplan import DEFAULT, Budget, Plan, Problem, lower_bound, plan
from tinyhil.memplan.arena.execution_check import checked_plan
from tinyhil.memplan.arena.passes import MEMORY, ROWS, Candidates


@dataclass(frozen=True, slots=True)
class Placement:
    """The program as it is to be generated, its planning problem and the plan of it. `more_time`: that of what is
    computed again, as a share of the program's time layer by layer, as modelled (schedules.py)."""

    program: Program
    problem: Problem
    plan: Plan
    more_time: float = 0.0


@dataclass(frozen=True, slots=True)
class Placements:
    """A program layer by layer, with rows that cost next to no time, and with the least RAM: each of them only where it
    makes the arena smaller than those before."""

    options: tuple[Placement, ...]

    @property
    def layers(self) -> Placement:
        """Nothing row by row: the first of the options."""
        return self.options[0]

    @property
    def rows(self) -> Placement:
        """That of the least RAM."""
        return self.options[-1]


def place(
    program: Program, without: Collection[str] = (), planner: str = DEFAULT, budget: Budget | None = None
) -> Placement:
    """Plan with each pass in turn and keep the smallest peak; a pass that gains nothing changes nothing.

    `without`: names of passes (passes.py) to leave out; names of others, fusions say, mean nothing here.
    """
    return placements(program, without, planner, budget).rows


def placements(
    program: Program, without: Collection[str] = (), planner: str = DEFAULT, budget: Budget | None = None
) -> Placements:
    """The same before rows, with some and after."""
    options: list[Placement] = []
    for one in fold((ROWS,), (program,), without=without):
        best = options[-1] if options else None
        found = smallest(one, without, planner, budget, best)
        if found is not best:
            options.append(found)
    for option in options:
        checked_plan(option.program, option.plan)
    return Placements(tuple(options))


def smallest(
    program: Program,
    without: Collection[str],
    planner: str,
    budget: Budget | None,
    best: Placement | None = None,
) -> Placement:
    """The smallest plan that the passes of memory give, or the `best` so far; rows are as they are."""
    known: list[Problem] = []
    for one in fold(MEMORY, Candidates.of(program), without=without).tries:
        problem = one.problem()
        if problem in known or (best is not None and lower_bound(problem).bytes >= best.plan.peak_bytes):
            continue
        known.append(problem)
        found = plan(problem, planner, budget)
        if best is None or found.peak_bytes < best.plan.peak_bytes:
            best = Placement(one.program, problem, found)
    assert best is not None
    return best
