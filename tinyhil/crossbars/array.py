"""What crossbars compute: integer products from bit-serial inputs, sliced weights and converters of few bits.

A signed weight is the difference of two columns, each of which holds a magnitude in cells of `cell_bits`. A signed
input goes in as digits of `dac_bits` of its lower bits, then as its sign bit, which is subtracted; one without a sign
as its digits alone. Every column of
every cycle is read by a converter: sums are exact where it has `column_bits`; with fewer, its range stays that of the
column and its steps grow by powers of two. What was read is shifted and added digitally, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tinyhil.crossbars.hardware import Hardware, column_bits


@dataclass(frozen=True, slots=True)
class Mapped:
    """An operation on crossbars: their shape, the widths of weights and inputs, the `ticks` (ns) of one call, whether
    inputs are `signed`."""

    rows: int
    cell_bits: int
    dac_bits: int
    adc_bits: int
    weight_bits: int
    input_bits: int
    ticks: int = 0
    signed: bool = True

    @staticmethod
    def on(hardware: Hardware, weight_bits: int, input_bits: int, ticks: int = 0, *, signed: bool = True) -> Mapped:
        """An operation of these widths on the crossbars of `hardware`."""
        h = hardware
        return Mapped(h.rows, h.cell_bits, h.dac_bits, h.adc_bits, weight_bits, input_bits, ticks, signed)

    @property
    def step_bits(self) -> int:
        """log2 of a converter's step; 0: every reading is exact."""
        return max(0, column_bits(self.rows, self.cell_bits, self.dac_bits) - self.adc_bits)

    @property
    def is_exact(self) -> bool:
        """The converter has bits enough for every sum of a column."""
        return self.step_bits == 0


def matmul(mapped: Mapped | None, weights: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """weights (..., n, k) @ inputs (..., k, m) of integers as the crossbars give it; without any, or where their
    converters are wide enough, the plain product, which is the same then (tests/test_reram.py)."""
    if mapped is None or mapped.is_exact:
        return np.matmul(weights, inputs)
    return sliced_matmul(mapped, weights, inputs)


def sliced_matmul(mapped: Mapped, weights: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """The same by every single reading, int64."""
    weights, inputs = weights.astype(np.int64), inputs.astype(np.int64)
    shape = np.matmul(weights[..., :1], inputs[..., :1, :]).shape
    total = np.zeros(shape, np.int64)
    for start in range(0, weights.shape[-1], mapped.rows):
        block = slice(start, start + mapped.rows)
        for digits, by_digit in input_digits(mapped, inputs[..., block, :]):
            for cells, by_cell in weight_slices(mapped, weights[..., block]):
                column = np.matmul(cells.astype(np.float32), digits.astype(np.float32))  # below 2**24: exact
                total += read(mapped, column.astype(np.int64)) * (by_digit * by_cell)
    return total


def read(mapped: Mapped, column: np.ndarray) -> np.ndarray:
    """What the converter says of sums of columns: the nearest of its steps (ties up), at most its highest."""
    step, half = mapped.step_bits, (1 << mapped.step_bits) >> 1
    codes = np.minimum((column + half) >> step, (1 << mapped.adc_bits) - 1)
    return np.asarray(codes << step)


def input_digits(mapped: Mapped, inputs: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """Digits of the lower bits with their weights, then the sign bits with theirs, if there are any."""
    magnitude_bits = mapped.input_bits - mapped.signed
    code = inputs & ((1 << mapped.input_bits) - 1)
    for low in range(0, magnitude_bits, mapped.dac_bits):
        width = min(mapped.dac_bits, magnitude_bits - low)
        yield (code >> low) & ((1 << width) - 1), 1 << low
    if mapped.signed:
        yield code >> magnitude_bits, -(1 << magnitude_bits)


def weight_slices(mapped: Mapped, weights: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """Cells of the positive and of the negative columns with their weights."""
    for low in range(0, mapped.weight_bits, mapped.cell_bits):
        mask = (1 << min(mapped.cell_bits, mapped.weight_bits - low)) - 1
        for sign in (1, -1):
            yield (np.maximum(sign * weights, 0) >> low) & mask, sign << low if sign > 0 else -(1 << low)
