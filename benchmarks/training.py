"""What training is worth: `python -m benchmarks.training NAME` measures a table of docs/training.md and puts it there.

Figures go to results/training/NAME.json, with hashes of the networks (`python -m tools.claims --only docs/training.md`
measures them anew and says what differs); `--page` renews the tables from these files alone. Accuracy is that of
integer programs on test samples, run by the host engine; seconds are of the processor. Needs torch, and the data in
HIL_DATA.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import grids, gupta, limits, post_training, pruning, qnn, rivals, unsigned, zeros
from benchmarks.bench import Bench, Row, digits, mlp, pictures
from benchmarks.given import given_data
from benchmarks.gupta import AsPrinted, Unrounded
from benchmarks.mlp import mlp_model, small_cnn
from benchmarks.papers.pages import save_svg
from benchmarks.trained_networks import MACHINE, NETWORKS, machine, with_networks
from benchmarks.training_figures import FIGURES
from tinyhil.frontend.load import load_model
from tinyhil.frontend.onnx import model_of
from tinyhil.language.assignment import Assignment
from tinyhil.train.limited_precision import Half, Limited
from tinyhil.train.samples import divide
from tinyhil.train.schedule import Schedule
from tools.measured import line, provenance, read, write
from tools.stale import marked

ROOT = Path(__file__).resolve().parent.parent
RESULTS, PAGE = ROOT / "results" / "training", ROOT / "docs" / "training.md"
Rows = list[Row]


# ---- clustered weights

CLUSTERED = Schedule(epochs=2, batch=32, rate=2e-3, teacher=1.0)
PICTURES = 2500


def clusters() -> Iterator[Row]:
    graph = load_model(given_data() / "models" / "mlperftiny_ic_resnet8.onnx").graph
    samples = divide(*pictures("cifar10_train50k_jpeg.npz", PICTURES), CLUSTERED.seed)
    bench = Bench(graph, samples, *pictures("cifar10_test10k_jpeg.npz", 1000))
    formats = Assignment("kmeans16")
    before = bench.judge(formats).float_correct({}, bench.x_test, bench.y_test)
    empty = {"float": before, "post-training": bench.untrained(formats, {})}
    for moved, schedule in (("entries", replace(CLUSTERED, entries=True)), ("weights", CLUSTERED)):
        _, after, seconds = bench.trained(formats, schedule)
        yield {"weights": "kmeans16", "moved": moved, **empty, "retrained": after, "seconds": round(seconds)}


# ---- training in limited precision

PLAIN = Schedule(epochs=5, batch=100, rate=0.1)
FRACTIONS, PRINTED = (8, 10, 12, 14), (8, 12, 14)
COLORED = Schedule(epochs=10, batch=50, rate=0.15)
COLORED_PICTURES, COLORED_TESTS = 5000, 5000
FLOAT = Unrounded()
SEEDED = {"float32": FLOAT, **{f"fixed16:{16 - fine}.{fine}": Limited(16 - fine, fine, True) for fine in (12, 14)}}
SEEDS = (1, 2, 0)  # of the weights at first, what is held back, the order of samples and what is drawn


def colored_bench(seed: int = 0) -> Bench:
    """Pictures of CIFAR-10, 0 to 1."""
    x, y = pictures("cifar10_train50k_jpeg.npz", COLORED_PICTURES)
    x_test, y_test = pictures("cifar10_test10k_jpeg.npz", COLORED_TESTS)
    graph = model_of(small_cnn(seed), Path("cnn.onnx"), "").graph
    return Bench(graph, divide(x / 255, y, seed), x_test / 255, y_test)


def arithmetic() -> Iterator[Row]:
    """Digits by plain descent."""
    yield from limited(digits(mlp((784, 128, 128, 10), "Relu", 0), 10000), PLAIN)


def arithmetic_cifar() -> Iterator[Row]:
    """Pictures by plain descent."""
    yield from limited(colored_bench(), COLORED)


def arithmetic_seeds() -> Iterator[Row]:
    """What the seed is worth, where the fraction is long; the last rows are of all seeds."""
    found: list[list[float]] = []
    for seed in SEEDS:
        begin, bench, schedule = time.process_time(), colored_bench(seed), replace(COLORED, seed=seed)
        found.append([bench.trained(Assignment("float32"), schedule, own)[1] for own in SEEDED.values()])
        yield {"seed": seed, **dict(zip(SEEDED, found[-1], strict=True)), "seconds": round(time.process_time() - begin)}
    for title, made in (("mean", np.mean(found, 0)), ("standard deviation", np.std(found, 0, ddof=1))):
        yield {"seed": title, **dict(zip(SEEDED, made.tolist(), strict=True)), "seconds": None}


def limited(bench: Bench, schedule: Schedule) -> Iterator[Row]:
    """In 16 bits beside the same descent in float32; the last rows without what we add (benchmarks/gupta.py)."""
    head: Row = {"rate": f"{schedule.rate}"}
    plain, seconds = bench.trained(Assignment("float32"), schedule, FLOAT)[1:]
    yield {**head, "in": "float32", "nearest": plain, "stochastic": None, "seconds": round(seconds)}
    ours = [(Limited, fraction, "") for fraction in FRACTIONS]
    for kind, fraction, title in (*ours, *((AsPrinted, fraction, " as printed") for fraction in PRINTED)):
        row: Row = {**head, "in": f"fixed16:{16 - fraction}.{fraction}{title}"}
        begin = time.process_time()
        for way in ("nearest", "stochastic"):
            own = kind(16 - fraction, fraction, way == "stochastic")
            row[way] = bench.trained(Assignment("float32"), schedule, own)[1]
        yield {**row, "seconds": round(time.process_time() - begin)}


HALVES = Schedule(epochs=6, batch=400, rate=1e-2)
LARGE = 2.0**13  # of values that are not normalized: gradients behind the first layers are below 2^-24


def halves() -> Iterator[Row]:
    """FP16 with the loss as it is and scaled; an MLP as it is, and one whose gradients float16 loses."""
    for title, factor in (("0 to 1", 1.0), ("0 to 8192", LARGE)):
        model = mlp_model((784, 16, 512, 10), "Relu", 0, factor)
        bench = digits(model_of(model, Path("mlp.onnx"), "").graph, 5000)
        row: Row = {"inputs": title}
        begin = time.process_time()
        for way, own in (("float32", None), ("fp16, scale 1", Half(1.0)), ("fp16, dynamic", Half())):
            row[way] = bench.trained(Assignment("float32"), HALVES, own)[1]
        yield {**row, "seconds": round(time.process_time() - begin)}


TABLES: dict[str, Callable[[], Iterator[Row]]] = {
    "ram": limits.ram,
    "ram_below": limits.ram_below,
    "ram_few": limits.ram_few,
    "schedules": limits.schedules,
    "qnn": qnn.mnist,
    "qnn_cifar": qnn.cifar,
    "qnn_boards": qnn.boards,
    "qnn_grids": grids.rows,
    "clusters": clusters,
    "arithmetic": arithmetic,
    "arithmetic_cifar": arithmetic_cifar,
    "arithmetic_seeds": arithmetic_seeds,
    "arithmetic_mlp": partial(gupta.rows, "784-1000-1000-10"),
    "arithmetic_cnn": partial(gupta.rows, "8-16-128-10, convolutions 5 x 5"),
    "halves": halves,
    "post_training": post_training.rows,
    "post_training_search": post_training.searched,
    "post_training_mixed": post_training.mixed,
    "pruning": pruning.rows,
    "rivals": rivals.rows,
    "unsigned": unsigned.trained,
    "zeros": zeros.rows,
}


def table(rows: Rows) -> str:
    """Shares are in per cent, which their head says."""
    heads = [head for head in rows[0] if head != NETWORKS]
    named = [f"{head}, %" if any(isinstance(row[head], float) for row in rows) else head for head in heads]
    lines = ["| " + " | ".join(named) + " |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(cell(row[head]) for head in heads) + " |" for row in rows)])


def cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.2f}" if isinstance(value, float) else str(value)


def page() -> None:
    """The tables and figures of the page, from what was measured."""
    text, known = PAGE.read_text(), {name: RESULTS / f"{name}.json" for name in TABLES}
    tables = {name: read(f"training/{name}") for name, file in known.items() if file.is_file()}
    for name, rows in tables.items():
        made = f"<!-- {name} -->\n{table(rows)}\n\n{line(f'training/{name}')}\n<!-- end -->"
        text = re.sub(rf"<!-- {name} -->\n.*?<!-- end -->", made.replace("\\", r"\\"), text, flags=re.DOTALL)
    PAGE.write_text(marked(text, str(PAGE.relative_to(ROOT))))
    for name, draw in FIGURES.items():
        save_svg(draw(tables), PAGE.with_suffix("") / f"{name}.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*TABLES, []], help="tables to measure")
    parser.add_argument("--all", action="store_true", help="every table")
    parser.add_argument("--page", action="store_true")
    arguments = parser.parse_args()
    for name in TABLES if arguments.all else arguments.names:
        measured_at, rows = {**provenance(), MACHINE: machine()}, list[Row]()
        for row in with_networks(TABLES[name]()):
            rows.append(row)
            write(f"training/{name}", measured_at, rows)
            print(row, flush=True)
    page()


if __name__ == "__main__":
    main()
