"""Schedules for a limit of RAM that each product once exceeds: rows, strips and windows that compute some again.

A search asks this of every candidate that is too large, so that widths, rows and layout are chosen together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyhil.language.program import Program
from tinyhil.memplan import Budget
from tinyhil.memplan.arena.placement import Placement
from tinyhil.memplan.arena.placement_preference import chosen
from tinyhil.memplan.arena.schedules import cheapest_within, least_floor
from tinyhil.preference import RAM, Wish

PLAN_NODES = 20_000  # of one plan: a search makes thousands, and the bound is nearly always met before


@dataclass(frozen=True, slots=True)
class Again:
    """Schedules that compute products again, of programs that are `arranged` for a core. `more_time`: at most this
    share of the modelled time more than layer by layer."""

    arranged: Callable[[Program], Program]
    more_time: float

    def within(self, program: Program, arena_bytes: int) -> Placement | None:
        """The fastest within so many bytes."""
        found = cheapest_within(self.arranged(program), arena_bytes, budget=Budget(nodes=PLAN_NODES))
        return found.placed if found.peak_bytes <= arena_bytes and found.more_time <= self.more_time else None

    def floor_bytes(self, program: Program) -> int:
        """None of these plans takes less; without planning."""
        return least_floor(self.arranged(program))

    def smallest(self, program: Program) -> Placement:
        """The fewest bytes at that price."""
        own, budget = self.arranged(program), Budget(nodes=PLAN_NODES)
        best = chosen(own, Wish(RAM), budget=budget)
        while True:
            lower = cheapest_within(own, best.plan.peak_bytes - 1, budget=budget)
            if lower.peak_bytes >= best.plan.peak_bytes or lower.more_time > self.more_time:
                return best
            best = lower.placed
