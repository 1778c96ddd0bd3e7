"""Kernels that make some rows of their output: what row-wise execution of convolution chains calls.

Each is a kernel of windows, or one that maps element by element, restricted to the output rows [begin, end) that a
table gives for the present step. Operands and results may be line buffers: `ring` rows of a plane, row y at slot
y % ring; `plane` and `row` are the distances in elements between channels and between slots. A whole tensor in NCHW
order is the ring of all its rows. Every element is computed once, by the kernel that computes the whole tensor
otherwise.

Inputs are (rows, inputs of the kernel..., the output as it is). A second operand, of which a row of the result needs
the same row, has a layout of its own (`JOINED`). `out_first` is where in the output rows of some of its channels begin,
and of some of its columns; `FIRST` and `JOINED_FIRST` say the same of operands. A ring of one row may move through the
slots of another tensor's line buffer (`Moves`): each row takes the place of one that dies when it is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tinyhil.formats.format import Format
from tinyhil.language.kernel import Arrays, Kernel
from tinyhil.language.program import Op
from tinyhil.ops import (
    activation,
    affine,
    affine_moves,
    channels,
    code_table,
    conv,
    elementwise,
    movement,
    piecewise,
    pool,
    rescaled,
    residual,
    window,
)

LINES = ("x_plane", "x_row", "x_ring", "out_plane", "out_row", "out_ring")
STEP = ("x_step",)  # between the columns of an operand that is no planes
JOINED = ("b_plane", "b_row", "b_ring")
FIRST, JOINED_FIRST = "x_first", "b_first"
STAYS = "stays"  # the result lies in the ring of the operand, whose rows it takes the places of
BELOW = "below"  # the slots through which the result moves are its own: rows of padding lie above it
OPERAND, SECOND, RESULT = "x", "b", "out"  # what the names of such parameters begin with
SHAPE = ("channels", "width")
COUNTS = ("count", "a_period", "b_period")  # of whole tensors


def _of(base: Kernel, kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    return tuple(kernel for kernel in kernels if kernel.form.base == base.form.base)


EXACT_CONV = _of(conv.CONV, conv.KERNELS)
ASYMMETRIC_CONV = _of(affine.CONV, affine.KERNELS)
CHANNEL_CONV = _of(channels.CONV, channels.KERNELS)
RESCALED_CONV = _of(rescaled.CONV, rescaled.KERNELS)
ASYMMETRIC_MEAN = _of(affine_moves.MEAN, affine_moves.KERNELS)
SUMS = _of(conv.CONV, residual.KERNELS)
ASYMMETRIC_PAIRS = (*_of(affine.SUM, affine.KERNELS), *_of(affine.PRODUCT, affine.KERNELS))
# position of the operand that goes by rows; elsewhere the last one
X_AT = {kernel.form: 1 for kernel in (*EXACT_CONV, *CHANNEL_CONV, *ASYMMETRIC_CONV, *RESCALED_CONV, *SUMS)}

# with the number of their inputs
WINDOWED: tuple[tuple[Kernel, int], ...] = (
    *((kernel, 2 + kernel.form.bias) for kernel in EXACT_CONV),
    (pool.MAX_POOL, 1),
    (pool.AVERAGE_POOL, 1),
    (pool.AVERAGE_POOL_INSIDE, 2),
    *((kernel, 4) for kernel in CHANNEL_CONV),
    *((kernel, 5) for kernel in ASYMMETRIC_CONV),
    *((kernel, 3) for kernel in RESCALED_CONV),
    *((kernel, 3 + kernel.form.bias) for kernel in SUMS),
    *((kernel, 3) for kernel in ASYMMETRIC_MEAN),
    (affine_moves.MAX_POOL, 1),
)
MAPPED: tuple[tuple[Kernel, int], ...] = (
    (elementwise.RELU, 1),
    (piecewise.CLIP, 1),
    (piecewise.SLOPES, 1),
    (piecewise.HARD_SIGMOID, 1),
    (piecewise.HARD_SWISH, 1),
    (activation.SIGMOID, 2),
    (activation.TANH, 2),
    (code_table.CODE_TABLE, 2),
    (affine_moves.CLAMP, 1),
)
PAIRED: tuple[tuple[Kernel, int], ...] = (
    (elementwise.ADD, 2),
    (elementwise.SUB, 2),
    (elementwise.MUL, 2),
    *((kernel, 2) for kernel in ASYMMETRIC_PAIRS),
)
MOVES: tuple[tuple[Kernel, int], ...] = ((movement.MOVE, 1), (affine_moves.MOVE, 1))  # any order of axes into planes
X_AT |= {kernel.form: 0 for kernel, _ in PAIRED}
# position of the second operand that goes by rows
JOINED_AT = {kernel.form: kernel.in_place_at[0] for kernel in SUMS} | {kernel.form: 1 for kernel, _ in PAIRED}
BASE = {kernel.form: kernel for kernel, _ in (*WINDOWED, *MAPPED, *PAIRED, *MOVES)}
HAS_WINDOW = frozenset(kernel.form for kernel, _ in WINDOWED)
IS_MOVE = frozenset(kernel.form for kernel, _ in MOVES)
IS_PAIR = frozenset(kernel.form for kernel, _ in PAIRED)


def operand_of(op: Op) -> str:
    """The tensor whose rows the kernel of `op` goes through."""
    return op.inputs[X_AT.get(op.kernel, len(op.inputs) - 1)]


def joined_of(op: Op) -> str | None:
    """The second tensor whose rows the kernel of `op` goes through."""
    return op.inputs[JOINED_AT[op.kernel]] if op.kernel in JOINED_AT else None


@dataclass(frozen=True, slots=True)
class Moves:
    """Where a tensor lies of which one row is there at a time: row y in slot (pace * y + phase) % slots of a line
    buffer, slots `row` elements apart."""

    slots: int
    pace: int
    phase: int
    row: int

    def offset(self, y: int) -> int:
        """Elements from the first slot to that of row `y`."""
        return (self.pace * y + self.phase) % self.slots * self.row

    def params(self, which: str) -> dict[str, int]:
        """As an operation holds them of its operand, its second one or its result."""
        return {f"{which}_slots": self.slots, f"{which}_pace": self.pace, f"{which}_phase": self.phase}


def moves_of(op: Op, which: str) -> Moves | None:
    """How an operand or the result of a kernel of rows moves; None if it stays."""
    p = op.params
    if f"{which}_slots" not in p:
        return None
    return Moves(p[f"{which}_slots"], p[f"{which}_pace"], p[f"{which}_phase"], p[f"{which}_row"])


def side_of(op: Op, index: int) -> str | None:
    """Whether input `index` of a kernel of rows is the operand that goes by rows or the second one."""
    if not op.kernel.rows:
        return None
    base = op.kernel.whole
    if index == 1 + X_AT.get(base, len(op.inputs) - 3):
        return OPERAND
    return SECOND if index == 1 + JOINED_AT.get(base, -1) else None


def first_at(op: Op, which: str, row: int) -> int:
    """Where in an operand or the result the rows lie that a kernel of rows begins with at `row`."""
    moves = moves_of(op, which)
    return op.params.get(f"{which}_first", 0) + (moves.offset(row) if moves else 0)


def positions(rows: np.ndarray, channels: int, width: int, layout: tuple[int, int, int], step: int = 1) -> np.ndarray:
    """(channels, rows, width) flat positions of these rows in a tensor with `layout` (plane, row, ring)."""
    plane, row, ring = layout
    at = np.arange(channels)[:, None] * plane + (rows % ring)[None, :] * row
    return np.asarray(at[:, :, None] + step * np.arange(width))


def read_by(op: Op, begin: int, end: int) -> dict[str, np.ndarray]:
    """Which elements of the operands that go by rows a kernel of rows reads for the rows [begin, end) of its result."""
    base, p = op.kernel.whole, op.params
    inner, made = op.inputs[1:-1], np.arange(begin, end)
    at, width = X_AT.get(base, len(inner) - 1), p.get("out_width", p["width"])
    taken, channels = made, p.get("outputs", p["channels"])
    found = {}
    if base in JOINED_AT:
        lines = (p["b_plane"], p["b_row"], p["b_ring"])
        found[inner[JOINED_AT[base]]] = first_at(op, SECOND, begin) + positions(made, channels, width, lines)
    if base in HAS_WINDOW:
        w = window.window_of(p)
        channels, width, taken = w.channels, w.width, _rows_needed(w, begin, end)
    layout, step = (p["x_plane"], p["x_row"], p["x_ring"]), p.get("x_step", 1)
    found[inner[at]] = first_at(op, OPERAND, begin) + positions(taken, channels, width, layout, step)
    return {name: elements.reshape(-1) for name, elements in found.items()}


def first_needed(op: Op, name: str, row: int) -> int:
    """The first row of an operand that a kernel of rows needs for `row` of its result and later ones."""
    base = op.kernel.whole
    inner = op.inputs[1:-1]
    if base not in HAS_WINDOW or name != inner[X_AT.get(base, len(inner) - 1)]:
        return row
    return max(0, row * op.params["stride_y"] - op.params["pad_y"])


def written_by(op: Op, begin: int, end: int) -> np.ndarray:
    """Which elements of its result a kernel of rows writes when it makes the rows [begin, end)."""
    p = op.params
    layout = (p["out_plane"], p["out_row"], p["out_ring"])
    channels, width = p.get("outputs", p["channels"]), p.get("out_width", p.get("width", 1))
    first = first_at(op, RESULT, begin)
    return np.asarray(first + positions(np.arange(begin, end), channels, width, layout)).reshape(-1)


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    begin, end = (int(row) for row in arrays[0].reshape(-1))
    present, inner = arrays[-1], list(arrays[1:-1])
    if begin == end:
        return present, np.zeros((len(present), 0), bool)
    base = BASE[op.kernel.whole]
    at = X_AT.get(base.form, len(inner) - 1)
    p, first = op.params, first_at(op, OPERAND, begin)
    layout = (p["x_plane"], p["x_row"], p["x_ring"])
    if base.form in HAS_WINDOW:
        w = window.window_of(p)
        inner[at] = _planes(inner[at][:, first:], w, layout, begin, end)
        part = replace(w, out_height=end - begin, pad_y=w.pad_y - begin * w.stride_y)
        channels, width = p.get("outputs", w.channels), w.out_width
        params: dict[str, int] = part.params()
    else:
        channels, width = p["channels"], p["width"]
        taken = positions(np.arange(begin, end), channels, width, layout, p.get("x_step", 1)).reshape(-1)
        inner[at] = inner[at][:, first + taken]
        params = movement.straight(taken.size) if base.form in IS_MOVE else dict.fromkeys(COUNTS, taken.size)
    if base.form in JOINED_AT:
        joined, lines = JOINED_AT[base.form], (p["b_plane"], p["b_row"], p["b_ring"])
        taken = positions(np.arange(begin, end), channels, width, lines).reshape(-1)
        inner[joined] = inner[joined][:, first_at(op, SECOND, begin) + taken]
    base_op = replace(op, kernel=base.form, inputs=op.inputs[1:-1], params={**p, **params})
    values, clipped = base.execute(base_op, inner, out)
    made = np.broadcast_to(present, (max(len(values), len(present)), present.shape[1])).copy()
    made[:, written_by(op, begin, end)] = values
    return made, clipped


def _rows_needed(w: window.Window, begin: int, end: int) -> np.ndarray:
    """The rows of the operand that the windows of the rows [begin, end) touch."""
    first = max(0, begin * w.stride_y - w.pad_y)
    last = min(w.height, (end - 1) * w.stride_y - w.pad_y + (w.kernel_y - 1) * w.dilation_y + 1)
    return np.arange(first, max(first, last) if begin < end else first)


def _planes(x: np.ndarray, w: window.Window, layout: tuple[int, int, int], begin: int, end: int) -> np.ndarray:
    """The operand as a whole tensor, in which only the rows that the windows of [begin, end) touch are filled."""
    planes = np.zeros((len(x), w.channels, w.height, w.width), x.dtype)
    rows = _rows_needed(w, begin, end)
    planes[:, :, rows] = x[:, positions(rows, w.channels, w.width, layout)]
    return planes.reshape(len(x), -1)


def _places(base: Kernel) -> tuple[str, ...]:
    """Where the rows of a kernel's operands lie, besides `LINES`."""
    return JOINED if base.form in JOINED_AT else STEP if base.form in IS_MOVE else ()


def _rowed(base: Kernel, inputs: int) -> Kernel:
    fields = window.FIELDS if base.form in HAS_WINDOW else SHAPE
    return Kernel(
        replace(base.form, rows=True),
        base.summary,
        _execute,
        (*_places(base), *(param for param in base.params if param not in COUNTS)),
        tuple(param for param in base.static_params if param not in COUNTS),
        is_sum=base.is_sum,
        struct=("RowWindow" if base.form in HAS_WINDOW else "Lines", (*fields, *LINES)),
        coded=base.coded,
        codes=(0, *(index + 1 for index in base.codes), inputs + 1),
    )


KERNELS = tuple(_rowed(kernel, inputs) for kernel, inputs in (*WINDOWED, *MAPPED, *PAIRED, *MOVES))
