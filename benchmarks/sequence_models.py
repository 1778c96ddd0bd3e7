"""Sequence models side by side: python -m benchmarks.sequence_models

Trains each kind of models/training/sequences.py on two tasks (FSDD, UCI HAR, as the loaders have them) with SEEDS, asks
float and int8 accuracy on the test parts, and runs one sample of the first seed on the emulated H747. Each trained
network is noted in results/sequence_models.json as it is done; what is there of the same recipe is not trained again.
The table of docs/sequence_models.md is made of it. Needs the extra `train`.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.marked import replace_between
from benchmarks.quiet import quiet
from benchmarks.trained_networks import MACHINE, NETWORKS, hash_of, machine
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.data import load
from tinyhil.data.dataset import Dataset
from tinyhil.frontend.onnx import load_onnx
from tinyhil.harness.job.job import Request
from tinyhil.harness.python import calls
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import quantize_inputs, run_reference
from tools.measured import RESULTS, ROOT, provenance

TASKS = {"fsdd": "spoken digits", "har6": "activities"}
SEEDS = (0, 1, 2)
KINDS = ("GRU", "FastGRNN", "TCN", "transformer", "linear attention", "Mamba")
CALIBRATION, MOST_TESTED = 100, 300  # samples, of the training and of the test part
BOARD, FORMAT = "h747", "int8"
FILE, PAGE = RESULTS / "sequence_models.json", ROOT / "docs" / "sequence_models.md"
BEGIN, END = "<!-- sequence_models: begin -->", "<!-- sequence_models: end -->"
HEAD = "| task | model | parameters | seeds | float, % | int8, % | cycles of a sample | RAM B | flash B |"
RECIPE_FILES = ("models/training/sequences.py", "models/training/fit.py")


def recipe() -> str:
    """What determines a trained network beside kind, task and seed."""
    digest = hashlib.sha256()
    for name in RECIPE_FILES:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()[:16]


def accuracies(graph: Graph, data: Dataset) -> tuple[float, float]:
    """Of the float model and of int8's integers, in per cent of the first MOST_TESTED test samples."""
    assert data.y_test is not None
    x, y = data.x_test[:MOST_TESTED, None], data.y_test[:MOST_TESTED]
    program = lower(graph, Assignment(FORMAT), calibrate(graph, data.x_train[:CALIBRATION, None], {}))
    integers = run_reference(program, quantize_inputs(program, x)[0]).outputs
    floats = evaluate(graph, x).reshape(len(x), -1)
    hits = [float((scores.reshape(len(y), -1).argmax(axis=1) == y).mean()) for scores in (floats, integers)]
    return 100 * hits[0], 100 * hits[1]


def measured(path: Path, data: Dataset, folder: Path) -> dict[str, int]:
    """A sample on the board; AssertionError where its integers differ from the reference."""
    for name, part in (("x", data.x_test), ("seen", data.x_train[:CALIBRATION])):
        np.savez(folder / f"{name}.npz", x=part[:, None])
    wanted = Request(BOARD, str(path), FORMAT, inputs=folder / "x.npz", calibrate=folder / "seen.npz", samples=1)
    record, _ = calls.run(replace(wanted, results=folder), load_boards(None), quiet, quiet)
    assert record["bit_exact"], path
    return {
        "cycles": int(record["latency"]["median"]),
        "ram": int(record["memory"]["total_bytes"]),
        "flash": int(record["flash_bytes"]),
    }


def one(task: str, kind: str, seed: int, data: Dataset) -> dict[str, Any]:
    """A network trained and asked."""
    from models.training import sequences

    assert data.y_train is not None
    shape = (data.x_train.shape[1], data.x_train.shape[2])
    model, mean, deviation = sequences.trained(kind, data.x_train, data.y_train, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(sequences.onnx_of("model", model, mean, deviation, shape), path)
        graph = load_onnx(path).graph
        exact, int8 = accuracies(graph, data)
        row = {"task": task, "kind": kind, "seed": seed, "float": exact, "int8": int8, "recipe": recipe()}
        row |= {NETWORKS: hash_of(graph.all_constants()), MACHINE: machine()}
        row["parameters"] = sum(parameter.numel() for parameter in model.parameters())
        return row | (measured(path, data, Path(folder)) if seed == SEEDS[0] else {})


def main() -> None:
    """Train what is missing, note it, make the page."""
    before = provenance()
    found = json.loads(FILE.read_text(encoding="utf-8"))["rows"] if FILE.is_file() else []
    rows = {(row["task"], row["kind"], row["seed"]): row for row in found if row["recipe"] == recipe()}
    for seed in SEEDS:
        for task in TASKS:
            data = load(task)
            for kind in KINDS:
                if (task, kind, seed) not in rows:
                    rows[task, kind, seed] = one(task, kind, seed, data)
                    made = {"provenance": before, "rows": list(rows.values())}
                    FILE.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
                    print(rows[task, kind, seed], flush=True)
                    lines = [HEAD, "|" + "---|" * (HEAD.count(" | ") + 1), *_lines(rows)]
                    replace_between(PAGE, BEGIN, END, "\n".join(lines), before)


def _lines(rows: dict[tuple[str, str, int], dict[str, Any]]) -> Iterator[str]:
    for task, what in TASKS.items():
        for kind in KINDS:
            seeds = [rows[task, kind, seed] for seed in SEEDS if (task, kind, seed) in rows]
            if not seeds:
                continue
            shares = [
                f"{np.mean([row[part] for row in seeds]):.1f} ± {np.std([row[part] for row in seeds]):.1f}"
                for part in ("float", "int8")
            ]
            figures = [f"{seeds[0][part]:,}" for part in ("cycles", "ram", "flash")]
            yield f"| {what} | {kind} | {seeds[0]['parameters']:,} | {len(seeds)} | {' | '.join([*shares, *figures])} |"


if __name__ == "__main__":
    main()
