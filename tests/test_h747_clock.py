"""The STM32H747 at 400 MHz: in the order that its manual asks for, at 64 MHz where a step is not granted, and known."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.hil_command import hil, record_of
from tests.test_emulator_cortexm import H747, Board, compiler_command, program, read_exactly
from tests.wire_bench import ROOT
from tinyhil.errors import ConfigError
from tinyhil.harness.settings.config import load_boards, parse_boards

FAST = ("-UF_CPU", "-DF_CPU=400000000L", "-DHIL_SUPPLY_SMPS")
RUN = ("run", "--model", "digits_mlp", "--format", "fixed8", "--samples", 1, "--json")

# What a HAL must not forget: text of clock.hpp, what stands there instead, and what the chip says to that.
WRONG = {
    "raise_voltage() && slow_flash()": ("slow_flash()", "core's clock is too fast for its voltage scale"),
    "return granted(PWR_D3CR, VOSRDY, VOSRDY) && granted(PWR_CSR1, ACTVOS_AND_READY, ACTVOS_AND_READY);": (
        "return true;",
        "core's clock is too fast for its voltage scale",
    ),
    "LATENCY = 2,": ("LATENCY = 1,", "flash wait states are too few"),
    "divide_buses(true);": ("", "AXI clock is too fast"),
    "D2PPRE1_2 | D2PPRE2_2": ("0", "an APB clock is too fast"),
    "return granted(RCC_CR, PLL1RDY, PLL1RDY);": ("return true;", "the clock chosen is not running"),
    "TIMES_50 = 49": ("TIMES_50 = 59", "oscillator is outside of its range"),
    "FROM_8_MHZ = 3u << 2": ("FROM_8_MHZ = 2u << 2", "outside of the range in PLLCFGR"),
    "&& granted(PWR_CSR1, ACTVOSRDY, ACTVOSRDY);": (";", "before the supply is chosen and ready"),
}


def changed(folder: Path, old: str, new: str) -> Path:
    """The image of the echo whose clock.hpp reads `new` instead of `old`."""
    program(H747, "echo")  # the emulator is built
    source = (ROOT / "firmware/hal/stm32h747/clock.hpp").read_text()
    assert source.count(old) == 1
    altered = folder / "firmware" / "hal" / "stm32h747" / "clock.hpp"
    altered.parent.mkdir(parents=True)
    altered.write_text(source.replace(old, new))
    elf = folder / "echo.elf"
    compiler, *rest = compiler_command(H747, "echo", elf)
    subprocess.run([compiler, f"-I{folder}", *rest, *FAST, "-Wno-unused"], check=True)
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", elf, elf.with_suffix(".bin")], check=True)
    return elf.with_suffix(".bin")


def echoes(image: Path, folder: Path, *options: str) -> dict[str, Any]:
    """What the emulator says at its end of a board whose serial port works."""
    board = Board(H747, image, folder, *options)
    with board.open() as port:
        assert read_exactly(port, 1) == b"R"
        port.write(b"abc")
        assert read_exactly(port, 3) == b"abc"
    return board.end()


@pytest.mark.parametrize(("old", "new", "why"), [(old, *rest) for old, rest in WRONG.items()], ids=WRONG)
def test_a_wrong_order_does_not_pass(old: str, new: str, why: str, tmp_path: Path) -> None:
    board = Board(H747, changed(tmp_path, old, new), tmp_path, "--supply", "smps")
    assert why in board.wait_event("fault")["why"]
    board.process.kill()
    board.process.wait()


@pytest.mark.parametrize("uart", ["lifted", "true"])
def test_it_reaches_400_mhz_and_its_port_keeps_its_rate(uart: str, tmp_path: Path) -> None:
    last = echoes(changed(tmp_path, "LATENCY = 2,", "LATENCY = 2 ,"), tmp_path, "--supply", "smps", "--uart", uart)
    assert last["clock_hz"] == 400_000_000
    assert last["baud"] == pytest.approx(115200, rel=0.001)


@pytest.mark.parametrize("old", ["    reg(RCC_CR) |= PLL1ON;", "    reg(PWR_D3CR) |= VOS;"])
def test_a_step_that_is_not_granted_leaves_it_at_64_mhz(old: str, tmp_path: Path) -> None:
    last = echoes(changed(tmp_path, old, ""), tmp_path, "--supply", "smps")
    assert last["clock_hz"] == 64_000_000
    assert last["baud"] == pytest.approx(115200, rel=0.001)


def boards_file(folder: Path, line: str) -> Path:
    path = folder / "boards.yaml"
    text = (
        f"boards:\n  mine:\n    title: mine\n    chip: stm32h747\n    {line}\n    reset: by_probe\n    upload: stlink\n"
    )
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("line", "mhz", "said"),
    [
        ("supply: smps", 400, ""),
        ("clock_hz: 64000000", 64, ""),
        (
            "baud: 115200",
            64,
            "mine: runs at 64 MHz, not at the 400 MHz of its entry in the board file; it takes a board",
        ),
    ],
    ids=["supply said", "64 MHz chosen", "no supply said"],
)
def test_a_run_counts_seconds_at_the_clock_that_the_board_says(line: str, mhz: int, said: str, tmp_path: Path) -> None:
    done = hil(*RUN, "--board", "mine", "--boards-file", boards_file(tmp_path, line), cwd=tmp_path)
    latency = record_of(done)["latency"]
    assert latency["clock_hz"] == mhz * 1_000_000
    assert latency["median_us"] == pytest.approx(latency["median"] / mhz)
    assert ("runs at" in done.stderr) == bool(said)
    assert said in done.stderr


def test_a_clock_that_the_firmware_does_not_set_up_is_refused_at_its_line() -> None:
    chips = (ROOT / "boards.yaml").read_text()
    text = chips.replace("    chip: stm32h747\n", "    chip: stm32h747\n    clock_hz: 480000000\n", 1)
    line = 1 + text.splitlines().index("    clock_hz: 480000000")
    with pytest.raises(ConfigError) as caught:
        parse_boards(text, Path("boards.yaml"))
    assert f"boards.yaml:{line}:" in str(caught.value)
    assert "480000000, but the firmware of stm32h747 sets up 400000000 or 64000000" in str(caught.value)


def test_the_boards_of_the_chip_say_their_supply() -> None:
    boards = load_boards().entries
    assert [boards[name].supply for name in ("h747", "nucleo_h745")] == ["smps", "smps"]
    assert all(board.supply is None for board in boards.values() if not board.chip.supplies)
