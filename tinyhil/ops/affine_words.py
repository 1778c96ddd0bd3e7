"""Asymmetric integers element by element as TensorFlow Lite computes them: sums and products of 16 bits, and slopes.

Sums of two int16 tensors are those of int8 with operands moved by 15 bits instead of 20 (affine.py). A slope is a
multiplier below zero and another above: LeakyRelu, and what moves codes to another scale. All round twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tinyhil.formats.affine import as_affine, multiplier, rescale
from tinyhil.formats.format import Format
from tinyhil.language.graph import Node
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops.affine import is_affine, limited
from tinyhil.ops.limits import forms, limited_form
from tinyhil.ops.movement import repeated
from tinyhil.ops.operator import Arithmetic, Arrays, Form, Kernel, Limit, Lower, attr

WORD_BITS, LIFT = 16, 15  # of int16 operands before they are aligned (tensorflow/lite/kernels/internal/reference/add.h)
MOST_LEFT = 13  # bits by which a difference of two codes, 18 bits, may be moved within 32
Codes = tuple[np.ndarray, np.ndarray]


def _named(**factors: float) -> dict[str, int]:
    """Multiplier and shift of each factor as params."""
    pairs = {name: multiplier(factor) for name, factor in factors.items()}
    named = {f"{name}_multiplier": m for name, (m, _) in pairs.items()}
    return named | {f"{name}_shift": shift for name, (_, shift) in pairs.items()}


def _tiled(op: Op, arrays: Arrays) -> list[np.ndarray]:
    return [np.tile(array, (1, op.params["count"] // array.shape[1])) for array in arrays]


# ---- sums and products of 16 bits, whose zero points are 0


def factors_of(op: str, formats: Sequence[Format]) -> dict[str, int] | None:
    """Params of Add, Sub or Mul of two operands and a result in `formats`; None where that is no sum or product of
    words: 16 bits, zero points of 0, a result that needs no shift to the left."""
    if not is_affine(*formats, bits=WORD_BITS) or any(as_affine(fmt).zero for fmt in formats):
        return None
    a, b, out = (as_affine(fmt).scale for fmt in formats)
    twice = 2 * max(a, b)
    if op == "Mul":
        params = _named(o=a * b / out)
    else:
        params = _named(a=a / twice, b=b / twice, o=twice / ((1 << LIFT) * out)) | {"sign": 1 if op == "Add" else -1}
    return None if params["o_shift"] > 0 else params


def of_words(otherwise: Lower) -> Lower:
    """What lowers Add, Sub and Mul of words; `otherwise` what does so else."""

    def lower(node: Node, lowering: Lowering) -> None:
        factors = factors_of(node.op, [lowering.format(name) for name in (*node.inputs, node.outputs[0])])
        if factors is None:
            otherwise(node, lowering)
            return
        names, periods = zip(*(repeated(node, lowering, value) for value in node.inputs), strict=True)
        out = lowering.define(node.outputs[0])
        form, ends = limited_form((WORD_PRODUCT if node.op == "Mul" else WORD_SUM).form, node, out.format)
        params = {"count": out.count, "a_period": periods[0], "b_period": periods[1], **factors, **ends}
        lowering.emit(node, Op(form, node.name, names, out.name, params))

    return lower


def _execute_sum(op: Op, arrays: Arrays, out: Format) -> Codes:
    p = op.params
    a, b = _tiled(op, arrays)
    left = rescale(a << LIFT, p["a_multiplier"], p["a_shift"])
    right = rescale(b << LIFT, p["b_multiplier"], p["b_shift"])
    return limited(rescale(left + p["sign"] * right, p["o_multiplier"], p["o_shift"]), op, out)


def _execute_product(op: Op, arrays: Arrays, out: Format) -> Codes:
    a, b = _tiled(op, arrays)
    return limited(rescale(a * b, op.params["o_multiplier"], op.params["o_shift"]), op, out)


# ---- slopes of 8 and 16 bits


def slopes(sides: Callable[[Node], tuple[float, float]], otherwise: Lower) -> Lower:
    """What lowers a function with one slope below zero and another above; `otherwise` where a result has no 32 bits."""

    def lower(node: Node, lowering: Lowering) -> None:
        below, above = sides(node)
        x, out = (as_affine(lowering.format(name)) for name in (node.inputs[0], node.outputs[0]))
        ratio = x.scale / out.scale
        factors = _named(below=x.scale * float(np.float32(below)) / out.scale, above=above * ratio)
        if max(factors["below_shift"], factors["above_shift"]) > MOST_LEFT:
            otherwise(node, lowering)
            return
        source, made = lowering.operand(node.inputs[0]), lowering.define(node.outputs[0])
        params = {"count": made.count, "x_zero": x.zero, "zero": out.zero, **factors}
        lowering.emit(node, Op(SLOPES.form, node.name, (source,), made.name, params))

    return lower


def leaky(node: Node) -> tuple[float, float]:
    """Slopes below and above zero of Neg, Abs and LeakyRelu."""
    return {"Neg": (-1.0, -1.0), "Abs": (-1.0, 1.0), "LeakyRelu": (attr(node, "alpha", 0.01), 1.0)}[node.op]


def _execute_slopes(op: Op, arrays: Arrays, out: Format) -> Codes:
    p, x = op.params, arrays[0] - op.params["x_zero"]
    below, above = (rescale(x, p[f"{side}_multiplier"], p[f"{side}_shift"]) for side in ("below", "above"))
    return limited(np.where(x < 0, below, above) + p["zero"], op, out)


_PAIR = ("count", "a_period", "b_period")
_O = ("o_multiplier", "o_shift")
WORD_SUM = Kernel(
    Form("word_sum", Arithmetic.AFFINE),
    "a + b or a - b of 16 bits, each rescaled to a common scale",
    _execute_sum,
    (*_PAIR, "sign", "a_multiplier", "a_shift", "b_multiplier", "b_shift", *_O),
    _PAIR,
    in_place=True,
    codes=(0, 1),
)
WORD_PRODUCT = Kernel(
    Form("word_mul", Arithmetic.AFFINE),
    "a * b of 16 bits, rescaled",
    _execute_product,
    (*_PAIR, *_O),
    _PAIR,
    in_place=True,
    codes=(0, 1),
)
SLOPES = Kernel(
    Form("slopes", Arithmetic.AFFINE),
    "one factor below zero, another above, rescaled",
    _execute_slopes,
    ("count", "x_zero", "zero", "below_multiplier", "below_shift", "above_multiplier", "above_shift"),
    ("count",),
    in_place=True,
    codes=(0,),
)
KERNELS = (WORD_SUM, WORD_PRODUCT, SLOPES, *forms((WORD_SUM, WORD_PRODUCT), (Limit.CLIP,)))
