"""The ATmega328P of emulators/renode, without Renode: held against the datasheet and against emulators/uno."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uno_bench
import yaml
from given_data import the_zoo
from hil_command import hil, record_of
from renode_uno_bench import MonoUno, build_program, compile_uno, needs_mono, run_to_end
from test_emulator_uno import OPCODES_PER_CASE, SKIPS, TIMINGS, run_cases, skip_cases
from uno_bench import GO, ROOT, build_firmware

pytestmark = needs_mono
DOES_NOT_FIT = 4


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_uno(tmp_path_factory.mktemp("uno"))


# ---- instructions


def test_instructions_take_the_datasheets_cycles(program: Path, tmp_path: Path) -> None:
    measured = run_cases(tmp_path, TIMINGS, OPCODES_PER_CASE, partial(run_to_end, program))
    assert {name: cycles for name, (cycles, _) in measured.items()} == {
        case.name: OPCODES_PER_CASE * case.cycles for case in TIMINGS
    }


@pytest.mark.parametrize("skip", SKIPS)
def test_skips_over_adiw_and_sbiw(program: Path, tmp_path: Path, skip: str) -> None:
    cases, expected = skip_cases(skip)
    assert run_cases(tmp_path, cases, 1, partial(run_to_end, program)) == expected


TWO = [
    "add",
    "adc",
    "sub",
    "sbc",
    "and",
    "or",
    "eor",
    "cp",
    "cpc",
    "mov",
    "mul",
    "muls",
    "mulsu",
    "fmul",
    "fmuls",
    "fmulsu",
]
ONE = ["com", "neg", "inc", "dec", "lsr", "ror", "asr", "swap"]
CONSTANTS = ["subi", "sbci", "andi", "ori", "cpi", "ldi"]
POINTERS = ("X", "X+", "-X", "Y", "Y+", "-Y", "Z", "Z+", "-Z", "Y+9", "Z+17")
OPERATIONS = (
    *(f"{op} r18,r19" for op in TWO),
    *(f"{op} r18" for op in ONE),
    *(f"{op} r18,{k}" for op in CONSTANTS for k in (0, 1, 0x5A, 0x80, 0xFF)),
    *(f"{op} r24,{k}" for op in ("adiw", "sbiw") for k in (0, 1, 12, 63)),
    *(f"{'ldd' if '+' in p[1:-1] else 'ld'} r20,{p}" for p in POINTERS),
    *(f"{'std' if '+' in p[1:-1] else 'st'} {p},r18" for p in POINTERS),
    *(f"cpse r18,r19\ninc r20\n{op}" for op in ("nop", "sub r18,r19")),
    *(f"{op} r18,{bit}\ninc r20" for op in ("sbrc", "sbrs", "bst", "bld") for bit in (0, 7)),
    *(f"{op} {bit},1f\ninc r20\n1:" for op in ("brbs", "brbc") for bit in range(7)),
    *(f"{op} {bit}" for op in ("bset", "bclr") for bit in range(7)),
    "add r18,r19\nadc r20,r21\nadc r24,r25",
    "cp r18,r19\ncpc r20,r21\ncpc r24,r25",
    "sub r18,r19\nsbc r20,r21\nsbci r24,0",
    "movw r20,r24\npush r18\npop r24",
    "lpm",
    "lpm r18,Z",
    "lpm r18,Z+",
    "sbi 0x1e,3\nin r18,0x1e\ncbi 0x1e,3\nin r19,0x1e",
)


def test_every_operation_leaves_what_it_leaves_on_emulators_uno(program: Path, tmp_path: Path) -> None:
    """Registers, flags, pointers and memory, each on 300 pseudo-random states."""
    quoted = ('"' + text.replace("\n", "\\n") + '"' for text in OPERATIONS)
    (tmp_path / "operations.inc").write_text("".join(f"OPERATION({text})\n" for text in quoted))
    firmware = build_program(tmp_path, "operations")
    ours, _ = run_to_end(program, firmware)
    other, _ = uno_bench.run_to_end(firmware)
    assert ours == other
    assert len({line.rsplit(" ", 1)[1] for line in ours if " " in line}) > len(OPERATIONS) // 2


def test_interrupt_entry_takes_four_cycles_and_one_instruction_follows_whatever_sets_i(
    program: Path, tmp_path: Path
) -> None:
    firmware = build_program(tmp_path, "entry")
    lines, _ = run_to_end(program, firmware)
    plain, interrupted, after_sei, after_out = map(int, lines[0].split())
    vector_jmp, mov, reti = 3, 1, 4
    assert interrupted - plain - vector_jmp - mov - reti == 4
    assert (after_sei, after_out) == (1, 1)
    assert lines == uno_bench.run_to_end(firmware)[0]


# ---- the chip


def test_sections_are_measured_exactly(program: Path, tmp_path: Path) -> None:
    lines, _ = run_to_end(program, build_firmware(tmp_path, "sections", hal=True))
    assert lines == [" 160"], "expected and measured cycles of the sections that differ"


def test_a_slow_reader_loses_nothing(program: Path, tmp_path: Path) -> None:
    data = bytes(i * 7 % 256 for i in range(2000))
    lines, _ = run_to_end(program, build_firmware(tmp_path, "slow_reader"), answer=data)
    expected = 0
    for byte in data:
        expected = (31 * expected + byte) % 65536
    assert int(lines[0]) == expected


@pytest.mark.parametrize("name", ["echo", "sleep"])
def test_it_echoes_awake_and_asleep(program: Path, tmp_path: Path, name: str) -> None:
    with MonoUno(program, build_firmware(tmp_path, name, hal=True)) as uno:
        for _ in range(2):  # opening the port resets the board
            with uno.open_port() as port:
                for i in range(20):
                    port.write(bytes([i]))
                    assert port.read(1) == bytes([i])
        assert uno.finish()["resets"] == 2


def fault_of(program: Path, firmware: uno_bench.Firmware) -> dict[str, Any]:
    with MonoUno(program, firmware) as uno:
        with uno.open_port() as port:
            uno.skip_events_until("reset")
            port.write(GO)
            fault = uno.next_event()
            port.timeout = 0.1
            assert b"after" not in port.read(100)
        uno.finish()
    assert fault["event"] == "fault"
    assert int(fault["pc"], 16) > 0
    return fault


@pytest.mark.parametrize(("write", "kind"), [(0, "read from"), (1, "write to")])
def test_access_beyond_ram_is_a_fault(program: Path, tmp_path: Path, write: int, kind: str) -> None:
    fault = fault_of(program, build_firmware(tmp_path, "wild", f"-DWILD_WRITE={write}"))
    assert fault["why"] == f"{kind} 0x0900, beyond RAMEND 0x08ff"


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ("TCCR1B=2", "Timer1 with a prescaler or in a mode other than normal"),
        ("TCCR1A=1", "Timer1 in a mode other than normal"),
        ("TIMSK1=2", "a compare or capture interrupt of Timer1"),
        ("UCSR0C=0xC0", "USART0 in a synchronous mode"),
        ("SPMCSR=1", "self-programming"),
        ("WDTCSR=8", "the watchdog"),
        ('asm(".word 0xffff")', "invalid opcode"),
    ],
)
def test_what_it_does_not_have_is_a_fault(program: Path, tmp_path: Path, request_: str, why: str) -> None:
    fault = fault_of(program, build_program(tmp_path, "refused", f"-DREQUEST={request_}"))
    assert fault["why"].removesuffix(" is not modelled") == why


# ---- whole inferences, through the real protocol


# hil, which otherwise starts no program that a board file names beside its own
ANY_PROGRAM = """
import re, sys
from tinyhil.harness import cli
from tinyhil.harness.settings import emulator_entry
emulator_entry.PROGRAMS["process"] = re.compile(".*")
cli.main(sys.argv[1:])
"""


@pytest.fixture(scope="session")
def boards_file(program: Path) -> Path:
    """boards.yaml with this program as another emulator of the Uno."""
    boards = yaml.safe_load((ROOT / "boards.yaml").read_text())
    emulator = {"program": str(program), "fidelity": "exact cycles", "args": ["--image", "{image}"]}
    boards["chips"]["atmega328p"]["cross_checks"]["mono"] = emulator
    path = program.parent / "boards.yaml"
    path.write_text(json.dumps(boards))  # YAML, too, with every string quoted
    return path


def check_agreement(folder: Path, boards_file: Path, *arguments: object) -> bool:
    """The same outputs and the same cycles as emulators/uno; False if the model does not fit the Uno."""
    command = ("run", "--board", "uno", "--json", *arguments)
    first = hil(*command, cwd=folder)
    command = (*command, "--boards-file", boards_file)
    if first.returncode == DOES_NOT_FIT:
        return False
    second = [sys.executable, "-c", ANY_PROGRAM, *map(str, command), "--emulator", "mono"]
    usual, ours = (
        record_of(done)
        for done in (first, subprocess.run(second, cwd=folder, capture_output=True, text=True, check=False))
    )
    assert ours["emulator"]["name"] == "uno"
    assert usual["emulator"]["name"] == "unosim"
    assert ours["provenance"]["image_hash"] == usual["provenance"]["image_hash"]
    assert ours["bit_exact"] is usual["bit_exact"] is True
    assert len(ours["raw"]["ticks"]) == ours["samples"] > 0
    assert ours["raw"]["ticks"] == usual["raw"]["ticks"]
    assert ours["memory"] == usual["memory"]
    return True


@pytest.mark.parametrize(
    ("format_", "samples"),
    [
        ("fixed8", 2),
        ("fixed16", 2),
        pytest.param("fixed16", 50, marks=pytest.mark.slow),
        pytest.param("float32", 1, marks=pytest.mark.slow),
        pytest.param("posit8es1", 1, marks=pytest.mark.slow),
    ],
)
def test_cycle_for_cycle(boards_file: Path, format_: str, samples: int, tmp_path: Path) -> None:
    model = ("--model", "fastgrnn_har", "--format", format_, "--samples", samples)
    assert check_agreement(tmp_path, boards_file, *model)


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["fixed8", "fixed16"])
@pytest.mark.parametrize("model", the_zoo())
def test_the_zoo(boards_file: Path, model: str, format_: str, tmp_path: Path) -> None:
    if not check_agreement(tmp_path, boards_file, "--model", model, "--format", format_, "--samples", 1):
        pytest.skip(f"{model} does not fit the Uno")
