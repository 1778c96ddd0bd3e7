"""Weights of asymmetric layers that are bytes and one number more: unsigned bytes less their zero point.

    sum w x = sum (w - c) x + c sum x,        c = 128 - zero point

holds for every integer x, padding included, so the bytes w - c go to the blocks that multiply bytes, and a sum starts
at c sum x, which all outputs of a window share. The sum of the window is what it was, and so is the proof of its width:
what sums of 32 bits (24 in pairs) are on the way wraps around. Kernels that read weights one by one, in depthwise
layers, add c to each of them instead (firmware/kernels/common/memory.hpp, `Raised`).
"""

from __future__ import annotations

import numpy as np

from tinyhil.language.form import Arithmetic, Joined
from tinyhil.language.program import Op, Program, Role

LOW, HIGH = -128, 127
LAYERS = (Arithmetic.AFFINE, Arithmetic.RESCALED)


def raised(program: Program, op: Op) -> int | None:
    """What all weights of a layer are more than bytes; None if their format is one byte, or there is no such number.

    The least number in magnitude, of those that leave no byte -128 if there are any: rows of such bytes go in pairs.
    The byte that stands for a weight of 0 exists, too."""
    weights = program.tensors[op.inputs[0]]
    known = op.kernel.arithmetic in LAYERS and op.kernel.joined is Joined.NOTHING
    if not known or weights.role != Role.CONSTANT or weights.format.bits <= 8 or not weights.format.is_binary_point:
        return None
    codes = program.constants[op.inputs[0]]
    highest, lowest = max(int(codes.max()), 0), min(int(codes.min()), 0)
    least, most = highest - HIGH, lowest - LOW
    if least > most:
        return None
    return int(np.clip(0, least, max(most - 1, least)))
