"""What the numbers of a board mean: measured, or what its emulator can promise (docs/emulators.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tinyhil.harness.settings.config import Boards, BoardSpec
from tinyhil.harness.settings.emulator_entry import Emulator

HOST = "wall time of this computer; function only"
MEASURED = "measured"
MODELLED = "modelled: the crossbars alone; outputs are those of every single reading"
MEANINGS = {
    "exact cycles": "the chip takes exactly these cycles",
    "exact instructions, modelled cycles": "instructions as on the chip; cycles from a model (`hil docs cycle_model`)",
    "exact instructions": "instructions as on the chip; nothing is said of cycles or seconds",
    "function only": "outputs are right or wrong; times say nothing",
}


def fidelity_of(board: BoardSpec, emulated: bool) -> str:
    """The statement that goes into a record."""
    if board.hardware is not None:
        return MODELLED
    if board.is_host:
        return HOST
    emulator = board.chip.emulator
    return emulator.fidelity if emulated and emulator is not None else MEASURED


def statements(boards: Boards) -> Iterator[str]:
    """A line per board and emulator, then what the statements mean."""
    for board in boards.entries.values():
        chip = board.chip
        if board.is_host:
            yield _line(board.name, "this computer", fidelity_of(board, emulated=False))
        if chip.emulator is not None:
            yield _line(board.name, _program(chip.emulator), chip.emulator.fidelity + _known(chip.emulator))
        for name, emulator in chip.cross_checks.items():
            yield _line(board.name, f"{_program(emulator)} (--emulator {name})", emulator.fidelity)
    yield _line("any", "a real board", MEASURED)
    yield ""
    for fidelity, meaning in MEANINGS.items():
        yield f"{fidelity}: {meaning}"


def error_band(emulator: Emulator) -> str:
    """How far modelled cycles may be from the chip's; empty if none are modelled."""
    if emulator.fidelity != "exact instructions, modelled cycles":
        return ""
    if emulator.error is None:
        return "never held against hardware"
    return f"within {100 * emulator.error:.0f} % of hardware"


def _known(emulator: Emulator) -> str:
    band = error_band(emulator)
    return f", {band}" if band else ""


def _program(emulator: Emulator) -> str:
    return Path(emulator.program).name


def _line(board: str, emulator: str, fidelity: str) -> str:
    return f"{board:11} {emulator:32} {fidelity}"
