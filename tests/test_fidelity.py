"""What every emulator says of its own numbers: in boards.yaml, `hil boards --fidelity` and the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from hil_command import hil
from wire_bench import ROOT

from tinyhil.errors import BoardError, ConfigError
from tinyhil.harness.boards.fidelity import HOST, MEANINGS, MEASURED, error_band, fidelity_of, statements
from tinyhil.harness.settings.config import load_boards, parse_boards
from tinyhil.harness.settings.emulator_entry import Emulator, Fidelity

BOARDS = load_boards()
EMULATED = [board for board in BOARDS.entries.values() if board.chip.emulator]


def emulators() -> list[tuple[str, str | None, Emulator]]:
    """(board, the name that chooses the emulator or None for the usual one, emulator)."""
    found: list[tuple[str, str | None, Emulator]] = []
    for board in EMULATED:
        assert board.chip.emulator is not None
        found.append((board.name, None, board.chip.emulator))
        found += [(board.name, name, emulator) for name, emulator in board.chip.cross_checks.items()]
    return found


@pytest.mark.parametrize(("board", "name", "emulator"), emulators())
def test_every_emulator_states_its_truth(board: str, name: str | None, emulator: Emulator, tmp_path: Path) -> None:
    chosen = BOARDS.board(board).emulated_by(name)
    assert chosen.chip.emulator == emulator
    assert fidelity_of(chosen, emulated=True) == emulator.fidelity
    assert fidelity_of(chosen, emulated=False) == MEASURED
    program = Path(emulator.program).name
    said = [line for line in statements(BOARDS) if line.startswith(f"{board} ") and program in line]
    band = error_band(emulator) if name is None else ""  # of modelled cycles
    assert bool(band) == (name is None and "modelled" in emulator.fidelity)
    assert any(line.endswith(", ".join(filter(None, (emulator.fidelity, band)))) for line in said)
    row = f"| {board} | {f'`--emulator {name}`' if name else 'usual'} |"
    (documented,) = (line for line in (ROOT / "docs/emulators.md").read_text().splitlines() if line.startswith(row))
    assert documented.endswith(f"| {emulator.fidelity} |")


def test_every_statement_is_explained() -> None:
    assert set(MEANINGS) == set(get_args(Fidelity))
    documentation = (ROOT / "docs/emulators.md").read_text()
    assert all(f"**{fidelity}**" in documentation for fidelity in (*MEANINGS, MEASURED))
    assert fidelity_of(BOARDS.board("host"), emulated=False) == HOST


def test_the_command_prints_them(tmp_path: Path) -> None:
    done = hil("boards", "--fidelity", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.splitlines() == list(statements(BOARDS))


def test_an_unknown_emulator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=r"uno: no emulator named 'qemu'; known: "):
        BOARDS.board("uno").emulated_by("qemu")
    arguments = ("run", "--board", "uno", "--model", "fastgrnn_har", "--emulator")
    assert hil(*arguments, "none", cwd=tmp_path).returncode == 3
    assert hil(*arguments, "avr8js", "--port", "/dev/null", cwd=tmp_path).returncode == 2


def test_an_emulator_without_a_statement_is_a_fault() -> None:
    text = (ROOT / "boards.yaml").read_text().replace("      fidelity: exact cycles\n", "", 1)
    with pytest.raises(ConfigError, match=r"chips.atmega328p.emulator.fidelity: missing"):
        parse_boards(text, Path("boards.yaml"))
