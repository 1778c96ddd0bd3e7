"""Where a value's range is cut before a format is fitted to it: by the values calibration saw, for each format.

`minmax` keeps all of it. `percentile` leaves out one value in a thousand. `mse` and `kl` try ever smaller ranges and
keep the one whose quantized values have the least squared error, or the distribution of the least Kullback-Leibler
divergence from the observed one (Migacz, "8-bit inference with TensorRT", 2017), in the very format.

`paper-literal` is a formula of FP8 lowering through MLIR as it is printed, to show what it does: the 99.99th percentile
is divided by Qmax - Qmin, twice what a symmetric format has, so that half of the range is cut off.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tinyhil.errors import ConfigError
from tinyhil.formats.codec import dequantize, quantize
from tinyhil.formats.format import Format

CUTS = ("minmax", "percentile", "kl", "mse")
METHODS = (*CUTS, "paper-literal")
LEFT_OUT = 0.001  # of the values, by `percentile`
LEFT_OUT_AS_PRINTED = 0.0001  # by `paper-literal`
SHARES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.12, 0.06)
BINS = 512
SKETCH_VALUES = 4096  # values of a tensor
Ends = tuple[float, float]
Fit = Callable[[float, float], Format]


def require_method(by: str) -> None:
    """ConfigError for one that does not exist."""
    if by not in METHODS:
        raise ConfigError(f"calibrate: no method {by!r}; there are {', '.join(METHODS)}")


def sketch(values: np.ndarray, count: int = SKETCH_VALUES) -> np.ndarray:
    """At most `count` of the values, sorted, evenly spread over their order: the ends are always there."""
    ordered = np.sort(values, axis=None).astype(np.float64)
    if ordered.size <= count:
        return ordered
    return np.asarray(ordered[np.linspace(0, ordered.size - 1, count).round().astype(np.int64)])


def clipped(values: np.ndarray, ends: Ends, method: str, fit: Fit) -> Ends:
    """The range within `ends` that `method` keeps of a tensor of which `values` were seen; `fit` makes its format."""
    if method == "minmax" or ends[0] == ends[1]:
        return ends
    if method == "percentile":
        return _percentile(values, ends, LEFT_OUT)
    if method == "paper-literal":
        low, high = _percentile(values, ends, LEFT_OUT_AS_PRINTED)
        return low / 2, high / 2
    error = _squared_error if method == "mse" else _divergence
    best, found = ends, float("inf")
    tried: set[Format] = set()
    for share in SHARES:
        cut = ends[0] * share, ends[1] * share
        fmt = fit(*cut)
        if fmt in tried:
            continue
        tried.add(fmt)
        value = error(values, fmt, ends)
        if value < found:
            best, found = cut, value
    return best


def _percentile(values: np.ndarray, ends: Ends, left_out: float) -> Ends:
    low, high = np.quantile(values, (left_out / 2, 1 - left_out / 2))
    return max(ends[0], float(low)), min(ends[1], float(high))


def _squared_error(values: np.ndarray, fmt: Format, _: Ends) -> float:
    return float(((dequantize(quantize(values, fmt)[0], fmt) - values) ** 2).mean())


def _divergence(values: np.ndarray, fmt: Format, ends: Ends) -> float:
    """Of the quantized values from the observed ones, over bins: each code's values are spread over the bins that it
    stands for, as far as any value was there. What is cut off is seen at the last bin, where no code expects it. Zeros,
    half of what a Relu gives, are exact in every format: spread over the bins of their code they would make ever finer
    steps look better, whatever these cut off."""
    values = values[values != 0.0]
    edges = np.linspace(*ends, BINS + 1)
    centres = (edges[1:] + edges[:-1]) / 2
    codes, outside = quantize(centres, fmt)
    inside = np.flatnonzero(~outside)
    if inside.size == 0:
        return float("inf")
    counts = np.histogram(values, edges)[0].astype(np.float64)
    expected = counts.copy()
    expected[inside[0]] += counts[: inside[0]].sum()
    expected[inside[-1]] += counts[inside[-1] + 1 :].sum()
    expected, counts_inside, codes = expected[inside], counts[inside], codes[inside]
    _, place = np.unique(codes, return_inverse=True)
    there = expected > 0
    sums, bins = np.bincount(place, counts_inside), np.bincount(place, there)
    spread = np.where(there, (sums / np.maximum(bins, 1))[place], 0.0)
    if spread.sum() == 0.0:
        return float("inf")
    p, q = expected / expected.sum(), np.maximum(spread / spread.sum(), 1e-9)
    return float((p[there] * np.log(p[there] / q[there])).sum())
