"""Rules that hold for every format, and a golden record of what each says of itself and makes of the same numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from conftest import Golden

from tinyhil.errors import ConfigError
from tinyhil.formats import FORMATS, codebook, named, quire
from tinyhil.formats.affine import (
    Affine,
    as_affine,
    fit_range,
    multiplier,
    reciprocal_above,
    rescale,
    rescale_away,
    rescale_once,
    rescale_wide,
    weight_scales,
)
from tinyhil.formats.codebook import Codebook
from tinyhil.formats.codec import dequantize, quantize, requantize, storage_dtype
from tinyhil.formats.exact import Exact, exact_product, exact_sum
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import AFFINE, Format, NamedFormat
from tinyhil.formats.minifloat import Minifloat
from tinyhil.formats.posit import Posit
from tinyhil.formats.sign import Sign

EVERY = pytest.mark.parametrize(
    "fmt", [*FORMATS, *map(named, ("e3m2", "e2m3b5", "e3m4pc", "e4m0"))], ids=lambda fmt: fmt.name
)
MAGNITUDES = (2.0**-70, 0.3, 0.5, 0.999, 1.0, 1.0001, 1.42, 3.7, 96.0, 448.0, 449.0, 65520.0, 1e5, 2.0**40)
NUMBERS = (0.0, 1e-3, -1e-3, 0.1, 0.5, -0.5, 0.7071, 1.0, -1.0, 1.5, -2.5, 3.7, -3.7, 100.0, math.inf, math.nan)
FACTS = (
    *("bits", "exponent", "storage_bytes", "domain", "c_type", "largest", "smallest", "granule", "lowest", "highest"),
    *("grid", "minus_zero", "significant_bits", "packed_bits", "is_binary_point", "is_sign", "is_per_channel"),
    *("rounding", "entries_in_flash"),
)


def reals_of(fmt: Format) -> np.ndarray:
    """Every number of a format of at most 16 bits, ascending."""
    with np.errstate(all="ignore"):
        reals = dequantize(np.arange(fmt.lowest, fmt.highest + 1, 2 if fmt.is_sign else 1), fmt)
    return np.unique(reals[np.isfinite(reals)])


def holds(fmt: Format, magnitude: float) -> bool:
    """Whether this scale is the finest that a family allows for the magnitude."""
    largest, scale = math.ldexp(fmt.largest, fmt.exponent), 2.0**fmt.exponent
    if isinstance(fmt, Affine | Codebook):
        least = (1e-8 if magnitude else 1.0) if fmt.domain == AFFINE else 0
        return largest == pytest.approx(max(magnitude, least), rel=2**-6)
    if isinstance(fmt, Fixed):
        return largest / 2 <= magnitude < largest
    if isinstance(fmt, Minifloat):
        return largest / 2 < magnitude <= largest
    if isinstance(fmt, Posit):
        return scale / 2 <= magnitude < scale
    if isinstance(fmt, Sign):
        return scale / math.sqrt(2) <= magnitude <= scale * math.sqrt(2)
    return magnitude <= largest and (fmt.exponent == 0 or largest / 4 < magnitude)  # IEEE


@EVERY
def test_fit_takes_the_finest_scale_that_holds_the_magnitude(fmt: NamedFormat) -> None:
    for magnitude in MAGNITUDES:
        fitted = fmt.fit(magnitude)
        assert holds(fitted, magnitude), magnitude
        assert fmt.fit(1.0).fitted(magnitude) == fitted or isinstance(fitted, Codebook)
        assert holds(fmt.fit(1.0).fitted(magnitude), magnitude)
        moved = fitted.scaled(fitted.exponent + 3)
        assert np.array_equal(dequantize(np.arange(2), moved), 8 * dequantize(np.arange(2), fitted), equal_nan=True)
        assert type(moved) is type(fitted)
    assert dequantize(quantize(np.zeros(1), fmt.fit(0.0))[0], fmt.fit(0.0))[0] == (1.0 if fmt.name == "sign" else 0.0)


@EVERY
def test_every_number_is_one_of_its_format_and_between_them_the_nearest_is_taken(fmt: NamedFormat) -> None:
    """But for posits, which round at the posit of one bit more (test_format_codecs.py)."""
    made = fmt.fit(1.42)
    if made.bits > 16:
        return
    reals = reals_of(made)
    near = reals[:: max(1, len(reals) // 500)]
    again, saturated = quantize(near, made)
    assert np.array_equal(dequantize(again, made), near)
    assert not saturated.any()
    assert (made.lowest <= again).all()
    assert (again <= made.highest).all()
    assert np.array_equal(again.astype(storage_dtype(made)).astype(np.int64), again)
    positive = near[near > 0]
    assert reals[reals > 0].min() == math.ldexp(made.smallest, made.exponent)
    assert np.abs(reals).max() == math.ldexp(made.largest, made.exponent)
    assert not np.mod(np.ldexp(positive, -made.exponent - made.granule), 1).any()
    if isinstance(made, Posit):
        return
    drawn = np.random.default_rng(1).uniform(reals[0], reals[-1], 300)
    codes, saturated = quantize(drawn, made)
    at = np.clip(np.searchsorted(reals, drawn), 1, len(reals) - 1)
    nearest = np.minimum(np.abs(drawn - reals[at - 1]), np.abs(drawn - reals[at]))
    assert np.array_equal(np.abs(dequantize(codes, made) - drawn), nearest)
    assert not saturated.any()


@EVERY
def test_sums_of_63_bits_are_rounded_once(fmt: NamedFormat) -> None:
    """Next to a tie, by less than float64 resolves: the sum's last bit decides, as a residue does."""
    made = fmt.fit(1.0).scaled(0)
    if made.bits > 16 or isinstance(made, Affine):
        return
    reals = reals_of(made)
    ties = (reals[1:] + reals[:-1])[-40:] / 2
    shift = 61 - math.frexp(float(np.abs(ties).max()))[1]
    ties = ties[(np.ldexp(ties, shift) % 1 == 0) & (ties != 0)]
    whole = np.ldexp(ties, shift).astype(np.int64)
    for more in (-1, 0, 1):
        codes, saturated = requantize(whole + more, shift, made)
        wanted = made.encode(np.ldexp(whole.astype(np.float64), -shift), np.full(len(whole), float(more)))
        assert np.array_equal(codes, wanted[0])
        assert np.array_equal(saturated, wanted[1])
    exact, single = Exact(ties, np.full(len(ties), -(2.0**-90))), ties.astype(np.float32)
    assert np.array_equal(requantize(exact, 2, made)[0], made.encode(ties / 4, exact.residue)[0])
    assert np.array_equal(requantize(single, 2, made)[0], made.encode(single.astype(float) / 4)[0])


