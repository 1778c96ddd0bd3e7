"""What a model in one format needs on one board, nothing built: the arena exactly, the rest by the table of costs."""

from __future__ import annotations

from dataclasses import dataclass

from tinyhil.harness.build.pipeline import arranged_for, place_for
from tinyhil.harness.fit.core_costs import CoreCosts, Estimate, costs_of
from tinyhil.harness.fit.features import LIBRARY, code_features, flash_constants, time_features
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.language.program import Loop, Program
from tinyhil.memplan.arena.core_times import OFF
from tinyhil.memplan.arena.passes import ROWS
from tinyhil.memplan.arena.placement import Placement, place
from tinyhil.memplan.arena.schedules import more_time_within
from tinyhil.preference import Wish

Rows = tuple[str, int, bool]  # their core, the bytes of their arena, and whether it holds the sample
MUCH = 0.25  # of the time: rows of depthwise layers, of which the table of costs knows too little


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes of the arena, exact; of flash, None on a core that was never measured; of RAM; microseconds of the
    median sample, None where the table knows nothing of a layer's kind."""

    arena_bytes: int
    flash_bytes: Estimate | None
    ram_bytes: Estimate
    latency_us: Estimate | None


def needs_of(lowered: Program, board: BoardSpec, wish: Wish, known: dict[Rows, float] | None = None) -> Needs:
    """Estimates with their bands; DoesNotFit where no plan fits the RAM of the board. `known`: what rows of this
    program take more, of other boards."""
    placed, transfer = place_for(lowered, board, wish)
    costs, program, plan = costs_of(board.chip.core), placed.program, placed.plan
    planned_bytes = plan.peak_bytes + transfer.input_bytes
    if costs is None:
        return Needs(plan.peak_bytes, None, ram_of(planned_bytes, None), None)
    parts, cycles = code_features(program, plan), costs.cycles_of(time_features(program, plan))
    more_time = _more_time(placed, lowered, board, {} if known is None else known)
    if placed.more_time > 0 or more_time > MUCH:
        cycles = _again(costs, lowered, board, more_time)
    code, ram, chip = costs.code_of(parts), ram_of(planned_bytes, costs, LIBRARY in parts), board.chip
    if chip.hot is not None and chip.hot.code_bytes:  # only where there is room beside what is kept for the stack
        room = max(0.0, (chip.ram_bytes or 0) - chip.hot.stack_bytes - ram.high)
        ram = ram.and_(costs.copied_of(code).within(room))
    latency = None if cycles is None else cycles.times(1e6 / board.clock_hz)
    return Needs(plan.peak_bytes, code.plus(flash_constants(program)), ram, latency)


def _more_time(placed: Placement, lowered: Program, board: BoardSpec, known: dict[Rows, float]) -> float:
    """What its rows take more than layer by layer, as a share, as modelled: at least what the fastest schedule of as
    few bytes does."""
    if placed.more_time > 0 or not any(isinstance(item, Loop) for item in placed.program.body):
        return placed.more_time
    key = board.chip.core, placed.plan.peak_bytes, placed.program.input_in_arena
    if key not in known:
        base = arranged_for(lowered, board)
        base = base.with_input_in_arena() if placed.program.input_in_arena else base
        known[key] = more_time_within(base, placed.plan.peak_bytes, board.chip.core)
    return known[key]


def _again(costs: CoreCosts, lowered: Program, board: BoardSpec, more_time: float) -> Estimate | None:
    """Where products are computed again, layers run by rows and in groups of channels, or rows cost much: that takes so
    much more than layer by layer, whose costs are known."""
    layers = place(arranged_for(lowered, board), without=(ROWS.name,))
    cycles = costs.cycles_of(time_features(layers.program, layers.plan))
    return None if cycles is None else cycles.times(1 + more_time).apart(OFF)


def ram_of(planned_bytes: int, costs: CoreCosts | None, floats: bool = False) -> Estimate:
    """Arena and input are exact; the runtime and the stack are as on other images, with or without `floats`."""
    if costs is None:
        return Estimate(planned_bytes, planned_bytes, planned_bytes)
    least, median, most = costs.beside_floats_bytes if floats else costs.beside_bytes
    return Estimate(planned_bytes + median, planned_bytes + least, planned_bytes + most)
