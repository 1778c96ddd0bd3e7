"""Fixed point against exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tinyhil
from tinyhil.errors import ConfigError
from tinyhil.formats import FORMATS, named
from tinyhil.formats.codec import dequantize, quantize, requantize
from tinyhil.formats.fixed import Fixed, exponent_for
from tinyhil.formats.minifloat import Minifloat

WIDTHS = (8, 16)
float32s = st.floats(width=32, allow_nan=False, allow_infinity=False)
magnitudes = st.floats(min_value=2.0**-126, max_value=float(np.float32(3.4e38)), width=32)


def nearest(value: Fraction) -> int:
    """To nearest, ties towards plus infinity."""
    return math.floor(value + Fraction(1, 2))


def scaled(value: Fraction | int, exponent: int) -> Fraction:
    return Fraction(value) * Fraction(2) ** exponent


@pytest.mark.parametrize(
    ("magnitude", "bits", "exponent"),
    [
        # ceil(log2 |x|) - (bits - 1), one more at an exact power of two
        (1.6181, 16, -14),
        (1.0, 16, -14),
        (0.9999, 16, -15),
        (1.0001, 16, -14),
        (0.5, 16, -15),
        (2.0, 16, -13),
        (3.0, 16, -13),
        (4.0, 16, -12),
        (1.0, 8, -6),
        (0.75, 8, -7),
        (128.0, 8, 1),
        (127.0, 8, 0),
        (32768.0, 16, 1),
        (32767.0, 16, 0),
        (2.0**-30, 16, -44),
        (1e30, 16, 85),
        (0.0, 16, -15),
        (0.0, 8, -7),
    ],
)
def test_exponent(magnitude: float, bits: int, exponent: int) -> None:
    assert exponent_for(magnitude, bits) == exponent


@given(magnitudes, st.sampled_from(WIDTHS))
@example(1.0, 16)
@example(2.0**-126, 8)
def test_the_exponent_is_the_smallest_that_keeps_the_magnitude_in_range(magnitude: float, bits: int) -> None:
    exponent = exponent_for(magnitude, bits)
    assert Fraction(magnitude) < scaled(1, bits - 1 + exponent)
    assert Fraction(magnitude) >= scaled(1, bits - 2 + exponent)


@given(magnitudes, st.sampled_from(WIDTHS))
@example(0.25, 16)
def test_the_published_rule_gives_the_same_exponent(magnitude: float, bits: int) -> None:
    """ceil(log2 |x|) - (bits - 1), one more if |x| is an exact power of two; the logarithm taken exactly."""
    power = next(p for p in range(-130, 130) if scaled(1, p) >= Fraction(magnitude))
    power += scaled(1, power) == Fraction(magnitude)
    assert exponent_for(magnitude, bits) == power - (bits - 1)


def test_golden_ratio_of_the_published_example() -> None:
    fmt = Fixed(16, exponent_for(1.6181, 16))
    integers, clipped = quantize(np.array([1.6181], np.float32), fmt)
    # the example truncates to 26510; rounding to nearest gives 26511
    assert math.floor(scaled(Fraction(1.6181), 14)) == 26510
    assert integers.tolist() == [nearest(scaled(Fraction(float(np.float32(1.6181))), 14))]
    assert fmt.exponent == -14
    assert not clipped.any()


@given(st.lists(float32s, min_size=1, max_size=20), st.sampled_from(WIDTHS), st.integers(-40, 40))
@example([0.5, 1.5, -0.5, -1.5, 2.5, -2.5], 16, 0)
@example([127.5, 127.49, -128.5, -128.51, 128.0, -129.0], 8, 0)
@example([32767.5, -32768.5, -32769.0], 16, 0)
def test_quantize_is_exact_rounding(reals: list[float], bits: int, exponent: int) -> None:
    fmt = Fixed(bits, exponent)
    integers, clipped = quantize(np.array(reals, np.float32), fmt)
    assert integers.dtype == np.int64
    for real, integer, saturated in zip(reals, integers.tolist(), clipped.tolist(), strict=True):
        wanted = nearest(scaled(Fraction(real), -exponent))
        assert integer == min(max(wanted, fmt.lowest), fmt.highest)
        assert saturated == (integer != wanted)


@given(st.lists(float32s, min_size=1, max_size=20), st.sampled_from(WIDTHS))
def test_in_its_own_format_a_tensor_keeps_half_a_step(reals: list[float], bits: int) -> None:
    """Also where the largest value lies within half a step of the format's end and is clipped: one step at most."""
    array = np.array(reals, np.float32)
    fmt = Fixed(bits, exponent_for(float(np.abs(array).max()), bits))
    integers, clipped = quantize(array, fmt)
    errors = [
        abs(scaled(i, fmt.exponent) - Fraction(r)) for i, r in zip(integers.tolist(), array.tolist(), strict=True)
    ]
    for error, saturated in zip(errors, clipped.tolist(), strict=True):
        assert error <= scaled(1 if saturated else Fraction(1, 2), fmt.exponent)


