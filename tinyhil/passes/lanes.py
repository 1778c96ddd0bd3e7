"""Bytes of weights as halves of factors, for chips whose only multiplication is of 32 bits (Cortex-M0+).

Two weights times two elements are one multiplication: the upper half of the product holds the sum of both products,
if 16 bits do (firmware/kernels/arm/lanes.hpp, which says how the other half is told apart). Their results are rescaled
by another such multiplication, which decides nearly all of them (firmware/kernels/arm/near.hpp).
"""

from __future__ import annotations

import numpy as np

from tinyhil.language.program import Blocks, Op, Program, Stored
from tinyhil.ops.linear import DENSE
from tinyhil.ops.rescaled import WORDS
from tinyhil.ops.window import Window

ABOVE = 128  # a byte is more than its weight
IN_FOURS = (2, 3, 0, 1)  # of a row: a product's upper half joins lower lanes with upper ones
LARGEST_PAIR = 255  # of absolute weights, times 128 within 16 bits
MOST_PIXELS, PATCH_BYTES = 32, 8192  # firmware/kernels/arm/lanes.hpp
ELEMENT_BYTES = 2  # of a widened byte
WORD_BYTES = 4
WINDOW = 9  # elements of a row of a depthwise layer
FEWEST_ROWS, LINE_WORDS = (
    8,
    512,
)  # of a channel whose lines are widened at a time (firmware/kernels/arm/lane_windows.hpp)
PRODUCT_BITS = 31
MOST_BITS, FEWEST_BITS = 24, 10  # behind the point of a product that decides results
ROW_BITS = 20
EXTRA = 33  # bits behind the point of an exact product, beside a record's shift


def fit_lanes(weights: np.ndarray, blocks: Blocks) -> bool:
    """Whether no pair of weights that share a factor can exceed 16 bits, whatever they meet."""
    fours = np.abs(_fours(weights, blocks).astype(np.int64))
    return bool((fours[..., 0] + fours[..., 2]).max() <= LARGEST_PAIR >= (fours[..., 1] + fours[..., 3]).max())


def fit_windows(weights: np.ndarray) -> bool:
    """The same of windows of 3 x 3, whose elements are summed in pairs."""
    windows = np.abs(weights.reshape(-1, 9).astype(np.int64))
    return bool((windows[:, 0:8:2] + windows[:, 1:8:2]).max() <= LARGEST_PAIR)


def _fours(weights: np.ndarray, blocks: Blocks) -> np.ndarray:
    rows = weights.reshape(blocks.axes).transpose(0, *blocks.order).reshape(blocks.axes[0], -1)
    return np.pad(rows, ((0, 0), (0, -rows.shape[1] % len(IN_FOURS)))).reshape(len(rows), -1, len(IN_FOURS))


def in_lanes(rows: np.ndarray, blocks: Blocks) -> np.ndarray:
    """Rows of weights as bytes that are ABOVE them: one after the other in fours, or an element of each in turn."""
    if blocks.step == WINDOW:
        arranged = rows
    elif blocks.together == 1:
        arranged = rows.reshape(-1, len(IN_FOURS))[:, IN_FOURS]
    else:
        padded = np.pad(rows, ((0, -len(rows) % blocks.together), (0, 0)))
        arranged = padded.reshape(-1, blocks.together, padded.shape[1]).transpose(0, 2, 1)
    return (arranged.reshape(-1) + ABOVE).astype(np.uint8).view(np.int8)


def scratch_bytes(w: Window) -> int:
    """A row of weights and the patches of pixels, widened, and the bytes of one window."""
    padded = -(-w.channels * w.positions // WORD_BYTES) * WORD_BYTES
    fit = PATCH_BYTES // (ELEMENT_BYTES * padded) // 2 * 2
    pixels = max(min(fit, MOST_PIXELS, -(-w.pixels // 2) * 2), 2)
    return ELEMENT_BYTES * padded * (1 + pixels) + padded + WORD_BYTES


def band_bytes(w: Window, most: int) -> int:
    """What at most so many rows of results of one channel read, as words."""
    line = -(-(-(-w.out_width // 2) * 2 * w.stride_x + 2) // WORD_BYTES) * WORD_BYTES
    rows = min(w.out_height, most, max(LINE_WORDS // (w.stride_y * line), FEWEST_ROWS))
    return WORD_BYTES * line * ((rows - 1) * w.stride_y + 3)


def near_records(program: Program, op: Op, _: Blocks) -> Stored:
    """Records with the bits behind the point of a product of 32 bits that decides most results, in their shift."""
    records = program.constants[op.inputs[2]].astype(np.int64).reshape(-1, WORDS).copy()
    bounds = sum_bounds_of_records(program, op)
    once = op.kernel.base == DENSE.form.base
    for n, (_bias, multiplier, right) in enumerate(records):
        zero = abs(2 * op.params["zero"] + 1)
        records[n, 2] += 256 * (
            _bits_of_rows(right) if once else _bits(int(bounds[n]), int(multiplier), int(right), zero)
        )
    return Stored(tuple(records.reshape(-1).tolist()), "hil::near_records")


def sum_bounds_of_records(program: Program, op: Op) -> np.ndarray:
    """What no sum of each output exceeds, its bias included."""
    records = program.constants[op.inputs[2]].astype(np.int64).reshape(-1, WORDS)
    weights = program.constants[op.inputs[0]].astype(np.int64).reshape(len(records), -1)
    return np.abs(weights).sum(axis=1) * ABOVE + np.abs(records[:, 0])


def _bits_of_rows(right: int) -> int:
    """The same of fully connected layers, whose sums are far from their bounds: those of more than 2^(12 + right) are
    asked for, which is beyond all codes."""
    return ROW_BITS if 1 <= EXTRA + right - ROW_BITS < PRODUCT_BITS else 0


def _bits(bound: int, multiplier: int, right: int, zero: int) -> int:
    """As many as a product of a sum up to `bound` and the multiplier's first bits permits; 0: too few."""
    for bits in range(MOST_BITS, FEWEST_BITS, -1):
        cut = EXTRA + right - bits
        if not 1 <= cut < PRODUCT_BITS:
            continue
        first = (1 << 30 >> cut) + 1
        if bound * (multiplier >> cut) + bound + (zero << bits - 1) + 3 * first < 1 << PRODUCT_BITS:
            return bits
    return 0
