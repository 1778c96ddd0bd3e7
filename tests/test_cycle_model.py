"""The cycle model: sequences whose cycles others have measured, and the bench that runs published images."""

from __future__ import annotations

import itertools
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from given_data import data_file

from benchmarks import cycle_model
from benchmarks.cycle_model import Image, NotRun, images
from tests.test_emulator_cortexm import ARMSIM, G0B1, H747, L4R5, U575, Chip, build_dir
from tests.test_mlperf import made, tiny
from tinyhil.errors import ConfigError
from tinyhil.harness.boards.fidelity import statements
from tinyhil.harness.engines.firmware_file import TEXT_OF_MLPERF, unpacked_hex
from tinyhil.harness.engines.published import TWICE, Counts
from tinyhil.harness.records.band import band
from tinyhil.harness.settings.config import load_boards

__all__ = ["tiny"]  # a fixture
ROOT = Path(__file__).resolve().parent.parent
LONG_CYCLES = 80e6  # of an inference that only the slow suite waits for
BRIEF = Counts(budget=3_000_000, answer_s=5.0)
FEW, MANY = 4, 14  # copies of a sequence: what surrounds it falls out of the difference


@dataclass(frozen=True, slots=True)
class Sequence:
    """`cycles` of one copy, in the long run. r8, r9: addresses in tightly coupled memory (M7) or RAM (M4)."""

    name: str
    code: str
    cycles: float


