"""Codes of every format against softposit, ml_dtypes, gfloat and a decoder that reads posits as strings of bits."""

from __future__ import annotations

import math
from fractions import Fraction

import gfloat
import ml_dtypes
import numpy as np
import pytest
import softposit
from format_cases import EIGHT_BITS, SINGLES, SIXTEEN_BITS, all_codes, all_pairs
from gfloat.types import Domain
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyhil.formats import codebook
from tinyhil.formats.exact import Exact, exact_product, exact_sum, odd
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import Format
from tinyhil.formats.minifloat import E2M1, E3M0, E4M3, E5M2, Minifloat
from tinyhil.formats.posit import Posit
from tinyhil.formats.quire import Window
from tinyhil.formats.single import BFLOAT16, FLOAT16, FLOAT32, Single

POSITS = tuple(Posit(bits, es) for bits in range(6, 17) for es in range(4))
ML_DTYPES = (
    (E4M3, ml_dtypes.float8_e4m3fn),
    (E5M2, ml_dtypes.float8_e5m2),
    (E2M1, ml_dtypes.float4_e2m1fn),
    (Minifloat(3, 4, 3, "Ieee"), ml_dtypes.float8_e3m4),
    (Minifloat(4, 3, 7, "Ieee"), ml_dtypes.float8_e4m3),
    (Minifloat(2, 3, 1), ml_dtypes.float6_e2m3fn),
    (Minifloat(3, 2, 3), ml_dtypes.float6_e3m2fn),
    (Minifloat(8, 7, 127, "Ieee"), ml_dtypes.bfloat16),
    (Minifloat(5, 10, 15, "Ieee"), np.float16),
    (BFLOAT16, ml_dtypes.bfloat16),
    (FLOAT16, np.float16),
)


def test_every_format_in_the_tables_is_distinct() -> None:
    tables = (EIGHT_BITS, SIXTEEN_BITS, SINGLES, POSITS)
    assert all(len({fmt.c_type for fmt in table}) == len(table) for table in tables)


@pytest.mark.parametrize("fmt", [*POSITS, *EIGHT_BITS, *SIXTEEN_BITS, BFLOAT16, FLOAT16], ids=str)
def test_every_code_decodes_and_re_encodes(fmt: Format) -> None:
    codes = all_codes(fmt)
    values = fmt.decode(codes)
    again, saturated = fmt.encode(values)
    negative_zero = (values == 0) & (codes != 0)  # the only number with two codes
    assert negative_zero.sum() <= 1
    assert np.array_equal(again[~negative_zero], codes[~negative_zero])
    assert not saturated.any()
    assert np.abs(values).max() == fmt.largest
    assert values[values > 0].min() == fmt.smallest
    assert np.array_equal(np.ldexp(values, -fmt.granule) % 1, np.zeros(len(values)))
    assert fmt.scaled(5).exponent == 5
    assert fmt.scaled(5).scaled(fmt.exponent) == fmt


def read_posit(code: int, bits: int, es: int) -> Fraction | None:
    """A posit read as text: sign, regime, exponent, fraction."""
    text = format(code, f"0{bits}b")
    if "1" not in text:
        return Fraction(0)
    if "1" not in text[1:]:
        return None
    if text[0] == "1":
        return -read_posit((1 << bits) - code, bits, es)  # type: ignore[operator]
    body = text[1:]
    run = len(body) - len(body.lstrip(body[0]))
    k = run - 1 if body[0] == "1" else -run
    tail = body[run + 1 :]
    exponent = int(tail[:es].ljust(es, "0") or "0", 2)
    fraction = tail[es:]
    significand = 1 + (Fraction(int(fraction, 2), 1 << len(fraction)) if fraction else 0)
    return significand * Fraction(2) ** (k * 2**es + exponent)


@pytest.mark.parametrize("fmt", POSITS, ids=str)
def test_posits_read_as_text(fmt: Posit) -> None:
    step = 1 if fmt.bits <= 10 else 37
    for code in range(0, 1 << fmt.bits, step):
        want = read_posit(code, fmt.bits, fmt.es)
        got = fmt.decode(np.array([code]))[0]
        assert math.isnan(got) if want is None else Fraction(float(got)) == want, f"{fmt} {code:b}"


