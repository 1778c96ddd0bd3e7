"""MaxPool, AveragePool, GlobalAveragePool and GlobalMaxPool, 1-D and 2-D."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tinyhil.formats.codec import requantize
from tinyhil.formats.format import SINGLE, Format
from tinyhil.language.arithmetic import first_extreme, like, sum_along
from tinyhil.language.graph import Node, Shape
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops import affine_moves, reciprocal, window
from tinyhil.ops.operator import Arrays, Form, Kernel, Operator, accumulator_bits, attr, by_domain, refuse
from tinyhil.ops.window import Window


def _window(node: Node, shape: Shape) -> Window:
    if node.op.startswith("Global"):
        return window.infer_window(node, shape, shape[2:])
    if attr(node, "storage_order", 0):
        raise refuse(node, "storage_order 1", "export with storage_order 0")
    if "kernel_shape" not in node.attrs:
        raise refuse(node, "no kernel_shape", "the file is damaged")
    return window.infer_window(node, shape, tuple(node.attrs["kernel_shape"]))


def _infer(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    if len(node.outputs) > 1 and node.outputs[1]:
        raise refuse(node, "returns the indices of the largest elements", "only the values are supported")
    w = _window(node, shapes[0])
    if not w.valid_counts().all():
        raise refuse(node, "a window lies in the padding altogether", "use smaller pads")
    if _counts_padding(node) and attr(node, "ceil_mode", 0) and _hangs_over(node, w):
        raise refuse(node, "ceil_mode with count_include_pad", "use count_include_pad 0")
    return [window.output_shape(shapes[0], w.channels, w)]


def _counts_padding(node: Node) -> bool:
    return bool(node.op == "AveragePool" and attr(node, "count_include_pad", 0))


def _hangs_over(node: Node, w: Window) -> bool:
    """Whether a window reaches beyond the padding."""
    pads = attr(node, "pads", None) or [0, 0]
    ends = (0, pads[1]) if len(pads) == 2 else (pads[2], pads[3])
    return bool(w.rows().max() >= w.height + ends[0] or w.columns().max() >= w.width + ends[1])


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    x = arrays[0]
    w = _window(node, x.shape[1:])
    planes = x.reshape(len(x), w.channels, w.height, w.width)
    largest = "Max" in node.op
    parts = []
    for part in window.batches(len(x), w.channels * w.positions * w.pixels):
        patches = w.patches(planes[part], -np.inf if largest else 0.0)
        if largest:
            parts.append(patches.max(axis=2))
        else:
            counts = w.positions if _counts_padding(node) else w.valid_counts()
            parts.append((patches.sum(axis=2) / counts).astype(np.float32))
    return [window.joined(parts).reshape(len(x), *window.output_shape(x.shape[1:], w.channels, w))]


def _lower_max(node: Node, lowering: Lowering) -> None:
    x, out = lowering.operand(node.inputs[0]), lowering.define(node.outputs[0])
    w = _window(node, lowering.shape(node.inputs[0]))
    fmt = lowering.loaded(node.inputs[0])
    shift = out.format.exponent - fmt.exponent
    params = {**w.params(), "shift": shift}
    bits = accumulator_bits(-fmt.lowest, shift)
    lowering.emit(node, Op(MAX_POOL.form, node.name, (x,), out.name, params, bits))


def _lower_average(node: Node, lowering: Lowering) -> None:
    x, out = lowering.operand(node.inputs[0]), lowering.define(node.outputs[0])
    w = _window(node, lowering.shape(node.inputs[0]))
    fmt = lowering.loaded(node.inputs[0])
    counts = np.array([w.positions]) if _counts_padding(node) else np.unique(w.valid_counts())
    if int(counts.max()) > reciprocal.MAX_COUNT:
        limit = f"the limit is {reciprocal.MAX_COUNT}"
        raise refuse(node, f"windows of {counts.max()} elements, {limit}", "pool in two steps")
    bits = reciprocal.fraction_bits(fmt)
    shift = out.format.exponent - fmt.exponent + bits
    bound = max(reciprocal.mean_bound(fmt, int(count)) for count in counts)
    params = {**w.params(), "shift": shift}
    if len(counts) == 1:
        params["factor"] = reciprocal.reciprocal(int(counts[0]), bits)
        op = Op(AVERAGE_POOL.form, node.name, (x,), out.name, params, accumulator_bits(bound, shift))
    else:
        name = lowering.add_table(f"{out.name}.reciprocals", reciprocal.table(int(counts.max()), bits))
        op = Op(AVERAGE_POOL_INSIDE.form, node.name, (name, x), out.name, params, accumulator_bits(bound, shift))
    lowering.emit(node, op)


def _reduced(x: np.ndarray, w: Window, reduce: Callable[[np.ndarray], np.ndarray], padding: float) -> np.ndarray:
    """(samples, channels, pixels)"""
    planes = x.reshape(-1, w.channels, w.height, w.width)
    out = np.empty((len(planes), w.channels, w.pixels), planes.dtype)
    for part in window.batches(len(planes), w.channels * w.positions * w.pixels):
        out[part] = reduce(w.patches(planes[part], padding))
    return out


def _execute_max(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    w = window.window_of(op.params)
    top = _reduced(arrays[0], w, lambda patches: first_extreme(patches, 2, 1)[0], float(like(-np.inf, arrays[0])))
    return requantize(top.reshape(len(top), -1), op.params["shift"], out)


def _execute_average(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    w = window.window_of(op.params)
    total = _reduced(arrays[-1], w, lambda patches: sum_along(patches, 2), 0)
    if len(arrays) == 2:
        pairs = arrays[0].reshape(-1, 2)
        factor = (pairs[:, 0] + (pairs[:, 1] << 16))[w.valid_counts() - 1]
    else:
        factor = np.array([op.params["factor"]])
    return requantize((total * factor.astype(total.dtype)).reshape(len(total), -1), op.params["shift"], out)


_STRUCT = ("Window", window.FIELDS)
MAX_POOL = Kernel(
    Form("max_pool"),
    "largest element of each window",
    _execute_max,
    ("shift",),
    ("shift",),
    struct=_STRUCT,
    coded=SINGLE,
)
AVERAGE_POOL = Kernel(
    Form("average_pool"),
    "mean of each window: exact sum times a constant reciprocal, one rounding",
    _execute_average,
    ("factor", "shift"),
    ("shift",),
    struct=_STRUCT,
    coded=SINGLE,
)
AVERAGE_POOL_INSIDE = Kernel(
    Form("average_pool_inside"),
    "mean of what lies inside of the plane: the reciprocal comes from a table",
    _execute_average,
    ("shift",),
    ("shift",),
    struct=_STRUCT,
    coded=SINGLE,
)
KERNELS = (MAX_POOL, AVERAGE_POOL, AVERAGE_POOL_INSIDE)

MEAN = "mean; besides its rounding wrong by at most n * 2^-16 units of the operand for n elements"

OPERATORS = (
    Operator(
        "MaxPool",
        "1-D and 2-D; any padding, dilations, ceil_mode; values only",
        _infer,
        _evaluate,
        by_domain(_lower_max),
        ("ceil_mode", "storage_order", *window.ATTRIBUTES),
    ),
    Operator(
        "AveragePool",
        f"1-D and 2-D; {MEAN}",
        _infer,
        _evaluate,
        by_domain(_lower_average, affine=affine_moves.lower_mean),
        ("ceil_mode", "count_include_pad", "origin", *window.ATTRIBUTES),
        words=affine_moves.of_words(_lower_average),
    ),
    Operator("GlobalAveragePool", MEAN, _infer, _evaluate, by_domain(_lower_average, affine=affine_moves.lower_mean)),
    Operator("GlobalMaxPool", "largest element of each channel", _infer, _evaluate, by_domain(_lower_max)),
)
