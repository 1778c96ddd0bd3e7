"""Element types, accumulators and functions in C++ give the bits of the numpy formats, natively and on every board."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from boards_under_test import EMULATED, EVERY, each
from format_bench import Vectors, run_natively, run_on_board
from format_cases import (
    EIGHT_BITS,
    SINGLES,
    SIXTEEN_BITS,
    add,
    all_codes,
    all_pairs,
    arithmetic,
    compare,
    convert,
    dot,
    function,
    multiply,
    random_codes,
    single_dot,
)
from format_layers import layer, run

from tinyhil.formats import single_functions
from tinyhil.formats.exact import exact_product
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import Format
from tinyhil.formats.minifloat import E2M1, E4M3, E5M2, Minifloat
from tinyhil.formats.posit import Posit
from tinyhil.formats.quire import Window, granule_of, place, place_pair
from tinyhil.formats.single import BFLOAT16, FLOAT16, FLOAT32, Single
from tinyhil.harness.settings.config import load_boards

LONG: tuple[Format, ...] = (Posit(32, 0), Posit(32, 2), Posit(32, 3), Fixed(32, 0))
TARGETS = (Fixed(8, 0), Fixed(16, 0), Fixed(5, 0), Posit(16, 1), Posit(32, 2), FLOAT32, FLOAT16)


def in_parts(cases: list[Vectors], size: int = 200) -> Iterator[list[Vectors]]:
    for first in range(0, len(cases), size):
        yield cases[first : first + size]


COMMON = (Posit(8, 0), Posit(8, 2), E4M3, E5M2)


@pytest.mark.parametrize("formats", [COMMON, pytest.param(EIGHT_BITS, marks=pytest.mark.slow)], ids=["common", "all"])
def test_every_pair_of_8_bit_codes(formats: tuple[Format, ...], tmp_path: Path) -> None:
    cases = []
    for fmt in formats:
        pairs, codes = all_pairs(fmt, fmt), all_codes(fmt)
        cases += [add(fmt, fmt, fmt, pairs), multiply(fmt, fmt, fmt, pairs), compare(fmt, fmt, pairs)]
        cases += [convert(fmt, out, codes) for out in (*formats, *TARGETS)]
    for part in in_parts(cases):
        assert run_natively(part, tmp_path) == ""


def test_wider_codes(tmp_path: Path) -> None:
    rng, cases = np.random.default_rng(1), []
    for fmt in (*SIXTEEN_BITS, *LONG):
        pairs = (random_codes(fmt, 3000, rng), random_codes(fmt, 3000, rng))
        narrow = EIGHT_BITS[int(rng.integers(len(EIGHT_BITS)))]
        for out in (fmt, narrow, Fixed(16, 0)):
            cases.append(add(fmt, fmt, out, pairs, int(rng.integers(-3, 4))))
            cases.append(multiply(fmt, fmt, out, pairs, int(rng.integers(-9, 12))))
        codes = all_codes(fmt) if fmt.bits <= 16 else random_codes(fmt, 20_000, rng)
        cases += [
            compare(fmt, fmt, pairs),
            *(convert(fmt, out, codes, 1) for out in (fmt, FLOAT32, Posit(32, 2), *LONG[3:])),
        ]
    for fmt in SINGLES:
        codes = random_codes(fmt, 20_000, rng)
        outs = (fmt, *SINGLES[1:], Posit(8, 2), Posit(16, 1), E4M3, Fixed(8, 0), Fixed(16, 0))
        cases += [convert(fmt, out, codes, int(rng.integers(-4, 5))) for out in dict.fromkeys(outs)]
        cases.append(compare(fmt, fmt, (codes, codes[::-1])))
    for part in in_parts(cases):
        assert run_natively(part, tmp_path) == ""


def float_bits(count: int, rng: np.random.Generator) -> np.ndarray:
    """Any bits, arguments of ordinary size, and the ends of float32."""
    ordinary = (rng.normal(size=count) * 4).astype(np.float32).view(np.uint32).astype(np.int64)
    ends = [0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x80000001, 0x42B17218, 0x42B17217, 0x3F800000]
    return np.concatenate([rng.integers(0, 1 << 32, count), ordinary, ends])


def functions(count: int) -> list[Vectors]:
    rng = np.random.default_rng(7)
    cases = [function(name, float_bits(count, rng)) for name in single_functions.FUNCTIONS]
    a, b = float_bits(count, rng), float_bits(count, rng)
    some = count // 4  # subnormal quotients and products, sums of equal exponents, ties
    b[:some] = (a[:some] & 0x7F800000) + 0x3F000000 + (b[:some] & 0x7FFFFF) + (rng.integers(0, 24, some) << 23)
    b[some : 2 * some] = 0x40000000 - (a[some : 2 * some] & 0x7FFFF000) - (rng.integers(0, 24, some) << 23)
    b[2 * some : 3 * some] = (b[2 * some : 3 * some] & 0x807FFFFF) | (a[2 * some : 3 * some] & 0x7F800000)
    a[3 * some :] &= 0xFFFFF000
    b[3 * some :] &= 0xFFFFE000
    powers = rng.integers(-252, 254, a.size).astype(np.float32).view(np.uint32).astype(np.int64)
    made = [arithmetic(name, a, b & 0xFFFFFFFF) for name in ("plus", "times", "hil::single::divide")]
    return [*cases, *made, arithmetic("times_power", a, powers)]


def sums(fmt: Format, rng: np.random.Generator, count: int, terms: int = 16) -> tuple[np.ndarray, np.ndarray]:
    codes = random_codes(fmt, 2 * count * terms, rng).reshape(2, count, terms)
    return codes[0], codes[1]


def dots(count: int, formats: tuple[Format, ...]) -> list[Vectors]:
    rng, cases = np.random.default_rng(9), []
    for fmt in formats:
        granule = 2 * fmt.granule
        windows = [Window(64, max(granule, -50), 6), Window(64, -20, 6), Window(32, -12, 7)]
        if 20 * fmt.largest**2 < 2.0**37:
            windows.append(Window(64, max(granule, -26)))
        for window in dict.fromkeys(windows):
            for out in (fmt, Fixed(8, 0), FLOAT32):
                cases.append(dot(fmt, fmt, out, window, sums(fmt, rng, count), int(rng.integers(-4, 5))))
    for fmt in SINGLES:
        if fmt in formats:
            cases += [single_dot(fmt, out, sums(fmt, rng, count), 2) for out in (fmt, Fixed(8, 0))]
    return cases


CODED = (
    *(Posit(6, 1), Posit(8, 0), Posit(8, 2), Posit(12, 1), Posit(16, 1), Posit(16, 2), Posit(16, 3), Posit(32, 2)),
    *(E4M3, E5M2, E2M1, Minifloat(5, 5, 20)),
)


def test_functions(tmp_path: Path) -> None:
    assert run_natively(functions(20_000), tmp_path) == ""


def test_dot_products(tmp_path: Path) -> None:
    cases = dots(150, CODED)
    clipped = sum(int(case.saturations.sum()) for case in cases)
    assert clipped > 100
    for part in in_parts(cases):
        assert run_natively(part, tmp_path) == ""
    assert (
        run_natively([single_dot(fmt, fmt, sums(fmt, np.random.default_rng(2), 300), 1) for fmt in SINGLES], tmp_path)
        == ""
    )


def board_cases() -> list[Vectors]:
    """As much of all of it as an Uno's flash holds at a time."""
    rng, cases = np.random.default_rng(4), []
    for fmt in (Posit(8, 2), E4M3):
        pairs = (random_codes(fmt, 200, rng), random_codes(fmt, 200, rng))
        cases += [add(fmt, fmt, fmt, pairs), multiply(fmt, fmt, fmt, pairs), compare(fmt, fmt, pairs)]
        cases += [convert(fmt, FLOAT16, all_codes(fmt))]
    for fmt in (Posit(16, 1), Minifloat(5, 5, 20)):
        pairs = (random_codes(fmt, 100, rng), random_codes(fmt, 100, rng))
        cases += [add(fmt, fmt, fmt, pairs, 1), multiply(fmt, fmt, Fixed(16, 0), pairs, -7)]
    return cases


