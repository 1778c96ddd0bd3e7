"""SquaredDistance: sum over the last axis of (a - b)**2 in one pass, without a matrix of differences or of squares.

Integers: the difference is rounded once to 16 bits, in the scale its calibrated range asks for; its squares are exact
and so is their sum, rounded once. Coded formats: the difference keeps its first 24 bits (30 of formats of 32 bits),
rounded to odd, and its square is cut into a window like any product. Single precision: in element order. The unfused
operators round the difference, each square, and the sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyhil.formats.codec import Accumulator, requantize
from tinyhil.formats.exact import exact_sum, odd
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import CODED, INTEGER, Format
from tinyhil.formats.quire import Operand, Window, granule_of, place_squares
from tinyhil.language.arithmetic import scaled, sum_along
from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.kernel import QUIRE
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops.operator import Arrays, Form, Kernel, Operator, accumulator_bits, align, by_domain

DIFFERENCE_BITS = 16
SIGNIFICANT_BITS, LONG_SIGNIFICANT_BITS = 24, 30


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
    exponents = [lowering.loaded(value).exponent for value in node.inputs]
    is_integer = lowering.domain(node.inputs) == INTEGER
    exponent = max(int(node.attrs["exponent"]), min(exponents)) if is_integer else min(exponents)
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
    drop = exponent - min(exponents)
    lowests = [lowering.loaded(value).lowest for value in node.inputs] if is_integer else []
    bits = accumulator_bits(inner * _largest_difference(lowests, lifts(exponents), drop) ** 2, shift)
    op = Op(SQUARED_DISTANCE.form, node.name, names, out.name, params, bits)
    if not is_integer:
        is_long = any(lowering.tensors[name].format.storage_bytes == 4 for name in names)
        operands = [_operand(lowering, *pair) for pair in zip(node.inputs, names, lifts(exponents), strict=True)]
        window = place_squares(operands, inner)
        params = {**params, "significant": LONG_SIGNIFICANT_BITS if is_long else SIGNIFICANT_BITS}
        op = replace(op, params=params, accumulator_bits=window.bits, low=window.low, guard=window.guard)
    lowering.emit(node, op)


def _largest_difference(lowests: Sequence[int], shifts: Sequence[int], drop: int) -> int:
    """Of integers that start at `lowests` (none: of other formats), moved left by `shifts`, rounded by `drop` bits."""
    most = 1 << (DIFFERENCE_BITS - 1)
    if not lowests:
        return most
    bound = sum(-lowest << lift for lowest, lift in zip(lowests, shifts, strict=True))
    return min((bound + (1 << drop >> 1)) >> drop, most)


def _operand(lowering: Lowering, value: str, tensor: str, lift: int) -> Operand:
    """What is known of the numbers of an operand, moved left by `lift`; of a constant everything."""
    fmt = lowering.format(value)
    granule = 0 if fmt.domain == INTEGER else fmt.granule
    largest = math.ldexp(fmt.largest, fmt.exponent - lowering.loaded(value).exponent)
    observed = min(lowering.observed(value), largest) or largest
    if lowering.constant(value) is not None:
        numbers = lowering.magnitudes(tensor).astype(np.float64)
        granule, largest = granule_of(numbers), float(numbers.max(initial=0.0))
        observed = largest
    return Operand(math.ldexp(largest, lift), math.ldexp(observed, lift), granule + lift)


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    a, b = (array.reshape(len(array), -1, p["inner"]) for array in arrays)
    a, b = scaled(a, p["a_shift"]), scaled(b, p["b_shift"])
    size = (len(np.broadcast_arrays(a[:, :1, :1], b[:, :1, :1])[0]), p["rows"], p["inner"])
    a, b = np.broadcast_to(a, size), np.broadcast_to(b, size)
    total: Accumulator
    if op.domain == INTEGER:
        rounded, clipped = requantize(a - b, p["drop"], Fixed(DIFFERENCE_BITS, 0))
        total = (rounded * rounded).sum(axis=2)
    elif op.domain == CODED:
        window = Window(op.accumulator_bits, op.low, op.guard)
        difference = odd(exact_sum(a, -b), p["significant"])
        units, clipped = window.multiply(difference, difference)
        total = window.value(units.sum(axis=2))
    else:
        total, clipped = sum_along(np.square(a - b), 2), np.zeros((len(a), 1), bool)
    codes, beyond = requantize(total, p["shift"], out)
    return codes, np.concatenate([clipped.reshape(len(clipped), -1), beyond], axis=1)


_PARAMS = ("rows", "inner", "a_step", "b_step", "a_shift", "b_shift", "drop", "shift")
SQUARED_DISTANCE = Kernel(
    Form("squared_distance"),
    "sums of squared differences: difference rounded to 16 bits (24 of coded formats), exact sum, one rounding",
    _execute,
    _PARAMS,
    ("a_shift", "b_shift", "drop", "shift"),
    is_sum=True,
    coded=QUIRE,
)
KERNELS = (SQUARED_DISTANCE,)

OPERATORS = (
    Operator(
        "SquaredDistance",
        "Sub, Mul with itself and ReduceSum over the last axis, fused",
        _infer,
        _evaluate,
        by_domain(_lower),
        ("shape", "exponent"),
    ),
)
