"""How uncertain operands make results uncertain, and how large the numbers are that an operator adds up.

Operands that the program holds in memory are known exactly. What is not: constants that are stored in another format
than their own, and results of operators that are fused with others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tinyhil.language.graph import Node
from tinyhil.ops import OPERATOR_BY_NAME
from tinyhil.ops.norm import scale_and_offset
from tinyhil.ops.normalize import root_of, row_axes
from tinyhil.ops.operator import align, attr, axis_of

# sums of products of their operands
LINEAR = frozenset({"Conv", "ConvTranspose", "MatMul", "BatchMatMul", "Gemm"})
# elements of the operands, or sums of them with positive factors
MOVING = frozenset(
    {"Identity", "Dropout", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Split", "Transpose", "Expand"}
    | {"Concat", "ReduceSum", "ReduceMean", "AveragePool", "GlobalAveragePool", "Interpolate"}
)
CHOOSING = {"Gather": slice(0, 1), "GatherAt": slice(0, 1), "Pad": slice(0, 1)}
SMALLEST_SQUARE = 2.0**-149  # of single precision
SAME = 2.0**-22
MOST_POWER = 700.0  # of e in float64
STEADY = frozenset({"Relu", "Clip", "Neg", "Abs"})  # element by element, never steeper than 1


@dataclass(frozen=True, slots=True)
class Uncertain:
    """A value as the float model has it, the largest error it may have, and the magnitudes added up in it."""

    value: np.ndarray
    error: np.ndarray
    size: np.ndarray

    @staticmethod
    def known(value: np.ndarray) -> Uncertain:
        """A value (samples, ...) without error."""
        return Uncertain(value, np.zeros((1,) * value.ndim), np.abs(value))

    @property
    def is_known(self) -> bool:
        """No element can be off."""
        return not self.error.any()

    @property
    def most(self) -> np.ndarray:
        """The largest magnitude that it may have."""
        return np.abs(self.value) + self.error


def spread(node: Node, operands: Sequence[Uncertain], results: Sequence[np.ndarray]) -> list[Uncertain]:
    """`results` of `node` with their errors; infinite where no rule is known for uncertain operands."""
    if node.op in _RULES:
        return [_RULES[node.op](node, operands, results[0])]
    if node.op in LINEAR:
        return [_linear(node, operands, results[0])]
    moved = slice(None) if node.op in MOVING else CHOOSING.get(node.op)
    if moved is not None:
        return _moved(node, operands, results, moved)
    if node.op in STEADY:
        error = np.broadcast_to(operands[0].error, results[0].shape)
        return [Uncertain(results[0], error, np.maximum(operands[0].size, np.abs(results[0])))]
    if all(operand.is_known for operand in operands):
        return [Uncertain.known(result) for result in results]
    return [Uncertain(result, np.full(result.shape, np.inf), np.abs(result)) for result in results]


def _again(node: Node, arrays: list[np.ndarray]) -> list[np.ndarray]:
    return OPERATOR_BY_NAME[node.op].evaluate(node, arrays)


def _linear(node: Node, operands: Sequence[Uncertain], result: np.ndarray) -> Uncertain:
    size = _again(node, [np.abs(operand.value) for operand in operands])[0]
    if all(operand.is_known for operand in operands):
        return Uncertain(result, np.zeros((1,) * result.ndim), size)
    most = _again(node, [operand.most for operand in operands])[0]
    return Uncertain(result, np.maximum(most - size, 0), size)


def _moved(node: Node, operands: Sequence[Uncertain], results: Sequence[np.ndarray], moved: slice) -> list[Uncertain]:
    def through(pick: Callable[[Uncertain], np.ndarray]) -> list[np.ndarray]:
        chosen = range(*moved.indices(len(operands)))
        arrays = [pick(operand) if at in chosen else operand.value for at, operand in enumerate(operands)]
        return [np.abs(array) for array in _again(node, arrays)]

    sizes = through(lambda operand: operand.size)
    if all(operand.is_known for operand in operands):
        return [
            Uncertain(result, np.zeros((1,) * result.ndim), size) for result, size in zip(results, sizes, strict=True)
        ]
    errors = through(lambda operand: np.broadcast_to(operand.error, operand.value.shape))
    return [Uncertain(*triple) for triple in zip(results, errors, sizes, strict=True)]


def _sum(node: Node, operands: Sequence[Uncertain], result: np.ndarray) -> Uncertain:
    added = replace(node, op="Add")
    error = _again(added, [np.broadcast_to(operand.error, operand.value.shape) for operand in operands])[0]
    return Uncertain(result, error, _again(added, [operand.size for operand in operands])[0])


def _product(node: Node, operands: Sequence[Uncertain], result: np.ndarray) -> Uncertain:
    most = _again(node, [operand.most for operand in operands])[0]
    size = _again(node, [operand.size for operand in operands])[0]
    return Uncertain(result, np.maximum(most - np.abs(result), 0) * (most > np.abs(result)), size)


def _divided(node: Node, operands: Sequence[Uncertain], result: np.ndarray) -> Uncertain:
    """Rows less their mean over their deviation: as precise as the largest element is, over the deviation.

    Errors e of a row move its deviation by at most their own root mean square d, as it is a norm; an element less the
    mean moves by its own error and their mean: |y' - y| <= (e + mean(e) + |y| d) / (deviation - d).
    """
    x, root = operands[0], root_of(node, operands[0].value)
    largest = np.abs(x.value).max(axis=tuple(range(1, result.ndim)), keepdims=True)
    size = np.where(root == 0, 0, largest / np.where(root == 0, 1, root))
    with np.errstate(divide="ignore"):  # squares of less than 2**-126 have lost bits, if not all
        lost = np.where(
            result == 0, 0, np.abs(result) * (SMALLEST_SQUARE * result[0].size / np.square(root, dtype=np.float64))
        )
    if not x.is_known:
        lost = lost + _moved_rows(node, np.broadcast_to(x.error, x.value.shape), np.abs(result), root)
    return Uncertain(result, lost, np.broadcast_to(size, result.shape))


def _moved_rows(node: Node, error: np.ndarray, result: np.ndarray, root: np.ndarray) -> np.ndarray:
    """How far normalised rows may move by errors of their elements; infinite where the deviation may vanish."""
    axes = row_axes(node, result)
    squares = np.square(error).mean if node.attrs["mean"] else np.square(error).sum
    of_root = np.sqrt(squares(axis=axes, keepdims=True))
    of_element = error + (error.mean(axis=axes, keepdims=True) if node.attrs["centre"] else 0.0)
    left = root - of_root
    moved = (of_element + result * of_root) / np.where(left > 0, left, 1.0)
    return np.where(left > 0, moved, np.inf)


def _shared(node: Node, operands: Sequence[Uncertain], result: np.ndarray) -> Uncertain:
    """Softmax of numbers each off by at most E in its row: a share's odds y / (1 - y) change by a factor of at most
    t = exp(2 E), so that y' lies between y / (y + (1 - y) t) and y t / (1 + y (t - 1))."""
    if operands[0].is_known:
        return Uncertain.known(result)
    axis = axis_of(node, attr(node, "axis", -1), result.ndim - 1) + 1
    reach = np.broadcast_to(operands[0].error, result.shape).max(axis=axis, keepdims=True)
    factor = np.exp(np.minimum(2.0 * reach.astype(np.float64), MOST_POWER))
    y = result.astype(np.float64)
    least, most = y / (y + (1 - y) * factor), y * factor / (1 + y * (factor - 1))
    return Uncertain(result, np.maximum(y - least, most - y), np.abs(result))


