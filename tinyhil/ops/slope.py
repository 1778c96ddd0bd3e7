"""PRelu: a slope of its own below zero for each element, as a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyhil.formats.codec import Accumulator, requantize
from tinyhil.formats.exact import Exact
from tinyhil.formats.format import INTEGER, Format
from tinyhil.language.arithmetic import scaled, times
from tinyhil.language.graph import Node, Shape
from tinyhil.language.kernel import REAL
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops.division import tiled
from tinyhil.ops.movement import repeated
from tinyhil.ops.operator import (
    Arrays,
    Form,
    Kernel,
    Operator,
    accumulator_bits,
    align,
    broadcasting,
    by_domain,
    refuse,
)


def _infer(node: Node, shapes: Sequence[Shape], values: Sequence[np.ndarray | None]) -> list[Shape]:
    if broadcasting(2)(node, shapes, values) != [shapes[0]]:
        raise refuse(node, f"slopes {list(shapes[1])} for {list(shapes[0])}", "check the exported model")
    return [shapes[0]]


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    x, slopes = align(arrays)
    return [np.where(x < 0, x * slopes, x)]


def _lower(node: Node, lowering: Lowering) -> None:
    (x, x_period), (slopes, period) = (repeated(node, lowering, value) for value in node.inputs)
    fmt, by = (lowering.loaded(value) for value in node.inputs)
    if lowering.domain(node.inputs) == INTEGER and by.exponent > 0:
        raise refuse(node, f"slopes in units of 2^{by.exponent}", "use 16 bits for them, or smaller slopes")
    out = lowering.define(node.outputs[0])
    shift = out.format.exponent - fmt.exponent - by.exponent
    # above zero x counts 1 / unit of the slopes
    params = {
        "count": out.count,
        "a_period": x_period,
        "b_period": period,
        "one_shift": -by.exponent,
        "shift": shift,
    }
    bits = accumulator_bits(-fmt.lowest * max(-by.lowest, 1 << max(-by.exponent, 0)), shift)
    lowering.emit(node, Op(PRELU.form, node.name, (x, slopes), out.name, params, bits))


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    x, slopes = (tiled(array, p["count"]) for array in arrays)
    below, above = times(x, slopes), scaled(x, p["one_shift"])
    if isinstance(below, Exact):
        chosen: Accumulator = Exact(np.where(x < 0, below.value, above), np.where(x < 0, below.residue, 0.0))
    else:
        chosen = np.where(x < 0, below, above)
    return requantize(chosen, p["shift"], out)


_PARAMS = ("count", "a_period", "b_period", "one_shift", "shift")
PRELU = Kernel(
    Form("prelu"),
    "x above zero, x times its slope below, one rounding",
    _execute,
    _PARAMS,
    _PARAMS,
    in_place=True,
    coded=REAL,
)
KERNELS = (PRELU,)

OPERATORS = (Operator("PRelu", "slopes as a tensor; broadcast", _infer, _evaluate, by_domain(_lower)),)