@given(st.lists(st.integers(-32768, 32767), min_size=1), st.integers(-60, 60))
def test_dequantize_is_exact(integers: list[int], exponent: int) -> None:
    fmt = Fixed(16, exponent)
    reals = dequantize(np.array(integers), fmt)
    assert [Fraction(real) for real in reals.tolist()] == [scaled(i, exponent) for i in integers]
    again, clipped = quantize(reals, fmt)
    assert again.tolist() == integers
    assert not clipped.any()


@given(st.data(), st.sampled_from(WIDTHS), st.integers(-40, 62))
def test_requantize_is_exact_rounding(data: st.DataObject, bits: int, shift: int) -> None:
    room = (1 << 63) - 1 - (1 << (shift - 1)) if shift > 0 else ((1 << 63) - 1) >> -shift
    near_ties = st.integers(-40000, 40000).map(lambda n: (2 * n + 1 << shift - 1) if shift > 0 else n)
    values = st.one_of(st.integers(-room, room), near_ties.filter(lambda n: abs(n) <= room))
    accumulators = data.draw(st.lists(values, min_size=1, max_size=20))
    fmt = Fixed(bits, 0)
    integers, clipped = requantize(np.array(accumulators, np.int64), shift, fmt)
    for accumulator, integer, saturated in zip(accumulators, integers.tolist(), clipped.tolist(), strict=True):
        wanted = nearest(scaled(accumulator, -shift))
        assert integer == min(max(wanted, fmt.lowest), fmt.highest)
        assert saturated == (integer != wanted)


@pytest.mark.parametrize(
    ("accumulator", "shift", "bits", "integer", "saturated"),
    [
        (3, 1, 8, 2, False),  # 1.5 -> 2
        (-3, 1, 8, -1, False),  # -1.5 -> -1: ties go up
        (1, 1, 8, 1, False),
        (-1, 1, 8, 0, False),
        (255, 1, 8, 127, True),  # 127.5 -> 128
        (254, 1, 8, 127, False),
        (-257, 1, 8, -128, False),  # -128.5 -> -128
        (-259, 1, 8, -128, True),
        (127, 0, 8, 127, False),
        (128, 0, 8, 127, True),
        (-128, 0, 8, -128, False),
        (-129, 0, 8, -128, True),
        (1, -6, 8, 64, False),
        (1, -7, 8, 127, True),
        (-1, -7, 8, -128, False),
        ((1 << 61) - 1, 62, 16, 0, False),
        (1 << 61, 62, 16, 1, False),
        (-(1 << 61), 62, 16, 0, False),
        (-(1 << 61) - 1, 62, 16, -1, False),
    ],
)
def test_requantize(accumulator: int, shift: int, bits: int, integer: int, saturated: bool) -> None:
    integers, clipped = requantize(np.array([accumulator], np.int64), shift, Fixed(bits, 0))
    assert integers.tolist() == [integer]
    assert clipped.tolist() == [saturated]


