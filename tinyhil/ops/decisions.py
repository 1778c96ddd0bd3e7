"""Decisions: comparisons give 0 or 1, Where chooses, And, Or and Not combine, Sign and Truncate make whole numbers.

A comparison of quantized values is exact: both are aligned by left shifts, nothing is rounded. Booleans are ordinary
tensors of 0 and 1 (`tinyhil/ops/integral.py` gives them a format that holds these exactly).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tinyhil.formats.codec import quantize, requantize
from tinyhil.formats.format import INTEGER, Format
from tinyhil.language.arithmetic import scaled
from tinyhil.language.form import Form
from tinyhil.language.graph import Node
from tinyhil.language.kernel import REAL
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops.division import tiled
from tinyhil.ops.exponential import infer_same
from tinyhil.ops.movement import repeated
from tinyhil.ops.operator import (
    Arrays,
    Kernel,
    Operator,
    accumulator_bits,
    align,
    broadcasting,
    by_domain,
    refuse,
    signed_bits,
)

LESS, LESS_OR_EQUAL, EQUAL, AND, OR = range(5)
Function = Callable[[np.ndarray, np.ndarray], np.ndarray]
FUNCTIONS: tuple[Function, ...] = (
    np.less,
    np.less_equal,
    np.equal,
    lambda a, b: (a != 0) & (b != 0),
    lambda a, b: (a != 0) | (b != 0),
)


def one_in(node: Node, fmt: Format) -> int:
    """The code of 1. ModelError if the format can not hold 1."""
    if not fmt.is_binary_point:
        raise refuse(node, f"its result is in {fmt}", "a decision needs fixed point; keep it apart from other values")
    codes, clipped = quantize(np.ones(1), fmt)
    if clipped.any() or int(codes[0]) == 0:
        raise refuse(node, f"its result in {fmt} can not hold 1", "give the value another format")
    return int(codes[0])


def _as_number(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32)


# ---- comparisons


def _evaluate(mode: int, swapped: bool) -> Callable[[Node, Arrays], list[np.ndarray]]:
    def evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
        a, b = align(arrays)
        return [_as_number(FUNCTIONS[mode](b, a) if swapped else FUNCTIONS[mode](a, b))]

    return evaluate


def _lower(mode: int, swapped: bool) -> Callable[[Node, Lowering], None]:
    def lower(node: Node, lowering: Lowering) -> None:
        values = node.inputs[::-1] if swapped else node.inputs
        (a, a_period), (b, b_period) = (repeated(node, lowering, value) for value in values)
        out = lowering.define(node.outputs[0])
        formats = [lowering.loaded(value) for value in values]
        exponent = min(fmt.exponent for fmt in formats)
        lifts = [fmt.exponent - exponent for fmt in formats]
        if mode in (AND, OR):
            lifts = [0, 0]
        bits = signed_bits(max(1 << (fmt.bits - 1 + lift) for fmt, lift in zip(formats, lifts, strict=True)))
        params = {
            "count": out.count,
            "a_period": a_period,
            "b_period": b_period,
            "a_shift": lifts[0],
            "b_shift": lifts[1],
            "one": one_in(node, out.format),
            "mode": mode,
        }
        lowering.emit(node, Op(COMPARE.form, node.name, (a, b), out.name, params, bits))

    return lower


def _execute_compare(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    a, b = (tiled(array, p["count"]) for array in arrays)
    result = FUNCTIONS[p["mode"]](scaled(a, p["a_shift"]), scaled(b, p["b_shift"])) * np.int64(p["one"])
    return result, np.zeros(result.shape, bool)


# ---- Not, Sign, Truncate


def _evaluate_not(node: Node, arrays: Arrays) -> list[np.ndarray]:
    return [_as_number(arrays[0] == 0)]


def _evaluate_sign(node: Node, arrays: Arrays) -> list[np.ndarray]:
    return [np.sign(arrays[0])]


def _lower_signs(negative: int, zero: int, positive: int) -> Callable[[Node, Lowering], None]:
    """Results below, at and above zero."""

    def lower(node: Node, lowering: Lowering) -> None:
        x, out = lowering.operand(node.inputs[0]), lowering.define(node.outputs[0])
        one = one_in(node, out.format)
        params = {"count": out.count, "below": negative * one, "zero": zero * one, "above": positive * one}
        lowering.emit(node, Op(SIGN.form, node.name, (x,), out.name, params, 32))

    return lower


def _execute_sign(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p, x = op.params, arrays[0]
    result = np.where(x < 0, p["below"], np.where(x > 0, p["above"], p["zero"]))
    return result, np.zeros(result.shape, bool)


def _evaluate_truncate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    x = arrays[0]
    return [np.trunc(x) if x.dtype.kind == "f" else x.astype(np.int64)]


def _lower_truncate(node: Node, lowering: Lowering) -> None:
    x, fmt = lowering.operand(node.inputs[0]), lowering.loaded(node.inputs[0])
    same = lowering.format(node.inputs[0]) == lowering.format(node.outputs[0])
    if same and fmt.exponent >= 0 and lowering.constant(node.inputs[0]) is None:
        lowering.alias(node.outputs[0], x)
        return
    out = lowering.define(node.outputs[0])
    shift, drop = out.format.exponent - max(fmt.exponent, 0), min(max(-fmt.exponent, 0), 31)
    if lowering.domain(node.inputs) != INTEGER:
        shift, drop = out.format.exponent, -fmt.exponent
    params = {"count": out.count, "drop": drop, "shift": shift}
    bits = accumulator_bits(-fmt.lowest, shift)
    lowering.emit(node, Op(TRUNCATE.form, node.name, (x,), out.name, params, bits))


def _execute_truncate(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p, x = op.params, arrays[0]
    if op.domain == INTEGER:
        return requantize(np.where(x < 0, -(-x >> p["drop"]), x >> p["drop"]), p["shift"], out)
    return requantize(np.trunc(scaled(x, -p["drop"])) + x.dtype.type(0), p["shift"], out)  # -0.0 becomes 0.0


# ---- Where


def _evaluate_where(node: Node, arrays: Arrays) -> list[np.ndarray]:
    condition, a, b = align(arrays)
    return [np.where(condition != 0, a, b)]


def _lower_where(node: Node, lowering: Lowering) -> None:
    names, periods = zip(*(repeated(node, lowering, value) for value in node.inputs), strict=True)
    out = lowering.define(node.outputs[0])
    formats = [lowering.loaded(value) for value in node.inputs[1:]]
    shifts = [out.format.exponent - fmt.exponent for fmt in formats]
    bits = max(accumulator_bits(-fmt.lowest, shift) for fmt, shift in zip(formats, shifts, strict=True))
    params = {
        "count": out.count,
        **{f"{which}_period": period for which, period in zip("cab", periods, strict=True)},
        "a_shift": shifts[0],
        "b_shift": shifts[1],
    }
    lowering.emit(node, Op(WHERE.form, node.name, names, out.name, params, bits))


def _execute_where(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    condition, a, b = (tiled(array, p["count"]) for array in arrays)
    (x, x_clipped), (y, y_clipped) = requantize(a, p["a_shift"], out), requantize(b, p["b_shift"], out)
    return np.where(condition != 0, x, y), np.where(condition != 0, x_clipped, y_clipped)


_PAIR = ("count", "a_period", "b_period", "a_shift", "b_shift")
COMPARE = Kernel(
    Form("compare"),
    "1 where a < b (or <=, =, and, or), else 0, exact",
    _execute_compare,
    (*_PAIR, "one", "mode"),
    (*_PAIR, "mode"),
    in_place=True,
    coded=REAL,
)
SIGN = Kernel(
    Form("sign"),
    "one of three numbers by the sign of x",
    _execute_sign,
    ("count", "below", "zero", "above"),
    in_place=True,
    coded=REAL,
)
TRUNCATE = Kernel(
    Form("truncate"),
    "x without its fraction",
    _execute_truncate,
    ("count", "drop", "shift"),
    ("shift",),
    in_place=True,
    coded=REAL,
)
_WHERE = ("count", "c_period", "a_period", "b_period", "a_shift", "b_shift")
WHERE = Kernel(
    Form("where"),
    "a where c is not 0, else b, one rounding",
    _execute_where,
    _WHERE,
    _WHERE,
    coded=REAL,
    codes=(0,),
    rounds=("a_shift", "b_shift"),
)
KERNELS = (COMPARE, SIGN, TRUNCATE, WHERE)


def _comparison(name: str, summary: str, mode: int, swapped: bool = False) -> Operator:
    return Operator(name, summary, broadcasting(2), _evaluate(mode, swapped), by_domain(_lower(mode, swapped)))


OPERATORS = (
    _comparison("Less", "a < b, exact on the quantized values; broadcast", LESS),
    _comparison("LessOrEqual", "a <= b; broadcast", LESS_OR_EQUAL),
    _comparison("Greater", "a > b; broadcast", LESS, swapped=True),
    _comparison("GreaterOrEqual", "a >= b; broadcast", LESS_OR_EQUAL, swapped=True),
    _comparison("Equal", "a = b; broadcast", EQUAL),
    _comparison("And", "both are not 0; broadcast", AND),
    _comparison("Or", "one is not 0; broadcast", OR),
    Operator("Not", "1 for 0, else 0", infer_same, _evaluate_not, by_domain(_lower_signs(0, 1, 0))),
    Operator("Sign", "-1, 0 or 1", infer_same, _evaluate_sign, by_domain(_lower_signs(-1, 0, 1))),
    Operator(
        "Truncate",
        "x without its fraction: what Cast to integers does",
        infer_same,
        _evaluate_truncate,
        by_domain(_lower_truncate),
    ),
    Operator(
        "Where",
        "a where the condition holds, else b; broadcast",
        broadcasting(3),
        _evaluate_where,
        by_domain(_lower_where),
    ),
)