@pytest.mark.parametrize("fmt", POSITS, ids=str)
def test_posits_round_at_the_posit_of_one_bit_more(fmt: Posit) -> None:
    """Between neighbours lies the code with a 1 appended: there ties go to the even code, beside it to the nearer."""
    codes = np.arange(1, (1 << (fmt.bits - 1)) - 1, 1 if fmt.bits <= 12 else 13)
    middles = np.array([float(read_posit(int(2 * c + 1), fmt.bits + 1, fmt.es)) for c in codes])  # type: ignore[arg-type]
    even = codes + (codes & 1)
    for residue, want in (
        (None, even),
        (np.full(len(codes), 1e-300), codes + 1),
        (np.full(len(codes), -1e-300), codes),
    ):
        assert np.array_equal(fmt.encode(middles, residue)[0], want)
        if residue is not None:
            residue = -residue
        assert np.array_equal(fmt.encode(-middles, residue)[0], (1 << fmt.bits) - want)
    assert np.array_equal(fmt.encode(np.nextafter(middles, 0))[0], codes)
    assert np.array_equal(fmt.encode(np.nextafter(middles, np.inf))[0], codes + 1)


def softposit_code(value: float, fmt: Posit) -> int:
    if fmt.es == 2:
        return int(softposit.convertDoubleToPX2(value, fmt.bits).v) >> (32 - fmt.bits)
    made = softposit.convertDoubleToP8(value) if fmt.bits == 8 else softposit.convertDoubleToP16(value)
    return int(made.v)


@pytest.mark.parametrize(
    "fmt", [Posit(8, 0), Posit(16, 1), *(Posit(bits, 2) for bits in (6, 8, 10, 13, 16, 32))], ids=str
)
def test_posits_as_softposit_makes_them(fmt: Posit) -> None:
    rng = np.random.default_rng(fmt.bits)
    # softposit's own conversion is wrong for a few values next to its extremes: stay within 3/4 of the range
    reach = 0.75 * math.log2(fmt.largest)
    values = np.exp2(rng.uniform(-reach, reach, 4000)) * rng.choice([-1, 1], 4000)
    want = np.array([softposit_code(float(v), fmt) for v in values])
    assert np.array_equal(fmt.encode(values)[0], want)


@pytest.mark.parametrize("fmt", [Posit(8, 0), Posit(8, 2), Posit(6, 2)], ids=str)
def test_every_sum_and_product_of_8_bit_posits_as_in_softposit(fmt: Posit) -> None:
    codes = all_codes(fmt)
    values = fmt.decode(codes)
    a, b = all_pairs(fmt, fmt)
    x, y = fmt.decode(a), fmt.decode(b)
    if fmt.es == 2:
        posits = {int(c): softposit.convertDoubleToPX2(float(v), fmt.bits) for c, v in zip(codes, values, strict=True)}
        assert all(p.v >> (32 - fmt.bits) == c for c, p in posits.items())
        add = [
            softposit.pX2_add(posits[i], posits[j], fmt.bits).v >> (32 - fmt.bits) for i, j in zip(a, b, strict=True)
        ]
        mul = [
            softposit.pX2_mul(posits[i], posits[j], fmt.bits).v >> (32 - fmt.bits) for i, j in zip(a, b, strict=True)
        ]
    else:
        posits = {int(c): softposit.convertDoubleToP8(float(v)) for c, v in zip(codes, values, strict=True)}
        add = [softposit.p8_add(posits[i], posits[j]).v for i, j in zip(a, b, strict=True)]
        mul = [softposit.p8_mul(posits[i], posits[j]).v for i, j in zip(a, b, strict=True)]
    for exact, want in ((exact_sum(x, y), add), (exact_product(x, y), mul)):
        assert np.array_equal(fmt.encode(exact.value, exact.residue)[0], np.array(want))


def as_codes(values: np.ndarray, dtype: type) -> np.ndarray:
    made = values.astype(dtype)
    return made.view({1: np.uint8, 2: np.uint16}[made.dtype.itemsize]).astype(np.int64)


@pytest.mark.parametrize(("fmt", "dtype"), ML_DTYPES, ids=lambda p: str(p))
def test_minifloats_as_ml_dtypes_has_them(fmt: Minifloat | Single, dtype: type) -> None:
    codes = np.arange(1 << fmt.bits)
    raw = codes.astype({1: np.uint8, 2: np.uint16}[np.dtype(dtype).itemsize])
    with np.errstate(invalid="ignore"):
        want = raw.view(dtype).astype(np.float32).astype(np.float64)
    assert np.array_equal(fmt.decode(codes), want, equal_nan=True)
    numbers = np.unique(want[np.isfinite(want)])
    middles = ((numbers[:-1] + numbers[1:]) / 2).astype(np.float32)
    around = np.concatenate([middles, np.nextafter(middles, np.float32(0)), np.nextafter(middles, np.float32(np.inf))])
    got, saturated = fmt.encode(around.astype(np.float64))
    assert not saturated.any()
    assert np.array_equal(fmt.decode(got), fmt.decode(as_codes(around, dtype)))
    signed = np.abs(around) > 0
    assert np.array_equal(got[signed], as_codes(around, dtype)[signed])


