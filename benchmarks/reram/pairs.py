"""Which held-out pictures an answer decides right: two answers are compared picture by picture.

Bits of a row, in the order of the test part, as base64: `right`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.reram.cases import Loaded
from benchmarks.reram.fast import FastExecutor
from benchmarks.reram.pages import is_of
from tinyhil.errors import DataError
from tinyhil.language.program import Program
from tinyhil.references.classes import classes_of
from tinyhil.references.evaluate import shape_inputs
from tinyhil.references.reference import dequantize_outputs, quantize_inputs
from tinyhil.search.accelerator import AcceleratorLimits
from tinyhil.search.space import Choice

RIGHT = "right"
COMPARED = ("8 bits", "grid", "ppo")  # by claims
BLOCK = 256  # pictures at once


def right(loaded: Loaded, program: Program) -> np.ndarray:
    """Of every held-out picture whether its class is its label."""
    graph, (x, y) = loaded.space.graph, loaded.tested
    integers, _ = quantize_inputs(program, shape_inputs(graph, x))
    starts = range(0, len(integers), BLOCK)
    outputs = np.concatenate([FastExecutor().run(program, integers[n : n + BLOCK]).outputs for n in starts])
    return np.asarray(classes_of(graph, dequantize_outputs(program, outputs)) == y)


def packed(bits: np.ndarray) -> str:
    return base64.b64encode(np.packbits(bits).tobytes()).decode()


def bits_of(row: Mapping[str, Any], count: int) -> np.ndarray:
    """0 and 1 of the first `count` pictures."""
    return np.unpackbits(np.frombuffer(base64.b64decode(row[RIGHT]), np.uint8), count=count)


def completed(rows: list[dict[str, Any]], loaded: Loaded) -> Iterator[dict[str, Any]]:
    """Those of COMPARED that lack their bits with those of their widths, which must be as many as the row says."""
    problem = loaded.problem(AcceleratorLimits())
    format_of = {Choice(fmt).bits: fmt for fmt in problem.space.formats}
    for row in rows:
        if RIGHT not in row and any(is_of(row, name) for name in COMPARED):
            chosen = tuple(Choice(format_of[row["widths"][group.name]]) for group in problem.space.groups)
            found = right(loaded, problem.program(chosen))
            if found.mean() != row["held_out"]:
                facts = (row[name] for name in ("threshold", "strategy", "seed", "held_out"))
                raise DataError(f"reram: {loaded.case.name} {tuple(facts)}: now {found.mean()}; measure it again")
            row = {**row, RIGHT: packed(found)}
        yield row