# [J] jnk0le/random, cortex_m7.md; [L] LLVM's ARMScheduleM7.td
M7 = (
    Sequence("two sums in a cycle", "add.w r0, r1, r2; add.w r3, r4, r5", 1),
    Sequence("a sum is early enough for its successor [J]", "add.w r0, r1, r2; eor.w r3, r0, r4", 1),
    Sequence("the late ALU is not", "eor.w r0, r1, r2; eor.w r3, r0, r4", 1),
    Sequence("a chain in the late ALU", "eor.w r0, r0, r1; eor.w r0, r0, r2", 2),
    Sequence("one multiplier", "smlad r0, r1, r2, r0; smlad r3, r4, r5, r3", 2),
    Sequence("accumulators chain", "smlad r0, r1, r2, r0", 1),
    Sequence("products are late by one", "mul r0, r1, r2; eor.w r3, r0, r4", 2),
    Sequence("a load beside a product", "smlad r0, r1, r2, r0; ldr.w r3, [r8]", 1),
    Sequence("no store beside a product", "smlad r0, r1, r2, r0; str.w r3, [r8]", 2),
    Sequence("one extension a cycle, and first of the pair", "sxtb16 r0, r1; sxtb16 r2, r3", 2),
    Sequence("an extension with a sum behind it", "sxtb16 r0, r1; add.w r2, r3, r4", 1),
    Sequence("one shifter", "add.w r0, r1, r2, lsl #3; add.w r3, r4, r5, lsl #3", 2),
    Sequence("a plain shift is none", "lsl.w r0, r1, #3; add.w r3, r4, r5, lsl #3", 1),
    Sequence("loads from an even and an odd word", "ldr.w r0, [r8]; ldr.w r1, [r8, #4]", 1),
    Sequence("loads from two even words", "ldr.w r0, [r8]; ldr.w r1, [r8, #8]", 2),
    Sequence("one store", "str.w r0, [r8]; str.w r1, [r8, #4]", 2),
    Sequence("a load beside a store", "ldr.w r0, [r8]; str.w r1, [r8, #4]", 1),
    Sequence("a word is there in the next cycle", "ldr.w r0, [r8]; eor.w r1, r0, r2", 1),
    Sequence("a byte one later", "ldrb.w r0, [r8]; eor.w r1, r0, r2", 2),
    Sequence("what is shifted waits longer", "ldr.w r0, [r8]; eor.w r1, r2, r0, lsl #3", 2),
    Sequence("an address too", "ldr.w r10, [r9]; str.w r0, [r10]", 2),
    Sequence("four registers, two cycles", "ldm.w r8, {r0, r1, r2, r3}", 2),
    Sequence("seven for a division [L]", "udiv r0, r1, r2", 7),
    Sequence("one sum of the FPU", "vadd.f32 s0, s1, s2; vadd.f32 s3, s4, s5", 2),
    Sequence("and a load of it beside", "vmul.f32 s0, s1, s2; vldr s3, [r8]", 1),
    Sequence("an accumulator of the FPU every third cycle", "vfma.f32 s0, s1, s2", 3),
    Sequence("a load of several waits behind multiply-accumulates", "vfma.f32 s0, s1, s2; vldmia r8, {s4}", 5),
)
# Technical Reference Manual r0p1, table 3-1; [J] cortex_m3m4.md; [C] compendium.i-0.nl
M4 = (
    Sequence("a sum", "add.w r0, r1, r2", 1),
    Sequence("every product in one cycle", "smlad r0, r1, r2, r0; umlal r3, r4, r5, r6", 2),
    Sequence("a load alone", "ldr.w r0, [r8]; add.w r1, r2, r3", 3),
    Sequence("loads overlap", "ldr.w r0, [r8]; ldr.w r1, [r8, #4]; add.w r2, r3, r4", 4),
    Sequence("not from two memories [J]", "ldr.w r0, [r8]; ldr.w r1, [r11]; add.w r2, r3, r4", 5),
    Sequence("a load waits for the store before it [J]", "str.w r0, [r8]; ldr.w r1, [r8]; add.w r2, r3, r4", 5),
    Sequence(
        "wide instructions at odd halfwords behind a load [C]",
        "ldrh r0, [r7]; add.w r0, r1, r2; add.w r0, r1, r2; add.w r0, r1, r2; nop",
        7,
    ),
    Sequence(
        "the same at even ones", "ldrh.w r0, [r7]; add.w r0, r1, r2; add.w r0, r1, r2; add.w r0, r1, r2; nop; nop", 7
    ),
)
# [J] cortex_m33.md; what is a guess there or here is not in the table
M33 = (
    Sequence("a sum", "add.w r0, r1, r2", 1),
    Sequence("a load is late by one", "ldr.w r0, [r8]; eor.w r1, r0, r2", 3),
    Sequence("not for an accumulator", "ldr.w r0, [r8]; mla r3, r1, r2, r0", 2),
    Sequence("nor for a store", "ldr.w r0, [r8]; str.w r0, [r8, #4]", 2),
    Sequence("an address that was written back is there", "ldr.w r0, [r9], #4", 1),
    Sequence("a product is late by one", "mul r0, r1, r2; eor.w r3, r0, r4", 3),
    Sequence("accumulators chain", "smlad r0, r1, r2, r0", 1),
    Sequence("extensions chain as accumulators do", "sxtab16 r0, r0, r1", 1),
    Sequence("what is shifted is late by one", "add.w r0, r1, r2, lsl #3; eor.w r3, r0, r4", 3),
    Sequence("a plain shift is not", "lsl.w r0, r1, #3; eor.w r3, r0, r4", 2),
    Sequence("so are saturated sums", "qadd r0, r1, r2; eor.w r3, r0, r4", 3),
    Sequence("the narrow product takes two", "muls r1, r2, r1; mov.w r0, r3", 3),
    Sequence("a multiple takes a cycle each", "ldm.w r8, {r0, r1, r2, r3}", 4),
    Sequence("nothing pairs with a sum", "adds r0, #1; adds r1, #1", 2),
    Sequence("but a nop", "adds r0, #1; nop", 1),
    Sequence("if both are narrow", "add.w r0, r1, r2; nop", 2),
    Sequence("a fused product of the FPU blocks it", "vfma.f32 s0, s1, s2", 3),
)
# TRM r0p1 (DDI0484C), table 3-1, without wait states. r7: an address in RAM
M0PLUS = (
    Sequence("a sum", "adds r0, r1, r2", 1),
    Sequence("a product", "muls r0, r1, r0", 1),
    Sequence("a load", "ldr r0, [r7]", 2),
    Sequence("its result is there", "ldrb r0, [r7]; adds r0, r0, r1", 3),
    Sequence("a store", "str r0, [r7]", 2),
    Sequence("four loads", "ldmia r7!, {r0-r3}; subs r7, #16", 6),
    Sequence("four stores and loads of the stack", "push {r0-r3}; pop {r0-r3}", 10),
    Sequence("a branch", "b 7f; 7:", 2),
    Sequence("one that is taken", "cmp r0, r0; beq 7f; nop; 7:", 3),
    Sequence("one that is not", "cmp r0, r0; bne 7f; 7:", 2),
)
TIMES_M0PLUS = """
    .syntax unified
    .thumb
    .global start
    .section .text
    .word 0x20001000, start + 1
    .thumb_func
start:
    ldr r6, =0x40022000
    ldr r0, ={acr:#x}
    str r0, [r6]
    ldr r6, =0x4002103C
    movs r0, #1
    str r0, [r6]
    ldr r6, =0x40000040
    ldr r4, =0x08001000
    mov r8, r4
    movs r5, #2
    mov r12, r5
    b again
    .ltorg
again:
    movs r7, #0x20
    lsls r7, r7, #24
    adds r7, #0x80
{body}
    mov r5, r12
    subs r5, #1
    mov r12, r5
    beq 1f
    ldr r5, =again + 1
    bx r5
1:  b 1b
    .ltorg
"""
MARK_M0PLUS = "    movs r5, #{tag}\n    str r5, [r6]\n    b 9f\n    .balign 32\n9:\n"
TIMES = """
    .syntax unified
    .thumb
    .macro set register, value
    movw \\register, #(\\value & 0xFFFF)
    movt \\register, #(\\value >> 16)
    .endm
    .global start
    .section .text
    .word {stack:#x}, start + 1
    .thumb_func
start:
    set r0, 0xE000ED88
    set r1, 0xF00000
    str r1, [r0]
    dsb
    isb
{warm}
    mov r12, #2
again:
    set r6, 0xE0000000
    set r7, 0x20000140
    set r8, 0x20000100
    set r9, 0x20000120
    set r11, 0x08000000
    str r8, [r9]
{body}
    subs.w r12, r12, #1
    bne.w again
1:  b 1b
"""
MARK = "    movw lr, #{tag}\n    str.w lr, [r6]\n    isb\n    b.w 9f\n    .balign 32\n9:\n"
CACHES_ON = """
    set r0, 0xE000ED14
    set r1, 0x30000
    str r1, [r0]
    dsb
    isb
"""


