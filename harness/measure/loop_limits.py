"""What the inner loops of layers can reach: cycles (AVR) or instructions (Cortex-M) per product.

Measured once with loops written by hand for a fully connected layer of 64 x 32 and for blocks of a matrix product, loop
overhead included and every result checked. A kernel far above its limit is slow, one below it has found a better loop.
`benchmarks/kernels.py` prints all of them.
"""

from __future__ import annotations

from tinyhil.formats.format import SINGLE
from tinyhil.language.program import Op, Program

BYTE, HALF, FLOAT = "8", "16", "float"
LIMITS: dict[str, dict[tuple[str, str], float]] = {
    "avr": {(BYTE, BYTE): 10.15, (BYTE, HALF): 20.8, (HALF, HALF): 33.4},
    "cortex-m3": {(BYTE, BYTE): 2.42, (HALF, HALF): 2.42, (FLOAT, FLOAT): 90.7},
    "cortex-m4": {(BYTE, BYTE): 1.15, (HALF, HALF): 1.28, (FLOAT, FLOAT): 2.53},
    "cortex-m7": {(BYTE, BYTE): 1.15, (HALF, HALF): 1.28, (FLOAT, FLOAT): 2.53},
}


def loop_limit(core: str, program: Program, op: Op) -> float | None:
    """The limit of a layer with these operands on this core; None where none was measured."""
    operands = op.inputs[1:] if op.kernel.rows else op.inputs  # rows of a table come first
    if len(operands) < 2:
        return None
    weights, x = (_kind(program, op, name) for name in operands[:2])
    return LIMITS.get(core, {}).get((weights, x))


def _kind(program: Program, op: Op, name: str) -> str:
    fmt = program.tensors[name].format
    if op.domain == SINGLE:
        return FLOAT
    if fmt.grid is None or fmt.bits > 16 or fmt.is_sign:
        return ""
    return BYTE if fmt.bits <= 8 else HALF
