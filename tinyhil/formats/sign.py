"""One bit: a value's sign. real = code * 2**exponent with the codes -1 and 1; weights beside it are -s and s.

The result of an operation is 1 where the exact number is not below zero, else -1: nothing is rounded before. No number
is out of range; NaN encodes to 1, counted. Layers of such values and binary weights count differing bits
(tinyhil/passes/binary_layers.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tinyhil.formats.codebook import binary
from tinyhil.formats.format import INTEGER, BinaryPoint, Domain, NamedFormat, Rounding, Rule

TITLE = "Signs"  # of the family, in docs/formats.md


@dataclass(frozen=True, slots=True)
class Sign(BinaryPoint):
    """Values -2**`exponent` and 2**`exponent`."""

    exponent: int = 0

    @property
    def bits(self) -> int:
        """Of information: a weight's bit; in the arena a sign is a byte."""
        return 1

    @property
    def packed_bits(self) -> int:
        """Two's complement, as the codes of all integers."""
        return 2

    @property
    def lowest(self) -> int:
        return -1

    @property
    def highest(self) -> int:
        return 1

    @property
    def is_sign(self) -> bool:
        return True

    @property
    def rounding(self) -> Rounding:
        return Rounding(Rule.SIGN, {"lowest": self.lowest, "highest": self.highest})

    @property
    def domain(self) -> Domain:
        return INTEGER

    @property
    def c_type(self) -> str:
        return "hil::Signed"

    @property
    def largest(self) -> float:
        return 1.0

    def encode(self, values: np.ndarray, residue: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        values = np.asarray(values, np.float64)
        below = values < 0
        if residue is not None:
            below = below | ((values == 0) & (residue < 0))
        return np.where(below, -1, 1).astype(np.int64), np.isnan(values)

    def fitted(self, magnitude: float) -> Sign:
        return fit(magnitude)

    def __str__(self) -> str:
        return f"sign * 2^{self.exponent}"


def fit(magnitude: float) -> Sign:
    """The power of two nearest to `magnitude`: 1 for what a hard tanh limits."""
    return Sign(round(math.log2(magnitude)) if magnitude > 0 else 0)


NAMED = (NamedFormat("sign", 1, "-1 and 1; weights beside it are binary", fit, vectors="fixed16", fit_values=binary),)
