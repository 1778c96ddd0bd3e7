"""sparse_dense: a dense layer whose weights are mostly zero, as index lists. `tinyhil/fuse/sparse.py` chooses it.

The table holds for each output how many weights it has, then their columns in order; the weights follow each other in a
tensor of their own. The sum is exact, so results are those of the dense kernel bit for bit.
"""

from __future__ import annotations

import numpy as np

from tinyhil.formats.format import Format
from tinyhil.language.arithmetic import limited
from tinyhil.language.program import Op
from tinyhil.ops.limits import forms
from tinyhil.ops.operator import Arrays, Form, Kernel, Weights
from tinyhil.ops.sums import with_bias


def index_lists(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(table, values) of a matrix with one row per output."""
    table: list[int] = []
    for row in weights:
        columns = np.flatnonzero(row)
        table += [len(columns), *columns.tolist()]
    return np.array(table, np.int64), weights[weights != 0]


def matrix(table: np.ndarray, values: np.ndarray, outputs: int, inner: int) -> np.ndarray:
    """The weights again."""
    weights = np.zeros((outputs, inner), np.int64)
    at = taken = 0
    for row in weights:
        count = int(table[at])
        row[table[at + 1 : at + 1 + count]] = values[taken : taken + count]
        at, taken = at + 1 + count, taken + count
    return weights


def stream(table: np.ndarray, values: np.ndarray, outputs: int, weight_bytes: int) -> np.ndarray | None:
    """Lists and values as the bytes of `stream_dense`; None if a count or a step from column to column has more than 8
    bits."""
    weights = values[:, None] >> 8 * np.arange(weight_bytes) & 0xFF
    found: list[int] = []
    at = taken = 0
    for _ in range(outputs):
        count = int(table[at])
        steps = np.diff(table[at + 1 : at + 1 + count], prepend=0)
        found.append(count)
        found += np.column_stack([steps, weights[taken : taken + count]]).reshape(-1).tolist()
        at, taken = at + 1 + count, taken + count
    return np.array(found, np.int64) if max(found) < 1 << 8 else None


def matrix_of_stream(codes: np.ndarray, outputs: int, inner: int, weight_bytes: int) -> np.ndarray:
    """The weights again."""
    weights = np.zeros((outputs, inner), np.int64)
    at, size = 0, 1 + weight_bytes
    for row in weights:
        count = int(codes[at])
        items = codes[at + 1 : at + 1 + size * count].reshape(count, size)
        stored = np.ascontiguousarray(items[:, 1:].astype(np.uint8))
        row[np.cumsum(items[:, 0])] = stored.view(f"<i{weight_bytes}").reshape(-1)
        at += 1 + size * count
    return weights


def _execute_stream(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    weights = matrix_of_stream(arrays[0].reshape(-1), p["outputs"], p["inner"], p["weight_bytes"])
    return _summed(op, weights, arrays[1], arrays[2:], out)


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    weights = matrix(arrays[0].reshape(-1), arrays[1].reshape(-1), p["outputs"], p["inner"])
    return _summed(op, weights, arrays[2], arrays[3:], out)


def _summed(op: Op, weights: np.ndarray, x: np.ndarray, bias: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    total = x.reshape(-1, p["rows"], p["inner"]) @ weights.T
    if bias:
        total = total + (bias[0].reshape(p["outputs"]) << p["bias_shift"])
    return limited(total.reshape(len(total), -1), p["shift"], op, out)


_PARAMS = ("rows", "outputs", "inner", "shift")
SPARSE = Kernel(
    Form("dense", weights=Weights.LISTS),
    "dense from index lists, exact sum, one rounding",
    _execute,
    _PARAMS,
    ("shift",),
    is_sum=True,
)
STREAM = Kernel(
    Form("dense", weights=Weights.STREAM),
    "sparse_dense from one stream of bytes: per output a count, then steps to the next column and weights in turn",
    _execute_stream,
    _PARAMS,
    ("shift",),
    is_sum=True,
)
BOTH = with_bias(SPARSE, STREAM)
KERNELS = (*BOTH, *forms(BOTH))
