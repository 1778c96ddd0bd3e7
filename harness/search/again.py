"""Schedules for a limit of RAM that each product once exceeds: rows, strips and windows that compute some again.

A search asks this of every candidate that is too large, so that widths, rows and layout are chosen together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tinyhil.language.program import Program
from tinyhil.memplan import Budget
from tinyhil.memplan.arena.placement import Placement
from tinyhil.memplan.arena.placement_preference import chosen
from tinyhil.memplan.arena.row_stages import stages_of
from tinyhil.memplan.arena.schedules import Schedules
from tinyhil.preference import RAM, Wish

PLAN_NODES = 20_000  # of one plan: a search makes thousands, and the bound is nearly always met before
MANY_STAGES = 8  # the loops over rows are as many as pairs of them


@dataclass(frozen=True, slots=True)
class Again:
    """Schedules that compute products again, of programs that are `arranged` for a `core`. `more_time`: at most this
    share of its modelled time more than layer by layer."""

    arranged: Callable[[Program], Program]
    more_time: float
    core: str = ""
    _last: list[tuple[Program, Schedules]] = field(default_factory=list)

    def within(self, program: Program, arena_bytes: int) -> Placement | None:
        """The fastest within so many bytes."""
        with self._schedules(program) as schedules:
            found = schedules.within(arena_bytes)
        return found.placed if found.peak_bytes <= arena_bytes and found.more_time <= self.more_time else None

    def costs(self, program: Program, arena_bytes: int) -> float:
        """The share of modelled time more than layer by layer of the fastest within so many bytes."""
        with self._schedules(program) as schedules:
            return schedules.within(arena_bytes).more_time

    def floor_bytes(self, program: Program) -> int:
        """None of these plans takes less; without planning."""
        with self._schedules(program) as schedules:
            return schedules.floor_bytes

    def is_slow(self, program: Program) -> bool:
        """So many operations by rows that their loops are hundreds."""
        return len(stages_of(self.arranged(program))) >= MANY_STAGES

    def smallest(self, program: Program) -> Placement:
        """The fewest bytes at that price."""
        best = chosen(self.arranged(program), Wish(RAM), budget=Budget(nodes=PLAN_NODES))
        with self._schedules(program) as schedules:
            while True:
                lower = schedules.within(best.plan.peak_bytes - 1)
                if lower.peak_bytes >= best.plan.peak_bytes or lower.more_time > self.more_time:
                    return best
                best = lower.placed

    @contextmanager
    def _schedules(self, program: Program) -> Iterator[Schedules]:
        """Those of the program that was asked about last are known; not where planning was interrupted."""
        last = self._last.pop() if self._last else None
        if last is None or last[0] is not program:
            last = program, Schedules(self.arranged(program), budget=Budget(nodes=PLAN_NODES), core=self.core)
        yield last[1]
        self._last.append(last)
