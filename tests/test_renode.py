"""Renode's boards: the platform files are read and held against the firmware everywhere, and run where Renode is."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
import serial
import yaml
from hil_command import check_failure, hil, record_of
from renode_files import Fault, Platform, Script, read_platform, read_script
from uno_bench import GO, build_firmware
from wire_bench import ROOT

from tinyhil.errors import BoardError, DeviceCrashed
from tinyhil.harness.boards import renode
from tinyhil.harness.boards.connection import Connection, Session
from tinyhil.harness.settings.config import Boards, BoardSpec, load_boards

FOLDER = ROOT / "emulators" / "renode"
GIVEN = frozenset({"$image", "$port"})  # what the driver sets
CHIPS = {"sam3x8e": "due", "stm32h747": "h747"}
AVR = "atmega328p"
BOARDS = CHIPS | {AVR: "uno"}
DWT_INSTRUCTIONS = 64  # Renode's DWT is that close to what was executed; measured: 15
FIDELITY = dict.fromkeys(CHIPS, "function only") | {AVR: "exact cycles"}  # its core is ours
UARTS = {"sam3x8e": ("uart", "UART", "UART_IRQ"), "stm32h747": ("usart1", "USART", "USART_IRQ")}
every_board = pytest.mark.parametrize("chip", BOARDS)
every_chip = pytest.mark.parametrize("chip", CHIPS)
needs_renode = pytest.mark.skipif(shutil.which("renode") is None, reason="no renode in PATH")


@pytest.fixture(scope="module")
def boards() -> Boards:
    return load_boards()


def platform_of(chip: str) -> Platform:
    return read_platform(FOLDER / f"{chip}.repl")


def script_of(chip: str) -> Script:
    return read_script(FOLDER / f"{chip}.resc", GIVEN)


def constants(path: Path) -> dict[str, int]:
    """Every `NAME = number` of a firmware source."""
    found = re.findall(r"\b([A-Z][A-Z0-9_]+) = (0x[0-9A-Fa-f]+|[0-9]+)\b", path.read_text())
    return {name: int(value, 0) for name, value in found}


def registers(chip: str) -> dict[str, int]:
    """Every register address that the chip's firmware can touch."""
    named = constants(ROOT / "firmware/hal" / chip / "hal.cpp") | constants(ROOT / "firmware/hal/cortexm/reg.hpp")
    return {name: value for name, value in named.items() if value >= 0x40000000}


# ---- the files


def test_every_file_belongs_to_a_board(boards: Boards) -> None:
    assert {path.stem for path in FOLDER.glob("*.re*")} == set(BOARDS)
    for chip, name in BOARDS.items():
        emulator = boards.board(name).chip.cross_checks["renode"]
        assert ROOT / emulator.args[0] == FOLDER / f"{chip}.resc"
        assert (emulator.kind, emulator.fidelity) == ("renode", FIDELITY[chip])


@every_chip
def test_every_register_of_the_firmware_is_somewhere(chip: str) -> None:
    platform, named = platform_of(chip), registers(chip)
    assert len(named) > 20
    nowhere = [f"{name} {address:#x}" for name, address in named.items() if platform.what_is_at(address) is None]
    assert nowhere == []
    assert platform.what_is_at(named["DWT_CYCCNT"]) == "dwt"
    assert platform.what_is_at(named["NVIC_ISER"]) == platform.what_is_at(named["MPU_CTRL"]) == "nvic"
    assert platform.what_is_at(named["ITM_STIM0"]) == "ITM"


@every_chip
def test_the_uart_is_the_firmwares(chip: str) -> None:
    platform, named = platform_of(chip), constants(ROOT / "firmware/hal" / chip / "hal.cpp")
    entry, prefix, irq = UARTS[chip]
    uart = platform.entries[entry]
    addresses = [value for name, value in named.items() if name.startswith(prefix) and value >= 0x40000000]
    assert uart.at == min(addresses)
    assert {platform.what_is_at(address) for address in addresses} == {entry}
    assert [(target, pin) for _, target, pin in uart.wires] == [("nvic", named[irq])]
    assert script_of(chip).arguments("connector", "Connect")[0] == f"sysbus.{entry}"


