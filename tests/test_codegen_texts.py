"""Everything the code generator writes, for small models that use all of it, as golden text.

The whole text is that of the host; of a core, of a report and of another package the lines that differ. Long rows of
numbers are named by their digest.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from math import ceil, floor
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import Golden
from onnx_models import compiled, load, node, samples_for, simple
from scan_models import SCANS
from test_chains import cell
from test_fuse import sparse
from test_rows import Chain
from test_signs import program_of, with_bytes

from tinyhil.codegen.benchmark import Codes, Meaning, codes_at, emit_benchmark
from tinyhil.codegen.export_kinds import HEADER, KINDS
from tinyhil.codegen.exported_library import CALLER, Library
from tinyhil.codegen.kernel_subset import FOLDER, entries, files_of, subset
from tinyhil.codegen.library_source import emit_library
from tinyhil.codegen.model import emit_model
from tinyhil.codegen.packages import package
from tinyhil.codegen.profile_calls import constant_bytes, empty_number, kinds
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.errors import ModelError
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph, Node, Part
from tinyhil.language.program import Columns, Program
from tinyhil.memplan.arena.passes import ROWS
from tinyhil.memplan.arena.placement import Placement
from tinyhil.memplan.arena.placement_preference import chosen
from tinyhil.memplan.arena.transfer import choose_transfer
from tinyhil.passes.arrange import CORES, arrange
from tinyhil.passes.hot import Target
from tinyhil.passes.laid import ONE_BY_ONE, laid_out
from tinyhil.preference import Wish


def image() -> onnx.ModelProto:
    """A convolution, one of each channel alone, one with windows of one pixel, a pooling, a matrix."""
    chain = Chain(2, 6).conv(4, 3, pad=1).add("Relu").conv(4, 3, pad=1, group=4).conv(6, 1, bias=0)
    return chain.pool("AveragePool", 2, 2).conv(3, 3, stride=2, pad=1).model()


def functions() -> onnx.ModelProto:
    """Chains with operands that repeat, and a result that is read beside its chain."""
    nodes = [
        node("Add", "x b", "c"), node("Sigmoid", "c", "s"), node("Mul", "s c", "m"), node("Tanh", "m", "t"),
        node("Transpose", "t", "u", perm=[1, 0]), node("Add", "t row", "v"), node("Transpose", "v", "w", perm=[1, 0]),
        node("Sub", "w u", "y"),
    ]  # fmt: skip
    constants = {"b": np.linspace(-2, 2, 12).reshape(3, 4), "row": np.array([0.5, -1, 0.25, 1])}
    return simple(nodes, {"x": (3, 4)}, {name: value.astype(np.float32) for name, value in constants.items()})


def matrices() -> onnx.ModelProto:
    """More rows than a block has, elements that are no multiple of its steps."""
    chance = np.random.default_rng(4)
    shapes = {"w": (9, 11), "b": (11,), "v": (11, 5)}
    constants = {name: chance.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [node("Gemm", "x w b", "h"), node("Relu", "h", "r"), node("MatMul", "r v", "y")]
    return simple(nodes, {"x": (2, 9)}, constants)


def parts() -> onnx.ModelProto:
    """Parts of a result that are computed apart, in an order that no view can have."""
    nodes = [node("Relu", "x", "a"), node("Sigmoid", "x", "b"), node("Concat", "a b a", "c", axis=-1)]
    return simple([*nodes, node("Tanh", "c", "y")], {"x": (2, 3)})


def of(make: Callable[[], onnx.ModelProto], default: str, **exceptions: str) -> Callable[[Path], Program]:
    """Ranges are widened to a grid: the last bits of a float sum are those of the processor's order of additions."""

    def made(folder: Path) -> Program:
        loaded = load(make(), folder)
        ranges = calibrate(loaded, samples_for(loaded.shapes["x"]), {"name": "test"})
        ends = {name: (floor(low * 64) / 64, ceil(high * 64) / 64) for name, (low, high) in ranges.values.items()}
        return lower(loaded, Assignment(default, exceptions), replace(ranges, values=ends, seen={}))

    return made


PROGRAMS: dict[str, Callable[[Path], Program]] = {
    **{f"image {name}": of(image, name) for name in ("fixed8", "fixed5", "int8", "nf4", "e4m3", "fixed8pc", "binary")},
    "functions fixed8": of(functions, "fixed8"),
    "functions posit": of(functions, "posit8es2", t="fixed16"),
    **{f"cell {name}": lambda folder, name=name: cell(folder, name, 5) for name in ("fixed8", "int8", "float32")},  # type: ignore[misc]
    "loop": of(SCANS["two_states"], "fixed16"),
    "loop of all states": of(SCANS["all_states"], "fixed16"),
    "parts": of(parts, "fixed8"),
    "loops": of(SCANS["nested"], "fixed8"),
    **{f"matrices {name}": of(matrices, name) for name in ("fixed8", "int8", "fixed8pc")},
    "bits beside bytes": lambda folder: with_bytes("rows", folder, "fixed8"),
    "sparse": of(lambda: sparse(True), "fixed8"),
    "signs": lambda folder: program_of("rows", folder, "fixed8"),
    "signs in windows": lambda folder: program_of("pooled", folder, "fixed8"),
}


