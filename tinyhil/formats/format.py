"""What a number format is. A tensor in format F holds codes; real = F.decode(code) * 2**F.exponent.

Four domains of arithmetic, in which kernels load operands:
- integer: a code stands for an integer of at most 16 bits; sums are exact integers.
- coded: a code stands for mantissa * 2**n (posit, minifloat); sums are exact in a window placed at compile time.
- single: IEEE single precision in element order.
- affine: a code stands for scale * (code - zero); sums are integers, scales a multiplier and a shift.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np


class Domain(StrEnum):
    """A domain of arithmetic."""

    INTEGER = "integer"
    CODED = "coded"
    SINGLE = "single"
    AFFINE = "affine"


INTEGER, CODED, SINGLE, AFFINE = Domain


class Format(Protocol):
    """One tensor's format. `exponent` scales the whole tensor by a power of two."""

    @property
    def bits(self) -> int:
        """Width of a code."""
        ...

    @property
    def exponent(self) -> int: ...

    @property
    def storage_bytes(self) -> int:
        """Bytes of one element in RAM: 1, 2 or 4."""
        ...

    @property
    def domain(self) -> Domain: ...

    @property
    def c_type(self) -> str:
        """The C++ element type."""
        ...

    @property
    def largest(self) -> float:
        """The largest decoded value."""
        ...

    @property
    def smallest(self) -> float:
        """The smallest positive decoded value."""
        ...

    @property
    def granule(self) -> int:
        """Every decoded value is a multiple of 2**granule."""
        ...

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """float64, exact, without the tensor's exponent."""
        ...

    def encode(self, values: np.ndarray, residue: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(int64 codes, saturated mask): one rounding. `residue` has the sign of what float64 `values` leave out."""
        ...

    def scaled(self, exponent: int) -> Format:
        """This format with another tensor exponent."""
        ...

    def fitted(self, magnitude: float) -> Format:
        """A format of this kind for another tensor, of the largest magnitude `magnitude`."""
        ...


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format before its scale is known: the name users write, and how it is fitted to a tensor's magnitude.

    `values` names the format of run-time values when this one is for constants only; empty otherwise. `fit_values`
    is given where the elements of a constant decide, not its magnitude alone, `fit_range` where both ends of a run-time
    value's range do.
    """

    name: str
    bits: int
    summary: str
    fit: Callable[[float], Format]
    values: str = ""
    fit_values: Callable[[np.ndarray], Format] | None = None
    fit_range: Callable[[float, float], Format] | None = None