def cycles_of(chip: Chip, emulated: str, bodies: list[str], folder: Path, acr: int = 0) -> list[int]:
    """Typical cycles of each body, the second time that all of them run."""
    return [counts[1] for counts in counts_of(chip, emulated, bodies, folder, acr)]


def counts_of(chip: Chip, emulated: str, bodies: list[str], folder: Path, acr: int = 0) -> list[tuple[int, ...]]:
    """Instructions, typical, fewest and most cycles of each body, the second time that all of them run.

    `acr`: FLASH_ACR of an M0+.
    """
    build_dir()
    mark, times = (MARK_M0PLUS, TIMES_M0PLUS) if chip is G0B1 else (MARK, TIMES)
    code = "".join(mark.format(tag=n) + f"    {body}\n" for n, body in enumerate([*bodies, ""]))
    warm = CACHES_ON if chip is H747 else ""
    (folder / "times.s").write_text(times.format(stack=0x20001000, body=code, warm=warm, acr=acr))
    elf, image = folder / "times.elf", folder / "times.bin"
    flags = [*chip.machine, "-nostdlib", "-Wl,-Ttext=0x08000000", "-Wl,-estart"]
    subprocess.run(["arm-none-eabi-gcc", *flags, folder / "times.s", "-o", elf], check=True)
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", elf, image], check=True)
    files = ["--image", image, "--link", folder / "port", "--trace", folder / "trace"]
    run = [ARMSIM, "--chip", emulated, *files, "--no-autoreset", "--budget", "200000"]
    with subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.wait(60)  # an end of its input would end it before its budget does
        assert process.stdout is not None
        assert b'"fault"' not in process.stdout.read()
    at = [[int(word) for word in line.split()[1:]] for line in (folder / "trace").read_text().splitlines()]
    pairs = itertools.pairwise(at[-len(bodies) - 1 :])
    return [tuple(x - y for x, y in zip(after, before, strict=True)) for before, after in pairs]


