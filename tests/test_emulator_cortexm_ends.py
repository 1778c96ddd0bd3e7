"""Faults, guards, resets and ends of the emulated Cortex-M boards."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
import serial
import test_emulator_cortexm
from test_emulator_cortexm import (
    ARMSIM,
    DUE,
    H747,
    HANG_S,
    Board,
    Chip,
    Start,
    build_dir,
    compiler_command,
    every_chip,
    program,
    read_exactly,
    read_words,
    stream,
    symbol,
)

start = test_emulator_cortexm.start  # a fixture


@every_chip
def test_linker_refuses_a_stack_that_is_too_small(chip: Chip, tmp_path: Path) -> None:
    command = [*compiler_command(chip, "echo", tmp_path / "x.elf"), "-Wl,--defsym=_min_stack=0x100000"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "less than _min_stack bytes for the stack" in result.stderr


FAULTS = [
    ("f", "write to flash", "write_flash_here"),
    ("u", "read of an unmapped address 0x90000000", "read_unmapped_here"),
    ("i", "undefined instruction", "undefined_here"),
    ("s", "stack overflow", None),
]


@every_chip
@pytest.mark.parametrize(("letter", "why", "place"), FAULTS, ids=[fault[1] for fault in FAULTS])
def test_faults_are_told_with_their_place(start: Start, chip: Chip, letter: str, why: str, place: str) -> None:
    board = start(chip, "faults")
    with board.open() as port:
        assert read_exactly(port, 1) == b"R"
        port.write(letter.encode())
        fault = board.wait_event("fault")
        assert why in fault["why"]
        if place:
            assert int(fault["pc"], 16) == symbol(program(chip, "faults"), place)
        port.timeout = 0.1
        assert port.read(1) == b""  # silent, but alive
    assert said_first(board) == b"R"
    assert board.wait_event("reset")["why"] == "port opened"
    board.end()


def said_first(board: Board) -> bytes:
    """What comes when the port is opened again; one that is closed and opened between two looks of the emulator has not
    been closed for it."""
    for _ in range(30):
        with board.open() as port:
            port.timeout = 1
            if said := port.read(1):
                return bytes(said)
    return b""


DATA_REFUSED, FRAME_REFUSED = 1 << 1 | 1 << 7, 1 << 4  # CFSR: DACCVIOL with MMARVALID, MSTKERR


def check_stack_fault(port: serial.SerialBase, letter: bytes, large_step: int, *, says_why: bool = True) -> None:
    """What the firmware learns when the guard stops a push: the place, if the processor's frame has room above it."""
    port.write(letter)
    cause, pc, _ = read_words(port, 3)
    known = letter == b"l"
    assert cause == (DATA_REFUSED | (0 if known else FRAME_REFUSED) if says_why else 0)
    assert pc == (large_step if known else 0)


@every_chip
@pytest.mark.parametrize("letter", [b"s", b"l"], ids=["small steps", "large step"])
def test_the_guard_stops_the_processor_s_frame_too(start: Start, chip: Chip, letter: bytes) -> None:
    board = start(chip, "stack_fault")
    large_step = symbol(program(chip, "stack_fault"), "large_step_here")
    with board.open() as port:
        assert read_exactly(port, 1) == b"R"
        v6 = "-mcpu=cortex-m0plus" in chip.machine  # has no register that says why
        check_stack_fault(port, letter, large_step, says_why=not v6)
    fault = next(event for event in [*board.events, board.wait_event("fault")] if event["event"] == "fault")
    assert "into the MPU guard" in fault["why"]
    assert (int(fault["pc"], 16) == large_step) == (letter == b"l")
    board.end()


def test_touching_the_power_supply_is_a_fault(start: Start) -> None:
    board = start(H747, "faults")
    with board.open() as port:
        assert read_exactly(port, 1) == b"R"
        port.write(b"p")
        assert "power controller" in board.wait_event("fault")["why"]


@every_chip
def test_firmware_can_reset_the_chip(start: Start, chip: Chip) -> None:
    board = start(chip, "faults")
    with board.open() as port:
        assert read_exactly(port, 1) == b"R"
        port.write(b"r")
        assert read_exactly(port, 1) == b"R"
    assert board.end()["resets"] == 3


@every_chip
def test_opening_the_port_resets_the_board(start: Start, chip: Chip) -> None:
    board = start(chip, "echo")
    for _ in range(3):
        with board.open() as port:
            assert read_exactly(port, 1) == b"R"
    assert board.end()["resets"] == 4


def test_no_autoreset(start: Start) -> None:
    board = start(DUE, "echo", "--no-autoreset")
    with board.open() as port:
        port.write(b"abc")
        assert b"abc" in port.read_until(b"abc")
    assert board.end()["resets"] == 1


@pytest.mark.slow  # judged by the clock, which alone can say it
def test_realtime_keeps_the_pace_of_the_wall(start: Start) -> None:
    board = start(DUE, "echo", "--realtime", "--uart", "true")
    data = bytes(2000)
    with board.open() as port:
        read_exactly(port, 1)
        writer = stream(port, data)
        read_exactly(port, len(data))
        writer.join()
    last = board.end()
    assert 0.9 * 2000 / 11520 < last["cycles"] / DUE.clock_hz <= last["wall_seconds"] * 1.05  # by its own clocks


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_cleanly(start: Start, ending: signal.Signals) -> None:
    board = start(H747, "echo")
    assert board.link.is_symlink()
    board.process.send_signal(ending)
    assert board.wait_event("exit")["resets"] == 1
    assert board.process.wait(HANG_S) == 0
    assert not board.link.is_symlink()


def test_end_of_stdin_ends_it(start: Start) -> None:
    board = start(DUE, "echo")
    board.end()
    assert not board.link.is_symlink()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--chip", "z80"],
        ["--chip", "sam3x8e", "--image", "/nonexistent", "--link", "x"],
        ["--chip", "sam3x8e", "--link"],
        ["--uart", "fast"],
        ["--chip", "sam3x8e", "--image", str(ARMSIM), "--link", "/nonexistent/port"],
        ["--wat"],
    ],
    ids=" ".join,
)
def test_bad_arguments(arguments: list[str], tmp_path: Path) -> None:
    build_dir()
    result = subprocess.run([ARMSIM, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("armsim: ")
