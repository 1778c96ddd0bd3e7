"""Division by a count n known when the model is compiled: an exact sum times R(n) = round(2**k / n), one rounding.

mean = floor((sum * R + 2**(k + shift - 1)) / 2**(k + shift)), k = 22 for sums of 8-bit and 30 for sums of 16-bit
elements, and of 32 bits. R is wrong by at most 1/2, the mean before its rounding therefore by at most
n * 2**(bits - 1) / 2**(k + 1) = n * 2**-16 units of an operand of 8 or 16 bits; for powers of two not at all.
"""

from __future__ import annotations

import numpy as np

from tinyhil.language.lowering_context import Loaded

MAX_COUNT = 1 << 14  # the error stays below a quarter of a unit
MOST_BITS = 30  # in single precision the reciprocal has its 24 bits whatever the count


def fraction_bits(fmt: Loaded) -> int:
    """k for means of elements in `fmt`."""
    return min(fmt.bits, 16) + 14 if fmt.is_integer else MOST_BITS


def reciprocal(count: int, bits: int) -> int:
    """round(2**bits / count), ties up."""
    return ((2 << bits) + count) // (2 * count)


def mean_bound(fmt: Loaded, count: int) -> int:
    """Largest magnitude of a sum of `count` elements times the reciprocal of `count`."""
    return -fmt.lowest * count * reciprocal(count, fraction_bits(fmt))


def table(largest: int, bits: int) -> np.ndarray:
    """Low and high 16 bits of the reciprocals of 1..largest."""
    values = np.array([reciprocal(count, bits) for count in range(1, largest + 1)], np.int64)
    return np.stack([values & 0xFFFF, values >> 16], axis=1).reshape(-1)