@EVERY
def test_of_a_residue_the_sign_counts(fmt: NamedFormat) -> None:
    """Where float64 sees a tie, a number of the format, its largest or nothing at all."""
    made = fmt.fit(1.0).scaled(0)
    if made.bits > 16 or isinstance(made, Affine):
        return
    reals = reals_of(made)
    points = np.concatenate([reals, (reals[1:] + reals[:-1]) / 2, [0.0, -0.0]])
    for sign in (-1.0, 1.0):
        codes, saturated = made.encode(points, np.full(len(points), sign))
        for size in (2.0**-200, 0.3, 7.0):
            again = made.encode(points, np.full(len(points), sign * size))
            assert np.array_equal(codes, again[0])
            assert np.array_equal(saturated, again[1])


def test_what_a_residue_alone_takes_across_an_edge() -> None:
    top = Posit(8, 1).largest
    ends, away = np.array([top, top, top, -top, -top, -top]), np.array([1e-9, 0.0, -1e-9] * 2)
    assert Posit(8, 1).encode(ends, away)[1].tolist() == [True, False, False, False, False, True]
    assert Sign().encode(np.zeros(3), np.array([-1e-9, 0.0, 1e-9]))[0].tolist() == [-1, 1, 1]


def as_text(name: str, fmt: Format, reals: np.ndarray) -> str:
    """What a format says of itself, and makes of numbers."""
    facts = [f"{fact}={getattr(fmt, fact)!r}" for fact in FACTS if getattr(fmt, fact) not in (None, False)]
    texts = (
        fmt.flash_operand("w"),
        fmt.as_real("x"),
        fmt.result_shift(3),
        fmt.from_float("T", "v"),
        storage_dtype(fmt),
    )
    made = [quantize(reals, fmt), fmt.encode(reals, np.resize([-1.0, 0.0, 1.0], len(reals)))]
    made += [requantize(np.array([5, -5, 6, 1 << 20, 0]), shift, fmt) for shift in (0, 3, -2)]
    made += [requantize(reals.astype(np.float32), 1, fmt)]
    codes = (f"{array[0].tolist()} {np.flatnonzero(array[1]).tolist()}" for array in made)
    return "\n  ".join((f"{name}: {fmt}", " ".join(facts), " ".join(map(str, texts)), *codes)) + "\n"


