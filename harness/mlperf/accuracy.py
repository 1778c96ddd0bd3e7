"""Accuracy mode: what the board reports for each input beside the reference, and the division's metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tinyhil.harness.mlperf.benchmarks import AUC, Benchmark
from tinyhil.harness.mlperf.runner_protocol import Device

INFER_S = 600.0
RESOLUTION = 0.0011  # of a number with three decimals, rounded twice


@dataclass(frozen=True, slots=True)
class Accuracy:
    """`samples` were sent to the board and `equal` reported what the reference does; `value` of the metric over all
    `of` samples at hand, by the reference; None where the data cannot say. `equal` None: there is no reference, and
    `value` is the board's own."""

    metric: str
    value: float | None
    of: int
    samples: int
    equal: int | None
    target: float | None

    @property
    def reached(self) -> bool | None:
        """Whether the target is; None without labels or target."""
        return None if self.value is None or self.target is None else self.value >= self.target


def score(benchmark: Benchmark, reported: np.ndarray, y: np.ndarray) -> float | None:
    """Share of right labels, or the area under the ROC curve of the errors of one clip's windows."""
    if benchmark.metric == AUC:
        return area_under_curve(reported[:, 0], y)
    return float((reported.argmax(axis=1) == y).mean())


def area_under_curve(values: np.ndarray, y: np.ndarray) -> float | None:
    """The chance that an anomaly has a larger value than what is normal, ties by half (Mann-Whitney), or None."""
    bad, good = values[y == 1], values[y == 0]
    if not len(bad) or not len(good):
        return None
    above = (bad[:, None] > good[None, :]).mean() + 0.5 * (bad[:, None] == good[None, :]).mean()
    return float(above)


def agrees(board: tuple[float, ...], reference: np.ndarray) -> bool:
    """Whether three decimals of each number are those of the reference (relative for large errors: float32 sums)."""
    given = np.array(board)
    return given.shape == reference.shape and bool(
        (np.abs(given - reference) <= np.maximum(RESOLUTION, 1e-5 * np.abs(reference))).all()
    )


def on_board(device: Device, raw: np.ndarray, progress: Callable[[int, int], None]) -> list[tuple[float, ...]]:
    """What the board reports for each input."""
    found = []
    for index, one in enumerate(raw):
        device.load(one.tobytes())
        found.append(device.infer(1, 0, INFER_S).results)
        progress(index + 1, len(raw))
    return found