@pytest.mark.parametrize(
    ("chip", "emulated", "sequences"),
    [
        (H747, "stm32h7a3", M7),
        (L4R5, "stm32l4r5", M4),
        (U575, "stm32u575", M33),
        (G0B1, "stm32g0b1", M0PLUS),
    ],
)
def test_sequences_take_what_others_have_measured(
    chip: Chip, emulated: str, sequences: tuple[Sequence, ...], tmp_path: Path
) -> None:
    bodies = ["; ".join([s.code] * copies) for s in sequences for copies in (FEW, MANY)]
    found = cycles_of(chip, emulated, bodies, tmp_path)
    each = [(many - few) / (MANY - FEW) for few, many in zip(found[::2], found[1::2], strict=True)]
    wrong = {s.name: (s.cycles, got) for s, got in zip(sequences, each, strict=True) if abs(got - s.cycles) > 0.11}
    assert not wrong


def test_a_cache_holds_what_fits_and_waits_for_what_does_not(tmp_path: Path) -> None:
    """Of flash, 64 lines stay in 16 KiB, 1,024 do not; then each is two reads of four cycles and four of the way."""
    walk = "mov.w r0, #{count}; set r10, 0x08010000; 7: ldr.w r1, [r10], #32; subs.w r0, r0, #1; bne.w 7b"
    bodies = [walk.format(count=count) for count in (64, 64, 128, 1024, 2048)]
    _, warm, half, _, lost = cycles_of(H747, "stm32h7a3", bodies, tmp_path)
    assert 64 < warm < 3 * 64
    assert half > 64 * (4 + 2 * 4)
    assert abs(lost / 2048 - (4 + 2 * 4)) < 0.1


@pytest.mark.parametrize(("acr", "waits"), [(0x000, 0), (0x002, 2), (0x302, 2)])
def test_a_load_of_an_m0plus_waits_for_flash(acr: int, waits: int, tmp_path: Path) -> None:
    """Behind it eight sums of their own line, which has been fetched meanwhile or not."""
    sums = "adds r0, r1, r2; " * 8
    bodies = [f"mov r4, {where}; b 7f; .balign 8; 7: {f'ldr r3, [r4]; {sums}' * 8}" for where in ("r7", "r8")]
    ram, flash = cycles_of(G0B1, "stm32g0b1", bodies, tmp_path, acr)
    assert flash - ram >= 8 * waits
    assert (flash == ram) == (waits == 0)


def test_what_an_m0plus_has_just_run_stays_beside_its_flash(tmp_path: Path) -> None:
    """Loops of 12 instructions and of 40, 100 turns: with the cache the short one waits no more than once."""
    loops = ["movs r0, #100; b 7f; .balign 8; 7: " + "nop; " * (n - 2) + "subs r0, #1; bne 7b" for n in (12, 40)]
    short, long = cycles_of(G0B1, "stm32g0b1", loops, tmp_path, 0x202)
    assert short < 100 * (12 + 1) + 40
    assert long > 100 * (40 + 1 + 2 * 10 - 8)


