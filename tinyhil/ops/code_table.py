"""The look-ups that functions of 8-bit operands become (code_tables.py and folded.py of tinyhil/passes/): tables of
codes."""

from __future__ import annotations

import numpy as np

from tinyhil.formats.codec import storage_dtype
from tinyhil.formats.format import Format
from tinyhil.language.form import Form
from tinyhil.language.kernel import Arrays, Kernel
from tinyhil.language.program import Op


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    table, codes = arrays[0].reshape(-1), arrays[1]
    results = table[codes & p["mask"]].astype(storage_dtype(out))
    return results.astype(np.int64), (codes < p["lowest"]) | (codes > p["highest"])


def _execute_counted(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    entries = arrays[0].reshape(-1)[arrays[1] & op.params["mask"]]
    return entries.astype(storage_dtype(out)).astype(np.int64), (entries >> 8) & 0xFF


def _execute_sum(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    table, a, b = arrays[0].reshape(-1), arrays[1], arrays[2]
    at = a + p["base"] + np.tile(b, (1, p["count"] // b.shape[1]))
    clipped = ((at < p["least"]) | (at > p["most"])).astype(np.int64) + ((at < p["lowest"]) | (at > p["highest"]))
    return table[at].astype(storage_dtype(out)).astype(np.int64), clipped


def _execute_linear(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    table, a, starts = arrays[0].reshape(-1), arrays[1], arrays[2]
    at = (a * p["slope"] + np.tile(starts, (1, p["count"] // starts.shape[1]))) >> p["right"]
    clipped = ((at < p["least"]) | (at > p["most"])).astype(np.int64) + ((at < p["lowest"]) | (at > p["highest"]))
    return table[at].astype(storage_dtype(out)).astype(np.int64), clipped


def _execute_channels(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    codes, clipped = arrays[1].reshape(-1, p["rows"], p["channels"]), np.int64(0)
    for slopes, starts in arrays[0].reshape(p["channels"], p["steps"], 2).transpose(1, 2, 0):
        values = (codes * slopes + starts) >> p["right"]
        codes = np.clip(values, out.lowest, out.highest)
        clipped = clipped + (codes != values)
    return codes.reshape(len(codes), -1), np.asarray(clipped).reshape(len(codes), -1)


CODE_TABLE = Kernel(
    Form("code_table"),
    "function of an 8-bit operand by a table of its codes, made by its reference; codes beyond two limits are clipped",
    _execute,
    ("count", "mask", "lowest", "highest"),
    ("count", "mask", "lowest", "highest"),
    in_place=True,
    codes=(0, 1),
)
COUNTED_TABLE = Kernel(
    Form("counted_table"),
    "function of an 8-bit operand by a table of its codes, in its upper byte how often each is clipped",
    _execute_counted,
    ("count", "mask"),
    ("count", "mask"),
    in_place=True,
    codes=(0, 1),
)
_SUM_PARAMS = ("count", "a_period", "b_period", "base", "lowest", "highest", "least", "most")
SUM_TABLE = Kernel(
    Form("sum_table"),
    "function of an 8-bit operand plus a constant from 0 to 255 by a table; two pairs of limits, of result and sum",
    _execute_sum,
    _SUM_PARAMS,
    _SUM_PARAMS,
    in_place=True,
    codes=(0, 1, 2),
)
_LINEAR_PARAMS = ("count", "a_period", "b_period", "slope", "right", "lowest", "highest", "least", "most")
LINEAR_TABLE = Kernel(
    Form("linear_table"),
    "function of (slope * an 8-bit operand + a constant) / 2^right by a table; two pairs of limits, of result and sum",
    _execute_linear,
    _LINEAR_PARAMS,
    _LINEAR_PARAMS,
    in_place=True,
    codes=(0, 1, 2),
)
LINEAR_CHANNELS = Kernel(
    Form("linear_channels"),
    "(slope * an 8-bit operand + a start) / 2^right in rows, slope and start of each channel, in one step or two",
    _execute_channels,
    ("rows", "channels", "steps", "right"),
    ("steps", "right"),
    in_place=True,
    codes=(0, 1),
)
KERNELS = (CODE_TABLE, SUM_TABLE, LINEAR_TABLE, COUNTED_TABLE, LINEAR_CHANNELS)
TABLES = tuple(kernel.form for kernel in KERNELS[:3])
