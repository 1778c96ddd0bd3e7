"""Views: the output shows the elements of the first input in the same order, so nothing is copied."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.ops.operator import Arrays, Infer, Operator, attr, axis_of, refuse


def _static(node: Node, values: Sequence[np.ndarray | None], index: int) -> list[int]:
    if index >= len(values) or values[index] is None:
        raise refuse(node, f"input {index} (shape or axes) is computed at run time", "export with constant shapes")
    array = values[index]
    assert array is not None
    return [int(v) for v in array.reshape(-1)]


def _axes(node: Node, values: Sequence[np.ndarray | None]) -> list[int]:
    """The axes as the file gives them, attribute or second input; none at all if it gives none."""
    axes = attr(node, "axes", None)
    if axes is None and len(node.inputs) > 1:
        axes = _static(node, values, 1)
    return [] if axes is None else list(axes)


def _positions(node: Node, axes: Sequence[int], rank: int) -> list[int]:
    found = sorted({axis_of(node, axis, rank) for axis in axes})
    if len(found) != len(axes):
        raise refuse(node, f"axes {list(axes)} name one twice", "the file is damaged")
    return found


def _infer_same(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    return [shapes[0]]


def _infer_reshape(node: Node, shapes: Sequence[Shape], values: Sequence[np.ndarray | None]) -> list[Shape]:
    wanted = _static(node, values, 1)
    if not attr(node, "allowzero", 0):
        wanted = [shapes[0][i] if dim == 0 else dim for i, dim in enumerate(wanted)]
    total = element_count(shapes[0])
    if wanted.count(-1) == 1:
        known = -element_count(tuple(wanted))
        wanted[wanted.index(-1)] = total // known if known else 0
    shape = tuple(wanted)
    if element_count(shape) != total or any(dim < 0 for dim in shape):
        raise refuse(node, f"{list(shapes[0])} does not reshape to {list(shape)}", "check the exported model")
    return [shape]


def _infer_flatten(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    axis, rank = attr(node, "axis", 1), len(shapes[0])
    if axis != rank:  # behind the last axis is allowed too
        axis = axis_of(node, axis, rank)
    return [(element_count(shapes[0][:axis]), element_count(shapes[0][axis:]))]


def _infer_squeeze(node: Node, shapes: Sequence[Shape], values: Sequence[np.ndarray | None]) -> list[Shape]:
    shape = shapes[0]
    axes = _positions(node, _axes(node, values), len(shape)) or [i for i, dim in enumerate(shape) if dim == 1]
    if any(shape[axis] != 1 for axis in axes):
        raise refuse(node, f"squeezes an axis of {list(shape)} that is not 1", "check the exported model")
    return [tuple(dim for i, dim in enumerate(shape) if i not in axes)]


def _infer_unsqueeze(node: Node, shapes: Sequence[Shape], values: Sequence[np.ndarray | None]) -> list[Shape]:
    given = _axes(node, values)
    rank = len(shapes[0]) + len(given)
    axes = _positions(node, given, rank)
    rest = iter(shapes[0])
    return [tuple(1 if i in axes else next(rest) for i in range(rank))]


def _infer_dropout(node: Node, shapes: Sequence[Shape], values: Sequence[np.ndarray | None]) -> list[Shape]:
    if len(values) > 2 and (values[2] is None or values[2].any()):
        raise refuse(node, "drops values at random (training mode)", "export for inference")
    return [shapes[0]]


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    """The front end has put the inferred shape of one sample into the attributes."""
    return [arrays[0].reshape(arrays[0].shape[:1] + tuple(node.attrs["shape"]))]


def _operator(name: str, summary: str, infer: Infer, attributes: tuple[str, ...] = ()) -> Operator:
    return Operator(name, summary, infer, _evaluate, attributes=attributes, is_view=True)


OPERATORS = (
    _operator("Identity", "the value itself", _infer_same),
    _operator("Dropout", "the value itself (inference)", _infer_dropout, ("seed", "ratio")),
    _operator("Reshape", "constant target shape", _infer_reshape, ("allowzero",)),
    _operator("Flatten", "to a matrix", _infer_flatten, ("axis",)),
    _operator("Squeeze", "drop axes of 1", _infer_squeeze, ("axes",)),
    _operator("Unsqueeze", "insert axes of 1", _infer_unsqueeze, ("axes",)),
)
