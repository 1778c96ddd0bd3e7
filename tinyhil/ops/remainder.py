"""Mod and FloorDiv: what a division leaves, and how often it goes; exact on the quantized values, rounded once.
BitwiseAnd and its kin, of whole numbers in two's complement."""

from __future__ import annotations

import numpy as np

from tinyhil.formats import single_functions as f
from tinyhil.formats.codec import requantize
from tinyhil.formats.format import INTEGER, SINGLE, Format
from tinyhil.language.graph import Node
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops.division import tiled
from tinyhil.ops.movement import repeated
from tinyhil.ops.operator import (
    Arithmetic,
    Arrays,
    Form,
    Kernel,
    Operator,
    accumulator_bits,
    align,
    attr,
    broadcasting,
    by_domain,
    refuse,
)

MOST_BITS = 64  # of operands that are moved to one unit; beyond it they are divided in single precision


def _truncates(node: Node) -> int:
    """1 where the quotient is cut towards zero, as C's, and what is left has the sign of the dividend; else 0: of the
    divisor."""
    return int(bool(attr(node, "fmod", 0)))


def _is_quotient(node: Node) -> int:
    return int(node.op == "FloorDiv")


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    a, b = align(arrays)
    with np.errstate(all="ignore"):
        rest = (np.fmod if _truncates(node) else np.mod)(a, b)
        return [np.rint((a - rest) / b) if _is_quotient(node) else rest]


def _lower(node: Node, lowering: Lowering) -> None:
    """In integers where operands and result are fixed point, wide whole numbers, too; else in single precision."""
    a, b, result = (lowering.format(name) for name in (*node.inputs, *node.outputs))
    unit = min(a.exponent, b.exponent)
    a_lift, b_lift = a.exponent - unit, b.exponent - unit
    shift = result.exponent - (0 if _is_quotient(node) else unit)
    bits = accumulator_bits(1 << max(a.bits + a_lift, b.bits + b_lift), shift)
    is_fixed = all(fmt.is_binary_point for fmt in (a, b, result))
    if not is_fixed or bits > MOST_BITS or (result.domain != INTEGER and shift):
        _lower_single(node, lowering)
        return
    (a_name, a_period), (b_name, b_period) = (repeated(node, lowering, value) for value in node.inputs)
    out = lowering.define(node.outputs[0])
    params = {"count": out.count, "a_period": a_period, "b_period": b_period, "a_lift": a_lift, "b_lift": b_lift}
    params |= {"truncates": _truncates(node), "quotient": _is_quotient(node), "shift": shift}
    lowering.emit(node, Op(MOD.form, node.name, (a_name, b_name), out.name, params, bits))


def _lower_single(node: Node, lowering: Lowering) -> None:
    (a_name, a_period), (b_name, b_period) = (repeated(node, lowering, value) for value in node.inputs)
    a, b = (lowering.loaded(value) for value in node.inputs)
    out = lowering.define(node.outputs[0])
    params = {"count": out.count, "a_period": a_period, "b_period": b_period, "a_power": a.exponent}
    params |= {"b_power": b.exponent, "truncates": _truncates(node), "quotient": _is_quotient(node)}
    params |= {"shift": out.format.exponent}
    lowering.emit(node, Op(SINGLE_MOD.form, node.name, (a_name, b_name), out.name, params, domain=SINGLE))


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    a, b = (tiled(array, p["count"]) for array in arrays)
    zero = b == 0
    up, down = a << p["a_lift"], np.where(zero, 1, b) << p["b_lift"]
    rest = np.fmod(up, down) if p["truncates"] else np.mod(up, down)
    result = (up - rest) // down if p["quotient"] else rest
    codes, clipped = requantize(np.where(zero, 0, result), p["shift"], out)
    return codes, clipped | zero


