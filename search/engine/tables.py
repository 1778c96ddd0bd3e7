"""The tables that the batch engine reads: rows of operations and of tensors (search/engine/batch.hpp)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from tinyhil import ops
from tinyhil.formats.format import CODED, INTEGER, SINGLE, Rule
from tinyhil.language.form import Form
from tinyhil.language.program import Op, Role, Tensor
from tinyhil.search.engine.numbers import Unsupported, kind_of


class Own(StrEnum):
    """What the engine does besides kernels."""

    TABLE = "table"
    NUMPY = "numpy"
    LOAD = "load"
    SAVE = "save"
    TALLY = "tally"
    LOOP = "loop"
    SLICE = "slice"


_SIGNS = (ops.decisions.SIGN, ops.decisions.TRUNCATE)
_PAIRS = (ops.elementwise.ADD, ops.elementwise.SUB, ops.elementwise.MUL, ops.piecewise.MINIMUM, ops.piecewise.MAXIMUM)
_CHOICES = (ops.decisions.COMPARE, ops.decisions.WHERE, ops.elementwise.RELU, *_SIGNS)
_MOVES = (ops.scan.FILL, ops.scan.COPY, ops.movement.MOVE, ops.movement.PLACE)
_ROWS = (*ops.index.KERNELS, *ops.placed.KERNELS)
_POOLS = (ops.pool.MAX_POOL, ops.pool.AVERAGE_POOL, ops.affine_moves.MEAN, ops.distance.SQUARED_DISTANCE)
_SINGLE = (*ops.real_functions.OF_ONE_OPERAND, ops.real_functions.DIV, ops.real_functions.SOFTMAX)
_LINES = (ops.normalize.SINGLE_NORMALIZE, ops.piecewise.SLOPES, ops.piecewise.HARD_SIGMOID, ops.piecewise.HARD_SWISH)
_SHARES = (ops.softmax.SOFTMAX, ops.affine_softmax.SOFTMAX)
_ROUNDED = (ops.gathered.DENSE_AT, ops.division.DIV, ops.slope.PRELU, *_SHARES, ops.normalize.NORMALIZE)
_GROUPS = (
    *((ops.linear.DENSE, ops.conv.CONV, ops.linear.MATMUL), _PAIRS, _CHOICES, _MOVES, _ROWS),
    *((ops.affine.SUM, ops.affine.PRODUCT), ops.reduce.KERNELS, _POOLS, _SINGLE, _LINES, _ROUNDED),
    (ops.upsample.INTERPOLATE, ops.upsample.CONV_TRANSPOSE),
)
# in the order of KERNELS in batch.cpp, which has no functions for loop and slice
KERNELS: tuple[Form | Own, ...] = (
    *(kernel.form for group in _GROUPS for kernel in group),
    *(own for own in Own if own not in (Own.LOOP, Own.SLICE)),
)
NUMBER = {kernel: number for number, kernel in enumerate((*KERNELS, Own.LOOP, Own.SLICE))}
RULES = (Rule.FIXED, Rule.POSIT, Rule.FLOATING, Rule.AFFINE, Rule.SIGN)
INT32, FLOAT64, INT64, WINDOW, FLOAT32 = range(5)
PLAIN, ONCE, TWICE, WIDE = range(4)
ROUNDED, RAW = range(2)
DOMAINS = {INTEGER: 0, CODED: 1, SINGLE: 2}
STARTS = (np.int32, np.float64, np.int64, np.int64, np.float32)  # of sums, by mode
WEIGHTS = (np.int32, np.float64, np.int64, np.float64, np.float32)
NARROW_BITS, DOUBLE_BITS = 32, 53
MOST_PARAMS = 24
WINDOW_AT = 10  # first of a window's params
TENSOR = np.dtype(
    [
        *((name, "<i8") for name in ("kind", "count", "offset", "rule", "bits", "es", "mantissa", "granule")),
        *((name, "<i8") for name in ("has_nan", "lowest", "highest", "zero", "special")),
        *((name, "<f8") for name in ("largest", "scale", "inverse")),
    ]
)
OP = np.dtype(
    [
        *((name, "<i8") for name in ("kernel", "domain", "mode", "out", "count", "clipped")),
        *(("inputs", "<i8", 4), ("data", "<i8", 6), ("params", "<i8", MOST_PARAMS), ("reals", "<f8", 4)),
    ]
)


@dataclass(frozen=True, slots=True)
class BatchTables:
    """`ops` (OP) and `tensors` (TENSOR); `constants` keeps what they point to alive.

    `logged` lists the output tensor of each operation in order of execution, once per execution.
    """

    ops: np.ndarray
    tensors: np.ndarray
    constants: tuple[np.ndarray, ...]
    workspace_bytes: int
    input: int
    output: int
    logged: tuple[str, ...]
    by_numpy: tuple[Op, ...]


@dataclass(slots=True)
class Call:
    """One row of `ops` under construction."""

    kernel: Form | Own
    params: list[int]
    inputs: tuple[int, ...] = ()
    data: tuple[int, ...] = ()
    reals: tuple[float, ...] = ()
    mode: int = 0
    clipped: int = 0


def row_of(call: Call, *, domain: int = 0, out: int = 0, count: int = 0) -> tuple[object, ...]:
    """The row of `ops` for `call`: the number of its kernel, the domain, the output tensor and its elements."""
    padded = (
        call.inputs + (0,) * (4 - len(call.inputs)),
        call.data + (0,) * (6 - len(call.data)),
        (*call.params, *(0,) * (MOST_PARAMS - len(call.params))),
        call.reals + (0.0,) * (4 - len(call.reals)),
    )
    return (NUMBER[call.kernel], domain, call.mode, out, count, call.clipped, *padded)


def tensor_row(tensor: Tensor, special: bool) -> tuple[object, ...]:
    """Its row but for the offset. `special`: numbers that are none may occur. Unsupported for a result of a format that
    does not say how it rounds."""
    fmt = tensor.format
    row: dict[str, float] = dict.fromkeys(TENSOR.names or (), 0)
    row |= {"kind": kind_of(fmt), "count": tensor.count}
    row |= {"bits": fmt.bits, "special": int(special)}
    if fmt.rounding is None and tensor.role not in (Role.CONSTANT, Role.TABLE):
        raise Unsupported(f"rounding to {fmt}")
    if fmt.rounding is not None:
        row |= {"rule": RULES.index(fmt.rounding.rule), **fmt.rounding.figures}
    return tuple(row.values())
