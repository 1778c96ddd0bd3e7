"""What a number format is. A tensor in format F holds codes; real = F.decode(code) * 2**F.exponent.

Four domains of arithmetic, in which kernels load operands:
- integer: a code stands for an integer of at most 16 bits; sums are exact integers.
- coded: a code stands for mantissa * 2**n (posit, minifloat); sums are exact in a window placed at compile time.
- single: IEEE single precision in element order.
- affine: a code stands for scale * (code - zero); sums are integers, scales a multiplier and a shift.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from tinyhil.formats.exact import Exact


class Domain(StrEnum):
    """A domain of arithmetic."""

    INTEGER = "integer"
    CODED = "coded"
    SINGLE = "single"
    AFFINE = "affine"


INTEGER, CODED, SINGLE, AFFINE = Domain


class Rule(StrEnum):
    """How a result is rounded to a format, as the batch engine knows them (search/engine/batch_store.hpp)."""

    FIXED = "fixed"
    POSIT = "posit"
    FLOATING = "floating"
    AFFINE = "affine"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Rounding:
    """A rule and its figures: names and values of fields of the engine's record of a tensor."""

    rule: Rule
    figures: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


def floating(mantissa_bits: int, granule: int, largest: float, *, has_nan: bool) -> Rounding:
    """Of a family of floating-point numbers."""
    figures = {"mantissa": mantissa_bits, "granule": granule, "has_nan": int(has_nan), "largest": largest}
    return Rounding(Rule.FLOATING, figures)


