"""The NUCLEO-L4R5ZI, MLPerf Tiny's reference board: a Cortex-M4 that uses the kernels of the M7's DSP instructions."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.hil_command import hil, record_of
from tests.test_emulator_cortexm import L4R5, Board, compiler_command, program
from tests.wire_bench import ROOT
from tinyhil.harness.boards.flash import TOOLS, identify
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.config import load_boards
from tinyhil.harness.job import Request
from tinyhil.harness.measure.flash_model import build_image

RUN = ("run", "--model", "digits_cnn", "--format", "fixed8", "--samples", 3, "--json")


@pytest.mark.slow
def test_it_computes_what_the_m7_computes(tmp_path: Path) -> None:
    m4, m7 = (record_of(hil(*RUN, "--board", name, cwd=tmp_path)) for name in ("nucleo_l4r5", "h747"))
    assert m4["bit_exact"] is True
    assert m4["raw"]["outputs"] == m7["raw"]["outputs"]


@pytest.mark.slow
def test_it_is_flashed_through_the_emulated_boot_loader_too(tmp_path: Path) -> None:
    flashed = record_of(hil(*RUN, "--board", "nucleo_l4r5", "--load", "flash", cwd=tmp_path))
    assert flashed["bit_exact"] is True


def test_openocd_is_asked_for_this_chip() -> None:
    board = load_boards().board("nucleo_l4r5")
    script = Path("/usr/share/openocd/scripts/target") / f"{board.chip.openocd_target}.cfg"
    if not script.is_file():
        pytest.skip("openocd is not installed")
    assert (board.upload, board.reset, board.usb_shared) == ("stlink", "by_probe", True)
    assert "mrw 0xe0042000" in identify(board)
    assert "0x470" in identify(board)
    assert TOOLS["stlink"].program == "openocd"


# What a HAL must not forget on this chip: lines of hal.cpp, left out one by one.
FORGOTTEN = {
    "    reg(PWR_CR2) |= 1u << 9;": "silent",  # the supply of port G
    "    reg(PWR_CR5) &= ~(1u << 8);": "more than 80 MHz without the range 1 boost mode",
    "    reg(FLASH_ACR) = caches | wait_states;\n    wait_for(FLASH_ACR, 15, wait_states);": "wait states are too few",
    "    reg(RCC_CR) |= pll_on;\n    wait_for(RCC_CR, pll_ready, pll_ready);": "the clock chosen is not running",
}


@pytest.mark.parametrize(("line", "ends"), FORGOTTEN.items(), ids=FORGOTTEN.values())
def test_a_hal_that_forgets_a_step_does_not_pass(line: str, ends: str, tmp_path: Path) -> None:
    program(L4R5, "echo")  # the emulator is built
    source = (ROOT / "firmware/hal/stm32l4r5/hal.cpp").read_text()
    assert line in source
    (tmp_path / "hal.cpp").write_text(source.replace(line, ""))
    command = compiler_command(L4R5, "echo", tmp_path / "echo.elf")
    command = [tmp_path / "hal.cpp" if str(word).endswith("stm32l4r5/hal.cpp") else word for word in command]
    subprocess.run([*command, "-Wno-unused"], check=True)
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", tmp_path / "echo.elf", tmp_path / "echo.bin"], check=True)
    board = Board(L4R5, tmp_path / "echo.bin", tmp_path)
    if ends == "silent":
        with board.open() as port:
            port.timeout = 0.3
            assert port.read(1) == b""
        board.end()
        return
    assert ends in board.wait_event("fault")["why"]
    board.process.kill()
    board.process.wait()


def test_the_kernels_use_the_dsp_instructions() -> None:
    boards = load_boards()
    board = boards.board("nucleo_l4r5")
    request = Request(board=board.name, model="digits_cnn", format="fixed8")
    image = build_image(request, board, boards, default_cache_dir(), print)
    listing = subprocess.run(["arm-none-eabi-objdump", "-d", image.elf], capture_output=True, text=True, check=True)
    assert len(re.findall(r"\tsmlad\b", listing.stdout)) > 4
