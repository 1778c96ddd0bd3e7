"""Peak against time: the schedules from layer by layer to the least RAM, with halos, or maps that a mean needs before
others do, computed again where that takes less.

Each is a cut of the program into single operations, loops over rows, strips of these and groups of channels
(row_choice.py) that costs the least modelled time on a core (core_times.py) within a limit of bytes; planned, checked,
and kept where no other needs less of both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from tinyhil.language.program import Program
from tinyhil.memplan import DEFAULT, Budget
from tinyhil.memplan.arena.attention_rows import in_rows
from tinyhil.memplan.arena.core_times import CoreTime
from tinyhil.memplan.arena.execution_check import checked_plan
from tinyhil.memplan.arena.floor import floor_bytes
from tinyhil.memplan.arena.passes import ROWS
from tinyhil.memplan.arena.placement import Placement, smallest
from tinyhil.memplan.arena.row_choice import NO_LIMIT, Cut, Cuts, cut_into
from tinyhil.memplan.arena.row_costs import products_again
from tinyhil.memplan.arena.two_passes import in_two_passes
from tinyhil.references.verify import checked

STEP = 0.06  # how much less RAM each limit of a front allows than the one before
TRIES = 8  # of limits below the one asked for: what a cut needs is known before it is planned, but not to the byte


@dataclass(frozen=True, slots=True)
class Scheduled:
    """`more_products`: those computed again, as a share of the model's."""

    placed: Placement
    more_products: float

    @property
    def peak_bytes(self) -> int:
        """Of the arena."""
        return self.placed.plan.peak_bytes

    @property
    def more_time(self) -> float:
        """What that takes, as a share of the model's time."""
        return self.placed.more_time

    def rank(self, limit_bytes: int) -> tuple[float, float]:
        """First whatever fits, by time; then the smallest."""
        return max(limit_bytes, self.peak_bytes), self.more_time


class Schedules:
    """Of one program: what was cut and planned for one limit is known for the next."""

    def __init__(
        self,
        program: Program,
        without: Collection[str] = (),
        planner: str = DEFAULT,
        budget: Budget | None = None,
        core: str = "",
    ) -> None:
        self._made: list[_Trials] = []
        self._rest = (_Trials(program, other, without, planner, budget, core) for other in _programs(program, without))

    def within(self, limit_bytes: int) -> Scheduled:
        """The schedule of the least modelled time whose arena takes at most so many bytes; if there is none, the
        smallest arena that was found."""
        best: Scheduled | None = None
        for trials in self._trials():
            if best is not None and best.rank(limit_bytes) <= (limit_bytes, trials.more_time(trials.weighed[0])):
                break
            best = trials.within(limit_bytes, best)
        assert best is not None
        return best

    def front(self) -> list[Scheduled]:
        """From the largest arena to the smallest: the best within each limit."""
        found = [self.within(NO_LIMIT)]
        while True:
            lower = self.within(found[-1].peak_bytes - 1)
            if lower.peak_bytes >= found[-1].peak_bytes:
                return found
            found.append(lower)

    @cached_property
    def floor_bytes(self) -> int:
        """No schedule takes fewer, whatever its limit; without planning."""
        return min(trials.floor_bytes() for trials in self._trials())

    def _trials(self) -> Iterator[_Trials]:
        yield from self._made
        for trials in self._rest:
            self._made.append(trials)
            yield trials


def front(
    program: Program,
    without: Collection[str] = (),
    planner: str = DEFAULT,
    budget: Budget | None = None,
    core: str = "",
) -> list[Scheduled]:
    """From the largest arena to the smallest: what `cheapest_within` gives for each limit."""
    return Schedules(program, without, planner, budget, core).front()


def cheapest_within(
    program: Program,
    limit_bytes: int,
    without: Collection[str] = (),
    planner: str = DEFAULT,
    budget: Budget | None = None,
    core: str = "",
) -> Scheduled:
    """The schedule of the least modelled time on a core whose arena takes at most so many bytes; if there is none, the
    smallest arena that was found."""
    return Schedules(program, without, planner, budget, core).within(limit_bytes)


def more_time_within(program: Program, limit_bytes: int, core: str = "") -> float:
    """Of the fastest cut of the program in so many bytes, as a share of its modelled time; without planning."""
    cut = Cuts(program, again=True, core=core).cheapest(limit_bytes)
    return cut.cost / CoreTime(core).of_program(program)


