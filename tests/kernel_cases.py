"""Many generated models in one program: one compilation and one run check hundreds of kernel calls."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import serial
from boards_under_test import SESSION
from compiled_once import with_kernels
from direct_build import direct_build
from stack_check import connected

from tinyhil.codegen.model import emit_model
from tinyhil.formats.codec import storage_dtype
from tinyhil.harness.build.image import Image, check_fits
from tinyhil.harness.build.pipeline import project_sources
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.language.program import Program
from tinyhil.memplan import plan
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.memplan.arena.transfer import Transfer
from tinyhil.passes.hot import Target
from tinyhil.passes.laid import laid_out
from tinyhil.references.reference import run_reference

ROOT = Path(__file__).resolve().parent.parent
FIRMWARE = ROOT / "tests" / "firmware_kernels"
ARENA = re.compile(r'extern "C" \{\nalignas\(4\) uint8_t hil_arena\[(\d+)\];\n\}')
TABLE = re.compile(r"// sigmoid_table: look-up table\nconst uint16_t sigmoid_table\[\d+\] HIL_FLASH = \{[^}]*\};\n")
GUARD_BYTES = 16
END_OF_SECTION = 0x80000000
DEADLINE_S = 1200.0
# What is undefined ends the program without a word: a third cheaper to compile than saying where
UNDEFINED = ("-O0", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
# Every access asks a function, instead of code in its place: a fifth cheaper to compile, and finds the same
SANITIZED = (*UNDEFINED, "-fsanitize=address", "--param=asan-instrumentation-with-call-threshold=0")
SAYING_WHERE = "-fno-sanitize-recover=all"


@dataclass(frozen=True)
class Case:
    """A program with the integer inputs (samples, count) it is run on."""

    name: str
    program: Program
    inputs: np.ndarray


@dataclass(frozen=True)
class Results:
    """Per case: outputs (samples, count), saturations (samples,), and on emulated ARM chips the instructions of its
    last sample."""

    outputs: list[np.ndarray]
    saturations: list[np.ndarray]
    instructions: tuple[int, ...] = ()


def expected(cases: Sequence[Case]) -> Results:
    runs = [run_reference(case.program, case.inputs) for case in cases]
    return Results([run.outputs for run in runs], [run.saturations for run in runs])


def first_difference(cases: Sequence[Case], got: Results) -> str:
    """A description of the first wrong result; empty if there is none."""
    wanted = expected(cases)
    for index, case in enumerate(cases):
        for what, a, b in (
            ("outputs", got.outputs[index], wanted.outputs[index]),
            ("saturations", got.saturations[index], wanted.saturations[index]),
        ):
            if not np.array_equal(a, b):
                sample = int(np.argwhere(a != b)[0][0])
                return f"{case.name}: {what} of sample {sample} are {a[sample]}, not {b[sample]}\n{case.program.body}"
    return ""


def emit_cases(cases: Sequence[Case]) -> dict[str, str]:
    """model/ with every case in a namespace of its own. They share the table and one arena, filled before each run."""
    arena_bytes, parts, calls, tables = 1, [], [], set()
    for index, case in enumerate(cases):
        placed = plan(problem_of(case.program))
        whole = Transfer(False, 1, 128, 0, 0, case.program.tensors[case.program.input].size_bytes)
        text = emit_model(laid_out(case.program, placed), [Target("host", whole)], bytes(8))["model/model.cpp"]
        found = ARENA.search(text)
        assert found is not None
        arena_bytes = max(arena_bytes, int(found[1]))
        tables.update(TABLE.findall(text))
        text = TABLE.sub("", ARENA.sub("", text))
        lines = [line for line in text.splitlines() if not line.startswith("#include")]
        parts.append(f"namespace case_{index} {{\n" + "\n".join(lines) + f"\n{_inputs(case)}\n}}\n")
        out = case.program.tensors[case.program.output].size_bytes
        calls.append(
            f"    run_case({index + 1}, case_{index}::model::run, case_{index}::test_inputs, {len(case.inputs)}, "
            f"{case.program.tensors[case.program.input].size_bytes}, {out});"
        )
    most_in = max(case.program.tensors[case.program.input].size_bytes for case in cases)
    most_out = max(case.program.tensors[case.program.output].size_bytes for case in cases)
    head = HEAD.format(arena=arena_bytes + GUARD_BYTES, input=most_in, output=most_out, guard=arena_bytes)
    body = "".join(tables) + "\n".join(parts)
    return {
        "model/model.hpp": MODEL_HPP,
        "model/cases.hpp": (FIRMWARE / "cases.hpp").read_text(),
        "model/model.cpp": f"{head}{body}\nvoid run_cases() {{\n" + "\n".join(calls) + "\n}\n",
    }


def _inputs(case: Case) -> str:
    fmt = case.program.tensors[case.program.input].format
    data = case.inputs.astype(storage_dtype(fmt)).tobytes()
    return f"const uint8_t test_inputs[] HIL_FLASH = {{{','.join(map(str, data))}}};"


MODEL_HPP = """#pragma once
#include <stdint.h>
#include "firmware/kernels/common/memory.hpp"
namespace model { constexpr bool streamed = false; }
"""

HEAD = """#include "model/model.hpp"
#include "firmware/kernels/kernels.hpp"
#include "firmware/wire/input.hpp"
#include "model/cases.hpp"

