"""How low buffers of which every two meet can lie, one on the other: what alignments cost in the best order.

Padding depends on remainders alone. Modulo g, any divisor of the alignments' common multiple, buffers of the same size
and alignment are of one class, and of all ways to lay so many of each class lowest only the least padding counts: more
never helps what lies above. Small divisors tell less and have few classes. Each gives a bound, the common multiple the
least pile itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import gcd, lcm, prod

import numpy as np

from tinyhil.memplan.problem import Buffer

MOST_STATES = 1 << 18  # counts of classes: a tenth of a second
NEVER = 1 << 60  # bytes

Class = tuple[int, int, int]  # size modulo g, alignment, how many


def least_pile(buffers: Sequence[Buffer]) -> int:
    """Bytes that these take at least, whatever their order; all of them meet, and no two may share bytes."""
    pairs = sorted((buffer.size_bytes, buffer.alignment) for buffer in buffers if buffer.size_bytes)
    return sum(size for size, _ in pairs) + _most_padding(tuple(pairs))


def pile_of(buffers: Iterable[Buffer], bottom: int = 0) -> int:
    """The top of these buffers, one on the other."""
    for buffer in buffers:
        bottom = -(-bottom // buffer.alignment) * buffer.alignment + buffer.size_bytes
    return bottom


@lru_cache(1024)
def _most_padding(pairs: tuple[tuple[int, int], ...]) -> int:
    best = 0
    for modulus in _moduli([alignment for _, alignment in pairs]):
        counts = Counter((size % modulus, gcd(alignment, modulus)) for size, alignment in pairs)
        if prod(count + 1 for count in counts.values()) > MOST_STATES:
            break
        best = max(best, _least_padding([(*key, count) for key, count in sorted(counts.items())], modulus))
    return best


def _moduli(alignments: Sequence[int]) -> Iterator[int]:
    """Divisors of the common multiple, each of the one after it, up to the common multiple itself."""
    modulus, common = 1, lcm(*alignments)
    while modulus < common:
        modulus *= next(factor for factor in range(2, common + 1) if common // modulus % factor == 0)
        yield modulus


def _least_padding(classes: Sequence[Class], modulus: int) -> int:
    """Below all of them: by counts of classes, those of fewer buffers first."""
    ends, sums = np.zeros(1, np.int64), np.zeros(1, np.int64)  # of each state: where sizes end, how many buffers
    for remainder, _, count in classes:
        each = np.arange(count + 1)
        ends = (ends[:, None] + remainder * each).ravel() % modulus
        sums = (sums[:, None] + each).ravel()
    order = np.argsort(sums, kind="stable")
    layers = np.split(order, np.cumsum(np.bincount(sums))[:-1])
    padding = np.full(len(ends), NEVER, np.int64)
    padding[0] = 0
    for layer in layers[:-1]:
        stride = len(ends)
        for _, alignment, count in classes:
            stride //= count + 1
            below = layer[layer // stride % (count + 1) < count]
            more = -(ends[below] + padding[below]) % alignment
            padding[below + stride] = np.minimum(padding[below + stride], padding[below] + more)
    return int(padding[-1])
