"""What the source of an exported library computes: its calls of kernels, and the functions that a program sees."""

from __future__ import annotations

from collections.abc import Mapping

from tinyhil.codegen.body import Where, pointer_lines, row_line, statements, tensors_of
from tinyhil.codegen.exported_library import (
    ALIGNMENT,
    CALLER,
    COLUMN_TABLES,
    OUTPUT_TABLE,
    STATIC,
    Library,
    arena_parameter,
    arguments_of,
    c_string,
    code_of,
    codes_pointer,
    own_arena,
    parameters_of,
    real_of,
)
from tinyhil.codegen.kernel_calls import operand_of
from tinyhil.language.program import Body, Role, walk
from tinyhil.passes.stored import c_type


def computation(library: Library, names: Mapping[str, str]) -> list[str]:
    """The calls: all in one function, or before, in and after the loop that is fed."""
    program, plan, loop = library.program, library.plan, library.loop
    if loop is None:
        lines = [f"void hil_compute({parameters_of(library, 'const uint8_t *input')}) {{", "    (void)input;"]
        lines += pointer_lines(program, plan, names, tensors_of(library.laid, program.body))
        if any(program.input in op.inputs for op in walk(program.body)):
            kind = c_type(library.input)
            lines.append(f"    const {kind} *const {names[program.input]} = reinterpret_cast<const {kind} *>(input);")
        lines += statements(library.laid, program.body, names, Where(1, ""))
        return [*lines, "}", ""]
    at = next(index for index, item in enumerate(program.body) if item is loop)
    lines = [f"void hil_begin({parameters_of(library)}) {{"]
    lines += _part(library, names, program.body[:at])
    lines += ["}", "", f"void hil_step({parameters_of(library, 'uint16_t step1', 'const uint8_t *input')}) {{"]
    lines += ["    (void)step1;"]
    lines += pointer_lines(
        program, plan, names, {**tensors_of(library.laid, loop.body), **{name: None for name, _ in loop.slices}}
    )
    for sequence, row in loop.slices:
        kind = c_type(program.tensors[row])
        if sequence == program.input:
            lines.append(f"    const {kind} *const {names[row]} = reinterpret_cast<const {kind} *>(input);")
        else:
            lines.append(f"    {row_line(program, sequence, row, 'step1', names)}")
    lines += [line.removeprefix("    ") for line in statements(library.laid, loop.body, names, Where(2, ""))]
    lines += ["}", "", f"void hil_finish({parameters_of(library)}) {{"]
    return [*lines, *_part(library, names, program.body[at + 1 :]), "}", ""]


def _part(library: Library, names: Mapping[str, str], body: Body) -> list[str]:
    lines = [] if library.arena == STATIC else ["    (void)hil_arena;"]
    lines += pointer_lines(library.program, library.plan, names, tensors_of(library.laid, body))
    return [*lines, *statements(library.laid, body, names, Where(1, ""))]


def functions(library: Library, names: Mapping[str, str]) -> list[str]:
    """The functions that the header declares, as lines of C++."""
    lines = _conversions(library)
    lines += _streaming(library, names) if library.loop else _whole(library, names)
    if library.class_names:
        lines += _class_name(library)
    return lines


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
    if library.program.whole_input:
        given = f"hil::whole_of({given})"
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
    parameters = parameters_of(library, "const uint8_t *input")
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
    elif library.above is None:
        chosen = [f"    const float value = {real_of(fmt, 'result[0]')};"]
        chosen += ["    return static_cast<int>(value < 0 ? value - 0.5f : value + 0.5f);"]
    else:
        chosen = [
            f"    return result[0] > {code_of(fmt, library.above)};"
            if by_code
            else f"    return {real_of(fmt, 'result[0]')} > {library.above:g};"
        ]
    head = ["    (void)input;", *([] if library.arena == STATIC else ["    (void)hil_arena;"])]
    head += [*lines, *input_line, f"    const auto result = {result};"]
    return [
        f"static int {x}_class({parameters}) {{",
        *head,
        *chosen,
        "}",
        "",
        f"static int {x}_codes({parameters_of(library, 'const uint8_t *input', f'{x}_output *out')}) {{",
        *head,
        f"    hil::copy<int32_t>(reinterpret_cast<{kind} *>(out), result, {library.output.count});",
        f"    return {x}_class({arguments_of(library, 'input')});",
        "}",
        "",
        f"static int {x}_reals({parameters_of(library, 'const uint8_t *input', 'float *out')}) {{",
        *head,
        f"    for (int32_t n = 0; n < {up}_OUTPUTS; ++n) out[n] = {real};",
        f"    return {x}_class({arguments_of(library, 'input')});",
        "}",
        "",
    ]


