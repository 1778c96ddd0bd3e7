"""Boards that QEMU emulates: a second opinion on every Cortex-M instruction count, and boards like any other."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import serial
from hil_command import check_failure, hil, record_of, wait_until
from kernel_cases import first_difference, run_on_board
from test_emulator_cortexm import (
    COUNTS,
    DUE,
    FLAGS,
    H747,
    HANG_S,
    PROGRAMS,
    RP2350,
    Board,
    Chip,
    program,
    read_words,
    skip_announcement,
    symbol,
)
from test_emulator_cortexm_ends import check_stack_fault
from test_faults_devices import AT_SAMPLE, crashed_bench
from test_faults_devices import files as files
from test_kernels import as_cases, board_programs, more_board_programs, recurrent
from test_run import SHIPPED, check_all_equal
from wire_bench import ROOT, Collected, powered, run_session

from tinyhil.errors import BoardError, DeviceCrashed
from tinyhil.harness.boards import qemu
from tinyhil.harness.boards.connection import Session
from tinyhil.harness.boards.qemu import QemuBoard
from tinyhil.harness.build import platformio
from tinyhil.harness.measure.crash import explain_crash
from tinyhil.harness.settings.config import Boards, BoardSpec, load_boards
from tinyhil.harness.wire.protocol import QUIET
from tinyhil.harness.wire.stream import Options

SAME_CORE = {
    "qemu_m3": "due",
    "qemu_m7": "h747",
    "qemu_m33": "pico2",
}  # the board of the same core that our own emulator runs
CORES = {"qemu_m3": DUE, "qemu_m7": H747, "qemu_m33": RP2350}
ALLOWED_DIFFERENCE = 3
both = pytest.mark.parametrize("name", SAME_CORE)

pytestmark = pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="no qemu-system-arm: make setup")


@pytest.fixture(scope="module")
def boards() -> Boards:
    return load_boards()


@pytest.fixture(scope="session")
def build_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def compiled(board: BoardSpec, core: Chip, source: Path, folder: Path) -> Path:
    """An ELF of a test program for a QEMU board, with the flags of the other emulator's tests."""
    hal = ROOT / "firmware" / "hal" / board.chip.hal
    elf = folder / f"{source.stem}-{board.name}.elf"
    paths = [f"-I{ROOT}", f"-L{ROOT}", f"-T{hal / board.chip.hal}.ld"]
    defines = [f"-D{name}" for name in (f"F_CPU={core.clock_hz}L", *platformio.defines(board))]
    start = board.chip.flash_start
    paths += [f"-Wl,--defsym=_flash_start={start:#x}"] if start else []
    command = ["arm-none-eabi-gcc", *FLAGS, *core.machine, *defines, *paths, source, *hal.glob("*.cpp"), "-o", elf]
    subprocess.run(command, check=True)
    return elf


@pytest.fixture
def device(request: pytest.FixtureRequest, boards: Boards, tmp_path: Path) -> Iterator[qemu.Connection]:
    """A QEMU board that runs the test program named by the parameter (board, program)."""
    name, source = request.param
    elf = compiled(boards.board(name), CORES[name], PROGRAMS / f"{source}.cpp", tmp_path)
    with qemu.connect(boards.board(name), Session(elf, tmp_path)) as connected:
        yield connected


def runs(source: str) -> Any:
    return pytest.mark.parametrize("device", [(name, source) for name in SAME_CORE], ids=SAME_CORE, indirect=True)


# ---- instruction counts


def counted_by_qemu(board: BoardSpec, source: Path, folder: Path) -> list[int]:
    """What `counts.cpp` reports. It does not wait for a reader, so its output goes to a file."""
    out = folder / "reported"
    emulator = board.chip.emulator
    assert emulator is not None
    command = [emulator.program, *emulator.args, "-kernel", compiled(board, CORES[board.name], source, folder)]
    command += ["-display", "none", "-monitor", "none", "-serial", f"file:{out}"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: out.is_file() and out.stat().st_size >= 4 * len(COUNTS))
    finally:
        process.kill()
        process.wait()
    return np.frombuffer(out.read_bytes(), "<u4").tolist()


@both
def test_counts_are_those_of_the_hand_and_of_our_own_emulator(name: str, boards: Boards, tmp_path: Path) -> None:
    """The same program, linked for each memory map; the loops are counted between two readings on both."""
    source = PROGRAMS / "counts.cpp"
    ours = Board(CORES[name], program(CORES[name], "counts"), tmp_path)
    with ours.open() as port:
        read_words(port, len(COUNTS))
    ours.end()
    first = counted_by_qemu(boards.board(name), source, tmp_path)
    assert first == list(COUNTS.values())
    assert first == counted_by_qemu(boards.board(name), source, tmp_path)  # and again the same
    for tag, count in zip(COUNTS, first, strict=True):
        assert abs(count - ours.sections()[tag][0]) <= ALLOWED_DIFFERENCE


