"""Posits: sign, regime of variable length, `es` exponent bits, fraction (Posit Standard 2022, and any es).

Rounding is that of the standard: the infinite bit string is cut to `bits`, to nearest, ties to the even code, never to
zero and never to NaR. Values beyond the largest posit become it and count as saturated; non-zero values below the
smallest become it and do not. NaR (code 100...0) decodes to NaN; only NaN encodes to it, and counts as saturated.
Codes are unsigned, 0 to 2**bits - 1, in the low bits of their storage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from tinyhil.formats.format import CODED, Domain, Format, NamedFormat, Rounding, Rule
from tinyhil.formats.rounding import magnitudes, round_up

TITLE = "Posits"  # of the family, in docs/formats.md
FRACTION_BITS = 52  # of float64, the encoder's input


@dataclass(frozen=True, slots=True)
class Posit(Format):
    """posit<bits, es> of one tensor, scaled by 2**`exponent`."""

    bits: int
    es: int
    exponent: int = 0

    def __post_init__(self) -> None:
        if not ((6 <= self.bits <= 16 or self.bits == 32) and 0 <= self.es <= 3):
            raise ValueError(f"posit<{self.bits},{self.es}>: limits: 6 to 16 or 32 bits, es 0 to 3")

    @property
    def rounding(self) -> Rounding:
        return Rounding(Rule.POSIT, {"es": self.es, "largest": self.largest})

    @property
    def domain(self) -> Domain:
        return CODED

    @property
    def c_type(self) -> str:
        return f"hil::Posit<{self.bits}, {self.es}>"

    @property
    def nar(self) -> int:
        """The code that is not a real number."""
        return 1 << (self.bits - 1)

    @property
    def largest(self) -> float:
        return math.ldexp(1.0, (self.bits - 2) << self.es)

    @property
    def smallest(self) -> float:
        return 1.0 / self.largest

    @property
    def granule(self) -> int:
        return -((self.bits - 2) << self.es)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        codes = np.asarray(codes, np.int64)
        return _table(self.bits, self.es)[codes] if self.bits <= 16 else _decode(codes, self.bits, self.es)

    def encode(self, values: np.ndarray, residue: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        size, rest = magnitudes(values, residue)
        regular = np.isfinite(size) & (size > 0)
        body = _round(np.where(regular, size, 1.0), rest, self.bits, self.es)
        top = self.largest
        saturated = (size > top) | ((size == top) & (rest > 0)) | np.isnan(size)
        body = np.where(size >= top, self.nar - 1, np.where(regular, body, 0))
        codes = np.where(np.asarray(values) < 0, (-body) & ((1 << self.bits) - 1), body)
        return np.where(np.isnan(size), self.nar, codes), saturated

    def fitted(self, magnitude: float) -> Posit:
        return fit(magnitude, self.bits, self.es)

    def __str__(self) -> str:
        return f"posit{self.bits}es{self.es} * 2^{self.exponent}"


@lru_cache
def _table(bits: int, es: int) -> np.ndarray:
    return _decode(np.arange(1 << bits, dtype=np.int64), bits, es)


def _decode(codes: np.ndarray, bits: int, es: int) -> np.ndarray:
    """Regime: a run of equal bits below the sign, ended by the other bit; then es exponent bits, then the fraction."""
    nar = 1 << (bits - 1)
    negative = codes >= nar
    body = np.where(negative, (1 << bits) - codes, codes) & (nar - 1)
    first = (body >> (bits - 2)) & 1
    run, running = np.zeros_like(body), np.ones(body.shape, bool)
    for position in range(bits - 2, -1, -1):
        running &= ((body >> position) & 1) == first
        run += running
    k = np.where(first == 1, run - 1, -run)
    left = np.maximum(bits - 2 - run, 0)  # bits after the regime and the bit that ends it
    tail = body & ((np.int64(1) << left) - 1)
    fraction_bits = np.maximum(left - es, 0)
    exponent = np.where(left >= es, tail >> fraction_bits, tail << np.maximum(es - left, 0))
    fraction = tail & ((np.int64(1) << fraction_bits) - 1)
    value = np.ldexp(
        (fraction + (np.int64(1) << fraction_bits)).astype(np.float64), (k << es) + exponent - fraction_bits
    )
    value = np.where(negative, -value, value)
    return np.where(codes == 0, 0.0, np.where(codes == nar, np.nan, value))


def _round(size: np.ndarray, rest: np.ndarray, bits: int, es: int) -> np.ndarray:
    """The code of positive values, limited to what lies between the smallest and the largest posit."""
    limit = (bits - 2) << es
    mantissa, power = np.frexp(size)
    scale = np.clip(power.astype(np.int64) - 1, -limit, limit - 1)
    tiny, huge = power - 1 < -limit, power - 1 >= limit
    fraction = np.ldexp(mantissa, FRACTION_BITS + 1).astype(np.int64) - (np.int64(1) << FRACTION_BITS)
    k, low = scale >> es, scale & ((1 << es) - 1)
    tail = (low << FRACTION_BITS) | fraction
    regime_bits = np.where(k >= 0, k + 2, 1 - k)
    room = bits - 1 - regime_bits  # 0 or more: scale < limit
    regime = np.where(k >= 0, (np.int64(1) << np.maximum(k + 2, 0)) - 2, 1)
    cut = FRACTION_BITS + es - room
    body = (regime << room) | (tail >> cut)
    left_out = tail & ((np.int64(1) << cut) - 1)
    body = body + round_up(left_out, np.int64(1) << (cut - 1), (body & 1) == 1, rest)
    return np.where(tiny, 1, np.where(huge, (1 << (bits - 1)) - 1, body))


def fit(magnitude: float, bits: int, es: int) -> Posit:
    """Posits are finest around 1: the tensor's largest magnitude is scaled into [1/2, 1)."""
    return Posit(bits, es, math.frexp(magnitude)[1] if magnitude > 0 else 0)


NAMED = tuple(
    NamedFormat(f"posit{bits}es{es}", bits, f"posit, {bits} bits, es {es}", partial(fit, bits=bits, es=es))
    for bits in (*range(6, 17), 32)
    for es in range(4)
)
