"""MatMulAt: a matrix product with weights that an index chooses at run time: they are read where they lie.

Inputs are the run-time value, a constant table, one row of which is the weights, and the index. The table is stored as
(size, outputs, inner), one row of weights per output. `tinyhil/fuse/gathered.py` makes it; GatherAt and MatMul would
copy the row into memory first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyhil.formats.format import Format
from tinyhil.language.arithmetic import rounded, sum_of_products
from tinyhil.language.graph import Node, Shape
from tinyhil.language.kernel import QUIRE
from tinyhil.language.lowering_context import Lowering, loaded
from tinyhil.language.program import Op
from tinyhil.ops.index import inside
from tinyhil.ops.operator import Arrays, Form, Kernel, Operator, by_domain
from tinyhil.ops.sums import Constant, proven


def weights_of(table: np.ndarray, inner: int, on_left: bool) -> np.ndarray:
    """(size, outputs, inner) of a constant with rows (..., inner, outputs); on the left (..., outputs, inner)."""
    if on_left or table.ndim == 2:
        return table.reshape(len(table), -1, inner)
    return table.reshape(len(table), inner, -1).swapaxes(1, 2)


def _infer(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    return [tuple(node.attrs["shape"])]


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    x, table, index = arrays
    weights = weights_of(table[0], node.attrs["inner"], node.attrs["on_left"])
    chosen = weights[inside(np.trunc(index).astype(np.int64).reshape(-1), len(weights))]
    out = np.matmul(x.reshape(len(x), -1, node.attrs["inner"]), chosen.swapaxes(1, 2))
    return [out.reshape(len(out), *node.attrs["shape"])]


def _lower(node: Node, lowering: Lowering) -> None:
    x, table, chooser = node.inputs
    array, inner = lowering.constant(table), int(node.attrs["inner"])
    assert array is not None
    by_row = weights_of(array, inner, node.attrs["on_left"])
    size, outputs, _ = by_row.shape
    weights = Constant(table, by_row.reshape(size * outputs, inner), lowering.format(table))
    out = lowering.define(node.outputs[0])
    unit = lowering.loaded(x).exponent + loaded(weights.format).exponent
    params = {
        "rows": lowering.count(x) // inner,
        "outputs": outputs,
        "inner": inner,
        "size": size,
        "drop": -lowering.format(chooser).exponent,
        "shift": out.format.exponent - unit,
    }
    stored = lowering.add_constant(table, weights.array, weights.format)
    names = (lowering.operand(chooser), stored, lowering.tensor(x))
    op = Op(DENSE_AT.form, node.name, names, out.name, params)
    lowering.emit(node, proven(op, lowering, weights, (stored,), x))


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    index = arrays[0].reshape(-1) >> p["drop"]
    table = arrays[1].reshape(p["size"], p["outputs"], p["inner"])
    x = arrays[2].reshape(-1, p["rows"], p["inner"])
    chosen = table[inside(index, p["size"])].swapaxes(1, 2)
    codes, clipped = rounded(*sum_of_products(op, x, chosen, np.zeros(p["outputs"], x.dtype)), op, out)
    moved = ((index < -p["size"]) | (index >= p["size"]))[:, None]
    return codes, np.concatenate([clipped, np.broadcast_to(moved, (len(codes), 1))], axis=1)


DENSE_AT = Kernel(
    Form("dense_at"),
    "dense with the weights that an index chooses at run time; one outside is clamped and counted",
    _execute,
    ("rows", "outputs", "inner", "size", "drop", "shift"),
    ("drop", "shift"),
    is_sum=True,
    coded=QUIRE,
    codes=(0,),
)
KERNELS = (DENSE_AT,)

OPERATORS = (
    Operator(
        "MatMulAt",
        "GatherAt of a constant and MatMul with what it chose, fused",
        _infer,
        _evaluate,
        by_domain(_lower),
        ("shape", "inner", "on_left"),
    ),
)