extern "C" {{ alignas(4) uint8_t hil_arena[{arena}]; }}
alignas(4) static uint8_t test_input[{input}];
alignas(4) static uint8_t test_output[{output}];

static void run_case(uint32_t tag, void (*run)(const uint8_t *, uint8_t *), const uint8_t *inputs, uint16_t samples,
                     uint16_t input_bytes, uint16_t output_bytes) {{
    for (; samples > 0; --samples, inputs += input_bytes) {{
        for (uint16_t i = 0; i < sizeof hil_arena; ++i) hil_arena[i] = 0xA5;
        for (uint16_t i = 0; i < input_bytes; ++i) test_input[i] = hil::flash(inputs)[i];
        hil::saturations = 0;
        section(tag);
        run(test_input, test_output);
        section(0);
        for (uint16_t i = 0; i < output_bytes; ++i) report(test_output[i]);
        uint32_t count = hil::saturations;
        for (uint16_t i = {guard}; i < sizeof hil_arena; ++i) if (hil_arena[i] != 0xA5) count = 0xDEADBEEF;
        for (uint8_t i = 0; i < 4; ++i) report(static_cast<uint8_t>(count >> (8 * i)));
    }}
}}

"""


def parse(cases: Sequence[Case], data: bytes) -> Results:
    outputs, saturations = [], []
    for case in cases:
        out = case.program.tensors[case.program.output]
        row = np.dtype([("y", storage_dtype(out.format), (out.count,)), ("saturations", "<u4")])
        size = row.itemsize * len(case.inputs)
        rows, data = np.frombuffer(data[:size], row), data[size:]
        outputs.append(rows["y"].astype(np.int64))
        saturations.append(rows["saturations"].astype(np.int64))
    assert not data
    return Results(outputs, saturations)


def result_bytes(cases: Sequence[Case]) -> int:
    return sum(len(c.inputs) * (c.program.tensors[c.program.output].size_bytes + 4) for c in cases)


def run_natively(cases: Sequence[Case], folder: Path, *flags: str) -> Results:
    """Compiled by g++ with `flags` and run; undefined behaviour ends the program."""
    sources = {**emit_cases(cases), "main.cpp": (FIRMWARE / "stdio.cpp").read_text()}
    for name, text in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return parse(cases, output_of(("model/model.cpp", "main.cpp"), folder, *flags))


def output_of(sources: Sequence[str], folder: Path, *flags: str) -> bytes:
    """What a program of these files in `folder` prints; AssertionError with what it did that is undefined."""
    command = ["g++", "-std=gnu++14", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable", *flags]
    command += ["-fno-exceptions", "-fno-rtti", "-DHIL_CHIP_HOST"]
    command += [*with_kernels(command), "-I", str(folder), "-I", str(ROOT), *sources]
    done = subprocess.run([*command, "-o", "cases"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    ran = subprocess.run([str(folder / "cases")], capture_output=True, timeout=DEADLINE_S)
    if ran.returncode == -signal.SIGILL and UNDEFINED[-1] in flags:
        return output_of(sources, folder, *(flag for flag in flags if flag != UNDEFINED[-1]), SAYING_WHERE)
    assert ran.returncode == 0, ran.stderr.decode()[:2000]
    return ran.stdout


def run_on_board(cases: Sequence[Case], board: BoardSpec, cache_dir: Path) -> Results:
    """Built with the flags of the project's own build, run on the emulator of `board` (or on the host)."""
    sources = {name: text for name, text in project_sources([board]).items() if name not in SESSION}
    sources |= {**emit_cases(cases), "firmware/main.cpp": (FIRMWARE / "board.cpp").read_text()}
    image = direct_build(sources, board, cache_dir)
    check_fits(image, board)
    results = parse(cases, collect(image, board, result_bytes(cases)))
    emulator = board.chip.emulator
    if not board.chip.core.startswith("cortex") or emulator is None or emulator.kind == "qemu":  # no trace of sections
        return results
    counts = traced_instructions(image.project_dir / "logs" / "trace.txt")
    return replace(results, instructions=tuple(counts[tag] for tag in range(1, len(cases) + 1)))


def traced_instructions(trace: Path) -> dict[int, int]:
    """Per section the instructions between its two marks (`tag instructions cycles ...` per line)."""
    rows = [[int(field) for field in line.split()] for line in trace.read_text().splitlines()]
    at = {row[0]: row[1] for row in rows}
    return {tag: at[tag + END_OF_SECTION] - at[tag] for tag in at if tag + END_OF_SECTION in at}


def collect(image: Image, board: BoardSpec, count: int) -> bytes:
    log_dir = image.project_dir / "logs"
    log_dir.mkdir(exist_ok=True)
    deadline = time.monotonic() + DEADLINE_S
    with (
        connected(board, image, log_dir) as device,
        serial.serial_for_url(device.port, board.baud, timeout=0.2) as port,
    ):
        data = b""
        while len(data) < count:
            device.alive()
            assert time.monotonic() < deadline, f"{board.name}: {len(data)} of {count} bytes"
            if not data:
                port.write(b"!")
            data += port.read(count - len(data))
        device.alive()  # what it does after the last byte counts, too
        return data