@pytest.mark.parametrize(("bits", "stored"), [(8, 1), (9, 2), (12, 2), (16, 2), (24, 4)])
def test_storage(bits: int, stored: int) -> None:
    fmt = Fixed(bits, 0)
    assert fmt.storage_bytes == stored
    assert (fmt.lowest, fmt.highest) == (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def test_names() -> None:
    assert [named(fmt.name) for fmt in FORMATS] == list(FORMATS)
    with pytest.raises(ConfigError, match=r"unknown number format 'fixed17'; did you mean fixed"):
        named("fixed17")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("posit8", "there are posit8es0, posit8es1, posit8es2, posit8es3; "),
        ("fp8", "there are fp8e4m3, fp8e5m2, "),
        ("FP8", "there are fp8e4m3, fp8e5m2, "),
        ("posit", "there are posit8es0, posit8es1, "),
        ("int", "there are int8; "),
        ("fixd8", "did you mean fixed8? "),
        ("bf16", "did you mean bfloat16? "),
    ],
)
def test_what_is_half_a_name_is_told_the_whole_ones(given: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        named(given)
    assert f"'{given}'; {said}" in str(error.value)
    assert str(error.value).endswith("`hil formats` lists them")


def test_general_minifloats_have_names() -> None:
    assert named("e3m2").fit(1.0) == Minifloat(3, 2, 3, exponent=-4)
    assert named("e3m2b5").fit(0.0) == Minifloat(3, 2, 5)
    assert named("e3m4pc").fit(1.0).is_per_channel
    assert named("e3m4pc").values == "e3m4"
    assert named("fp8e5m2pc").fit(1.0).c_type == named("fp8e5m2").fit(1.0).c_type
    for name in ("e9m1", "e8m10", "e0m3", "e3m2b", "posit8es0pc", "fp8e4m3pcpc", "e8m7b99", "e7m3b-1", "e5m2b-97"):
        with pytest.raises(ConfigError, match=f"unknown number format '{name}'"):
            named(name)


@pytest.mark.parametrize("name", ["e8m7", "e8m1", "e8m0", "e7m8b0", "e6m2b-64", "e1m4b99"])
def test_the_largest_numbers_of_a_minifloat_are_finite_in_float32(name: str) -> None:
    """Some kernels compute by those: bits of 2^128 were infinity there, and another code than the reference's."""
    fmt = named(name).fit(0.0)
    assert isinstance(fmt, Minifloat)
    assert fmt.name == name
    largest = np.float32(fmt.largest)
    assert float(largest) == fmt.largest < float("inf")
    assert fmt.encode(np.array([fmt.largest, -fmt.largest]))[1].tolist() == [False, False]


@pytest.mark.parametrize("name", ["e8m7", "e8m1", "e7m8b0"])
def test_wide_exponents_are_bit_exact(name: str) -> None:
    """Through a pool, which compares as single precision does."""
    assert tinyhil.load("digits_cnn").run("host", formats=name, samples=150).bit_exact


def test_the_grid_and_the_ties_of_fixed_point() -> None:
    """Halves go up, unless what was lost of them says that they were less."""
    assert Fixed(8, -3).grid == (0.125, 0)
    values, lost = np.array([0.5, 0.5, 0.5, 1.5, -0.5, -0.5, 0.25]), np.array([-1.0, 0.0, 1.0, -1.0, 0.0, -1.0, -1.0])
    assert Fixed(8, 0).encode(values, lost * 1e-20)[0].tolist() == [0, 1, 1, 1, 0, -1, 0]
    assert [array.tolist() for array in Fixed(8, 0).encode(np.array([np.nan, 200.0]))] == [[0, 127], [True, True]]
    assert Fixed(8, 0).requantize(np.array([2.75, -2.75, 900.0]), 1)[0].tolist() == [1, -1, 127]  # sums of floats


@pytest.mark.parametrize(("exponent_bits", "mantissa_bits"), [(0, 3), (9, 3), (4, 11), (8, 8)])
def test_minifloats_have_limits(exponent_bits: int, mantissa_bits: int) -> None:
    with pytest.raises(ValueError, match="1 to 8 exponent bits"):
        Minifloat(exponent_bits, mantissa_bits, 1)


@pytest.mark.parametrize(("name", "minus_zero"), [("fp8e4m3", 0x80), ("fp8e5m2", 0x80), ("fp4e2m1", 8)])
def test_minus_zero_is_the_sign_alone(name: str, minus_zero: int) -> None:
    fmt = named(name).fit(1.0)
    assert fmt.minus_zero == minus_zero
    assert fmt.decode(np.array([minus_zero]))[0] == 0.0


def test_only_formats_per_channel_say_so() -> None:
    assert named("e3m4pc").fit(1.0).is_per_channel
    assert not named("fp8e4m3").fit(1.0).is_per_channel
