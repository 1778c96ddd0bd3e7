"""The regulator of an STM32H747's core: written once, only if the board file says how the board is wired."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hil_command import hil, record_of
from test_emulator_cortexm import ARMSIM, H747, Board, compiler_command, read_words
from wire_bench import ROOT

from tinyhil.errors import ConfigError
from tinyhil.harness.build.platformio import MANIFESTS
from tinyhil.harness.settings.config import parse_boards

AFTER_RESET, SMPS, LDO = 0x46, 0x44, 0x42


def program(folder: Path, *defines: str) -> Path:
    elf = folder / "supply.elf"
    subprocess.run([*compiler_command(H747, "supply", elf), *defines], check=True)
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", elf, elf.with_suffix(".bin")], check=True)
    return elf.with_suffix(".bin")


def boards_file(folder: Path, supply: str, board: str = "h747") -> Path:
    """boards.yaml with another supply for one board."""
    path = folder / "boards.yaml"
    lines = (ROOT / "boards.yaml").read_text().splitlines()
    at = lines.index(f"  {board}:", lines.index("boards:")) + 1
    entry = range(at, next((i for i in range(at, len(lines)) if not lines[i].startswith("    ")), len(lines)))
    lines = [line for i, line in enumerate(lines) if i not in entry or "supply:" not in line]
    path.write_text("\n".join([*lines[:at], f"    supply: {supply}", *lines[at:], ""]))
    return path


@pytest.mark.parametrize(
    ("said", "wired", "expected"),
    [(None, "smps", AFTER_RESET), ("SMPS", "smps", SMPS), ("LDO", "ldo", LDO)],
    ids=["nothing said", "smps", "ldo"],
)
def test_the_register_takes_what_the_board_file_says_and_no_second_write(
    said: str | None, wired: str, expected: int, tmp_path: Path
) -> None:
    image = program(tmp_path, *([f"-DHIL_SUPPLY_{said}"] if said else []))
    board = Board(H747, image, tmp_path, "--supply", wired)
    with board.open() as port:
        assert read_words(port, 1) == [expected]
        port.write(b"x")  # asks for the LDO
        if said is None:  # the one write is still to be had, and is wrong here
            assert "not the supply this board is wired for" in board.wait_event("fault")["why"]
        else:
            assert read_words(port, 1) == [expected]
    if said:
        with board.open() as port:  # a reset, not a power-on: the register was kept, the firmware leaves it alone
            assert read_words(port, 1) == [expected]
    board.end()


@pytest.mark.parametrize(("said", "wired"), [("SMPS", ["--supply", "ldo"]), ("LDO", ["--supply", "smps"]), ("LDO", [])])
def test_the_wrong_one_disables_the_board(said: str, wired: list[str], tmp_path: Path) -> None:
    board = Board(H747, program(tmp_path, f"-DHIL_SUPPLY_{said}"), tmp_path, *wired)
    assert "write to the power controller" in board.wait_event("fault")["why"]
    board.end()


def test_the_emulator_refuses_another_word() -> None:
    done = subprocess.run(
        [ARMSIM, "--chip", "stm32h747", "--supply", "battery"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "smps or ldo" in done.stderr


def test_a_run_with_a_supply(tmp_path: Path) -> None:
    """An emulated board is wired as its entry says; what the wrong one does is above."""
    arguments = ("run", "--board", "h747", "--model", "digits_mlp", "--samples", 1, "--json")
    assert record_of(hil(*arguments, cwd=tmp_path))["bit_exact"] is True
    ldo = hil(*arguments, "--boards-file", boards_file(tmp_path, "ldo"), cwd=tmp_path)
    assert record_of(ldo)["bit_exact"] is True


def test_a_generated_project_knows_it(tmp_path: Path) -> None:
    done = hil("generate", "digits_mlp", "--out", "p", "--boards-file", boards_file(tmp_path, "ldo"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    defines_of = {
        path.stem: json.loads(path.read_text())["build"]["defines"] for path in tmp_path.glob(f"p/{MANIFESTS}/*.json")
    }
    assert [name for name, names in defines_of.items() if "HIL_SUPPLY_LDO" in names] == ["h747"]
    assert [name for name, names in defines_of.items() if "HIL_SUPPLY_SMPS" in names] == ["nucleo_h745"]


@pytest.mark.parametrize(
    ("board", "supply", "why"),
    [
        ("uno", "smps", "boards.uno.supply: 'smps', but atmega328p lets the firmware choose none"),
        ("h747", "battery", "boards.h747.supply: "),
    ],
)
def test_a_supply_that_cannot_be_is_refused_at_its_line(board: str, supply: str, why: str, tmp_path: Path) -> None:
    path = boards_file(tmp_path, supply, board)
    line = 1 + path.read_text().splitlines().index(f"    supply: {supply}")
    with pytest.raises(ConfigError) as caught:
        parse_boards(path.read_text(), path)
    assert f"boards.yaml:{line}:" in str(caught.value)
    assert why in str(caught.value)
