"""Program + Plan -> a library for other people's programs: a C header and one source, beside the kernels it needs.

The calls are those of the firmware (codegen/model.py); only their frame differs: no wire, no counters, and a model
whose outer loop reads the input row by row becomes three functions, so that an application can feed it as samples
arrive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tinyhil.codegen.identifiers import comment, identifiers
from tinyhil.codegen.kernel_subset import entries, files_of, subset
from tinyhil.codegen.model import (
    Where,
    c_type,
    constant_lines,
    operand_of,
    pointer_lines,
    row_line,
    statements,
    tensors_of,
)
from tinyhil.errors import ModelError
from tinyhil.formats.codec import storage_dtype
from tinyhil.formats.format import AFFINE, Format, float_bits
from tinyhil.graph import Part
from tinyhil.memplan import Plan
from tinyhil.program import Loop, Op, Program, Role, Tensor, walk

COLUMN_TABLES = ("hil_offsets", "hil_scales")  # of the input, where its columns have scales of their own
OUTPUT_TABLE = "hil_output_scales"
STATIC, CALLER = "static", "caller"
ALIGNMENT = 4
# What a compiler defines that compiles for a core as its arrangement needs it (codegen/arrange.py)
CORES = {
    "avr": "defined(__AVR__)",
    "cortex-m3": "defined(__ARM_ARCH_7M__)",
    "cortex-m4": "defined(__ARM_FEATURE_DSP)",
    "cortex-m7": "defined(__ARM_FEATURE_DSP)",
}
SPDX = "SPDX-License-Identifier: Apache-2.0"


@dataclass(frozen=True, slots=True)
class Library:
    """What is exported, and as what. `prefix` begins every name of it; `arena`: STATIC or CALLER."""

    prefix: str
    program: Program
    plan: Plan
    origin: str  # what the model is, where it comes from, its formats: one line
    arena: str = STATIC
    class_names: tuple[str, ...] = ()
    argmax: bool = False  # the model ends in ArgMax: its one output is the class
    parts: tuple[Part, ...] = ()  # several inputs in one record
    results: tuple[Part, ...] = ()  # several outputs; the first names the class
    board: str = ""  # for which it is arranged, with its core; empty: for any
    core: str = ""
    stream: bool = False  # a model of one step: a sample is as many as the bench takes, an application's has no end

    @property
    def input(self) -> Tensor:
        return self.program.tensors[self.program.input]

    @property
    def output(self) -> Tensor:
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


def emit_library(library: Library, kernels: Mapping[str, str]) -> dict[str, str]:
    """Path below the library's source folder -> text. `kernels`: all of them, path in the project -> text.

    ModelError names what can not be exported, and why.
    """
    _check(library)
    source = _source(library)
    plain = files_of(kernels)
    needed = subset(plain, re.findall(r"\bhil::(\w+)", source))
    includes = entries(plain, needed, f"{library.prefix}_kernels")
    files = {
        f"{library.prefix}.h": _header(library),
        f"{library.prefix}.cpp": source.replace("@INCLUDES@", "\n".join(includes)),
    }
    for name, text in needed.items():
        files[f"{library.prefix}_kernels/{name}"] = f"// {SPDX}\n{_own_names(library, text)}"
    return files


def _check(library: Library) -> None:
    program = library.program
    if any(region != "arena" for region in library.plan.regions.values()):
        raise ModelError(f"{program.name}: its tensors need several memories of one chip; a library has one arena")
    for tensor in (library.input, library.output):
        if not -126 <= tensor.format.exponent <= 127:
            raise ModelError(
                f"{program.name}: the scale of '{tensor.name}' is 2^{tensor.format.exponent}, no number of float in C; "
                "rescale the model"
            )


def _own_names(library: Library, text: str) -> str:
    """Every library has kernels of its own, in a namespace of its own: their versions may differ."""
    own = f"{library.prefix}_kernels"
    return re.sub(r"\bnamespace hil\b", f"namespace {own}", re.sub(r"\bhil::", f"{own}::", text))


def code_type(fmt: Format) -> str:
    """How C sees codes of a format."""
    kind = storage_dtype(fmt)
    return f"{'u' if kind.kind == 'u' else ''}int{8 * kind.itemsize}_t"


def real_scale(fmt: Format) -> str:
    """What a code is multiplied by, as a constant of C: a float32 number, exactly."""
    value = np.float32(2.0**fmt.exponent if fmt.grid is None else fmt.grid[0])
    return f"{float(value):.9g}f" if "." in f"{float(value):.9g}" or "e" in f"{float(value):.9g}" else f"{value:.1f}f"


def zero_of(fmt: Format) -> int:
    return 0 if fmt.grid is None else fmt.grid[1]


def _header(library: Library) -> str:
    x, up = library.prefix, library.prefix.upper()
    classes = len(library.class_names) or library.deciding
    meaning = "real = (code - zero) * scale"
    if library.program.columns is not None:
        meaning = f"(real - offset of its column) * scale of its column = (code - zero) * scale: {x}_quantize_input()"
    sizes: list[tuple[str, object, str]] = [
        ("INPUTS", library.input.count, "elements of one sample"),
        ("OUTPUTS", library.output.count, ""),
        ("INPUT_SCALE", real_scale(library.input.format), meaning),
        ("INPUT_ZERO", zero_of(library.input.format), ""),
        ("OUTPUT_SCALE", real_scale(library.output.format), ""),
        ("OUTPUT_ZERO", zero_of(library.output.format), ""),
        ("RUN_BYTES", library.run_bytes, "of arena for a run on integers"),
        ("ARENA_BYTES", library.predict_bytes, f"for {x}_predict(), the integers of its input included"),
    ]
    if classes > 1:
        sizes.insert(2, ("CLASSES", classes, ""))
    if library.loop:
        sizes[2:2] = [
            ("STEPS", library.loop.count, "rows of one sample"),
            ("STEP_INPUTS", library.row_count, "elements of one row"),
        ]
    defines = [f"#define {up}_{name} {value}" + (f" /* {note} */" if note else "") for name, value, note in sizes]
    for kind, parts in (("INPUT", library.parts), ("OUTPUT", library.results)):
        for part, name in zip(parts, identifiers(part.name for part in parts).values(), strict=True):
            note = f"/* '{comment(part.name)}' {list(part.shape)}: {part.count} elements from here on */"
            defines.append(f"#define {up}_{kind}_{name.upper()} {part.start} {note}")
    if library.class_names:
        names = ", ".join(f'"{_c_string(name)}"' for name in library.class_names)
        defines.append(f"#define {up}_CLASS_NAMES {{{names}}}")
    return "\n".join(
        [
            f"/* {SPDX} */",
            f"/* {comment(library.origin)}. Written by tinyhil. */",
            f"#ifndef {up}_H",
            f"#define {up}_H",
            "#include <stdint.h>",
            "",
            *defines,
            "",
            f"typedef {code_type(library.input.format)} {x}_input;   /* {library.input.format} */",
            f"typedef {code_type(library.output.format)} {x}_output; /* {library.output.format} */",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            *_prototypes(library),
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "#endif",
            "",
        ]
    )


def _c_string(text: str) -> str:
    """`text` inside of a C string, all but plain ASCII in octal: no compiler's own encoding counts."""
    plain = {ord("\\"): "\\\\", ord('"'): '\\"', ord("?"): "\\?"}
    return "".join(plain.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in text.encode())


