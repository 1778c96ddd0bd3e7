"""LayerSum: a Conv, Gemm or MatMul and an Add of a computed tensor of the result's shape, in one exact sum.

`tinyhil/fuse/residual.py` makes it. Its inputs are the layer's and that tensor, `layer` the node of the layer. The
tensor is moved left to the unit of the sum. Element n of it is read before element n of the result is written, so
the result may take its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyhil.language.graph import Node, Shape
from tinyhil.language.kernel import Kernel
from tinyhil.language.lowering_context import Lowering
from tinyhil.ops import conv, linear
from tinyhil.ops.limits import ADDEND, ENDS, clamped, forms
from tinyhil.ops.operator import Arrays, Joined, Operator, by_domain

_OPERATORS = {operator.name: operator for operator in (*linear.OPERATORS, *conv.OPERATORS)}


def _layer(node: Node) -> Node:
    layer: Node = node.attrs["layer"]
    return layer


def _infer(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    return [shapes[-1]]


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    layer = _layer(node)
    products = _OPERATORS[layer.op].evaluate(layer, arrays[:-1])[0]
    return [clamped(node, products + arrays[-1])]


def _lower(node: Node, lowering: Lowering) -> None:
    layer, addend = _layer(node), lowering.operand(node.inputs[-1])
    ends = {name: node.attrs[name] for name in ENDS if name in node.attrs}
    inner = replace(layer, outputs=node.outputs, attrs={**layer.attrs, **ends, ADDEND: addend})
    _OPERATORS[layer.op].lower[lowering.domain(layer.inputs)](inner, lowering)


def _with_sum(base: Kernel) -> Kernel:
    return replace(
        base,
        form=replace(base.form, joined=Joined.SUM),
        params=(*base.params, "add_shift"),
        static_params=(*base.static_params, "add_shift"),
        coded="",
        in_place=True,
        in_place_at=(3 if base.form.bias else 2,),
    )


_SUMS = tuple(map(_with_sum, (*linear.LAYERS, *conv.LAYERS)))
KERNELS = (*_SUMS, *forms(_SUMS))

OPERATORS = (
    Operator(
        "LayerSum", "Conv, Gemm or MatMul, and Add of a computed tensor, fused", _infer, _evaluate, by_domain(_lower)
    ),
)
