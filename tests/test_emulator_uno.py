"""The emulated Uno against the ATmega328P datasheet (DS40002061: chapter and section numbers), and its HAL."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import serial
from idling import check_idle
from uno_bench import (
    COMPILE,
    GO,
    HAL,
    ROOT,
    UNOSIM,
    EmulatedUno,
    Firmware,
    build_firmware,
    run_to_end,
)

RAMEND = 0x8FF
OPCODES_PER_CASE = 16


@pytest.fixture(scope="session", autouse=True)
def _emulator() -> None:
    subprocess.run(["make", "-s", "-C", ROOT / "emulators" / "uno"], check=True)


@dataclass(frozen=True, slots=True)
class Case:
    """`setup` runs untimed; r24 is cleared before it and reported after `body`."""

    name: str
    cycles: int
    body: str
    setup: str = ""


X, Z = (f"ldi r{n},lo8(%[b]+32)\nldi r{n + 1},hi8(%[b]+32)" for n in (26, 30))
Z_FLASH = "ldi r30,0\nldi r31,0"
Z_TARGET = "ldi r30,lo8(gs(case_target))\nldi r31,hi8(gs(case_target))"
R18_0, R18_1 = "ldi r18,0\ntst r18", "ldi r18,1\ntst r18"

# Datasheet chapter 31, instruction set summary: clock cycles.
TIMINGS = (
    Case("nop", 1, "nop"),
    Case("mul", 2, "mul r18,r19"),
    Case("muls", 2, "muls r18,r19"),
    Case("mulsu", 2, "mulsu r18,r19"),
    Case("fmul", 2, "fmul r18,r19"),
    Case("fmuls", 2, "fmuls r18,r19"),
    Case("add", 1, "add r18,r19"),
    Case("adc", 1, "adc r18,r19"),
    Case("sbc", 1, "sbc r18,r19"),
    Case("subi", 1, "subi r18,3"),
    Case("movw", 1, "movw r18,r26"),
    Case("asr", 1, "asr r18"),
    Case("swap", 1, "swap r18"),
    Case("adiw", 2, "adiw r24,1"),
    Case("sbiw", 2, "sbiw r24,13"),
    Case("lpm", 3, "lpm r18,Z", Z_FLASH),
    Case("lpm_inc", 3, "lpm r18,Z+", Z_FLASH),
    Case("ld_x", 2, "ld r18,X", X),
    Case("ld_x_inc", 2, "ld r18,X+", X),
    Case("ld_z_inc", 2, "ld r18,Z+", Z),
    Case("ld_z_dec", 2, "ld r18,-Z", Z),
    Case("ldd", 2, "ldd r18,Z+5", Z),
    Case("st_x_inc", 2, "st X+,r18", X),
    Case("st_z", 2, "st Z,r18", Z),
    Case("std", 2, "std Z+5,r18", Z),
    Case("lds", 2, "lds r18,%[b]"),
    Case("sts", 2, "sts %[b],r18"),
    Case("push_pop", 4, "push r18\npop r18"),
    Case("in", 1, "in r18,0x3f"),
    Case("out", 1, "out 0x1e,r18"),
    Case("sbi", 2, "sbi 0x1e,0"),
    Case("cbi", 2, "cbi 0x1e,0"),
    Case("bst_bld", 2, "bst r18,0\nbld r18,1"),
    Case("wdr", 1, "wdr"),
    Case("rjmp", 2, "rjmp .+0"),
    Case("jmp", 3, "jmp 1f\n1:"),
    Case("ijmp", 4, "ldi r30,lo8(gs(1f))\nldi r31,hi8(gs(1f))\nijmp\n1:"),
    Case("rcall_ret", 7, "rcall 1b", "rjmp 2f\n1: ret\n2:"),
    Case("call_ret", 8, "call case_target"),
    Case("icall_ret", 7, "icall", Z_TARGET),
    Case("brne_not_taken", 1, "brne .+0", R18_0),
    Case("brne_taken", 2, "brne .+0", R18_1),
    Case("breq_taken", 2, "breq .+0", R18_0),
    Case("cpse_not_taken", 2, "cpse r18,r19\nnop", "ldi r18,1\nldi r19,2"),
    Case("cpse_over_one_word", 2, "cpse r18,r18\nnop"),
    Case("cpse_over_lds", 3, "cpse r18,r18\nlds r19,%[b]"),
    Case("cpse_over_sts", 3, "cpse r18,r18\nsts %[b],r19"),
    Case("sbrc_over_jmp", 3, "sbrc r18,0\njmp 0", R18_0),
    Case("sbrs_over_call", 3, "sbrs r18,0\ncall 0", R18_1),
    Case("sbrs_over_one_word", 2, "sbrs r18,0\nnop", R18_1),
    Case("sbic_over_sts", 3, "sbic 0x1e,0\nsts %[b],r19", "cbi 0x1e,0"),
    Case("sbis_over_one_word", 2, "sbis 0x1e,0\nnop", "sbi 0x1e,0"),
    Case("sbis_not_taken", 2, "sbis 0x1e,0\nnop", "cbi 0x1e,0"),
)

# For each skip: set-up and operands that skip, set-up that does not.
SKIPS = {
    "cpse": ("cpse r18,r19", "ldi r18,5\nldi r19,5", "ldi r18,5\nldi r19,6"),
    "sbrc": ("sbrc r18,3", "ldi r18,0xf7", "ldi r18,8"),
    "sbrs": ("sbrs r18,7", "ldi r18,0x80", "ldi r18,0x7f"),
    "sbic": ("sbic 0x1e,2", "cbi 0x1e,2", "sbi 0x1e,2"),
    "sbis": ("sbis 0x1e,6", "sbi 0x1e,6", "cbi 0x1e,6"),
}


def run_cases(
    folder: Path, cases: tuple[Case, ...], repeat: int, run: Callable[..., Any] = run_to_end
) -> dict[str, tuple[int, int]]:
    """Name -> cycles of `repeat` bodies, r24 after them. `run`: on another emulator."""
    quoted = [
        '"' + f"{text}".replace("\n", "\\n") + '"'
        for case in cases
        for text in (case.name, case.setup, f".rept {repeat}\n{case.body}\n.endr")
    ]
    triples = zip(quoted[0::3], quoted[1::3], quoted[2::3], strict=True)
    (folder / "cases.inc").write_text("".join(f"CASE({n}, {s}, {b})\n" for n, s, b in triples))
    lines, _ = run(build_firmware(folder, "cases"))
    fields = [line.split() for line in lines]
    return {name: (int(cycles), int(r24)) for name, cycles, r24 in fields}


@pytest.mark.parametrize("with_patched_skip", [False, True])
def test_instructions_take_the_datasheets_cycles(tmp_path: Path, with_patched_skip: bool) -> None:
    """A program with a patched skip is executed instruction by instruction, one without in bursts: both are exact."""
    extra = (Case("patched", 2, "cpse r18,r18\nadiw r24,12"),) if with_patched_skip else ()
    cases = TIMINGS + extra
    measured = run_cases(tmp_path, cases, OPCODES_PER_CASE)
    assert {name: cycles for name, (cycles, _) in measured.items()} == {
        case.name: OPCODES_PER_CASE * case.cycles for case in cases
    }


def skip_cases(skip: str) -> tuple[tuple[Case, ...], dict[str, tuple[int, int]]]:
    """Skips over adiw and sbiw; name -> cycles, r24."""
    opcode, taken, not_taken = SKIPS[skip]
    cases, expected = [], {}
    for constant in (1, 11, 12, 13, 14, 15, 28, 31, 44, 63):
        for word, sign in (("adiw", 1), ("sbiw", -1)):
            for label, setup, executed in (("skips", taken, False), ("stays", not_taken, True)):
                name = f"{word}_{constant}_{label}"
                cases.append(Case(name, 0, f"{opcode}\n{word} r24,{constant}\ninc r24", setup))
                expected[name] = (4 if executed else 3, (sign * constant * executed + 1) % 256)
    return tuple(cases), expected


@pytest.mark.parametrize("skip", SKIPS)
def test_skips_over_adiw_and_sbiw(tmp_path: Path, skip: str) -> None:
    """One word is skipped whatever the constant: the inc after the skipped instruction is executed."""
    cases, expected = skip_cases(skip)
    assert run_cases(tmp_path, cases, repeat=1) == expected


def test_interrupt_entry_takes_four_cycles_and_one_instruction_follows_sei(tmp_path: Path) -> None:
    lines, _ = run_to_end(build_firmware(tmp_path, "interrupts"))
    plain, interrupted, executed_after_sei = map(int, lines[0].split())
    vector_jmp, mov, reti = 3, 1, 4
    assert interrupted - plain - vector_jmp - mov - reti == 4
    assert executed_after_sei == 1


U2X, ASYNC = 0x02, 0x06
FRAMES = (  # UBRR, UCSR0A, UCSR0C, bits of a frame: chapter 19.4
    pytest.param(16, U2X, ASYNC, 10, id="115200-8N1"),
    pytest.param(8, 0, ASYNC, 10, id="115200-8N1-without-U2X"),
    pytest.param(16, U2X, ASYNC | 0x28, 12, id="8E2"),
    pytest.param(16, U2X, 0x00, 7, id="5N1"),
)


@pytest.mark.parametrize("u2x_first", [True, False])
@pytest.mark.parametrize(("ubrr", "status", "control", "bits"), FRAMES)
def test_frame_length(tmp_path: Path, ubrr: int, status: int, control: int, bits: int, u2x_first: bool) -> None:
    count = 32
    flags = [f"-DUBRR_VALUE={ubrr}", f"-DU2X_BITS={status}", f"-DFRAME_BITS={control}", f"-DFRAMES={count}"]
    firmware = build_firmware(tmp_path, "frames", *flags, f"-DU2X_FIRST={int(u2x_first)}")
    lines, _ = run_to_end(firmware, "--uart", "true")
    frame_cycles = (ubrr + 1) * (8 if status & U2X else 16) * bits
    polling_cycles = 8
    assert abs(int(lines[1]) - count * frame_cycles) <= polling_cycles


def test_received_frames_keep_the_wires_pace(tmp_path: Path) -> None:
    firmware = build_firmware(tmp_path, "receive", hal=True)
    lines, _ = run_to_end(firmware, "--uart", "true", answer=bytes(21))
    assert abs(int(lines[0]) - 20 * 17 * 8 * 10) <= 12


@pytest.mark.parametrize(
    ("sent", "held", "lost"), [(2, b"0a0b", 0), (3, b"0a0b0c", 0), (4, b"1a0b0c", 1), (6, b"1a0b0c", 3)]
)
def test_receiver_holds_three_bytes(tmp_path: Path, sent: int, held: bytes, lost: int) -> None:
    """Section 19.7.4: two in the FIFO and one in the shift register; another start bit sets DOR."""
    with EmulatedUno(build_firmware(tmp_path, "fifo", hal=True), "--uart", "true") as uno:
        with uno.open_port() as port:
            port.write(GO)
            assert port.read(1) == b"?"
            port.write(b"abcdef"[:sent])
            assert port.read_until(b"!") == held + b"!"
            port.write(b"abcdef"[:sent])
            assert port.read_until(b"\n") == b"%d%d\n" % (min(sent, 3), min(lost, 1))
        exit_event = uno.finish()
    assert exit_event["overruns"] == 2 * lost
    assert exit_event["rx_bytes"] == len(GO) + 2 * min(sent, 3)


def test_lifted_uart_never_overruns_a_slow_reader(tmp_path: Path) -> None:
    data = bytes(i * 7 % 256 for i in range(2000))
    lines, exit_event = run_to_end(build_firmware(tmp_path, "slow_reader"), answer=data)
    expected = 0
    for byte in data:
        expected = (31 * expected + byte) % 65536
    assert int(lines[0]) == expected
    assert exit_event["overruns"] == 0
    assert exit_event["rx_bytes"] == len(GO) + 2000


@pytest.mark.parametrize("depth", [0, 1, 5, 40])
def test_lowest_stack_pointer_equals_the_painted_watermark(tmp_path: Path, depth: int) -> None:
    firmware = build_firmware(tmp_path, "stack", f"-DDEPTH={depth}", hal=True)
    lines, exit_event = run_to_end(firmware, "--ram-static", str(firmware.static_bytes))
    _, stack_bytes, heap_bytes = map(int, lines[0].split())
    assert stack_bytes == RAMEND - exit_event["min_sp"]
    assert stack_bytes > depth * 20
    assert heap_bytes == 0


def test_heap_watermark(tmp_path: Path) -> None:
    lines, exit_event = run_to_end(build_firmware(tmp_path, "heap", hal=True))
    heap_bytes, stack_bytes = map(int, lines[0].split())
    assert heap_bytes == 102  # avr-libc puts a length of two bytes before a block
    assert stack_bytes == RAMEND - exit_event["min_sp"]


def test_stack_overflow_is_a_fault_until_the_port_is_opened_again(tmp_path: Path) -> None:
    firmware = build_firmware(tmp_path, "stack", "-DDEPTH=500", hal=True)
    with EmulatedUno(firmware, "--ram-static", str(firmware.static_bytes)) as uno:
        for _ in range(2):
            with uno.open_port() as port:
                uno.skip_events_until("reset")
                port.write(GO)
                fault = uno.next_event()
                port.timeout = 0.1
                assert port.read(1) == b""
            assert fault["event"] == "fault"
            assert "stack overflow" in fault["why"]
            assert int(fault["pc"], 16) > 0
        assert uno.finish()["resets"] == 2


@pytest.mark.parametrize(("write", "kind"), [(0, "read from"), (1, "write to")])
def test_access_beyond_ram_is_a_fault(tmp_path: Path, write: int, kind: str) -> None:
    firmware = build_firmware(tmp_path, "wild", f"-DWILD_WRITE={write}")
    with EmulatedUno(firmware) as uno:
        with uno.open_port() as port:
            uno.skip_events_until("reset")
            port.write(GO)
            fault = uno.next_event()
            port.timeout = 0.1
            assert b"after" not in port.read(100)
        uno.finish()
    assert fault["event"] == "fault"
    assert fault["why"] == f"{kind} 0x0900, beyond RAMEND 0x08ff"


def test_sections_are_measured_exactly(tmp_path: Path) -> None:
    lines, _ = run_to_end(build_firmware(tmp_path, "sections", hal=True))
    assert lines == [" 160"], "expected and measured cycles of the sections that differ"


def test_hal_survives_a_watchdog_reset(tmp_path: Path) -> None:
    with EmulatedUno(build_firmware(tmp_path, "watchdog", hal=True)) as uno:
        with uno.open_port() as port:
            port.write(GO)
            assert port.read_until(b"END\n") == b"alive\nEND\n"
        assert [uno.next_event()["why"] for _ in range(2)] == ["port opened", "watchdog"]
        uno.finish()


def test_hal_is_small(tmp_path: Path) -> None:
    """Its objects whole, before the linker drops what a firmware does not use."""
    flash_bytes = ram_bytes = 0
    for source in HAL:
        firmware = build_firmware_object(tmp_path, source)
        text, data, bss = (
            int(field)
            for field in subprocess.run(["avr-size", firmware], check=True, capture_output=True, text=True)
            .stdout.splitlines()[1]
            .split()[:3]
        )
        flash_bytes += text + data
        ram_bytes += data + bss
    assert flash_bytes <= 520
    assert ram_bytes <= 4


def build_firmware_object(folder: Path, source: Path) -> Path:
    target = folder / f"{source.stem}.o"
    subprocess.run([*COMPILE[:-1], "-c", source, "-o", target], check=True)
    return target


@pytest.fixture(scope="session")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Firmware:
    return build_firmware(tmp_path_factory.mktemp("echo"), "echo", hal=True)


def answer_thirty(port: serial.Serial) -> list[float]:
    """Seconds of each round trip of a byte."""
    trips_s = []
    for i in range(30):
        time.sleep(0.003)
        start = time.perf_counter()
        port.write(bytes([i]))
        assert port.read(1) == bytes([i])
        trips_s.append(time.perf_counter() - start)
    return trips_s


@pytest.mark.parametrize("program", ["echo", "sleep"])
@pytest.mark.parametrize("uart", ["true", "lifted"])
def test_an_idle_board_answers_and_leaves_the_processor_alone(tmp_path: Path, program: str, uart: str) -> None:
    with EmulatedUno(build_firmware(tmp_path, program, hal=True), "--uart", uart) as uno:
        with uno.open_port() as port:
            answer_thirty(port)
            check_idle(uno.process.pid, waits=300, processor_s=0.1)  # each is a millisecond
        uno.finish()


@pytest.mark.slow  # judged by the clock, which alone can say it
@pytest.mark.parametrize("uart", ["true", "lifted"])
def test_an_idle_board_answers_at_once(echo: Firmware, uart: str) -> None:
    with EmulatedUno(echo, "--uart", uart) as uno, uno.open_port() as port:
        assert min(answer_thirty(port)) < 0.05  # 0.3 ms where nothing else runs


@pytest.mark.slow  # judged by the clock, which alone can say it
def test_realtime_paces_the_board(echo: Firmware) -> None:
    with EmulatedUno(echo, "--realtime", "--no-autoreset") as uno:
        time.sleep(0.3)
        exit_event = uno.finish()
    assert 0 < exit_event["cycles"] <= 1.1 * 16e6 * exit_event["wall_seconds"]


def test_each_opening_of_the_port_resets_the_board(echo: Firmware) -> None:
    with EmulatedUno(echo) as uno:
        for _ in range(3):
            with uno.open_port() as port:
                assert uno.next_event() == {"event": "reset", "why": "port opened"}
                port.write(b"!")
                assert port.read(1) == b"!"
        assert uno.finish()["resets"] == 3


def test_no_autoreset(echo: Firmware) -> None:
    with EmulatedUno(echo, "--no-autoreset") as uno:
        for _ in range(2):
            with uno.open_port() as port:
                port.write(b"!")
                assert port.read(1) == b"!"
        assert uno.finish()["resets"] == 0


@pytest.mark.parametrize("end", [None, signal.SIGTERM, signal.SIGINT])
def test_clean_end(echo: Firmware, end: signal.Signals | None) -> None:
    with EmulatedUno(echo) as uno:
        assert uno.link.is_symlink()
        if end is not None:
            uno.process.send_signal(end)
            exit_event = uno.drain()
        else:
            exit_event = uno.finish()
        assert not uno.link.is_symlink()
    assert set(exit_event) == {
        "event", "cycles", "rx_bytes", "tx_bytes", "overruns", "resets", "min_sp", "wall_seconds",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file"),
        ("", "cut off"),
        (":0200000001FFFE\n", "cut off"),
        (":00000001FF\n", "empty"),
        (":0200000001FFFD\n:00000001FF\n", "checksum"),
        ("\x7fELF\n", "not an Intel hex record"),
        (":04000000\n:00000001FF\n", "not an Intel hex record"),
        (":020000020800F4\n:0200000001FFFE\n:00000001FF\n", "beyond"),
    ],
)
def test_bad_image(tmp_path: Path, text: str | None, why: str) -> None:
    image = tmp_path / "image.hex"
    if text is not None:
        image.write_text(text)
    check_refusal(["--image", str(image), "--link", str(tmp_path / "port")], why)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "--image"),
        (["--image", "x"], "--link"),
        (["--image", "x", "--link"], "value is missing"),
        (["--image", "x", "--link", "y", "--uart", "fast"], "--uart"),
        (["--image", "x", "--link", "y", "--ram-static", "4096"], "--ram-static"),
        (["--image", "x", "--link", "y", "--turbo"], "--turbo"),
        (["--image", "x", "--link", "y", "extra"], "extra"),
    ],
)
def test_bad_arguments(arguments: list[str], why: str) -> None:
    check_refusal(arguments, why)


def test_link_never_replaces_a_file(echo: Firmware, tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("mine")
    check_refusal(["--image", str(echo.hex_path), "--link", str(taken)], "File exists")
    assert taken.read_text() == "mine"


def check_refusal(arguments: list[str], why: str) -> None:
    done = subprocess.run([UNOSIM, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(r"unosim: .*\n", done.stderr)
    assert why in done.stderr
