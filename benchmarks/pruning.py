"""What zeros are worth: an MLP pruned while it is trained, its accuracy, and what boards make of it.

A table of docs/training.md (`python -m benchmarks.training pruning`): everything by `hil train` and `hil run`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.mlp import mlp_model
from benchmarks.quiet import quiet
from benchmarks.trained_networks import note
from tinyhil import data
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.energy.session import EnergyRequest, run_energy
from tinyhil.harness.job.job import Request
from tinyhil.harness.python import calls
from tinyhil.harness.settings.config import load_boards
from tinyhil.harness.train.session import TrainRequest, run_train

SIZES, FORMAT, SAMPLES = (784, 32, 10), "fixed8", 10000
PRUNED, SHARES = "fc1_w", (0.5, 0.7, 0.8, 0.9, 0.95)
EPOCHS, RATE, MEASURED = 12, 2e-2, 5
BOARDS = ("uno", "due")


def rows() -> Iterator[dict[str, Any]]:
    """The network as it is, then with more and more zeros, each trained on from the one without."""
    found = data.load("mnist")
    assert found.y_train is not None
    assert found.y_test is not None
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        x, x_test = (array.reshape(len(array), -1) for array in (found.x_train[:SAMPLES], found.x_test))
        np.savez(here / "train.npz", x=x, y=found.y_train[:SAMPLES])
        np.savez(here / "test.npz", x=x_test, y=found.y_test)
        onnx.save(mlp_model(SIZES, "Relu", 0), here / "new.onnx")
        _, first = _trained(here, "new", "dense", ())
        yield first
        for share in SHARES:
            yield _trained(here, "dense", f"pruned{share}", (f"{PRUNED}={share}",))[1]


def _trained(here: Path, model: str, name: str, prune: tuple[str, ...]) -> tuple[Path, dict[str, Any]]:
    out = here / f"{name}.onnx"
    request = TrainRequest(
        str(here / f"{model}.onnx"),
        out,
        data=here / "train.npz",
        held_out=here / "test.npz",
        format=FORMAT,
        epochs=EPOCHS,
        rate=RATE,
        prune=prune,
    )
    outcome = run_train(request, default_cache_dir(), quiet, quiet)
    note(outcome.trained.constants)
    assert outcome.tested is not None
    row: dict[str, Any] = {
        "zeros of fc1": f"{100 * outcome.zeros.get(PRUNED, 0):.0f} %",
        "test accuracy": outcome.tested.after,
    }
    for board in BOARDS:
        wanted = Request(board, str(out), FORMAT, inputs=here / "test.npz", samples=MEASURED, results=here / "results")
        record, _ = calls.run(wanted, load_boards(None), quiet, quiet)
        assert record["bit_exact"]
        row[f"{board} cycles"] = f"{record['latency']['median']:,.0f}"
        row[f"{board} flash"] = f"{record['flash_bytes']:,}"
    energy = run_energy(EnergyRequest(str(out), FORMAT, inputs=here / "test.npz"), quiet).energy
    row["nJ (model)"] = f"{energy.total_pj / 1e3:.1f}"
    row["zeros skipped"] = f"{energy.skipping_pj / 1e3:.1f}"
    return out, {**row, "seconds": round(outcome.cpu_seconds)}