def _prototypes(library: Library) -> list[str]:
    x, up = library.prefix, library.prefix.upper()
    given = (
        f"arena: {up}_ARENA_BYTES bytes at a multiple of {ALIGNMENT} that stay as they are until the result is there; "
    )
    lines = [
        "/* One inference on real numbers. Returns the class: the position of the largest output; of one output alone"
        if not library.argmax
        else "/* One inference on real numbers. Returns the class, which is the output"
    ]
    lines[0] += "." if library.argmax else ""
    lines += [] if library.argmax else ["   whether it is above zero."]
    lines[-1] += (
        f" {given[0].upper()}{given[1:]}a run needs {up}_RUN_BYTES of them. */" if library.arena == CALLER else " */"
    )
    lines += [
        f"int {x}_predict({_arena(library)}const float *in, float *out);",
        "",
        "/* The same on integers, as the bench streams them: equal to the reference bit for bit. */",
        f"void {x}_quantize_input(const float *in, {x}_input *codes);",
        f"int {x}_run({_arena(library)}const {x}_input *in, {x}_output *out);",
        f"void {x}_dequantize_output(const {x}_output *codes, float *out);",
        "",
    ]
    if library.loop:
        lines += [
            *_told_of_steps(library),
            f"void {x}_begin({_arena(library).removesuffix(', ') or 'void'});",
            f"int {x}_step({_arena(library)}const float *row);",
            f"int {x}_finish({_arena(library)}float *out);",
            f"int {x}_step_codes({_arena(library)}const {x}_input *row);",
            f"int {x}_finish_codes({_arena(library)}{x}_output *out);",
            "",
        ]
    if library.class_names:
        lines += ["/* The name of a class; an empty one if there is none of that number. */"]
        lines += [f"const char *{x}_class_name(int index);", ""]
    return lines


