"""Exp and Log: a power of two times a short table and a parabola, or a table and a short series.

exp(s x) = 2**(k + f) with k + f = s x log2(e), 0 <= f < 1. The exponent is exact to 2**-20 (the factor s log2(e) has 23
bits); 2**f = (1 + T[i] / 2**16) * 2**r, T[i] = round((2**(i/32) - 1) * 2**16), 0 <= r < 1/32, 2**r by its parabola.
Relative error: factor 2**-24 of the exponent, which is 32 at most where the result is not 0; exponent cut off below
2**-20; table 2**-17; parabola and its two truncations 4e-6. Together below 1.3e-5, that is 0.43 units of the last place
of a 16-bit result, 0.93 with its rounding: `WORST_ULP` holds for every input.

log(x): x = m 2**p, m = c (1 + d), c one of 32 steps; log(m / c) = 2 (s + s**3 / 3), s = (m - c) / (m + c) < 1/64, in
units of 2**-22. The table holds log(c) to 2**-17, so `LOG_ERROR` bounds the error before the rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinyhil.formats.codec import requantize
from tinyhil.formats.format import Format
from tinyhil.language.graph import Node, Shape
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops import real_functions
from tinyhil.ops.operator import Arrays, Form, Kernel, Operator, accumulator_bits, attr, by_domain

WORST_ULP = 1.0
LOG_ERROR = 9e-6
STEPS = 32
EXPONENT_BITS = 20  # below the binary point of the power's exponent
FACTOR_BITS = 23
MOST_EXPONENT = 1 << 30
MANTISSA_BITS = 29
LOG_BITS = 22
EXP_TABLE, LOG_TABLE = "power_table", "log_table"
MOST_LIFT, MOST_DROP = 20, 62


def power_table() -> np.ndarray:
    """2**(i / STEPS) - 1 in units of 2**-16."""
    return np.floor((2.0 ** (np.arange(STEPS) / STEPS) - 1) * 65536 + 0.5).astype(np.int64)


def log_table() -> np.ndarray:
    """ln(1 + i / STEPS) in units of 2**-16."""
    return np.floor(np.log1p(np.arange(STEPS) / STEPS) * 65536 + 0.5).astype(np.int64)


def infer_same(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    """The shape of the operand."""
    return [shapes[0]]


# ---- Exp. The attribute `factor` (of ours, 1 when absent) multiplies the operand first.


def _evaluate_exp(node: Node, arrays: Arrays) -> list[np.ndarray]:
    return [np.exp(np.float32(attr(node, "factor", 1.0)) * arrays[0])]


def exp_params(factor: float, exponent: int, out_exponent: int) -> dict[str, int]:
    """Parameters of `exp` for exp(factor * X * 2**exponent) in units of 2**out_exponent."""
    scaled = factor * math.log2(math.e)
    _, power = math.frexp(scaled)  # |scaled| = mantissa * 2**power, mantissa of 1/2..1
    lift = FACTOR_BITS - power
    return {
        "factor": math.floor(math.ldexp(scaled, lift) + 0.5),
        "drop": min(max(lift - EXPONENT_BITS - exponent, -MOST_LIFT), MOST_DROP),
        "shift": min(max(MANTISSA_BITS + out_exponent, -128), 128),
    }


def _lower_exp(node: Node, lowering: Lowering) -> None:
    x = lowering.operand(node.inputs[0])
    table = lowering.add_table(EXP_TABLE, power_table())
    out = lowering.define(node.outputs[0])
    exponent = lowering.loaded(node.inputs[0]).exponent
    params = {"count": out.count, **exp_params(attr(node, "factor", 1.0), exponent, out.format.exponent)}
    lowering.emit(node, Op(EXP.form, node.name, (table, x), out.name, params, 63))


def power_of_two(t: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """2**(t / 2**20) = mantissa * 2**(k - 29): (mantissa, k)."""
    fraction = t & ((1 << EXPONENT_BITS) - 1)
    r = fraction & 0x7FFF
    z = (r * 45426) >> 16  # log(2) * 2**16
    q = z + ((z * z) >> 21)
    a = 65536 + table[fraction >> 15]
    return (a << 13) + ((a * q) >> 7), t >> EXPONENT_BITS


def _execute_exp(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    product = arrays[1] * p["factor"]
    t = product >> p["drop"] if p["drop"] >= 0 else product << -p["drop"]
    mantissa, k = power_of_two(np.clip(t, -MOST_EXPONENT, MOST_EXPONENT), arrays[0].reshape(-1))
    shift = np.clip(p["shift"] - k, 1, 31)
    y = np.where(shift > 30, 0, (mantissa + (np.int64(1) << (shift - 1))) >> shift)
    return requantize(y, 0, out)


# ---- Log


def _evaluate_log(node: Node, arrays: Arrays) -> list[np.ndarray]:
    with np.errstate(divide="ignore"):  # of 0: minus infinity
        return [np.log(arrays[0])]


def _lower_log(node: Node, lowering: Lowering) -> None:
    x = lowering.operand(node.inputs[0])
    table = lowering.add_table(LOG_TABLE, log_table())
    out = lowering.define(node.outputs[0])
    exponent = min(max(lowering.loaded(node.inputs[0]).exponent, -128), 128)
    offset = math.floor(exponent * math.log(2) * 2**LOG_BITS + 0.5)
    shift = out.format.exponent + LOG_BITS
    bits = accumulator_bits(abs(offset) + (12 << LOG_BITS), shift)
    params = {"count": out.count, "offset": offset, "shift": shift}
    lowering.emit(node, Op(LOG.form, node.name, (table, x), out.name, params, bits))


def natural_log(x: np.ndarray, table: np.ndarray) -> np.ndarray:
    """log(x) * 2**22 for x of 1..2**15."""
    power = np.floor(np.log2(x)).astype(np.int64)  # exact: no float64 logarithm of 15 bits rounds up to an integer
    mantissa = x << (15 - power)
    step = mantissa >> 10
    c = step << 10
    s = ((mantissa - c) << LOG_BITS) // (mantissa + c)
    cube = (s * ((s * s) >> LOG_BITS)) >> LOG_BITS
    return power * 2907270 + (table[step & 31] << 6) + 2 * s + (2 * cube) // 3


def _execute_log(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p, x = op.params, arrays[1]
    y = natural_log(np.maximum(x, 1), arrays[0].reshape(-1)) + p["offset"]
    codes, clipped = requantize(y, p["shift"], out)
    lowest = requantize(np.array([-(1 << 31)]), 0, out)[0]
    return np.where(x > 0, codes, lowest), clipped | (x <= 0)


EXP = Kernel(
    Form("exp"),
    f"e to the power of a constant times x, worst error {WORST_ULP} unit of the last place",
    _execute_exp,
    ("count", "factor", "drop", "shift"),
    in_place=True,
)
LOG = Kernel(
    Form("log"),
    f"natural logarithm, worst error {LOG_ERROR} besides its rounding; the lowest value for x <= 0, counted",
    _execute_log,
    ("count", "offset", "shift"),
    ("shift",),
    in_place=True,
)
KERNELS = (EXP, LOG)

OPERATORS = (
    Operator(
        "Exp",
        f"worst error {WORST_ULP} unit of the last place",
        infer_same,
        _evaluate_exp,
        by_domain(_lower_exp, real_functions.function(_evaluate_exp)),
        ("factor",),
        integers_only=True,
    ),
    Operator(
        "Log",
        f"worst error {LOG_ERROR} besides its rounding; x <= 0 saturates",
        infer_same,
        _evaluate_log,
        by_domain(_lower_log, real_functions.function(_evaluate_log)),
        integers_only=True,
    ),
)
