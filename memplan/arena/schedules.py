"""Peak against time: the schedules from layer by layer to the least RAM, with halos, or maps that a mean needs before
others do, computed again where that takes less.

Each is a cut of the program into single operations, loops over rows, strips of these and groups of channels
(row_choice.py) that costs the least modelled time within a limit of bytes; planned, checked, and kept where no other
needs less of both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tinyhil.memplan import DEFAULT, Budget
from tinyhil.memplan.arena.execution_check import checked_plan
from tinyhil.memplan.arena.passes import ALL_NAMES, ROWS
from tinyhil.memplan.arena.placement import Placement, smallest
from tinyhil.memplan.arena.row_choice import NO_LIMIT, Cut, Cuts, cut_into
from tinyhil.memplan.arena.row_costs import products_again, products_of
from tinyhil.memplan.arena.two_passes import in_two_passes
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

    def rank(self, limit_bytes: int) -> tuple[float, float]:
        """First whatever fits, by time; then the smallest."""
        return max(limit_bytes, self.peak_bytes), self.more_time


def front(
    program: Program, without: Collection[str] = (), planner: str = DEFAULT, budget: Budget | None = None
) -> list[Scheduled]:
    """From the largest arena to the smallest, each slower than the one before."""
    all_trials = (_Trials(other, program, without, planner, budget) for other in _programs(program, without))
    found = [one for trials in all_trials for one in trials.front()]
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
    best: Scheduled | None = None
    for other in _programs(program, without):
        trials = _Trials(other, program, without, planner, budget)
        if best is not None and best.rank(limit_bytes) <= (limit_bytes, trials.layers.more_time):
            break
        found = trials.within(limit_bytes)
        if best is None or found.rank(limit_bytes) < best.rank(limit_bytes):
            best = found
    assert best is not None
    return best


def least(
    program: Program, without: Collection[str] = (), planner: str = DEFAULT, budget: Budget | None = None
) -> Scheduled:
    """The schedule of the least RAM."""
    return cheapest_within(program, 0, without, planner, budget)


def _programs(program: Program, without: Collection[str]) -> Iterator[Program]:
    """The program, then those in which more and more maps are made twice."""
    yield program
    for other in in_two_passes(program) if ROWS.name not in without else ():
        yield checked(other, ROWS.name)


class _Trials:
    """Cuts of a program as they are planned; `lowered` computes nothing twice."""

    def __init__(
        self, program: Program, lowered: Program, without: Collection[str], planner: str, budget: Budget | None
    ) -> None:
        self._program, self._lowered, self._planner, self._budget = program, lowered, planner, budget
        self._wanted = ALL_NAMES - frozenset(without)
        self.cuts = Cuts(program, again=True, whole=ROWS.name not in self._wanted)
        self.layers = self.planned(Cut(NO_LIMIT, 0, ()))

    def planned(self, cut: Cut) -> Scheduled:
        made = checked(cut_into(self._program, self.cuts, cut.chosen), ROWS.name)
        placed = smallest(made, self._wanted, self._planner, self._budget)
        checked_plan(placed.program, placed.plan)
        products, more = products_of(self._lowered), products_again(placed.program, self._lowered)
        return Scheduled(placed, more, (products_of(self._program) + cut.products) / products - 1)

    def front(self) -> list[Scheduled]:
        """Layer by layer, then with lower and lower limits."""
        found, limit = [self.layers], self.layers.peak_bytes
        while True:
            cut = self.cuts.cheapest(limit)
            if cut.needs > limit:
                break
            found.append(self.planned(cut))
            limit = int(cut.needs * (1 - STEP))
        return [*found, self.planned(self.cuts.cheapest(self.cuts.least_bytes()))]

    def within(self, limit_bytes: int) -> Scheduled:
        """The least time found within the limit, or the least RAM."""
        best, limit = self.layers, limit_bytes
        for _ in range(TRIES):
            if best.peak_bytes <= limit_bytes:
                break
            cut = self.cuts.cheapest(limit)
            last = cut.needs > limit
            found = self.planned(self.cuts.cheapest(self.cuts.least_bytes()) if last else cut)
            best = min(best, found, key=lambda one: one.peak_bytes)
            limit -= max(1, found.peak_bytes - limit_bytes)
            if last:
                break
        return best
