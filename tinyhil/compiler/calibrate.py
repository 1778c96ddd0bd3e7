"""Ranges: the smallest and largest value each tensor takes over calibration samples.

The zoo commits them beside each model (`ranges.json`), so the firmware does not depend on where the data came from.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil import files
from tinyhil.compiler.missing import shown
from tinyhil.errors import DataError, ModelError
from tinyhil.formats.clipping import METHODS, clipped, require_method, sketch
from tinyhil.formats.format import NamedFormat
from tinyhil.language.graph import Graph
from tinyhil.references.evaluate import evaluate, takes_missing

SCHEMA_VERSION = 1
FEWEST_ZEROS = 0.01  # a share below it is not kept
LARGEST_BYTE, FLOAT_BIAS = 127.5, 127
Ends = tuple[tuple[float, ...], tuple[float, ...]]  # lowest and highest value of each column


@dataclass(frozen=True, slots=True)
class Ranges:
    """(lowest, highest) of every run-time value; `source` says from which data. `columns`: the same for each element of
    an input that is a vector. `by`: how the range is cut that a format is fitted to, from the values `seen`
    (tinyhil/formats/clipping.py). `zeros`: share of the values that bytes round to 0, where
    that is a hundredth or more."""

    values: Mapping[str, tuple[float, float]]
    source: Mapping[str, Any]
    columns: Mapping[str, Ends] = field(default_factory=dict)
    by: str = METHODS[0]
    seen: Mapping[str, np.ndarray] = field(default_factory=dict)
    zeros: Mapping[str, float] = field(default_factory=dict)
    _known: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def any_of(cls, graph: Graph, largest: float = 1.0) -> Ranges:
        """Every value within -largest..largest: for what does not depend on ranges."""
        return cls(dict.fromkeys(graph.all_shapes(), (-largest, largest)), {"name": "none"})

    def ends(self, name: str) -> tuple[float, float]:
        """Lowest and highest value of `name`; ModelError if it was never observed."""
        if name not in self.values:
            raise ModelError(f"no calibrated range for value '{name}'; run `hil calibrate` for this model again")
        return self.values[name]

    def fitted_ends(self, name: str, chosen: NamedFormat) -> tuple[float, float]:
        """What of the range of `name` a format is fitted to."""
        ends = self.ends(name)
        seen = self.seen.get(name)
        if self.by == METHODS[0] or seen is None or (float(seen[0]), float(seen[-1])) != ends:
            return ends  # declared, or moved to other units: what was seen says nothing of it
        key = name, chosen.name
        if key not in self._known:
            fit = chosen.fit_range or (lambda low, high: chosen.fit(max(abs(low), abs(high))))
            self._known[key] = clipped(seen, ends, self.by, fit)
        return self._known[key]

    def magnitude(self, name: str) -> float:
        """Largest absolute value of `name`; ModelError if it was never observed."""
        low, high = self.ends(name)
        return max(abs(low), abs(high))


def calibrate(graph: Graph, inputs: np.ndarray, source: Mapping[str, Any], by: str = METHODS[0]) -> Ranges:
    """Run the float model over `inputs` (samples, ...) and record what every value reaches; with `by` other than
    minmax, its values, too. ConfigError if there is no such method."""
    require_method(by)
    seen: dict[str, tuple[float, float]] = {}
    values: dict[str, list[np.ndarray]] = {}
    sizes: dict[str, np.ndarray] = {}  # how many have which exponent
    missing = shown(graph)

    def watch(name: str, array: np.ndarray) -> None:
        if name in missing:
            array = np.nan_to_num(array, nan=0.0)
        low, high = float(array.min()), float(array.max())
        if not np.isfinite(low) or not np.isfinite(high):
            raise DataError(f"calibration: value '{name}' is not finite; the model or the data overflow float32")
        before = seen.get(name, (low, high))
        seen[name] = (min(low, before[0]), max(high, before[1]))
        sizes[name] = sizes.get(name, 0) + _sizes_of(array)
        if by != METHODS[0]:
            values.setdefault(name, []).append(sketch(array))

    evaluate(graph, inputs, watch)
    sketches = {name: sketch(np.concatenate(parts)) for name, parts in values.items()}
    shares = {name: _zeros_of(counts, max(map(abs, seen[name]))) for name, counts in sizes.items()}
    shares = {name: share for name, share in shares.items() if share >= FEWEST_ZEROS}
    return Ranges(seen, dict(source), _columns(graph, inputs), by, sketches, shares)


def _sizes_of(array: np.ndarray) -> np.ndarray:
    """How many elements have each of the exponents of float32, which 0 shares with next to nothing."""
    bits = np.ascontiguousarray(array, np.float32).reshape(-1).view(np.uint32)
    return np.bincount(bits >> 23 & 0xFF, minlength=256)


def _zeros_of(counts: np.ndarray, largest: float) -> float:
    """Share of the values that are below half a step of bytes which hold `largest`, a power of two."""
    step = math.ceil(math.log2(largest / LARGEST_BYTE)) if largest > 0 else 0
    below = max(step - 1 + FLOAT_BIAS, 1)  # the exponent of half a step
    return round(float(counts[:below].sum() / counts.sum()), 4)


def _columns(graph: Graph, inputs: np.ndarray) -> dict[str, Ends]:
    """Lowest and highest value of each element of the input, if it is a vector of numbers that are all there."""
    if takes_missing(graph) or sum(dim > 1 for dim in graph.shapes[graph.inputs[0]]) != 1:
        return {}
    flat = inputs.reshape(len(inputs), -1)
    return {graph.inputs[0]: (tuple(flat.min(axis=0).tolist()), tuple(flat.max(axis=0).tolist()))}


def save_ranges(path: Path, ranges: Ranges, model_sha256: str) -> None:
    """Write `ranges.json`; floats keep every bit (repr)."""
    data = {
        "schema_version": SCHEMA_VERSION,
        "model_sha256": model_sha256,
        "source": dict(ranges.source),
        "values": {name: list(pair) for name, pair in ranges.values.items()},
    }
    if ranges.columns:
        data["columns"] = {name: list(pair) for name, pair in ranges.columns.items()}
    if ranges.zeros:
        data["zeros"] = dict(ranges.zeros)
    files.write_text(path, json.dumps(data, indent=1) + "\n")


def load_ranges(path: Path, model_sha256: str) -> Ranges:
    """Read `ranges.json`; ModelError if it belongs to another model or is damaged."""
    try:
        data = files.read_json(path, "ranges file", error=ModelError)
    except ModelError as error:
        raise ModelError(f"{error}; run `hil calibrate` again") from None
    try:
        values = {str(name): (float(low), float(high)) for name, (low, high) in data["values"].items()}
        columns = {str(name): _ends(pair) for name, pair in data.get("columns", {}).items()}
        zeros = {str(name): float(share) for name, share in data.get("zeros", {}).items()}
        owner, source = data["model_sha256"], data["source"]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ModelError(f"{path}: not a ranges file ({error}); run `hil calibrate` again") from None
    for name, (low, high) in values.items():
        if not -math.inf < low <= high < math.inf:
            raise ModelError(f"{path}: range [{low}, {high}] of '{name}' makes no sense; run `hil calibrate` again")
    if owner != model_sha256:
        raise ModelError(f"{path}: made for another version of the model; run `hil calibrate` again")
    return Ranges(values, source, columns, zeros=zeros)


def _ends(pair: Any) -> Ends:
    """Lowest and highest value of each column; ValueError if they are none."""
    low, high = (tuple(float(end) for end in ends) for ends in pair)
    if not all(-math.inf < a <= b < math.inf for a, b in zip(low, high, strict=True)):
        raise ValueError("columns that make no sense")
    return low, high
