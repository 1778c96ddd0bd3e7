"""Kernels of the ATmega: assembler against its twins in C++, layers of interleaved weights against numpy."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel_cases import Case, first_difference, run_on_board
from random_models import extreme_inputs
from test_arm_kernels import FORMATS, convolutions, matrices, program_of, residual
from uno_bench import build_firmware, run_to_end

from tinyhil.codegen.arrange import arrange
from tinyhil.harness.config import load_boards


@pytest.mark.parametrize("speed", ["-O2", "-Os"])
def test_assembler_computes_what_its_twins_do(speed: str, tmp_path: Path) -> None:
    lines, _ = run_to_end(build_firmware(tmp_path, "rows", speed))
    assert lines == [" 0 0 0 0 0"]


def cases(folder: Path) -> list[Case]:
    """Layers in the formats in turn, as the Uno has them."""
    found = []
    for number, (name, chain) in enumerate((*matrices(), ("residual", residual()), *list(convolutions())[::6])):
        default = FORMATS[number % len(FORMATS)]
        program = program_of(chain, folder, default)
        found.append(Case(f"{name} {default}", arrange(program, "avr"), extreme_inputs(program, number)))
    return found


def test_layers_of_interleaved_weights_on_the_uno(tmp_path: Path) -> None:
    found = cases(tmp_path)
    interleaved = [case for case in found if any(t.blocks for t in case.program.tensors.values())]
    assert len(interleaved) > len(found) // 2
    assert first_difference(found, run_on_board(found, load_boards().board("uno"), tmp_path / "cache")) == ""
