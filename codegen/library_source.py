"""The files of an exported library: header, one source, and the kernels that they need."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from tinyhil.codegen.constants import constant_lines
from tinyhil.codegen.exported_library import ALIGNMENT, COLUMN_TABLES, CORES, OUTPUT_TABLE, SPDX, STATIC, Library
from tinyhil.codegen.identifiers import comment, identifiers
from tinyhil.codegen.kernel_subset import entries, files_of, subset
from tinyhil.codegen.library_functions import computation, functions
from tinyhil.codegen.library_header import header
from tinyhil.errors import ModelError
from tinyhil.formats.format import float_bits


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
        f"{library.prefix}.h": header(library),
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
    body += computation(library, names)
    body += ["}  // namespace", f"}}  // namespace {x}_model", "", f"using namespace {x}_model;", ""]
    body += ['extern "C" {', "", *functions(library, names), '}  // extern "C"', "#endif", ""]
    return "\n".join(body)


def _column_tables(library: Library) -> list[str]:
    """Offset and scale of each column of the input (tinyhil/compiler/columns.py) and the scale of each output
    that shares its record with others, as the bits of floats."""
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
        made_for = f"{library.core} ({library.board})"
        machine = f"compile it with {' '.join(library.compiler[1:])}, or " if library.compiler else ""
        error = f"{library.prefix} is arranged for {made_for}: {machine}export it again without --board"
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
