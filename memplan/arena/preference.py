"""What a placement is chosen for where time and memory disagree: layer by layer, or row by row.

Both are planned; a model of time says what rows lose. A row of a layer costs, besides its products, a call, a table's
entry, a ring's places and blocks that are not filled: 240 instructions on Cortex-M3 and M7, as much as
EXECUTION_PRODUCTS products, by the CNN on 8 x 8 digits with `--prefer latency` and `--prefer ram` (58.4k and 61.3k
instructions on an M7, 75.1k and 78.0k on an M3).
"""

from __future__ import annotations

from collections.abc import Iterator

from tinyhil.memplan.arena.placement import Placement, Placements
from tinyhil.memplan.arena.row_wise import rows_made
from tinyhil.ops.rows import ROWED
from tinyhil.preference import LATENCY, RAM
from tinyhil.program import Loop, Op, Program, Role, walk

EXECUTION_PRODUCTS = 100
WORTH = 0.03  # of the time: what a smaller arena may cost where memory is not short
SHORT = 4  # memory is short where an arena takes more than this part of it


def preferred(found: Placements, ram_bytes: int | None, prefer: str) -> Placement:
    """The placement to use on a board with so much RAM (None: no limit)."""
    if found.rows is found.layers or prefer == RAM:
        return found.rows
    fits = ram_bytes is None or found.layers.plan.peak_bytes + _input_bytes(found.layers.program) <= ram_bytes
    if not fits or prefer == LATENCY:
        return found.layers if fits else found.rows
    is_short = ram_bytes is not None and found.layers.plan.peak_bytes * SHORT > ram_bytes
    return found.rows if is_short or time_lost(found) <= WORTH else found.layers


def time_lost(found: Placements) -> float:
    """The modelled share of the time that rows cost, against layer by layer."""
    program = found.rows.program
    loops = [item for item in program.body if isinstance(item, Loop)]
    executed = sum(
        rows_made(program.constants, loop, op) for loop in loops for op in walk((loop,)) if op.kernel in ROWED
    )
    return executed * EXECUTION_PRODUCTS / max(1, _products(found.layers.program))


def _executions(body: tuple[Op | Loop, ...], times: int = 1) -> Iterator[tuple[Op, int]]:
    for item in body:
        if isinstance(item, Loop):
            yield from _executions(item.body, times * item.count)
        else:
            yield item, times


def _products(program: Program) -> int:
    """Products of all layers; of other operations an element counts as one."""
    total = 0
    for op, times in _executions(program.body):
        weights = program.tensors[op.inputs[0]] if op.inputs else None
        is_layer = weights is not None and weights.role == Role.CONSTANT and "outputs" in op.params
        per_element = weights.count // op.params["outputs"] if weights is not None and is_layer else 1
        total += times * program.tensors[op.output].count * per_element
    return total


def _input_bytes(program: Program) -> int:
    return program.tensors[program.input].size_bytes
