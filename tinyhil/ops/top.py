"""The k largest or smallest elements along an axis in order, and their indices: what TopK becomes.

No element is moved and nothing is marked: each next one is the first of the largest among those behind the one before,
in the order of value, then of index. So k passes over the axis need no memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyhil.formats.codec import requantize
from tinyhil.formats.format import SINGLE, Format
from tinyhil.language.arithmetic import like
from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops.operator import Arrays, Form, Kernel, Operator, accumulator_bits, by_domain

VALUES, INDICES = "TopValues", "TopIndices"


def _infer(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    axis = node.attrs["axis"]
    return [(*shapes[0][:axis], node.attrs["k"], *shapes[0][axis + 1 :])]


def _order(x: np.ndarray, axis: int, k: int, largest: int) -> np.ndarray:
    """Indices of the first k, equal ones in their order."""
    ranked = np.argsort(-x if largest else x, axis=axis, kind="stable")
    return np.take(ranked, np.arange(k), axis=axis)


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    axis = node.attrs["axis"] + 1
    at = _order(arrays[0], axis, node.attrs["k"], node.attrs["largest"])
    if node.op == INDICES:
        return [at.astype(np.float32)]
    return [np.take_along_axis(arrays[0], at, axis)]


def _lower(node: Node, lowering: Lowering) -> None:
    x, fmt, shape = lowering.operand(node.inputs[0]), lowering.loaded(node.inputs[0]), lowering.shape(node.inputs[0])
    out, axis = lowering.define(node.outputs[0]), node.attrs["axis"]
    along, index = shape[axis], node.op == INDICES
    shift = out.format.exponent - (0 if index else fmt.exponent)
    params = {
        "outer": element_count(shape[:axis]),
        "along": along,
        "inner": element_count(shape[axis + 1 :]),
        "k": node.attrs["k"],
        "largest": node.attrs["largest"],
        "shift": shift,
    }
    bits = accumulator_bits(max(along, -fmt.lowest), shift)
    kernel = TOP_INDICES if index else TOP_VALUES
    lowering.emit(node, Op(kernel.form, node.name, (x,), out.name, params, bits))


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    x = arrays[0].reshape(-1, p["outer"], p["along"], p["inner"])
    at = _order(x, 2, p["k"], p["largest"])
    numbers = at if op.kernel == TOP_INDICES.form else np.take_along_axis(x, at, 2)
    return requantize(numbers.reshape(len(x), -1) * like(1, x), p["shift"], out)


_PARAMS = ("outer", "along", "inner", "k", "largest", "shift")
_STATIC = ("largest", "shift")
TOP_VALUES = Kernel(Form("top_values"), "the k largest or smallest in order", _execute, _PARAMS, _STATIC, coded=SINGLE)
_PLACES = "where they are, the first of equals first"
TOP_INDICES = Kernel(Form("top_indices"), _PLACES, _execute, _PARAMS, _STATIC, coded=SINGLE)
KERNELS = (TOP_VALUES, TOP_INDICES)
OPERATORS = (
    Operator(VALUES, "the values of TopK", _infer, _evaluate, by_domain(_lower), ("axis", "k", "largest")),
    Operator(INDICES, "the indices of TopK", _infer, _evaluate, by_domain(_lower), ("axis", "k", "largest")),
)