def short(text: str) -> list[str]:
    """Its lines; rows of numbers beyond the second as a digest."""
    lines, rows = list[str](), list[str]()
    for line in [*text.split("\n"), ""]:
        if re.fullmatch(r"\s+(-?\d+, ?)+", line):
            rows.append(line)
            continue
        if rows:
            digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()[:12]
            lines += rows[:2] if len(rows) <= 2 else [rows[0], f"    ... {len(rows)} rows {digest}"]
            rows = []
        lines.append(line)
    return lines[:-1]


def difference(plain: str, other: str, context: int = 0) -> list[str]:
    found = difflib.unified_diff(short(plain), short(other), "", "", n=context, lineterm="")
    return [re.sub(r"^@@.*@@", "@@", line) for line in found][2:]


def placed_on(program: Program, core: str) -> Placement:
    """Layer by layer: how a network is cut into rows is not what is told here."""
    return chosen(arrange(program, core), Wish(), None, (ROWS.name,))


def targets(placed: Placement) -> list[Target]:
    return [
        Target(name, choose_transfer(placed.program, placed.plan.peak_bytes, size, name, wish))
        for name, size, wish in (
            ("roomy", 1 << 20, Wish()),
            ("narrow", 1 << 20, Wish(prefer="ram")),
            ("whole", 1 << 20, Wish(whole=True)),
        )
    ]


def everything(placed: Placement, reports: str = "") -> str:
    laid = laid_out(placed.program, placed.plan, targets(placed), ONE_BY_ONE if reports == "values" else ())
    made = emit_model(laid, targets(placed), bytes(range(8)), reports=reports)
    return "\n".join(f"==== {name}\n{text}" for name, text in made.items())


@pytest.mark.parametrize("name", PROGRAMS)
def test_models(name: str, tmp_path: Path, golden: Golden) -> None:
    program = PROGRAMS[name](tmp_path)
    plain = placed_on(program, "host")
    text = everything(plain)
    lines = short(text)
    seen: dict[str, str] = {}
    for core in CORES:
        placed = placed_on(program, core)
        lines += [f"#### {core}: {placed.plan.peak_bytes} B, constants {constant_bytes(placed.program)} B"]
        made = everything(placed)
        lines += [f"as {seen[made]}"] if made in seen else difference(text, made)
        seen.setdefault(made, core)
    for reports in ("values", "operations"):
        lines += [f"#### {reports}, {empty_number(plain.program)}", *difference(text, everything(plain, reports), 1)]
    lines += [f"{tensor}: {kind}" for tensor, kind in kinds(plain.program).items()]
    golden.check(f"texts/{name.replace(' ', '-')}.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize(("shape", "weights", "narrow"), [
    ((1, 47), (47, 2), False), ((1, 48), (48, 2), True),
    ((1, 1, 8, 8), (2, 1, 6, 8), True), ((1, 1, 8, 8), (2, 1, 6, 7), False),
])  # fmt: skip
def test_sums_of_few_terms_are_no_narrower_than_32_bits(
    shape: tuple[int, ...], weights: tuple[int, ...], narrow: bool, tmp_path: Path
) -> None:
    """A sum of 24 bits pays from 48 terms on."""
    made = (np.random.default_rng(1).normal(size=weights) / 100).astype(np.float32)
    op = "MatMul" if len(shape) == 2 else "Conv"
    program = of(lambda: simple([node(op, "x w", "y")], {"x": shape}, {"w": made}), "fixed8")(tmp_path)
    (bits,) = map(int, re.findall(r"hil::Sum<(\d+)>", everything(placed_on(program, "host"))))
    assert (bits <= 24) == narrow
    assert bits >= 25 or narrow


# ---- exported libraries