def test_data_in_flash_cost_the_m33_a_cycle_more(tmp_path: Path) -> None:
    bodies = [f"mov.w r10, {where}; b.w 7f; 7: {'ldr.w r0, [r10]; nop.w; ' * 8}" for where in ("r8", "r11")]
    ram, flash = cycles_of(U575, "stm32u575", bodies, tmp_path)
    assert 8 <= flash - ram <= 9


@pytest.mark.parametrize(
    ("board", "code"),
    [("nucleo_g0b1", ".inst.w 0xeb000000"), ("nucleo_u575", ".inst.w 0xee300b00")],
    ids=["add.w on an M0+", "vadd.f64 on an M33"],
)
def test_what_has_no_price_is_refused(board: str, code: str, tmp_path: Path) -> None:
    build_dir()
    enabled = "" if board == "nucleo_g0b1" else "movw r0, #0xED88; movt r0, #0xE000; mvn r1, #0; str r1, [r0]; "
    path = assembled(f"{enabled}{code}; 2: b 2b", tmp_path)
    with pytest.raises(NotRun, match="no price in the cycle model for the instruction at 0x080000"):
        cycle_model.run(image_of(path, board), BRIEF)


def test_an_odd_address_costs_the_m7_three_cycles(tmp_path: Path) -> None:
    bodies = [f"add.w r10, r8, #{odd}; b.w 7f; 7: {'ldr.w r0, [r10]; nop.w; ' * 8}" for odd in (0, 1)]
    even, odd = cycles_of(H747, "stm32h7a3", bodies, tmp_path)
    assert odd - even == 8 * 3


@pytest.mark.parametrize(
    ("chip", "emulated", "load", "cycles"),
    [
        (L4R5, "stm32l4r5", "ldm.w r8, {r0-r5}", 7 + 1),
        (L4R5, "stm32l4r5", "vldmia r8, {s0-s31}", 33 + 1),
        (H747, "stm32h7a3", "ldm.w r8, {r0-r5}", 3 + 1),
        (H747, "stm32h7a3", "vldmia r8, {s0-s31}", 16 + 1),
    ],
)
def test_a_block_may_hold_any_number_of_loads(
    chip: Chip, emulated: str, load: str, cycles: int, tmp_path: Path
) -> None:
    """None beside another's data, so that each is an access of its own; blocks end where Unicorn ends them."""
    bodies = [f"set r8, 0x20000100; {f'{load}; add.w r8, r8, #192; ' * count}" for count in (20, 100, 400)]
    few, many, more = counts_of(chip, emulated, bodies, tmp_path)
    assert [many[0] - few[0], more[0] - many[0]] == [2 * 80, 2 * 300]
    assert [many[1] - few[1], more[1] - many[1]] == pytest.approx([80 * cycles, 300 * cycles], abs=8)
    assert all(low <= typical <= high for _, typical, low, high in (few, many, more))
    assert more[3] - many[3] == pytest.approx((many[3] - few[3]) * 300 / 80, rel=0.02)  # no count wraps around


def of_the_page() -> dict[str, tuple[int, float]]:
    """Of docs/cycle_model.md: image -> modelled cycles, their error in per cent."""
    lines = [line.strip("|").split("|") for line in (ROOT / "docs/cycle_model.md").read_text().splitlines()]
    (tasks,) = (cells[1:] for cells in lines if cells[0] == " system ")
    rows = [
        (cells[0].strip(), task.strip(), cell) for cells in lines for task, cell in zip(tasks, cells[1:], strict=False)
    ]
    found = {
        (name, task): re.match(r" ([\d,]+) \(([-+][\d.]+)", cell) for name, task, cell in rows if name[:3] == "v1."
    }
    return {f"{n} {t}": (int(m[1].replace(",", "")), float(m[2])) for (n, t), m in found.items() if m is not None}