@every_chip
def test_memories_are_those_of_the_linker_script_and_of_the_board_file(chip: str, boards: Boards) -> None:
    platform, spec = platform_of(chip), boards.board(CHIPS[chip]).chip
    memories = [e for e in platform.entries.values() if e.kind == "Memory.MappedMemory"]
    text = (ROOT / "firmware/hal" / chip / f"{chip}.ld").read_text()
    linked = re.findall(r"ORIGIN = (0x[0-9A-Fa-f]+), LENGTH = (?:DEFINED\(_ram_bytes\) \? _ram_bytes : )?(\d+)K", text)
    assert [(e.at, e.size) for e in memories] == [(int(at, 0), 1024 * int(size)) for at, size in linked]
    regions = getattr(spec, "regions", None) or {}
    known = [spec.flash_bytes, spec.ram_bytes, *regions.values()]  # behind them memory for code alone
    assert [e.size for e in memories][: len(known)] == known
    assert int(script_of(chip).arguments("sysbus", "LoadBinary")[1], 0) == memories[0].at
    assert int(script_of(chip).arguments("cpu", "VectorTableOffset")[0], 0) == memories[0].at


@every_chip
def test_clock_and_processor_are_those_of_the_board_file(chip: str, boards: Boards) -> None:
    platform, spec = platform_of(chip), boards.board(CHIPS[chip]).chip
    assert platform.entries["cpu"].settings["cpuType"] == spec.core
    assert int(platform.entries["dwt"].settings["frequency"]) == spec.clock_hz
    assert int(platform.entries["nvic"].settings["systickFrequency"]) == spec.clock_hz
    assert int(script_of(chip).arguments("cpu", "PerformanceInMips")[0]) * 1_000_000 == spec.clock_hz


def test_the_clocks_of_the_due_are_ready() -> None:
    """Each bit of PMC_SR that the firmware waits for is 1, else it would wait for ever."""
    text = (ROOT / "firmware/hal/sam3x8e/hal.cpp").read_text()
    awaited = sum(1 << int(bit) for bit in set(re.findall(r"wait_for\(1u << (\d+)\)", text)))
    (status,) = (tag for tag in platform_of("sam3x8e").tags if tag.name == "PMC_SR")
    assert status.at == registers("sam3x8e")["PMC_SR"]
    assert awaited == status.value == 0x1000B


def test_the_platform_of_the_uno_is_the_chips(boards: Boards) -> None:
    platform, script, spec = platform_of(AVR), script_of(AVR), boards.board("uno").chip
    assert platform.entries["flash"].at == 0
    assert platform.entries["flash"].settings["initialValue"] == "0xFF"  # erased
    assert platform.entries["flash"].size == spec.flash_bytes + 512  # the boot loader's
    assert int(script.arguments("cpu", "PerformanceInMips")[0]) * 1_000_000 == spec.clock_hz
    assert script.arguments("connector", "Connect")[0] == "sysbus.usart0"
    source = "".join(path.read_text() for path in script.sources)
    assert platform.entries["usart0"].at == 0x800000 + int(re.search(r"Usart0 = (0x\w+)", source)[1], 0)  # type: ignore[index]
    assert f"ClockHz = {spec.clock_hz};" in source


def test_the_types_of_the_uno_are_in_its_sources() -> None:
    """Each with the constructor that the platform file uses; every parameter of a class is set, or has a default."""
    platform, script = platform_of(AVR), script_of(AVR)
    assert set(script.sources) == set(FOLDER.glob("*.cs"))
    adapter = script.sources[-1].read_text()
    assert all("using Antmicro" not in path.read_text() for path in script.sources[:-1])
    for entry in (platform.entries["cpu"], platform.entries["usart0"]):
        group, name = entry.kind.split(".")
        body = adapter.split(f"namespace Antmicro.Renode.Peripherals.{group}\n")[1]
        constructor = re.search(rf"public {name}\(([^)]*)\)", body)
        assert f"public class {name} : " in body
        assert constructor is not None
        parameters = [p.split("=")[0].split()[-1] for p in constructor[1].split(",")]
        assert set(parameters) - {"machine"} == set(entry.settings)  # Renode adds the machine


