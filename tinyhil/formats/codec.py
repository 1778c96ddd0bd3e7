"""Between reals, codes and accumulators, for every format alike."""

from __future__ import annotations

import numpy as np

from tinyhil.formats.exact import Exact
from tinyhil.formats.format import Format

Accumulator = np.ndarray | Exact


def quantize(real: np.ndarray, fmt: Format) -> tuple[np.ndarray, np.ndarray]:
    """Codes (int64) nearest to `real`, saturated, and a mask of the elements that saturated."""
    return fmt.encode(np.ldexp(real.astype(np.float64), -fmt.exponent))


def dequantize(codes: np.ndarray, fmt: Format) -> np.ndarray:
    """Real values (float64, exact) of `codes`."""
    return np.ldexp(fmt.decode(codes), fmt.exponent)


def requantize(accumulator: Accumulator, shift: int, fmt: Format) -> tuple[np.ndarray, np.ndarray]:
    """Scale an accumulator by 2**-shift into `fmt`, one rounding; returns (codes, saturated mask).

    int64: exact integers, which must keep 2**(shift-1) of headroom; a negative shift moves left and is exact.
    Exact: unevaluated sums of two float64. float32: single precision.
    """
    return fmt.requantize(accumulator, shift)


def storage_dtype(fmt: Format) -> np.dtype[np.integer]:
    """How codes lie in memory and on the wire: little endian; integer formats signed, all others unsigned."""
    kind = "i" if fmt.lowest < 0 else "u"
    return np.dtype(f"<{kind}{fmt.storage_bytes}")
