"""Verdicts with an interval: what 95 % intervals of a difference say of a claim with a margin.

*Confirmed* and *refuted* are said where the whole interval lies on one side of the margin, where a sign test at 5 %
tells who wins more often, or of exact figures; else a claim is *not shown*.
Shares of the same samples of which no pairs are recorded are taken as independent, which makes intervals wider.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from benchmarks.papers.paper import Outcome

Z = 1.959964  # of the normal distribution, 95 %
LEVEL = 0.05
OUTCOMES: tuple[Outcome, ...] = ("refuted", "not shown", "confirmed")  # the first of several is that of all


@dataclass(frozen=True, slots=True)
class Interval:
    """A difference in points (or a share in per cent): its estimate and the ends of its 95 % interval."""

    found: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.found:+.1f} ({self.low:+.1f} to {self.high:+.1f})"

    def __neg__(self) -> Interval:
        return Interval(-self.found, -self.high, -self.low)

    def times(self, factor: float) -> Interval:
        """In other units; `factor` is above 0."""
        return Interval(factor * self.found, factor * self.low, factor * self.high)


def wilson(count: int, of: int) -> Interval:
    """A share in per cent (Wilson, 1927)."""
    share = count / of
    middle, half = share + Z * Z / (2 * of), Z * math.sqrt(share * (1 - share) / of + Z * Z / (4 * of * of))
    scale = 100 / (1 + Z * Z / of)
    return Interval(100 * share, scale * (middle - half), scale * (middle + half))


def difference(a: float, b: float, of: int) -> Interval:
    """Points that share `a` lies above share `b`, `of` samples each (Newcombe, 1998, method 10)."""
    first, second = wilson(round(a * of), of), wilson(round(b * of), of)
    found = 100 * (a - b)
    below = math.hypot(first.found - first.low, second.high - second.found)
    above = math.hypot(first.high - first.found, second.found - second.low)
    return Interval(found, found - below, found + above)


def paired(points: float, differ: float, of: int) -> Interval:
    """`points` of a difference on the same `of` samples, of which at most `differ` are decided otherwise
    (McNemar's variance, as Agresti and Min, 2005, correct it). Where one side is a mean of several answers, `differ` is
    the sum of the samples' squared differences."""
    net, size = points / 100 * of, of + 2
    half = Z * math.sqrt(max(differ + 1 - net * net / size, 0.0)) / size
    return Interval(points, 100 * (net / size - half), 100 * (net / size + half))


def pooled(parts: Sequence[Interval]) -> Interval:
    """The mean of independent differences."""
    count = len(parts)
    return Interval(
        sum(part.found for part in parts) / count,
        (sum(part.found for part in parts) - math.hypot(*(part.found - part.low for part in parts))) / count,
        (sum(part.found for part in parts) + math.hypot(*(part.high - part.found for part in parts))) / count,
    )


def combined(first: Interval, second: Interval) -> Interval:
    """One difference with two independent reasons to spread."""
    below = math.hypot(first.found - first.low, second.found - second.low)
    return Interval(
        first.found, first.found - below, first.found + math.hypot(first.high - first.found, second.high - second.found)
    )


def over_seeds(first: Sequence[float], second: Sequence[float]) -> Interval:
    """How far the mean of `first` lies above that of `second` (Welch's t); no end where a side has one seed."""
    if min(len(first), len(second)) < 2:
        return Interval(mean(first) - mean(second), -math.inf, math.inf)
    return of_means(*((mean(values), stdev(values), len(values)) for values in (first, second)))


def of_means(first: tuple[float, float, int], second: tuple[float, float, int]) -> Interval:
    """The same of means, standard deviations and counts of two or more."""
    from scipy.stats import t

    found, sides = first[0] - second[0], (first, second)
    parts = [deviation**2 / count for _, deviation, count in sides]
    if sum(parts) == 0.0:
        return Interval(found, found, found)
    freedom = sum(parts) ** 2 / sum(p * p / (count - 1) for p, (_, _, count) in zip(parts, sides, strict=True))
    half = float(t.ppf(1 - LEVEL / 2, freedom)) * math.sqrt(sum(parts))
    return Interval(found, found - half, found + half)


def above(found: Interval, margin: float = 0.0) -> Outcome:
    """Of the claim that a difference is more than `margin`."""
    return "confirmed" if found.low > margin else "refuted" if found.high < margin else "not shown"


def all_above(found: Iterable[Interval], margin: float = 0.0) -> Outcome:
    """Of the claim that every one of them is: one that is not refutes it."""
    return worst(above(one, margin) for one in found)


def worst(found: Iterable[Outcome]) -> Outcome:
    """Of a claim that has several parts."""
    outcomes = set(found)
    return next(outcome for outcome in OUTCOMES if outcome in outcomes)


def more_often(wins: int, losses: int) -> Outcome:
    """Of the claim that one side wins more often: the two-sided sign test; ties count for nobody."""
    from scipy.stats import binomtest

    if wins == losses or binomtest(wins, wins + losses).pvalue > LEVEL:
        return "not shown"
    return "confirmed" if wins > losses else "refuted"