def _told_of_steps(library: Library) -> list[str]:
    up = library.prefix.upper()
    if library.endless:
        return [
            "/* Step by step without end: begin (states are 0), steps, and after any of them finish, which gives the",
            f"   result so far and changes nothing. A step returns how many are due until {up}_STEPS, then 0. */",
        ]
    return [
        f"/* Row by row as samples arrive: begin, {up}_STEPS steps, finish. A step returns how many are still due,",
        "   or -1 if none was (nothing happens then); finishing too early returns -1 and leaves `out` alone. */",
    ]


def _arena(library: Library) -> str:
    return "void *arena, " if library.arena == CALLER else ""


def _source(library: Library) -> str:
    x = library.prefix
    names = _names(library)
    body = [
        f"// {SPDX}",
        f"// {comment(library.origin)}. Written by tinyhil.",
        f'#include "{x}.h"',
        "",
        *_compiler_needed(library),
        "#define HIL_UNCOUNTED",
        "@INCLUDES@",
        "",
        f"namespace {x}_model {{",
        "namespace {",
        f"namespace hil = {x}_kernels;",
        "",
        *constant_lines(library.program, names),
    ]
    if library.arena == STATIC:
        body += [
            f"alignas({ALIGNMENT}) uint8_t hil_arena[{library.run_bytes}];",
            f"alignas({ALIGNMENT}) uint8_t hil_codes[{library.predict_bytes - library.run_bytes}];"
            "  // linked where real numbers are given, not codes",
            "",
        ]
    body += _column_tables(library)
    body += _computation(library, names)
    body += ["}  // namespace", f"}}  // namespace {x}_model", "", f"using namespace {x}_model;", ""]
    body += ['extern "C" {', "", *_functions(library, names), '}  // extern "C"', "#endif", ""]
    return "\n".join(body)


def _column_tables(library: Library) -> list[str]:
    """Offset and scale of each column of the input (tinyhil/columns.py) and the scale of each output that shares its
    record with others, as the bits of floats."""
    columns, lines = library.program.columns, list[str]()
    tables: list[tuple[str, np.ndarray]] = []
    if columns is not None:
        count = library.row_count if library.loop else library.input.count
        tables += zip(COLUMN_TABLES, (columns.offset[:count], columns.scale[:count]), strict=True)
    if library.program.output_scale is not None:
        tables.append((OUTPUT_TABLE, 1 / library.program.output_scale))
    for name, values in tables:
        bits = ", ".join(f"{float_bits(float(value))}u" for value in values)
        lines += [f"const uint32_t {name}[] HIL_FLASH = {{{bits}}};"]
    return lines


def _names(library: Library) -> dict[str, str]:
    """Tensor -> its name in C++; none is that of a function of the library."""
    made = identifiers(library.program.tensors)
    return {tensor: f"{name}_" if name.startswith(f"{library.prefix}_") else name for tensor, name in made.items()}


def _compiler_needed(library: Library) -> list[str]:
    needs = f"{library.prefix} needs gcc 5 or clang, as C++11 or newer: -std=gnu++11"
    other, fast = list[str](), list[str]()
    if library.board:
        fast = ["#if !defined(__clang__)", '#pragma GCC optimize("O2")  // as it was measured', "#endif"]
    if library.core in CORES:
        error = f"{library.prefix} is arranged for a {library.core} ({library.board}): export it again without --board"
        other = [f"#elif !({CORES[library.core]})", f'#error "{error}"']
    return [
        "#if !defined(__GNUC__) || (!defined(__clang__) && __GNUC__ < 5) || __cplusplus < 201103L",
        f'#error "{needs}"',
        "#elif defined(__FAST_MATH__)",
        f'#error "{library.prefix} computes what its reference computes, bit for bit: compile it without -ffast-math"',
        *other,
        "#else",
        *fast,
        "#if defined(__clang__)",
        "#pragma clang fp contract(off)",
        "#elif defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)",
        '#pragma GCC optimize("fp-contract=off")  // a fused multiply-add rounds once where the reference rounds twice',
        "#endif",
    ]


