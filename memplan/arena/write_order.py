"""Whether an operation reads every element before it writes over it: windows that make their result within the memory
of their operand, element by element.

Kernels make channel after channel, row after row, element after element (firmware/kernels/common/conv.hpp, rows.hpp,
pool.hpp), or copy what a row of one channel reads before they make it (firmware/kernels/arm/depthwise.hpp).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from tinyhil.language.program import Op, Program
from tinyhil.ops import rows
from tinyhil.ops.window import Window, window_of


@dataclass(frozen=True, slots=True)
class Windows:
    """An operation that reads windows of `operand` for rows of its result, from `begin` on. `read`, `written`: places
    of elements in the two tensors (channel, row, column)."""

    operand: str
    window: Window
    begin: int
    read: np.ndarray
    written: np.ndarray
    by_channel: bool
    copies: bool

    def last_reads(self) -> np.ndarray:
        """For each element of `read`, the number of the last result that is made of it; -1 if there is none."""
        w, results = self.window, np.arange(self.written.size).reshape(self.written.shape)
        if self.copies:
            results = np.broadcast_to(results[:, :, :1], results.shape)
        if not self.by_channel:  # every result is made of all channels
            results = results.max(axis=0, keepdims=True)
        last = np.full(self.read.shape, -1)
        _, height, width = self.written.shape
        y, x = np.arange(self.begin, self.begin + height), np.arange(width)
        for row, column in product(range(w.kernel_y), range(w.kernel_x)):
            down = y * w.stride_y - w.pad_y + row * w.dilation_y
            across = x * w.stride_x - w.pad_x + column * w.dilation_x
            rows_inside, columns_inside = (
                (at >= 0) & (at < size) for at, size in ((down, w.height), (across, w.width))
            )
            at = np.s_[:, down[rows_inside][:, None], across[columns_inside]]
            last[at] = np.maximum(last[at], results[:, rows_inside][:, :, columns_inside])
        return last


def windows_of(program: Program, op: Op, begin: int, end: int) -> Windows | None:
    """What `op` reads and makes in order, for the rows [begin, end) if it is a kernel of rows; None if it is none of
    windows."""
    base = replace(op, kernel=op.kernel.whole)
    by_rows = op.kernel.rows
    if base.kernel not in rows.HAS_WINDOW:
        return None
    base = replace(base, inputs=op.inputs[1:-1]) if by_rows else base
    w = window_of(op.params)
    outputs = op.params.get("outputs", w.channels)
    layout, first = (w.height * w.width, w.width, w.height), 0
    if by_rows:
        layout = op.params["x_plane"], op.params["x_row"], op.params["x_ring"]
        first, written = rows.first_at(op, rows.OPERAND, begin), rows.written_by(op, begin, end)
    else:
        begin, end, written = 0, w.out_height, np.arange(outputs * w.pixels)
    read = first + rows.positions(np.arange(w.height), w.channels, w.width, layout)
    by_channel = w.channels == op.params.get("groups", w.channels) == outputs
    copies = by_channel and any(program.tensors[name].blocks is not None for name in base.inputs)
    in_order = written.reshape(outputs, end - begin, w.out_width)
    return Windows(rows.operand_of(base), w, begin, read, in_order, by_channel, copies)


def overwritten_too_early(windows: Windows, written_at: np.ndarray, read_at: np.ndarray) -> Iterator[int]:
    """Elements of the operand that a result takes the bytes of before the last one is made of them. `written_at` and
    `read_at`: the first byte of each element of the tensors, elements equally large."""
    last = windows.last_reads().reshape(-1)
    read = windows.read.reshape(-1)[last >= 0]
    numbers = np.arange(windows.written.size)
    order = np.argsort(written_at[windows.written.reshape(-1)], kind="stable")
    places, numbers = written_at[windows.written.reshape(-1)][order], numbers[order]
    found = np.minimum(np.searchsorted(places, read_at[read]), len(places) - 1)
    early = (places[found] == read_at[read]) & (numbers[found] < last[last >= 0])
    yield from map(int, read[early])