@every_board
def test_the_script_says_when_it_is_done(chip: str) -> None:
    assert script_of(chip).statements[-1] == ("log", renode.READY)
    assert script_of(chip).platform == FOLDER / f"{chip}.repl"


# ---- the checker itself: each of these Renode would refuse, or silently do without

BAD_PLATFORMS = [
    ("cpu: CPU.CortexM @ sysbus", "cpu CPU.CortexM @ sysbus", "not `name: Type @ place`"),
    ('    cpuType: "cortex-m3"\n', "", "needs cpuType"),
    ('"cortex-m3"', '"cortex-m33x"', "no processor cortex-m33x"),
    ("    nvic: nvic", "    nvic: gic", "no gic"),
    ("    -> cpu@0", "    -> cpu", "neither `key: value` nor"),
    ("    -> nvic@8", "    RXRDY -> nvic@8", "has no output RXRDY"),
    ("UART.SAM_USART", "UART.SAM3X_UART", "unknown type UART.SAM3X_UART"),
    ("uartOnlyMode: true", "uartMode: true", "has no parameter uartMode"),
    ("    uartOnlyMode", "  uartOnlyMode", "indent by four blanks"),
    ("    uartOnlyMode: true", "    uartOnlyMode: true\n    uartOnlyMode: true", "uartOnlyMode twice"),
    ("flash: Memory", "sram: Memory", "sram is there already"),
    ("@ sysbus 0x20070000", "@ sysbus 0x000FF000", "overlaps flash"),
    ("@ sysbus 0x20070000", "@ cpu 0x20070000", "belongs on sysbus"),
    ("<0x400E0668 0x4>", "<0x400E0664 0x4>", "PMC_SR overlaps PMC"),
    ("<0x400E0A00 0x200>", "<0x400E0A00>", "not `Tag <address size>"),
    ("sysbus:\n    init:", "sysbus:\n    start:", "neither `key: value` nor"),
    ("sysbus:\n", "bus:\n", "bus is nothing yet"),
]


@pytest.mark.parametrize(("old", "new", "fault"), BAD_PLATFORMS, ids=[bad[2] for bad in BAD_PLATFORMS])
def test_a_bad_platform_is_found(old: str, new: str, fault: str, tmp_path: Path) -> None:
    text = (FOLDER / "sam3x8e.repl").read_text()
    assert old in text
    (tmp_path / "bad.repl").write_text(text.replace(old, new))
    with pytest.raises(Fault, match=re.escape(fault)):
        read_platform(tmp_path / "bad.repl")


BAD_SCRIPTS = [
    ("using sysbus\n", "", "a statement is missing"),
    ("start\n", "start now\n", "not a statement of ours"),
    ("$image 0x80000", "$bin 0x80000", "$bin is never set"),
    ("# Bytes", "// Bytes", "can not read '// Bytes"),
    ("sam3x8e.repl", "sam4s.repl", "no sam4s.repl"),
    ('"wire" false', '"wire"', "not a statement of ours"),
    ("cpu PerformanceInMips 84", "cpu PerformanceInMips 84\ncpu PerformanceInMips 84", "there twice"),
    ('start\nlog "hil: ready"', 'log "hil: ready"\nstart', "ends with `start` and `log`"),
]


@pytest.mark.parametrize(("old", "new", "fault"), BAD_SCRIPTS, ids=[bad[2] for bad in BAD_SCRIPTS])
def test_a_bad_script_is_found(old: str, new: str, fault: str, tmp_path: Path) -> None:
    shutil.copy(FOLDER / "sam3x8e.repl", tmp_path)
    text = (FOLDER / "sam3x8e.resc").read_text()
    assert old in text
    (tmp_path / "bad.resc").write_text(text.replace(old, new))
    with pytest.raises(Fault, match=re.escape(fault)):
        read_script(tmp_path / "bad.resc", GIVEN)