@pytest.mark.parametrize(("fmt", "dtype"), ML_DTYPES[:5], ids=lambda p: str(p))
def test_every_sum_product_and_conversion_of_8_bit_minifloats(fmt: Minifloat, dtype: type) -> None:
    """ml_dtypes computes in float32, where sums and products of these are exact or rounded far below their ties."""
    a, b = all_pairs(fmt, fmt)
    x, y = fmt.decode(a), fmt.decode(b)
    for exact in (exact_sum(x, y), exact_product(x, y)):
        inside = np.abs(exact.value) <= fmt.largest
        got = fmt.encode(exact.value, exact.residue)[0]
        want = as_codes(exact.value.astype(np.float32), dtype)
        assert np.array_equal(fmt.decode(got)[inside], fmt.decode(want)[inside])
        assert np.array_equal(np.abs(fmt.decode(got)[~inside]), np.full((~inside).sum(), fmt.largest))
    for other, other_dtype in ML_DTYPES[:5]:
        values = other.decode(all_codes(other))
        inside = np.abs(values) <= fmt.largest
        got = fmt.decode(fmt.encode(values)[0])
        assert np.array_equal(got[inside], fmt.decode(as_codes(values.astype(other_dtype), dtype))[inside])


@pytest.mark.parametrize(
    "fmt", [f for f in (*EIGHT_BITS, *SIXTEEN_BITS) if isinstance(f, Minifloat)], ids=lambda f: f.c_type
)
def test_minifloats_as_gfloat_has_them(fmt: Minifloat) -> None:
    nans = {"Finite": 0, "Nan": 1, "Ieee": (1 << fmt.mantissa_bits) - 1}[fmt.policy]
    info = gfloat.FormatInfo(
        name=fmt.c_type,
        k=fmt.bits,
        precision=fmt.mantissa_bits + 1,
        bias=fmt.bias,
        is_signed=True,
        domain=Domain.Extended if fmt.policy == "Ieee" else Domain.Finite,
        has_nz=True,
        num_high_nans=nans,
        has_subnormals=True,
        is_twos_complement=False,
    )
    codes = np.arange(0, 1 << fmt.bits, 1 if fmt.bits <= 8 else 17)
    want = np.array([gfloat.decode_float(info, int(code)).fval for code in codes])
    assert np.array_equal(fmt.decode(codes), want, equal_nan=True)
    assert info.max == fmt.largest
    assert info.smallest == fmt.smallest
    rng = np.random.default_rng(fmt.bits)
    values = np.exp2(rng.uniform(math.log2(fmt.smallest) - 2, math.log2(fmt.largest) + 2, 300)) * rng.choice(
        [-1, 1], 300
    )
    rounded = [gfloat.round_float(info, float(v), gfloat.RoundMode.TiesToEven, sat=True) for v in values]
    assert np.array_equal(fmt.decode(fmt.encode(values)[0]), np.array(rounded))


def neighbours_are_right(fmt: Format, value: Fraction, code: int) -> bool:
    """No other code is nearer (linear formats)."""
    got = Fraction(float(fmt.decode(np.array([code]))[0]))
    table = [Fraction(float(v)) for v in fmt.decode(all_codes(fmt))]
    return abs(got - value) == min(abs(v - value) for v in table)


@settings(max_examples=150, deadline=None)
@given(
    fmt=st.sampled_from([f for f in EIGHT_BITS if isinstance(f, Minifloat)]),
    value=st.floats(allow_nan=False, allow_infinity=False, width=32),
    tail=st.sampled_from([-1, 0, 1]),
)
def test_minifloats_are_nearest(fmt: Minifloat, value: float, tail: int) -> None:
    code, saturated = fmt.encode(np.array([value]), np.array([float(tail)]))
    exact = Fraction(value) + Fraction(tail, 10**60)
    assert neighbours_are_right(fmt, exact, int(code[0]))
    if abs(value) < fmt.largest:
        assert not saturated[0]


