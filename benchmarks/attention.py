"""Attention on emulated boards: python -m benchmarks.attention

Runs a compact transformer (benchmarks/transformers.py) in each format and board, and Deeploy's networks where HIL_DATA
has them (language models: benchmarks/language_models.py), each by `hil run`'s own path; puts the table into
docs/measured/attention.md. A row whose integers differ from the reference is none: it ends the program.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.bench import quiet
from benchmarks.marked import replace_between
from benchmarks.transformers import Shape, compact
from tinyhil.harness.job.job import Request
from tinyhil.harness.python import calls
from tinyhil.harness.settings.config import load_boards
from tools.measured import ROOT, provenance

PAGE = ROOT / "docs" / "measured" / "attention.md"
BEGIN, END = "<!-- attention: begin -->", "<!-- attention: end -->"
RUNS = (
    *(("CCT-2", "h747", fmt, "balanced") for fmt in ("int8", "fixed8", "fixed16")),
    ("CCT-2", "nucleo_l4r5", "int8", "balanced"),
    *(("CCT-2", "due", fmt, "balanced") for fmt in ("int8", "fixed8")),
    *(("CCT_1_32_32_8", "h747", "int8", prefer) for prefer in ("latency", "ram")),
)
DEEPLOY = {
    "CCT_1_32_32_8": "CCT/FP32/CCT_1_32_32_8",
    "microLlama": "microLlama/FP32/microLlama1",
    "microLlama, PULP's integers": "microLlama/INT8/microLlama1",
}
HEAD = "| network | board | format | prefer | modelled cycles | instructions | arena B | RAM B | flash B |"


def files(name: str, folder: Path) -> tuple[Path, Path] | None:
    """Model and inputs of a network; None if it is Deeploy's and not here."""
    inputs = folder / "x.npz"
    if name not in DEEPLOY:
        path = folder / f"{name}.onnx"
        onnx.save(compact(Shape()), path)
        x = np.random.default_rng(7).standard_normal((4, 3, 32, 32)).astype(np.float32)
        np.savez(inputs, x=x)
        return path, inputs
    given = Path(os.environ.get("HIL_DATA", "/nowhere")) / "deeploy" / "Models" / DEEPLOY[name]
    if not given.exists():
        return None
    arrays = np.load(given / "inputs.npz")
    parts = [arrays[key] for key in arrays.files]
    x = parts[0] if len(parts) == 1 else np.concatenate([part.reshape(1, -1) for part in parts], axis=1)
    np.savez(inputs, x=np.concatenate([x, x]))
    return given / "network.onnx", inputs


def rows() -> Iterator[str]:
    """Lines of the table; AssertionError where integers differ from the reference."""
    for name, board, fmt, prefer in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            found = files(name, Path(folder))
            if found is None:
                continue
            model, inputs = found
            wanted = Request(board, str(model), fmt, inputs=inputs, calibrate=inputs, samples=1, prefer=prefer)
            record, _ = calls.run(replace(wanted, results=Path(folder)), load_boards(None), quiet, quiet)
        assert record["bit_exact"], (name, board, fmt)
        yield f"| {name} | {board} | {fmt} | {prefer} | {' | '.join(f'{n:,.0f}' for n in _figures(record))} |"


def _figures(record: dict[str, Any]) -> tuple[float, ...]:
    latency, memory = record["latency"], record["memory"]
    return (
        latency["median"],
        latency["instructions"],
        memory["arena_bytes"],
        memory["total_bytes"],
        record["flash_bytes"],
    )


if __name__ == "__main__":
    before = provenance()
    lines = [HEAD, "|" + "---|" * HEAD.count(" | ") + "---|", *rows()]
    replace_between(PAGE, BEGIN, END, "\n".join(lines), before)
