"""What a placement is chosen for where time and memory disagree: layer by layer, or row by row.

Several are planned, from layer by layer to the least RAM; products (memplan/arena/row_costs.py) say what their rows
lose. Halos are computed again where that was asked for, or where nothing else fits.
"""

from __future__ import annotations

from collections.abc import Collection

from tinyhil.language.program import Program
from tinyhil.memplan import Budget
from tinyhil.memplan.arena.placement import Placement, Placements, placements
from tinyhil.memplan.arena.row_costs import WORTH, time_lost
from tinyhil.memplan.arena.schedules import cheapest_within, least
from tinyhil.preference import LATENCY, LEAST, RAM, Wish

FREE = 0.5  # of a board's RAM, which nobody misses; from there on, a share of it is worth as much of the time


def chosen(
    program: Program,
    wish: Wish,
    ram_bytes: int | None = None,
    without: Collection[str] = (),
    *,
    again: bool = False,
    budget: Budget | None = None,
    core: str = "",
) -> Placement:
    """The placement that is wished for, on a board with so much RAM (None: no limit) and this core. `again`: if nothing
    else fits, halos may be computed again."""
    if wish.ram_bytes is not None:
        limit = wish.ram_bytes - input_bytes(program)
        return cheapest_within(program, limit, without, budget=budget, core=core).placed
    if wish.prefer == LEAST:
        return least(program, without, budget=budget, core=core).placed
    found = preferred(placements(program, without, budget=budget), ram_bytes, wish.prefer)
    if wish.arena_bytes is not None and found.plan.peak_bytes > wish.arena_bytes:
        other = cheapest_within(program, wish.arena_bytes, without, budget=budget, core=core).placed
        found = min(found, other, key=lambda one: one.plan.peak_bytes)
    if not again or ram_bytes is None or _needs(found) <= ram_bytes:
        return found
    other = cheapest_within(program, ram_bytes - input_bytes(program), without, budget=budget, core=core).placed
    return min(found, other, key=_needs)


def preferred(found: Placements, ram_bytes: int | None, prefer: str) -> Placement:
    """The placement to use on a board with so much RAM (None: no limit)."""
    if prefer == RAM:
        return found.rows
    fitting = [option for option in found.options if ram_bytes is None or _needs(option) <= ram_bytes]
    if not fitting:
        return found.rows
    if prefer == LATENCY:
        return fitting[0]
    lost = {id(option): time_lost(option.program, found.layers.program) for option in fitting}
    if ram_bytes is None:
        return [option for option in fitting if lost[id(option)] <= WORTH][-1]
    return min(fitting, key=lambda option: lost[id(option)] + max(0.0, _needs(option) / ram_bytes - FREE))


def pays(within: Placement, apart: Placement, wish: Wish) -> bool:
    """Whether so many bytes of RAM are better used with the sample in the arena, by the model; of an arena that holds
    it, where that takes no more time."""
    if wish.arena_bytes is not None:
        return within.plan.peak_bytes <= wish.arena_bytes and within.more_time <= apart.more_time
    return within.more_time < apart.more_time


def _needs(option: Placement) -> int:
    return option.plan.peak_bytes + input_bytes(option.program)


def input_bytes(program: Program) -> int:
    """Of a sample; none where it is a part of the arena, or may be streamed row by row through a
    loop: then the transfer decides."""
    if program.input_in_arena or program.streamable_loop() is not None:
        return 0
    return program.tensors[program.input].size_bytes