def _parameters(library: Library, *more: str) -> str:
    return ", ".join([*(("uint8_t *hil_arena",) if library.arena == CALLER else ()), *more])


def _computation(library: Library, names: Mapping[str, str]) -> list[str]:
    """The calls: all in one function, or before, in and after the loop that is fed."""
    program, plan, loop = library.program, library.plan, library.loop
    if loop is None:
        lines = [f"void hil_compute({_parameters(library, 'const uint8_t *input')}) {{", "    (void)input;"]
        lines += pointer_lines(program, plan, names, tensors_of(program, plan, program.body))
        if any(program.input in op.inputs for op in walk(program.body)):
            kind = c_type(library.input)
            lines.append(f"    const {kind} *const {names[program.input]} = reinterpret_cast<const {kind} *>(input);")
        lines += statements(program, plan, program.body, names, Where(1, ""))
        return [*lines, "}", ""]
    at = next(index for index, item in enumerate(program.body) if item is loop)
    lines = [f"void hil_begin({_parameters(library)}) {{"]
    lines += _part(library, names, program.body[:at])
    lines += ["}", "", f"void hil_step({_parameters(library, 'uint16_t step1', 'const uint8_t *input')}) {{"]
    lines += ["    (void)step1;"]
    lines += pointer_lines(
        program, plan, names, {**tensors_of(program, plan, loop.body), **{name: None for name, _ in loop.slices}}
    )
    for sequence, row in loop.slices:
        kind = c_type(program.tensors[row])
        if sequence == program.input:
            lines.append(f"    const {kind} *const {names[row]} = reinterpret_cast<const {kind} *>(input);")
        else:
            lines.append(f"    {row_line(program, sequence, row, 'step1', names)}")
    lines += [line.removeprefix("    ") for line in statements(program, plan, loop.body, names, Where(2, ""))]
    lines += ["}", "", f"void hil_finish({_parameters(library)}) {{"]
    return [*lines, *_part(library, names, program.body[at + 1 :]), "}", ""]


def _part(library: Library, names: Mapping[str, str], body: tuple[Op | Loop, ...]) -> list[str]:
    lines = [] if library.arena == STATIC else ["    (void)hil_arena;"]
    lines += pointer_lines(library.program, library.plan, names, tensors_of(library.program, library.plan, body))
    return [*lines, *statements(library.program, library.plan, body, names, Where(1, ""))]


def _functions(library: Library, names: Mapping[str, str]) -> list[str]:
    lines = _conversions(library)
    lines += _streaming(library, names) if library.loop else _whole(library, names)
    if library.class_names:
        lines += _class_name(library)
    return lines


def _arguments(library: Library, *more: str) -> str:
    return ", ".join([*(("hil_arena",) if library.arena == CALLER else ()), *more])


def _conversions(library: Library) -> list[str]:
    """Real numbers to codes and back."""
    x, up = library.prefix, library.prefix.upper()
    in_type, fmt = c_type(library.input), library.input.format
    out_type, real = c_type(library.output), _element(library, "hil::ram(values)[n]")
    given = "in[n]"
    if library.program.columns is not None:
        column = f"n % {up}_STEP_INPUTS" if library.loop else "n"
        offset, scale = (f"hil::float_of(hil::flash({table})[{column}])" for table in COLUMN_TABLES)
        given = f"(in[n] - {offset}) * {scale}"
    made = fmt.from_float(in_type, given)
    return [
        f"static void {x}_quantize(const float *in, {x}_input *codes, int32_t count) {{",
        f"    {in_type} *const out = reinterpret_cast<{in_type} *>(codes);",
        f"    for (int32_t n = 0; n < count; ++n) out[n] = {made};",
        "}",
        "",
        f"void {x}_quantize_input(const float *in, {x}_input *codes) {{ {x}_quantize(in, codes, {up}_INPUTS); }}",
        "",
        f"void {x}_dequantize_output(const {x}_output *codes, float *out) {{",
        f"    const {out_type} *const values = reinterpret_cast<const {out_type} *>(codes);",
        f"    for (int32_t n = 0; n < {up}_OUTPUTS; ++n) out[n] = {real};",
        "}",
        "",
    ]


