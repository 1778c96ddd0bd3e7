"""Between reals, codes and accumulators, for every format alike."""

from __future__ import annotations

import numpy as np

from tinyhil.formats.exact import Exact
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import INTEGER, Format

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
    if isinstance(accumulator, Exact):
        return fmt.encode(np.ldexp(accumulator.value, -shift), accumulator.residue)
    if accumulator.dtype.kind == "f":
        return fmt.encode(np.ldexp(accumulator.astype(np.float64), -shift))
    if isinstance(fmt, Fixed) and fmt.domain == INTEGER:
        half = (1 << (shift - 1)) if shift > 0 else 0
        rounded = (accumulator + half) >> shift if shift > 0 else accumulator << -shift
        clipped = np.clip(rounded, fmt.lowest, fmt.highest)
        return clipped, clipped != rounded
    value = accumulator.astype(np.float64)
    return fmt.encode(np.ldexp(value, -shift), np.sign(accumulator - value.astype(np.int64)))


def storage_dtype(fmt: Format) -> np.dtype[np.integer]:
    """How codes lie in memory and on the wire: little endian, signed for fixed point, unsigned for all others."""
    return np.dtype(f"<{'i' if isinstance(fmt, Fixed) else 'u'}{fmt.storage_bytes}")
