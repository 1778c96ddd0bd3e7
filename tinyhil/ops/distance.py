"""SquaredDistance: sum over the last axis of (a - b)**2 in one pass, without a matrix of differences or of squares.

The difference is rounded once to 16 bits, in the scale its calibrated range asks for; its squares are exact and so is
their sum, rounded once. The unfused operators round the difference, each square, and the sum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyhil.formats.codec import requantize
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import Format
from tinyhil.graph import Node, Shape, element_count
from tinyhil.lowering import Lowering
from tinyhil.ops.operator import Arrays, Kernel, Operator, accumulator_bits, align
from tinyhil.program import Op

DIFFERENCE_BITS = 16


def _infer(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    return [tuple(node.attrs["shape"])]


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    a, b = align(arrays)
    distance = np.square(a - b).sum(axis=-1)
    return [distance.reshape(len(distance), *node.attrs["shape"])]


def steps(shape: Shape, rows: int, inner: int) -> int | None:
    """Elements from the operand's row for one result to that for the next: 0 for one row for all; None: neither."""
    count = element_count(shape)
    if not shape or shape[-1] != inner:
        return None
    return inner if count == rows * inner else 0 if count == inner else None


def lifts(exponents: Sequence[int]) -> list[int]:
    """Left shifts that bring operands to one scale."""
    return [exponent - min(exponents) for exponent in exponents]


def difference_bits(lowests: Sequence[int], exponents: Sequence[int], shift: int) -> int:
    """Width of the aligned difference of two operands."""
    bound = sum(-lowest << lift for lowest, lift in zip(lowests, lifts(exponents), strict=True))
    return accumulator_bits(bound, shift)


def _lower(node: Node, lowering: Lowering) -> None:
    rows, inner = lowering.count(node.outputs[0]), lowering.shape(node.inputs[0])[-1]
    formats = [lowering.loaded(value) for value in node.inputs]
    exponents = [fmt.exponent for fmt in formats]
    exponent = max(int(node.attrs["exponent"]), min(exponents))
    names = tuple(lowering.operand(value) for value in node.inputs)
    out = lowering.define(node.outputs[0])
    shift = out.format.exponent - 2 * exponent
    params = {
        "rows": rows,
        "inner": inner,
        **{f"{w}_step": steps(lowering.shape(v), rows, inner) or 0 for w, v in zip("ab", node.inputs, strict=True)},
        **{f"{which}_shift": lift for which, lift in zip("ab", lifts(exponents), strict=True)},
        "drop": exponent - min(exponents),
        "shift": shift,
    }
    bits = accumulator_bits(inner << (2 * DIFFERENCE_BITS - 2), shift)
    lowering.emit(node, Op(SQUARED_DISTANCE.name, node.name, names, out.name, params, bits))


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    a, b = (array.reshape(len(array), -1, p["inner"]) for array in arrays)
    difference = (a << p["a_shift"]) - (b << p["b_shift"])
    difference = np.broadcast_to(difference, (len(difference), p["rows"], p["inner"]))
    rounded, clipped = requantize(difference, p["drop"], Fixed(DIFFERENCE_BITS, 0))
    codes, beyond = requantize((rounded * rounded).sum(axis=2), p["shift"], out)
    return codes, np.concatenate([clipped.reshape(len(clipped), -1), beyond], axis=1)


_PARAMS = ("rows", "inner", "a_step", "b_step", "a_shift", "b_shift", "drop", "shift")
SQUARED_DISTANCE = Kernel(
    "squared_distance",
    "sums of squared differences: difference rounded to 16 bits, exact sum, one rounding",
    _execute,
    _PARAMS,
    ("a_shift", "b_shift", "drop", "shift"),
    is_sum=True,
)
KERNELS = (SQUARED_DISTANCE,)

OPERATORS = (
    Operator(
        "SquaredDistance",
        "Sub, Mul with itself and ReduceSum over the last axis, fused",
        _infer,
        _evaluate,
        _lower,
        ("shape", "exponent"),
    ),
)
