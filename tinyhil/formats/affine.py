"""Asymmetric integers: real = scale * (code - zero), the quantization of TensorFlow Lite and ONNX (int8, int16).

Run-time tensors have one scale and zero point; weights are symmetric (zero 0, codes -127..127) with a scale per output
channel. Sums are 32-bit (int16 operands: 64-bit) integers, brought to the output's scale by a 31-bit multiplier and a
shift; `rescale` repeats TensorFlow Lite's integer arithmetic, its two roundings included (gemmlowp's
SaturatingRoundingDoublingHighMul and RoundingDivideByPOT; tensorflow/lite/kernels/internal/common.h), `rescale_once`
that of its fully connected layers. Encoding rounds
to nearest, ties to even; there are no NaNs: they encode to the zero point and count as saturated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from tinyhil.formats.exact import Exact
from tinyhil.formats.format import AFFINE, Domain, Format, NamedFormat, Rounding, Rule, float_bits
from tinyhil.formats.single import FLOAT32

TITLE = "Asymmetric integers"  # of the family, in docs/formats.md
MULTIPLIER_BITS = 31
SMALLEST_RANGE = 1e-8
ANY_RANGE = 1.0  # of a tensor that is always zero: the multipliers of whatever meets it stay within theirs
MOST_BIAS = 1 << 29  # units of a channel's sum; the products get the rest of 31 bits


@dataclass(frozen=True, slots=True)
class Affine(Format):
    """Codes of 8 or 16 bits; `scale` is a float32 number."""

    bits: int
    scale: float
    zero: int = 0
    exponent: int = 0

    @property
    def lowest(self) -> int:
        return -(1 << (self.bits - 1))

    @property
    def highest(self) -> int:
        return (1 << (self.bits - 1)) - 1

    @property
    def grid(self) -> tuple[float, int]:
        return self.scale, self.zero

    @property
    def significant_bits(self) -> int:
        """Weights have 8 bits beside operands of whatever width."""
        return 8

    @property
    def rounding(self) -> Rounding:
        ends = {"lowest": self.lowest, "highest": self.highest}
        inverse = float(np.float32(1 / self.scale))
        return Rounding(Rule.AFFINE, {**ends, "zero": self.zero, "scale": self.scale, "inverse": inverse})

    @property
    def domain(self) -> Domain:
        return AFFINE

    @property
    def c_type(self) -> str:
        return f"int{self.bits}_t"

    @property
    def largest(self) -> float:
        return self.scale * max(self.highest - self.zero, self.zero - self.lowest)

    @property
    def smallest(self) -> float:
        return self.scale

    @property
    def granule(self) -> int:
        """The scale is no power of two: float32 has 24 bits, so its multiples lie on this grid."""
        return math.frexp(self.scale)[1] - 24

    def decode(self, codes: np.ndarray) -> np.ndarray:
        return (np.asarray(codes, np.int64) - self.zero) * self.scale

    def encode(self, values: np.ndarray, residue: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        values = np.asarray(values, np.float64)
        units = np.rint(np.where(np.isnan(values), 0.0, values) / self.scale) + self.zero
        clipped = np.clip(units, self.lowest, self.highest)
        return clipped.astype(np.int64), (clipped != units) | np.isnan(values)

    def requantize(self, accumulator: np.ndarray | Exact, shift: int) -> tuple[np.ndarray, np.ndarray]:
        """Through single precision: value * 2**-shift times the rounded reciprocal of the scale, ties to even."""
        if isinstance(accumulator, Exact):
            single = FLOAT32.decode(FLOAT32.encode(accumulator.value, accumulator.residue)[0]).astype(np.float32)
        else:
            single = accumulator.astype(np.float32)
        with np.errstate(all="ignore"):
            units = np.ldexp(single, -shift) * np.float32(1 / self.scale)
        lost = np.isnan(units)
        whole = np.rint(np.clip(np.where(lost, 0, units), -100000, 100000)).astype(np.int64) + self.zero
        codes = np.clip(whole, self.lowest, self.highest)
        return codes, (codes != whole) | lost

    def as_real(self, operand: str) -> str:
        return f"hil::real32({operand}, {float_bits(self.scale)}, {self.zero})"

    def result_shift(self, shift: int) -> str:
        return f"hil::ToAffine{{{float_bits(1 / self.scale)}, {self.zero}, {shift}}}"

    def from_float(self, c_type: str, value: str) -> str:
        return f"hil::quantized_affine<{c_type}>({value}, {float_bits(self.scale)}u, {self.zero})"

    def scaled(self, exponent: int) -> Affine:
        """The power of two goes into the scale."""
        return Affine(self.bits, math.ldexp(self.scale, exponent), self.zero)

    def fitted(self, magnitude: float) -> Affine:
        return fit(magnitude, self.bits)

    def __str__(self) -> str:
        return f"int{self.bits} * {self.scale:.6g}, zero {self.zero}"


def as_affine(fmt: Format) -> Affine:
    """`fmt`, of which the domain says that it is one of these; TypeError if it is not."""
    if not isinstance(fmt, Affine):
        raise TypeError(f"{fmt} is no format of asymmetric integers")
    return fmt


def _reach(seen: float) -> float:
    """What a scale is made for where so much was seen."""
    return max(seen, SMALLEST_RANGE) if seen > 0 else ANY_RANGE


def fit_range(low: float, high: float, bits: int) -> Affine:
    """The whole of low..high and zero; 16 bits are symmetric, as TensorFlow Lite has them."""
    low, high = min(low, 0.0), max(high, 0.0)
    if bits == 16:
        return Affine(16, float(np.float32(_reach(max(-low, high)) / 32767)))
    scale = float(np.float32(_reach(high - low) / 255))
    return Affine(8, scale, zero_of(low, scale))


def fit_power(low: float, high: float) -> Affine:
    """`fit_range` of 8 bits in units of a power of two: sums and products of such tensors need shifts and no
    multiplier. A range may reach beyond the codes by one unit, as those of functions that come near to 1 do."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = 2.0 ** math.ceil(math.log2(_reach(high - low) / 256))
    return Affine(8, scale, zero_of(low, scale))


