"""What no firmware can undercut: the products of a model times the fewest cycles that a core needs for one.

Instruction timings: AVR instruction set manual (MUL takes 2 cycles, an addition to 16 bits 2); ARMv7-M technical
reference manuals (Cortex-M3: MUL and ADD 1 each, of which packed operands could share the first; Cortex-M4 and M7:
SMLAD sums two products in one). Loads, which all real loops need as well, are not counted: what this bound refuses no
kernel can reach.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinyhil.formats import named
from tinyhil.language.program import Op, Program, Role, executions
from tinyhil.memplan.arena.row_costs import products_of_op
from tinyhil.ops import KERNEL_OF

CYCLES_PER_PRODUCT: Mapping[str, float] = {"avr": 4.0, "cortex-m3": 1.0, "cortex-m4": 0.5, "cortex-m7": 0.5}
FEWEST_BITS = 4  # narrower weights may be summed without a multiplication, or many at once


def has_floor(formats: tuple[str, ...]) -> bool:
    """Whether the bound holds for every format on offer."""
    return all(named(name).bits >= FEWEST_BITS for name in formats)


def floor_cycles(program: Program, core: str) -> float:
    """Cycles that a sample takes at least; 0 on a core of which nothing is known. Products with a weight of 0 are free,
    for sparse kernels leave them out."""
    cycles = CYCLES_PER_PRODUCT.get(core, 0.0)
    return sum(cycles * times * _products(program, op) for op, times in executions(program.body))


def _products(program: Program, op: Op) -> float:
    if not KERNEL_OF[op.kernel].is_sum:
        return 0.0
    weights = [name for name in op.inputs if program.tensors[name].role == Role.CONSTANT and name in program.constants]
    if not weights:
        return 0.0
    largest = max(weights, key=lambda name: program.tensors[name].count)
    codes = program.constants[largest]
    return products_of_op(program, op) * float(np.count_nonzero(codes)) / max(1, codes.size)
