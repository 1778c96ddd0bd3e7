"""Softmax along the last axis as TensorFlow Lite Micro has it beside int8 into int8 (affine_softmax.py): of int8 with a
factor (beta) or into int16, and of int16 by two tables of 512 lines.

Tables of int16 are those of tensorflow/lite/kernels/internal/common.h (LUTPopulate): in single precision, each entry
moved by half of what the line to the next one errs in its middle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tinyhil.formats.affine import rescale
from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.kernel import Arrays
from tinyhil.ops.affine_softmax import MAX_COUNT, exp_table_of, softmax_codes
from tinyhil.ops.operator import refuse
from tinyhil.ops.whole import Params, Routine, Table, same_shape

LINES, WORD_MOST, WORDS = 512, (1 << 15) - 1, (1 << 16) - 1
FACTOR = ("multiplier", "power")
MOST_WORDS = 1 << 16  # exponentials of 15 bits in one sum of 31


def _rows(node: Node, shapes: Sequence[Shape], most: int) -> dict[str, int]:
    (shape,) = shapes
    if not shape or shape[-1] >= most:
        raise refuse(node, f"{shape[-1] if shape else 0} numbers", f"the limit is {most - 1}")
    factor = {name: int(node.attrs[name]) for name in FACTOR}
    return {"outer": element_count(shape[:-1]), "count": shape[-1], **factor}


# ---- of int8


def _code_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    found = _rows(node, shapes, MAX_COUNT)
    entries = len(exp_table_of(found["multiplier"], found["power"]))
    return {**found, "entries": entries, "bits": int(node.attrs["grids"][3])}


def _code_tables(p: Params) -> Sequence[Table]:
    return [("exponentials", exp_table_of(p["multiplier"], p["power"]), "int32")]


def _codes(p: Params, arrays: Arrays) -> np.ndarray:
    return softmax_codes(arrays[0], arrays[1].reshape(len(arrays[1]), p["outer"], p["count"]), p["bits"])


CODE_SOFTMAX = Routine(
    "CodeSoftmax",
    "code_softmax",
    "Softmax of int8 times a factor, into int8 or int16",
    same_shape,
    _code_params,
    ("outer", "count", "entries"),
    _codes,
    FACTOR,
    _code_tables,
)


# ---- of int16


def _round(x: np.ndarray) -> np.ndarray:
    """To nearest, ties away from zero, in single precision."""
    return np.asarray(np.sign(x) * np.floor(np.abs(x) + np.float32(0.5)), np.float32)


def line_table(function: Callable[[np.ndarray], np.ndarray], scale: np.float32, zero: int) -> np.ndarray:
    """The 513 ends of lines that stand for a function of codes of int16, results in units of 2**-15."""
    single = np.float32
    low, high = (scale * single(end - zero) for end in (-WORD_MOST - 1, WORD_MOST))
    step = single(single(high - low) / single(LINES))
    starts = single(low) + np.arange(LINES, dtype=np.float32) * step
    unit = single(2) / single(WORDS)
    inverse = single(WORDS + 1) / single(unit * single(WORD_MOST) - unit * single(-WORD_MOST - 1))
    at, middle = function(starts), function(starts + single(step / single(2)))
    after = function(single(low) + np.arange(1, LINES + 1, dtype=np.float32) * step)
    between = _round((after * inverse + _round(at * inverse)) / single(2))
    bias = _round((between - _round(middle * inverse)) / single(2))
    last = _round(function(np.array([high], np.float32)) * inverse)
    ends = np.concatenate([_round(at * inverse) - bias, last])
    return np.clip(ends, -WORD_MOST - 1, WORD_MOST).astype(np.int64)


def _exponential(x: np.ndarray) -> np.ndarray:
    return np.exp(x.astype(np.float64)).astype(np.float32)


def _word_tables(_: Params) -> Sequence[Table]:
    over = np.float32(WORDS)
    exponentials = line_table(_exponential, np.float32(10) / over, WORD_MOST)
    one_over = line_table(lambda x: np.float32(1) / (np.float32(1) + x), np.float32(1) / over, -WORD_MOST - 1)
    return [("exponentials", exponentials, "int16"), ("reciprocals", one_over, "int16")]


def _looked_up(table: np.ndarray, x: np.ndarray) -> np.ndarray:
    at, far = 256 + (x >> 7), x & 127
    return table[at] + (((table[at + 1] - table[at]) * far + 64) >> 7)


def _words(p: Params, arrays: Arrays) -> np.ndarray:
    exponentials, reciprocals = (array.reshape(-1) for array in arrays[:2])
    x = arrays[2].reshape(len(arrays[2]), p["outer"], p["count"])
    moved = (x - x.max(axis=2, keepdims=True)) << max(p["power"], 0)
    distance = rescale(moved.astype(np.int32).astype(np.int64), p["multiplier"], min(p["power"], 0))
    e = _looked_up(exponentials, np.clip(distance + WORD_MOST, -WORD_MOST - 1, WORD_MOST))
    total = e.sum(axis=2, keepdims=True)
    zeros = 31 - np.floor(np.log2(total.astype(np.float64))).astype(np.int64)
    excess = (((total << (zeros - 1)) + (1 << 13)) >> 14) - (1 << 15) - (1 << 16)
    r = _looked_up(reciprocals, np.clip(excess, -WORD_MOST - 1, WORD_MOST))
    right = 31 - zeros
    return np.clip((e * r + (np.int64(1) << (right - 1))) >> right, 0, WORD_MOST).reshape(len(x), -1)


WORD_SOFTMAX = Routine(
    "WordSoftmax",
    "word_softmax",
    "Softmax of int16 times a factor, into int16",
    same_shape,
    lambda node, shapes: _rows(node, shapes, MOST_WORDS),
    ("outer", "count", *FACTOR),
    _words,
    FACTOR,
    _word_tables,
)
ROUTINES = (CODE_SOFTMAX, WORD_SOFTMAX)
KERNELS = tuple(routine.kernel for routine in ROUTINES)
OPERATORS = tuple(routine.operator for routine in ROUTINES)
