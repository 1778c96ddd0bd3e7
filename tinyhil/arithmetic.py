"""How kernels compute: operands loaded as the domain asks, sums and products without rounding.

The numpy counterpart of the C++ accumulators: int64 for `Sum` and `Wide`, float64 (exact) for `Real`, float32 for
single precision. Every kernel's reference is written over these and ends in one `requantize`.
"""

from __future__ import annotations

import numpy as np

from tinyhil.formats.codec import Accumulator
from tinyhil.formats.exact import exact_product, exact_sum
from tinyhil.formats.format import CODED, INTEGER, Format


def load(codes: np.ndarray, fmt: Format, domain: str) -> np.ndarray:
    """Codes as the numbers an operation in `domain` sees, in units of 2**exponent of `lowering.loaded(fmt)`."""
    if domain == INTEGER and fmt.granule == 0:
        return codes
    values = fmt.decode(codes)
    if fmt.domain == INTEGER:
        values = np.ldexp(values, -fmt.granule)
    if domain == INTEGER:
        return values.astype(np.int64)
    return values if domain == CODED else values.astype(np.float32)


def scaled(numbers: np.ndarray, power: int) -> np.ndarray:
    """numbers * 2**power; integers take powers of at least 0."""
    return numbers << power if numbers.dtype.kind == "i" else np.ldexp(numbers, power)


def plus(a: np.ndarray, b: np.ndarray) -> Accumulator:
    """a + b: exact, or one rounding in single precision."""
    return exact_sum(a, b) if a.dtype == np.float64 else a + b


def times(a: np.ndarray, b: np.ndarray) -> Accumulator:
    """a * b: exact, or one rounding in single precision."""
    return exact_product(a, b) if a.dtype == np.float64 else a * b
