"""Softmax of 8-bit asymmetric integers in the integers of TensorFlow Lite (kernels/internal/reference/softmax.h).

The exponential of the distance to the largest code is a number in 0..1 with 31 fraction bits: a table with an entry for
each distance, made by gemmlowp's fixed-point exponential (fixedpoint.h). The sum has 19 fraction bits, its reciprocal
comes from three steps of Newton's, and results are in units of 1/256 from code -128 up: the one grid for which there is
such a kernel. Every product is rounded as SaturatingRoundingDoublingHighMul rounds it.
"""

from __future__ import annotations

import math

import numpy as np

from tinyhil.formats.affine import MULTIPLIER_BITS, as_affine, multiplier, rescale
from tinyhil.formats.format import Format
from tinyhil.language.graph import Node, element_count
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops import real_functions
from tinyhil.ops.affine import WORD
from tinyhil.ops.operator import Arithmetic, Arrays, Form, Kernel, attr, axis_of

ONE = (1 << MULTIPLIER_BITS) - 1
INTEGER_BITS = 5  # of distances; beyond 31 the exponential counts as zero
SUM_DROP = 12  # fraction bits that the sum leaves out
MAX_COUNT = 1 << 12  # sums of 2**19 each stay below 2**31
RESULT = (1 / 256, -128)  # scale and zero point
WORST_ERROR = 2.0**-18  # of a result y of n, times 1 + n * y: terms of the sum are cut to 2**-20
# exp(-2**k) for k = -2..4, with 31 fraction bits
POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
EXP_EIGHTH, THIRD = 1895147668, 715827883  # exp(-1/8), 1/3
FORTY_EIGHT_17THS, MINUS_32_17THS = 1515870810, -1010580540  # with 29 fraction bits


def _times(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
    return rescale(a, b, 0)


def _halved(x: np.ndarray, times: int) -> np.ndarray:
    """x / 2**times, ties away from zero (RoundingDivideByPOT)."""
    return rescale(x, ONE + 1, -times)


def exp_negative(a: np.ndarray, integer_bits: int = INTEGER_BITS) -> np.ndarray:
    """exp(a) with 31 fraction bits, of a <= 0 with `integer_bits` fewer."""
    quarter = 1 << (MULTIPLIER_BITS - integer_bits - 2)
    part = (a & (quarter - 1)) - quarter  # -1/4..0; Taylor's series around -1/8
    x = (part << integer_bits) + (1 << (MULTIPLIER_BITS - 3))
    square = _times(x, x)
    terms = _times(_halved(_times(square, square), 2) + _times(square, x), THIRD) + square
    result = EXP_EIGHTH + _times(x + _halved(terms, 1), EXP_EIGHTH)
    for bit, factor in enumerate(POWERS):
        result = np.where((part - a) & (quarter << bit), _times(result, factor), result)
    return np.where(a == 0, ONE, result)


def exp_factor(scale: float) -> tuple[int, int]:
    """(m, shift) that bring distances in units of `scale` to those of `exp_negative`."""
    return multiplier(min(scale * 2.0 ** (MULTIPLIER_BITS - INTEGER_BITS), float(ONE)))


def exp_table(scale: float) -> np.ndarray:
    """exp(-scale * d) for the distances d from 0 up that count."""
    return exp_table_of(*exp_factor(scale))


def exp_table_of(m: int, shift: int) -> np.ndarray:
    """The same by the factor of the distances."""
    most = math.floor(math.ldexp((1 << INTEGER_BITS) - 1, MULTIPLIER_BITS - INTEGER_BITS - shift))
    return exp_negative(_times(-np.arange(min(most, 255) + 1) << shift, m))


def reciprocal(total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(r, over): 1 / total = r * 2**-(over + 31), of sums 2**19 <= total < 2**31 in units of 2**-19."""
    zeros = 31 - np.floor(np.log2(total.astype(np.float64))).astype(np.int64)
    return reciprocal_of((total << zeros) >> 1), SUM_DROP - zeros


def reciprocal_of(half: np.ndarray) -> np.ndarray:
    """1 / (2 * half) of halves of numbers from 1 to 2, with 31 fraction bits, by three steps of Newton's method."""
    return np.minimum(_newton(half) << 1, ONE)


def logistic_of(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) with 31 fraction bits, of x with 27 (gemmlowp's logistic)."""
    above = reciprocal_of((exp_negative(-np.abs(x), 4) + ONE + 1) >> 1)
    return np.where(x == 0, 1 << 30, np.where(x > 0, above, ONE - above))


def tanh_of(x: np.ndarray) -> np.ndarray:
    """tanh(x) with 31 fraction bits, of x with 27 (gemmlowp's tanh)."""
    above = (_newton((exp_negative(-np.abs(x)) + ONE + 1) >> 1) - (1 << 29)) << 2
    return np.sign(x) * np.minimum(above, ONE)


def _newton(half: np.ndarray) -> np.ndarray:
    """1 / half with 29 fraction bits."""
    x = FORTY_EIGHT_17THS + _times(half, MINUS_32_17THS)
    for _ in range(3):
        x = x + (_times(x, (1 << (MULTIPLIER_BITS - 2)) - _times(half, x)) << 2)
    return x


def _execute(op: Op, arrays: Arrays, _: Format) -> tuple[np.ndarray, np.ndarray]:
    codes = softmax_codes(arrays[0], arrays[1].reshape(len(arrays[1]), op.params["outer"], op.params["count"]), 8)
    return codes, np.zeros((len(codes), 0), bool)


def softmax_codes(exponentials: np.ndarray, x: np.ndarray, bits: int) -> np.ndarray:
    """Codes (samples, elements) in units of 2**-bits from the lowest, of codes (samples, rows, columns) of int8."""
    table, distance = exponentials.reshape(-1), x.max(axis=2, keepdims=True) - x
    counts = distance < table.size
    e = np.where(counts, table[np.minimum(distance, table.size - 1)], 0)
    r, over = reciprocal(np.where(counts, _halved(e, SUM_DROP), 0).sum(axis=2, keepdims=True))
    codes = rescale(_times(e, r), ONE + 1, -(over + MULTIPLIER_BITS - bits)) - (1 << (bits - 1))
    return np.minimum(codes, (1 << (bits - 1)) - 1).reshape(len(x), -1)


def lower(node: Node, lowering: Lowering) -> None:
    """Softmax over the last axis with TensorFlow Lite's format of the result, else in single precision."""
    x, shape = as_affine(lowering.format(node.inputs[0])), lowering.shape(node.inputs[0])
    out = as_affine(lowering.format(node.outputs[0]))
    last = axis_of(node, attr(node, "axis", -1), len(shape)) == len(shape) - 1
    if (out.scale, out.zero) != RESULT or not last or shape[-1] >= MAX_COUNT or x.scale < 2.0**-26:
        real_functions.lower_softmax(node, lowering)
        return
    defined = lowering.define(node.outputs[0])
    table = lowering.add_codes(f"{defined.name}.exponentials", exp_table(x.scale), WORD)
    params = {"outer": element_count(shape[:-1]), "count": shape[-1]}
    params["entries"] = lowering.tensors[table].count
    names = (table, lowering.operand(node.inputs[0]))
    lowering.emit(node, Op(SOFTMAX.form, node.name, names, defined.name, params))


SOFTMAX = Kernel(
    Form("softmax", Arithmetic.AFFINE),
    "TensorFlow Lite's integers: exponentials by table, the reciprocal of their sum by Newton's method",
    _execute,
    ("outer", "count", "entries"),
    codes=(0, 1),
)
KERNELS = (SOFTMAX,)
