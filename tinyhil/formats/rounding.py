"""Pieces that the encoders of coded formats share."""

from __future__ import annotations

import numpy as np

from tinyhil.formats.format import Format


def round_up(rest: np.ndarray, half: np.ndarray | float, odd: np.ndarray, residue: np.ndarray) -> np.ndarray:
    """Whether to go to the next code: to nearest, ties to the even code. `rest` is what truncation leaves out,
    `residue` has the sign of what even `rest` leaves out (magnitudes: both positive for a larger magnitude)."""
    up: np.ndarray = (rest > half) | ((rest == half) & ((residue > 0) | ((residue == 0) & odd)))
    return up


def magnitudes(values: np.ndarray, residue: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """|values| as float64, and the residue's sign as seen from there."""
    values = np.asarray(values, np.float64)
    rest = np.zeros(values.shape) if residue is None else np.sign(residue) * np.where(values < 0, -1.0, 1.0)
    return np.abs(values), rest


def quantize_stochastic(real: np.ndarray, fmt: Format, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Integers of a fixed-point format: down or up with the probability that makes the mean the value itself.

    For training and for constants only: the boards round to nearest. Saturates like `quantize`.
    """
    scaled = np.ldexp(np.asarray(real, np.float64), -fmt.exponent)
    chosen = np.floor(scaled + rng.random(scaled.shape))
    return fmt.encode(chosen)[0], fmt.encode(scaled)[1]
