"""What kernels that leave out the products of zero values are worth: cycles with and without them.

A table of docs/training.md (`python -m benchmarks.training zeros`), all by `hil run`. All products are computed with
ranges that say nothing of zeros (`zeros` in ranges.json, tinyhil/passes/arrange.py).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quiet import quiet
from tinyhil import data
from tinyhil.compiler.calibrate import load_ranges, save_ranges
from tinyhil.frontend.load import load_model
from tinyhil.harness.job.job import Request
from tinyhil.harness.job.zoo import find_model
from tinyhil.harness.python import calls
from tinyhil.harness.settings.config import load_boards

FORMAT, SAMPLES = "fixed8", 10
MODELS = {
    "digits_mlp": ("uno", "due"),
    "digits_cnn": ("due",),
    "lenet5_mnist": ("due",),
    "fastgrnn_mnist10": ("due",),
    "fastgrnn_har": ("due",),
    "fastgrnn_fsdd": ("due",),
}


def rows() -> Iterator[dict[str, Any]]:
    """The first test samples of each model; what differs from the reference on any of them is no row."""
    for name, boards in MODELS.items():
        source = find_model(name)
        assert source.ranges is not None
        assert source.dataset is not None
        with tempfile.TemporaryDirectory() as folder:
            file = shutil.copytree(source.path.parent, Path(folder) / name) / source.path.name
            digest = load_model(file).sha256
            ranges = load_ranges(source.ranges, digest)
            np.savez(Path(folder) / "test.npz", x=data.load(source.dataset).x_test[:SAMPLES])
            for board in boards:
                wanted = Request(
                    board, str(file), FORMAT, inputs=Path(folder) / "test.npz", samples=SAMPLES, results=Path(folder)
                )
                row: dict[str, Any] = {"model": name, "board": board}
                for way, known in (("all products", replace(ranges, zeros={})), ("without zeros", ranges)):
                    save_ranges(file.with_suffix(".ranges.json"), known, digest)
                    record, _ = calls.run(wanted, load_boards(None), quiet, quiet)
                    assert record["bit_exact"]
                    row |= {way: record["latency"]["median"], f"{way}: flash": f"{record['flash_bytes']:,} B"}
                before, after = row["all products"], row["without zeros"]
                cycles = {way: f"{row[way]:,.0f}" for way in ("all products", "without zeros")}
                yield {**row, **cycles, "cycles saved": (before - after) / before}
