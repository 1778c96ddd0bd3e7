"""The tables that the batch engine reads: rows of operations and of tensors (search/engine/batch.hpp)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinyhil.formats.format import CODED, INTEGER, SINGLE, Rule
from tinyhil.program import Op, Tensor
from tinyhil.search.engine.numbers import kind_of

# in the order of KERNELS in batch.cpp; loop and slice are the engine's own
KERNELS = (
    *("dense", "conv", "matmul", "add", "sub", "mul", "minimum", "maximum", "compare", "where", "relu", "sign"),
    *("truncate", "fill", "copy", "move", "place", "gather_at", "take_row", "place_row", "count", "table"),
    *("sum_affine", "mul_affine", "reduce_sum", "reduce_max", "reduce_min", "arg_max", "max_pool", "average_pool"),
    "average_pool_affine",
    *("squared_distance", "single_sigmoid", "single_tanh", "single_exp", "single_log", "single_sqrt"),
    *("single_reciprocal", "single_erf", "single_gelu", "single_gelu_tanh", "single_softplus"),
    *("single_elu", "single_clip"),
    *("single_div", "single_softmax", "single_normalize", "slopes", "hard_sigmoid", "hard_swish", "dense_at"),
    *("div", "prelu", "softmax", "normalize", "interpolate", "conv_transpose"),
    *("numpy", "load", "save", "tally"),
)
NUMBER = {name: index for index, name in enumerate(KERNELS)}
LOOP, SLICE = len(KERNELS), len(KERNELS) + 1
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

    kernel: str
    params: list[int]
    inputs: tuple[int, ...] = ()
    data: tuple[int, ...] = ()
    reals: tuple[float, ...] = ()
    mode: int = 0
    clipped: int = 0


def row_of(number: int, call: Call, *, domain: int = 0, out: int = 0, count: int = 0) -> tuple[object, ...]:
    """The row of `ops` for `call`: its kernel's number, the domain, the output tensor and its elements."""
    padded = (
        call.inputs + (0,) * (4 - len(call.inputs)),
        call.data + (0,) * (6 - len(call.data)),
        (*call.params, *(0,) * (MOST_PARAMS - len(call.params))),
        call.reals + (0.0,) * (4 - len(call.reals)),
    )
    return (number, domain, call.mode, out, count, call.clipped, *padded)


def tensor_row(tensor: Tensor, special: bool) -> tuple[object, ...]:
    """Its row but for the offset. `special`: numbers that are none may occur."""
    fmt = tensor.format
    row: dict[str, float] = dict.fromkeys(TENSOR.names or (), 0)
    row |= {"kind": kind_of(fmt), "count": tensor.count}
    row |= {"bits": fmt.bits, "special": int(special)}
    if fmt.rounding is not None:
        row |= {"rule": RULES.index(fmt.rounding.rule), **fmt.rounding.figures}
    return tuple(row.values())