class Format(ABC):
    """One tensor's format: a frozen dataclass of a family's file. `exponent` scales the whole tensor by a power of two.

    What is abstract every family must say (Python names what is missing); the rest has an answer that holds for formats
    which are decoded before they are computed with. Nobody asks which class a format is: what differs is asked here.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # fields of most families: dataclasses take a base's property for a field's default

        @property
        def bits(self) -> int:
            """Width of a code."""

        @property
        def exponent(self) -> int: ...

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """In which arithmetic kernels compute with it: integer, coded, single or affine (docs/numerics.md)."""

    @property
    @abstractmethod
    def c_type(self) -> str:
        """The C++ element type."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest decoded value."""

    @property
    @abstractmethod
    def smallest(self) -> float:
        """The smallest positive decoded value."""

    @property
    @abstractmethod
    def granule(self) -> int:
        """Every decoded value is a multiple of 2**granule."""

    @abstractmethod
    def decode(self, codes: np.ndarray) -> np.ndarray:
        """float64, exact, without the tensor's exponent."""

    @abstractmethod
    def encode(self, values: np.ndarray, residue: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(int64 codes, saturated mask): one rounding. `residue` has the sign of what float64 `values` leave out."""

    @abstractmethod
    def fitted(self, magnitude: float) -> Format:
        """A format of this kind for another tensor, of the largest magnitude `magnitude`."""

    def scaled(self, exponent: int) -> Self:
        """This format with another tensor exponent."""
        return cast(Self, replace(cast(Any, self), exponent=exponent))

    # ---- codes

    @property
    def storage_bytes(self) -> int:
        """Bytes of one element in RAM: 1, 2 or 4."""
        return 1 if self.bits <= 8 else 2 if self.bits <= 16 else 4

    @property
    def lowest(self) -> int:
        """The lowest code; below 0 where codes are stored as signed integers."""
        return 0

    @property
    def highest(self) -> int:
        """The highest code."""
        return (1 << self.bits) - 1

    @property
    def grid(self) -> tuple[float, int] | None:
        """(scale, zero point) where codes are evenly spaced: real = scale * (code - zero). None where they are not."""
        return None

    @property
    def minus_zero(self) -> int | None:
        """A second code that decodes to 0, if a zero's sign is kept in one."""
        return None

    @property
    def significant_bits(self) -> int:
        """Of the largest weights of a layer, sign included."""
        return min(self.bits, 16)

    @property
    def packed_bits(self) -> int:
        """Bits of a constant's code in flash."""
        return self.bits

    # ---- arithmetic

    @property
    def is_binary_point(self) -> bool:
        """Whether a code is the number itself, an integer in units of 2**exponent: sums are shifted into the format."""
        return False

    @property
    def is_sign(self) -> bool:
        """Whether the sign of a number is all that is kept of it."""
        return False

    @property
    def is_unsigned_byte(self) -> bool:
        """Whether codes need all of a byte without a sign, which kernels made for signed bytes can not read."""
        return False

    @property
    def is_per_channel(self) -> bool:
        """Whether weights of a layer get an exponent for each output channel."""
        return False

    @property
    def is_per_group(self) -> bool:
        """Whether they have scales for groups along the axis that a layer sums over."""
        return False

    def coarser(self, exponent: int) -> Format:
        """The format for the same constant in units of at least 2**exponent."""
        return self.scaled(exponent)

    def requantize(self, accumulator: np.ndarray | Exact, shift: int) -> tuple[np.ndarray, np.ndarray]:
        """accumulator * 2**-shift in this format with one rounding; see tinyhil/formats/codec.py."""
        if isinstance(accumulator, Exact):
            return self.encode(np.ldexp(accumulator.value, -shift), accumulator.residue)
        value = accumulator.astype(np.float64)
        if accumulator.dtype.kind == "f":
            return self.encode(np.ldexp(value, -shift))
        return self.encode(np.ldexp(value, -shift), np.sign(accumulator - value.astype(np.int64)))

    @property
    def rounding(self) -> Rounding | None:
        """How the batch engine rounds to this format; None where it can not (constants, or rules of a new family)."""
        return None

    # ---- C++ text

    def flash_operand(self, name: str) -> str:
        """How kernels read a constant of this format that the generator named `name`."""
        return f"hil::packed<{self.c_type}>({name})" if self.bits < 8 else f"hil::flash({name})"

    @property
    def entries_in_flash(self) -> tuple[str, tuple[int, ...]] | None:
        """C++ type and values of a table that follows a constant's codes, which are packed then."""
        return None

    def as_real(self, operand: str) -> str:
        """An operand for a kernel that was not made for these codes: an expression that decodes, or the operand."""
        return operand

    def result_shift(self, shift: int) -> str | None:
        """The C++ argument that rounds a kernel's result by `shift` where a plain shift does not do."""
        return None

    def from_float(self, c_type: str, value: str) -> str:
        """C++: the code of a float expression."""
        return f"hil::quantized<{c_type}>({value}, {self.exponent})"


class BinaryPoint(Format):
    """Codes that are the numbers themselves: integers in units of 2**`exponent`."""

    __slots__ = ()

    @property
    def grid(self) -> tuple[float, int]:
        return 2.0**self.exponent, 0

    @property
    def is_binary_point(self) -> bool:
        return True

    @property
    def smallest(self) -> float:
        return 1.0

    @property
    def granule(self) -> int:
        return 0

    def decode(self, codes: np.ndarray) -> np.ndarray:
        return np.asarray(codes).astype(np.float64)


def float_bits(value: float) -> int:
    """A float32 as kernels take it for a parameter: its bits."""
    return int(np.array(value, np.float32).view(np.uint32))


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format before its scale is known: the name users write, and how it is fitted to a tensor's magnitude.

    `values` names the format of run-time values when this one is for constants only, `vectors` that of constants that
    are no matrices (biases, states) when this one holds too little for them; empty otherwise. `fit_values` is given
    where the elements of a constant decide, not its magnitude alone, `fit_range` where both ends of a run-time value's
    range do, `fit_positive` where run-time values that can not be below zero have another format.
    """

    name: str
    bits: int
    summary: str
    fit: Callable[[float], Format]
    values: str = ""
    fit_values: Callable[[np.ndarray], Format] | None = None
    fit_range: Callable[[float, float], Format] | None = None
    fit_positive: Callable[[float], Format] | None = None
    vectors: str = ""
