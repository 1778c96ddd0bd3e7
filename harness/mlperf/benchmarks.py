"""MLPerf Tiny's benchmarks: what the runner sends, what comes back, what the closed division asks for.

Source: MLPerfTiny_Rules.adoc (table of the closed division), README.md (ic02, of v1.4) and runner in benchmark/ of
github.com/mlcommons/tiny.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from math import prod
from pathlib import Path

import numpy as np

from tinyhil.codegen.benchmark import Codes, codes_at
from tinyhil.errors import ModelError
from tinyhil.frontend.tflite_sound import BANDS, CLASSES, HOP, ROWS
from tinyhil.language.graph import Graph

TOP1, AUC = "top-1", "AUC"
WAKE_SCALE, WAKE_ZERO = 0.003701042616739869, -128  # of the features of the wake word's network
BYTE = np.arange(256)
SIGNED = BYTE.astype(np.uint8).view(np.int8).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """`shape`: one input as the runner sends it, channels last. `values`: the real number of each byte, None: float32.

    `target`: what `metric` must reach; None: the rule counts errors in a stream of audio.
    """

    id: str
    title: str
    shape: tuple[int, ...]
    outputs: int
    values: np.ndarray | None
    metric: str
    target: float | None
    is_heard: bool = False  # samples of sound come, as bytes

    @property
    def count(self) -> int:
        """Numbers of one input."""
        return prod(self.shape)

    @property
    def input_bytes(self) -> int:
        """Bytes of one input on the wire: one per number, four where the runner sends float32."""
        return self.count * (4 if self.values is None and not self.is_heard else 1)

    @property
    def channels(self) -> int:
        """The last axis of the runner's shape; ours come first."""
        return self.shape[-1]

    def reals(self, raw: np.ndarray) -> np.ndarray:
        """The real numbers (samples, *shape) of what the runner sends (samples, input_bytes) uint8."""
        if self.values is None:
            return np.ascontiguousarray(raw).view("<f4").reshape(-1, *self.shape)
        return self.values[raw].reshape(-1, *self.shape)


def _codes(scale: float, zero: int) -> np.ndarray:
    return ((SIGNED - zero) * np.float32(scale)).astype(np.float32)


BENCHMARKS = (
    Benchmark("kws01", "keyword spotting", (49, 10, 1), 12, _codes(0.5847029089927673, 83), TOP1, 0.90),
    Benchmark("ic01", "image classification", (32, 32, 3), 10, BYTE.astype(np.float32), TOP1, 0.85),
    Benchmark("ic02", "image classification 2", (32, 32, 3), 10, BYTE.astype(np.float32), TOP1, 0.91),
    Benchmark("vww01", "visual wake words", (96, 96, 3), 2, (BYTE / np.float32(255)).astype(np.float32), TOP1, 0.80),
    Benchmark("ad01", "anomaly detection", (640,), 640, None, AUC, 0.85),
    Benchmark("sww01", "streaming wake word", (ROWS, 1, BANDS), CLASSES, _codes(WAKE_SCALE, WAKE_ZERO), TOP1, None),
)


# strides of samples of 16 bits (tinyhil/frontend/tflite_sound.py)
HEARD = Benchmark("sww01", "streaming wake word", (2 * HOP,), CLASSES, None, TOP1, None, is_heard=True)

# files of mlcommons/tiny that have the sizes of another benchmark, whatever they are called
HASHES = {
    "dc27dcd823f5665533352f7da516b0c9bc6f089914b8283782e55961b3423fcf": "ic02",  # pretrainedResnet_large, int8
    "fb17ae9c1b6d0e5bd97f0f35024f207556261d7310b249716c87cc0628214b0e": "ic02",  # and float32
}


def benchmark_of(graph: Graph, path: Path) -> Benchmark:
    """The benchmark whose input and output sizes a model has, of several that of its file's name or content, else the
    first; ModelError if it is none of them."""
    given = prod(graph.shapes[graph.inputs[0]][1:]), prod(graph.shapes[graph.outputs[0]][1:])
    found = [benchmark for benchmark in BENCHMARKS if (benchmark.count, benchmark.outputs) == given]
    if not found:
        known = ", ".join(f"{b.id} {b.count} -> {b.outputs}" for b in BENCHMARKS)
        raise ModelError(
            f"{path.name}: {given[0]} inputs and {given[1]} outputs are no benchmark of MLPerf Tiny; known: {known}"
        )
    if len(found) == 1:
        return found[0]
    named = HASHES.get(sha256(path.read_bytes()).hexdigest() if path.is_file() else "", path.name.lower())
    return next((benchmark for benchmark in found if benchmark.id in named), found[0])


def graph_inputs(benchmark: Benchmark, graph: Graph, raw: np.ndarray) -> np.ndarray:
    """What a model takes (samples, ...) float32, from what the runner sends (samples, input_bytes) uint8."""
    x, shape, codes = benchmark.reals(raw), graph.shapes[graph.inputs[0]], codes_at(graph, "FromCodes")
    if len(shape) == 4 and shape[1:] != x.shape[1:] and shape[1] == benchmark.channels:
        x = x.transpose(0, 3, 1, 2)
    x = x.reshape(-1, *shape[1:])
    return (x if codes is None else codes.of(x)).astype(np.float32)


def real_outputs(outputs: np.ndarray, codes: Codes | None) -> np.ndarray:
    """Real results of a model's outputs (samples, count)."""
    return outputs if codes is None else (outputs - codes.zero) * np.float64(codes.scale)


def report_of(benchmark: Benchmark, outputs: np.ndarray, raw: np.ndarray) -> np.ndarray:
    """What the board reports (samples, numbers): probabilities, or the error of an autoencoder."""
    if benchmark.values is not None:
        return outputs
    difference = outputs - benchmark.reals(raw).reshape(len(raw), -1)
    return (difference**2).mean(axis=1, keepdims=True)
