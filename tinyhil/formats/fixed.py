"""Two's complement fixed point with a power-of-two scale: real = integer * 2**exponent.

The exponent follows Shiftry and MinUn (facts: section "Semantics"): the smallest one for which the largest magnitude
stays below 2**(bits - 1 + exponent), so a profiled value saturates only if it lies within half a step of that end.

Rounding, everywhere: to nearest, ties towards plus infinity, floor((x + half) / step).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Fixed:
    """Fixed-point format of one tensor: `bits` wide, scaled by 2**`exponent`."""

    bits: int
    exponent: int

    @property
    def lowest(self) -> int:
        return -(1 << (self.bits - 1))

    @property
    def highest(self) -> int:
        return (1 << (self.bits - 1)) - 1

    @property
    def storage_bytes(self) -> int:
        """Bytes of one element in memory: the next of 1, 2, 4."""
        return 1 if self.bits <= 8 else 2 if self.bits <= 16 else 4

    def __str__(self) -> str:
        return f"fixed{self.bits} * 2^{self.exponent}"


def exponent_for(magnitude: float, bits: int) -> int:
    """Smallest exponent with magnitude < 2**(bits - 1 + exponent); 1 - bits for a tensor of zeros."""
    if magnitude == 0.0:
        return 1 - bits
    _, power = math.frexp(magnitude)  # magnitude = m * 2**power, 0.5 <= m < 1, so magnitude < 2**power
    return power - (bits - 1)


def quantize(real: np.ndarray, fmt: Fixed) -> tuple[np.ndarray, np.ndarray]:
    """Integers (int64) nearest to `real`, saturated, and a mask of the elements that saturated."""
    integers = np.floor(np.ldexp(real.astype(np.float64), -fmt.exponent) + 0.5)
    clipped = np.clip(integers, fmt.lowest, fmt.highest)
    return clipped.astype(np.int64), clipped != integers


def dequantize(integers: np.ndarray, fmt: Fixed) -> np.ndarray:
    """Real values (float64, exact) of `integers`."""
    return np.ldexp(integers.astype(np.float64), fmt.exponent)


def requantize(accumulator: np.ndarray, shift: int, fmt: Fixed) -> tuple[np.ndarray, np.ndarray]:
    """Scale an exact accumulator by 2**-shift into `fmt`, one rounding; returns (integers, saturated mask).

    A negative shift moves left and is exact. `accumulator` is int64 and must keep 2**(shift-1) of headroom.
    """
    half = (1 << (shift - 1)) if shift > 0 else 0
    rounded = (accumulator + half) >> shift if shift > 0 else accumulator << -shift
    clipped = np.clip(rounded, fmt.lowest, fmt.highest)
    return clipped, clipped != rounded