def least(
    program: Program,
    without: Collection[str] = (),
    planner: str = DEFAULT,
    budget: Budget | None = None,
    core: str = "",
) -> Scheduled:
    """The schedule of the least RAM."""
    return cheapest_within(program, 0, without, planner, budget, core)


def _programs(program: Program, without: Collection[str]) -> Iterator[Program]:
    """The program, then those in which more and more maps are made twice."""
    yield program
    for other in in_rows(program) if ROWS.name not in without else ():
        yield checked(other, ROWS.name)
    for other in in_two_passes(program) if ROWS.name not in without else ():
        yield checked(other, ROWS.name)


class _Trials:
    """Cuts of a `program` as they are planned; `lowered` computes nothing twice."""

    def __init__(
        self,
        lowered: Program,
        program: Program,
        without: Collection[str],
        planner: str,
        budget: Budget | None,
        core: str,
    ) -> None:
        self._program, self._lowered, self._planner, self._budget = program, lowered, planner, budget
        self._without, self._time = without, CoreTime(core)
        whole = ROWS.name in without
        self._cuts = Cuts(program, again=True, whole=whole, core=core)
        self._floors = Cuts(program, again=True, whole=whole, alone=True, like=self._cuts, core=core)
        self._known: dict[Cut, Scheduled] = {}

    def floor_bytes(self) -> int:
        """What no schedule of the program undercuts."""
        return floor_bytes(self._program, cuts=self._floors)

    def more_time(self, cut: Cut) -> float:
        """Of the time that `lowered` takes, as modelled."""
        return (self._whole + cut.cost) / self._layers - 1

    @cached_property
    def _whole(self) -> int:
        return self._time.of_program(self._program)

    @cached_property
    def _layers(self) -> int:
        return self._time.of_program(self._lowered)

    def planned(self, cut: Cut) -> Scheduled:
        """The plan of a cut, made once."""
        if cut not in self._known:
            made = checked(cut_into(self._program, self._cuts, cut.chosen), ROWS.name)
            placed = smallest(made, self._without, self._planner, self._budget)
            checked_plan(placed.program, placed.plan)
            more = products_again(placed.program, self._lowered)
            self._known[cut] = Scheduled(replace(placed, more_time=self.more_time(cut)), more)
        return self._known[cut]

    @cached_property
    def weighed(self) -> list[Cut]:
        """Layer by layer, then with lower and lower limits: each slower than the one before."""
        found = [Cut(NO_LIMIT, 0, ())]
        limit = self.planned(found[0]).peak_bytes
        least = self._cuts.least_bytes()
        while limit > least:
            found.append(self._cuts.cheapest(limit))
            limit = int(found[-1].needs * (1 - STEP))
        return [*found, self._cuts.cheapest(least)]

    def within(self, limit_bytes: int, best: Scheduled | None) -> Scheduled:
        """The least time within the limit, else the least RAM; `best` is what is known so far."""
        for cut in self.weighed:
            if self._is_within(best, limit_bytes, cut):
                break
            if self._floors.floor_of(cut) <= limit_bytes:
                best = min(filter(None, (best, self.planned(cut))), key=lambda one: one.rank(limit_bytes))
        for cut in reversed(self.weighed):
            if best is None or limit_bytes < best.peak_bytes > self._floors.floor_of(cut):
                best = min(filter(None, (best, self.planned(cut))), key=lambda one: one.rank(limit_bytes))
        assert best is not None
        return self._between(limit_bytes, best)

    def _between(self, limit_bytes: int, best: Scheduled) -> Scheduled:
        """A faster one between two of these cuts."""
        limit = limit_bytes
        for _ in range(TRIES):
            cut = self._cuts.cheapest(limit)
            if cut.needs > limit or self._is_within(best, limit_bytes, cut):
                break
            found = self.planned(cut)
            best = min(best, found, key=lambda one: one.rank(limit_bytes))
            limit -= max(1, found.peak_bytes - limit_bytes)
        return best

    def _is_within(self, best: Scheduled | None, limit_bytes: int, cut: Cut) -> bool:
        """Whether `best` fits and takes no longer than a cut."""
        return best is not None and best.rank(limit_bytes) <= (limit_bytes, self.more_time(cut))
