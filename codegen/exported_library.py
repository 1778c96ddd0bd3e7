"""Program + Plan -> a library for other people's programs: a C header and one source, beside the kernels it needs.

The calls are those of the firmware (codegen/model.py); only their frame differs: no wire, no counters, and a model
whose outer loop reads the input row by row becomes three functions, so that an application can feed it as samples
arrive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tinyhil.formats.codec import storage_dtype
from tinyhil.formats.format import AFFINE, Format
from tinyhil.language.graph import Part
from tinyhil.language.program import Loop, Program, Tensor
from tinyhil.memplan import Plan
from tinyhil.passes.laid import Laid
from tinyhil.passes.variants import DSP

COLUMN_TABLES = ("hil_offsets", "hil_scales")  # of the input, where its columns have scales of their own
OUTPUT_TABLE = "hil_output_scales"
STATIC, CALLER = "static", "caller"
ALIGNMENT = 4
# What a compiler defines that compiles for a core as its arrangement needs it (tinyhil/passes/arrange.py)
CORES = {
    "avr": "defined(__AVR__)",
    "cortex-m0plus": "__ARM_ARCH_ISA_THUMB == 1",
    "cortex-m3": "defined(__ARM_ARCH_7M__)",
    **dict.fromkeys(DSP, "defined(__ARM_FEATURE_DSP)"),
}
SPDX = "SPDX-License-Identifier: Apache-2.0"


@dataclass(frozen=True, slots=True)
class Library:
    """What is exported, and as what. `prefix` begins every name of it; `arena`: STATIC or CALLER."""

    prefix: str
    laid: Laid
    origin: str  # what the model is, where it comes from, its formats: one line
    arena: str = STATIC
    class_names: tuple[str, ...] = ()
    above: float | None = 0.0  # beyond which one output says yes; None: it is the class itself
    parts: tuple[Part, ...] = ()  # several inputs in one record
    results: tuple[Part, ...] = ()  # several outputs; the first names the class
    board: str = ""  # for which it is arranged, with its core; empty: for any
    core: str = ""
    compiler: tuple[str, ...] = ()  # of that board, C++, with the options for its processor
    stream: bool = False  # a model of one step: a sample is as many as the bench takes, an application's has no end
    temperature: int = 0  # per cent, of a model that speaks: a letter in, its own out

    @property
    def program(self) -> Program:
        """What it computes."""
        return self.laid.program

    @property
    def plan(self) -> Plan:
        """Where its tensors lie."""
        return self.laid.plan

    @property
    def input(self) -> Tensor:
        """What the caller fills: one flat sample, codes of its format."""
        return self.program.tensors[self.program.input]

    @property
    def output(self) -> Tensor:
        """What the caller reads: one flat result, codes of its format."""
        return self.program.tensors[self.program.output]

    @property
    def loop(self) -> Loop | None:
        """The loop that is fed row by row, if there is one."""
        return self.program.streamable_loop()

    @property
    def endless(self) -> bool:
        """Whether the result is there after every step, and steps have no end."""
        return self.stream and self.loop is not None and self.program.body[-1] is self.loop

    @property
    def deciding(self) -> int:
        """Elements of the output that name the class, from the first on."""
        return self.results[0].count if self.results else self.output.count

    @property
    def row_count(self) -> int:
        """Elements of one row."""
        assert self.loop is not None
        return self.program.tensors[dict(self.loop.slices)[self.program.input]].count

    @property
    def run_bytes(self) -> int:
        """Arena of a run on integers: the planned tensors, and the number of the step where there are steps."""
        peak = -(-self.plan.peak_bytes // ALIGNMENT) * ALIGNMENT
        return max(ALIGNMENT, peak + (ALIGNMENT if self.loop else 0))

    @property
    def predict_bytes(self) -> int:
        """Arena of a prediction from real numbers: that, and the integers of what is converted at once."""
        count = self.row_count if self.loop else self.input.count
        return self.run_bytes + -(-count * self.input.format.storage_bytes // ALIGNMENT) * ALIGNMENT


def code_type(fmt: Format) -> str:
    """How C sees codes of a format."""
    kind = storage_dtype(fmt)
    return f"{'u' if kind.kind == 'u' else ''}int{8 * kind.itemsize}_t"


def real_scale(fmt: Format) -> str:
    """What a code is multiplied by, as a constant of C: a float32 number, exactly."""
    value = np.float32(2.0**fmt.exponent if fmt.grid is None else fmt.grid[0])
    return f"{float(value):.9g}f" if "." in f"{float(value):.9g}" or "e" in f"{float(value):.9g}" else f"{value:.1f}f"


def zero_of(fmt: Format) -> int:
    """The zero point of a format; 0 without one."""
    return 0 if fmt.grid is None else fmt.grid[1]


def code_of(fmt: Format, real: float) -> int:
    """The largest code of integers that stands for no more than `real`."""
    assert fmt.grid is not None
    return zero_of(fmt) + math.floor(Fraction(real) / Fraction(float(np.float32(fmt.grid[0]))))


def real_of(fmt: Format, element: str) -> str:
    """The real number of an element."""
    if fmt.domain == AFFINE:
        return f"static_cast<float>({element} - {zero_of(fmt)}) * {real_scale(fmt)}"
    scaled = "" if fmt.exponent == 0 else f" * {real_scale(fmt)}"
    return f"static_cast<float>({element}){scaled}"


def c_string(text: str) -> str:
    """`text` inside of a C string, all but plain ASCII in octal: no compiler's own encoding counts."""
    plain = {ord("\\"): "\\\\", ord('"'): '\\"', ord("?"): "\\?"}
    return "".join(plain.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in text.encode())


def arena_parameter(library: Library) -> str:
    """The caller's arena as a parameter in C, if it brings one."""
    return "void *arena, " if library.arena == CALLER else ""


def own_arena(library: Library) -> list[str]:
    """The line that takes the arena the caller brings."""
    if library.arena == STATIC:
        return []
    return ["    uint8_t *const hil_arena = static_cast<uint8_t *>(arena);"]


def codes_pointer(library: Library) -> str:
    """Where codes of real numbers are put."""
    place = "hil_codes" if library.arena == STATIC else f"hil_arena + {library.run_bytes}"
    return f"    {library.prefix}_input *const codes = reinterpret_cast<{library.prefix}_input *>({place});"


def parameters_of(library: Library, *more: str) -> str:
    """Parameters of an inner function: the arena, where it is the caller's, and `more`."""
    return ", ".join([*(("uint8_t *hil_arena",) if library.arena == CALLER else ()), *more])


def arguments_of(library: Library, *more: str) -> str:
    """What is passed for `parameters_of`."""
    return ", ".join([*(("hil_arena",) if library.arena == CALLER else ()), *more])
