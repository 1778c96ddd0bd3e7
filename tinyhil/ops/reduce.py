"""ReduceSum, ReduceMean, ReduceMax, ReduceMin and ArgMax over neighbouring axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tinyhil.formats.codec import requantize
from tinyhil.formats.format import SINGLE, Format
from tinyhil.language.arithmetic import first_extreme, like, sum_along
from tinyhil.language.form import Form
from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops import reciprocal
from tinyhil.ops.movement import ints
from tinyhil.ops.operator import Arrays, Execute, Kernel, Operator, accumulator_bits, attr, axis_of, by_domain, refuse

Reduce = Callable[[np.ndarray], np.ndarray]
Lower = Callable[[Node, "Lowering"], None]


def _settle(node: Node, shapes: Sequence[Shape], values: Sequence[np.ndarray | None]) -> Node:
    rank = len(shapes[0])
    given = ints(node, values, 1, "axes") or []
    if node.op == "ArgMax":
        if attr(node, "select_last_index", 0):
            raise refuse(node, "select_last_index 1", "only the first of equals is supported")
        given = [attr(node, "axis", 0)]
    elif not given and not attr(node, "noop_with_empty_axes", 0):
        given = list(range(rank))
    axes = sorted({axis_of(node, axis, rank) for axis in given})
    return replace(node, inputs=node.inputs[:1], attrs={"axes": axes, "keepdims": attr(node, "keepdims", 1)})


def _infer(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    axes = node.attrs["axes"]
    if node.attrs["keepdims"]:
        return [tuple(1 if axis in axes else dim for axis, dim in enumerate(shapes[0]))]
    return [tuple(dim for axis, dim in enumerate(shapes[0]) if axis not in axes)]


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    axes, keep = tuple(axis + 1 for axis in node.attrs["axes"]), bool(node.attrs["keepdims"])
    if node.op == "ArgMax":
        index = arrays[0].argmax(axis=axes[0])
        return [(np.expand_dims(index, axes[0]) if keep else index).astype(np.float32)]
    functions: dict[str, Callable[..., np.ndarray]] = {
        "ReduceSum": np.sum,
        "ReduceMean": np.mean,
        "ReduceMax": np.max,
        "ReduceMin": np.min,
    }
    return [functions[node.op](arrays[0], axis=axes, keepdims=keep)]


def _extent(node: Node, shape: Shape) -> dict[str, int]:
    """Elements in front of, along and behind the reduced axes."""
    axes = [axis for axis in node.attrs["axes"] if shape[axis] != 1]
    if not axes:
        return {"outer": element_count(shape), "along": 1, "inner": 1}
    first, last = axes[0], axes[-1]
    if any(shape[axis] != 1 for axis in range(first, last) if axis not in axes):
        raise refuse(node, f"axes {node.attrs['axes']} of {list(shape)} are not neighbours", "transpose first")
    return {
        "outer": element_count(shape[:first]),
        "along": element_count(shape[first : last + 1]),
        "inner": element_count(shape[last + 1 :]),
    }


def _lower_sum(node: Node, lowering: Lowering) -> None:
    x, fmt = lowering.operand(node.inputs[0]), lowering.loaded(node.inputs[0])
    out, extent = lowering.define(node.outputs[0]), _extent(node, lowering.shape(node.inputs[0]))
    if extent["along"] > reciprocal.MAX_COUNT:
        raise refuse(node, f"{extent['along']} elements, the limit is {reciprocal.MAX_COUNT}", "reduce in two steps")
    factor, bits, bound = 1, 0, -fmt.lowest * extent["along"]
    if node.op == "ReduceMean":
        bits = reciprocal.fraction_bits(fmt)
        factor, bound = reciprocal.reciprocal(extent["along"], bits), reciprocal.mean_bound(fmt, extent["along"])
    shift = out.format.exponent - fmt.exponent + bits
    params = {**extent, "factor": factor, "shift": shift}
    lowering.emit(node, Op(REDUCE_SUM.form, node.name, (x,), out.name, params, accumulator_bits(bound, shift)))


def _lower_extreme(kernel: Kernel) -> Callable[[Node, Lowering], None]:
    def lower(node: Node, lowering: Lowering) -> None:
        x, fmt = lowering.operand(node.inputs[0]), lowering.loaded(node.inputs[0])
        out, extent = lowering.define(node.outputs[0]), _extent(node, lowering.shape(node.inputs[0]))
        shift, bound = out.format.exponent - fmt.exponent, -fmt.lowest
        if node.op == "ArgMax":
            shift, bound = out.format.exponent, extent["along"]
        params = {**extent, "shift": shift}
        lowering.emit(node, Op(kernel.form, node.name, (x,), out.name, params, accumulator_bits(bound, shift)))

    return lower


def _execute(reduce: Reduce) -> Execute:
    def execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
        p = op.params
        result = reduce(arrays[0].reshape(-1, p["outer"], p["along"], p["inner"]))
        return requantize(result.reshape(len(result), -1) * like(p.get("factor", 1), result), p["shift"], out)

    return execute


_EXTENT = ("outer", "along", "inner")


def _kernel(name: str, summary: str, reduce: Reduce, *more: str) -> Kernel:
    return Kernel(Form(name), summary, _execute(reduce), (*_EXTENT, *more, "shift"), ("shift",), coded=SINGLE)


REDUCE_SUM = _kernel("reduce_sum", "exact sum times a constant, one rounding", lambda x: sum_along(x, 2), "factor")
REDUCE_MAX = _kernel("reduce_max", "largest element, rescaled", lambda x: first_extreme(x, 2, 1)[0])
REDUCE_MIN = _kernel("reduce_min", "smallest element, rescaled", lambda x: first_extreme(x, 2, -1)[0])
ARG_MAX = _kernel("arg_max", "index of the first of the largest elements", lambda x: first_extreme(x, 2, 1)[1])
KERNELS = (REDUCE_SUM, REDUCE_MAX, REDUCE_MIN, ARG_MAX)

_ATTRIBUTES = ("axes", "keepdims", "noop_with_empty_axes")


def _operator(name: str, summary: str, lower: Lower, attributes: tuple[str, ...]) -> Operator:
    return Operator(name, summary, _infer, _evaluate, by_domain(lower), attributes, settle=_settle)


OPERATORS = (
    _operator("ReduceSum", "neighbouring axes", _lower_sum, _ATTRIBUTES),
    _operator("ReduceMean", "neighbouring axes; error as AveragePool", _lower_sum, _ATTRIBUTES),
    _operator("ReduceMax", "neighbouring axes", _lower_extreme(REDUCE_MAX), _ATTRIBUTES),
    _operator("ReduceMin", "neighbouring axes", _lower_extreme(REDUCE_MIN), _ATTRIBUTES),
    _operator(
        "ArgMax",
        "one axis, the first of equals",
        _lower_extreme(ARG_MAX),
        ("axis", "keepdims", "select_last_index"),
    ),
)
