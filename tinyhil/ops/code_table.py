"""The look-up that a function of one 8-bit operand becomes (codegen/code_tables.py): a table of its codes."""

from __future__ import annotations

import numpy as np

from tinyhil.formats.codec import storage_dtype
from tinyhil.formats.format import Format
from tinyhil.kernel import Arrays, Kernel
from tinyhil.program import Op


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    table, codes = arrays[0].reshape(-1), arrays[1]
    results = table[codes & p["mask"]].astype(storage_dtype(out))
    return results.astype(np.int64), (codes < p["lowest"]) | (codes > p["highest"])


CODE_TABLE = Kernel(
    "code_table",
    "function of an 8-bit operand by a table of its codes, made by its reference; codes beyond two limits are clipped",
    _execute,
    ("count", "mask", "lowest", "highest"),
    ("count", "mask", "lowest", "highest"),
    in_place=True,
    codes=(0, 1),
)
KERNELS = (CODE_TABLE,)
