"""Div, Reciprocal and Sqrt: the exact quotient or root, rounded once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyhil.formats.codec import requantize
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import Format
from tinyhil.language.graph import Node
from tinyhil.language.lowering_context import Loaded, Lowering, loaded
from tinyhil.language.program import Op
from tinyhil.ops import real_functions
from tinyhil.ops.exponential import infer_same
from tinyhil.ops.movement import repeated
from tinyhil.ops.operator import Arrays, Form, Kernel, Operator, align, broadcasting, by_domain, signed_bits

ONE = "one"
ONE_FORMAT = Fixed(16, -14)
RADICAND = (1 << 32) - 1
MOST_SHIFT = 32


def tiled(array: np.ndarray, count: int) -> np.ndarray:
    """An operand repeated to `count` elements."""
    return np.tile(array, (1, count // array.shape[1]))


def rounded_quotient(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """floor(numerator / denominator + 1/2); the denominator is not 0."""
    negative = denominator < 0
    n, d = np.where(negative, -numerator, numerator), np.abs(denominator)
    result: np.ndarray = (2 * n + d) // (2 * d)
    return result


# ---- Div and Reciprocal


def _evaluate_div(node: Node, arrays: Arrays) -> list[np.ndarray]:
    a, b = align(arrays)
    if a.dtype.kind in "iu" and b.dtype.kind in "iu":  # towards zero, as ONNX asks; constants only
        magnitude = np.abs(a) // np.abs(b)
        return [np.where((a < 0) != (b < 0), -magnitude, magnitude)]
    with np.errstate(divide="ignore"):
        return [(a / b).astype(np.float32)]


def _evaluate_reciprocal(node: Node, arrays: Arrays) -> list[np.ndarray]:
    with np.errstate(divide="ignore"):
        return [np.float32(1) / arrays[0]]


def _emit_div(
    node: Node, lowering: Lowering, names: tuple[str, str], formats: tuple[Loaded, Loaded], periods: Sequence[int]
) -> None:
    out = lowering.define(node.outputs[0])
    a, b = formats
    lift = a.exponent - b.exponent - out.format.exponent
    a_lift, b_lift = max(lift, 0), max(-lift, 0)
    params = {"count": out.count, "a_period": periods[0], "b_period": periods[1], "a_lift": a_lift, "b_lift": b_lift}
    divisor = 1 << (b.bits - 1 + b_lift)
    bits = signed_bits(max((1 << (a.bits + a_lift)) + divisor, 2 * divisor))
    lowering.emit(node, Op(DIV.form, node.name, names, out.name, params, bits))


def _lower_div(node: Node, lowering: Lowering) -> None:
    (a, a_period), (b, b_period) = (repeated(node, lowering, value) for value in node.inputs)
    formats = (lowering.loaded(node.inputs[0]), lowering.loaded(node.inputs[1]))
    _emit_div(node, lowering, (a, b), formats, (a_period, b_period))


def _lower_reciprocal(node: Node, lowering: Lowering) -> None:
    x = lowering.operand(node.inputs[0])
    one = lowering.add_constant(f"{node.outputs[0]}.{ONE}", np.ones(1), ONE_FORMAT)
    formats = (loaded(ONE_FORMAT), lowering.loaded(node.inputs[0]))
    _emit_div(node, lowering, (one, x), formats, (1, lowering.count(node.inputs[0])))


def _execute_div(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    a, b = (tiled(array, p["count"]) for array in arrays)
    zero = b == 0
    quotient = rounded_quotient(a << p["a_lift"], np.where(zero, 1, b) << p["b_lift"])
    codes, clipped = requantize(quotient, 0, out)
    ends = requantize(np.sign(a) << 40, 0, out)[0]
    return np.where(zero, ends, codes), clipped | zero


# ---- Sqrt


def _evaluate_sqrt(node: Node, arrays: Arrays) -> list[np.ndarray]:
    return [np.sqrt(arrays[0])]


def _lower_sqrt(node: Node, lowering: Lowering) -> None:
    x = lowering.operand(node.inputs[0])
    out = lowering.define(node.outputs[0])
    # the root of 4 X 2**(e - 2 o) is twice the result: its lowest bit rounds
    lift = 2 + lowering.loaded(node.inputs[0]).exponent - 2 * out.format.exponent
    params = {"count": out.count, "lift": min(max(lift, -MOST_SHIFT), MOST_SHIFT)}
    lowering.emit(node, Op(SQRT.form, node.name, (x,), out.name, params, 32))


def whole_root(radicand: np.ndarray) -> np.ndarray:
    """floor(sqrt(radicand)) for 0 <= radicand < 2**52, exact."""
    root = np.floor(np.sqrt(radicand.astype(np.float64))).astype(np.int64)
    root -= root * root > radicand
    result: np.ndarray = root + ((root + 1) * (root + 1) <= radicand)
    return result


def _execute_sqrt(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    x, lift = arrays[0], op.params["lift"]
    positive = np.maximum(x, 0)
    radicand = positive << lift if lift >= 0 else positive >> -lift
    codes, clipped = requantize((whole_root(np.minimum(radicand, RADICAND)) + 1) >> 1, 0, out)
    return codes, clipped | (x < 0)


DIV = Kernel(
    Form("div"),
    "a / b, exact quotient, one rounding; the end of the format for b = 0, counted",
    _execute_div,
    ("count", "a_period", "b_period", "a_lift", "b_lift"),
    ("count", "a_period", "b_period", "a_lift", "b_lift"),
    in_place=True,
)
SQRT = Kernel(
    Form("sqrt"),
    "exact square root, one rounding; 0 for x < 0, counted",
    _execute_sqrt,
    ("count", "lift"),
    in_place=True,
)
KERNELS = (DIV, SQRT)

OPERATORS = (
    Operator(
        "Div",
        "exact quotient; broadcast along any axes",
        broadcasting(2),
        _evaluate_div,
        by_domain(_lower_div, real_functions.lower_div),
        integers_only=True,
    ),
    Operator(
        "Reciprocal",
        "exact quotient",
        infer_same,
        _evaluate_reciprocal,
        by_domain(_lower_reciprocal, real_functions.function(_evaluate_reciprocal)),
        integers_only=True,
    ),
    Operator(
        "Sqrt",
        "exact root",
        infer_same,
        _evaluate_sqrt,
        by_domain(_lower_sqrt, real_functions.function(_evaluate_sqrt)),
        integers_only=True,
    ),
)