def zero_of(low: float, scale: float) -> int:
    """The zero point of 8 bits with which a range that begins at `low`, 0 or less, begins at the lowest code."""
    return int(min(max(-128 - round(low / scale), -128), 127))


def fit(magnitude: float, bits: int) -> Affine:
    """Symmetric: what constants of an elementwise operation get."""
    return Affine(bits, float(np.float32(_reach(magnitude) / ((1 << (bits - 1)) - 1))))


def weight_scales(rows: np.ndarray, bias: np.ndarray, x_scale: float) -> np.ndarray:
    """A scale (float32 numbers as float64) for each row: the largest magnitude is 127, but never so fine that the
    row's bias does not fit its sum, as it would be where all weights vanish beside it."""
    largest = np.maximum(np.abs(rows).max(axis=1, initial=0.0), SMALLEST_RANGE)
    least = np.abs(bias) / (x_scale * MOST_BIAS)
    return np.maximum(largest / 127, least).astype(np.float32).astype(np.float64)


def multiplier(factor: float) -> tuple[int, int]:
    """(m, shift) with factor ~ m * 2**(shift - 31), 2**30 <= |m| < 2**31 (QuantizeMultiplier)."""
    if factor == 0.0:
        return 0, 0
    fraction, shift = math.frexp(abs(factor))
    fixed = math.floor(fraction * (1 << MULTIPLIER_BITS) + 0.5)
    if fixed == 1 << MULTIPLIER_BITS:
        fixed, shift = fixed // 2, shift + 1
    if shift < -MULTIPLIER_BITS:
        return 0, 0
    return (fixed if factor > 0 else -fixed), shift


def reciprocal_above(count: int) -> tuple[int, int]:
    """(m, shift) of the smallest 31-bit multiplier that is not below 1 / count: a half stays a half or above."""
    _, shift = math.frexp(1 / count)
    return min(-(-(1 << (MULTIPLIER_BITS - shift)) // count), (1 << MULTIPLIER_BITS) - 1), shift


def rescale(sums: np.ndarray, m: np.ndarray | int, shift: np.ndarray | int) -> np.ndarray:
    """sums * m * 2**(shift - 31) as MultiplyByQuantizedMultiplier rounds it; int64 arrays that hold int32 sums."""
    m, shift = np.asarray(m, np.int64), np.asarray(shift, np.int64)
    product = (sums << np.maximum(shift, 0)) * m
    high = np.where(product >= 0, (product + (1 << 30)) >> 31, -((-product + (1 << 30) - 1) >> 31))
    right = np.maximum(-shift, 0)
    mask = (np.int64(1) << right) - 1
    threshold = (mask >> 1) + (high < 0)
    return (high >> right) + ((high & mask) > threshold)


def rescale_once(sums: np.ndarray, m: np.ndarray | int, shift: np.ndarray | int) -> np.ndarray:
    """The same with one rounding: what fully connected layers do there."""
    right = MULTIPLIER_BITS - np.asarray(shift, np.int64)
    return (sums * np.asarray(m, np.int64) + (np.int64(1) << (right - 1))) >> right


def rescale_away(sums: np.ndarray, m: np.ndarray | int, shift: np.ndarray | int) -> np.ndarray:
    """`rescale_once` with ties away from zero: what means do there."""
    return np.sign(sums) * rescale_once(np.abs(sums), m, shift)


def rescale_wide(sums: np.ndarray, m: np.ndarray | int, shift: np.ndarray | int) -> np.ndarray:
    """The same for 48-bit sums of int16 operands: the multiplier cut to 15 bits, one rounding."""
    m, shift = np.asarray(m, np.int64), np.asarray(shift, np.int64)
    reduced = np.where(m < 0x7FFF0000, (m + (1 << 15)) >> 16, 0x7FFF)
    right = 15 - shift
    return (sums * reduced + (np.int64(1) << (right - 1))) >> right


NAMED = (
    NamedFormat(
        "int8",
        8,
        "asymmetric int8, weights per channel: TensorFlow Lite's arithmetic",
        partial(fit, bits=8),
        fit_range=partial(fit_range, bits=8),
    ),
    NamedFormat(
        "int16x8",
        16,
        "int16 with int8 weights per channel: TensorFlow Lite's 16x8 arithmetic",
        partial(fit, bits=16),
        fit_range=partial(fit_range, bits=16),
    ),
)