BAD_UNO_SCRIPTS = [
    ("include $ORIGIN/AvrCore.cs", "include $ORIGIN/Avr.cs", "no Avr.cs"),
    ("$ORIGIN/AvrCore.cs\n", "$ORIGIN/AvrCore.cs now\n", "not a statement of ours"),
    ("sysbus LoadHEX $image\n", "", "a statement is missing"),
    ("sysbus LoadHEX $image", "sysbus LoadBinary $image 0", "a statement is missing"),
    ("\ncpu Perf", "\ninclude $ORIGIN/AvrCore.cs\ncpu Perf", "compiles without a machine"),
    ("using sysbus\n", "using sysbus\ninclude $ORIGIN/AvrCore.cs\n", "compiles without a machine"),
]


@pytest.mark.parametrize(
    ("old", "new", "fault"), BAD_UNO_SCRIPTS, ids=[bad[1].strip() or "-" for bad in BAD_UNO_SCRIPTS]
)
def test_a_bad_script_of_the_uno_is_found(old: str, new: str, fault: str, tmp_path: Path) -> None:
    for path in FOLDER.glob("*"):
        shutil.copy(path, tmp_path)
    text = (FOLDER / "atmega328p.resc").read_text()
    assert old in text
    (tmp_path / "bad.resc").write_text(text.replace(old, new))
    with pytest.raises(Fault, match=re.escape(fault)):
        read_script(tmp_path / "bad.resc", GIVEN)


# ---- the driver, as far as it goes without Renode


def due_on_renode(boards: Boards, program: str = "renode") -> BoardSpec:
    board = boards.board("due").emulated_by("renode")
    assert board.chip.emulator is not None
    emulator = board.chip.emulator.model_copy(update={"program": program})
    return board.model_copy(update={"chip": board.chip.model_copy(update={"emulator": emulator})})


def test_the_command_line(boards: Boards) -> None:
    words = renode.command(due_on_renode(boards, "true"), Path("/a b/firmware.bin"), 4711)
    assert words[1:-1] == ["--disable-gui", "--console", "--plain", "--execute"]
    image, port, include = words[-1].split("; ")
    assert image == "$image=@/a\\ b/firmware.bin"
    assert port == "$port=4711"
    assert include == f"include @{FOLDER / 'sam3x8e.resc'}"
    assert {image.split("=")[0], port.split("=")[0]} == GIVEN
    with pytest.raises(BoardError, match="takes no ';' there"):
        renode.command(due_on_renode(boards, "true"), Path("/a;b.bin"), 4711)


SAYS = "echo 'Renode, version 1.16.0 (a1b2c3)'; echo '(monitor) $image=...'; "
READY = "echo '12:00:00.0000 [INFO] Script: hil: ready'; "


def wait_for_a_crash(device: Connection) -> DeviceCrashed:
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        try:
            device.alive()
        except DeviceCrashed as crash:
            return crash
        time.sleep(0.02)
    pytest.fail("alive() reports no crash")


FAULT = "12:00:01.0000 [ERROR] cpu: hil: fault: invalid opcode at pc 0x01f4"


def test_a_fault_that_the_core_reports_is_a_crash(boards: Boards, tmp_path: Path) -> None:
    """The words of Atmega328pRenode.cs, as Renode logs them."""
    talker = tmp_path / "talker"
    talker.write_text(f"#!/bin/sh\n{SAYS}{READY}read go; echo '{FAULT}'; sleep 60\n")
    talker.chmod(0o755)
    with renode.connect(due_on_renode(boards, str(talker)), Session(tmp_path / "x.hex", tmp_path)) as device:
        device.alive()
        device.process.send("go")
        crash = wait_for_a_crash(device)
    assert (str(crash), crash.pc) == ("the firmware crashed: invalid opcode at pc 0x01f4", 0x1F4)


