"""Sums and products of float64 without rounding: a value and the sign-carrying rest it leaves out.

Error-free transformations (Knuth's TwoSum; Dekker's product on halves of 26 bits). Decoded values of all formats have
at most 28 significant bits and exponents within +-256, far from float64's limits, so neither step can overflow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_SPLIT = float(2**27 + 1)


@dataclass(frozen=True, slots=True)
class Exact:
    """`value` + `residue`, both float64; |residue| is at most half a unit of the last place of `value`."""

    value: np.ndarray
    residue: np.ndarray

    def __neg__(self) -> Exact:
        return Exact(-self.value, -self.residue)

    def reshape(self, *shape: int) -> Exact:
        """Both parts, like numpy's."""
        return Exact(self.value.reshape(*shape), self.residue.reshape(*shape))


def exact_sum(a: np.ndarray, b: np.ndarray) -> Exact:
    """a + b."""
    total = a + b
    part = total - a
    return Exact(total, (a - (total - part)) + (b - part))


def exact_product(a: np.ndarray, b: np.ndarray) -> Exact:
    """a * b."""
    product = a * b
    a_high, b_high = _high(a), _high(b)
    a_low, b_low = a - a_high, b - b_high
    return Exact(product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low)


def odd(x: Exact, bits: int) -> np.ndarray:
    """`bits` significant bits of x, its lowest bit set if anything was lost: rounded to odd."""
    mantissa, power = np.frexp(x.value)
    just_below = (np.abs(mantissa) == 0.5) & (mantissa * x.residue < 0)  # of a power of two
    power = power - just_below - bits
    value = np.ldexp(x.value, -power)
    whole = np.floor(value)
    whole = whole - ((value == whole) & (x.residue < 0))
    lost = (value != whole) | (x.residue != 0)
    to_odd = whole + (lost & (np.mod(whole, 2.0) == 0))
    return np.ldexp(to_odd, power)


def _high(x: np.ndarray) -> np.ndarray:
    scaled = _SPLIT * x
    high: np.ndarray = scaled - (scaled - x)
    return high
