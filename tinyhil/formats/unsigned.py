"""Whole numbers from 0 to 2**32 - 1: energies and magnitudes of a spectrum. No assignment names it; operators that
compute with whole numbers state it (tinyhil/ops/whole.py)."""

from __future__ import annotations

from dataclasses import dataclass

from tinyhil.formats.fixed import Fixed


@dataclass(frozen=True, slots=True)
class Unsigned(Fixed):
    """Fixed point without a sign."""

    @property
    def lowest(self) -> int:
        return 0

    @property
    def highest(self) -> int:
        return (1 << self.bits) - 1

    @property
    def c_type(self) -> str:
        return f"uint{self.bits}_t"

    @property
    def largest(self) -> float:
        return float(self.highest)

    def __str__(self) -> str:
        return f"uint{self.bits} * 2^{self.exponent}"