def more_board_cases() -> list[Vectors]:
    rng, cases = np.random.default_rng(5), []
    for fmt in (Posit(8, 0), E2M1, E5M2):
        cases += [convert(fmt, out, all_codes(fmt)) for out in (fmt, Fixed(8, 0))]
    for fmt in (Posit(32, 2), Fixed(32, 0)):
        pairs = (random_codes(fmt, 100, rng), random_codes(fmt, 100, rng))
        cases += [add(fmt, fmt, fmt, pairs, 1), multiply(fmt, fmt, fmt, pairs, 20)]
    return [*cases, *dots(12, (E2M1,))]


def board_sums() -> list[Vectors]:
    return dots(12, (Posit(8, 2), BFLOAT16))


def more_board_sums() -> list[Vectors]:
    return dots(12, (E4M3, FLOAT16))


@pytest.fixture(scope="module")
def build_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vector_builds")


MORE = (more_board_cases, board_sums, more_board_sums)


@pytest.mark.parametrize("board", each(EVERY))
@pytest.mark.parametrize(
    "cases",
    [board_cases, *(pytest.param(cases, marks=pytest.mark.slow) for cases in MORE)],
    ids=lambda f: f.__name__,
)
def test_boards(board: str, cases: object, build_cache: Path) -> None:
    assert run_on_board(cases(), load_boards().board(board), build_cache) == ""  # type: ignore[operator]


@pytest.mark.parametrize("board", each(EMULATED))
def test_functions_on_boards(board: str, build_cache: Path) -> None:
    assert run_on_board(functions(60), load_boards().board(board), build_cache) == ""


