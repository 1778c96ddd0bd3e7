"""Two's complement fixed point with a power-of-two scale: real = integer * 2**exponent.

The exponent follows Shiftry and MinUn: the smallest one for which the largest magnitude
stays below 2**(bits - 1 + exponent), so a profiled value saturates only if it lies within half a step of that end.

Rounding, everywhere: to nearest, ties towards plus infinity, floor((x + half) / step). NaN encodes to 0, counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from tinyhil.formats.exact import Exact
from tinyhil.formats.format import CODED, INTEGER, BinaryPoint, Domain, Format, NamedFormat, Rounding, Rule

TITLE = "Fixed point"  # of the family, in docs/formats.md
WIDTHS = (*range(2, 17), 32)
Integers = TypeVar("Integers", int, np.ndarray)


def shifted(integers: Integers, shift: int) -> Integers:
    """Divided by 2**shift and rounded; exact for a negative shift."""
    return (integers + (1 << (shift - 1))) >> shift if shift > 0 else integers << -shift


@dataclass(frozen=True, slots=True)
class Fixed(BinaryPoint):
    """Fixed-point format of one tensor: `bits` wide, scaled by 2**`exponent`."""

    bits: int
    exponent: int

    @property
    def lowest(self) -> int:
        return -(1 << (self.bits - 1))

    @property
    def highest(self) -> int:
        return (1 << (self.bits - 1)) - 1

    @property
    def rounding(self) -> Rounding:
        return Rounding(Rule.FIXED, {"lowest": self.lowest, "highest": self.highest})

    @property
    def domain(self) -> Domain:
        """Products of 32-bit operands need the window of the coded formats."""
        return INTEGER if self.bits <= 16 else CODED

    @property
    def c_type(self) -> str:
        plain = {8: "int8_t", 16: "int16_t", 32: "int32_t"}
        return plain.get(self.bits, f"hil::Fixed<{self.bits}>")

    @property
    def largest(self) -> float:
        return float(-self.lowest)

    def encode(self, values: np.ndarray, residue: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        values = np.asarray(values, np.float64)
        lost = np.isnan(values)
        if lost.any():
            values = np.where(lost, 0.0, values)
        integers = np.floor(values + 0.5)
        if residue is not None:  # a tie that is none, from below
            integers = integers - ((values + 0.5 == integers) & (residue < 0))
        clipped = np.minimum(np.maximum(integers, self.lowest), self.highest)
        return clipped.astype(np.int64), (clipped != integers) | lost

    def requantize(self, accumulator: np.ndarray | Exact, shift: int) -> tuple[np.ndarray, np.ndarray]:
        """Integers stay integers; they must keep 2**(shift - 1) of headroom, a negative shift is exact."""
        if isinstance(accumulator, Exact) or accumulator.dtype.kind == "f" or self.domain != INTEGER:
            return Format.requantize(self, accumulator, shift)
        rounded = shifted(accumulator, shift)
        clipped = np.minimum(np.maximum(rounded, self.lowest), self.highest)
        return clipped, clipped != rounded

    def fitted(self, magnitude: float) -> Fixed:
        return self.scaled(exponent_for(magnitude, self.bits))

    def __str__(self) -> str:
        return f"fixed{self.bits} * 2^{self.exponent}"


@dataclass(frozen=True, slots=True)
class PerChannel(Fixed):
    """Weights of a layer that get an exponent for each output channel; elsewhere like any fixed point."""

    @property
    def is_per_channel(self) -> bool:
        return True

    def __str__(self) -> str:
        return f"fixed{self.bits}pc * 2^{self.exponent}"


@dataclass(frozen=True, slots=True)
class PerGroup(PerChannel):
    """Weights whose integers and scales, of groups along the axis that a layer sums over, the model states
    (tinyhil/ops/groups.py)."""

    @property
    def is_per_group(self) -> bool:
        return True

    def __str__(self) -> str:
        return "the model's integers and scales"


def exponent_for(magnitude: float, bits: int) -> int:
    """Smallest exponent with magnitude < 2**(bits - 1 + exponent); 1 - bits for a tensor of zeros."""
    if magnitude == 0.0:
        return 1 - bits
    _, power = math.frexp(magnitude)  # magnitude = m * 2**power, 0.5 <= m < 1, so magnitude < 2**power
    return power - (bits - 1)


def fit_channels(magnitude: float, bits: int) -> PerChannel:
    """The format with a scale per channel that holds `magnitude`."""
    return PerChannel(bits, exponent_for(magnitude, bits))


def fit_groups(magnitude: float) -> PerGroup:
    """The format of weights with stated scales of groups, of which `magnitude` is the largest."""
    return PerGroup(16, exponent_for(magnitude, 16))


def fit(magnitude: float, bits: int) -> Fixed:
    """The finest format of `bits` that holds `magnitude`."""
    return Fixed(bits, exponent_for(magnitude, bits))


NAMED = tuple(
    NamedFormat(
        f"fixed{bits}", bits, f"{bits}-bit two's complement, power-of-two scale per tensor", partial(fit, bits=bits)
    )
    for bits in WIDTHS
) + tuple(
    NamedFormat(
        f"fixed{bits}pc",
        bits,
        f"{bits}-bit weights with a power-of-two scale per output channel, beside {beside}",
        partial(fit_channels, bits=bits),
        values=beside,
    )
    for bits, beside in ((4, "fixed8"), (8, "fixed8"), (16, "fixed16"))
)
