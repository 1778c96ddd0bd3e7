"""Results that lag behind their operand: windows that go channel by channel, depthwise layers and pooling.

Kernels make one channel after the other, row by row (firmware/kernels/common/conv.hpp, pool.hpp). If a result begins a
little below the operand, every row of it is written where nobody reads any more: a layer needs its operand and these
bytes, not both as a whole.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tinyhil.language.program import Op, Program, Role
from tinyhil.ops import rows
from tinyhil.ops.window import Window, window_of


def goes_by_channel(program: Program, op: Op) -> bool:
    """Whether `op` is a window that makes one channel after the other of the same channel of its operand, elements as
    large as the operand's."""
    if op.kernel not in rows.HAS_WINDOW or op.kernel in rows.JOINED_AT or op.crossbar is not None:
        return False
    w, name = window_of(op.params), rows.operand_of(op)
    if not w.channels == op.params.get("groups", w.channels) == op.params.get("outputs", w.channels):
        return False
    source, result = program.tensors[name], program.tensors[op.output]
    if source.role != Role.ARENA or op.inputs.count(name) != 1 or source.name == result.name:
        return False
    return source.format.storage_bytes == result.format.storage_bytes


def lag_of(program: Program, op: Op) -> tuple[str, int] | None:
    """The operand of `op` that its result may overwrite, and how many bytes the result must begin below it; None if
    there is none, or nothing to gain."""
    if not goes_by_channel(program, op):
        return None
    w, name = window_of(op.params), rows.operand_of(op)
    result = program.tensors[op.output]
    channel, row = np.array([[0], [w.channels - 1]]), np.arange(w.out_height)
    needed = channel * w.height * w.width + np.clip(row * w.stride_y - w.pad_y, 0, w.height) * w.width
    written = channel * w.out_height * w.out_width + (row + 1) * w.out_width
    lag = int((written - needed).max())
    return (name, lag * result.format.storage_bytes) if lag < result.count else None


@lru_cache(maxsize=4096)
def row_lag(w: Window, *, copies: bool) -> int:
    """How many elements a row of the result must begin below the operand's row, the first that its windows read, so
    that no element is written before it was read. `copies`: a channel's rows are copied before its first result."""
    channel, column = np.array([[0], [w.channels - 1]]), np.arange(w.out_width)
    read = np.clip((column + 1) * w.stride_x - w.pad_x, 0, w.width)  # what comes before is needed no more
    read[-1] = w.width
    lags = channel * w.out_width + column + 1 - channel * w.width - read
    return max(0, int((lags[:, -1:] if copies else lags).max()))
