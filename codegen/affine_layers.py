"""Constants of asymmetric layers as an ATmega reads them (firmware/kernels/avr/affine_rows_avr.hpp)."""

from __future__ import annotations

import math

import numpy as np

from tinyhil.formats.affine import MULTIPLIER_BITS
from tinyhil.program import Op, Program, Stored

SUM_BITS = 24
NEAR_BITS = 24  # of a multiplier that decides nearly all results, a number below 2^-8 in units of 2^-32
MOST_LIFT = 3  # powers of two by which larger ones are divided, and the rounded sums are multiplied again
MOST_RESULT = (1 << 15) - 1 - 257  # room for the zero point and the rounding


def sum_bounds(program: Program, op: Op) -> np.ndarray:
    """What no sum of each output exceeds, without the zero point's part apart from the bias."""
    weights, bias = (program.constants[name].astype(np.int64) for name in (op.inputs[0], op.inputs[2]))
    return np.abs(weights.reshape(len(bias), -1)).sum(axis=1) * 128 + np.abs(bias)


def sums_are_below(program: Program, op: Op, limit: int) -> bool:
    """Whether sums of asymmetric integers are; twice 2^30 fits (firmware/kernels/common/affine.hpp)."""
    return bool(sum_bounds(program, op).max() < limit)


def bias_of_rows(program: Program, op: Op, together: int, left_out: int | None) -> Stored | None:
    """What the kernel that takes `together` rows at a time reads in the place of a layer's biases; None: themselves."""
    bias = program.constants[op.inputs[2]].astype(np.int64)
    begins = bias + _folded(program, op, len(bias) - len(bias) % together, left_out or 0)
    near = _near_multipliers(program, op)
    if near is not None:
        return _together(begins, *near, together)
    return Stored(tuple(begins.tolist())) if left_out else None


def _folded(program: Program, op: Op, rows: int, zero: int) -> np.ndarray:
    """What leaves the bias where the kernel itself subtracts `zero` from each element of the first `rows` sums."""
    weights = program.constants[op.inputs[0]].astype(np.int64).reshape(op.params["outputs"], -1)
    return np.where(np.arange(len(weights)) < rows, zero * weights.sum(axis=1), 0)


def _near_multipliers(program: Program, op: Op) -> tuple[np.ndarray, int] | None:
    """Numbers of 24 bits, and by which power of two they are too small; None where sums or results need more bits."""
    multipliers, shifts = (program.constants[name].astype(np.int64) for name in op.inputs[3:5])
    factors = np.ldexp(multipliers.astype(np.float64), shifts - MULTIPLIER_BITS)
    lift = max(math.frexp(float(factors.max()))[1] + 8, 0)
    results = sum_bounds(program, op) * factors
    if op.accumulator_bits > SUM_BITS or lift > MOST_LIFT or results.max() > MOST_RESULT:
        return None
    return np.minimum(np.rint(np.ldexp(factors, 32 - lift)), (1 << NEAR_BITS) - 1).astype(np.int64), lift


def _together(begins: np.ndarray, near: np.ndarray, lift: int, together: int) -> Stored:
    """Three bytes each of `together` biases and of as many multipliers in turn, as words."""
    both = np.stack([np.pad(row, (0, -len(row) % together)).reshape(-1, together) for row in (begins, near)], axis=1)
    stored = (both.reshape(-1, 1) >> np.array([0, 8, 16]) & 0xFF).astype(np.uint8).reshape(-1)
    return Stored(tuple(stored.view("<i4").tolist()), f"hil::near_rows<{lift}>")
