"""Matrix products: MatMul and Gemm, lowered to `dense` (constant weights) or `matmul` (two run-time operands)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyhil.crossbars.array import matmul
from tinyhil.formats.format import INTEGER, Format
from tinyhil.formats.quire import place_pair
from tinyhil.language.arithmetic import rounded, start_of_sums, sum_of_products
from tinyhil.language.form import Form
from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.kernel import QUIRE
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops.limits import NARROW, clamped, forms
from tinyhil.ops.operator import Arrays, Kernel, Operator, accumulator_bits, align, attr, broadcast, by_domain, refuse
from tinyhil.ops.sums import Constant, emit_layer, with_bias


def _infer_matmul(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    a, b = shapes
    if not a or not b:
        raise refuse(node, "an operand is a scalar", "use Mul")
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise refuse(node, f"inner dimensions of {list(a)} and {list(b)} differ", "check the exported model")
    rows = a[:-1] if len(a) > 1 else ()
    columns = b[-1:] if len(b) > 1 else ()
    if len(b) > 2:
        if len(a) > 2 and a[:-2] != b[:-2] and any(d != 1 for d in a[:-2] + b[:-2]):
            raise refuse(node, f"batched operands {list(a)} and {list(b)}", "split the batch into separate nodes")
        rows = b[:-2] + a[-2:-1] if len(b) > len(a) else a[:-1]
    return [rows + columns]


def _evaluate_matmul(node: Node, arrays: Arrays) -> list[np.ndarray]:
    a, b = arrays
    left_vector, right_vector = a.ndim == 2, b.ndim == 2
    a = a[:, None, :] if left_vector else a
    b = b[:, :, None] if right_vector else b
    out = np.matmul(*align((a, b)))
    out = out[..., 0] if right_vector else out
    if left_vector:
        out = out[..., 0] if right_vector else out[..., 0, :]
    return [clamped(node, out)]


def _infer_gemm(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    a, b = shapes[0], shapes[1]
    if len(a) != 2 or len(b) != 2:
        raise refuse(node, f"operands {list(a)} and {list(b)} are not matrices", "use MatMul")
    m, k = (a[1], a[0]) if attr(node, "transA", 0) else a
    k2, n = (b[1], b[0]) if attr(node, "transB", 0) else b
    if k != k2:
        raise refuse(node, f"inner dimensions {k} and {k2} differ", "check the exported model")
    if len(shapes) == 3 and broadcast(node, [shapes[2], (m, n)]) != (m, n):
        raise refuse(node, f"a bias {list(shapes[2])} for a result {[m, n]}", "check the exported model")
    return [(m, n)]


def _evaluate_gemm(node: Node, arrays: Arrays) -> list[np.ndarray]:
    a, b = arrays[0], arrays[1]
    if attr(node, "transA", 0):
        a = a.swapaxes(-1, -2)
    if attr(node, "transB", 0):
        b = b.swapaxes(-1, -2)
    out = attr(node, "alpha", 1.0) * np.matmul(a, b)
    if len(arrays) == 3:
        c = arrays[2]
        out = out + attr(node, "beta", 1.0) * c.reshape(c.shape[:1] + (1,) * (3 - c.ndim) + c.shape[1:])
    return [clamped(node, out.astype(np.float32))]


def _lower_matmul(node: Node, lowering: Lowering) -> None:
    left, right = node.inputs
    left_shape, right_shape = lowering.shape(left), lowering.shape(right)
    weights = lowering.constant(right)
    if weights is not None and weights.ndim == 2:
        rows = lowering.count(left) // left_shape[-1]
        _dense(node, lowering, left, rows, right, weights.T, None)
        return
    weights = lowering.constant(left)
    if weights is not None and weights.ndim == 2 and lowering.count(right) == weights.shape[1]:
        _dense(node, lowering, right, 1, left, weights, None)
        return
    if len(left_shape) == 1:
        left_shape = (1, *left_shape)
    if len(right_shape) == 1:
        right_shape = (*right_shape, 1)
    if any(d != 1 for d in left_shape[:-2] + right_shape[:-2]):
        raise refuse(node, f"batched operands {list(left_shape)} and {list(right_shape)}", "split the batch")
    _matmul(node, lowering, left_shape[-2], left_shape[-1], right_shape[-1])


def _lower_gemm(node: Node, lowering: Lowering) -> None:
    if attr(node, "alpha", 1.0) != 1.0 or attr(node, "beta", 1.0) != 1.0:
        raise refuse(node, "alpha or beta is not 1", "fold the factor into the weights")
    if attr(node, "transA", 0):
        raise refuse(node, "transA = 1", "export with the input untransposed")
    weights = lowering.constant(node.inputs[1])
    if weights is None:
        raise refuse(node, "the second operand is computed at run time", "use MatMul and Add")
    bias = node.inputs[2] if len(node.inputs) == 3 else None
    if bias is not None and lowering.constant(bias) is None:
        raise refuse(node, "the bias is computed at run time", "use MatMul and Add")
    rows = element_count(lowering.shape(node.inputs[0])[:-1])  # those that a fusion makes may have more than two axes
    matrix = weights if attr(node, "transB", 0) else weights.T
    _dense(node, lowering, node.inputs[0], rows, node.inputs[1], matrix, bias)


def _dense(node: Node, lowering: Lowering, x: str, rows: int, w: str, matrix: np.ndarray, bias: str | None) -> None:
    """out[r, n] = sum_k matrix[n, k] * x[r, k] + bias[n]: `matrix` holds one row of weights per output."""
    outputs, inner = matrix.shape
    by_output = None
    if bias is not None:
        values = lowering.constant(bias)
        assert values is not None
        by_row = np.broadcast_to(values.reshape(-1, values.shape[-1] if values.ndim else 1), (rows, outputs))
        if (by_row != by_row[0]).any():
            raise refuse(node, "a bias of its own for each row", "use MatMul and Add")
        by_output = Constant(bias, by_row[0], lowering.format(bias))
    params = {"rows": rows, "outputs": outputs, "inner": inner}
    steps = lowering.steps(w)
    if steps is not None and matrix is not lowering.constant(w):
        steps = steps.T
    operands = (Constant(w, matrix, lowering.format(w), steps), x, by_output)
    emit_layer(node, lowering, DENSE.form, operands, params)


def _matmul(node: Node, lowering: Lowering, rows: int, inner: int, columns: int) -> None:
    a, b = (lowering.operand(name) for name in node.inputs)
    out = lowering.define(node.outputs[0])
    a_format, b_format = lowering.loaded(node.inputs[0]), lowering.loaded(node.inputs[1])
    shift = out.format.exponent - a_format.exponent - b_format.exponent
    bits = accumulator_bits(inner * a_format.lowest * b_format.lowest, shift)
    params = {"rows": rows, "inner": inner, "columns": columns, "shift": shift}
    op = Op(MATMUL.form, node.name, (a, b), out.name, params, bits)
    lowering.emit(node, placed_pair(op, node, lowering, inner))


def placed_pair(op: Op, node: Node, lowering: Lowering, inner: int) -> Op:
    """`op`, which sums `inner` products of the two operands of `node`, with a window where these are no integers."""
    if lowering.domain(node.inputs) == INTEGER:
        return op
    left, right = node.inputs
    observed = (lowering.observed(left), lowering.observed(right))
    window = place_pair(lowering.format(left), lowering.format(right), observed, inner)
    return replace(op, accumulator_bits=window.bits, low=window.low, guard=window.guard)


def _execute_dense(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    weights = arrays[0].reshape(p["outputs"], p["inner"])
    x = arrays[1].reshape(-1, p["rows"], p["inner"])
    more = list(arrays[2:])
    addend = more.pop().reshape(-1, p["rows"], p["outputs"]) if "add_shift" in p else None
    bias = more[0].reshape(p["outputs"]) if more else np.zeros(p["outputs"], x.dtype)
    if op.domain == INTEGER:
        products = matmul(op.crossbar, weights, x.swapaxes(1, 2)).swapaxes(1, 2)
        total = products + start_of_sums(op, bias, addend)
        return rounded(total, np.zeros(total.shape, np.int64), op, out)
    return rounded(*sum_of_products(op, x, weights.T, bias), op, out)


def _execute_matmul(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    a = arrays[0].reshape(-1, p["rows"], p["inner"])
    b = arrays[1].reshape(-1, p["inner"], p["columns"])
    return rounded(*sum_of_products(op, a, b, np.zeros(1, a.dtype)), op, out)


DENSE = Kernel(
    Form("dense"),
    "constant matrix times run-time rows, exact sum, one rounding",
    _execute_dense,
    ("rows", "outputs", "inner", "shift"),
    ("shift",),
    is_sum=True,
    coded=QUIRE,
)
MATMUL = Kernel(
    Form("matmul"),
    "product of two run-time matrices, exact sum, one rounding",
    _execute_matmul,
    ("rows", "inner", "columns", "shift"),
    ("shift",),
    coded=QUIRE,
)
LAYERS = with_bias(DENSE)
KERNELS = (*LAYERS, MATMUL, *forms(LAYERS))

OPERATORS = (
    Operator(
        "MatMul",
        "matrix product; batch dimensions of 1 only",
        _infer_matmul,
        _evaluate_matmul,
        by_domain(_lower_matmul),
    ),
    Operator(
        "Gemm",
        "matrix product plus bias; alpha = beta = 1, transA = 0, constant weights",
        _infer_gemm,
        _evaluate_gemm,
        by_domain(_lower_gemm),
        ("alpha", "beta", "transA", "transB", NARROW),
    ),
)
