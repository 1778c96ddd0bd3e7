"""Piecewise linear functions of one tensor, and the smaller or larger of two: Clip, LeakyRelu, HardSwish, ...

A slope that is no power of two becomes an integer `factor` of at most 16 bits over 2**fraction_bits, so a product is
wrong by at most 2**-15 of itself before its one rounding; in single precision it has 24 bits. HardSigmoid and HardSwish
clamp the exact line to 0..1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tinyhil.formats.codec import requantize
from tinyhil.formats.format import AFFINE, INTEGER, SINGLE, Format
from tinyhil.language.arithmetic import like
from tinyhil.language.form import Form
from tinyhil.language.graph import Node, Shape
from tinyhil.language.kernel import Execute
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops import real_functions
from tinyhil.ops.affine_moves import clamp
from tinyhil.ops.affine_words import leaky, slopes
from tinyhil.ops.elementwise import aligned, aligned_kernel, binary, lower_aligned
from tinyhil.ops.operator import (
    Arrays,
    Kernel,
    Operator,
    accumulator_bits,
    attr,
    broadcasting,
    by_domain,
    refuse,
    signed_bits,
)

MAX_FRACTION_BITS = 40
END_ERROR = 2.0**-8  # of Clip's ends, relative to the larger: beyond that they are no integers of the operand's scale
MOST_SINGLE_BITS = 60  # where an operand's own scale is small


def _infer(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    return [shapes[0]]


def slope(value: float, is_integer: bool = True) -> tuple[int, int]:
    """(factor, fraction bits) with value ~ factor / 2**bits, |factor| <= 2**15, or 2**23 in single precision."""
    _, power = math.frexp(value)
    digits, most = (15, MAX_FRACTION_BITS) if is_integer else (23, MOST_SINGLE_BITS)
    bits = min(max(digits - power, 0), most)
    return math.floor(value * 2.0**bits + 0.5), bits


def _is_integer(node: Node, lowering: Lowering) -> bool:
    """Whether it computes in integers: what rounds to asymmetric ones does so in single precision."""
    return lowering.domain(node.inputs) == INTEGER and lowering.format(node.outputs[0]).domain != AFFINE


# ---- Clip


def _settle_clip(node: Node, shapes: Sequence[Shape], values: Sequence[np.ndarray | None]) -> Node:
    ends = {"min": -math.inf, "max": math.inf}
    for position, name in enumerate(ends, 1):
        if position < len(node.inputs) and node.inputs[position]:
            value = values[position]
            if value is None or value.size != 1:
                raise refuse(node, f"'{name}' is no constant number", "use Min or Max")
            ends[name] = float(value.reshape(-1)[0])
    return replace(node, inputs=node.inputs[:1], attrs=ends)


def _evaluate_clip(node: Node, arrays: Arrays) -> list[np.ndarray]:
    low, high = node.attrs["min"], node.attrs["max"]
    return [np.minimum(np.maximum(arrays[0], np.float32(low)), np.float32(high))]


_CLIP_OF_REALS = real_functions.function(_evaluate_clip)


def _lower_clip(node: Node, lowering: Lowering) -> None:
    fmt = lowering.loaded(node.inputs[0])
    ends = [node.attrs[end] * 2.0**-fmt.exponent for end in ("min", "max")]
    low, high = (math.floor(min(max(end, fmt.lowest), fmt.highest) + 0.5) for end in ends)  # infinity: the format's end
    held = [(end, near) for end, near in zip(ends, (low, high), strict=True) if fmt.lowest <= end <= fmt.highest]
    moved = max((abs(end - near) for end, near in held), default=0.0)
    if moved > END_ERROR * max((abs(end) for end, _ in held), default=0.0):
        _CLIP_OF_REALS(node, lowering)
    else:
        _emit(CLIP, node, lowering, {"low": min(low, high), "high": high})


def _emit(
    kernel: Kernel, node: Node, lowering: Lowering, params: dict[str, int], growth: int = 1, bits: int = 0
) -> None:
    """`growth`: largest factor between operand and accumulator, which has `bits` more fraction bits."""
    x, fmt = lowering.operand(node.inputs[0]), lowering.loaded(node.inputs[0])
    out = lowering.define(node.outputs[0])
    shift = out.format.exponent - fmt.exponent + bits
    params = {"count": out.count, **params, "shift": shift}
    width = accumulator_bits(-fmt.lowest * growth, shift)
    lowering.emit(node, Op(kernel.form, node.name, (x,), out.name, params, width))


def _execute_clip(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    return requantize(np.clip(arrays[0], op.params["low"], op.params["high"]), op.params["shift"], out)


# ---- LeakyRelu, Neg, Abs: one slope on either side of zero


def _evaluate_slopes(node: Node, arrays: Arrays) -> list[np.ndarray]:
    below, above = leaky(node)
    return [np.where(arrays[0] < 0, np.float32(below), np.float32(above)) * arrays[0]]


def _lower_slopes(node: Node, lowering: Lowering) -> None:
    below, above = leaky(node)
    factor, bits = slope(below, _is_integer(node, lowering))
    while factor % 2 == 0 and bits > 0:  # a power of two costs no width
        factor, bits = factor // 2, bits - 1
    other = int(above) << bits
    _emit(SLOPES, node, lowering, {"below": factor, "above": other}, max(abs(factor), abs(other)), bits)


def _execute_slopes(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    x, p = arrays[0], op.params
    return requantize(np.where(x < 0, like(p["below"], x), like(p["above"], x)) * x, p["shift"], out)


# ---- HardSigmoid and HardSwish: gate = clamp(factor * x + offset, 0, 2**bits)


def _line(node: Node) -> tuple[float, float]:
    if node.op == "HardSwish":
        return 1 / 6, 0.5
    return attr(node, "alpha", 0.2), attr(node, "beta", 0.5)


def _gate(node: Node, x: np.ndarray) -> np.ndarray:
    alpha, beta = _line(node)
    return np.clip(np.float32(alpha) * x + np.float32(beta), np.float32(0), np.float32(1))


def _evaluate_hard_sigmoid(node: Node, arrays: Arrays) -> list[np.ndarray]:
    return [_gate(node, arrays[0])]


def _evaluate_hard_swish(node: Node, arrays: Arrays) -> list[np.ndarray]:
    return [arrays[0] * _gate(node, arrays[0])]


def _lower_gate(times_operand: bool) -> Callable[[Node, Lowering], None]:
    def lower(node: Node, lowering: Lowering) -> None:
        alpha, beta = _line(node)
        x, fmt = lowering.operand(node.inputs[0]), lowering.loaded(node.inputs[0])
        out = lowering.define(node.outputs[0])
        factor, bits = slope(alpha * 2.0**fmt.exponent, _is_integer(node, lowering))
        offset, one = math.floor(beta * 2.0**bits + 0.5), 1 << bits
        exponent = fmt.exponent - bits if times_operand else -bits
        shift = out.format.exponent - exponent
        line = -fmt.lowest * abs(factor) + abs(offset)
        bound = one * -fmt.lowest if times_operand else one
        params = {"count": out.count, "factor": factor, "offset": offset, "one": one, "shift": shift}
        width = max(accumulator_bits(bound, shift), signed_bits(line), signed_bits(one))
        kernel = HARD_SWISH if times_operand else HARD_SIGMOID
        lowering.emit(node, Op(kernel.form, node.name, (x,), out.name, params, width))

    return lower


def _execute_gate(times_operand: bool) -> Execute:
    def execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
        p, x = op.params, arrays[0]
        gate = np.clip(x * like(p["factor"], x) + like(p["offset"], x), like(0, x), like(p["one"], x))
        return requantize(gate * x if times_operand else gate, p["shift"], out)

    return execute


# ---- Min and Max


def _execute_extreme(larger: bool) -> Execute:
    def execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
        a, b = aligned(op, arrays)
        return requantize(np.where((a < b) == larger, b, a), op.params["shift"], out)

    return execute


def _one(name: str, summary: str, execute: Execute, params: tuple[str, ...], coded: str = SINGLE) -> Kernel:
    return Kernel(Form(name), summary, execute, ("count", *params, "shift"), ("shift",), in_place=True, coded=coded)


CLIP = _one("clip", "clamped to two ends, rescaled", _execute_clip, ("low", "high"), "")
SLOPES = _one("slopes", "one factor below zero, another above, one rounding", _execute_slopes, ("below", "above"))
_LINE = ("factor", "offset", "one")
HARD_SIGMOID = _one("hard_sigmoid", "a line clamped to 0..1", _execute_gate(False), _LINE)
HARD_SWISH = _one("hard_swish", "x times a line clamped to 0..1, one rounding", _execute_gate(True), _LINE)
MINIMUM = aligned_kernel("minimum", "the smaller, aligned exactly", _execute_extreme(False))
MAXIMUM = aligned_kernel("maximum", "the larger, aligned exactly", _execute_extreme(True))
KERNELS = (CLIP, SLOPES, HARD_SIGMOID, HARD_SWISH, MINIMUM, MAXIMUM)
_OF_CODES = slopes(leaky, _lower_slopes)
_SLOPES = by_domain(_lower_slopes, affine=_OF_CODES)

OPERATORS = (
    Operator(
        "Clip",
        "constant ends",
        _infer,
        _evaluate_clip,
        by_domain(_lower_clip, _CLIP_OF_REALS, clamp(_CLIP_OF_REALS)),
        settle=_settle_clip,
    ),
    Operator("LeakyRelu", "slope to 16 bits", _infer, _evaluate_slopes, _SLOPES, ("alpha",), words=_OF_CODES),
    Operator("Neg", "-x", _infer, _evaluate_slopes, _SLOPES, words=_OF_CODES),
    Operator("Abs", "|x|", _infer, _evaluate_slopes, _SLOPES, words=_OF_CODES),
    Operator(
        "HardSigmoid",
        "slope to 16 bits",
        _infer,
        _evaluate_hard_sigmoid,
        by_domain(_lower_gate(False)),
        ("alpha", "beta"),
    ),
    Operator("HardSwish", "slope to 16 bits", _infer, _evaluate_hard_swish, by_domain(_lower_gate(True))),
    Operator("Min", "of two; broadcast", broadcasting(2), binary(np.minimum), by_domain(lower_aligned(MINIMUM))),
    Operator("Max", "of two; broadcast", broadcasting(2), binary(np.maximum), by_domain(lower_aligned(MAXIMUM))),
)
