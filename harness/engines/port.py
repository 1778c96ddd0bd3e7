"""What the ends of an engine take and give: a type of numbers, for integers with a scale and a zero point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyhil.errors import ConfigError

TYPES = {"float32": "<f4", "int8": "i1", "uint8": "u1", "int16": "<i2"}
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
        if name not in TYPES or bool(rest) == (name == "float32") or len(rest) > 2 or not 0 < scale < float("inf"):
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

    def __str__(self) -> str:
        return self.type if self.type == "float32" else f"{self.type} {self.scale:.9g} {self.zero}"
