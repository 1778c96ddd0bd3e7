"""Between reals, codes and accumulators, for every format alike."""

from __future__ import annotations

import numpy as np

from tinyhil.formats.affine import Affine
from tinyhil.formats.exact import Exact
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import INTEGER, Format
from tinyhil.formats.single import FLOAT32

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
    if isinstance(fmt, Affine):
        return to_affine(accumulator, shift, fmt)
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


def to_affine(accumulator: Accumulator, shift: int, fmt: Affine) -> tuple[np.ndarray, np.ndarray]:
    """Through single precision: value * 2**-shift times the rounded reciprocal of the scale, ties to even."""
    if isinstance(accumulator, Exact):
        single = FLOAT32.decode(FLOAT32.encode(accumulator.value, accumulator.residue)[0]).astype(np.float32)
    else:
        single = accumulator.astype(np.float32)
    with np.errstate(all="ignore"):
        units = np.ldexp(single, -shift) * np.float32(1 / fmt.scale)
    lost = np.isnan(units)
    whole = np.rint(np.clip(np.where(lost, 0, units), -100000, 100000)).astype(np.int64) + fmt.zero
    codes = np.clip(whole, fmt.lowest, fmt.highest)
    return codes, (codes != whole) | lost


def storage_dtype(fmt: Format) -> np.dtype[np.integer]:
    """How codes lie in memory and on the wire: little endian; integer formats signed, all others unsigned."""
    kind = "i" if isinstance(fmt, Fixed | Affine) else "u"
    return np.dtype(f"<{kind}{fmt.storage_bytes}")