@pytest.mark.slow
@pytest.mark.parametrize("board", each(EMULATED))
def test_many_functions_on_boards(board: str, build_cache: Path) -> None:
    assert run_on_board(functions(8000), load_boards().board(board), build_cache) == ""


# ---- where windows lie


@pytest.mark.parametrize(
    "operand", [Posit(8, 0), Posit(8, 2), Posit(16, 1), Posit(16, 3), Posit(32, 2), E4M3, E5M2, E2M1], ids=str
)
def test_windows_hold_every_sum(operand: Format) -> None:
    """The largest operand with the signs of the worst row neither overflows nor, without a guard, saturates."""
    rng = np.random.default_rng(3)
    constants = operand.decode(operand.encode(rng.normal(size=(6, 50)))[0])
    window = place(constants, operand, observed=2.0, start=8.0)
    largest = operand.decode(operand.encode(np.array([operand.largest]))[0])[0]
    for row in constants:
        for sign in (1, -1):
            units, clipped = window.multiply(row, sign * largest * np.sign(row))
            start, _ = window.start(np.array(8.0 * sign), 0)
            total = sum(int(unit) for unit in units) + int(start)
            assert abs(total) < 1 << (window.bits - 1)
            assert window.guard or not clipped.any()
    expected = exact_product(constants, np.where(constants < 0, -2.0, 2.0))
    units, clipped = window.cut(expected)
    assert not clipped.any()  # what calibration saw is never clipped
    assert np.abs(np.ldexp(units.astype(float), window.low) - expected.value).max() <= 2.0**window.low
    if window.low <= granule_of(constants) + operand.granule:
        assert np.array_equal(np.ldexp(units.astype(float), window.low), expected.value)


def test_windows_of_narrow_formats_are_exact() -> None:
    weights = np.array([[1.0, -0.5, 0.75]])
    assert place(weights, Posit(8, 0), 1.0) == Window(32, -8)
    assert place(weights, E4M3, 1.0) == Window(32, -11)
    assert place(np.zeros((1, 4)), Posit(8, 0), 1.0).bits == 32
    assert place_pair(E2M1, E2M1, (6, 6), 100) == Window(32, -2)
    wide = place(np.ones((1, 40)), Posit(8, 2), 1.0)
    assert (wide.bits, wide.low) == (64, -24)
    assert place(np.full((1, 40), 1.25e-7), Posit(16, 2), 1.0).guard > 0


def test_matrix_products_in_a_window_agree_with_single_products() -> None:
    rng = np.random.default_rng(8)
    for fmt, window in (
        (Posit(8, 2), Window(64, -48, 7)),
        (E5M2, Window(32, -8, 6)),
        (Posit(16, 1), Window(64, -30, 5)),
    ):
        x, w = (fmt.decode(random_codes(fmt, 60, rng))[:60].reshape(shape) for shape in ((4, 15), (15, 4)))
        sums, clipped = window.matmul(x, w)
        for r in range(4):
            for n in range(4):
                units, over = window.multiply(x[r], w[:, n])
                assert (sums[r, n], clipped[r, n]) == (units.sum(), over.sum())
    units = np.array([2**63 - 1, -(2**63), 2**62 + 1, -3, 0, 2**53 + 1])
    made = Window(64, 0).value(units)
    assert [int(v) + int(r) for v, r in zip(made.value, made.residue, strict=True)] == units.tolist()
    assert isinstance(BFLOAT16, Single)


# ---- constants in flash


@pytest.mark.parametrize("board", each(EVERY))
@pytest.mark.parametrize("far", [pytest.param(False, marks=pytest.mark.slow), True], ids=["ordinary", "to the ends"])
def test_layers_from_flash(far: bool, board: str, build_cache: Path) -> None:
    """The inner loops of each chip; 300 terms are more than one filling of the Uno's bins."""
    coded = (
        Posit(8, 0),
        Posit(8, 1),
        Posit(8, 2),
        Posit(6, 2),
        E4M3,
        E5M2,
        E2M1,
        Posit(12, 1),
        Posit(16, 1),
        Posit(16, 2),
    )
    layers = [layer(fmt, 3, 300 if fmt.bits == 8 else 31, far=far) for fmt in coded]
    layers += [layer(fmt, 3, 31, "float") for fmt in (FLOAT32, BFLOAT16, FLOAT16)]
    parts = [layers[:4], layers[4:8], layers[8:]] if board == "uno" else [layers]  # as much as its flash holds
    costs = [cost for part in parts for cost in run(part, load_boards().board(board), build_cache)]
    for one, cost in zip(layers, costs, strict=True):
        want = one.expected() & ((1 << 8 * one.format.storage_bytes) - 1)
        assert cost.codes.tolist() == want.tolist(), f"{one.format} in {one.c_accumulator}"