@pytest.mark.data("firmware")
@pytest.mark.parametrize("longest", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_published_image_runs_as_the_page_says(longest: bool) -> None:
    """All but the streaming wake words, whose audio comes through DMA: the U575's waits for it without end."""
    rows = {name: cycles for name, (cycles, _) in of_the_page().items()}
    found = list(images(data_file("firmware")))
    build_dir()
    patient = Counts(budget=100 * TWICE.budget)  # on a busy machine boards wait for bytes
    assert {image.name for image in found if image.task != "sww"} == set(rows)
    for image in found:
        said = rows.get(image.name, 0)
        if image.task == "sww":
            with pytest.raises(NotRun, match=r"unmapped address 0x400200|no end within"):
                cycle_model.run(image, Counts(budget=50_000_000))
        elif longest == (said > LONG_CYCLES):
            assert cycle_model.run(image, patient).cycles == pytest.approx(said, rel=0.005), image.name


def image_of(path: Path, board: str = "nucleo_l4r5") -> Image:
    return Image("v0", "us", "NUCLEO_L4R5ZI", "kws", path, board, measured=1.0, clock_hz=120e6)


def assembled(code: str, folder: Path) -> Path:
    """It holds the text by which an image is known to speak MLPerf Tiny's protocol."""
    head = f".syntax unified\n.thumb\n.word 0x20001000, 1f + 1\n.global _start\n_start: 1: {code}\n"
    (folder / "x.s").write_text(f'{head}.balign 4\n.ascii "{TEXT_OF_MLPERF.decode()}"\n.balign 4\n')
    flags = [*L4R5.machine, "-nostdlib", "-Wl,-Ttext=0x08000000"]
    subprocess.run(["arm-none-eabi-gcc", *flags, folder / "x.s", "-o", folder / "x.elf"], check=True)
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", folder / "x.elf", folder / "x.bin"], check=True)
    return folder / "x.bin"


# PWR_CR1, RCC_PLLCFGR, FLASH_ACR and TIM2_ARR, and what a store of the byte 1 makes of their values after reset
REGISTERS = ((0x40007000, 0x201), (0x4002100C, 0x1001), (0x40022000, 0x601), (0x4000002C, 0xFFFFFF01))


def store_of_a_byte(register: int, word: int) -> str:
    """Ends where nothing is modelled if `register` holds `word` then, and never otherwise."""
    loaded = "movw r{0}, #{1}; movt r{0}, #{2}; "
    value = loaded.format(0, register & 0xFFFF, register >> 16) + "movs r1, #1; strb r1, [r0]; ldr r2, [r0]; "
    check = loaded.format(3, word & 0xFFFF, word >> 16) + "cmp r2, r3; 3: bne 3b; "
    return f"{value}{check}movw r0, #8; movt r0, #0x4002; ldr r1, [r0]; 2: b 2b"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("movw r0, #8; movt r0, #0x4002; ldr r1, [r0]; 2: b 2b", r"read of .* 0x40020008 at pc 0x080000"),
        ("movw r0, #8; movt r0, #0x4002; str r1, [r0]; 2: b 2b", r"write .* 0x40020008 at pc 0x080000"),
        (
            "movw r0, #0x400; movt r0, #0x4001; str r1, [r0]; str.w r1, [r0, #0x400]; 2: b 2b",
            r"not modelled 0x40010800",
        ),
        ("2: adds r0, #1; b 2b", r"no end within 3,000,000 instructions"),
        *((store_of_a_byte(*one), r"read of .* 0x40020008 at pc") for one in REGISTERS),
    ],
)
def test_an_image_that_cannot_be_run_is_named_and_ends(code: str, why: str, tmp_path: Path) -> None:
    build_dir()
    with pytest.raises(NotRun, match=why):
        cycle_model.run(image_of(assembled(code, tmp_path)), BRIEF)


