"""PlaceAt: one row along an axis of a tensor is written anew, at a place computed at run time.

So a cache of keys or values goes on: a state of a loop that is read by nothing else is written where it lies, one row
a step, and nothing of it is copied.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyhil.formats.format import INTEGER, Format
from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.kernel import REAL
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops.index import MOST_ROWS, inside
from tinyhil.ops.operator import Arrays, Form, Kernel, Operator, attr, axis_of, by_domain, refuse
from tinyhil.ops.scan import COPY

NAME = "PlaceAt"


def _extent(node: Node, shape: Shape) -> tuple[int, int, int]:
    """(outer, size, inner) of a tensor around the axis along which rows are written."""
    axis = axis_of(node, attr(node, "axis", 0), len(shape))
    return element_count(shape[:axis]), shape[axis], element_count(shape[axis + 1 :])


def _infer(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    outer, size, inner = _extent(node, shapes[0])
    if element_count(shapes[1]) != 1 or element_count(shapes[2]) != outer * inner:
        what = f"{list(shapes[2])} written at {element_count(shapes[1])} places of {list(shapes[0])}"
        raise refuse(node, what, "one row, at one place, can be written at run time")
    if size >= MOST_ROWS:
        raise refuse(node, f"one of {size} rows, the limit is {MOST_ROWS - 1}", "split the tensor")
    return [shapes[0]]


def _placed(present: np.ndarray, index: np.ndarray, row: np.ndarray) -> np.ndarray:
    """`present` (samples, outer, size, inner) with `row` (samples, outer, inner) at `index` (samples); or 1 for all."""
    here = np.arange(present.shape[2]) == index[:, None]
    return np.where(here[:, None, :, None], row[:, :, None, :], present)


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    present, index, row = arrays
    outer, size, inner = _extent(node, present.shape[1:])
    places = inside(np.trunc(index).astype(np.int64).reshape(-1), size)
    whole = _placed(present.reshape(-1, outer, size, inner), places, row.reshape(-1, outer, inner))
    return [whole.reshape(len(whole), *present.shape[1:])]


def _lower(node: Node, lowering: Lowering) -> None:
    """All three have one format: `tied_values` of lower.py."""
    present, place, row = node.inputs
    index_format = lowering.format(place)
    if index_format.domain != INTEGER or not -15 <= index_format.exponent <= 0:
        raise refuse(node, f"places in {index_format}", "compute them from whole numbers, or use 16 bits")
    outer, size, inner = _extent(node, lowering.shape(present))
    if lowering.is_spent(present):
        target = lowering.tensor(present)
        lowering.alias(node.outputs[0], target)
    else:
        target = lowering.define(node.outputs[0]).name
        count = {"count": lowering.count(present)}
        lowering.append(Op(COPY.form, f"{node.name}.{target}", (lowering.operand(present),), target, count))
    params = {"outer": outer, "size": size, "inner": inner, "drop": -index_format.exponent}
    names = (lowering.operand(row), lowering.operand(place), target)
    lowering.append(Op(PLACE_AT.form, node.name, names, target, params))


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    row, place, present = arrays
    index = place.reshape(-1) >> p["drop"]
    shape = (-1, p["outer"], p["size"], p["inner"])
    whole = _placed(present.reshape(shape), inside(index, p["size"]), row.reshape(-1, p["outer"], p["inner"]))
    moved = (index < -p["size"]) | (index >= p["size"])
    return whole.reshape(len(whole), -1), np.broadcast_to(moved[:, None], (len(whole), 1))


PLACE_AT = Kernel(
    Form("place_at"),
    "write one row of a tensor at a place known at run time; one outside is clamped and counted",
    _execute,
    ("outer", "size", "inner", "drop"),
    coded=REAL,
    codes=(0, 1, 2),
)
KERNELS = (PLACE_AT,)

OPERATORS = (
    Operator(
        NAME,
        "one row of a tensor written at a place computed at run time: what a cache of keys and values does",
        _infer,
        _evaluate,
        by_domain(_lower),
        ("axis",),
    ),
)
