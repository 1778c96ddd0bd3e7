"""The firmware's kernels as a host engine: sixteen samples at once, shifts, sizes and limits known at run time alone.

    python -m benchmarks.search.batched_kernels [MODEL ...]

Microseconds of processor per sample, beside those of search/engine/: whether searches could run what boards run. The
generated calls of a model take batches for elements: integers in fixed8 and int8 (batched_kernels.hpp), doubles for
posits (batched_posits.hpp; their inputs come decoded). Functions by table run for one sample after the other.
SystemExit if an output differs from the reference's.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tinyhil import data
from tinyhil.formats.format import Format
from tinyhil.formats.posit import Posit
from tinyhil.harness.build.pipeline import compile_model, write_sources
from tinyhil.harness.job.job import open_model
from tinyhil.harness.settings.config import load_boards
from tinyhil.native import default_cache_dir
from tinyhil.references.reference import quantize_inputs, run_reference
from tinyhil.search.engine.library import load_engine
from tools.measured import ROOT

MODELS, AT_ONCE, MOST, REPEATS = ("digits_mlp", "digits_cnn", "lenet5_mnist", "fastgrnn_har"), 16, 160, 7
FORMATS = ("fixed8", "int8", "posit8es0", "posit16es1")
RECURRENT = ("fastgrnn_har",)  # whose element-wise operations are written for batches in fixed8 alone
COMPILE = ("g++", "-O3", "-std=c++17", "-march=native", "-shared", "-fPIC", "-w", "-DHIL_BOARD_HOST", "-DHIL_CHIP_HOST")
CALLED = """
extern "C" void many(const double *x, int count, int inputs, int outputs, double *y) {
    static hil::Batch in[65536], out[4096];
    for (int first = 0; first < count; first += 16) {
        for (int k = 0; k < inputs; ++k)
            for (int s = 0; s < 16; ++s) in[k].v[s] = x[(first + s) * inputs + k];
        model::run(in, out);
        for (int k = 0; k < outputs; ++k)
            for (int s = 0; s < 16; ++s) y[(first + s) * outputs + k] = out[k].v[s];
    }
}
"""
CODE = r"(?:int8_t|hil::Posit<\d+, \d>)"
# What generated text becomes, in this order
REWRITES = (
    (r"hil::(?:Sum|Wide)<\d+>", "hil::Batch"),
    (r"(?s)hil::max_pool_codes((?:_rows)?<hil::Batch>\(.*?)\);", r"hil::max_pool\1, 0);"),
    (
        rf"{CODE} \*const (\w+) = reinterpret_cast<{CODE} \*>\(hil_arena \+ (\d+)\);",
        r"hil::Batch *const \1 = values + \2;",
    ),
    (r"void run\(const uint8_t \*input, uint8_t \*output\)", "void run(const hil::Batch *input, hil::Batch *output)"),
    (
        rf"const {CODE} \*const (\w+) = reinterpret_cast<const {CODE} \*>\(input\);",
        r"const hil::Batch *const \1 = input;",
    ),
    (
        rf"const {CODE} \*const (\w+) = hil::input_row<{CODE}>\(input, (\w+), (\d+)\);",
        r"const hil::Batch *const \1 = input + \2 * \3;",
    ),
    (
        rf"hil::copy<int32_t>\(reinterpret_cast<{CODE} \*>\(output\), hil::ram\((\w+)\), (\d+)\);",
        r"for (int n = 0; n < \2; ++n) output[n] = \1[n];",
    ),
    (
        r"hil::fill<hil::Batch>\((\w+), ([^,]+), [^;]*?\);",
        r"for (uint32_t n = 0; n < \2; ++n) \1[n] = hil::Batch(0);",
    ),
    (r"const int8_t (\w+) = ", r"const hil::Batch \1 = "),
    (r"(?m)^(\s+)int8_t (\w+);", r"\1hil::Batch \2;"),
    (
        r"(?s)hil::(sigmoid|tanh)<hil::Batch>\(&(\w+), hil::flash\((\w+)\), hil::ram\(&(\w+)\),([^;]*)\);",
        r"for (int s = 0; s < 16; ++s) { const int8_t x = static_cast<int8_t>(\4.v[s]); int8_t y; "
        r"hil::\1<int32_t>(&y, hil::flash(\3), hil::ram(&x),\5); \2.v[s] = y; }",
    ),
)


POSIT = r"hil::Posit<(\d+), (\d)> (\w+)\[(\d+)\]"
SIZE = r"Batch \*const (\w+) = values.*?// (\d+) x"
# A sum of posits: kernel, window, target and patch, weights, operand, bias
SUM = (
    r"hil::(\w+)<hil::Quire<(\d+), (-?\d+), (\d+)>>"
    r"\(((?:(?!;).)*?(\w+)_n,\s*hil::ram\((\w+)\),\s*(\w+_n),.*?(known\[\d+\])\));"
)


class Known:
    """Numbers that the compiler is not to know."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def __call__(self, value: int) -> str:
        self.values.append(value)
        return f"known[{len(self.values) - 1}]"

    def found(self, found: re.Match[str]) -> str:
        return self(int(found[1]))