def _decided(node: Node, operands: Sequence[Uncertain], result: np.ndarray) -> Uncertain:
    """Numbers that single precision does not tell apart may compare either way."""
    a, b = align([operand.value for operand in operands])
    distance, size = np.abs(a - b), np.maximum(np.abs(a), np.abs(b))
    near = (distance > 0) & (distance <= SAME * size)
    error = np.where(near, 1.0, 0.0) if all(operand.is_known for operand in operands) else np.full(near.shape, np.inf)
    return Uncertain(result, np.broadcast_to(error, result.shape), np.abs(result))


def _normalized(node: Node, operands: Sequence[Uncertain], result: np.ndarray) -> Uncertain:
    """Batch normalisation by a factor and an offset, which are constants of their own."""
    statistics = [operand.value[0] for operand in operands[1:]]
    factor, offset = scale_and_offset(node, statistics)
    shape = (1, 1, -1) + (1,) * (result.ndim - 3)
    x = operands[0]
    size = x.size * np.abs(factor).reshape(shape) + np.abs(offset).reshape(shape)
    of_factor, of_offset = (
        operand.error.reshape(-1) for operand in operands[1:3]
    )  # theirs, not those of the statistics
    error = x.error * np.abs(factor).reshape(shape) + x.most * of_factor.reshape(shape) + of_offset.reshape(shape)
    return Uncertain(result, np.broadcast_to(error, result.shape), size)


_RULES: dict[str, Callable[[Node, Sequence[Uncertain], np.ndarray], Uncertain]] = {
    "Add": _sum,
    "Sub": _sum,
    "Mul": _product,
    "BatchNormalization": _normalized,
    "Normalize": _divided,
    "Softmax": _shared,
    **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"), _decided),
}