def _execute_single(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    a, b = (tiled(array, p["count"]) for array in arrays)
    a, b = f.scaled(a, p["a_power"]), f.scaled(b, p["b_power"])
    rest = f.remainder(a, b, bool(p["truncates"]))
    return requantize(f.whole_quotient(a, b, rest) if p["quotient"] else rest, p["shift"], out)


# ---- bits


def _evaluate_bits(node: Node, arrays: Arrays) -> list[np.ndarray]:
    a, b = align(arrays)
    made = BITS[node.op](np.rint(a).astype(np.int64), np.rint(b).astype(np.int64))
    return [np.asarray(made).astype(np.result_type(a, b))]  # what float32 does not hold is given in wider types


def _lower_bits(node: Node, lowering: Lowering) -> None:
    """Fractions are cut off; in integers where operands and result are fixed point, else by single precision."""
    formats = [lowering.format(name) for name in (*node.inputs, *node.outputs)]
    (a_name, a_period), (b_name, b_period) = (repeated(node, lowering, value) for value in node.inputs)
    loaded = [lowering.loaded(value) for value in node.inputs]
    is_fixed = all(fmt.is_binary_point for fmt in formats)
    out = lowering.define(node.outputs[0])
    params = {"count": out.count, "a_period": a_period, "b_period": b_period, "a_power": loaded[0].exponent}
    params |= {"b_power": loaded[1].exponent, "mode": list(BITS).index(node.op), "shift": out.format.exponent}
    if is_fixed and any(not -31 <= fmt.exponent <= 0 for fmt in formats):
        raise refuse(node, f"bits of numbers in {formats[0]}", "cast to an integer type before it")
    bits = accumulator_bits(1 << max(fmt.bits for fmt in loaded) - 1, out.format.exponent) if is_fixed else 32
    kernel, domain = (BITWISE, INTEGER) if is_fixed else (SINGLE_BITWISE, SINGLE)
    lowering.emit(node, Op(kernel.form, node.name, (a_name, b_name), out.name, params, bits, domain=domain))


def _execute_bits(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    a, b = (tiled(array, p["count"]) for array in arrays)
    if op.domain == SINGLE:
        a, b = (np.trunc(f.scaled(x, p[power])).astype(np.int64) for x, power in ((a, "a_power"), (b, "b_power")))
        result = tuple(BITS.values())[p["mode"]](a, b).astype(np.float32)
    else:
        result = tuple(BITS.values())[p["mode"]](a >> -p["a_power"], b >> -p["b_power"])
    return requantize(result, p["shift"], out)


BITS = {"BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}
_PERIODS = ("count", "a_period", "b_period")
MOD = Kernel(
    Form("mod"),
    "what a / b leaves, or its whole part, exact; 0 for b = 0, counted",
    _execute,
    (*_PERIODS, "a_lift", "b_lift", "truncates", "quotient", "shift"),
    (*_PERIODS, "a_lift", "b_lift", "truncates", "quotient", "shift"),
    in_place=True,
    codes=(0, 1),
)
SINGLE_MOD = Kernel(
    Form("mod", Arithmetic.SINGLE),
    "what a / b leaves, or its whole part, in single precision",
    _execute_single,
    (*_PERIODS, "a_power", "b_power", "truncates", "quotient", "shift"),
    (*_PERIODS, "a_power", "b_power", "truncates", "quotient", "shift"),
    in_place=True,
    coded=SINGLE,
)
_BITS = (*_PERIODS, "a_power", "b_power", "mode", "shift")
BITWISE = Kernel(Form("bitwise"), "and, or, exclusive or of whole numbers", _execute_bits, _BITS, _BITS, codes=(0, 1))
SINGLE_BITWISE = Kernel(
    Form("bitwise", Arithmetic.SINGLE),
    "and, or, exclusive or of whole numbers that floats hold",
    _execute_bits,
    _BITS,
    _BITS,
    coded=SINGLE,
)
KERNELS = (MOD, SINGLE_MOD, BITWISE, SINGLE_BITWISE)

OPERATORS = (
    Operator(
        "Mod",
        "exact on the quantized values; broadcast along any axes",
        broadcasting(2),
        _evaluate,
        by_domain(_lower),
        ("fmod",),
    ),
    Operator(
        "FloorDiv",
        "tinyhil; the quotient's floor, or its whole part as in C; broadcast",
        broadcasting(2),
        _evaluate,
        by_domain(_lower),
        ("fmod",),
    ),
    *(
        Operator(name, "of whole numbers; broadcast", broadcasting(2), _evaluate_bits, by_domain(_lower_bits))
        for name in BITS
    ),
)
