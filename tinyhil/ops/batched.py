"""BatchMatMul: MatMul of more than two axes with two operands of any kind, one pair of matrices after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyhil.formats.format import Format
from tinyhil.language.arithmetic import rounded, sum_of_products
from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.kernel import QUIRE
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops.linear import placed_pair
from tinyhil.ops.movement import spread
from tinyhil.ops.operator import Arrays, Form, Kernel, Operator, accumulator_bits, align, broadcast, by_domain, refuse


def _infer(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    a, b = shapes
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise refuse(node, f"operands {list(a)} and {list(b)} are no batches of matrices", "check the exported model")
    return [(*broadcast(node, [a[:-2], b[:-2]]), a[-2], b[-1])]


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    return [np.matmul(*align(arrays))]


def _matrices(node: Node, lowering: Lowering, value: str, batch: Shape) -> tuple[str, int]:
    """Tensor of operand `value` and the elements from one of its matrices to the next: 0 if all use the same one."""
    shape = lowering.shape(value)
    if element_count(shape[:-2]) == 1:
        return lowering.operand(value), 0
    whole = (*batch, *shape[-2:])
    if element_count(shape) != element_count(whole):  # broadcast along some of the axes
        constant = lowering.constant(value)
        if constant is None:
            return spread(node, lowering, value, whole), shape[-2] * shape[-1]
        padded = np.broadcast_to(constant, whole)
        return lowering.add_constant(value, padded, lowering.format(value)), shape[-2] * shape[-1]
    return lowering.operand(value), shape[-2] * shape[-1]


def _lower(node: Node, lowering: Lowering) -> None:
    shape = lowering.shape(node.outputs[0])
    inner = lowering.shape(node.inputs[0])[-1]
    (a, a_step), (b, b_step) = (_matrices(node, lowering, value, shape[:-2]) for value in node.inputs)
    out = lowering.define(node.outputs[0])
    left, right = (lowering.loaded(value) for value in node.inputs)
    shift = out.format.exponent - left.exponent - right.exponent
    params = {
        "batch": element_count(shape[:-2]),
        "a_step": a_step,
        "b_step": b_step,
        "rows": shape[-2],
        "inner": inner,
        "columns": shape[-1],
        "shift": shift,
    }
    bits = accumulator_bits(inner * left.lowest * right.lowest, shift)
    op = Op(BATCH_MATMUL.form, node.name, (a, b), out.name, params, bits)
    lowering.emit(node, placed_pair(op, node, lowering, inner))


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    a = arrays[0].reshape(len(arrays[0]), -1, p["rows"], p["inner"])
    b = arrays[1].reshape(len(arrays[1]), -1, p["inner"], p["columns"])
    return rounded(*sum_of_products(op, a, b, np.zeros(1, a.dtype)), op, out)


_PARAMS = ("batch", "a_step", "b_step", "rows", "inner", "columns", "shift")
BATCH_MATMUL = Kernel(
    Form("batch_matmul"),
    "products of pairs of matrices, exact sums, one rounding",
    _execute,
    _PARAMS,
    ("shift",),
    coded=QUIRE,
)
KERNELS = (BATCH_MATMUL,)

OPERATORS = (
    Operator("BatchMatMul", "MatMul of batches; broadcast along the batch axes", _infer, _evaluate, by_domain(_lower)),
)