@both
@pytest.mark.parametrize(
    "format_", ["fixed16", *(pytest.param(f, marks=pytest.mark.slow) for f in ("fixed8", "float32", "posit8es1"))]
)
def test_whole_inferences_count_as_on_our_own_emulator(name: str, format_: str, tmp_path: Path) -> None:
    arguments = ("--model", "fastgrnn_har", "--format", format_, "--samples", 3, "--json")
    second = record_of(hil("run", "--board", name, *arguments, cwd=tmp_path))
    first = record_of(hil("run", "--board", SAME_CORE[name], *arguments, cwd=tmp_path))
    assert second["bit_exact"] is first["bit_exact"] is True
    assert second["latency"]["unit"] == "instructions"
    assert second["latency"]["median_us"] is None
    assert second["latency"]["fidelity"] == second["emulator"]["fidelity"] == "exact instructions"
    differences = np.subtract(second["raw"]["ticks"], first["raw"]["instructions"])
    assert len(differences) == 3
    assert abs(differences).max() <= ALLOWED_DIFFERENCE


# ---- a board like any other


@pytest.mark.slow
@both
def test_all_windows(name: str, tmp_path: Path) -> None:
    arguments = ("--board", name, "--model", "fastgrnn_har", "--json")
    check_all_equal(record_of(hil("run", *arguments, cwd=tmp_path)), SHIPPED)


@pytest.mark.parametrize("name", ["qemu_m7", pytest.param("qemu_m3", marks=pytest.mark.slow)])
def test_operators(name: str, boards: Boards, build_cache: Path, tmp_path: Path) -> None:
    programs = {**board_programs(tmp_path), **more_board_programs(tmp_path), "recurrent": recurrent(tmp_path)}
    cases = as_cases(programs, random_rows=1)
    assert first_difference(cases, run_on_board(cases, boards.board(name), build_cache)) == ""


@runs("echo")
def test_no_byte_is_lost(device: qemu.Connection) -> None:
    data = np.random.default_rng(1).integers(0, 256, 4000, np.uint8).tobytes()
    with serial.serial_for_url(device.port, timeout=HANG_S) as port:
        port.write(b"!")
        assert port.read_until(b"!") in (b"R!", b"!")  # it may have announced itself before anybody listened
        for start in range(0, len(data), 500):
            port.write(data[start : start + 500])
            assert port.read(500) == data[start : start + 500]
    totals = device.finish()
    assert totals["instructions"] > 10 * len(data)
    assert totals["emulator_version"][0].isdigit()


@runs("watermark")
def test_the_painted_stack_is_measured(device: qemu.Connection) -> None:
    peaks = []
    with serial.serial_for_url(device.port, timeout=HANG_S) as port:
        skip_announcement(port)
        for depth in (0, 3, 40):
            port.write(bytes([depth]))
            peak, heap = read_words(port, 2)
            assert heap == 0
            peaks.append(peak)
    assert peaks == sorted(peaks)
    assert peaks[2] - peaks[1] == 37 * (peaks[1] - peaks[0]) // 3  # every level takes the same
    assert peaks[2] > 40 * 64


