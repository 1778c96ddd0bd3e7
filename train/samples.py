"""Which samples training sees, and which say how good it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinyhil.errors import DataError

HELD_BACK = 5  # every so many samples of a class choose the best epoch, the others are trained on
MOST_CALIBRATED = 1000


@dataclass(frozen=True, slots=True)
class Samples:
    """`x` (samples, ...) float32 with labels, of samples or (samples, steps) of every step; those held back from
    training choose the best epoch."""

    x: np.ndarray
    y: np.ndarray
    x_chosen_by: np.ndarray
    y_chosen_by: np.ndarray

    @property
    def calibration(self) -> np.ndarray:
        """Samples to see ranges on, evenly spread over those trained on."""
        return self.x[:: max(1, len(self.x) // MOST_CALIBRATED)]


def divide(x: np.ndarray, y: np.ndarray | None, seed: int) -> Samples:
    """Hold back a fifth of each class, drawn by `seed`, or of all if every step has a label; DataError where that
    leaves nothing to learn or to judge."""
    if y is None:
        raise DataError("training: the samples have no labels; give y beside x")
    random = np.random.default_rng(seed)
    back = np.zeros(len(x), bool)
    kinds = y if y.ndim == 1 else np.zeros(len(y), np.int64)
    for label in np.unique(kinds):
        members = random.permutation(np.flatnonzero(kinds == label))
        back[members[: len(members) // HELD_BACK]] = True
    if not back.any():
        raise DataError(f"training: {len(x)} samples; {HELD_BACK} of a class are needed, to hold one back")
    return Samples(x[~back], y[~back], x[back], y[back])
