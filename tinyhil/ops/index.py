"""Rows chosen at run time: GatherAt, and what loops need to read and write row `step` of a tensor.

An index is clamped into its range, and each clamped one is counted as a saturation: no model reads outside of a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyhil.formats.codec import requantize
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import INTEGER, Format
from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.kernel import REAL
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops.operator import Arrays, Form, Kernel, Operator, accumulator_bits, attr, axis_of, by_domain, refuse

COUNTER = Fixed(16, 0)
MOST_ROWS = 1 << 15


def _infer(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    axis = axis_of(node, attr(node, "axis", 0), len(shapes[0]))
    return [(*shapes[0][:axis], *shapes[1], *shapes[0][axis + 1 :])]


def inside(index: np.ndarray, size: int) -> np.ndarray:
    """Indices counted from the front and clamped into the axis."""
    result: np.ndarray = np.clip(np.where(index < 0, index + size, index), 0, size - 1)
    return result


def _chosen(data: np.ndarray, index: np.ndarray) -> np.ndarray:
    """(samples, outer, chosen, inner) of `data` (samples or 1, outer, size, inner), `index` (samples or 1, chosen)."""
    samples = np.arange(max(len(data), len(index)))[:, None]
    rows = data.transpose(0, 2, 1, 3)[samples % len(data), index[samples[:, 0] % len(index)]]
    return rows.transpose(0, 2, 1, 3)


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    data, index = arrays
    shape = data.shape[1:]
    axis = axis_of(node, attr(node, "axis", 0), len(shape))
    flat = data.reshape(len(data), element_count(shape[:axis]), shape[axis], element_count(shape[axis + 1 :]))
    wanted = inside(np.trunc(index).astype(np.int64).reshape(len(index), -1), shape[axis])
    rows = _chosen(flat, wanted)
    return [rows.reshape(len(rows), *shape[:axis], *index.shape[1:], *shape[axis + 1 :])]


def _lower(node: Node, lowering: Lowering) -> None:
    value, chooser = node.inputs
    shape = lowering.shape(value)
    axis = axis_of(node, attr(node, "axis", 0), len(shape))
    if shape[axis] >= MOST_ROWS:
        raise refuse(node, f"chooses of {shape[axis]} rows, the limit is {MOST_ROWS - 1}", "split the table")
    index_format = lowering.format(chooser)
    if index_format.domain != INTEGER or not -15 <= index_format.exponent <= 0:
        raise refuse(node, f"indices in {index_format}", "compute them from whole numbers, or use 16 bits")
    extent = (element_count(shape[:axis]), lowering.count(chooser), shape[axis], element_count(shape[axis + 1 :]))
    index, x, fmt = lowering.operand(chooser), lowering.operand(value), lowering.loaded(value)
    out = lowering.define(node.outputs[0])
    shift = out.format.exponent - fmt.exponent
    params = {**dict(zip(_EXTENT, extent, strict=True)), "drop": -index_format.exponent, "shift": shift}
    bits = accumulator_bits(-fmt.lowest, shift)
    lowering.emit(node, Op(GATHER_AT.form, node.name, (index, x), out.name, params, bits))


def take_row(node: Node, lowering: Lowering, counter: str, sequence: str, row: str) -> Op:
    """`row` becomes row `counter` of `sequence`, which has its format."""
    inner = {"inner": lowering.tensors[row].count}
    return Op(TAKE_ROW.form, f"{node.name}.{row}", (counter, sequence), row, inner)


class Counters:
    """Step numbers of a loop, upward or downward, each made when it is first asked for."""

    def __init__(self, node: Node, lowering: Lowering, count: int) -> None:
        self._node, self._lowering, self._count = node, lowering, count
        self._names: dict[bool, str] = {}

    def name(self, downward: bool) -> str:
        """Tensor of the counter; to be asked for first before the loop's body is lowered.

        ModelError if the sequence is too long.
        """
        if downward not in self._names:
            if self._count >= MOST_ROWS:
                what = f"rows of {self._count} read or written by number, the limit is {MOST_ROWS - 1}"
                raise refuse(self._node, what, "shorten the sequence")
            counter = self._lowering.scratch(f"{self._node.name}.step", 1, COUNTER)
            first = {"count": 1, "value": self._count - 1 if downward else 0}
            self._lowering.append(Op(Form("fill"), counter.name, (), counter.name, first))
            self._names[downward] = counter.name
        return self._names[downward]

    def advance(self) -> list[Op]:
        """What the end of a step does."""
        by = {True: -1, False: 1}
        return [Op(COUNT.form, name, (name,), name, {"by": by[down]}) for down, name in self._names.items()]


def _execute_gather(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    index, data = arrays[0] >> p["drop"], arrays[1].reshape(-1, p["outer"], p["size"], p["inner"])
    wanted = inside(index, p["size"])
    rows = _chosen(data, wanted)
    codes, clipped = requantize(rows.reshape(len(rows), -1), p["shift"], out)
    moved = np.tile((index < -p["size"]) | (index >= p["size"]), (1, p["outer"]))
    return codes, np.concatenate([clipped, np.broadcast_to(moved, (len(rows), moved.shape[1]))], axis=1)


def _execute_take_row(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    counter, x = arrays
    rows = _chosen(x.reshape(len(x), 1, -1, op.params["inner"]), counter)[:, 0, 0]
    return rows, np.zeros((len(rows), 1), bool)


def _execute_place_row(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    row, counter, present = arrays
    samples = max(len(row), len(counter), len(present))
    whole = np.broadcast_to(present, (samples, present.shape[1])).copy().reshape(samples, -1, op.params["inner"])
    whole[np.arange(samples), np.broadcast_to(counter[:, 0], samples)] = row
    return whole.reshape(samples, -1), np.zeros((samples, 1), bool)


def _execute_count(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    return arrays[0] + op.params["by"], np.zeros(arrays[0].shape, bool)


_EXTENT = ("outer", "chosen", "size", "inner")
GATHER_AT = Kernel(
    Form("gather_at"),
    "rows chosen at run time; indices outside are clamped and counted",
    _execute_gather,
    (*_EXTENT, "drop", "shift"),
    ("shift",),
    coded=REAL,
    codes=(0,),
)
TAKE_ROW = Kernel(Form("take_row"), "read one row of a tensor", _execute_take_row, ("inner",), coded=REAL, codes=(0, 1))
PLACE_ROW = Kernel(
    Form("place_row"), "write one row of a tensor", _execute_place_row, ("inner",), coded=REAL, codes=(0, 1, 2)
)
COUNT = Kernel(Form("count"), "add a small constant to a counter", _execute_count, ("by",), codes=(0,))
KERNELS = (GATHER_AT, TAKE_ROW, PLACE_ROW, COUNT)

OPERATORS = (
    Operator(
        "GatherAt",
        "Gather with indices computed at run time; clamped into the axis",
        _infer,
        _evaluate,
        by_domain(_lower),
        ("axis",),
    ),
)