def test_an_image_of_our_own_goes_the_whole_way(tiny: dict[str, str]) -> None:
    """Our firmware of MLPerf Tiny on the same path as those of others, its own clock against the emulator's."""
    build_dir()
    image = made(tiny, "nucleo_l4r5", "int8").image.load_path
    assert image.suffix == ".bin"
    outcome = cycle_model.run(image_of(image))
    assert 490 * 12 / 4 < outcome.instructions < outcome.cycles
    again = cycle_model.run(image_of(image, "nucleo_l4r5_single_bank"))
    assert again.instructions == outcome.instructions
    assert again.cycles < outcome.cycles  # flash is read 128 bits at a time
    assert "| system | kws |\n|---|---|\n| v0 us NUCLEO_L4R5ZI | " in cycle_model.table([outcome])


def test_hex_files_are_unpacked(tmp_path: Path) -> None:
    plain = assembled("nop; .space 70000, 0x5A; nop", tmp_path)
    packed = tmp_path / "x.hex"
    subprocess.run(["arm-none-eabi-objcopy", "-O", "ihex", tmp_path / "x.elf", packed], check=True)
    assert unpacked_hex(packed, packed.read_bytes()) == plain.read_bytes()
    packed.write_text(packed.read_text().replace("5A5A", "5A5B", 1))
    with pytest.raises(ConfigError, match="line 2 of the HEX file has a wrong checksum"):
        unpacked_hex(packed, packed.read_bytes())


def test_images_are_found_beside_their_measurements(tmp_path: Path) -> None:
    closed = tmp_path / "v1.2" / "closed" / "st"
    for name in (
        "code/NUCLEO_L4R5ZI/keyword_spotting/Binaries/KWS-Performance.bin",
        "code/NUCLEO_L4R5ZI/ad/x-Energy.bin",
    ):
        (closed / name).parent.mkdir(parents=True)
        (closed / name).write_bytes(b"")
    results = closed / "results/NUCLEO_L4R5ZI/kws/performance/results.txt"
    results.parent.mkdir(parents=True)
    results.write_text("1.0 ulp-mlperf: Median throughput is 23.155 inf./sec.\n")
    (closed / "systems").mkdir()
    described = '{"Processor(s) Frequencies": "120 MHz", "Hardware Notes": "Single Bank Mode"}'
    (closed / "systems/NUCLEO_L4R5ZI.json").write_text(described)
    (image,) = images(tmp_path)
    assert (image.name, image.board) == ("v1.2 st NUCLEO_L4R5ZI kws", "nucleo_l4r5_single_bank")
    assert (image.measured, image.clock_hz) == (23.155, 120e6)
    assert cycle_model.main(["--results", str(tmp_path / "empty")]) == 2


def test_boards_claim_no_more_than_the_table_says() -> None:
    """docs/cycle_model.md holds the errors; boards.yaml says the worst of each core, rounded up."""
    for board, marks in (("h747", ("H7A3", "F746")), ("nucleo_l4r5", ("L4R5",))):
        errors = [abs(error) for name, (_, error) in of_the_page().items() if any(mark in name for mark in marks)]
        emulator = load_boards().board(board).chip.emulator
        assert emulator is not None
        assert emulator.error is not None
        assert len(errors) > 15
        assert max(errors) <= 100 * emulator.error < max(errors) + 1
        assert np.median(errors) <= 5


def test_a_run_says_between_which_times_the_chip_lies() -> None:
    modelled = {"median": 28e3, "median_us": 28e3, "unit": "cycles", "max": 28000, "clock_hz": 1_000_000}
    assert band(modelled) == ""
    assert band({**modelled, "low": 25_200, "high": 30_800}) == ", on the chip between 25.20 ms and 30.80 ms"


def test_fidelity_names_the_error_of_each_model() -> None:
    said = {line.split()[0]: line for line in statements(load_boards()) if " armsim " in line}
    assert said["due"].endswith("modelled cycles, never held against hardware")
    assert said["h747"].endswith("modelled cycles, within 10 % of hardware")
    assert said["nucleo_l4r5"].endswith("modelled cycles, within 7 % of hardware")
