"""How fast a training goes where nobody says it: batches and rates that follow the samples."""

from __future__ import annotations

import math

STEPS, BATCHES, LARGEST_RATE = 50, (32, 256), 1e-2  # of an epoch, at most and at least, of the largest batch


def batch_for(samples: int) -> int:
    """What makes STEPS of an epoch, within BATCHES."""
    return min(max(samples // STEPS, BATCHES[0]), BATCHES[1])


def rate_for(batch: int) -> float:
    """LARGEST_RATE for the largest batch, less by the root of its size for smaller ones."""
    return LARGEST_RATE * math.sqrt(batch / BATCHES[1])