def real_of(fmt: Format, element: str) -> str:
    """The real number of an element."""
    if fmt.domain == AFFINE:
        return f"static_cast<float>({element} - {zero_of(fmt)}) * {real_scale(fmt)}"
    scaled = "" if fmt.exponent == 0 else f" * {real_scale(fmt)}"
    return f"static_cast<float>({element}){scaled}"


def _element(library: Library, element: str) -> str:
    """The real number of element `n` of the output."""
    scale = "" if library.program.output_scale is None else f" * hil::float_of(hil::flash({OUTPUT_TABLE})[n])"
    return real_of(library.output.format, element) + scale


def _result(library: Library, names: Mapping[str, str]) -> tuple[list[str], str]:
    """How the result is reached once everything is computed: lines before, and what is indexed."""
    tensor = library.output
    lines = pointer_lines(library.program, library.plan, names, [tensor.name])
    return lines, operand_of(tensor, names[tensor.name])


def _outcome(library: Library, names: Mapping[str, str]) -> list[str]:
    """Functions that take the result out of the arena: as codes or as real numbers; both return the class."""
    x, up = library.prefix, library.prefix.upper()
    lines, result = _result(library, names)
    kind, fmt = c_type(library.output), library.output.format
    input_line = []
    if library.output.role == Role.INPUT:
        input_line = [
            f"    const {kind} *const {names[library.output.name]} = reinterpret_cast<const {kind} *>(input);"
        ]
    parameters = _parameters(library, "const uint8_t *input")
    real = _element(library, "result[n]")
    by_code = fmt.grid is not None  # in the order of what they stand for
    if library.deciding > 1:
        type_, value = ("int32_t", "result[n]") if by_code else ("float", real)
        chosen = [
            "    int best = 0;",
            f"    {type_} most = 0;",
            f"    for (int32_t n = 0; n < {library.deciding}; ++n) {{",
            f"        const {type_} value = {value};",
            "        if (n == 0 || value > most) {",
            "            best = static_cast<int>(n);",
            "            most = value;",
            "        }",
            "    }",
            "    return best;",
        ]
    elif library.argmax:
        chosen = [f"    const float value = {real_of(fmt, 'result[0]')};"]
        chosen += ["    return static_cast<int>(value < 0 ? value - 0.5f : value + 0.5f);"]
    else:
        chosen = [
            f"    return result[0] > {zero_of(fmt)};" if by_code else f"    return {real_of(fmt, 'result[0]')} > 0;"
        ]
    head = ["    (void)input;", *([] if library.arena == STATIC else ["    (void)hil_arena;"])]
    head += [*lines, *input_line, f"    const auto result = {result};"]
    return [
        f"static int {x}_class({parameters}) {{",
        *head,
        *chosen,
        "}",
        "",
        f"static int {x}_codes({_parameters(library, 'const uint8_t *input', f'{x}_output *out')}) {{",
        *head,
        f"    hil::copy<int32_t>(reinterpret_cast<{kind} *>(out), result, {library.output.count});",
        f"    return {x}_class({_arguments(library, 'input')});",
        "}",
        "",
        f"static int {x}_reals({_parameters(library, 'const uint8_t *input', 'float *out')}) {{",
        *head,
        f"    for (int32_t n = 0; n < {up}_OUTPUTS; ++n) out[n] = {real};",
        f"    return {x}_class({_arguments(library, 'input')});",
        "}",
        "",
    ]


def _own_arena(library: Library) -> list[str]:
    if library.arena == STATIC:
        return []
    return ["    uint8_t *const hil_arena = static_cast<uint8_t *>(arena);"]


def _codes_pointer(library: Library) -> str:
    """Where codes of real numbers are put."""
    place = "hil_codes" if library.arena == STATIC else f"hil_arena + {library.run_bytes}"
    return f"    {library.prefix}_input *const codes = reinterpret_cast<{library.prefix}_input *>({place});"


