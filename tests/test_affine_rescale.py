"""The rescalings of asymmetric integers give the bits of numpy's 64-bit arithmetic, natively and on the Uno."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from format_bench import Vectors, run_natively, run_on_board

from tinyhil.formats.affine import multiplier, rescale, rescale_once
from tinyhil.harness.settings.config import load_boards

LOWEST, HIGHEST = 1 << 30, (1 << 31) - 1  # of multipliers; 0 besides
LIFT = 20
SUM = 1 << 28  # two lifted operands, each times 1/2 at most


def multipliers(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.permutation(np.resize(np.r_[LOWEST, HIGHEST, 0, LOWEST + 1, rng.integers(LOWEST, 1 << 31, 40)], count))


def wide(rng: np.random.Generator, count: int, largest: int) -> np.ndarray:
    """Numbers of every length, with the ends and those next to powers of two."""
    sizes = np.exp2(rng.uniform(0, np.log2(largest), count)).astype(np.int64)
    powers = 1 << np.arange(int(np.log2(largest)) + 1)
    near = np.minimum(np.r_[0, powers - 1, powers, powers + 1, largest], largest)
    x = np.r_[sizes, near]
    return x * rng.choice([-1, 1], x.size)


def ties(rng: np.random.Generator, shift: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums whose product with 2^30 lies on a tie of the second rounding, or next to one."""
    x = ((2 * rng.integers(-200, 201, count) + 1) << -shift) + rng.integers(-2, 3, count)
    return x, np.full(count, LOWEST)


def vectors(name: str, x: np.ndarray, m: np.ndarray, codes: np.ndarray) -> Vectors:
    mask = 0xFFFFFFFF
    return Vectors(f"&{name}", x & mask, m & mask, codes & mask, np.zeros(len(x), np.int64))


def made(
    name: str, shift: int, x: np.ndarray, m: np.ndarray, want: Callable[..., np.ndarray], lift: int = 0
) -> Vectors:
    return vectors(f"{name}<{shift}>", x, m, want(x << lift, m, shift))


def cases(rng: np.random.Generator, count: int) -> list[Vectors]:
    found = []
    for shift in (3, 0, -1, -2, -7, -8, -9, -15, -17, -25, -31):
        x = wide(rng, count, (1 << (31 - max(shift, 0))) - 1)
        for name, want in (("rescaled", rescale), ("rescaled_once", rescale_once)):
            found.append(made(name, shift, x, multipliers(rng, x.size), want))
    for shift in (0, -1, -2, -5, -16, -17, -30):
        d = rng.integers(-255, 256, count)
        found.append(made("rescaled_lifted", shift, d, multipliers(rng, count), rescale, LIFT))
    for shift in (1, 0, -1, -13, -14, -15, -16, -17, -18, -20, -23, -28, -30):
        x = wide(rng, count, SUM >> max(shift, 0))
        m = multipliers(rng, x.size)
        if shift < 0:
            x, m = (np.r_[pair] for pair in zip((x, m), ties(rng, max(shift, -20), 60), strict=True))
        found.append(made("rescaled_sum", shift, x, m, rescale))
    for shift in (1, 0, -1, -2, -6, -7, -10, -17, -18, -31):
        a, b, m = rng.integers(-255, 256, count), rng.integers(-255, 256, count), multipliers(rng, count)
        a, b, m = np.r_[a, 255, -255, 1, -1, 0], np.r_[b, -255, -255, -1, 1, -3], np.r_[m, [HIGHEST] * 2, [LOWEST] * 3]
        packed = (a & 0xFFFF) | (b << 16)
        found.append(vectors(f"rescaled_product<{shift}>", packed, m, rescale(a * b, m, shift)))
    return found


# Scales of the operands and the result: equal ones, ties everywhere, sums beyond the format, one that hardly counts
SCALES = (
    (1.0, 1.0, 1.0),
    (0.5, 0.25, 1.0),
    (0.031, 0.0172, 0.0204),
    (1.0, 0.9, 0.02),
    (0.004, 3.0, 3.1),
    (70.0, 1.0, 1.0),
)


