"""What the ends of an engine take and give: a type of numbers, for integers with a scale and a zero point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyhil.errors import ConfigError, DataError

TYPES = {"float32": "<f4", "int8": "i1", "uint8": "u1", "int16": "<i2"}
LEAST_SCALE, MOST_SCALE = 1e-30, 1e30  # all codes are finite in float32
KNOWN = f"float32, or {'|'.join(name for name in TYPES if name != 'float32')} SCALE ZERO_POINT"


@dataclass(frozen=True, slots=True)
class Port:
    """real = scale * (code - zero); of float32 the codes are the real numbers."""

    type: str
    scale: float = 1.0
    zero: int = 0

    @classmethod
    def parse(cls, text: str) -> Port:
        """The port that a text like `int8 0.5 -3` names; ConfigError if it names none."""
        name, *rest = text.split()
        try:
            scale, zero = (float(rest[0]), int(rest[1])) if rest else (1.0, 0)
        except (IndexError, ValueError):
            scale, zero = 0.0, 0
        is_said = len(rest) == (0 if name == "float32" else 2) and abs(zero) < 1 << 31
        if name not in TYPES or not is_said or not LEAST_SCALE < scale < MOST_SCALE:
            raise ConfigError(f"{text!r} is no type of numbers; write {KNOWN}")
        return cls(name, scale, zero)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of a code on the wire."""
        return np.dtype(TYPES[self.type])

    def codes(self, real: np.ndarray) -> np.ndarray:
        """Real numbers as codes: to nearest, ties to even, clipped to the type."""
        if self.type == "float32":
            return real.astype(self.dtype)
        limits = np.iinfo(self.dtype)
        codes = np.rint(real.astype(np.float64) / self.scale) + self.zero
        return np.clip(codes, limits.min, limits.max).astype(self.dtype)

    def reals(self, codes: np.ndarray) -> np.ndarray:
        """Codes as real numbers, float32."""
        if self.type == "float32":
            return codes.astype(np.float32)
        return ((codes.astype(np.float64) - self.zero) * self.scale).astype(np.float32)

    def reals_of(self, outputs: Sequence[bytes], who: str) -> np.ndarray:
        """What came for each sample as real numbers (samples, elements). DataError names `who` if they are none."""
        sizes = {len(output) for output in outputs}
        if len(sizes) != 1 or min(sizes) % self.dtype.itemsize:
            raise DataError(f"{who}: outputs of {max(sizes)} B are no {self.type} numbers; say of which type they are")
        reals = self.reals(np.array([np.frombuffer(output, self.dtype) for output in outputs]))
        wrong = np.flatnonzero(~np.isfinite(reals).all(axis=1))
        if wrong.size:
            raise DataError(f"{who}: the output of sample {wrong[0]} holds what is no finite number")
        return reals

    def __str__(self) -> str:
        return self.type if self.type == "float32" else f"{self.type} {self.scale:.9g} {self.zero}"
