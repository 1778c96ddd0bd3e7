"""Exact dot products of coded formats: an integer whose lowest bit weighs 2**low, placed at compile time.

Each product is cut to floor(product / 2**low) units. Without a guard the constants and the operand's largest value
prove that no sum overflows. With a guard of g bits every product (and the bias) saturates at +-(2**(bits - 1 - g) - 1)
units and is counted; 2**g such terms cannot overflow the sum. The C++ side is `hil::Quire<bits, low, guard>` in
firmware/kernels/common/quire.hpp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinyhil.formats.exact import Exact, exact_product
from tinyhil.formats.format import Format

WIDTHS = (32, 64)
FINE = 40  # a window is fine enough if its lowest bit is 2**-40 of the largest product expected
MARGIN = 8  # powers of two that a guarded window holds above the largest product expected
SMALL_MARGIN = 5  # the same where it buys exactness


@dataclass(frozen=True, slots=True)
class Operand:
    """What is known of an operand's numbers: the largest there may be, the largest expected, multiples of what."""

    largest: float
    observed: float
    granule: int


@dataclass(frozen=True, slots=True)
class Window:
    """`bits` wide, lowest bit 2**low; products limited to `bits - 1 - guard` bits if guard > 0."""

    bits: int
    low: int
    guard: int = 0

    @property
    def c_type(self) -> str:
        """The accumulator's class in C++."""
        guard = f", {self.guard}" if self.guard else ""
        return f"hil::Quire<{self.bits}, {self.low}{guard}>"

    @property
    def limit(self) -> int:
        """The largest magnitude of one term, in units."""
        return (1 << (self.bits - 1 - self.guard)) - 1

    def cut(self, product: Exact) -> tuple[np.ndarray, np.ndarray]:
        """(int64 units, clipped mask) of exact products."""
        value, residue = np.ldexp(product.value, -self.low), np.ldexp(product.residue, -self.low)
        ceiling = float(self.limit + 1)
        whole = np.floor(np.clip(value, -ceiling, ceiling))
        units = whole.astype(np.int64) if self.guard else np.floor(value).astype(np.int64)
        within = (np.abs(value) <= ceiling) | (self.guard == 0)  # beyond, a residue may be long itself
        units = units + np.where((value == np.floor(value)) & within, np.floor(residue), 0.0).astype(np.int64)
        if not self.guard:
            return units, np.zeros(units.shape, bool)
        clipped = np.clip(units, -self.limit, self.limit)
        return clipped, (clipped != units) | (np.abs(value) > ceiling)

    def multiply(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Units and clipped mask of a * b, decoded values (float64)."""
        return self.cut(exact_product(a, b))

    def start(self, bias: np.ndarray, shift: int) -> tuple[np.ndarray, np.ndarray]:
        """Units and clipped mask of bias * 2**shift."""
        return self.cut(Exact(np.ldexp(bias, shift), np.zeros(np.shape(bias))))

    def matmul(self, x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums (int64 units) and counts of clipped products of decoded values: x (..., r, k), w (..., k, n)."""
        if self._is_plain(x, w):
            sums = np.matmul(np.ldexp(x, -granule_of(x)), np.ldexp(w, -granule_of(w)))
            return np.ldexp(sums, granule_of(x) + granule_of(w) - self.low).astype(np.int64), np.zeros(
                sums.shape, np.int64
            )
        shape = np.matmul(np.zeros_like(x[..., :1]), np.zeros_like(w[..., :1, :])).shape
        sums, clipped = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for k in range(x.shape[-1]):
            units, over = self.multiply(*np.broadcast_arrays(x[..., :, k, None], w[..., None, k, :]))
            sums += units
            clipped += over
        return sums, clipped

    def _is_plain(self, x: np.ndarray, w: np.ndarray) -> bool:
        """Nothing is cut or clipped, and float64 holds every partial sum."""
        if not (x.size and w.size):
            return False
        product = float(np.abs(x).max()) * float(np.abs(w).max())
        granule = granule_of(x) + granule_of(w)
        exact = granule >= self.low and math.ldexp(product * x.shape[-1], -granule) < 2.0**53
        return exact and (not self.guard or math.ldexp(product, -self.low) <= self.limit)

    def value(self, units: np.ndarray) -> Exact:
        """Units as a real, for `encode`."""
        value = units.astype(np.float64)
        # float64 rounds up to 2**63 at most, where int64 ends: the difference is taken in two halves
        high = np.floor(value * 2.0**-32)
        low = value - high * 2.0**32
        rest = (units - (np.clip(high, -(2.0**31), 2.0**31 - 1).astype(np.int64) << 32)).astype(np.float64)
        residue = rest - low - np.where(high >= 2.0**31, 2.0**32, 0.0)
        return Exact(np.ldexp(value, self.low), np.ldexp(residue, self.low))


def granule_of(values: np.ndarray) -> int:
    """The largest n for which every value is a multiple of 2**n; 0 for zeros."""
    values = values[values != 0]
    if values.size == 0:
        return 0
    mantissa, power = np.frexp(values)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    return int((np.log2((whole & -whole).astype(np.float64)).astype(np.int64) + power - 53).min())


def place(
    constants: np.ndarray,
    operand: Format,
    observed: float,
    start: float = 0.0,
    granules: tuple[int | None, int | None] = (None, None),
) -> Window:
    """The window for rows of constants, (rows, k), times an operand. All in decoded units, without tensor exponents.

    `observed`: the operand's calibrated largest magnitude; `start`: the largest |bias| in units of the products;
    `granules`: of the constants' format, when tables of whole units are of use (8-bit formats), and of a bias that
    would be cut otherwise, in units of the products.
    """
    largest = min(observed, operand.largest) if observed > 0 else operand.largest
    row_sum = float(np.abs(constants).sum(axis=-1).max(initial=0.0))
    peak = float(np.abs(constants).max(initial=0.0))
    needed = granule_of(constants) + operand.granule
    granule, of_bias = granules
    needed = needed if of_bias is None else min(needed, of_bias)
    low = needed if granule is None or operand.bits > 8 else min(granule + operand.granule, needed)
    bound, terms = row_sum * operand.largest + start, constants.shape[-1] + 1
    return _fitted(bound, (low, needed), max(peak * largest, start), terms)


def place_pair(a: Format, b: Format, observed: tuple[float, float], count: int) -> Window:
    """The window for `count` products of two operands computed at run time."""
    peak = min(observed[0] or a.largest, a.largest) * min(observed[1] or b.largest, b.largest)
    granule = a.granule + b.granule
    return _fitted(a.largest * b.largest * count, (granule, granule), peak, count)


def place_squares(operands: Sequence[Operand], count: int) -> Window:
    """The window for sums of `count` squares of differences of two operands, in one unit."""
    granule = 2 * min(operand.granule for operand in operands)
    bound, peak = (sum(sizes) ** 2 for sizes in zip(*((o.largest, o.observed) for o in operands), strict=True))
    return _fitted(bound * count, (granule, granule), peak, count)


def _fitted(bound: float, lows: tuple[int, int], peak: float, terms: int) -> Window:
    """bound: of any sum; lows: exact for the formats (what tables of whole units need), exact for these constants;
    peak: of one product expected; terms: how many may be added. Exact if possible, proven if possible."""
    wide, expected = WIDTHS[-1], math.frexp(peak)[1]
    guard = max(1, (terms - 1).bit_length())
    for low in lows:
        for bits in WIDTHS:
            if bound == 0.0 or math.ldexp(bound, -low) < 2.0 ** (bits - 1):
                return Window(bits, low)
        if low + wide - 1 - guard >= expected + SMALL_MARGIN:
            return Window(wide, low, guard)
    top = math.frexp(bound)[1]  # bound < 2**top
    low = top - (wide - 1)
    if bound + math.ldexp(terms, low) >= 2.0**top:  # each cut may add one unit
        low += 1
    if low <= expected - FINE:
        return Window(wide, low)
    return Window(wide, max(lows[1], expected + MARGIN - (wide - 1 - guard)), guard)