def _whole(library: Library, names: Mapping[str, str]) -> list[str]:
    x = library.prefix
    arena = arena_parameter(library)
    return [
        *_outcome(library, names),
        f"int {x}_run({arena}const {x}_input *in, {x}_output *out) {{",
        *own_arena(library),
        "    const uint8_t *const input = reinterpret_cast<const uint8_t *>(in);",
        f"    hil_compute({arguments_of(library, 'input')});",
        f"    return {x}_codes({arguments_of(library, 'input', 'out')});",
        "}",
        "",
        f"int {x}_predict({arena}const float *in, float *out) {{",
        *own_arena(library),
        codes_pointer(library),
        f"    {x}_quantize_input(in, codes);",
        "    const uint8_t *const input = reinterpret_cast<const uint8_t *>(codes);",
        f"    hil_compute({arguments_of(library, 'input')});",
        f"    return {x}_reals({arguments_of(library, 'input', 'out')});",
        "}",
        "",
    ]


def _streaming(library: Library, names: Mapping[str, str]) -> list[str]:
    x, up, arena = library.prefix, library.prefix.upper(), arena_parameter(library)
    counted = [] if library.endless else [f"    if (*done >= {up}_STEPS) return -1;"]
    return [
        *_outcome(library, names),
        f"void {x}_begin({arena.removesuffix(', ') or 'void'}) {{",
        *own_arena(library),
        f"    *{_counter(library)} = 0;",
        f"    hil_begin({arguments_of(library)});",
        "}",
        "",
        f"int {x}_step_codes({arena}const {x}_input *row) {{",
        *own_arena(library),
        f"    uint16_t *const done = {_counter(library)};",
        *counted,
        f"    hil_step({arguments_of(library, '*done', 'reinterpret_cast<const uint8_t *>(row)')});",
        *([f"    if (*done < {up}_STEPS) ++*done;"] if library.endless else ["    ++*done;"]),
        f"    return {up}_STEPS - *done;",
        "}",
        "",
        f"int {x}_step({arena}const float *row) {{",
        *own_arena(library),
        codes_pointer(library),
        f"    {x}_quantize(row, codes, {up}_STEP_INPUTS);",
        f"    return {x}_step_codes({_passed(library, 'codes')});",
        "}",
        "",
        *_finish(library, "_codes", f"{x}_output *out", f"{x}_codes"),
        *_finish(library, "", "float *out", f"{x}_reals"),
        *_through(library, "run", f"{x}_input", f"{x}_output", "_codes"),
        *_through(library, "predict", "float", "float", ""),
    ]


def _counter(library: Library) -> str:
    """Where the steps that are done are counted: behind the arena."""
    return f"reinterpret_cast<uint16_t *>(hil_arena + {library.run_bytes - ALIGNMENT})"


def _passed(library: Library, *more: str) -> str:
    """Arguments of one function that a program sees for another."""
    return ", ".join([*(("arena",) if library.arena == CALLER else ()), *more])


def _finish(library: Library, suffix: str, out: str, take: str) -> list[str]:
    x, up = library.prefix, library.prefix.upper()
    once = [f"    if (*done != {up}_STEPS) return -1;", "    ++*done;"]
    return [
        f"int {x}_finish{suffix}({arena_parameter(library)}{out}) {{",
        *own_arena(library),
        f"    uint16_t *const done = {_counter(library)};",
        *(["    if (*done == 0) return -1;"] if library.endless else once),
        f"    hil_finish({arguments_of(library)});",
        f"    return {take}({arguments_of(library, 'nullptr', 'out')});",
        "}",
        "",
    ]


def _through(library: Library, name: str, element: str, out: str, suffix: str) -> list[str]:
    """All steps of a sample that is in RAM as a whole."""
    x, up = library.prefix, library.prefix.upper()
    step = f"{x}_step{suffix}({_passed(library, 'in')})"
    return [
        f"int {x}_{name}({arena_parameter(library)}const {element} *in, {out} *out) {{",
        f"    {x}_begin({_passed(library)});",
        f"    for (uint16_t n = 0; n < {up}_STEPS; ++n, in += {up}_STEP_INPUTS) {step};",
        f"    return {x}_finish{suffix}({_passed(library, 'out')});",
        "}",
        "",
    ]


def _class_name(library: Library) -> list[str]:
    x = library.prefix
    cases = [f'    case {index}: return "{c_string(name)}";' for index, name in enumerate(library.class_names)]
    return [
        f"const char *{x}_class_name(int index) {{",
        "    switch (index) {",
        *cases,
        '    default: return "";',
        "    }",
        "}",
        "",
    ]
