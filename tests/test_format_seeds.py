"""The worked numbers of the formats' own papers and specifications."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tinyhil.formats import fixed
from tinyhil.formats.codec import dequantize, quantize
from tinyhil.formats.minifloat import E2M1, E2M1_BIAS_0, E4M3, E5M2, Minifloat
from tinyhil.formats.posit import Posit
from tinyhil.formats.rounding import quantize_stochastic


def value(fmt: Minifloat | Posit, code: int) -> float:
    return float(fmt.decode(np.array([code]))[0])


def test_the_golden_ratio_at_16_bits() -> None:
    """1.6181 is 26510 with scale 14."""
    fmt = fixed.fit(1.6181, 16)
    assert fmt.exponent == -14
    assert math.floor(1.6181 * 2**14) == 26510  # Shiftry truncates; to nearest it is one more
    assert quantize(np.array([1.6181]), fmt)[0][0] == round(1.6181 * 2**14)
    assert abs(dequantize(np.array([26510]), fmt)[0] - 1.6181) < 2.0**-14


@pytest.mark.parametrize(
    ("es", "want"),
    [(0, 2.0**1 * (1 + 13 / 16)), (1, 4.0**1 * 2.0**1 * (1 + 5 / 8)), (2, 16.0**1 * 2.0**3 * (1 + 1 / 4)),
     (3, 256.0**1 * 2.0**6 * (1 + 1 / 2))],
)  # fmt: skip
def test_the_posit_01101101(es: int, want: float) -> None:
    """Sign 0, regime 110 (k = 1), then es exponent bits of 1101, then the fraction."""
    assert value(Posit(8, es), 0b01101101) == want
    assert Posit(8, es).encode(np.array([want]))[0][0] == 0b01101101
    assert value(Posit(8, es), 0b10010011) == -want


@pytest.mark.parametrize(
    ("fmt", "largest", "smallest_normal", "largest_subnormal", "smallest_subnormal", "nans", "infinities"),
    [
        (E4M3, (0x7E, 448.0), (0x08, 2.0**-6), (0x07, 0.875 * 2.0**-6), (0x01, 2.0**-9), {0x7F, 0xFF}, set()),
        (E5M2, (0x7B, 57344.0), (0x04, 2.0**-14), (0x03, 0.75 * 2.0**-14), (0x01, 2.0**-16),
         {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF}, {0x7C, 0xFC}),
    ],
    ids=["E4M3", "E5M2"],
)  # fmt: skip
def test_the_tables_of_fp8(
    fmt: Minifloat,
    largest: tuple[int, float],
    smallest_normal: tuple[int, float],
    largest_subnormal: tuple[int, float],
    smallest_subnormal: tuple[int, float],
    nans: set[int],
    infinities: set[int],
) -> None:
    for code, want in (largest, smallest_normal, largest_subnormal, smallest_subnormal):
        assert value(fmt, code) == want
        assert value(fmt, code | 0x80) == -want
        assert fmt.encode(np.array([want, -want]))[0].tolist() == [code, code | 0x80]
    assert (fmt.largest, fmt.smallest) == (largest[1], smallest_subnormal[1])
    every = fmt.decode(np.arange(256))
    assert set(np.flatnonzero(np.isnan(every)).tolist()) == nans
    assert set(np.flatnonzero(np.isinf(every)).tolist()) == infinities


def test_fp4() -> None:
    """In the variant with bias 0: 4 = 2^2 and -1 * 2^2 * 1.5 = -6; OCP's E2M1 gives half of it."""
    assert value(E2M1_BIAS_0, 0b0100) == 4.0
    assert value(E2M1_BIAS_0, 0b1101) == -6.0
    assert value(E2M1, 0b1101) == -3.0
    assert E2M1.decode(np.arange(8)).tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def uniform(x: np.ndarray, bits: int) -> np.ndarray:
    """clip(round(2^(Q-1) x) / 2^(Q-1), -1, 1 - 2^-(Q-1)), by our own format: exponent 1 - Q."""
    fmt = fixed.Fixed(bits, 1 - bits)
    return dequantize(quantize(x, fmt)[0], fmt)


@pytest.mark.parametrize("bits", [2, 4, 8, 16])
def test_uniform_against_layer_wise_scaling(bits: int) -> None:
    x = np.random.default_rng(bits).uniform(-1.5, 1.5, 4000)
    steps = 2.0 ** (bits - 1)
    assert np.array_equal(uniform(x, bits), np.clip(np.floor(x * steps + 0.5) / steps, -1, 1 - 1 / steps))
    # a layer scaled by its own maximum keeps weights that the uniform grid loses
    layer = x * 2.0**-6
    scaled = fixed.fit(float(np.abs(layer).max()), bits)
    by_layer = np.abs(dequantize(quantize(layer, scaled)[0], scaled) - layer).mean()
    assert by_layer < np.abs(uniform(layer, bits) - layer).mean() / 2
    assert np.abs(by_layer) < 2.0**scaled.exponent


def test_integer_and_fraction_lengths() -> None:
    """<IL, FL> = IL bits before the point, sign included, FL behind it: nearest, and saturation at its ends."""
    for integer_bits, fraction_bits in ((1, 7), (4, 4), (2, 14), (8, 8)):
        fmt = fixed.Fixed(integer_bits + fraction_bits, -fraction_bits)
        step, limit = 2.0**-fraction_bits, 2.0 ** (integer_bits - 1)
        x = np.array([0.3, -0.3, limit, limit * 4, -limit, -limit * 4, limit - step])
        codes, saturated = quantize(x, fmt)
        got = dequantize(codes, fmt)
        assert np.abs(got[:2] - x[:2]).max() <= step / 2
        assert got[2:].tolist() == [limit - step, limit - step, -limit, -limit, limit - step]
        assert saturated.tolist() == [False, False, True, True, False, True, False]


@pytest.mark.parametrize("fmt", [fixed.Fixed(8, -4), fixed.Fixed(16, -8), fixed.Fixed(4, 0)], ids=str)
def test_stochastic_rounding_is_unbiased(fmt: fixed.Fixed) -> None:
    """The mean of many roundings is the value itself; nearest rounding keeps its bias. Ends saturate."""
    rng, count, step = np.random.default_rng(1), 40_000, 2.0**fmt.exponent
    for fraction in (0.0, 0.1, 0.25, 0.5, 0.9):
        x = np.full(count, (2 + fraction) * step)
        codes, saturated = quantize_stochastic(x, fmt, rng)
        got = dequantize(codes, fmt)
        assert set(codes.tolist()) <= {2, 3}
        assert not saturated.any()
        spread = math.sqrt(fraction * (1 - fraction) / count) * step
        assert abs(got.mean() - x[0]) <= 5 * spread
        assert abs(dequantize(quantize(x, fmt)[0], fmt).mean() - x[0]) == pytest.approx(
            min(fraction, 1 - fraction) * step, abs=1e-9
        )
    codes, saturated = quantize_stochastic(np.array([1e6, -1e6]), fmt, rng)
    assert codes.tolist() == [fmt.highest, fmt.lowest]
    assert saturated.all()