def _whole(library: Library, names: Mapping[str, str]) -> list[str]:
    x = library.prefix
    arena = "void *arena, " if library.arena == CALLER else ""
    return [
        *_outcome(library, names),
        f"int {x}_run({arena}const {x}_input *in, {x}_output *out) {{",
        *_own_arena(library),
        "    const uint8_t *const input = reinterpret_cast<const uint8_t *>(in);",
        f"    hil_compute({_arguments(library, 'input')});",
        f"    return {x}_codes({_arguments(library, 'input', 'out')});",
        "}",
        "",
        f"int {x}_predict({arena}const float *in, float *out) {{",
        *_own_arena(library),
        _codes_pointer(library),
        f"    {x}_quantize_input(in, codes);",
        "    const uint8_t *const input = reinterpret_cast<const uint8_t *>(codes);",
        f"    hil_compute({_arguments(library, 'input')});",
        f"    return {x}_reals({_arguments(library, 'input', 'out')});",
        "}",
        "",
    ]


def _streaming(library: Library, names: Mapping[str, str]) -> list[str]:
    x, up = library.prefix, library.prefix.upper()
    arena = "void *arena, " if library.arena == CALLER else ""
    alone = arena.removesuffix(", ") or "void"
    passed = "arena, " if library.arena == CALLER else ""
    counter = f"reinterpret_cast<uint16_t *>(hil_arena + {library.run_bytes - ALIGNMENT})"

    once = [f"    if (*done != {up}_STEPS) return -1;", "    ++*done;"]
    counted = [f"    if (*done >= {up}_STEPS) return -1;"]
    if library.endless:
        counted = []

    def finish(suffix: str, out: str, take: str) -> list[str]:
        return [
            f"int {x}_finish{suffix}({arena}{out}) {{",
            *_own_arena(library),
            f"    uint16_t *const done = {counter};",
            *(["    if (*done == 0) return -1;"] if library.endless else once),
            f"    hil_finish({_arguments(library)});",
            f"    return {take}({_arguments(library, 'nullptr', 'out')});",
            "}",
            "",
        ]

    def through(name: str, element: str, out: str, suffix: str) -> list[str]:
        return [
            f"int {x}_{name}({arena}const {element} *in, {out} *out) {{",
            f"    {x}_begin({passed.removesuffix(', ')});",
            f"    for (uint16_t n = 0; n < {up}_STEPS; ++n, in += {up}_STEP_INPUTS) {x}_step{suffix}({passed}in);",
            f"    return {x}_finish{suffix}({passed}out);",
            "}",
            "",
        ]

    return [
        *_outcome(library, names),
        f"void {x}_begin({alone}) {{",
        *_own_arena(library),
        f"    *{counter} = 0;",
        f"    hil_begin({_arguments(library)});",
        "}",
        "",
        f"int {x}_step_codes({arena}const {x}_input *row) {{",
        *_own_arena(library),
        f"    uint16_t *const done = {counter};",
        *counted,
        f"    hil_step({_arguments(library, '*done', 'reinterpret_cast<const uint8_t *>(row)')});",
        *([f"    if (*done < {up}_STEPS) ++*done;"] if library.endless else ["    ++*done;"]),
        f"    return {up}_STEPS - *done;",
        "}",
        "",
        f"int {x}_step({arena}const float *row) {{",
        *_own_arena(library),
        _codes_pointer(library),
        f"    {x}_quantize(row, codes, {up}_STEP_INPUTS);",
        f"    return {x}_step_codes({passed}codes);",
        "}",
        "",
        *finish("_codes", f"{x}_output *out", f"{x}_codes"),
        *finish("", "float *out", f"{x}_reals"),
        *through("run", f"{x}_input", f"{x}_output", "_codes"),
        *through("predict", "float", "float", ""),
    ]


def _class_name(library: Library) -> list[str]:
    x = library.prefix
    cases = [f'    case {index}: return "{_c_string(name)}";' for index, name in enumerate(library.class_names)]
    return [
        f"const char *{x}_class_name(int index) {{",
        "    switch (index) {",
        *cases,
        '    default: return "";',
        "    }",
        "}",
        "",
    ]