@both
def test_linker_script_and_board_file_agree(name: str, boards: Boards) -> None:
    chip = boards.board(name).chip
    script = (ROOT / "firmware" / "hal" / chip.hal / f"{chip.hal}.ld").read_text()
    sizes = re.findall(r"LENGTH = (?:DEFINED\(_ram_bytes\) \? _ram_bytes : )?(\d+)K", script)
    assert sizes == [str(chip.flash_bytes // 1024), str(chip.ram_bytes // 1024)]


FAULTS = [
    ("qemu_m7", "undefined instruction", "undefined instruction at pc", "sabotage"),
    ("qemu_m3", "stack overflow", "stack overflow into the MPU guard", "descend"),
]
MORE_FAULTS = [
    ("qemu_m3", "bad access", "an address where nothing is 0x90000000 at pc", "sabotage"),
    ("qemu_m7", "stack overflow", "stack overflow into the MPU guard", "descend"),
]


@pytest.mark.parametrize(
    ("name", "what", "words", "function"), [*FAULTS, *(pytest.param(*f, marks=pytest.mark.slow) for f in MORE_FAULTS)]
)
def test_faults_are_those_of_another_model_of_the_processor(
    name: str, what: str, words: str, function: str, files: Path, tmp_path: Path
) -> None:
    """QEMU takes exceptions and guards memory itself: what the firmware's handler says was not made to fit it.

    A stack overflow's place is unknown if the guard stops the processor's own frame too; it is never another place.
    """
    bench, collected = crashed_bench(name, what, files, tmp_path), Collected()
    with (
        powered(bench, tmp_path) as device,
        pytest.raises(DeviceCrashed, match=words) as caught,
        explain_crash(bench.image, bench.board),
    ):
        run_session(bench, device, device.port, Options(QUIET, 5), collected.take)
    unknown = what == "stack overflow" and "its place is unknown" in str(caught.value)
    assert unknown or f", in {function} (wire/session.cpp:" in str(caught.value)
    assert len(collected.results) == AT_SAMPLE


@runs("stack_fault")
@pytest.mark.parametrize("letter", [b"s", b"l"], ids=["small steps", "large step"])
def test_the_guard_stops_the_processor_s_frame_as_on_our_own_emulator(
    device: qemu.Connection, letter: bytes, tmp_path: Path
) -> None:
    (elf,) = tmp_path.glob("stack_fault-*.elf")
    with serial.serial_for_url(device.port, timeout=HANG_S) as port:
        skip_announcement(port)
        check_stack_fault(port, letter, symbol(elf, "large_step_here"))


# ---- QEMU itself


@runs("echo")
def test_an_ended_qemu_is_a_dead_board(device: QemuBoard) -> None:
    device.alive()
    os.kill(device.process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, device.process.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(DeviceCrashed, match="QEMU ended with code -9"):
        device.alive()


def test_qemu_ends_with_whoever_started_it(boards: Boards, tmp_path: Path) -> None:
    elf = compiled(boards.board("qemu_m3"), DUE, PROGRAMS / "echo.cpp", tmp_path)
    code = (
        "import sys, time; from pathlib import Path\n"
        "from tinyhil.harness.boards import qemu; from tinyhil.harness.boards.connection import Session\n"
        "from tinyhil.harness.settings.config import load_boards\n"
        "with qemu.connect(load_boards().board('qemu_m3'), Session(Path(sys.argv[1]), Path(sys.argv[2]))) as device:\n"
        "    print(device.process.pid, flush=True); time.sleep(9999)\n"
    )
    command = [shutil.which("python3", path=str(ROOT / ".venv/bin")) or "python3", "-c", code, str(elf), str(tmp_path)]
    starter = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    os.kill(pid, 0)
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    wait_until(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    """Whether the process does anything: one that nobody has collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def with_emulator(board: BoardSpec, **changes: Any) -> BoardSpec:
    assert board.chip.emulator is not None
    emulator = board.chip.emulator.model_copy(update=changes)
    return board.model_copy(update={"chip": board.chip.model_copy(update={"emulator": emulator})})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"program": "qemu-system-none"}, "qemu-system-none is not installed; type: sudo apt-get install"),
        ({"args": ("-machine", "mps2-none")}, "unsupported machine type"),
    ],
    ids=["not installed", "no such machine"],
)
def test_what_goes_wrong_is_one_line(changes: dict[str, Any], message: str, boards: Boards, tmp_path: Path) -> None:
    board = with_emulator(boards.board("qemu_m3"), **changes)
    with pytest.raises(BoardError, match=message) as caught, qemu.connect(board, Session(tmp_path, tmp_path)):
        pass
    assert len(str(caught.value).splitlines()) == 1


def test_real_time_is_refused(boards: Boards, tmp_path: Path) -> None:
    session = Session(tmp_path, tmp_path, realtime=True)
    with pytest.raises(BoardError, match="no real time"), qemu.connect(boards.board("qemu_m3"), session):
        pass


def test_flashing_is_refused(tmp_path: Path) -> None:
    arguments = ("--board", "qemu_m3", "--model", "digits_mlp", "--samples", 1, "--load", "flash")
    check_failure(hil("run", *arguments, cwd=tmp_path), 3, "no boot loader", "--load direct", logs=True)


@pytest.mark.slow
def test_a_bench_of_instructions_claims_no_seconds(tmp_path: Path) -> None:
    plan = ("--resets", 1, "--inferences", 1, "--results", tmp_path)
    done = hil("bench", "--board", "qemu_m3", "--model", "digits_mlp", *plan, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (last,) = (line for line in done.stdout.splitlines() if line.startswith("median "))
    assert re.match(r"median +[\d,]+ instructions; 95 % over resets", last)
