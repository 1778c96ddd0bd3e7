"""The deepest stack that an image can need: against compilers, forms of prologues, and what emulators see."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from boards_under_test import BOARDS, EMULATED, SPECS
from direct_build import direct_build
from given_data import data_file
from stack_check import connected

from tinyhil.formats.codec import storage_dtype
from tinyhil.harness.build.board_image import compile_for
from tinyhil.harness.build.disassembly import Code, read_code
from tinyhil.harness.build.stack_arm import Arm
from tinyhil.harness.build.stack_avr import Avr
from tinyhil.harness.build.stack_depth import Depths, Entry, NotUnderstood, bound_bytes, stack_bound
from tinyhil.harness.job.job import open_model
from tinyhil.harness.wire import protocol
from tinyhil.harness.wire.link import Link
from tinyhil.harness.wire.stream import Options, greet, stream
from tinyhil.references.evaluate import shape_inputs
from tinyhil.references.reference import quantize_inputs, run_reference

AVR = ("avr-gcc", "-mmcu=atmega328p")
THUMB = ("arm-none-eabi-gcc", "-mthumb")
CORES = {
    "avr": AVR,
    "cortex-m0plus": (*THUMB, "-mcpu=cortex-m0plus"),
    "cortex-m3": (*THUMB, "-mcpu=cortex-m3"),
    "cortex-m4": (*THUMB, "-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
    "cortex-m7": (*THUMB, "-mcpu=cortex-m7", "-mfloat-abi=hard", "-mfpu=fpv5-d16"),
    "cortex-m33": (*THUMB, "-mcpu=cortex-m33", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16"),
}
TOP = 0x8FF, 0x20008000
ADDRESS_BYTES = 2  # of an AVR's return, which its compiler counts as the function's
FRAMES = (1, 2, 3, 5, 6, 7, 30, 62, 63, 64, 65, 94, 98, 128, 191, 192, 255, 256, 257, 300, 511, 512, 700)
C = """
volatile char *p; volatile int s; int (*fp)(int); volatile float q[16];
#define ALONE __attribute__((noinline, noclone, used))
ALONE void use(volatile char *b) { p = b; }
ALONE int leaf(int a) { return a + s; }
#define F(n) ALONE int f##n(int i) { volatile char b[n]; use(b); return b[i] + b[n - 1]; }
FRAMES
ALONE int many(int a, int b, int c, int d) {
    int e = leaf(a), f = leaf(b), g = leaf(c), h = leaf(d), i = leaf(e), j = leaf(f), k = leaf(g), l = leaf(h);
    use(p);
    return a + b + c + d + e + f + g + h + i + j + k + l;
}
ALONE int chosen(int x) {
    volatile char b[40];
    switch (x) {
    case 0: use(b); return 5;
    case 1: return leaf(s);
    case 2: use(b + 2); return b[3];
    case 3: return 77;
    case 4: s = 3; return 8;
    case 5: s = 9; return leaf(1);
    case 6: s = 2; return 99;
    case 7: s = 55; return 3;
    case 9: use(b + 1); s = 4; return many(1, 2, 3, s);
    }
    return 0;
}
ALONE float floats(int n) {
    float a = q[0], b = q[1], c = q[2], d = q[3], e = q[4], f = q[5], g = q[6], h = q[7];
    for (int i = 0; i < n; ++i) { s = leaf(s); a += b * q[i]; c += d * q[i]; e += f * q[i]; g += h * q[i]; }
    return a + b + c + d + e + f + g + h;
}
ALONE int sometimes(int x) { if (!x) return s; volatile char b[70]; use(b); return b[x]; }
ALONE int at_last(int x) { use(p); return leaf(x); }
"""
OPTIONS = ("-O2", "-Os", "-O0", "-O1 -fno-omit-frame-pointer")


def assembled(core: str, text: str, folder: Path, suffix: str, *options: str) -> Code:
    """A program of one file, linked; nobody runs it."""
    source, elf = folder / f"x{suffix}", folder / "x.elf"
    source.write_text(text)
    command = [*CORES[core], *options, "-nostartfiles", "-Wl,-e,0", "-Wl,--defsym=__stack=0x8ff", source, "-o", elf]
    if core != "avr":
        command += ["-nostdlib", "-lgcc", "-Wl,-Ttext=0x8000"]
    done = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    objdump = CORES[core][0].replace("gcc", "objdump")
    return read_code(subprocess.run([objdump, "-d", elf], capture_output=True, text=True, check=True).stdout, elf)


def depths(code: Code, core: str, taken: tuple[int, ...] = ()) -> Depths:
    return Depths(Avr(code, TOP[0], ()) if core == "avr" else Arm(code, TOP[1]), taken)


@pytest.mark.parametrize(("core", "option"), [*product(CORES, OPTIONS), ("avr", "-Os -mcall-prologues")])
def test_frames_are_those_of_the_compiler(core: str, option: str, tmp_path: Path) -> None:
    text = C.replace("FRAMES", " ".join(f"F({n})" for n in FRAMES))
    code = assembled(core, text, tmp_path, ".c", *option.split(), "-fstack-usage")
    said = dict(re.findall(r"^\S+:(\w+)\t(\d+)\tstatic$", next(tmp_path.glob("*.su")).read_text(), re.MULTILINE))
    assert len(said) > len(FRAMES) + 5
    found = depths(code, core)
    less = ADDRESS_BYTES if core == "avr" else 0
    wrong = {
        name: (found.walk(Entry(code.symbols[name] & ~1)).deepest, int(size) - less)
        for name, size in said.items()
        if name not in ("at_last", "chosen", "sometimes")  # these end in others
        and found.walk(Entry(code.symbols[name] & ~1)).deepest != int(size) - less
    }
    assert not wrong
    for name in said:
        assert found.walk(Entry(code.symbols[name] & ~1)).frame == int(said[name]) - less, name


@dataclass(frozen=True, slots=True)
class Form:
    """`bytes` of the function `f` with all that it calls; or why there is no bound."""

    core: str
    code: str
    bytes: int | str


AT_RUN_TIME, DEEPER = "known at run time only", "deeper with every turn"
SET_SP = "in r0, 0x3f; cli; out 0x3e, r29; out 0x3f, r0; out 0x3d, r28; "
Y = "push r28; push r29; in r28, 0x3d; in r29, 0x3e; "
Y_BACK = "pop r29; pop r28; ret"
G = "; .type g, %function; .thumb_func; g: sub sp, #32; add sp, #32; bx lr; .size g, . - g"
FORMS = (
    Form("avr", f"{Y}subi r28, 94; sbc r29, r1; {SET_SP}subi r28, -94; sbci r29, -1; {SET_SP}{Y_BACK}", 96),
    Form("avr", f"{Y}subi r28, 0x2c; sbci r29, 1; {SET_SP}subi r28, 0xd4; sbci r29, 0xfe; {SET_SP}{Y_BACK}", 302),
    Form(
        "avr",
        f"{Y}sbiw r28, 63; {SET_SP}subi r28, 0xB0; sbci r29, 0xFF; ldd r24, Y+3; subi r28, 80; sbci r29, 0; "
        f"adiw r28, 63; {SET_SP}{Y_BACK}",
        65,
    ),
    Form("avr", f"{Y}sub r28, r24; sbc r29, r25; {SET_SP}{Y_BACK}", AT_RUN_TIME),
    Form(
        "avr", f"{Y}ldi r24, 200; sub r28, r24; sbc r29, r1; {SET_SP}add r28, r24; adc r29, r1; {SET_SP}{Y_BACK}", 202
    ),
    Form("avr", f"{Y}movw r24, r28; sbiw r24, 40; movw r28, r24; {SET_SP}adiw r28, 40; {SET_SP}{Y_BACK}", 42),
    Form("avr", f"{Y}mul r2, r3; subi r28, 94; sbc r29, r1; {SET_SP}{Y_BACK}", AT_RUN_TIME),
    Form("avr", "rcall .; rcall .; push r0; pop r0; pop r0; pop r0; pop r0; pop r0; ret", 5),
    Form("avr", "1: push r0; rjmp 1b", DEEPER),
    Form("avr", "push r0; ret", "returns with 1 B"),
    Form("avr", "push r24; out 0x3e, r29; push r25", "known at run time only"),
    Form("avr", "sbrc r24, 0; push r0; ret", "returns with 1 B"),
    Form("avr", "push r0; call g; pop r0; ret; g: push r1; push r1; pop r1; pop r1; ret", 1 + 2 + 2),
    Form("avr", "push r0; pop r0; rjmp g; g: push r1; push r1; pop r1; pop r1; ret", 2),
    Form("avr", "push r0; ijmp", "unknown place"),
    Form("avr", "call f; ret", "calls itself"),
    Form("avr", "ldi r30, lo8(gs(g)); ldi r31, hi8(gs(g)); icall; ret; g: push r1; pop r1; ret", 2 + 1),
    Form("cortex-m0plus", "push {r4, lr}; sub sp, #8; add sp, #8; pop {r4, pc}", 16),
    Form(
        "cortex-m0plus",
        "push {r4, lr}; ldr r4, =-1020; add sp, r4; movs r4, #255; lsls r4, r4, #2; add sp, r4; pop {r4, pc}; .ltorg",
        1028,
    ),
    Form("cortex-m0plus", "push {r4, lr}; mov r4, r8; push {r4}; pop {r4}; mov r8, r4; pop {r4}; pop {r1}; bx r1", 12),
    Form("cortex-m0plus", "push {r0, r1}; ldr r0, 1f; str r0, [sp, #4]; pop {r0, pc}; .align 2; 1: .word g" + G, 32),
    Form("cortex-m0plus", "push {r4, lr}; bl g; pop {r4, pc}" + G, 40),
    Form("cortex-m0plus", "push {r0}; ldr r0, 1f; mov ip, r0; pop {r0}; bx ip; .align 2; 1: .word g" + G, 32),
    Form("cortex-m3", "push {r4}; cbz r0, 1f; push {r5}; pop {r5}; 1: pop {r4}; bx lr", 8),
    Form("cortex-m3", "str lr, [sp, #-4]!; ldr pc, [sp], #4", 4),
    Form("cortex-m3", "strd r4, r5, [sp, #-16]!; ldrd r4, r5, [sp], #16; bx lr", 16),
    Form("cortex-m3", "movw r12, #5000; sub sp, sp, r12; add sp, sp, r12; bx lr", 5000),
    Form("cortex-m3", "movw r3, #0; movt r3, #1; sub sp, sp, r3; add sp, sp, #65536; bx lr", 65536),
    Form("cortex-m3", "push {r7, lr}; mov r7, sp; sub sp, #64; mov sp, r7; pop {r7, pc}", 72),
    Form("cortex-m3", "push {r7, lr}; add r7, sp, #0; sub.w sp, sp, r0; mov sp, r7; pop {r7, pc}", AT_RUN_TIME),
    Form("cortex-m3", "push {r4, lr}; cmp r0, #0; it ne; popne {r4, pc}; sub sp, #8; add sp, #8; pop {r4, pc}", 16),
    Form("cortex-m3", "cmp r0, #0; it ne; subne sp, sp, r0; bx lr", AT_RUN_TIME),
    Form("cortex-m3", "1: push {r0}; b 1b", DEEPER),
    Form("cortex-m3", "push {r0}; bx lr", "returns with 4 B"),
    Form("cortex-m3", "push {r4, lr}; ldmia.w sp!, {r4, lr}; b.w g" + G, 32),
    Form("cortex-m3", "ldr.w pc, [pc, #0]; .word g" + G, 32),
    Form(
        "cortex-m3",
        "push {r4, lr}; cmp r0, #1; bhi 1f; tbb [pc, r0]; 3: .byte (2f-3b)/2, (4f-3b)/2; "
        "2: sub sp, #24; add sp, #24; 1: pop {r4, pc}; 4: sub sp, #40; add sp, #40; pop {r4, pc}",
        48,
    ),
    Form("cortex-m3", "push {r4, lr}; add pc, r0; nop; pop {r4, pc}; push {r5}; pop {r5}; pop {r4, pc}", 12),
    Form("cortex-m3", "push {r4, lr}; bx r0", "unknown place"),
    Form("cortex-m3", "msr control, r0; isb; bx lr", "two stacks"),
    Form("cortex-m3", "msr psp, r0; bx lr", "two stacks"),
    Form("cortex-m3", "msr msp, r0; bx lr", AT_RUN_TIME),
    Form("cortex-m3", "push {lr}; bl f; pop {pc}", "calls itself"),
    Form("cortex-m4", "vpush {s16-s19}; vldmia sp!, {s16-s19}; bx lr", 16),
    Form(
        "cortex-m7",
        "stmdb sp!, {r4-r11, lr}; vpush {d8-d15}; sub.w sp, sp, #1024; vstr d0, [sp, #8]; add.w sp, sp, #1024; "
        "vpop {d8-d15}; ldmia.w sp!, {r4-r11, pc}",
        36 + 64 + 1024,
    ),
    Form("cortex-m33", "sg; push {r4, lr}; sub sp, #8; add sp, #8; pop {r4, lr}; bxns lr", 16),
    Form("cortex-m33", "push {r4, lr}; blxns r0; pop {r4, pc}", "non-secure side"),
    Form("cortex-m33", "push {r4, lr}; vlstm sp; vlldm sp; pop {r4, pc}", 8),
)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.core}-{form.code[:40]}")
def test_forms_of_prologues(form: Form, tmp_path: Path) -> None:
    head = "" if form.core == "avr" else ".syntax unified\n.thumb\n"
    kind = "@function" if form.core == "avr" else "%function\n.thumb_func"
    body = form.code.replace("; ", "\n") + "\n"
    end = "" if "f, . - f" in body or ".size g" in body else ".size f, . - f\n"
    options = ["-march=armv8-m.main+fp", "-mcmse"] if form.core == "cortex-m33" else []
    text = f"{head}.text\n.global f\n.type f, {kind}\nf:\n{body}{end}"
    code = assembled(form.core, text, tmp_path, ".s", *[o for o in options if o != "-march=armv8-m.main+fp"])
    try:
        found: int | str = depths(code, form.core).limit_bytes(Entry(code.symbols["f"] & ~1))
    except NotUnderstood as problem:
        found = str(problem)
    if isinstance(form.bytes, int):
        assert found == form.bytes
    else:
        assert form.bytes in str(found)
        assert re.search(r"at 0x[0-9a-f]+ in [fg]: ", str(found))


PROGRAM = """
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/pgmspace.h>
const uint16_t like_jumps[] PROGMEM = {0xc1a6, 0xc002};  // lie behind the vectors
volatile char *p;
__attribute__((noinline)) void deep(char a) { volatile char b[100]; b[0] = a; p = b; }
ISR(TIMER1_OVF_vect) { deep(1); }
ISR(USART_RX_vect) { %s }
int main() { sei(); for (;;) deep(pgm_read_byte(like_jumps)); }
"""


@pytest.mark.parametrize(
    ("served", "bound"), [("deep(3);", None), ("sei(); deep(3);", "interrupts interrupt each other")]
)
def test_an_uno_takes_one_interrupt_at_a_time(served: str, bound: str | None, tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text(PROGRAM % served)
    elf = tmp_path / "x.elf"
    subprocess.run([*AVR, "-Os", "-DF_CPU=16000000L", tmp_path / "x.c", "-o", elf], check=True)
    code = read_code(subprocess.run(["avr-objdump", "-d", elf], capture_output=True, text=True).stdout, elf)
    if bound is None:
        whole, found = bound_bytes(code, "avr")
        deep = found.functions()[code.symbols["deep"]][1]
        assert 102 <= deep < 110
        assert 2 * (deep + 2) + 2 + 10 < whole < 2 * (deep + 2) + 40
    else:
        with pytest.raises(NotUnderstood, match=bound):
            bound_bytes(code, "avr")


@pytest.mark.parametrize(("served", "on_top"), [((), 0), ((15,), 1), ((15, 16), 2), ((11, 14, 15), 3)])
@pytest.mark.parametrize(("core", "entry"), [("cortex-m0plus", 36), ("cortex-m7", 108), ("cortex-m33", 108)])
def test_exceptions_of_a_cortex_may_interrupt_each_other(
    served: tuple[int, ...], on_top: int, core: str, entry: int, tmp_path: Path
) -> None:
    """And faults begin the stack anew: what they need counts alone."""
    handlers = ["fault"] * 16
    for number in served:
        handlers[number - 1] = f"h{number}"
    functions = "".join(f".thumb_func\nh{n}: push {{r4, lr}}\n pop {{r4, pc}}\n" for n in served)
    text = (
        '.syntax unified\n.thumb\n.section .isr_vector, "a"\n.word 0x20008000, reset + 1\n'
        + "".join(f".word {name} + 1\n" if name == "fault" else f".word {name}\n" for name in handlers[1:])
        + ".text\n.thumb_func\nreset: sub sp, #24\n1: b 1b\n"
        + "fault: ldr r1, =0x20008000\n mov sp, r1\n sub sp, #32\n2: b 2b\n.ltorg\n"
        + functions
    )
    code = assembled(core, text, tmp_path, ".s", "-Wl,--section-start=.isr_vector=0x4000")
    assert bound_bytes(code, core)[0] == max(24, 32) + on_top * (entry + 8)


def test_a_jump_across_memories_takes_no_address(tmp_path: Path) -> None:
    """What a linker's veneer loads is where it goes, not where an indirect call might."""
    made = "".join(f".type {name}, %function\n.size {name}, 4\n" for name in ("send", "emit", "far"))
    text = (
        '.syntax unified\n.thumb\n.section .isr_vector, "a"\n.word 0x20008000, reset + 1\n'
        + ".text\n.thumb_func\nreset: ldr r0, =emit\n bl far\n1: b 1b\n.ltorg\n"
        + ".thumb_func\nsend: push {r4, lr}\n ldr r3, [r0]\n blx r3\n pop {r4, pc}\n"
        + ".thumb_func\nemit: push {r4, r5, r6, r7, lr}\n pop {r4, r5, r6, r7, pc}\n"
        + made
        + '.section .fast, "ax"\n.thumb_func\nfar: push {r4, lr}\n bl send\n pop {r4, pc}\n'
    )
    places = ("-Wl,--section-start=.isr_vector=0x4000", "-Wl,--section-start=.fast=0x20000000")
    code = assembled("cortex-m0plus", text, tmp_path, ".s", *places)
    assert {span.name for span in code.spans} >= {"__far_veneer", "__send_veneer"}
    assert bound_bytes(code, "cortex-m0plus")[0] == 8 + 8 + 20


