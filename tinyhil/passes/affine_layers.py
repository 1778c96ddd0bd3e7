"""Constants of asymmetric layers as kernels read them that subtract the zero point, and as those of an ATmega do
(firmware/kernels/avr/affine_rows_avr.hpp)."""

from __future__ import annotations

import math

import numpy as np

from tinyhil.formats.affine import MULTIPLIER_BITS
from tinyhil.language.program import Blocks, Op, Program, Stored
from tinyhil.ops.affine_pair import FACTOR_BITS, MOST_FACTOR

SUM_BITS = 24
NEAR_BITS = 24  # of a multiplier that decides nearly all results, a number below 2^-8 in units of 2^-32
MOST_LIFT = 3  # powers of two by which larger ones are divided, and the rounded sums are multiplied again
FEWEST_ROWS = 4  # of a block in which a test of an element saves more than it costs
MOST_RESULT = (1 << 15) - 1 - 257  # room for the zero point and the rounding


def sum_bounds(program: Program, op: Op) -> np.ndarray:
    """What no sum of each output exceeds, without the zero point's part apart from the bias."""
    weights, bias = (program.constants[name].astype(np.int64) for name in (op.inputs[0], op.inputs[2]))
    sizes = np.abs(weights.reshape(len(bias), -1)).sum(axis=1)
    if "more_inner" in op.params:
        more = np.abs(program.constants[op.inputs[-2]].astype(np.int64)).reshape(len(bias), -1)
        sizes = sizes + (more.sum(axis=1) << op.params["lift"])
    return sizes * 128 + np.abs(bias)


def sums_are_below(program: Program, op: Op, limit: int) -> bool:
    """Whether sums of asymmetric integers are; twice 2^30 fits (firmware/kernels/common/affine.hpp)."""
    return bool(sum_bounds(program, op).max() < limit)


def bias_of_rows(program: Program, op: Op, blocks: Blocks) -> Stored | None:
    """What the kernel that takes rows in `blocks` reads in the place of a layer's biases; None: themselves."""
    begins = program.constants[op.inputs[2]].astype(np.int64) + _folded(program, op, blocks)
    near = _near_multipliers(program, op)
    if near is not None:
        return _together(begins, *near, blocks.together)
    return Stored(tuple(begins.tolist())) if blocks.left_out else None


def whole_factors(program: Program, op: Op) -> np.ndarray | None:
    """The factors of a layer's outputs as bytes in units of 2^-FACTOR_BITS; None if they are none."""
    multipliers, shifts = (program.constants[name].astype(np.int64) for name in op.inputs[3:5])
    factors = np.ldexp(multipliers.astype(np.float64), shifts - MULTIPLIER_BITS + FACTOR_BITS)
    are_whole = bool((factors == np.rint(factors)).all()) and factors.min() > 0 and factors.max() <= MOST_FACTOR
    return factors.astype(np.int64) if are_whole else None


def bias_of_pair(program: Program, op: Op, together: int) -> Stored | None:
    """What the kernel of a pair reads in the place of its biases: three bytes of each bias of `together` rows, and
    behind them factors that are bytes in units of 2^-16, else multipliers as `bias_of_rows` has them; None: neither."""
    factors = whole_factors(program, op)
    if factors is None:
        near = _near_multipliers(program, op)
        return _together(program.constants[op.inputs[2]].astype(np.int64), *near, together) if near else None
    if op.accumulator_bits > SUM_BITS:
        return None
    rows = -(-len(factors) // together) * together
    begins = np.zeros(rows, np.int64)
    begins[: len(factors)] = program.constants[op.inputs[2]]
    by = np.zeros((rows, 1), np.int64)
    by[: len(factors), 0] = factors
    three = (begins[:, None] >> np.array([0, 8, 16]) & 0xFF).reshape(-1, 3 * together)
    stored = np.concatenate([three, by.reshape(-1, together)], axis=1).astype(np.uint8).reshape(-1)
    return Stored(tuple(stored.view("<i4").tolist()), "hil::byte_factors", together)


def records_of_rows(program: Program, op: Op, blocks: Blocks) -> Stored | None:
    """The same of records, whose first number is the bias (firmware/kernels/arm/rescaled.hpp)."""
    if not blocks.left_out:
        return None
    records = program.constants[op.inputs[2]].astype(np.int64).reshape(op.params["outputs"], -1)
    records[:, 0] += _folded(program, op, blocks)
    return Stored(tuple(records.reshape(-1).tolist()))


def _folded(program: Program, op: Op, blocks: Blocks) -> np.ndarray:
    """What joins the bias where the kernel itself subtracts the code it leaves out from each element: in whole blocks,
    and in those of the rest unless they have fewer than FEWEST_ROWS."""
    stored = program.constants[op.inputs[0]].astype(np.int64) - (blocks.raised or 0)  # what joins sums is of all codes
    weights = stored.reshape(op.params["outputs"], -1)
    rows = len(weights) - (len(weights) % blocks.together if 0 < blocks.rest < FEWEST_ROWS else 0)
    return np.where(np.arange(len(weights)) < rows, (blocks.left_out or 0) * weights.sum(axis=1), 0)


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
    return Stored(tuple(stored.view("<i4").tolist()), f"hil::near_rows<{lift}>", together)
