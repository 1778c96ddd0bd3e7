"""Peak against time: the schedules from layer by layer to the least RAM, halos computed again where that takes less.

Each is a cut of the program into single operations, loops over rows, strips of these and groups of channels
(row_choice.py) that costs the least modelled time within a limit of bytes; planned, checked, and kept where no other
needs less of both.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tinyhil.memplan import DEFAULT, Budget
from tinyhil.memplan.arena.execution_check import checked_plan
from tinyhil.memplan.arena.passes import ALL_NAMES, ROWS
from tinyhil.memplan.arena.placement import Placement, smallest
from tinyhil.memplan.arena.row_choice import NO_LIMIT, Cut, Cuts, cut_into
from tinyhil.memplan.arena.row_costs import products_again, products_of
from tinyhil.program import Program
from tinyhil.verify import checked

STEP = 0.06  # how much less RAM each limit of a front allows than the one before
TRIES = 8  # of limits below the one asked for: what a cut needs is known before it is planned, but not to the byte


@dataclass(frozen=True, slots=True)
class Scheduled:
    """`more_products`: those computed again, as a share of the model's; `more_time`: of its time, as modelled."""

    placed: Placement
    more_products: float
    more_time: float

    @property
    def peak_bytes(self) -> int:
        """Of the arena."""
        return self.placed.plan.peak_bytes


def front(
    program: Program, without: Collection[str] = (), planner: str = DEFAULT, budget: Budget | None = None
) -> list[Scheduled]:
    """From the largest arena to the smallest, each slower than the one before."""
    trials = _Trials(program, without, planner, budget)
    found, limit = [trials.layers], trials.layers.peak_bytes
    while True:
        cut = trials.cuts.cheapest(limit)
        if cut.needs > limit:
            break
        found.append(trials.planned(cut))
        limit = int(cut.needs * (1 - STEP))
    found.append(trials.planned(trials.cuts.cheapest(trials.cuts.least_bytes())))
    found.sort(key=lambda one: (one.more_time, one.peak_bytes))
    best: list[Scheduled] = []
    for one in found:
        if not best or one.peak_bytes < best[-1].peak_bytes:
            best.append(one)
    return best


def cheapest_within(
    program: Program,
    limit_bytes: int,
    without: Collection[str] = (),
    planner: str = DEFAULT,
    budget: Budget | None = None,
) -> Scheduled:
    """The schedule of the least modelled time whose arena takes at most so many bytes; if there is none, the smallest
    arena that was found."""
    trials = _Trials(program, without, planner, budget)
    best, limit = trials.layers, limit_bytes
    for _ in range(TRIES):
        if best.peak_bytes <= limit_bytes:
            break
        cut = trials.cuts.cheapest(limit)
        last = cut.needs > limit
        found = trials.planned(trials.cuts.cheapest(trials.cuts.least_bytes()) if last else cut)
        best = min(best, found, key=lambda one: one.peak_bytes)
        limit -= max(1, found.peak_bytes - limit_bytes)
        if last:
            break
    return best


def least(
    program: Program, without: Collection[str] = (), planner: str = DEFAULT, budget: Budget | None = None
) -> Scheduled:
    """The schedule of the least RAM."""
    return cheapest_within(program, 0, without, planner, budget)


class _Trials:
    """Cuts of a program as they are planned."""

    def __init__(self, program: Program, without: Collection[str], planner: str, budget: Budget | None) -> None:
        self._program, self._planner, self._budget = program, planner, budget
        self._wanted = ALL_NAMES - frozenset(without)
        self.cuts = Cuts(program, again=True, whole=ROWS.name not in self._wanted)
        self.layers = self.planned(Cut(NO_LIMIT, 0, ()))

    def planned(self, cut: Cut) -> Scheduled:
        made = checked(cut_into(self._program, self.cuts, cut.chosen), ROWS.name)
        placed = smallest(made, self._wanted, self._planner, self._budget)
        checked_plan(placed.program, placed.plan)
        more = products_again(placed.program, self._program)
        return Scheduled(placed, more, cut.products / products_of(self._program))