MODELS = (
    *(pytest.param(board, "digits_mlp", "fixed8", id=f"{board}-fixed8") for board in EMULATED),
    pytest.param("uno", "digits_mlp", "float16", id="uno-float16"),
    pytest.param("uno", "digits_mlp", "fp8e4m3", id="uno-fp8e4m3", marks=pytest.mark.slow),
)


@pytest.mark.parametrize(("board", "model", "fmt"), MODELS)
def test_every_function_keeps_to_its_bound(board: str, model: str, fmt: str, tmp_path: Path) -> None:
    """The whole firmware, wire and interrupts included, by the emulator's account of each function."""
    x = np.random.default_rng(1).uniform(size=(3, 1, 8, 8)).astype(np.float32)
    run_watched(board, model, fmt, x, None, tmp_path)


AUDITED = (
    "layernorm-new",
    "mha-new",
    "gru-new",
    "gru-old",
    "kan_rbf-new",
    "resnet1d-new",
    "bilstm-old",
    "tril_attn-new",
    "tril_attn-old",
)


@pytest.mark.slow
@pytest.mark.data("audit2/stack")
@pytest.mark.parametrize("fmt", ["int8", "fixed8"])
@pytest.mark.parametrize("name", AUDITED)
def test_networks_whose_frames_are_large(name: str, fmt: str, tmp_path: Path) -> None:
    folder = data_file("audit2/stack")
    inputs = folder / f"{name}.npz"
    with np.load(inputs) as file:
        x = file["x"][:2]
    run_watched("uno", str(folder / f"{name}.onnx"), fmt, x, inputs, tmp_path)


