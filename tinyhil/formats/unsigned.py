"""Fixed point without a sign: real = code * 2**exponent, codes from 0 to 2**bits - 1.

`fixed2u` to `fixed8u` give it to the results that can not be below zero whatever the input is
(tinyhil/compiler/never_negative.py), which have a bit more than with a sign; all else is `fixed2` to `fixed8`. Below 8
bits a code is stored as a signed byte, which every kernel reads already. Whole numbers of 32 bits (energies and
magnitudes of a spectrum) are named by no assignment: operators state them (tinyhil/ops/whole.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tinyhil.formats import fixed
from tinyhil.formats.fixed import Fixed, exponent_for
from tinyhil.formats.format import NamedFormat

TITLE = "Fixed point without a sign"  # of the family, in docs/formats.md
WIDTHS = range(2, 9)


@dataclass(frozen=True, slots=True)
class Unsigned(Fixed):
    """Fixed-point format of a tensor of numbers that are never below zero."""

    @property
    def lowest(self) -> int:
        return 0

    @property
    def highest(self) -> int:
        return (1 << self.bits) - 1

    @property
    def c_type(self) -> str:
        return f"hil::Unsigned<{self.bits}>" if self.bits <= 8 else f"uint{self.bits}_t"

    @property
    def is_unsigned_byte(self) -> bool:
        return self.bits == 8

    @property
    def largest(self) -> float:
        return float(self.highest)

    def fitted(self, magnitude: float) -> Unsigned:
        return self.scaled(exponent_for(magnitude, self.bits + 1))

    def __str__(self) -> str:
        kind = f"fixed{self.bits}u" if self.bits <= 8 else f"uint{self.bits}"
        return f"{kind} * 2^{self.exponent}"


def fit(magnitude: float, bits: int) -> Unsigned:
    """The finest format of `bits` that holds 0 to `magnitude`."""
    return Unsigned(bits, exponent_for(magnitude, bits + 1))


NAMED = tuple(
    NamedFormat(
        f"fixed{bits}u",
        bits,
        f"fixed{bits}, without a sign where nothing can be below zero",
        partial(fixed.fit, bits=bits),
        fit_positive=partial(fit, bits=bits),
    )
    for bits in WIDTHS
) + tuple(
    NamedFormat(
        f"fixed{bits}pcu",
        bits,
        f"fixed{bits}pc weights beside fixed8u",
        partial(fixed.fit_channels, bits=bits),
        values="fixed8u",
    )
    for bits in (4, 8)
)
