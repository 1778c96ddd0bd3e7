"""What a sample takes on microcontrollers whose energy others have measured: their joules per cycle, our cycles."""

from __future__ import annotations

from dataclasses import dataclass

from tinyhil.errors import DoesNotFit
from tinyhil.harness.energy.technology import MeasuredChip, measured_chips
from tinyhil.harness.fit.core_costs import Estimate
from tinyhil.harness.fit.needs import needs_of
from tinyhil.harness.settings.config import Boards
from tinyhil.language.program import Program
from tinyhil.preference import Wish

UNKNOWN_CYCLES = "no image with such layers was measured on this core"


@dataclass(frozen=True, slots=True)
class ChipEnergy:
    """Of one chip: nanojoules a cycle, the least and the most that others measured; `cycles` by the table of `hil fit`,
    with its band; microjoules of a sample, from the least of both to the most. None, and a `reason`, where it does not
    fit or the table knows nothing."""

    name: str
    chip: MeasuredChip
    cycles: Estimate | None
    reason: str = ""

    @property
    def uj(self) -> Estimate | None:
        """Microjoules per sample."""
        if self.cycles is None:
            return None
        least, most = self.chip.nj_per_cycle
        middle = self.cycles.value * (least + most) / 2
        return Estimate(middle / 1e3, self.cycles.low * least / 1e3, self.cycles.high * most / 1e3)


def energy_on_chips(lowered: Program, boards: Boards) -> tuple[ChipEnergy, ...]:
    """Of every chip in the table."""
    return tuple(_on_chip(name, chip, lowered, boards) for name, chip in measured_chips().items())


def _on_chip(name: str, chip: MeasuredChip, lowered: Program, boards: Boards) -> ChipEnergy:
    if chip.board not in boards.entries:
        return ChipEnergy(name, chip, None, f"the boards given have no {chip.board}")
    board = boards.board(chip.board)
    try:
        latency = needs_of(lowered, board, Wish()).latency_us
    except DoesNotFit:
        return ChipEnergy(name, chip, None, "does not fit its RAM")
    if latency is None:
        return ChipEnergy(name, chip, None, UNKNOWN_CYCLES)
    return ChipEnergy(name, chip, latency.times(board.clock_hz / 1e6))
