"""sparse_dense: a dense layer whose weights are mostly zero, as index lists. `tinyhil/fuse/sparse.py` chooses it.

The table holds for each output how many weights it has, then their columns in order; the weights follow each other in a
tensor of their own. The sum is exact, so results are those of the dense kernel bit for bit.
"""

from __future__ import annotations

import numpy as np

from tinyhil.arithmetic import limited
from tinyhil.formats.format import Format
from tinyhil.ops.limits import forms
from tinyhil.ops.operator import Arrays, Kernel
from tinyhil.program import Op


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


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    weights = matrix(arrays[0].reshape(-1), arrays[1].reshape(-1), p["outputs"], p["inner"])
    total = arrays[2].reshape(-1, p["rows"], p["inner"]) @ weights.T
    if len(arrays) == 4:
        total = total + (arrays[3].reshape(p["outputs"]) << p["bias_shift"])
    return limited(total.reshape(len(total), -1), p["shift"], op, out)


_PARAMS = ("rows", "outputs", "inner", "shift")
SPARSE = Kernel(
    "sparse_dense", "dense from index lists, exact sum, one rounding", _execute, _PARAMS, ("shift",), is_sum=True
)
SPARSE_BIAS = Kernel(
    "sparse_dense_bias",
    "dense_bias from index lists",
    _execute,
    (*_PARAMS, "bias_shift"),
    ("shift", "bias_shift"),
    is_sum=True,
)
KERNELS = (SPARSE, SPARSE_BIAS, *forms((SPARSE, SPARSE_BIAS)))