def test_what_formats_say_of_themselves(golden: Golden) -> None:
    reals = np.array(NUMBERS)
    text = ""
    for one in (fmt for fmt in FORMATS if fmt.bits in (1, 2, 4, 6, 8, 16, 32)):
        fmt = one.fit(1.42) if one.fit_values is None else one.fit_values(np.sin(np.arange(40.0) ** 1.5))
        given = np.where(np.isnan(reals), 0.25, reals) if one.fit_values else reals
        text += f"{one.name}: {one.bits} bits; {one.summary}; {one.values} {one.vectors}\n" + as_text(
            "  1.42", fmt, given
        )
        if one.fit_values is not None and one.fit(1.42).is_sign:
            text += as_text("  of values", one.fit(3.7), reals)
        if one.fit_range is not None:
            text += as_text("  -0.5..1.42", one.fit_range(-0.5, 1.42), reals)
        if one.fit_positive is not None:
            text += as_text("  0..1.42", one.fit_positive(1.42), reals)
        if one.fit_values is not None:
            text += as_text("  coarser", fmt.coarser(fmt.exponent + 2), given)
    golden.check("formats.txt", text)


# ---- names, codebooks


def test_an_unknown_name_hints_at_the_nearest_one() -> None:
    for name, hint in (
        ("fixed17", r"'fixed17'; did you mean fixed7\? `hil formats`"),
        ("fp16", r"'fp16'; did you mean float16\? `hil formats`"),
        ("bf16", r"'bf16'; did you mean bfloat16\? `hil formats`"),
        ("xyz", r"'xyz'; `hil formats`"),
    ):
        with pytest.raises(ConfigError, match=f"unknown number format {hint} lists them"):
            named(name)


def test_codebooks_of_nothing_and_of_little() -> None:
    for make in (codebook.binary, codebook.ternary, codebook.nf4):
        assert set(make(np.zeros(3)).entries) == {0}
    assert codebook.binary(np.zeros(0)).entries == codebook.ternary(np.zeros(0)).entries == (0,)
    for entries, bits in (((), 8), (tuple(range(257)), 16), ((0, 1), 9), ((-129, 0), 8), ((0, 128), 8), ((1, 0), 8)):
        with pytest.raises(ValueError, match="codebook"):
            Codebook(entries, bits)
    assert [Codebook(tuple(range(n)), 16).bits for n in (1, 2, 3, 4, 5, 16, 17, 256)] == [1, 1, 2, 2, 4, 4, 8, 8]
    assert Codebook((-128, 127), 8).encode(np.array([-0.5, -0.5, -0.4]), np.array([0.0, 1.0, 0.0]))[0].tolist() == [
        0,
        1,
        1,
    ]


# ---- integers of TensorFlow Lite


def nearest(value: Fraction, *, away: bool = False) -> int:
    """Ties towards plus infinity, or away from zero."""
    return -nearest(-value) if away and value < 0 else math.floor(value + Fraction(1, 2))


def test_rescaling_is_the_product_rounded() -> None:
    rng = np.random.default_rng(1)
    for factor in (0.7, 1e-3, 0.5, 3.99, 1.0, 2.0**-20, *rng.uniform(0, 1, 20)):
        m, shift = multiplier(factor)
        assert abs(Fraction(m) * Fraction(2) ** (shift - 31) - Fraction(factor)) <= Fraction(2) ** (shift - 32)
        sums = np.concatenate([rng.integers(-(1 << 20), 1 << 20, 50), [0, 1, -1, 2, -2, 5, -5, (1 << 20), -(1 << 20)]])
        exact = [Fraction(int(s)) * m * Fraction(2) ** (shift - 31) for s in sums]
        assert rescale_once(sums, m, shift).tolist() == [nearest(one) for one in exact]
        assert rescale_away(sums, m, shift).tolist() == [nearest(one, away=True) for one in exact]
        halves = [nearest(Fraction(int(s)) * 2 ** max(shift, 0) * m / 2**31) for s in sums]  # a rounding at 2**31,
        wanted = [nearest(Fraction(h, 2 ** max(-shift, 0)), away=True) for h in halves]  # then one by the shift, away
        assert rescale(sums, m, shift).tolist() == wanted
        short = 0x7FFF if m >= 0x7FFF0000 else (m + (1 << 15)) >> 16
        assert rescale_wide(sums, m, shift).tolist() == [
            nearest(Fraction(int(s)) * short * Fraction(2) ** (shift - 15)) for s in sums
        ]
    assert rescale_wide(np.array([1 << 20]), 0x7FFFFFFF, 0).tolist() == [(1 << 20) - 32]