POWERS = ((1.0, 1.0, 1.0), (1.0, 0.25, 1.0), (0.125, 4.0, 2.0), (1.0, 2.0, 0.5), (0.0078125, 0.5, 1.0), (1.0, 1.0, 2.0))
# Zero points of operands and result, and the power of two by which products are divided
PRODUCTS = (
    (-128, -79, -79, 8), (-128, 0, 0, 9), (-128, 0, 69, 7), (0, 0, 0, 7), (3, -5, 127, 1), (-128, 100, -1, 2),
    (127, -128, -128, 13), (-1, -128, 4, 0), (-128, -128, 0, 16),
)  # fmt: skip


def code_products(case: tuple[int, int, int, int], a: np.ndarray, b: np.ndarray) -> Vectors:
    """a * b of codes as Mul computes it where scales are powers of two."""
    *zeros, right = case
    m, by = multiplier(2.0**-right)
    units = rescale((a - zeros[0]) * (b - zeros[1]), m, by) + zeros[2]
    codes = np.clip(units, -128, 127)
    packed = (a & 0xFF) | (b & 0xFF) << 8
    name = f"code_sum<hil::ProductOf<{m}, {by}, {', '.join(map(str, zeros))}>::type>"
    return Vectors(f"&{name}", packed, np.zeros_like(packed), codes & 0xFF, (codes != units).astype(np.int64))


def code_sums(scales: tuple[float, float, float], sign: int, a: np.ndarray, b: np.ndarray) -> Vectors:
    """a + b or a - b of codes as Add and Sub compute them, with zero points that differ."""
    rng = np.random.default_rng(int(1000 * sum(scales)))
    zeros = rng.integers(-128, 128, 3)
    twice = 2 * max(scales[:2])
    factors = [multiplier(f) for f in (scales[0] / twice, scales[1] / twice, twice / ((1 << LIFT) * scales[2]))]
    left, right = (rescale((x - zero) << LIFT, *f) for x, zero, f in zip((a, b), zeros, factors, strict=False))
    units = rescale(left + sign * right, *factors[2]) + zeros[2]
    codes = np.clip(units, -128, 127)
    named = ", ".join(f"hil::Factor<{m}, {shift}>" for m, shift in factors)
    name = f"code_sum<hil::SumOf<{named}, {zeros[0]}, {zeros[1]}, {zeros[2]}, {sign}>::type>"
    packed = (a & 0xFF) | (b & 0xFF) << 8
    return Vectors(f"&{name}", packed, np.zeros_like(packed), codes & 0xFF, (codes != units).astype(np.int64))


def test_sums_of_all_codes_natively(tmp_path: Path) -> None:
    a, b = (axis.reshape(-1) for axis in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    found = [code_sums(scales, sign, a, b) for scales in SCALES + POWERS for sign in (1, -1)]
    assert run_natively([*found, *(code_products(case, a, b) for case in PRODUCTS)], tmp_path) == ""


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_of_codes_on_the_uno(sign: int, tmp_path: Path) -> None:
    a, b = np.random.default_rng(sign + 1).integers(-128, 128, (2, 250))
    vectors = [code_sums(scales, sign, a, b) for scales in SCALES + POWERS]
    vectors += [code_products(case, a, b) for case in PRODUCTS[sign < 0 :: 2]]
    assert run_on_board(vectors, load_boards().board("uno"), tmp_path) == ""


def test_natively(tmp_path: Path) -> None:
    assert run_natively(cases(np.random.default_rng(1), 3000), tmp_path) == ""


@pytest.mark.parametrize("part", range(4))
def test_on_the_uno(part: int, tmp_path: Path) -> None:
    assert run_on_board(cases(np.random.default_rng(2), 200)[part::4], load_boards().board("uno"), tmp_path) == ""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_on_the_uno(part: int, tmp_path: Path) -> None:
    assert run_on_board(cases(np.random.default_rng(3), 8000)[part::4], load_boards().board("uno"), tmp_path) == ""
