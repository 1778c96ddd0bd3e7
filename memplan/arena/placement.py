"""Program -> planned Program: passes that make the problem smaller, and the smallest plan that came out."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tinyhil.language.program import Program
from tinyhil.memplan import DEFAULT, Budget, Plan, Problem, lower_bound, plan
from tinyhil.memplan.arena.execution_check import checked_plan
from tinyhil.memplan.arena.order import reorder
from tinyhil.memplan.arena.passes import ALL_NAMES, GAPS, IN_PLACE, ORDER, ROWS, VIEWS
from tinyhil.memplan.arena.row_choice import with_rows
from tinyhil.memplan.arena.states import with_gaps
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.references.verify import checked


@dataclass(frozen=True, slots=True)
class Placement:
    """The program as it is to be generated, its planning problem and the plan of it."""

    program: Program
    problem: Problem
    plan: Plan


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
    wanted = ALL_NAMES - frozenset(without)
    options = [smallest(program, wanted, planner, budget)]
    for by_rows in with_rows(program) if ROWS.name in wanted else ():
        found = smallest(checked(by_rows, ROWS.name), wanted, planner, budget, options[-1])
        if found is not options[-1]:
            options.append(found)
    for option in options:
        checked_plan(option.program, option.plan)
    return Placements(tuple(options))


def smallest(
    program: Program, wanted: frozenset[str], planner: str, budget: Budget | None, best: Placement | None = None
) -> Placement:
    """The smallest plan that the passes `wanted` give, or the `best` so far; rows are as they are."""
    for candidate, problem in _candidates(program, wanted):
        if best is not None and lower_bound(problem).bytes >= best.plan.peak_bytes:
            continue
        found = plan(problem, planner, budget)
        if best is None or found.peak_bytes < best.plan.peak_bytes:
            best = Placement(candidate, problem, found)
    assert best is not None
    return best


def _candidates(program: Program, wanted: frozenset[str]) -> Iterator[tuple[Program, Problem]]:
    in_place, views = IN_PLACE.name in wanted, VIEWS.name in wanted
    plain = problem_of(program, in_place=in_place, views=views)
    without_lags = problem_of(program, in_place=in_place, views=views, lags=False)
    if without_lags != plain:  # first: as good where the peak is elsewhere, and planned in no time
        yield program, without_lags
    yield program, plain
    if views:
        copied = problem_of(program, in_place=in_place, views=False)
        if copied != plain:
            yield program, copied
    if GAPS.name in wanted:
        idle = with_gaps(program, plain, in_place=in_place)
        if idle != plain:
            yield program, idle
    if ORDER.name in wanted:
        ordered = checked(reorder(program), ORDER.name)
        if ordered is not program:
            problem = problem_of(ordered, in_place=in_place, views=views)
            if GAPS.name in wanted:
                problem = with_gaps(ordered, problem, in_place=in_place)
            yield ordered, problem