def test_multipliers() -> None:
    assert [multiplier(f) for f in (0.0, 0.5, 1.0, 1 - 2.0**-40, 2.0**-32, 2.0**-33)] == [
        (0, 0), (1 << 30, 0), (1 << 30, 1), (1 << 30, 1), (1 << 30, -31), (0, 0),
    ]  # fmt: skip
    for count in range(1, 200):
        m, shift = reciprocal_above(count)
        exact = Fraction(2 ** (31 - shift), count)
        assert m == min(math.ceil(exact), (1 << 31) - 1)
        assert m >= (1 << 30)


def test_asymmetric_ranges_hold_zero_and_both_ends() -> None:
    for low, high in ((-1.0, 3.0), (0.5, 3.0), (-3.0, -1.0), (0.0, 0.0), (-2.0, 2.0), (-7.3, 0.1)):
        for bits in (8, 16):
            fmt = fit_range(low, high, bits)
            codes, _ = quantize(np.array([0.0, low, high]), fmt)
            reals = dequantize(codes, fmt)
            assert reals[0] == 0.0
            assert np.abs(reals - [0.0, low, high]).max() <= fmt.scale * 0.51
            assert fmt.zero == 0 or bits == 8
            span = max(high, 0.0) - min(low, 0.0) if bits == 8 else max(-low, high)
            assert fmt.scale == np.float32((span or 1.0) / (255 if bits == 8 else 32767))  # of nothing any will do
    assert fit_range(-2.0, 1.0, 16).scale == np.float32(2 / 32767)
    assert as_affine(fit_range(0, 1, 8)).zero == -128
    with pytest.raises(TypeError, match="no format of asymmetric integers"):
        as_affine(Fixed(8, 0))


def test_scales_of_rows_leave_room_for_the_bias() -> None:
    rows, bias = np.array([[1.0, -254.0], [0.0, 0.0], [1e-6, 0.0]]), np.array([0.0, 0.0, 1000.0])
    scales = weight_scales(rows, bias, 0.5)
    assert scales.tolist() == [2.0, float(np.float32(1e-8 / 127)), float(np.float32(1000.0 / (0.5 * 2**29)))]


# ---- exact numbers and windows


def test_exact_numbers_are_negated_and_reshaped_whole() -> None:
    one = exact_sum(np.array([1.0, 2.0**60]), np.array([2.0**-60, -1.0]))
    again = (-one).reshape(2, 1)
    assert (again.value.tolist(), again.residue.tolist()) == ([[-1.0], [-(2.0**60)]], [[-(2.0**-60)], [1.0]])
    big = exact_product(np.array([2.0**27 + 1]), np.array([2.0**27 + 3]))
    assert Fraction(big.value[0]) + Fraction(big.residue[0]) == (2**27 + 1) * (2**27 + 3)


@pytest.mark.parametrize("guard", [0, 3])
def test_windows_sum_exactly_what_they_hold(guard: int) -> None:
    """Products floored to the lowest bit and limited, as exact fractions have it; matrices as single products."""
    rng = np.random.default_rng(guard)
    made = quire.Window(64 if guard else 48, -9, guard)
    x = rng.integers(-999, 999, (3, 4)) * 2.0**-6
    w = rng.integers(-999, 999, (4, 2)) * 2.0 ** rng.integers(-6, 3, (4, 2))
    sums, clipped = made.matmul(x, w)
    products = [[[Fraction(a) * Fraction(b) for a, b in zip(row, column, strict=True)] for column in w.T] for row in x]
    wanted = [[sum(math.floor(one * 2**9) for one in cell) for cell in row] for row in products]
    assert sums.tolist() == wanted
    assert not clipped.any()
    back = made.value(sums)
    assert np.array_equal(back.value, np.ldexp(sums.astype(float), -9))
    assert made.start(np.array([1.0, 0.1]), 2)[0].tolist() == [4 << 9, math.floor(0.4 * 512)]
    assert quire.granule_of(np.array([0.0, 12.0, -0.75])) == -2
    assert quire.granule_of(np.zeros(2)) == 0


def test_products_longer_than_float64_are_floored_whole() -> None:
    """A residue below zero takes a unit, up to where terms are limited; beyond, they are clipped."""
    for size in (28, 29, 30, 31):
        made, product = quire.Window(64, 0, 3), 2 ** (2 * size) - 1
        for sign in (1, -1):
            units, clipped = made.multiply(np.array([sign * (2.0**size + 1)]), np.array([2.0**size - 1]))
            assert units.tolist() == [sign * min(product, made.limit)]
            assert clipped.tolist() == [product > made.limit]
    assert quire.Window(64, -2).multiply(np.array([2.0**30 + 1]), np.array([1 - 2.0**30]))[0].tolist() == [4 - 2**62]
    assert [quire.Window(32, -9, guard).c_type for guard in (0, 2)] == ["hil::Quire<32, -9>", "hil::Quire<32, -9, 2>"]
    assert quire.Window(32, -9) == quire.Window(32, -9, 0)


