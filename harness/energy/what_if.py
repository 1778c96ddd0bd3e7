"""How much a sample's energy depends on each constant of a technology, of which some are choices and none is ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinyhil.harness.energy.counts import Operation
from tinyhil.harness.energy.sample_energy import energy_of
from tinyhil.harness.energy.technology import Technology

CONSTANTS = ("mac_pj", "exponent", "sram_pj_per_bit", "dram_pj_per_bit", "sram_bytes", "reuse")


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Picojoules of a sample if one constant were half of what it is, and twice: `less` and `more`; whole numbers are
    rounded down, to 1 at least, and `exponent` ends at 4, as in a table of one's own."""

    constant: str
    value: float
    halved_pj: float
    doubled_pj: float
    less: float
    more: float


def sensitivities(operations: Sequence[Operation], input_bits: int, technology: Technology) -> tuple[Sensitivity, ...]:
    """Of every constant, the others as they are."""

    def with_(constant: str, value: float) -> float:
        given = {**technology.model_dump(), constant: value}
        return energy_of(operations, input_bits, Technology.model_validate(given)).total_pj

    found = []
    for constant in CONSTANTS:
        value = getattr(technology, constant)
        half = max(value // 2, 1) if isinstance(value, int) else value / 2
        twice = min(2 * value, 4.0) if constant == "exponent" else 2 * value
        found.append(Sensitivity(constant, value, with_(constant, half), with_(constant, twice), half, twice))
    return tuple(found)
