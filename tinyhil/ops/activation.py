"""Sigmoid and Tanh from one table of the logistic function with linear interpolation.

The table holds T[i] = round((sigmoid(i/32) - 1/2) * 2**17), i = 0..352, that is 0 <= t <= 11, where 1 - sigmoid(11)
is half a step of 2**-15. Symmetry gives the negative side, tanh(x) = 2 (sigmoid(2x) - 1/2) the other function.

Error at 16-bit output (scale 2**-15), derived: interpolation (1/32)**2 / 8 * max|sigmoid''| = 0.38 units, table
rounding 0.06, one final rounding 0.5: below 1 unit for sigmoid, and twice the first two for tanh: below 1.5.
`WORST_ULP` states these bounds for outputs at 2**-15 or coarser, where a test walks every input; finer outputs keep the
error of the table in absolute terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tinyhil.formats.codec import requantize
from tinyhil.formats.format import Format
from tinyhil.language.graph import Node, Shape
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops import real_functions, word_functions
from tinyhil.ops.operator import Arrays, Form, Kernel, Operator, accumulator_bits, by_domain

STEPS_LOG2 = 5  # table steps of 1/32
LAST = 11 << STEPS_LOG2
TABLE_FRACTION_BITS = 17
MAX_FRACTION_BITS = 12  # interpolation stays below 2**29
TABLE_NAME = "sigmoid_table"
WORST_ULP = {"Sigmoid": 1.0, "Tanh": 1.5}


def sigmoid_table() -> np.ndarray:
    """The 353 entries of the shared table, unsigned 16-bit values as int64."""
    t = np.arange(LAST + 1) / (1 << STEPS_LOG2)
    half_logistic = 0.5 * np.tanh(t / 2)  # = sigmoid(t) - 1/2, without cancellation
    return np.floor(half_logistic * (1 << TABLE_FRACTION_BITS) + 0.5).astype(np.int64)


def interpolate(magnitude: np.ndarray, drop: int, fraction_bits: int, lift: int, table: np.ndarray) -> np.ndarray:
    """(sigmoid(t) - 1/2) * 2**(17 + fraction_bits) for t = magnitude * 2**(lift - drop - fraction_bits) / 32."""
    position = (magnitude >> drop) << lift
    index = position >> fraction_bits
    fraction = position & ((1 << fraction_bits) - 1)
    inside = index < LAST
    low = np.where(inside, index, LAST)
    fraction = np.where(inside, fraction, 0)
    high = np.minimum(low + 1, LAST)
    return (table[low] << fraction_bits) + (table[high] - table[low]) * fraction


def _infer(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    return [shapes[0]]


def _evaluate_sigmoid(node: Node, arrays: Arrays) -> list[np.ndarray]:
    return [(0.5 * (np.tanh(0.5 * arrays[0]) + 1.0)).astype(np.float32)]


def _evaluate_tanh(node: Node, arrays: Arrays) -> list[np.ndarray]:
    return [np.tanh(arrays[0])]


def _lower(kernel: Kernel, doubling: int) -> Callable[[Node, Lowering], None]:
    """`doubling` is 1 for tanh, whose argument and result are doubled."""

    def lower(node: Node, lowering: Lowering) -> None:
        x = lowering.operand(node.inputs[0])
        table = lowering.add_table(TABLE_NAME, sigmoid_table())
        out = lowering.define(node.outputs[0])
        # table position = |X| * 2**(exponent + 5 + doubling): that many bits below the point
        below_point = -(lowering.loaded(node.inputs[0]).exponent + STEPS_LOG2 + doubling)
        fraction_bits = min(max(below_point, 0), MAX_FRACTION_BITS)
        params = {
            "count": out.count,
            "drop": min(max(below_point - MAX_FRACTION_BITS, 0), 16),  # |X| >> 16 is 0 already
            "fraction_bits": fraction_bits,
            "lift": min(max(-below_point, 0), 9),  # |X| << 9 is past the table's end for every |X| >= 1
            "shift": out.format.exponent + TABLE_FRACTION_BITS - doubling + fraction_bits,
        }
        bound = 1 << (TABLE_FRACTION_BITS + fraction_bits)
        bits = accumulator_bits(bound, params["shift"])
        lowering.emit(node, Op(kernel.form, node.name, (table, x), out.name, params, bits))

    return lower


def _execute_sigmoid(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    table, x = arrays[0].reshape(-1), arrays[1]
    y = interpolate(np.abs(x), p["drop"], p["fraction_bits"], p["lift"], table)
    half = 1 << (TABLE_FRACTION_BITS - 1 + p["fraction_bits"])
    return requantize(np.where(x < 0, half - y, half + y), p["shift"], out)


def _execute_tanh(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    table, x = arrays[0].reshape(-1), arrays[1]
    y = interpolate(np.abs(x), p["drop"], p["fraction_bits"], p["lift"], table)
    return requantize(np.where(x < 0, -y, y), p["shift"], out)


_PARAMS = ("count", "drop", "fraction_bits", "lift", "shift")
SIGMOID = Kernel(
    Form("sigmoid"), "logistic function by table and interpolation", _execute_sigmoid, _PARAMS, _PARAMS, in_place=True
)
TANH = Kernel(Form("tanh"), "hyperbolic tangent from the same table", _execute_tanh, _PARAMS, _PARAMS, in_place=True)
KERNELS = (SIGMOID, TANH)

OPERATORS = (
    Operator(
        "Sigmoid",
        "logistic function, worst error 1 unit of the last place (at 2^-15 or coarser)",
        _infer,
        _evaluate_sigmoid,
        by_domain(_lower(SIGMOID, 0), real_functions.function(_evaluate_sigmoid)),
        words=word_functions.in_words(word_functions.SIGMOID, real_functions.function(_evaluate_sigmoid)),
    ),
    Operator(
        "Tanh",
        "hyperbolic tangent, worst error 1.5 units of the last place (at 2^-15 or coarser)",
        _infer,
        _evaluate_tanh,
        by_domain(_lower(TANH, 1), real_functions.function(_evaluate_tanh)),
        words=word_functions.in_words(word_functions.TANH, real_functions.function(_evaluate_tanh)),
    ),
)