@settings(max_examples=200, deadline=None)
@given(
    fmt=st.sampled_from([Posit(32, es) for es in range(4)]),
    code=st.integers(1, (1 << 31) - 2),
    other=st.integers(1, (1 << 31) - 2),
)
def test_32_bit_posits(fmt: Posit, code: int, other: int) -> None:
    want = read_posit(code, 32, fmt.es)
    value = fmt.decode(np.array([code]))
    assert Fraction(float(value[0])) == want
    assert fmt.encode(value)[0][0] == code
    middle = read_posit(2 * code + 1, 33, fmt.es)
    assert middle is not None
    assert fmt.encode(np.array([float(middle)]))[0][0] == code + (code & 1)
    y = fmt.decode(np.array([other]))
    product = exact_product(value, y)
    exact = Fraction(float(value[0])) * Fraction(float(y[0]))
    assert Fraction(float(product.value[0])) + Fraction(float(product.residue[0])) == exact
    rounded = int(fmt.encode(product.value, product.residue)[0][0])
    below, above = read_posit(2 * rounded - 1, 33, fmt.es), read_posit(2 * rounded + 1, 33, fmt.es)
    assert below is None or rounded == 1 or below <= exact
    assert above is None or rounded == (1 << 31) - 1 or exact <= above


@pytest.mark.parametrize(
    "fmt", [Posit(8, 2), Posit(16, 1), Posit(32, 2), E4M3, E5M2, E2M1, E3M0, FLOAT32, BFLOAT16], ids=str
)
def test_what_is_no_number_and_what_is_out_of_range(fmt: Format) -> None:
    values = np.array(
        [np.nan, np.inf, -np.inf, fmt.largest * 4, -fmt.largest * 4, fmt.smallest / 8, -fmt.smallest / 8, 0]
    )
    codes, saturated = fmt.encode(values)
    got = fmt.decode(codes)
    has_nan = isinstance(fmt, (Posit, Single)) or (isinstance(fmt, Minifloat) and fmt.nan_code is not None)
    assert math.isnan(got[0]) if has_nan else got[0] == 0
    assert got[1:5].tolist() == [fmt.largest, -fmt.largest, fmt.largest, -fmt.largest]
    assert saturated.tolist() == [True] * 5 + [False] * 3
    tiny = fmt.smallest if isinstance(fmt, Posit) else 0.0  # posits never underflow
    assert got[5:].tolist() == [tiny, -tiny, 0]


def test_residues_decide_where_float64_ends() -> None:
    """2^100 + 1 of two posits: float64 sees a tie, the residue does not."""
    fmt = Posit(16, 3)
    total = exact_sum(np.array([2.0**100, 2.0**100]), np.array([2.0**-100, -(2.0**-100)]))
    assert total.residue.tolist() == [2.0**-100, -(2.0**-100)]
    middle = float(read_posit(2 * 0x7001 + 1, 17, 3))  # type: ignore[arg-type]
    both = Exact(np.array([middle, middle, middle]), np.array([1e-9, -1e-9, 0.0]))
    assert fmt.encode(both.value, both.residue)[0].tolist() == [0x7002, 0x7001, 0x7002]


# ---- codebooks


FITS = {name: fit for name, _, _, fit in codebook.FITS}


@pytest.mark.parametrize("name", FITS)
def test_codebooks_take_the_nearest_entry(name: str) -> None:
    values = np.random.default_rng(3).normal(size=(40, 25))
    book = FITS[name](values)
    codes, saturated = book.encode(np.ldexp(values, -book.exponent))
    assert codes.max() < len(book.entries) <= 1 << book.bits
    assert not saturated.any()
    got = np.ldexp(book.decode(codes), book.exponent)
    reals = np.ldexp(np.array(book.entries, float), book.exponent)
    assert np.array_equal(np.abs(got - values), np.abs(values[..., None] - reals).min(axis=-1))
    assert np.array_equal(book.encode(book.decode(np.arange(len(reals))))[0], np.arange(len(reals)))


