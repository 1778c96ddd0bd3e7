"""Codebooks: a constant's codes are indices of a few fixed-point entries; arithmetic sees the entries, integers.

Every value goes to its nearest entry, to the lower index if two are equally near; nothing saturates. NaN is refused
where constants are read. Indices of 1, 2, 4 or 8 bits are packed, the first in the lowest bits of the first byte.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from tinyhil.formats.fixed import exponent_for
from tinyhil.formats.format import INTEGER, Domain, Format, NamedFormat

TITLE = "Codebooks for weights"  # of the family, in docs/formats.md
INDEX_BITS = (1, 2, 4, 8)
# Quantiles of the normal distribution, 8 below and 7 above zero, scaled to 1 (NormalFloat-4, Dettmers et al. 2023)
NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634),
    *(0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
TERNARY_THRESHOLD = 0.7  # of the mean magnitude (Li et al. 2016)
MAX_ITERATIONS = 200


@dataclass(frozen=True, slots=True)
class Codebook(Format):
    """real = entries[code] * 2**exponent; entries are integers of `entry_bits`, ascending. `name`: of its fit."""

    entries: tuple[int, ...]
    entry_bits: int
    exponent: int = 0
    name: str = field(default="codebook", compare=False)

    def __post_init__(self) -> None:
        limit = 1 << (self.entry_bits - 1)
        if self.entry_bits not in (8, 16) or not 1 <= len(self.entries) <= 256:
            raise ValueError(f"codebook of {len(self.entries)} entries of {self.entry_bits} bits: limits: 256, 8 or 16")
        if list(self.entries) != sorted(self.entries) or not -limit <= self.entries[0] <= self.entries[-1] < limit:
            raise ValueError(f"codebook entries must ascend within {self.entry_bits} bits")

    @property
    def bits(self) -> int:
        """Bits of an index."""
        return next(bits for bits in INDEX_BITS if len(self.entries) <= 1 << bits)

    @property
    def domain(self) -> Domain:
        return INTEGER

    @property
    def highest(self) -> int:
        return len(self.entries) - 1

    @property
    def entries_in_flash(self) -> tuple[str, tuple[int, ...]]:
        return f"int{self.entry_bits}_t", self.entries

    def flash_operand(self, name: str) -> str:
        return f"hil::codebook<{self.bits}>({name}, {name}_entries)"

    @property
    def c_type(self) -> str:
        """The accessor: made of the packed indices and the entries."""
        return f"hil::Codebook<{self.bits}, int{self.entry_bits}_t>"

    @property
    def largest(self) -> float:
        return float(max(abs(self.entries[0]), abs(self.entries[-1])))

    @property
    def smallest(self) -> float:
        return float(min((entry for entry in self.entries if entry > 0), default=1))

    @property
    def granule(self) -> int:
        return 0

    def decode(self, codes: np.ndarray) -> np.ndarray:
        return np.array(self.entries, np.float64)[np.asarray(codes, np.int64)]

    def encode(self, values: np.ndarray, residue: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        entries = np.array(self.entries, np.float64)
        middles = (entries[:-1] + entries[1:]) / 2  # exact
        values = np.asarray(values, np.float64)
        codes = np.searchsorted(middles, values, side="left")  # a tie goes down ...
        if residue is not None:  # ... unless more follows beyond the float64
            tied = np.isin(values, middles) & (residue > 0)
            codes = np.where(tied, np.searchsorted(middles, values, side="right"), codes)
        return codes.astype(np.int64), np.zeros(values.shape, bool)

    def coarser(self, exponent: int) -> Codebook:
        """The same values in units of 2**exponent, rounded; as many entries, some of them equal."""
        units = np.floor(np.ldexp(np.array(self.entries, np.float64), self.exponent - exponent) + 0.5)
        return Codebook(tuple(int(entry) for entry in units), self.entry_bits, exponent, self.name)

    def fitted(self, magnitude: float) -> Codebook:
        """The same entries in proportion."""
        largest = self.largest * 2.0**self.exponent
        reals = np.ldexp(np.array(self.entries), self.exponent) * (magnitude / largest)
        return with_entries(reals, self.entry_bits, self.name)

    def __str__(self) -> str:
        return f"{self.name} of {len(self.entries)} * 2^{self.exponent}"


def pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes of 1 to 8 bits (negative ones in two's complement) as bytes, the first in the lowest bits.

    Where codes straddle bytes one more byte follows, since they are read two bytes at a time.
    """
    flat = np.asarray(codes, np.int64).ravel() & ((1 << bits) - 1)
    stream = (flat[:, None] >> np.arange(bits)) & 1
    packed = np.packbits(stream.astype(np.uint8).ravel(), bitorder="little")
    return packed if 8 % bits == 0 else np.append(packed, np.uint8(0))


