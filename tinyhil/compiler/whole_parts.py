"""Whole numbers beside floats in one record, as lengths are: read to the nearest, refused where that is another one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinyhil.compiler.calibrate import Ranges
from tinyhil.errors import ModelError
from tinyhil.formats.codec import dequantize, quantize
from tinyhil.formats.format import Format
from tinyhil.language.graph import Graph

MOST_TRIED = 1 << 16  # whole numbers
RAISED = ".raised"  # name of the value that has a half more, behind that of the part


def check_whole_parts(graph: Graph, formats: Mapping[str, Format], ranges: Ranges) -> None:
    """ModelError for a part of whole numbers of which the formats of `graph`'s values tell some not apart."""
    for part in graph.parts:
        value = next((f"{part.name}{end}" for end in ("", ".flat") if f"{part.name}{end}{RAISED}" in formats), None)
        if not part.is_whole or value is None:
            continue
        low, high = (int(end) for end in ranges.ends(value))
        numbers = np.unique(np.linspace(low, high, min(high - low + 1, MOST_TRIED)).astype(np.int64))
        held = _held(numbers, formats[value])
        wrong = np.floor(_held(held + 0.5, formats[f"{value}{RAISED}"])) != numbers
        if wrong.any():
            what = f"{formats[value]} does not hold the whole number {numbers[wrong.argmax()]} of {low} to {high}"
            raise ModelError(f"input '{part.name}': {what} beside the other inputs; use more bits")


def _held(numbers: np.ndarray, fmt: Format) -> np.ndarray:
    return dequantize(quantize(numbers.astype(np.float64), fmt)[0], fmt)
