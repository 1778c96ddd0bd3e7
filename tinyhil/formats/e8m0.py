"""E8M0 of the OCP Microscaling specification (2023): powers of two from 2^-127 to 2^127, without a zero and a sign.

Rounding is the cast's (ONNX, Cast of opset 24): `Up` and `Down` to the next power away from zero and towards it,
`Nearest` to the nearer one, ties up. What no power is near to counts as saturated: beyond the largest it becomes the
largest, below the smallest, as zeros and negative numbers, the smallest. Code 255 is NaN, which counts, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tinyhil.formats.format import CODED, Domain, Format
from tinyhil.formats.minifloat import NAN
from tinyhil.formats.rounding import magnitudes

UP, DOWN, NEAREST = "Up", "Down", "Nearest"
ROUNDINGS = UP, DOWN, NEAREST
BIAS = 127


@dataclass(frozen=True, slots=True)
class E8M0(Format):
    """2**(code - 127), scaled by 2**`exponent`, rounded as `towards` says."""

    towards: str = UP
    exponent: int = 0

    @property
    def bits(self) -> int:
        """Of a code."""
        return 8

    @property
    def exponent_bits(self) -> int:
        """All of them."""
        return 8

    @property
    def mantissa_bits(self) -> int:
        """None: powers of two alone."""
        return 0

    @property
    def bias(self) -> int:
        """Code of 1."""
        return BIAS

    @property
    def policy(self) -> str:
        """Of the codes at the top, as a minifloat's: all ones is NaN."""
        return NAN

    @property
    def significant_bits(self) -> int:
        return 1

    @property
    def domain(self) -> Domain:
        return CODED

    @property
    def c_type(self) -> str:
        return f"hil::E8M0<hil::Towards::{self.towards}>"

    @property
    def nan_code(self) -> int:
        """All ones."""
        return 255

    @property
    def largest(self) -> float:
        return math.ldexp(1.0, BIAS)

    @property
    def smallest(self) -> float:
        return math.ldexp(1.0, -BIAS)

    @property
    def granule(self) -> int:
        return -BIAS

    def decode(self, codes: np.ndarray) -> np.ndarray:
        codes = np.asarray(codes, np.int64)
        return np.where(codes == self.nan_code, np.nan, np.ldexp(1.0, codes - BIAS))

    def encode(self, values: np.ndarray, residue: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        size, rest = magnitudes(values, residue)
        regular = np.isfinite(size) & (size > 0)
        mantissa, power = np.frexp(np.where(regular, size, 1.0))
        is_less = (mantissa == 0.5) & (rest < 0)  # a little less than the power that `size` shows
        if self.towards == UP:
            steps = np.where((mantissa > 0.5) | (rest > 0), 1, 0)
        elif self.towards == DOWN:
            steps = np.where(is_less, -1, 0)
        else:
            steps = np.where((mantissa > 0.75) | ((mantissa == 0.75) & (rest >= 0)), 1, 0)
        floor = power.astype(np.int64) - 1 + BIAS
        is_low = (np.asarray(values) < 0) | (size == 0) | (regular & (floor - is_less < 0))
        codes = np.where(np.isinf(size), self.nan_code, floor + steps)
        saturated = is_low | (codes >= self.nan_code) | np.isnan(size)
        codes = np.where(is_low, 0, np.clip(codes, 0, self.nan_code - 1))
        return np.where(np.isnan(size), self.nan_code, codes), saturated

    def fitted(self, magnitude: float) -> E8M0:
        """Its range is wider than a scale could make it."""
        return self

    def __str__(self) -> str:
        return f"e8m0 {self.towards.lower()} * 2^{self.exponent}"
