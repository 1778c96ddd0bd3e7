"""The emulated boards with ARM chips: exact counts, modelled cycles, interrupts, faults, ending."""

from __future__ import annotations

import functools
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import serial
from compiled_once import compiling
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from filelock import FileLock
from idling import check_idle

ROOT = Path(__file__).resolve().parent.parent
EMULATOR_DIR = ROOT / "emulators" / "cortexm"
ARMSIM = EMULATOR_DIR / "build" / "armsim"
PROGRAMS = Path(__file__).parent / "firmware_cortexm"
CALIBRATION_TAG = 0x7FFFFFFF
END_OF_SECTION = 0x80000000
HANG_S = 120.0  # nothing is judged by it


@dataclass(frozen=True, slots=True)
class Chip:
    name: str
    machine: tuple[str, ...]
    ram_top: int
    clock_hz: int
    like: str = ""  # the chip whose HAL it has
    options: tuple[str, ...] = ()  # of the linker


DUE = Chip("sam3x8e", ("-mcpu=cortex-m3", "-mthumb"), 0x20088000, 84_000_000)
H747 = Chip("stm32h747", ("-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-d16"), 0x20020000, 64_000_000)
M4 = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
L4R5 = Chip("stm32l4r5", M4, 0x200A0000, 120_000_000)
G0B1 = Chip("stm32g0b1", ("-mcpu=cortex-m0plus", "-mthumb"), 0x20024000, 64_000_000)
M33 = ("-mcpu=cortex-m33", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16")
U575 = Chip("stm32u575", M33, 0x200C0000, 160_000_000)
RP2040 = Chip("rp2040", ("-mcpu=cortex-m0plus", "-mthumb"), 0x20042000, 125_000_000)
NRF52840 = Chip("nrf52840", M4, 0x20040000, 64_000_000)
RP2350 = Chip("rp2350", M33, 0x20082000, 150_000_000)
NRF52840_NANO = Chip("nrf52840_nano", M4, 0x20040000, 64_000_000, "nrf52840", ("-Wl,--defsym=_flash_start=0x10000",))
CHIPS = (DUE, H747, L4R5, G0B1, U575, RP2040, RP2350, NRF52840)
every_chip = pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
both_uarts = pytest.mark.parametrize("uart", ["lifted", "true"])

FLAGS = (
    *("-std=gnu++14", "-O2", "-Wall", "-Wextra", "-Werror", "-ffunction-sections", "-fdata-sections"),
    *("-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"),
    *("--specs=nano.specs", "--specs=nosys.specs", "-nostartfiles", "-Wl,--gc-sections"),
)


@functools.cache
def build_dir() -> Path:
    ARMSIM.parent.mkdir(exist_ok=True)
    with FileLock(ARMSIM.parent / "lock"):  # tests may run in several processes
        subprocess.run(["make", "-s", "-C", EMULATOR_DIR, f"PYTHON={sys.executable}"], check=True)
    return Path(tempfile.mkdtemp(prefix="armsim-"))


def compiler_command(chip: Chip, name: str, elf: Path) -> list[str | Path]:
    hal = chip.like or chip.name
    sources = [PROGRAMS / f"{name}.cpp", *sorted((ROOT / "firmware" / "hal" / hal).glob("*.cpp"))]
    script = ROOT / "firmware" / "hal" / hal / f"{hal}.ld"
    paths = [f"-I{ROOT}", f"-L{ROOT}", f"-T{script}", *chip.options]
    definitions = [f"-DF_CPU={chip.clock_hz}L", "-DHIL_CHIP_" + hal.upper()]
    return ["arm-none-eabi-gcc", *FLAGS, *chip.machine, *definitions, *paths, *sources, "-o", elf]


@functools.cache
def program(chip: Chip, name: str) -> Path:
    """The flash image of a test program; its ELF file lies beside it."""
    elf = build_dir() / f"{name}-{chip.name}.elf"
    command = [str(word) for word in compiler_command(chip, name, elf)[:-2]]
    sources = [word for word in command if word.endswith(".cpp")]
    flags, objects = [word for word in command if word not in sources], list[Path]()
    for source in sources:
        objects.append(elf.with_suffix("") / f"{Path(source).name}.o")
        for step in compiling(flags, str(Path(source).relative_to(ROOT)), ROOT, objects[-1]):
            subprocess.run(step, cwd=ROOT, check=True)
    subprocess.run([*flags, *objects, "-o", elf], check=True)
    image = elf.with_suffix(".bin")
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", elf, image], check=True)
    return image


def symbol(image: Path, name: str) -> int:
    with image.with_suffix(".elf").open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        symbols = table.get_symbol_by_name(name)
    assert symbols
    return int(symbols[0]["st_value"]) & ~1


class Board:
    """A running emulator: its serial port, its events and its trace."""

    def __init__(self, chip: Chip, image: Path, directory: Path, *options: str) -> None:
        self.link = directory / "port"
        self.trace_path = directory / "trace"
        self.events: list[dict[str, Any]] = []
        command: list[str | Path] = [ARMSIM, "--chip", chip.name, "--image", image, "--link", self.link]
        self.process = subprocess.Popen(
            [*command, "--trace", self.trace_path, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.wait_event("ready")

    def wait_event(self, kind: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        watch = threading.Timer(HANG_S, self.process.kill)  # which ends its output
        watch.start()
        try:
            for line in self.process.stdout:
                self.events.append(json.loads(line))
                if self.events[-1]["event"] == kind:
                    return self.events[-1]
        finally:
            watch.cancel()
        raise AssertionError(f"no event {kind!r} among {self.events}")

    def open(self) -> serial.Serial:
        return serial.Serial(str(self.link), 115200, timeout=HANG_S)

    def end(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.close()
        last = self.wait_event("exit")
        assert self.process.wait(HANG_S) == 0
        return last

    def trace(self) -> list[list[int]]:
        """The lines of the last boot: counts start anew with every reset."""
        lines = [[int(word) for word in line.split()] for line in self.trace_path.read_text().splitlines()]
        boots = [0] + [i for i in range(1, len(lines)) if lines[i][1] <= lines[i - 1][1]]
        return lines[boots[-1] :]

    def sections(self) -> dict[int, tuple[int, ...]]:
        """Per tag: instructions and cycles (typical, min, max) without those of an empty section."""
        spans: dict[int, tuple[int, ...]] = {}
        for begin, end in itertools.pairwise(self.trace()):
            if end[0] == begin[0] | END_OF_SECTION:
                spans[begin[0]] = tuple(b - a for a, b in zip(begin[1:], end[1:], strict=True))
        empty = spans[CALIBRATION_TAG]
        return {tag: tuple(a - b for a, b in zip(span, empty, strict=True)) for tag, span in spans.items()}


Start = Callable[..., Board]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    boards: list[Board] = []

    def run(chip: Chip, name: str, *options: str) -> Board:
        directory = tmp_path / str(len(boards))
        directory.mkdir()
        boards.append(Board(chip, program(chip, name), directory, *options))
        return boards[-1]

    yield run
    for board in boards:
        board.process.kill()
        board.process.wait()


def read_exactly(port: serial.Serial, count: int) -> bytes:
    received = port.read(count)
    assert len(received) == count
    return received


def skip_announcement(port: serial.Serial) -> None:
    """Read until the board has been silent for two seconds: it may have announced itself before anybody listened."""
    wait_s, port.timeout = port.timeout, 2.0
    while port.read(100):
        pass
    port.timeout = wait_s


def read_words(port: serial.Serial, count: int) -> list[int]:
    received = read_exactly(port, 4 * count)
    return [int.from_bytes(received[4 * i : 4 * i + 4], "little") for i in range(count)]


def stream(port: serial.Serial, data: bytes) -> threading.Thread:
    thread = threading.Thread(target=port.write, args=(data,))
    thread.start()
    return thread


# Instructions of the section's body: the call, the function as counted in counts.cpp.
COUNTS = {
    1: 1 + 1 + 1000 * 2 + 1,
    2: 1 + 2 + 500 * 6 + 1,
    3: 1 + 2 + 300 * 6 + 1,
    4: 1 + 1 + 100 * 4 + 1,
    5: 64,
}


def run_counts(start: Start, chip: Chip) -> tuple[dict[int, tuple[int, ...]], list[int]]:
    board = start(chip, "counts")
    with board.open() as port:
        cycles = read_words(port, len(COUNTS))
        board.end()
    return board.sections(), cycles


@every_chip
def test_instruction_counts_are_exact(start: Start, chip: Chip) -> None:
    sections, _ = run_counts(start, chip)
    assert {tag: sections[tag][0] for tag in COUNTS} == COUNTS


@every_chip
def test_cycle_counter_follows_the_model_within_its_bounds(start: Start, chip: Chip) -> None:
    sections, counted = run_counts(start, chip)
    for tag, cycles in zip(COUNTS, counted, strict=True):
        _, typical, least, most = sections[tag]
        assert abs(cycles - typical) <= 24, tag  # flash buffers differ around the reads
        assert least <= typical <= most, tag


def test_m3_cycles_are_those_of_the_reference_manual(start: Start) -> None:
    """From the TRM's table 3-1: SUBS 1, BNE taken 1 + P with P from 1 to 3; 16 bytes of loop stay in the buffers."""
    sections, _ = run_counts(start, DUE)
    _, typical, least, _ = sections[1]
    assert 3000 <= least <= 3010
    assert 3000 <= typical <= 3040
    _, straight, least_straight, _ = sections[5]
    assert least_straight == 64
    # 128 bytes are 8 lines of 8 ADDS each: sequential prefetch (5 cycles a line) hides all but the first.
    assert 64 <= straight <= 64 + 8


def test_what_firmware_of_others_asks_an_rp2040_for(start: Start) -> None:
    """As the datasheet says it (2.3.1, 2.8.3); a function that is not there is 0."""
    board = start(replace(RP2040, name="rp2040-foreign", like="rp2040"), "rom")
    with board.open() as port:
        found = read_words(port, 25)
        board.end()
    assert found[:3] == [0xA5A5A500, 0xA5A50000, 0]  # bytes 2 to 4 are copied to 6 to 8
    assert found[3:10] == [5, 15, 6, 0x02C48000, 32, 32, 0]
    of_divider = [0xFFFFFFFF % 7, 0xFFFFFFFF // 7, -2, -14, 0, 1 << 31, 5, -1, -5, 1]
    assert found[10:20] == [word % (1 << 32) for word in of_divider]
    assert found[20:] == [1 << 9, 0, 1 << 9, 1, 0]


@every_chip
def test_two_runs_count_the_same(start: Start, chip: Chip) -> None:
    assert run_counts(start, chip) == run_counts(start, chip)


@every_chip
def test_trace_lines(start: Start, chip: Chip) -> None:
    board = start(chip, "counts")
    with board.open() as port:
        read_words(port, len(COUNTS))
    last_boot = board.trace()
    expected = [CALIBRATION_TAG] * 2 + list(COUNTS)
    assert [line[0] for line in last_boot] == [tag | end for tag in expected for end in (0, END_OF_SECTION)]
    for column in range(1, 5):
        assert [line[column] for line in last_boot] == sorted(line[column] for line in last_boot)
    board.end()


BRIDGES = {  # baud rates; 16U2: 16 MHz / 8 / 17; an ST-LINK hits the rate
    "sam3x8e": 117647,
    "stm32h747": 115200,
    "stm32l4r5": 115200,
    "stm32g0b1": 115107,
    "stm32u575": 115190,
    "rp2040": 115207,
    "rp2350": 115163,
    "nrf52840": 115202,
}


@every_chip
@both_uarts
def test_full_duplex_echo_loses_nothing(start: Start, chip: Chip, uart: str) -> None:
    board = start(chip, "echo", "--uart", uart)
    data = os.urandom(4000)
    with board.open() as port:
        assert read_exactly(port, 1) == b"R"
        writer = stream(port, data)
        assert read_exactly(port, len(data)) == data
        writer.join()
        last = board.end()
    assert last["rx_bytes"] == len(data)
    assert last["overruns"] == 0
    assert last["clock_hz"] == chip.clock_hz
    assert abs(last["baud"] / 115200 - 1) < 0.02
    if uart == "true":
        assert last["cycles"] >= len(data) * 10 * chip.clock_hz // (1.007 * BRIDGES[chip.name])


SCRIPTS = (DUE, H747, G0B1)  # what places constants: in RAM, in tightly coupled memory, behind kernels in RAM


@pytest.mark.parametrize(
    "chip", [pytest.param(c, marks=() if c in SCRIPTS else pytest.mark.slow, id=c.name) for c in CHIPS]
)
@pytest.mark.parametrize("objects", ["aligned", "ample"])
def test_objects_lie_where_they_must(start: Start, chip: Chip, objects: str) -> None:
    board = start(chip, objects)
    with board.open() as port:
        assert read_exactly(port, 1) == b"R"
    board.end()


@every_chip
def test_idling_is_cheap(start: Start, chip: Chip) -> None:
    board = start(chip, "echo")
    with board.open() as port:
        read_exactly(port, 1)
        for _ in range(100):
            port.write(b"x")
            read_exactly(port, 1)
        check_idle(board.process.pid, waits=10, processor_s=0.12)  # each is 50 ms


@pytest.mark.slow  # judged by the clock, which alone can say it
@every_chip
def test_a_round_trip_is_short(start: Start, chip: Chip) -> None:
    board = start(chip, "echo")
    with board.open() as port:
        read_exactly(port, 1)
        seconds = []
        for _ in range(100):
            started = time.perf_counter()
            port.write(b"x")
            read_exactly(port, 1)
            seconds.append(time.perf_counter() - started)
    assert min(seconds) < 0.05  # 0.3 ms where nothing else runs


@every_chip
def test_interrupts_neither_lose_nor_repeat_an_instruction(start: Start, chip: Chip) -> None:
    instructions: dict[int, int] = {}
    series = 0.0
    for i in range(1, 60000):
        series += 1.0 / i
    for count in (1, 11, 601):
        board = start(chip, "interrupted", "--uart", "true")
        data = bytes(i % 251 for i in range(count))
        with board.open() as port:
            assert read_exactly(port, 1) == b"R"
            writer = stream(port, data)
            turns, scaled_series, received, total, scaled = read_words(port, 5)
            writer.join()
            board.end()
        assert (turns, scaled_series) == (1000 * 3 + 1000 * 1, int(series * 1e8))
        assert (received, total, scaled) == (count, sum(data), sum(data))
        instructions[count] = board.sections()[1][0]
    if chip is H747:  # the handler takes the same path for every byte; software floating point does not
        slope = (instructions[601] - instructions[11]) / 590
        assert slope == int(slope)
        assert 10 < slope < 60
    # 2042 NOPs, TST, two ITs, four conditional, SUBS and BNE in each turn
    assert instructions[1] > 2000 * (2042 + 9)


@every_chip
def test_the_wire_is_as_fast_as_the_bridge_beside_it(start: Start, chip: Chip) -> None:
    """Two ends of a frame of ten bits may differ by 2 % each way; half of that is the oscillators'."""
    board = start(chip, "echo")
    with board.open() as port:
        assert read_exactly(port, 1)
        baud = board.end()["baud"]
    assert abs(baud / BRIDGES[chip.name] - 1) < 0.01


@every_chip
@both_uarts
def test_lock_keeps_interrupts_out(start: Start, chip: Chip, uart: str) -> None:
    board = start(chip, "locked", "--uart", uart)
    with board.open() as port:
        assert read_exactly(port, 1) == b"R"
        port.write(b"0123456789")
        before, during, after = read_words(port, 3)
        board.end()
    assert before == during < after


@every_chip
def test_overrun_while_the_receive_interrupt_is_off(start: Start, chip: Chip) -> None:
    board = start(chip, "overrun", "--uart", "true")
    with board.open() as port:
        assert read_exactly(port, 1) == b"R"
        port.write(b"0123456789")
        received, reported = read_words(port, 2)
        last = board.end()
    assert received < 10
    assert reported >= 1
    assert last["overruns"] == 10 - 1 - 1  # the first byte was taken, one waits in the register
    assert received == 2


@every_chip
def test_lifted_bytes_wait_for_the_receiver(start: Start, chip: Chip) -> None:
    board = start(chip, "overrun", "--uart", "lifted")
    with board.open() as port:
        assert read_exactly(port, 1) == b"R"
        port.write(b"0123456789")
        assert read_words(port, 2)[1] == 0
        assert board.end()["overruns"] == 0


@every_chip
def test_painted_watermark_agrees_with_the_lowest_stack_pointer(start: Start, chip: Chip) -> None:
    board = start(chip, "watermark")
    peaks = []
    with board.open() as port:
        assert read_exactly(port, 1) == b"R"
        for depth in (0, 3, 40):
            port.write(bytes([depth]))
            peak, heap = read_words(port, 2)
            assert heap == 0
            peaks.append(peak)
        port.write(bytes([255]))
        peak, heap = read_words(port, 2)
        assert 1000 <= heap <= 4200  # newlib asks for memory in steps
        assert peak == peaks[2]
        lowest = chip.ram_top - board.end()["min_sp"]
    assert peaks == sorted(peaks)
    assert peaks[2] > 40 * 64
    assert 0 <= lowest - peaks[2] <= 8  # the innermost frame may reserve a word that nothing writes