def batched(text: str, inputs: int) -> tuple[str, list[int]]:
    """The program of a model.cpp, whose input has so many elements, with batches for elements, and what is known at run
    time."""
    constants, body = text.split("void run(")
    known = Known()

    def ends(found: re.Match[str]) -> str:
        return f"hil::within_known({found[3]}, {known(int(found[1]))}, {known(int(found[2]))})"

    body = re.sub(r"hil::(?:Bias|A|B)?(?:Shift|Lift|Zero)<(-?\d+)>\(\)", known.found, f"void run({body}")
    body = re.sub(r"hil::within<(-?\d+), (-?\d+)>\((\w+)\)", ends, body)
    body = re.sub(r"(?<=\*/ )(\d+)\b", known.found, body)
    kind = "posits" if "hil::Posit<" in constants else "kernels"
    if kind == "posits":
        constants, body = with_posits(constants, body, known)
    for pattern, made in REWRITES:
        body = re.sub(pattern, made, body)
    if kind == "posits":
        body = with_windows(constants, body, known, inputs)
    head = f'#include "benchmarks/search/batched_{kind}.hpp"\nextern "C" int known[];\nint known[1024];\n'
    constants = constants.replace('#include "model/model.hpp"', "")
    return f"{head}static hil::Batch values[65536];\n{constants}{body}{CALLED}", known.values


def with_posits(constants: str, body: str, known: Known) -> tuple[str, str]:
    """Constants as doubles beside their codes; the format."""
    for bits, es, name, count in re.findall(POSIT, constants):
        constants += f"double {name}_n[{count}];\nconst bool {name}_is = hil::decode({name}, {name}_n, {count});\n"
        body = body.replace(f"hil::flash({name})", f"{name}_n")
        form = f"hil::posits({known(int(bits))}, {known(int(es))});"
    body = re.sub(r"(hil::max_pool(?:_rows)?)<float>", r"\1<hil::Batch>", body)
    return constants, body.replace("(void)input;", form)


def with_windows(constants: str, body: str, known: Known, inputs: int) -> str:
    """Sums in units that are known at run time; those of 64 bits in doubles where these hold them."""
    sizes = {name: int(count) for name, count in re.findall(SIZE, body)}
    arrays = {name: (int(bits), int(es), int(count)) for bits, es, name, count in re.findall(POSIT, constants)}

    def window(found: re.Match[str]) -> str:
        kernel, wide, lowest, guard, given, w, x, b, shift = found.groups()
        bits, es, count = arrays[w]
        outputs = arrays[b.removesuffix("_n")][2]
        floors = 2 * (2 - bits) * (1 << es) < int(lowest)
        call = f"hil::window({', '.join(map(known, (int(wide), int(lowest), int(guard), int(floors))))});\n"
        if wide == "64":
            call += f"static const hil::RowSums {w}_most({w}_n, {count}, {outputs});\n"
            call += f"if (!hil::is_short({x}, {sizes.get(x, inputs)}, {w}_most, {b}, {outputs}, {shift})) "
            call += f"hil::{kernel}<hil::LongUnits>({given};\nelse "
        return f"{call}hil::{kernel}<hil::ShortUnits>({given};"

    return re.sub(SUM, window, body, flags=re.DOTALL)


def least_us(run: Callable[[], object], samples: int) -> float:
    """Of several runs."""
    seconds = []
    for _ in range(REPEATS):
        begin = time.process_time()
        run()
        seconds.append(time.process_time() - begin)
    return 1e6 * min(seconds) / samples


def row(name: str, fmt: str, folder: Path) -> str:
    """Of the table: the engine's time, that of batches, and how they compare."""
    opened = open_model(name)
    graph, ranges, host = opened.model.graph, opened.required_ranges(None), load_boards().board("host")
    made = compile_model(opened.model, opened.assignment(None, fmt), ranges, [host], {"host"})
    assert opened.source.dataset is not None
    x = data.load(opened.source.dataset).x_test
    x = x[: min(len(x), MOST) // AT_ONCE * AT_ONCE].reshape(-1, *graph.shapes[graph.inputs[0]])
    codes = quantize_inputs(made.lowered, x)[0]
    wanted = run_reference(made.lowered, codes).outputs
    engine = replace(load_engine(default_cache_dir()), threads=1, least_work=1 << 60)  # nothing kept between runs
    theirs = least_us(lambda: engine.run(made.lowered, codes), len(codes))
    write_sources(made.sources, folder)
    text, known = batched((folder / "model" / "model.cpp").read_text(), codes.size // len(codes))
    (folder / "batched.cpp").write_text(text)
    subprocess.run([*COMPILE, f"-I{folder}", f"-I{ROOT}", "-o", "batched.so", "batched.cpp"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "batched.so"))
    ctypes.memmove(
        (ctypes.c_int * len(known)).in_dll(library, "known"), (ctypes.c_int * len(known))(*known), 4 * len(known)
    )
    tensors = made.lowered.tensors
    given, right = (
        np.ascontiguousarray(numbers(array, tensors[end].format).reshape(len(codes), -1))
        for array, end in ((codes, made.lowered.input), (wanted, made.lowered.output))
    )
    found = np.zeros(right.shape)
    arguments = (
        given.ctypes.data_as(ctypes.c_void_p),
        len(given),
        codes.size // len(codes),
        found.size // len(found),
        found.ctypes.data_as(ctypes.c_void_p),
    )
    ours = least_us(lambda: library.many(*arguments), len(codes))
    if not np.array_equal(found, right):
        raise SystemExit(f"{name} in {fmt}: other outputs than the reference")
    return f"| `{name}` | {fmt} | {theirs:.2f} | {ours:.2f} | {ours / theirs:.2f} |"


def numbers(codes: np.ndarray, fmt: Format) -> np.ndarray:
    """What batches hold of codes: integers, of posits what they stand for without their scale."""
    return fmt.decode(codes) if isinstance(fmt, Posit) else codes.astype(np.float64)


def main(names: Sequence[str]) -> None:
    print("| Model | Format | Engine, us | Kernels on batches, us | Ratio |\n|---|---|---|---|---|")
    for name in names or MODELS:
        for fmt in FORMATS if name not in RECURRENT else FORMATS[:1]:
            with tempfile.TemporaryDirectory() as folder:
                print(row(name, fmt, Path(folder)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