def with_entries(reals: np.ndarray, entry_bits: int, name: str) -> Codebook:
    """The codebook called `name` whose entries are nearest to `reals`."""
    exponent = exponent_for(float(np.abs(reals).max(initial=0.0)), entry_bits)
    limit = (1 << (entry_bits - 1)) - 1
    whole = np.clip(np.floor(np.ldexp(reals, -exponent) + 0.5), -limit - 1, limit).astype(np.int64)
    return Codebook(tuple(int(entry) for entry in np.unique(whole)), entry_bits, exponent, name)


def kmeans(values: np.ndarray, clusters: int, entry_bits: int = 16) -> Codebook:
    """Lloyd's algorithm on one axis, from evenly spaced quantiles: deterministic. What is clustered already stays."""
    name = f"kmeans{clusters}"
    ordered = np.sort(values.ravel().astype(np.float64))
    distinct = np.unique(ordered)
    if len(distinct) <= clusters:
        return with_entries(distinct, entry_bits, name)
    centres = np.unique(np.quantile(ordered, (np.arange(clusters) + 0.5) / clusters))
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    for _ in range(MAX_ITERATIONS):
        edges = np.searchsorted(ordered, (centres[:-1] + centres[1:]) / 2, side="right")
        edges = np.concatenate([[0], edges, [len(ordered)]])
        counts = np.diff(edges)
        moved = np.where(counts > 0, np.diff(sums[edges]) / np.maximum(counts, 1), centres)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return with_entries(centres, entry_bits, name)


def nf4(values: np.ndarray, entry_bits: int = 16) -> Codebook:
    """NormalFloat-4 between minus and plus the largest magnitude."""
    return with_entries(np.array(NF4) * float(np.abs(values).max(initial=0.0)), entry_bits, "nf4")


def binary(values: np.ndarray, entry_bits: int = 8) -> Codebook:
    """-s and s, s the mean magnitude: the least squared error. In 8 bits, as sums of few bits are the point."""
    scale = float(np.abs(values).mean()) if values.size else 0.0
    above = with_entries(np.array([scale]), entry_bits, "binary")  # a tie would round the two to different sizes
    largest = max(above.entries)
    return Codebook((-largest, largest) if largest else (0,), entry_bits, above.exponent, above.name)


def ternary(values: np.ndarray, entry_bits: int = 16) -> Codebook:
    """-s, 0 and s, s the mean of the magnitudes above 0.7 of the mean magnitude."""
    size = np.abs(values).astype(np.float64).ravel()
    above = size[size > TERNARY_THRESHOLD * size.mean()] if size.size else size
    scale = float(above.mean()) if above.size else 0.0
    return with_entries(np.array([-scale, 0.0, scale]), entry_bits, "ternary")


def _evenly(magnitude: float, bits: int, name: str) -> Codebook:
    """What stands for a codebook where only a magnitude is known: evenly spaced entries."""
    return with_entries(np.linspace(-magnitude, magnitude, 1 << bits), 16, name)


# How each codebook is fitted to the values of a constant; run-time values beside it are fixed16
FITS: tuple[tuple[str, int, str, Callable[[np.ndarray], Codebook]], ...] = (
    *(
        (f"kmeans{count}", bits, f"{count} clusters of the weights", partial(kmeans, clusters=count))
        for count, bits in ((4, 2), (16, 4), (256, 8))
    ),
    ("nf4", 4, "NormalFloat-4: 16 quantiles of the normal distribution", nf4),
    ("binary", 1, "-s and s", binary),
    ("ternary", 2, "-s, 0 and s", ternary),
)
NAMED = tuple(
    NamedFormat(name, bits, f"codebook for weights: {what}", partial(_evenly, bits=bits, name=name), "fixed16", fit)
    for name, bits, what, fit in FITS
)
