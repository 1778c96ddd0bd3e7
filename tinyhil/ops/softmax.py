"""Softmax along one axis: the exponential of the distance to the largest element by table and parabola, a division.

The table holds E[i] = round(exp(-i/32) * 2**15), i = 0..384; behind it, at t >= 12, exp(-t) counts as zero (it is below
0.21 of a table unit). Between entries exp(-r) = 1 - r + r**2/2 for 0 <= r < 1/32, in 16 fraction bits.

e = (E[i] * parabola) >> 12 has 19 fraction bits. Its error: table 2**-16, parabola r**3/6 < 5.1e-6 and two units of
2**-16 by truncation, last shift 2**-19: below 5.3e-5. The result y = e / sum(e) is rounded once; since the largest
element gives exactly 1 and so sum(e) >= 1, y is wrong by at most 5.3e-5 * (1 + n * y) plus that rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyhil.formats.codec import requantize
from tinyhil.formats.format import Format
from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops import affine_softmax, real_functions
from tinyhil.ops.operator import Arrays, Form, Kernel, Operator, attr, axis_of, by_domain, refuse

STEPS_LOG2 = 5
LAST = 12 << STEPS_LOG2
FRACTION_BITS = 16  # of t between two entries: t * 2**16 mod 2**11
TABLE_NAME = "exp_table"
MAX_COUNT = 1 << 12  # sums of 2**19 each stay below 2**31
WORST_ERROR = 5.3e-5


def exp_table() -> np.ndarray:
    """exp(-i / 2**STEPS_LOG2) in units of 2**-15."""
    return np.floor(np.exp(-np.arange(LAST + 1) / (1 << STEPS_LOG2)) * (1 << 15) + 0.5).astype(np.int64)


def exp_negative(distance: np.ndarray, exponent: int, table: np.ndarray) -> np.ndarray:
    """exp(-distance * 2**exponent) * 2**19 for distance >= 0."""
    # t = distance * 2**exponent in units of 2**-16, cut off behind the end of the table
    shift = exponent + FRACTION_BITS
    end = (LAST + 1) << (FRACTION_BITS - STEPS_LOG2)
    t = distance << min(shift, 20) if shift >= 0 else distance >> min(-shift, 20)
    t = np.minimum(t, end)
    index = t >> (FRACTION_BITS - STEPS_LOG2)
    r = t & ((1 << (FRACTION_BITS - STEPS_LOG2)) - 1)
    parabola = (1 << 16) - r + ((r * r) >> 17)
    return np.where(index >= LAST, 0, (table[np.minimum(index, LAST)] * parabola) >> 12)


def _infer(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    axis_of(node, attr(node, "axis", -1), len(shapes[0]))
    return [shapes[0]]


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    x = arrays[0]
    axis = axis_of(node, attr(node, "axis", -1), x.ndim - 1) + 1
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return [e / e.sum(axis=axis, keepdims=True)]


def _lower(node: Node, lowering: Lowering) -> None:
    x, shape = lowering.operand(node.inputs[0]), lowering.shape(node.inputs[0])
    axis = axis_of(node, attr(node, "axis", -1), len(shape))
    if shape[axis] > MAX_COUNT:
        raise refuse(node, f"{shape[axis]} elements along axis {axis}, the limit is {MAX_COUNT}", "leave the layer out")
    table = lowering.add_table(TABLE_NAME, exp_table())
    out = lowering.define(node.outputs[0])
    params = {
        "outer": element_count(shape[:axis]),
        "count": shape[axis],
        "inner": element_count(shape[axis + 1 :]),
        "scale": lowering.loaded(node.inputs[0]).exponent + FRACTION_BITS,
        "fraction_bits": -out.format.exponent,
    }
    if not 0 <= params["fraction_bits"] <= 40:
        raise refuse(node, f"results in units of 2^{out.format.exponent}", "calibrate on other inputs")
    lowering.emit(node, Op(SOFTMAX.form, node.name, (table, x), out.name, params, 63))


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    x = arrays[1].reshape(-1, p["outer"], p["count"], p["inner"])
    distance = x.max(axis=2, keepdims=True) - x
    e = exp_negative(distance, p["scale"] - FRACTION_BITS, arrays[0].reshape(-1))
    total = e.sum(axis=2, keepdims=True)
    y = ((e << p["fraction_bits"]) + total // 2) // total
    return requantize(y.reshape(len(x), -1), 0, out)


def _execute_looked_up(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    x = arrays[1].reshape(-1, p["outer"], p["count"])
    e = arrays[0].reshape(-1)[x.max(axis=2, keepdims=True) - x]
    total = e.sum(axis=2, keepdims=True)
    y = ((e << p["fraction_bits"]) + total // 2) // total
    return requantize(y.reshape(len(x), -1), 0, out)


_PARAMS = ("outer", "count", "inner", "scale", "fraction_bits")
SOFTMAX = Kernel(Form("softmax"), "exponentials by table, one division per element", _execute, _PARAMS)
LOOKED_UP = Kernel(  # tinyhil/passes/softmax_tables.py
    Form("softmax_looked_up"),
    "rows of bytes: exponentials of every distance by one table, one division per element",
    _execute_looked_up,
    ("outer", "count", "fraction_bits"),
)
KERNELS = (SOFTMAX, LOOKED_UP)

OPERATORS = (
    Operator(
        "Softmax",
        f"any axis; worst error {WORST_ERROR} (1 + n y) besides the rounding, for a result y of n",
        _infer,
        _evaluate,
        by_domain(_lower, real_functions.lower_softmax, affine_softmax.lower),
        ("axis",),
        integers_only=True,
    ),
)
