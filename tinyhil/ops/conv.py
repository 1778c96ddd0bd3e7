"""Conv, 1-D and 2-D: each window is gathered into a patch, then multiplied like a row of a dense layer.

The patch is a scratch tensor of one window of one group, planned into the arena like any other. It makes the inner
loop a dot product of contiguous elements, the loop that is fast on every chip, and puts the zeros of the padding in
place once for all output channels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyhil.crossbars.array import Mapped, matmul
from tinyhil.formats.format import INTEGER, Format
from tinyhil.language.arithmetic import rounded, start_of_sums, sum_of_products
from tinyhil.language.graph import Node, Shape
from tinyhil.language.kernel import QUIRE
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops import window
from tinyhil.ops.limits import NARROW, clamped, forms
from tinyhil.ops.operator import Arrays, Form, Kernel, Operator, attr, by_domain, refuse, require_constants
from tinyhil.ops.sums import Constant, emit_layer, with_bias
from tinyhil.ops.window import Window

EXACT_FLOAT_BITS = 53  # float64 products and sums of integers below 2**53 are exact in any order


def _infer(node: Node, shapes: Sequence[Shape], values: Sequence[np.ndarray | None]) -> list[Shape]:
    require_constants(node, values)
    x, w = shapes[0], shapes[1]
    groups = attr(node, "group", 1)
    if len(w) != len(x) or groups < 1 or len(x) < 3 or x[1] != w[1] * groups or w[0] % groups:
        raise refuse(node, f"weights {list(w)} in {groups} groups for an input {list(x)}", "check the exported model")
    if len(shapes) == 3 and shapes[2] != (w[0],):
        raise refuse(node, f"a bias {list(shapes[2])} for {w[0]} channels", "check the exported model")
    return [window.output_shape(x, w[0], window.infer_window(node, x, w[2:]))]


def _products(
    planes: np.ndarray, weights: np.ndarray, w: Window, groups: int, crossbar: Mapped | None = None
) -> np.ndarray:
    """(samples, outputs, pixels) sums of `weights` (outputs, inner) over `planes`, 4-D."""
    inner = weights.shape[1]
    matrices = weights.reshape(1, groups, -1, inner)
    parts = []
    for part in window.batches(len(planes), w.channels * w.positions * w.pixels):
        patches = w.patches(planes[part], 0).reshape(-1, groups, inner, w.pixels)
        parts.append(matmul(crossbar, matrices, patches).reshape(-1, len(weights), w.pixels))
    return window.joined(parts)


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    x, weights = arrays[0], arrays[1][0]
    w = window.infer_window(node, x.shape[1:], weights.shape[2:])
    planes = x.reshape(len(x), w.channels, w.height, w.width)
    out = _products(planes, weights.reshape(len(weights), -1), w, attr(node, "group", 1))
    if len(arrays) == 3:
        out = out + arrays[2].reshape(1, -1, 1)
    out = out.reshape(len(x), *window.output_shape(x.shape[1:], len(weights), w))
    return [clamped(node, out.astype(np.float32))]


def _constant(node: Node, lowering: Lowering, index: int) -> Constant:
    name = node.inputs[index]
    array = lowering.constant(name)
    assert array is not None, name  # require_constants
    return Constant(name, array, lowering.format(name), lowering.steps(name))


def _lower(node: Node, lowering: Lowering) -> None:
    weights = _constant(node, lowering, 1)
    bias = _constant(node, lowering, 2) if len(node.inputs) == 3 else None
    w = window.infer_window(node, lowering.shape(node.inputs[0]), weights.array.shape[2:])
    emit_convolution(node, lowering, w, attr(node, "group", 1), (weights, bias))


def emit_convolution(
    node: Node, lowering: Lowering, w: Window, groups: int, constants: tuple[Constant, Constant | None]
) -> None:
    """The operation on the node's first input for `constants`: weights with the outputs in front, bias."""
    weights, bias = constants
    x = node.inputs[0]
    outputs = len(weights.array)
    patch = lowering.scratch(f"{node.outputs[0]}.patch", weights.array.size // outputs, lowering.format(x))
    params = {**w.params(), "groups": groups, "outputs": outputs}
    emit_layer(node, lowering, CONV.form, (weights, x, bias), params, patch)


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    w = window.window_of(p)
    planes = arrays[1].reshape(-1, w.channels, w.height, w.width)
    weights = arrays[0].reshape(p["outputs"], -1)
    more = list(arrays[2:])
    addend = more.pop().reshape(-1, p["outputs"], w.pixels) if "add_shift" in p else None
    bias = more[0] if more else np.zeros(p["outputs"], planes.dtype)
    if op.domain == INTEGER:
        number = np.float64 if op.accumulator_bits <= EXACT_FLOAT_BITS else np.int64
        sums = _products(planes.astype(number), weights.astype(number), w, p["groups"], op.crossbar)
        total = sums.astype(np.int64) + start_of_sums(op, bias.reshape(1, -1, 1), addend)
        return rounded(total, np.zeros(total.shape, np.int64), op, out)
    groups, inner = p["groups"], weights.shape[1]
    patches = w.patches(planes, 0).reshape(len(planes), groups, inner, w.pixels)
    factors = weights.reshape(1, groups, -1, inner)
    return rounded(*sum_of_products(op, factors, patches, bias.reshape(1, groups, -1, 1)), op, out)


CONV = Kernel(
    Form("conv"),
    "windows times constant weights, exact sum, one rounding",
    _execute,
    ("groups", "outputs", "shift"),
    ("shift",),
    is_sum=True,
    coded=QUIRE,
    struct=("Window", window.FIELDS),
)
LAYERS = with_bias(CONV)
KERNELS = (*LAYERS, *forms(LAYERS))

OPERATORS = (
    Operator(
        "Conv",
        "1-D and 2-D; groups, depthwise, dilations, strides, any padding; constant weights",
        _infer,
        _evaluate,
        by_domain(_lower),
        ("group", NARROW, *window.ATTRIBUTES),
    ),
)
