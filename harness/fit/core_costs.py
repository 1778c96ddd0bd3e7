"""The table of costs that benchmarks/latency_table.py has fitted to measured images, one for each core."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Estimate:
    """`value`, and between which values all measured images lie, and nine of ten of networks the fit had not seen."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> Estimate:
        """In another unit."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    def apart(self, factor: float) -> Estimate:
        """Off by such a factor more."""
        return Estimate(self.value, self.low / factor, self.high * factor)

    def plus(self, known: float) -> Estimate:
        """With what is known exactly."""
        return Estimate(self.value + known, self.low + known, self.high + known)

    def and_(self, other: Estimate) -> Estimate:
        """Both together."""
        return Estimate(self.value + other.value, self.low + other.low, self.high + other.high)

    def within(self, most: float) -> Estimate:
        """What takes no more than there is."""
        return Estimate(min(self.value, most), min(self.low, most), min(self.high, most))


@dataclass(frozen=True, slots=True)
class CoreCosts:
    """Of one core: cycles and bytes of code by feature (features.py), each with its band; bytes of RAM beside arena and
    input (stack, wire, states of the runtime), apart of images that compute with floats, and of chips that copy kernels
    the share of the code that is in RAM: the least that was measured, the median and the most."""

    images: int
    networks: int
    cycles: Mapping[str, float]
    cycles_band: tuple[float, float]
    code_bytes: Mapping[str, float]
    code_band: tuple[float, float]
    beside_bytes: tuple[float, float, float]
    beside_floats_bytes: tuple[float, float, float]
    copied_code: tuple[float, float, float]

    def cycles_of(self, features: Mapping[str, float]) -> Estimate | None:
        """Of one sample; None where the table knows nothing of a layer's kind."""
        return None if self.unknown(features) else _estimate(self.cycles, self.cycles_band, features)

    def code_of(self, features: Mapping[str, float]) -> Estimate:
        """Bytes of an image without its constants."""
        return _estimate(self.code_bytes, self.code_band, features)

    def copied_of(self, code: Estimate) -> Estimate:
        """Bytes of so much code that lie in RAM, too, where a chip copies kernels."""
        least, median, most = self.copied_code
        return Estimate(code.value * median, code.low * least, code.high * most)

    def unknown(self, features: Mapping[str, float]) -> list[str]:
        """Features of which nothing was measured on this core."""
        return sorted(name for name in features if name not in self.cycles)


def _estimate(costs: Mapping[str, float], band: tuple[float, float], features: Mapping[str, float]) -> Estimate:
    value = sum(costs.get(name, 0.0) * count for name, count in features.items())
    return Estimate(value, value * band[0], value * band[1])


@lru_cache
def costs_of(core: str) -> CoreCosts | None:
    """None for a core that was never measured."""
    cores = json.loads(Path(__file__).with_name("costs.json").read_text(encoding="utf-8"))["cores"]
    return CoreCosts(**cores[core]) if core in cores else None