def assert_well_placed(window: quire.Window, bound: Fraction, lows: tuple[int, int], peak: float, terms: int) -> str:
    """Exact where that can be, without a guard where that can be proven, no wider than it must; how it is.

    `bound`: of sums; `lows`: bits below which no product of the formats, of these constants reaches.
    """
    unit, expected = Fraction(2) ** window.low, math.frexp(peak)[1]
    plain = [low for low in lows if bound < Fraction(2) ** (low + 63)]
    guard = max(1, math.ceil(math.log2(terms))) if terms > 1 else 1
    guarded = [low for low in lows if low + 63 - guard >= expected + 5]
    exact = [low for low in lows if low in plain or low in guarded]
    if exact:
        assert window.low == exact[0]
        assert window.guard == (0 if exact[0] in plain else guard)
        assert window.bits == (32 if bound < unit * 2**31 else 64)
        return "exact" if exact[0] in plain else "exact, guarded"
    assert window.bits == 64
    if window.guard == 0:
        assert bound + terms * unit <= unit * 2**63  # each cut adds a unit at most
        assert bound * 4 > unit * 2**63
        assert window.low <= expected - 40
        return "cut"
    assert window.guard == guard
    assert window.low == max(lows[1], expected + 8 - 63 + guard)
    finest = math.frexp(float(bound))[1] - 63
    assert finest + (bound + terms * Fraction(2) ** finest >= Fraction(2) ** (finest + 63)) > expected - 40
    return "cut, guarded"


WINDOW_OPERANDS = (Posit(8, 0), Posit(8, 2), Posit(16, 1), Posit(16, 2), Posit(16, 3), Posit(32, 2), Minifloat(4, 3, 7))


def test_windows_lie_where_they_must() -> None:
    rng, found = np.random.default_rng(5), set()
    for operand in WINDOW_OPERANDS:
        for size in (0, 1, 2, 3, 33):
            for scale in (-30, -9, 0, 9):
                rows = np.ldexp(rng.integers(-99, 99, (3, size)).astype(float), scale + rng.integers(-9, 9, (3, size)))
                for observed, start, granules in (
                    (0.0, 0.0, (None, None)), (0.5, 3.0, (-9, None)), (2.0**60, 2.0**20, (-40, -70)),
                ):  # fmt: skip
                    window = quire.place(rows, operand, observed, start, granules)
                    heaviest = max(sum(map(abs, map(Fraction, row)), Fraction(0)) for row in rows.tolist())
                    needed = quire.granule_of(rows) + operand.granule
                    needed = needed if granules[1] is None else min(needed, granules[1])
                    use = granules[0] is not None and operand.bits <= 8
                    low = min(needed, (granules[0] or 0) + operand.granule) if use else needed
                    seen = min(observed or operand.largest, operand.largest)
                    peak = max(float(np.abs(rows).max(initial=0.0)) * seen, start)
                    bound = heaviest * Fraction(operand.largest) + Fraction(start)
                    found.add(assert_well_placed(window, bound, (low, needed), peak, size + 1))
    assert found == {"exact", "exact, guarded", "cut", "cut, guarded"}


def test_windows_of_pairs_and_of_squares_lie_where_they_must() -> None:
    for a in WINDOW_OPERANDS:
        for b in WINDOW_OPERANDS:
            for count in (1, 2, 3, 50):
                low = a.granule + b.granule
                bound = Fraction(a.largest) * Fraction(b.largest) * count
                for seen in ((0.0, 0.0), (0.25, 2.0), (2.0**70, 1.0)):
                    peak = math.prod(
                        min(one or fmt.largest, fmt.largest) for one, fmt in zip(seen, (a, b), strict=True)
                    )
                    assert_well_placed(quire.place_pair(a, b, seen, count), bound, (low, low), peak, count)
                known = quire.Operand(a.largest, 0.5, a.granule), quire.Operand(b.largest, 3.0, b.granule)
                low, bound = 2 * min(a.granule, b.granule), (Fraction(a.largest) + Fraction(b.largest)) ** 2 * count
                assert_well_placed(quire.place_squares(known, count), bound, (low, low), 3.5**2, count)
