"""A new chip, as docs/architecture.md says it is made: the steps gone through for one that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.hil_command import hil, record_of
from tests.wire_bench import ROOT
from tinyhil.harness.settings.config import load_boards
from tinyhil.passes.variants import ARM

PAGE = (ROOT / "docs" / "architecture.md").read_text()
STEPS = PAGE.split("## A new chip, step by step")[1].split("\n## ")[0]
CHIPS_THERE = sorted({board.chip.hal for board in load_boards().entries.values() if not board.is_host})


def test_the_page_names_the_steps_in_order() -> None:
    assert re.findall(r"^(\d)\. ", STEPS, re.MULTILINE) == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("chip", CHIPS_THERE)
def test_every_chip_there_is_has_what_the_steps_name(chip: str) -> None:
    files = re.findall(r"`(firmware/hal/<chip>/[\w<>.]+)`", STEPS)
    boards = [board for board in load_boards().entries.values() if not board.is_host and board.chip.hal == chip]
    assert len(files) >= 2
    arm = boards[0].chip.compiler == "arm-none-eabi-gcc"
    for name in files:
        if name.endswith(".ld") and not arm:
            continue
        assert (ROOT / name.replace("<chip>", chip)).is_file(), name
    for board in boards:
        assert f"| {board.name} |" in (ROOT / "docs/emulators.md").read_text() or board.chip.crossbars is not None
        assert (ROOT / f"firmware/platform/boards/{board.name}.json").is_file()


def test_the_cores_that_are_arranged_for_are_known_ones() -> None:
    cores = {board.chip.core for board in load_boards().entries.values()}
    assert set(ARM) <= cores


MADE_UP = """chips:
  madeup_m4:
    core: cortex-m4
    machine: -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16
    hal: stm32l4r5
    flash_bytes: 1048576
    ram_bytes: 327680
    stack_reserve_bytes: 2048
    clock_hz: 120000000
    compiler: arm-none-eabi-gcc
    load: bin
    tick: cycles
    uart: {name: LPUART1}
    emulator:
      program: emulators/cortexm/build/armsim
      fidelity: exact instructions, modelled cycles
      args: [--chip, stm32l4r5, --image, "{image}", --link, "{link}", --trace, "{trace}"]
boards:
  madeup: {title: Made up, chip: madeup_m4, reset: on_start, upload: none, gate: PB3}
"""


@pytest.mark.slow
def test_the_steps_lead_to_a_board_that_runs(tmp_path: Path) -> None:
    """Its folder is another chip's: what is tried is the entry, the build, the arrangement, the emulated board."""
    (tmp_path / "boards.yaml").write_text(MADE_UP)
    run = ("run", "--model", "digits_cnn", "--format", "fixed8", "--samples", 2, "--json")
    record = record_of(hil(*run, "--board", "madeup", "--boards-file", "boards.yaml", cwd=tmp_path))
    assert (record["board"], record["bit_exact"]) == ("madeup", True)
    assert record["provenance"]["image_hash"]