KERNELS = {  # in the shape that kernels have, small
    f"{FOLDER}{path}": text
    for path, text in {
        "kernels.hpp": """
#pragma once
#include "firmware/kernels/common/base.hpp"
#if defined(__AVR__)
#include "firmware/kernels/avr/fast.hpp"
#else
#include "firmware/kernels/common/slow.hpp"
#endif
#ifdef UNUSED
#include "firmware/kernels/common/nobody.hpp"
#endif
""",
        "common/base.hpp": """// What all share.
#pragma once
#include <stdint.h>

namespace hil {

// A size.
using Size = uint16_t;
constexpr int first = 1, second = 2;
enum Event : uint8_t { damaged = 1, gap = 2 };

template <int N> struct Fixed {
    int8_t code;
    static const int width;
};
template <int N> const int Fixed<N>::width = N;
struct Wide { int32_t code; };
template <class T> struct Trait { static constexpr bool is = false; };
template <> struct Trait<Wide> { static constexpr bool is = true; };

inline int load(const int8_t *at) { return *at + first; }
inline int32_t load(const Wide *at) { return at->code; }
template <class To> To cast(int x) { return To(x); }
template <class T> T twice(T x) { return cast<T>(2 * x); }
inline int never(int second_) { return second_; }

namespace single {
inline float root(float x) { return x; }
}  // namespace single
using single::root;

}  // namespace hil
""",
        "common/slow.hpp": """// Slow ones.
#pragma once
#include "firmware/kernels/common/between.hpp"

namespace hil {

#define MAKE(name, type) \\
    template <class Acc> inline Acc name(const type *x, Size n) { return Acc(load(x) + n); } \\
    inline int name##_once(int x) { return x; }

MAKE(sum, int8_t)
MAKE(wide_sum, Wide)

template <class Acc>
inline void copy(Acc *out, const int8_t *x, Size n) {
    // not load(x): never(1)
    for (Size i = 0; i < n; ++i) out[i] = x[i];
}

}  // namespace hil
""",
        "common/between.hpp": """// Nothing that is used.
#pragma once
#ifndef __AVR__
#include "firmware/kernels/common/base.hpp"
#endif

namespace hil {
inline int between() { return 0; }
}  // namespace hil
""",
        "avr/fast.hpp": """// Fast ones.
#pragma once
#include "firmware/kernels/common/base.hpp"

namespace hil {
#if defined(__AVR__)
inline int fast(int x) { return twice(x); }
#else
inline int fast(int x) { return x; }
#endif
}  // namespace hil
""",
        "common/nobody.hpp": "// Nobody's.\n#pragma once\nnamespace hil {\ninline int nobody() { return 0; }\n}\n",
    }.items()
}


def test_the_part_of_the_kernels_that_is_used(golden: Golden) -> None:
    kernels, lines = files_of({**KERNELS, "firmware/wire/session.hpp": ""}), list[str]()
    for used in ("copy", "sum", "sum Wide wide_sum", "fast", "root", "second", "Fixed", "twice", "nobody between", "x"):
        found = subset(kernels, used.split())
        lines += [f"#### {used}", *entries(kernels, found, "own")]
        for name, text in found.items():
            lines += [f"== {name}", text]
    golden.check("texts/kernel-subset.txt", "\n".join(lines) + "\n")


def test_macros_that_conditions_ask_for_stay() -> None:
    """Once lost: kernels of a Cortex-M7 were those of a Cortex-M4 in an exported library."""
    base = "#pragma once\n#ifdef __ARM_FP\n#define HIL_QUICK\n#endif\n"
    user = """#pragma once
#include "firmware/kernels/common/base.hpp"
namespace hil {
#ifdef HIL_QUICK
inline int f() { return 1; }
#else
inline int f() { return 0; }
#endif
}
"""
    kernels = files_of({"firmware/kernels/common/base.hpp": base, "firmware/kernels/common/user.hpp": user})
    assert "#define HIL_QUICK" in subset(kernels, ["f"])["base.hpp"]
    assert subset(kernels, ["g"]) == {}


def library(name: str, folder: Path) -> Library:
    placed = placed_on(PROGRAMS[name](folder), "host")
    return Library(
        "gadget", laid_out(placed.program, placed.plan), f"{name} (of a test)", class_names=("no", 'a "yes"')
    )


def exported(of_what: Library, kind: str = KINDS[0]) -> str:
    files = package(kind, of_what, emit_library(of_what, KERNELS), "1.2.3", ["Measured: nothing."])
    return "\n".join(f"==== {path}\n{text}" for path, text in files.items())


@pytest.mark.parametrize("name", ["image int8", "functions posit", "loop", "cell float32"])
def test_libraries(name: str, tmp_path: Path, golden: Golden) -> None:
    plain = library(name, tmp_path)
    text = exported(plain)
    lines = short(text)
    half = plain.output.count // 2
    parts = (Part("first", 0, (1, half)), Part("second", half, (1, plain.output.count - half)))
    split = plain.input.count // 2
    inputs = (Part("a", 0, (split,)), Part("b", split, (plain.input.count - split,)))
    variants = {
        "arena of the caller": replace(plain, arena=CALLER),
        "a class as the output": replace(plain, above=None),
        "no names": replace(plain, class_names=()),
        "parts": replace(plain, parts=inputs, results=parts),
        "endless": replace(plain, stream=True),
        "columns": replace(plain, laid=replace(plain.laid, program=with_scales(plain))),
        **{f"for {core}": replace(plain, board="board", core=core) for core in CORES},
    }
    for what, variant in variants.items():
        lines += [f"#### {what}", *difference(text, exported(variant))]
    for kind in [kind for kind in KINDS[1:] if kind != HEADER]:  # which is the others' text (test_export_packages.py)
        lines += [f"#### {kind}", *difference(text, exported(plain, kind))]
    golden.check(f"texts/library-{name.replace(' ', '-')}.txt", "\n".join(lines) + "\n")


