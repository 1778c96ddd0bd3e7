"""The Nucleos: L4R5ZI, MLPerf Tiny's reference board (Cortex-M4), U575ZI-Q (M33) and G0B1RE (M0+)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.hil_command import hil, record_of
from tests.test_emulator_cortexm import G0B1, L4R5, U575, Board, Chip, compiler_command, program
from tests.wire_bench import ROOT
from tinyhil.harness.boards.flash import TOOLS, identify
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.flash_model import build_image
from tinyhil.harness.settings.config import load_boards

RUN = ("run", "--model", "digits_cnn", "--format", "fixed8", "--samples", 3, "--json")


@pytest.mark.slow
@pytest.mark.parametrize("board", ["nucleo_l4r5", "nucleo_u575", "nucleo_g0b1"])
def test_it_computes_what_the_m7_computes(board: str, tmp_path: Path) -> None:
    other, m7 = (record_of(hil(*RUN, "--board", name, cwd=tmp_path)) for name in (board, "h747"))
    assert other["bit_exact"] is True
    assert other["raw"]["outputs"] == m7["raw"]["outputs"]


@pytest.mark.slow
@pytest.mark.parametrize("board", ["nucleo_l4r5", "nucleo_g0b1"])
def test_it_is_flashed_through_the_emulated_boot_loader_too(board: str, tmp_path: Path) -> None:
    flashed = record_of(hil(*RUN, "--board", board, "--load", "flash", cwd=tmp_path))
    assert flashed["bit_exact"] is True


@pytest.mark.parametrize(
    ("name", "register", "value"),
    [
        ("nucleo_l4r5", "0xe0042000", "0x470"),
        ("nucleo_u575", "0xe0044000", "0x482"),
        ("nucleo_g0b1", "0x40015800", "0x467"),
    ],
)
def test_openocd_is_asked_for_this_chip(name: str, register: str, value: str) -> None:
    board = load_boards().board(name)
    script = Path("/usr/share/openocd/scripts/target") / f"{board.chip.openocd_target}.cfg"
    if not script.is_file():
        pytest.skip("openocd is not installed")
    assert (board.upload, board.reset, board.usb_shared) == ("stlink", "by_probe", True)
    assert f"mrw {register}" in identify(board)
    assert value in identify(board)
    assert TOOLS["stlink"].program == "openocd"


# What a HAL must not forget on a chip: lines of hal.cpp, left out one by one.
FORGOTTEN_L4 = {
    "    reg(PWR_CR2) |= 1u << 9;": "silent",  # the supply of port G
    "    reg(PWR_CR5) &= ~(1u << 8);": "more than 80 MHz without the range 1 boost mode",
    "    reg(FLASH_ACR) = caches | wait_states;\n    wait_for(FLASH_ACR, 15, wait_states);": "wait states are too few",
    "    reg(RCC_CR) |= pll_on;\n    wait_for(RCC_CR, pll_ready, pll_ready);": "the clock chosen is not running",
}
FORGOTTEN_U5 = {
    "    reg(PWR_VOSR) |= range_1;": "never ready",
    "    reg(FLASH_ACR) = prefetch | wait_states;\n    wait_for(FLASH_ACR, 15, wait_states);": "too few",
    "    reg(PWR_VOSR) |= boost;\n    wait_for(PWR_VOSR, boost_ready, boost_ready);": "without voltage range 1",
    "    reg(RCC_CR) |= pll_on;\n    wait_for(RCC_CR, pll_ready, pll_ready);": "the clock chosen is not running",
    "    open_gate(RCC_APB2ENR, 14);": "silent",
}
FORGOTTEN_G0 = {
    "    reg(FLASH_ACR) = prefetch | cache | wait_states;\n    wait_for(FLASH_ACR, 7, wait_states);": "too few",
    "    reg(RCC_CR) |= pll_on;\n    wait_for(RCC_CR, pll_ready, pll_ready);": "the clock chosen is not running",
    "    open_gate(RCC_IOPENR, 0);": "silent",
    "    open_gate(RCC_APBENR1, 17);": "silent",
}
FORGOTTEN = [(L4R5, FORGOTTEN_L4), (U575, FORGOTTEN_U5), (G0B1, FORGOTTEN_G0)]


def forgetful(chip: Chip, file: str, line: str, ends: str, folder: Path) -> None:
    """The echo program without `line` of `file` (in firmware/hal/) ends as it must."""
    program(chip, "echo")  # the emulator is built
    source = (ROOT / "firmware/hal" / file).read_text()
    assert source.count(line) == 1
    altered = folder / "firmware/hal" / file
    altered.parent.mkdir(parents=True)
    altered.write_text(source.replace(line, ""))
    command = compiler_command(chip, "echo", folder / "echo.elf")
    command = [altered if str(word).endswith(f"hal/{file}") else word for word in command]
    subprocess.run([*command[:1], f"-I{folder}", *command[1:], "-Wno-unused"], check=True)
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", folder / "echo.elf", folder / "echo.bin"], check=True)
    board = Board(chip, folder / "echo.bin", folder)
    if ends in ("silent", "never ready"):
        with board.open() as port:
            port.timeout = 0.3
            assert port.read(1) == b""
        board.end()
        return
    assert ends in board.wait_event("fault")["why"]
    board.process.kill()
    board.process.wait()


@pytest.mark.parametrize(
    ("chip", "line", "ends"), [(chip, line, ends) for chip, lines in FORGOTTEN for line, ends in lines.items()]
)
def test_a_hal_that_forgets_a_step_does_not_pass(chip: Chip, line: str, ends: str, tmp_path: Path) -> None:
    forgetful(chip, f"{chip.name}/hal.cpp", line, ends, tmp_path)


@pytest.mark.parametrize("name", ["nucleo_l4r5", pytest.param("nucleo_u575", marks=pytest.mark.slow)])
def test_the_kernels_use_the_dsp_instructions(name: str) -> None:
    boards = load_boards()
    board = boards.board(name)
    request = Request(board=board.name, model="digits_cnn", format="fixed8")
    image = build_image(request, board, boards, default_cache_dir(), print)
    listing = subprocess.run(["arm-none-eabi-objdump", "-d", image.elf], capture_output=True, text=True, check=True)
    assert len(re.findall(r"\tsmlad\b", listing.stdout)) > 4
