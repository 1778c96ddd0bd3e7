"""BatchNormalization: a scale and an offset per channel, known when the model is compiled.

The front end folds it into the layer before it where it can (`frontend/fold.py`); what is left becomes a depthwise
convolution of one position.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.lowering_context import Lowering
from tinyhil.ops.conv import emit_convolution
from tinyhil.ops.operator import Arrays, Operator, attr, by_domain, refuse
from tinyhil.ops.sums import Constant
from tinyhil.ops.window import Window


def scale_and_offset(node: Node, statistics: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """y = scale * x + offset for `statistics` (scale, bias, mean, variance) of the channels."""
    scale, bias, mean, variance = (array.astype(np.float64) for array in statistics)
    factor = scale / np.sqrt(variance + attr(node, "epsilon", 1e-5))
    return factor.astype(np.float32), (bias - mean * factor).astype(np.float32)


def _infer(node: Node, shapes: Sequence[Shape], values: Sequence[np.ndarray | None]) -> list[Shape]:
    if attr(node, "training_mode", 0):
        raise refuse(node, "training_mode 1", "export for inference")
    x = shapes[0]
    if len(x) > 1 and x[0] != 1:
        what = f"shapes {list(x)}, ...: a batch of {x[0]}, and a board takes one sample at a time"
        raise refuse(node, what, "export with a batch of 1")
    if len(shapes) != 5 or len(x) < 2 or any(shape != (x[1],) for shape in shapes[1:]):
        raise refuse(node, f"shapes {', '.join(str(list(s)) for s in shapes)}", "check the exported model")
    if any(value is None for value in values[1:]):
        raise refuse(node, "statistics computed at run time", "export for inference")
    return [x]


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    factor, offset = scale_and_offset(node, [array[0] for array in arrays[1:]])
    shape = (1, 1, -1) + (1,) * (arrays[0].ndim - 3)
    return [arrays[0] * factor.reshape(shape) + offset.reshape(shape)]


def _lower(node: Node, lowering: Lowering) -> None:
    statistics = [array for name in node.inputs[1:] if (array := lowering.constant(name)) is not None]
    factor, offset = scale_and_offset(node, statistics)
    shape = lowering.shape(node.inputs[0])
    channels, length = shape[1], element_count(shape[2:])
    w = Window(channels, 1, length, 1, length, 1, 1, 1, 1, 0, 0, 1, 1)
    weights = Constant.derived(f"{node.inputs[1]}.factor", factor, lowering.format(node.inputs[1]))
    bias = Constant.derived(f"{node.inputs[2]}.offset", offset, lowering.format(node.inputs[2]))
    emit_convolution(node, lowering, w, channels, (weights, bias))


OPERATORS = (
    Operator(
        "BatchNormalization",
        "inference; folded into a Conv or Gemm before it, else a factor and an offset per channel",
        _infer,
        _evaluate,
        by_domain(_lower),
        ("epsilon", "momentum", "training_mode", "spatial"),
    ),
)
