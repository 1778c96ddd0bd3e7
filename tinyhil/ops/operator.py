"""What one operator is: a record that drives shape inference, the float reference, lowering and the docs table.

An `Operator` is an ONNX operator as the graph knows it; a `Kernel` (language/kernel.py) is what it is lowered to.

Float arrays carry a leading sample axis: value of shape (1, 32) over S samples is an array (S, 1, 32); a constant has a
sample axis of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.formats.format import AFFINE, CODED, INTEGER, SINGLE, Domain
from tinyhil.language.form import Arithmetic, Form, Joined, Limit, Weights
from tinyhil.language.graph import Node, Shape
from tinyhil.language.kernel import Arrays, Execute, Kernel
from tinyhil.language.lowering_context import Lowering

__all__ = ["Arithmetic", "Arrays", "Execute", "Form", "Joined", "Kernel", "Limit", "Operator", "Weights"]

Infer = Callable[[Node, Sequence[Shape], Sequence[np.ndarray | None]], list[Shape]]
Settle = Callable[[Node, Sequence[Shape], Sequence[np.ndarray | None]], Node]
Evaluate = Callable[[Node, Arrays], list[np.ndarray]]
Lower = Callable[[Node, Lowering], None]


def by_domain(integer: Lower, other: Lower | None = None, affine: Lower | None = None) -> Mapping[Domain, Lower]:
    """What lowers an operator in each domain: `integer` in all, but for `other` where there are no integers, and
    `affine` where operands and result are asymmetric integers of 8 bits."""
    other = other or integer
    return {INTEGER: integer, CODED: other, SINGLE: other, AFFINE: affine or other}


@dataclass(frozen=True, slots=True)
class Operator:
    """One ONNX operator. `attributes` are those understood; any other one refuses the model.

    `lower`: what emits its kernels in each domain; empty for views, whose output shows the first input's elements.
    `words`: what lowers it where operands and result are asymmetric integers, not all of 8 bits; None: as `lower`.
    `integers_only`: what lowers it in integers can not round into another format, so that such a result is computed
    in single precision.
    `settle` rewrites a node whose inputs are parameters (axes, bounds) into one that has them as attributes.
    """

    name: str
    summary: str
    infer: Infer
    evaluate: Evaluate
    lower: Mapping[Domain, Lower] = field(default_factory=dict)
    attributes: tuple[str, ...] = ()
    is_view: bool = False
    settle: Settle | None = None
    words: Lower | None = None
    integers_only: bool = False


def refuse(node: Node, what: str, remedy: str) -> ModelError:
    """A refusal that names node and operator, for the front end and the lowering alike."""
    return ModelError(f"node '{node.name}' ({node.op}): {what}; {remedy}")


def require_constants(node: Node, values: Sequence[np.ndarray | None]) -> None:
    """ModelError if weights or bias, the operands but the first, are computed at run time."""
    for name, value in zip(node.inputs[1:], values[1:], strict=True):
        if name and value is None:
            raise refuse(node, f"'{name}' is computed at run time", "only constant weights and biases are supported")


def attr(node: Node, name: str, default: Any) -> Any:
    """Attribute `name` of `node`, or `default`."""
    return node.attrs.get(name, default)


def axis_of(node: Node, axis: int, rank: int) -> int:
    """`axis` counted from the front; ModelError if there is no such axis."""
    if not -rank <= axis < rank:
        raise refuse(node, f"axis {axis} of a tensor with {rank} axes", "the file is damaged")
    return axis % rank


def align(arrays: Arrays) -> list[np.ndarray]:
    """Pad shapes behind the sample axis to one rank, so that numpy's broadcasting is that of one sample."""
    ranks = {array.ndim for array in arrays}
    if len(ranks) == 1:
        return list(arrays)
    rank = max(ranks)
    return [a.reshape(a.shape[:1] + (1,) * (rank - a.ndim) + a.shape[1:]) for a in arrays]


def broadcast(node: Node, shapes: Sequence[Shape]) -> Shape:
    """Numpy broadcasting of `shapes`; ModelError when they do not match."""
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        text = " and ".join(str(list(shape)) for shape in shapes)
        raise refuse(node, f"shapes {text} do not broadcast", "check the exported model") from None


def broadcasting(count: int) -> Infer:
    """The shape of what `count` operands that broadcast give; ModelError for others, or for more or less of them."""

    def infer(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
        if len(shapes) != count:
            raise refuse(node, f"{len(shapes)} operands, it takes {count}", "the file is damaged")
        return [broadcast(node, shapes)]

    return infer


def signed_bits(bound: int) -> int:
    """Width of the narrowest two's complement integer that holds -bound..bound."""
    return bound.bit_length() + 1


def accumulator_bits(bound: int, shift: int) -> int:
    """Width that holds sums up to `bound` in magnitude, plus the rounding addend or the left shift of requantize."""
    return signed_bits(bound + (1 << (shift - 1)) if shift > 0 else bound << -shift)
