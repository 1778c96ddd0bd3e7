"""How a training goes where nobody says it: batches follow the samples, rates the batch and the width of weights.

Measured on `digits_cnn`, three seeds, rates of 0.003 to 0.1: at 2 and 3 bits the best is 0.03, from 4 bits on the
smallest; learned scales are better at all of 2 to 4 bits (docs/training.md, `rivals`).
"""

from __future__ import annotations

import math

from tinyhil.compiler.lower import is_matrix
from tinyhil.formats import named
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph

STEPS, BATCHES, LARGEST_RATE = 50, (32, 256), 1e-2  # of an epoch, at most and at least, of the largest batch
COARSE_BITS, COARSE = 3.5, 6.0  # below so many bits a step is much of a weight: so many times the rate
SCALED_BITS = 4.5  # below so many bits scales are learned
WIDE = 8.0


def batch_for(samples: int) -> int:
    """What makes STEPS of an epoch, within BATCHES."""
    return min(max(samples // STEPS, BATCHES[0]), BATCHES[1])


def rate_for(batch: int, bits: float = WIDE) -> float:
    """Of weights of so many `bits`: LARGEST_RATE for the largest batch, less by the root of its size for smaller ones;
    more for few bits."""
    return LARGEST_RATE * math.sqrt(batch / BATCHES[1]) * coarse(bits)


def coarse(bits: float) -> float:
    """How many times the rate of wide weights those of so many bits take."""
    return COARSE if bits < COARSE_BITS else 1.0


def weight_bits(graph: Graph, assignment: Assignment) -> float:
    """The mean width of matrices, by their elements; WIDE without any."""
    matrices = {name: array for name, array in graph.all_constants().items() if is_matrix(array)}
    elements = sum(array.size for array in matrices.values())
    bits = sum(array.size * named(assignment.format_of([name])).bits for name, array in matrices.items())
    return bits / elements if elements else WIDE