def test_codebooks_are_what_they_are_called() -> None:
    values = np.random.default_rng(3).normal(size=5000)
    sizes = {name: len(fit(values).entries) for name, fit in FITS.items()}
    assert sizes == {"kmeans4": 4, "kmeans16": 16, "kmeans256": 256, "nf4": 16, "binary": 2, "ternary": 3}
    two = codebook.binary(values)
    assert math.isclose(math.ldexp(two.entries[1], two.exponent), float(np.abs(values).mean()), rel_tol=2**-8)
    assert codebook.ternary(values).entries[1] == 0
    four = codebook.kmeans(values, 4)  # Lloyd-Max of the normal distribution: 0.4528 and 1.510
    assert np.allclose(np.ldexp(np.array(four.entries), four.exponent), [-1.51, -0.4528, 0.4528, 1.51], atol=0.06)
    error = [float(((values - np.ldexp(b.decode(b.encode(np.ldexp(values, -b.exponent))[0]), b.exponent)) ** 2).mean())
             for b in (codebook.kmeans(values, n) for n in (4, 16, 64))]  # fmt: skip
    assert error[0] > 8 * error[1] > 64 * error[2]
    few = codebook.kmeans(np.array([1.0, 1.0, 2.0]), 2)
    assert np.ldexp(np.array(few.entries), few.exponent).tolist() == [1.0, 2.0]


def test_packed_codes_lie_lowest_first() -> None:
    assert codebook.pack(np.array([1, 0, 1, 1, 0, 0, 0, 0, 1]), 1).tolist() == [0b1101, 1]
    assert codebook.pack(np.array([1, 2, 3, 0, 2]), 2).tolist() == [0b00111001, 2]
    assert codebook.pack(np.array([5, -1, 7]), 4).tolist() == [0xF5, 7]
    assert codebook.pack(np.array([5, -1, 7]), 8).tolist() == [5, 255, 7]


def test_limits_are_refused() -> None:
    for make in (
        lambda: Posit(5, 0), lambda: Posit(17, 0), lambda: Posit(8, 4), lambda: Minifloat(9, 2, 0),
        lambda: Minifloat(4, 0, 0, "Nan"),
        lambda: codebook.Codebook((2, 1), 8), lambda: codebook.Codebook((0, 200), 8),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"limits|ascend|policy"):
            make()
    assert Fixed(8, 0).largest == 128


def test_products_far_beyond_a_window_are_clipped() -> None:
    """Their residues are long themselves; 52 digits of the product do not hold them."""
    window = Window(64, -40, 3)
    x, y = np.array([134217727.0, -134217727.0, 134217725.0]) * 2.0**50, np.full(3, 268435455.0 * 2.0**40)
    units, clipped = window.multiply(x, y)
    assert units.tolist() == [window.limit, -window.limit, window.limit]
    assert clipped.all()


@pytest.mark.parametrize("bits", [24, 30])
def test_rounding_to_odd(bits: int) -> None:
    """Against exact fractions: that many significant bits towards zero, the last one set if anything was lost."""
    rng = np.random.default_rng(bits)
    a, b = (rng.integers(-(1 << 28), 1 << 28, 4000) * 2.0 ** rng.integers(-70, 70, 4000) for _ in "ab")
    a = np.concatenate([a, [2.0**60, -(2.0**60), 2.0**60, 1.0, 0.0]])
    b = np.concatenate([b, [-(2.0**-60), 2.0**-60, 2.0**-60, -1.0, 0.0]])
    for value, *pair in zip(odd(exact_sum(a, b), bits).tolist(), a.tolist(), b.tolist(), strict=True):
        total = Fraction(pair[0]) + Fraction(pair[1])
        size, unit = abs(total), Fraction(1)
        while size >= unit * 2**bits:
            unit *= 2
        while total and size < unit * 2 ** (bits - 1):
            unit /= 2
        whole, rest = divmod(size, unit)
        sticky = whole | 1 if rest else whole
        assert Fraction(value) == (sticky if total > 0 else -sticky) * unit


def test_the_machines_own_float32_is_what_its_fields_say() -> None:
    """A residue of nothing takes the way of the other floats: fields one by one."""
    random = np.random.default_rng(0)
    spread = random.standard_normal(20000) * 2.0 ** random.integers(-160, 140, 20000)
    largest = float(np.finfo(np.float32).max)
    ends = [largest, np.nextafter(largest * (1 + 2.0**-25), 0), largest * (1 + 2.0**-25), np.inf, np.nan, 0.0]
    small = [2.0**-149, 2.0**-150, np.nextafter(2.0**-150, 1), 3 * 2.0**-150]
    values = np.concatenate([spread, ends, small, np.negative(ends), np.negative(small)])
    codes, saturated = FLOAT32.encode(values)
    by_fields, saturated_by_fields = FLOAT32.encode(values, np.zeros_like(values))
    assert np.array_equal(codes, by_fields)
    assert np.array_equal(saturated, saturated_by_fields)
    with np.errstate(all="ignore"):
        assert np.array_equal(FLOAT32.decode(codes)[~saturated], values.astype(np.float32)[~saturated])
