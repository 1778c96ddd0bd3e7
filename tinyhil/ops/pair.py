"""LayerPair: the sum of two products of rows with constant weights, exact, with one rounding.

`tinyhil/fuse/pair.py` makes it. Its inputs are those of its `layers` (two nodes, one of them with a bias at most),
first the one whose sums have the finer unit. The sums of the other are moved left to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyhil.formats.format import Format
from tinyhil.language.arithmetic import rounded, scaled
from tinyhil.language.graph import Node, Shape
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops import affine_pair, linear
from tinyhil.ops.limits import clamped, forms, limited_form
from tinyhil.ops.operator import Arrays, Form, Joined, Kernel, Operator, accumulator_bits, attr, by_domain
from tinyhil.ops.sums import joining, with_bias

_PRODUCTS = {operator.name: operator for operator in linear.OPERATORS}


def _parts(node: Node) -> tuple[tuple[Node, slice], tuple[Node, slice]]:
    """The two layers and which inputs are theirs."""
    first, second = node.attrs["layers"]
    return (first, slice(0, len(first.inputs))), (second, slice(len(first.inputs), None))


def _infer(node: Node, shapes: Sequence[Shape], constants: Sequence[np.ndarray | None]) -> list[Shape]:
    layer, own = _parts(node)[0]
    return _PRODUCTS[layer.op].infer(layer, shapes[own], constants[own])


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    first, second = (_PRODUCTS[layer.op].evaluate(layer, arrays[own])[0] for layer, own in _parts(node))
    return [clamped(node, first + second)]


def _lower(node: Node, lowering: Lowering) -> None:
    names: list[list[str]] = []
    units, bounds, inners = list[int](), list[np.ndarray](), list[int]()
    for layer in node.attrs["layers"]:
        x, w = layer.inputs[:2]
        weights = lowering.constant(w)
        assert weights is not None
        matrix = weights if attr(layer, "transB", 0) else weights.T
        stored = lowering.add_constant(w, matrix, lowering.format(w))
        names.append([stored, lowering.tensor(x)])
        units.append(lowering.loaded(x).exponent + lowering.loaded(w).exponent)
        rows = lowering.magnitudes(stored).reshape(len(matrix), -1)
        bounds.append(rows.sum(axis=1).astype(object) * -lowering.loaded(x).lowest)
        inners.append(matrix.shape[1])
    lift, bound = units[1] - units[0], bounds[0]
    bound = bound + bounds[1] * (1 << lift)
    bias_shift = 0
    bias = next((layer.inputs[2] for layer in node.attrs["layers"] if len(layer.inputs) == 3), None)
    if bias is not None:
        values = lowering.constant(bias)
        assert values is not None
        fmt, bias_shift = joining(lowering.format(bias), units[0], lowering.domain(node.inputs))
        by_output = np.broadcast_to(values, (1, len(bound)))[0]
        names[0].append(lowering.add_constant(bias, by_output, fmt))
        bound = bound + lowering.magnitudes(names[0][2]).astype(np.int64).astype(object) * (1 << bias_shift)
    out = lowering.define(node.outputs[0])
    form, ends = limited_form(PAIR.form, node, out.format)
    params = {
        "rows": out.count // len(bound),
        "outputs": len(bound),
        "inner": inners[0],
        "more_inner": inners[1],
        "lift": lift,
        "bias_shift": bias_shift,
        "shift": out.format.exponent - units[0],
        **ends,
    }
    bits = accumulator_bits(int(bound.max(initial=0)), params["shift"])
    form = replace(form, bias=bias is not None)
    lowering.emit(node, Op(form, node.name, (*names[0], *names[1]), out.name, params, bits))


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p, first, more = op.params, arrays[:2], arrays[-2:]
    total = _products(first, p["rows"], p["inner"]) + (_products(more, p["rows"], p["more_inner"]) << p["lift"])
    if len(arrays) == 5:
        total = total + scaled(arrays[2].reshape(p["outputs"]), p["bias_shift"])
    return rounded(total, np.zeros(total.shape, np.int64), op, out)


def _products(arrays: Arrays, rows: int, inner: int) -> np.ndarray:
    """(samples, rows, outputs)"""
    weights, x = arrays
    return np.asarray(x.reshape(-1, rows, inner) @ weights.reshape(-1, inner).T)


PAIR = Kernel(
    Form("dense", joined=Joined.PAIR),
    "two dense in one exact sum, one rounding",
    _execute,
    ("rows", "outputs", "inner", "more_inner", "lift", "shift"),
    ("lift", "shift"),
    is_sum=True,
)
_PAIRS = with_bias(PAIR)
KERNELS = (*_PAIRS, *forms(_PAIRS), *affine_pair.KERNELS)

OPERATORS = (
    Operator(
        "LayerPair",
        "two of MatMul and Gemm, and their Add, fused",
        _infer,
        _evaluate,
        by_domain(_lower, affine=affine_pair.lower),
    ),
)
