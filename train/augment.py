"""Samples as other sensors and other persons would give them: each channel with a gain and an offset of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

PICTURE = 4  # dimensions of samples whose channels come first


def augmented(x: np.ndarray, shape: Sequence[int], share: float, seed: Sequence[int]) -> np.ndarray:
    """`x` (samples, ...) of the input `shape` (1, ...): each sample's channels times 1 + `share` * N(0, 1), moved by
    2 * `share` * N(0, 1) of the channel's standard deviation. Channels are the last axis, of pictures the first."""
    random = np.random.default_rng(seed)
    whole = x.reshape(len(x), *shape[1:])
    channel = 1 if len(shape) == PICTURE else len(shape) - 1
    others = tuple(axis for axis in range(whole.ndim) if axis != channel)
    drawn = [len(x), *(1 if axis + 1 != channel else size for axis, size in enumerate(shape[1:]))]
    gain, offset = random.standard_normal((2, *drawn), np.float32)
    spread = 2 * whole.std(others, keepdims=True)
    return (whole * (1 + share * gain) + share * offset * spread).astype(np.float32).reshape(x.shape)
