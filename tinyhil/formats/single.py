"""IEEE numbers whose arithmetic is IEEE single precision: float32, and bfloat16 and float16 as its storage forms.

Rounding: to nearest, ties to even. Values that round beyond the largest finite number become it and count as saturated,
infinities too; NaN stays NaN and counts as saturated. Zeros keep their sign, subnormals are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from tinyhil.formats.format import SINGLE, Domain, Format, NamedFormat, Rounding, floating
from tinyhil.formats.minifloat import decode_fields, encode_fields
from tinyhil.formats.rounding import magnitudes

TITLE = "IEEE floats"  # of the family, in docs/formats.md
OF_SINGLE = 23  # mantissa bits of the machine's own
NAMES = {(8, 23): "Float32", (8, 7): "BFloat16", (5, 10): "Float16"}


@dataclass(frozen=True, slots=True)
class Single(Format):
    """float32 (8, 23), bfloat16 (8, 7) or float16 (5, 10); real = value * 2**`exponent`."""

    exponent_bits: int
    mantissa_bits: int
    exponent: int = 0

    @property
    def bits(self) -> int:
        """Of a code, sign included."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def rounding(self) -> Rounding:
        return floating(self.mantissa_bits, self.granule, self.largest, has_nan=True)

    @property
    def domain(self) -> Domain:
        return SINGLE

    @property
    def c_type(self) -> str:
        return f"hil::{NAMES[self.exponent_bits, self.mantissa_bits]}"

    @property
    def highest_code(self) -> int:
        """The code of the largest finite number."""
        return (((1 << self.exponent_bits) - 1) << self.mantissa_bits) - 1

    @property
    def nan_code(self) -> int:
        """The quiet NaN that every NaN is written as."""
        return self.highest_code + 1 + (1 << (self.mantissa_bits - 1))

    @property
    def granule(self) -> int:
        return 2 - (1 << (self.exponent_bits - 1)) - self.mantissa_bits

    @property
    def largest(self) -> float:
        return float(self.decode(np.array([self.highest_code]))[0])

    @property
    def smallest(self) -> float:
        return math.ldexp(1.0, self.granule)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        codes = np.asarray(codes, np.int64)
        if self.mantissa_bits == OF_SINGLE:
            with np.errstate(invalid="ignore"):  # signalling NaNs
                return codes.astype(np.uint32).view(np.float32).astype(np.float64)
        body = codes & ((1 << (self.bits - 1)) - 1)
        infinity = self.highest_code + 1
        values = decode_fields(np.minimum(body, self.highest_code), self.mantissa_bits, self.granule)
        values = np.where(body > infinity, np.nan, np.where(body == infinity, np.inf, values))
        return np.where(codes >> (self.bits - 1) & 1, -values, values)

    def encode(self, values: np.ndarray, residue: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        if self.mantissa_bits == OF_SINGLE and residue is None:
            return self._cast(np.asarray(values, np.float64))
        size, rest = magnitudes(values, residue)
        finite = np.isfinite(size)
        body = encode_fields(np.where(finite, size, 0.0), rest, self.mantissa_bits, self.granule)
        saturated = (body > self.highest_code) | ~finite
        body = np.where(saturated, self.highest_code, body)
        codes = body | np.signbit(values).astype(np.int64) << (self.bits - 1)
        return np.where(np.isnan(size), self.nan_code, codes), saturated

    def _cast(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `encode`, by the machine's own float32."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            rounded = values.astype(np.float32)
        saturated = ~np.isfinite(rounded)
        if saturated.any():
            limit = np.float32(np.finfo(np.float32).max)
            rounded = np.where(saturated, np.copysign(limit, rounded), rounded)
        codes = rounded.view(np.uint32).astype(np.int64)
        return np.where(np.isnan(values), self.nan_code, codes), saturated

    def fitted(self, magnitude: float) -> Single:
        return fit(magnitude, self.scaled(0))

    def __str__(self) -> str:
        return f"{NAMES[self.exponent_bits, self.mantissa_bits].lower()} * 2^{self.exponent}"


FLOAT32, BFLOAT16, FLOAT16 = Single(8, 23), Single(8, 7), Single(5, 10)


def fit(magnitude: float, shape: Single) -> Single:
    """Its own exponent suffices: no scale, except where float16's ends."""
    return shape.scaled(max(0, math.frexp(magnitude)[1] - math.frexp(shape.largest)[1] + 1))


NAMED = tuple(
    NamedFormat(name, shape.bits, summary, partial(fit, shape=shape))
    for name, shape, summary in (
        ("float32", FLOAT32, "IEEE single precision"),
        ("bfloat16", BFLOAT16, "float32's upper half, arithmetic in single precision"),
        ("float16", FLOAT16, "IEEE half precision, arithmetic in single precision"),
    )
)