@pytest.mark.parametrize(
    ("says", "message"),
    [
        (SAYS + READY + "sleep 60", None),
        (SAYS + "echo \"There was an error executing command 'machine LoadPlatformDescription'\"; sleep 60", "refuses"),
        (SAYS + "echo 'Could not tokenize here:'; sleep 60", "refuses its script: Could not tokenize here"),
        (SAYS + "echo 'no libgtk' >&2; exit 1", "does not answer: no libgtk"),
    ],
    ids=["ready", "a bad platform", "a bad script", "ends at once"],
)
def test_what_the_monitor_says_is_understood(says: str, message: str | None, boards: Boards, tmp_path: Path) -> None:
    """A stand-in that only talks, in the words of Renode's sources."""
    talker = tmp_path / "talker"
    talker.write_text(f"#!/bin/sh\n{says}\n")
    talker.chmod(0o755)
    board, session = due_on_renode(boards, str(talker)), Session(tmp_path / "x.bin", tmp_path)
    if message is None:
        with renode.connect(board, session) as device:
            device.alive()
            assert device.finish() == {"emulator_version": "1.16.0"}
    else:
        with pytest.raises(BoardError, match=message) as caught, renode.connect(board, session):
            pass
        assert len(str(caught.value).splitlines()) == 1


def test_the_workflow_runs_these_tests() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/renode.yml").read_text())
    assert tuple(map(int, workflow["env"]["RENODE_VERSION"].split("."))) >= (1, 16)  # what the files were read against
    commands = " ".join(step.get("run", "") for step in workflow["jobs"]["boards"]["steps"])
    assert f"pytest tests/{Path(__file__).name}" in commands
    assert needs_renode.kwargs["reason"] in commands  # a run that skips them is a failure


@pytest.mark.skipif(shutil.which("renode") is not None, reason="renode is in PATH")
def test_without_renode_the_board_says_so(tmp_path: Path) -> None:
    done = hil("run", "--board", "due", "--model", "digits_mlp", "--samples", 1, "--emulator", "renode", cwd=tmp_path)
    check_failure(done, 3, "due: renode is not installed", "portable build", logs=True)


# ---- with Renode


@pytest.mark.slow
@needs_renode
@every_board
@pytest.mark.parametrize("format_", ["fixed8", "fixed16"])
def test_bit_exact_in_renode(chip: str, format_: str, tmp_path: Path) -> None:
    command = ("run", "--board", BOARDS[chip], "--model", "fastgrnn_har", "--format", format_, "--samples", 5, "--json")
    record = record_of(hil(*command, "--emulator", "renode", cwd=tmp_path))
    assert record["bit_exact"] is True
    assert record["samples"] == record["equal_samples"] == 5
    assert record["emulator"]["fidelity"] == record["latency"]["fidelity"] == FIDELITY[chip]
    assert re.fullmatch(r"\d+(\.\d+)+", record["provenance"]["emulator_exit"]["emulator_version"])
    usual = record_of(hil(*command, cwd=tmp_path))["raw"]
    if FIDELITY[chip] == "exact cycles":
        assert record["raw"]["ticks"] == usual["ticks"]
    else:
        difference = np.subtract(record["raw"]["ticks"], usual["instructions"])
        assert np.abs(difference).max() <= DWT_INSTRUCTIONS


@pytest.mark.slow
@needs_renode
def test_a_fault_of_the_uno_is_told(boards: Boards, tmp_path: Path) -> None:
    firmware = build_firmware(tmp_path, "wild", "-DWILD_WRITE=1")
    board = boards.board("uno").emulated_by("renode")
    with renode.connect(board, Session(firmware.hex_path, tmp_path)) as device:
        device.alive()
        with serial.serial_for_url(device.port) as port:
            port.write(GO)
            crash = wait_for_a_crash(device)
    assert "write to 0x0900, beyond RAMEND 0x08ff at pc 0x" in str(crash)
    assert crash.pc


@pytest.mark.slow
@needs_renode
def test_folders_with_blanks(boards: Boards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts, what they include, and the image."""
    folder = tmp_path / "a b"
    shutil.copytree(FOLDER, folder / "emulators" / "renode")
    monkeypatch.setattr(renode, "asset", lambda name: folder / name)
    firmware = build_firmware(folder, "echo", hal=True)
    board = boards.board("uno").emulated_by("renode")
    with (
        renode.connect(board, Session(firmware.hex_path, folder)) as device,
        serial.serial_for_url(device.port, timeout=600) as port,
    ):
        port.write(b"x")
        assert port.read(1) == b"x"
