"""Attention on emulated boards: python -m benchmarks.attention

Runs a compact transformer (benchmarks/transformers.py) in each format and board, and Deeploy's networks where HIL_DATA
has them (language models: benchmarks/language_models.py), each by `hil run`'s own path; keeps each as a golden record
(results/attention/, held by tests/test_attention_records.py) and makes the table of docs/measured/attention.md of all
of them. A run whose integers differ from the reference ends the program.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from benchmarks.marked import replace_between
from benchmarks.quiet import quiet
from benchmarks.transformers import Shape, compact
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.golden import Bench, Order, make_golden, measure, path_of, read_golden, write_golden
from tinyhil.harness.python import calls
from tinyhil.harness.settings.config import load_boards
from tinyhil.native import default_cache_dir
from tinyhil.preference import BALANCED
from tools.measured import RESULTS, ROOT, provenance

PAGE = ROOT / "docs" / "measured" / "attention.md"
BEGIN, END = "<!-- attention: begin -->", "<!-- attention: end -->"
FOLDER = RESULTS / "attention"
RUNS = (
    *(("CCT-2", "h747", fmt, None) for fmt in ("int8", "fixed8", "fixed16")),
    ("CCT-2", "nucleo_l4r5", "int8", None),
    *(("CCT-2", "due", fmt, None) for fmt in ("int8", "fixed8")),
    *((name, "h747", "int8", prefer) for name in ("CCT_1_32_32_8", "ViT-196") for prefer in ("latency", "ram")),
)
SHAPES = {"CCT-2": Shape(), "ViT-196": Shape(image=56, channels=16, heads=2, encoders=1, kernel=3, hidden=16)}
DEEPLOY = {
    "CCT_1_32_32_8": "CCT/FP32/CCT_1_32_32_8",
    "microLlama": "microLlama/FP32/microLlama1",
    "microLlama, PULP's integers": "microLlama/INT8/microLlama1",
}
EACH = {"batch_matmul": ("a product", 64)} | dict.fromkeys(
    ("single_normalize", "linear_channels", "softmax_decided"), ("an element", 1)
)
HEAD = "| network | board | format | prefer | modelled cycles | instructions | arena B | RAM B | flash B |"


def files(name: str, folder: Path) -> tuple[Path, Path] | None:
    """Model and inputs of a network; None if it is Deeploy's and not here."""
    inputs = folder / "x.npz"
    if name not in DEEPLOY:
        path = folder / f"{name}.onnx"
        side = SHAPES[name].image
        onnx.save(compact(SHAPES[name]), path)
        np.savez(inputs, x=np.random.default_rng(7).standard_normal((4, 3, side, side)).astype(np.float32))
        return path, inputs
    given = Path(os.environ.get("HIL_DATA", "/nowhere")) / "deeploy" / "Models" / DEEPLOY[name]
    if not given.exists():
        return None
    arrays = np.load(given / "inputs.npz")
    parts = [arrays[key] for key in arrays.files]
    x = parts[0] if len(parts) == 1 else np.concatenate([part.reshape(1, -1) for part in parts], axis=1)
    np.savez(inputs, x=np.concatenate([x, x]))
    return given / "network.onnx", inputs


def order_of(name: str, board: str, fmt: str, prefer: str | None) -> Order:
    """What is run; its paths start at the folder of the network's files."""
    return Order(board, f"{name}.onnx", fmt, inputs="x.npz", calibrate="x.npz", samples=1, prefer=prefer)


def bench_in(name: str, folder: Path) -> Bench | None:
    """The bench whose folder has the network's files; None if it is Deeploy's and not here."""
    found = files(name, folder)
    if found is None:
        return None
    if found[0].parent != folder:
        shutil.copy(found[0], folder / f"{name}.onnx")
    return Bench(load_boards(None), default_cache_dir(), quiet, root=folder, timeout_s=120.0)


def write_record(name: str, order: Order) -> None:
    """The golden record of a run; none without the network's files. AssertionError where its integers differ from the
    reference."""
    with tempfile.TemporaryDirectory() as folder:
        bench = bench_in(name, Path(folder))
        if bench is None:
            print(f"{name}: its files are not in HIL_DATA", flush=True)
            return
        record = measure(order, bench)
    assert record["bit_exact"], order
    write_golden(path_of(order, FOLDER), make_golden(order, record))


def line(order: Order) -> str:
    """The row of the table that a golden record gives."""
    _, record = read_golden(path_of(order, FOLDER))
    memory = record["memory"]
    figures = (
        record["latency"]["median"],
        record["raw"]["instructions"][0],
        memory["arena_bytes"],
        memory["total_bytes"],
        record["flash_bytes"],
    )
    what = (record["model"], order.board, order.format, order.prefer or BALANCED)
    return f"| {' | '.join([*what, *(f'{n:,.0f}' for n in figures)])} |"


def table() -> list[str]:
    """Head, and a row of each run that has a record."""
    orders = [order_of(*run) for run in RUNS]
    rows = [line(order) for order in orders if path_of(order, FOLDER).is_file()]
    return [HEAD, "|" + "---|" * HEAD.count(" | ") + "---|", *rows]


def each() -> None:
    """Print what a product of two matrices, and an element of the other kernels of EACH, takes of CCT-2 in int8."""
    with tempfile.TemporaryDirectory() as folder:
        found = files("CCT-2", Path(folder))
        assert found is not None
        asked = Request("h747", str(found[0]), "int8", inputs=found[1], calibrate=found[1], samples=1)
        costs = calls.profile(replace(asked, results=Path(folder)), load_boards(None), quiet, quiet).operations
    for kernel, (what, inner) in EACH.items():
        rows = [cost for cost in costs if cost.kernel == kernel]
        number = sum(cost.instructions or 0.0 for cost in rows) / sum(inner * cost.elements for cost in rows)
        print(f"{kernel}: {number:.2f} instructions {what}", flush=True)


def main() -> None:
    """Measure, keep, make the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="measure those alone whose line has this, as 'due int8'")
    parser.add_argument("--each", action="store_true", help="instructions of products and elements, and nothing else")
    arguments = parser.parse_args()
    if arguments.each:
        return each()
    only, before = arguments.only, provenance()
    for run in RUNS:
        if only in " ".join(map(str, run)):
            write_record(run[0], order_of(*run))
            print(*run, flush=True)
    replace_between(PAGE, BEGIN, END, "\n".join(table()), before)


if __name__ == "__main__":
    main()