def with_scales(plain: Library) -> Program:
    """Columns of the input, and outputs, each with a scale of its own."""
    count, outputs = plain.input.count, plain.output.count
    columns = Columns.of(np.arange(count) / 4, np.arange(1, count + 1) / 2)
    return replace(plain.program, columns=columns, output_scale=np.arange(2, outputs + 2) / np.float32(4))


def test_a_library_has_one_arena_and_scales_of_c(tmp_path: Path) -> None:
    plain = library("functions fixed8", tmp_path)
    for exponent in (-127, -126, 127, 128):
        tensors = {**plain.program.tensors}
        tensors[plain.program.output] = replace(plain.output, format=plain.output.format.scaled(exponent))
        if -127 < exponent < 128:
            assert emit_library(
                replace(plain, laid=replace(plain.laid, program=replace(plain.program, tensors=tensors))), KERNELS
            )
            continue
        with pytest.raises(ModelError, match=rf"scale of '\w+' is 2\^{exponent}, no number of float in C"):
            emit_library(replace(plain, laid=replace(plain.laid, program=replace(plain.program, tensors=tensors))), {})
    away = {**plain.plan.regions, next(iter(plain.plan.regions)): "dtcm"}
    with pytest.raises(ModelError, match="several memories of one chip; a library has one arena"):
        emit_library(replace(plain, laid=replace(plain.laid, plan=replace(plain.plan, regions=away))), {})


# ---- benchmarks


def coded() -> onnx.ModelProto:
    return simple([node("Relu", "x", "y")], {"x": (1, 3, 2, 4)})


def test_benchmarks(tmp_path: Path, golden: Golden) -> None:
    loaded, lines = load(coded(), tmp_path), list[str]()
    with_codes = with_ends(loaded)
    plain = Meaning("ic01", 24, 3, None, False, ())
    for fmt in ("fixed8", "int8", "float32"):
        program = compiled(loaded, samples_for((1, 3, 2, 4)), fmt)
        text = emit_benchmark(loaded, program, plain)
        lines += [f"#### {fmt}", *short(text)]
        for what, graph, meaning in (
            ("bytes", loaded, replace(plain, values=np.arange(256) / 255, energy=True, greets=("due", "h7"))),
            ("codes", with_codes, plain),
            ("bytes of codes", with_codes, replace(plain, values=np.arange(256.0) - 128)),
            ("one channel", loaded, replace(plain, channels=1)),
            ("channels last", loaded, replace(plain, channels=4)),
        ):
            lines += [f"## {what}", *difference(text, emit_benchmark(graph, program, meaning))]
    golden.check("texts/benchmark.txt", "\n".join(lines) + "\n")
    assert codes_at(loaded, "FromCodes") is None
    assert codes_at(with_codes, "FromCodes") == Codes(0.5, 3, -128, 127)
    assert codes_at(with_codes, "ToCodes") == Codes(0.25, -4, 0, 255)
    body = replace(with_codes, inputs=("state", *with_codes.inputs))
    step = Node("Scan", "loop", body.inputs, body.outputs, body=body)
    loop = replace(with_codes, nodes=(step,))  # a step's are those of its ends
    assert codes_at(loop, "FromCodes") == Codes(0.5, 3, -128, 127)
    assert codes_at(loop, "ToCodes") == Codes(0.25, -4, 0, 255)
    assert Codes(0.5, 3, -128, 127).of(np.array([0.0, 1.2, -900.0, 900.0])).tolist() == [3, 5, -128, 127]


def with_ends(graph: Graph) -> Graph:
    """The same with integers of a quantized file at its ends, as readers of such files note them."""
    (first,) = graph.nodes
    marks = {"bits": 8, "offset": 0, "scale": 0.5, "zero": 3}, {"bits": 8, "offset": 128, "scale": 0.25, "zero": -4}
    begin = replace(first, op="FromCodes", name="from", outputs=("z",), attrs=marks[0])
    end = replace(first, op="ToCodes", name="to", inputs=("z",), attrs=marks[1])
    return replace(graph, nodes=(begin, end))
