"""Times of physical boards: medians over resets, their spread, and the gate that a slower program fails.

The variance within a run is the wrong error term (2.8 % within, 14.8 % between runs were seen on boards), so a boot is
the unit: at least three resets of 30 inferences each, the first one of each boot apart.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEAST_EFFECT = 0.01  # smaller changes are never failed for
SPREADS = 3.0  # times the MAD of the medians of earlier runs
HISTORY = 10  # earlier runs that count
RESAMPLES = 2000


def ticks_spread(ticks: Sequence[float] | np.ndarray, clock_hz: int | None) -> dict[str, float | None]:
    """Of the ticks (samples): the least, `median`, `p95`, the most, and `median_us` at `clock_hz` (None: unknown)."""
    median = float(np.median(ticks))
    return {
        "min": np.min(ticks).item(),
        "median": median,
        "p95": float(np.percentile(ticks, 95)),
        "max": np.max(ticks).item(),
        "median_us": median / clock_hz * 1e6 if clock_hz else None,
    }


@dataclass(frozen=True, slots=True)
class Times:
    """Median ticks of each boot of a run."""

    boot_medians: tuple[float, ...]

    @property
    def median(self) -> float:
        """Ticks: the median over boots of their medians."""
        return statistics.median(self.boot_medians)


@dataclass(frozen=True, slots=True)
class Summary:
    """Ticks of the inferences of one boot; `first` is the one apart (cold caches and flash buffers)."""

    first: int
    min: int
    median: float
    p95: float
    max: int

    @staticmethod
    def of(ticks: Sequence[int], warm_up: int) -> Summary:
        """The first `warm_up` inferences are left out of all but `first`.

        ValueError if nothing is left after warming up.
        """
        warm = sorted(ticks[warm_up:])
        if not warm:
            raise ValueError(f"{len(ticks)} inferences, {warm_up} of them to warm up: none is left")
        p95 = statistics.quantiles(warm, n=20, method="inclusive")[-1] if len(warm) > 1 else float(warm[0])
        return Summary(ticks[0], warm[0], statistics.median(warm), p95, warm[-1])


@dataclass(frozen=True, slots=True)
class Verdict:
    """`change` and `limit` are fractions of the median before; `interval` bounds the median now, over boots (95 %)."""

    change: float
    limit: float
    interval: tuple[float, float]
    text: str

    @property
    def fails(self) -> bool:
        """Slower than before by more than the limit."""
        return self.change > self.limit

    @property
    def notable(self) -> bool:
        """Slower or faster by more than the limit: a line is worth it."""
        return abs(self.change) > self.limit


def compare_times(before: Times, now: Times, history: Sequence[float] = ()) -> Verdict:
    """Slower by more than 1 % and by more than three times the spread of the medians of the last ten runs fails."""
    base = before.median or 1.0  # of nothing at all that was measured: any tick is a change
    change = (now.median - before.median) / base
    limit = max(LEAST_EFFECT, SPREADS * spread(history) / base)
    low, high = bootstrap(now.boot_medians)
    text = (
        f"median {before.median:,.0f} -> {now.median:,.0f} ({100 * change:+.2f} %, limit {100 * limit:.2f} %), "
        f"95 % of {low:,.0f} to {high:,.0f} over {len(now.boot_medians)} resets"
    )
    return Verdict(change, limit, (low, high), text)


def ticks_text(ticks: float) -> str:
    """A median of an even number of samples may lie between two."""
    return f"{ticks:,.0f}" if float(ticks).is_integer() else f"{ticks:,.1f}"


def spread(medians: Sequence[float]) -> float:
    """Median absolute deviation of the last ten; 0 for fewer than three."""
    recent = list(medians)[-HISTORY:]
    if len(recent) < 3:
        return 0.0
    middle = statistics.median(recent)
    return statistics.median(abs(value - middle) for value in recent)


def bootstrap(boot_medians: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the median over boots, by resampling boots; seeded, so that a record gives the same twice."""
    source = random.Random(0)
    count = len(boot_medians)
    medians = sorted(statistics.median(source.choices(boot_medians, k=count)) for _ in range(RESAMPLES))
    return medians[RESAMPLES // 40], medians[-1 - RESAMPLES // 40]
