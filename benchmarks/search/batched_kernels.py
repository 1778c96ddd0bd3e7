"""The firmware's kernels as a host engine: sixteen samples at once, shifts, sizes and limits known at run time alone.

    python -m benchmarks.search.batched_kernels [MODEL ...]

Microseconds of processor per sample, beside those of search/engine/: whether searches could run what boards run. The
generated calls of a model in fixed8 take batches (batched_kernels.hpp) for elements; functions by table run for one
sample after the other. SystemExit if an output differs from the reference's.
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
from tinyhil.harness.build.pipeline import compile_model, write_sources
from tinyhil.harness.job.job import open_model
from tinyhil.harness.settings.config import load_boards
from tinyhil.native import default_cache_dir
from tinyhil.references.reference import quantize_inputs, run_reference
from tinyhil.search.engine.library import load_engine

MODELS, AT_ONCE, MOST, REPEATS = ("digits_mlp", "digits_cnn", "lenet5_mnist", "fastgrnn_har"), 16, 160, 7
HEADER = Path(__file__).with_name("batched_kernels.hpp")
COMPILE = ("g++", "-O3", "-std=c++17", "-march=native", "-shared", "-fPIC", "-w", "-DHIL_BOARD_HOST", "-DHIL_CHIP_HOST")
CALLED = """
extern "C" void many(const int8_t *x, int count, int inputs, int outputs, int8_t *y) {
    static hil::Batch in[65536], out[4096];
    for (int first = 0; first < count; first += 16) {
        for (int k = 0; k < inputs; ++k)
            for (int s = 0; s < 16; ++s) in[k].v[s] = x[(first + s) * inputs + k];
        model::run(in, out);
        for (int k = 0; k < outputs; ++k)
            for (int s = 0; s < 16; ++s) y[(first + s) * outputs + k] = static_cast<int8_t>(out[k].v[s]);
    }
}
"""
# What generated text becomes, in this order
REWRITES = (
    (r"hil::(?:Sum|Wide)<\d+>", "hil::Batch"),
    (
        r"int8_t \*const (\w+) = reinterpret_cast<int8_t \*>\(hil_arena \+ (\d+)\);",
        r"hil::Batch *const \1 = values + \2;",
    ),
    (r"void run\(const uint8_t \*input, uint8_t \*output\)", "void run(const hil::Batch *input, hil::Batch *output)"),
    (
        r"const int8_t \*const (\w+) = reinterpret_cast<const int8_t \*>\(input\);",
        r"const hil::Batch *const \1 = input;",
    ),
    (
        r"const int8_t \*const (\w+) = hil::input_row<int8_t>\(input, (\w+), (\d+)\);",
        r"const hil::Batch *const \1 = input + \2 * \3;",
    ),
    (
        r"hil::copy<int32_t>\(reinterpret_cast<int8_t \*>\(output\), hil::ram\((\w+)\), (\d+)\);",
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


def batched(text: str) -> tuple[str, list[int]]:
    """The program of a model.cpp with batches for elements, and what is known at run time."""
    constants, body = text.split("void run(")
    known: list[int] = []

    def at_run_time(found: re.Match[str]) -> str:
        known.append(int(found[1]))
        return f"known[{len(known) - 1}]"

    body = re.sub(r"hil::(?:Bias|A|B)?(?:Shift|Lift)<(-?\d+)>\(\)", at_run_time, f"void run({body}")
    body = re.sub(r"(?<=\*/ )(\d+)\b", at_run_time, body)
    for pattern, made in REWRITES:
        body = re.sub(pattern, made, body)
    head = (
        '#include "batched_kernels.hpp"\nextern "C" int known[];\nint known[1024];\nstatic hil::Batch values[65536];\n'
    )
    return head + constants.replace('#include "model/model.hpp"', "") + body + CALLED, known


def least_us(run: Callable[[], object], samples: int) -> float:
    """Of several runs."""
    seconds = []
    for _ in range(REPEATS):
        begin = time.process_time()
        run()
        seconds.append(time.process_time() - begin)
    return 1e6 * min(seconds) / samples


def row(name: str, folder: Path) -> str:
    """Of the table: the engine's time, that of batches, and how they compare."""
    opened = open_model(name)
    graph, ranges, host = opened.model.graph, opened.required_ranges(None), load_boards().board("host")
    made = compile_model(opened.model, opened.assignment(None, "fixed8"), ranges, [host], {"host"})
    assert opened.source.dataset is not None
    x = data.load(opened.source.dataset).x_test
    x = x[: min(len(x), MOST) // AT_ONCE * AT_ONCE].reshape(-1, *graph.shapes[graph.inputs[0]])
    codes = quantize_inputs(made.lowered, x)[0]
    wanted = run_reference(made.lowered, codes).outputs
    engine = replace(load_engine(default_cache_dir()), threads=1, least_work=1 << 60)  # nothing kept between runs
    theirs = least_us(lambda: engine.run(made.lowered, codes), len(codes))
    write_sources(made.sources, folder)
    text, known = batched((folder / "model" / "model.cpp").read_text())
    (folder / "batched.cpp").write_text(text)
    subprocess.run(
        [*COMPILE, f"-I{folder}", f"-I{HEADER.parent}", "-o", "batched.so", "batched.cpp"], cwd=folder, check=True
    )
    library = ctypes.CDLL(str(folder / "batched.so"))
    ctypes.memmove(
        (ctypes.c_int * len(known)).in_dll(library, "known"), (ctypes.c_int * len(known))(*known), 4 * len(known)
    )
    given = np.ascontiguousarray(codes.reshape(len(codes), -1).astype(np.int8))
    found = np.zeros(wanted.reshape(len(codes), -1).shape, np.int8)
    arguments = (
        given.ctypes.data_as(ctypes.c_void_p),
        *given.shape,
        found.shape[1],
        found.ctypes.data_as(ctypes.c_void_p),
    )
    ours = least_us(lambda: library.many(*arguments), len(codes))
    if not np.array_equal(found, wanted.reshape(found.shape)):
        raise SystemExit(f"{name}: other outputs than the reference")
    return f"| `{name}` | {theirs:.2f} | {ours:.2f} | {ours / theirs:.2f} |"


def main(names: Sequence[str]) -> None:
    print("| Model | Engine, us | Kernels on batches, us | Ratio |\n|---|---|---|---|")
    for name in names or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            print(row(name, Path(folder)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
