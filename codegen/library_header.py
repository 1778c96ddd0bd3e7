"""The C header of an exported library: sizes, scales and prototypes."""

from __future__ import annotations

from tinyhil.codegen.exported_library import (
    ALIGNMENT,
    CALLER,
    SPDX,
    Library,
    arena_parameter,
    c_string,
    code_type,
    real_scale,
    zero_of,
)
from tinyhil.codegen.identifiers import comment, identifiers


def header(library: Library) -> str:
    """Text of the header that an application includes."""
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
        names = ", ".join(f'"{c_string(name)}"' for name in library.class_names)
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


def _prototypes(library: Library) -> list[str]:
    x, up = library.prefix, library.prefix.upper()
    given = (
        f"arena: {up}_ARENA_BYTES bytes at a multiple of {ALIGNMENT} that stay as they are until the result is there; "
    )
    lines = ["/* One inference on real numbers. Returns the class"]
    if library.above is None:
        lines[0] += ", which is the output."
    else:
        lines[0] += ": the position of the largest output; of one output alone"
        lines.append(f"   whether it is above {library.above or 'zero'}.")
    lines[-1] += (
        f" {given[0].upper()}{given[1:]}a run needs {up}_RUN_BYTES of them. */" if library.arena == CALLER else " */"
    )
    lines += [
        f"int {x}_predict({arena_parameter(library)}const float *in, float *out);",
        "",
        "/* The same on integers, as the bench streams them: equal to the reference bit for bit. */",
        f"void {x}_quantize_input(const float *in, {x}_input *codes);",
        f"int {x}_run({arena_parameter(library)}const {x}_input *in, {x}_output *out);",
        f"void {x}_dequantize_output(const {x}_output *codes, float *out);",
        "",
    ]
    if library.loop:
        lines += [
            *_documented_steps(library),
            f"void {x}_begin({arena_parameter(library).removesuffix(', ') or 'void'});",
            f"int {x}_step({arena_parameter(library)}const float *row);",
            f"int {x}_finish({arena_parameter(library)}float *out);",
            f"int {x}_step_codes({arena_parameter(library)}const {x}_input *row);",
            f"int {x}_finish_codes({arena_parameter(library)}{x}_output *out);",
            "",
        ]
    if library.class_names:
        lines += ["/* The name of a class; an empty one if there is none of that number. */"]
        lines += [f"const char *{x}_class_name(int index);", ""]
    return lines


def _documented_steps(library: Library) -> list[str]:
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
