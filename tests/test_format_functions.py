"""Functions in single precision: their worst errors, as docs/numerics.md states them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tinyhil.formats import single_functions
from tinyhil.formats.format import Format
from tinyhil.formats.minifloat import E2M1, E3M0, E4M3, E5M2
from tinyhil.formats.posit import Posit
from tinyhil.formats.single import BFLOAT16, FLOAT16

EXACT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "log": np.log,
    "reciprocal": lambda x: 1 / x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf),
}
# in units of the last place of float32
WORST = {"exp": 1, "log": 0.8, "reciprocal": 0.5, "sqrt": 0.5, "rsqrt": 1.5, "sigmoid": 2.3, "tanh": 1.5, "erf": 2.6}
FORMATS = (Posit(8, 0), Posit(8, 2), Posit(16, 1), Posit(16, 2), E4M3, E5M2, E2M1, E3M0, BFLOAT16, FLOAT16)


def test_every_function_has_a_reference() -> None:
    assert set(EXACT) == set(single_functions.FUNCTIONS) == set(WORST)


@pytest.mark.parametrize("name", EXACT)
def test_worst_errors_in_single_precision(name: str) -> None:
    rng = np.random.default_rng(0)
    every = np.arange(0, 1 << 32, 20_011, dtype=np.int64).astype(np.uint32).view(np.float32)
    ordinary = (rng.normal(size=200_000) * 3).astype(np.float32)
    x = np.concatenate([every, ordinary, np.linspace(-110, 90, 200_000, dtype=np.float32)])
    x = x[np.isfinite(x)]
    with np.errstate(all="ignore"):
        got, want = single_functions.FUNCTIONS[name](x), EXACT[name](x.astype(np.float64))
        rounded = want.astype(np.float32)
        known = np.isfinite(want) & np.isfinite(rounded)
        unit = np.maximum(np.spacing(np.abs(rounded[known])).astype(np.float64), 2.0**-149)
    error = np.abs(got[known].astype(np.float64) - want[known]) / unit
    assert error.max() <= WORST[name]
    assert error.max() > 0.4  # it measures something
    assert np.array_equal(np.isnan(got), np.isnan(rounded))
    assert got.dtype == np.float32


def ordered(codes: np.ndarray, fmt: Format) -> np.ndarray:
    """Codes as integers that grow with the value."""
    sign = 1 << (fmt.bits - 1)
    if isinstance(fmt, Posit):
        return np.where(codes >= sign, codes - 2 * sign, codes)
    return np.where(codes & sign, -(codes & (sign - 1)), codes)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_every_code_of_8_and_16_bits(fmt: Format, name: str) -> None:
    """Decoded, computed in single precision, rounded once more: at most one code from the correctly rounded result."""
    values = fmt.decode(np.arange(1 << fmt.bits))
    values = values[np.isfinite(values)]
    with np.errstate(all="ignore"):
        got = single_functions.FUNCTIONS[name](values.astype(np.float32)).astype(np.float64)
        want = EXACT[name](values)
    known = np.isfinite(want)
    made, saturated = fmt.encode(got[known])
    best, _ = fmt.encode(want[known])
    distance = np.abs(ordered(made, fmt) - ordered(best, fmt))
    vanished = (got[known] == 0) & (want[known] != 0)  # below float32: 0, where a posit would never vanish
    assert distance.max() <= 1
    if fmt.bits <= 8:
        assert distance[~vanished].max() == 0  # 8-bit results are correctly rounded
    else:
        assert (distance[~vanished] > 0).sum() <= 60
    assert saturated.sum() <= (np.abs(want[known]) >= fmt.largest).sum()