def run_watched(board_name: str, model: str, fmt: str, x: np.ndarray, calibrate: Path | None, folder: Path) -> None:
    board, opened = SPECS[board_name], open_model(model)
    assignment, ranges = opened.assignment(None, fmt), opened.required_ranges(calibrate)
    compiled = compile_for(board, BOARDS, opened.model, assignment, ranges, None)
    integers, _ = quantize_inputs(compiled.program, shape_inputs(opened.model.graph, x))
    storage = storage_dtype(compiled.program.tensors[compiled.program.input].format)
    image = direct_build(compiled.sources, board, folder)
    with connected(board, image, folder) as device, Link(device.port, board.baud, device.starved_s) as link:
        hello = greet(link, 60.0, device.banner_s, device.alive)
        samples = [row.astype(storage).tobytes() for row in integers]
        outputs: dict[int, bytes] = {}
        options = Options(protocol.STREAM, 60.0, 1.0)
        stats = stream(
            link, hello, samples, options, lambda index, result: outputs.update({index: result.output}), device.alive
        )
    wanted = run_reference(compiled.program, integers).outputs
    kind = storage_dtype(compiled.program.tensors[compiled.program.output].format)
    assert [outputs[index] for index in range(len(x))] == [row.astype(kind).tobytes() for row in wanted]
    bound = stack_bound(image, board.chip.core).limit_bytes
    assert stats.stack_bytes is not None
    assert bound is not None
    assert stats.stack_bytes <= bound < stats.stack_bytes + 250
