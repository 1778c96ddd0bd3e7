"""Expected results of element types, from the numpy formats."""

from __future__ import annotations

import numpy as np
from format_bench import Vectors

from tinyhil.formats import single_functions
from tinyhil.formats.exact import Exact, exact_product, exact_sum
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import Format
from tinyhil.formats.minifloat import E2M1, E2M1_BIAS_0, E3M0, E4M3, E5M2, Minifloat
from tinyhil.formats.posit import Posit
from tinyhil.formats.quire import Window
from tinyhil.formats.single import BFLOAT16, FLOAT16, FLOAT32, Single

EIGHT_BITS: tuple[Format, ...] = (
    *(Posit(bits, es) for bits in (6, 8) for es in range(4)),
    *(E4M3, E5M2, E2M1, E2M1_BIAS_0, E3M0, Minifloat(3, 4, 3, "Ieee"), Minifloat(5, 2, 16), Minifloat(4, 0, 7)),
    Minifloat(2, 3, 5, "Nan"),
)
SIXTEEN_BITS: tuple[Format, ...] = (
    *(Posit(bits, es) for bits in (9, 12, 15, 16) for es in range(4)),
    *(Minifloat(5, 10, 15, "Ieee"), Minifloat(6, 9, 31, "Nan"), Minifloat(8, 7, 127, "Ieee"), Minifloat(5, 5, 20)),
)
SINGLES = (FLOAT32, BFLOAT16, FLOAT16)


def all_codes(fmt: Format) -> np.ndarray:
    """Every code that stands for a number."""
    codes = np.arange(1 << fmt.bits)
    return codes[np.isfinite(fmt.decode(codes))]


def all_pairs(a: Format, b: Format) -> tuple[np.ndarray, np.ndarray]:
    left, right = np.meshgrid(all_codes(a), all_codes(b), indexing="ij")
    return left.ravel(), right.ravel()


def random_codes(fmt: Format, count: int, rng: np.random.Generator) -> np.ndarray:
    """Codes of numbers; Fixed: signed."""
    if isinstance(fmt, Fixed):
        return rng.integers(fmt.lowest, fmt.highest + 1, count)
    codes = rng.integers(0, 1 << fmt.bits, 2 * count)
    return codes[np.isfinite(fmt.decode(codes))][:count]


def real_type(*formats: Format) -> str:
    return "hil::LongReal" if any(fmt.bits > 16 for fmt in formats) else "hil::Real"


def _vectors(operation: str, a: np.ndarray, b: np.ndarray, value: Exact, shift: int, out: Format) -> Vectors:
    codes, saturated = out.encode(np.ldexp(value.value, -shift), value.residue)
    return Vectors(operation, a, b, codes & ((1 << 8 * out.storage_bytes) - 1), saturated.astype(np.int64))


def add(a: Format, b: Format, out: Format, codes: tuple[np.ndarray, np.ndarray], shift: int = 0) -> Vectors:
    name = f"&add<{real_type(a, b, out)}, {a.c_type}, {b.c_type}, {out.c_type}, {shift}>"
    return _vectors(name, *codes, exact_sum(a.decode(codes[0]), b.decode(codes[1])), shift, out)


def multiply(a: Format, b: Format, out: Format, codes: tuple[np.ndarray, np.ndarray], shift: int = 0) -> Vectors:
    name = f"&multiply<{real_type(a, b, out)}, {a.c_type}, {b.c_type}, {out.c_type}, {shift}>"
    return _vectors(name, *codes, exact_product(a.decode(codes[0]), b.decode(codes[1])), shift, out)


def convert(a: Format, out: Format, codes: np.ndarray, shift: int = 0) -> Vectors:
    accumulator = "float" if isinstance(a, Single) else real_type(a, out)
    name = f"&convert<{accumulator}, {a.c_type}, {out.c_type}, {shift}>"
    value = a.decode(codes)
    return _vectors(name, codes, np.zeros_like(codes), Exact(value, np.zeros(value.shape)), shift, out)


def compare(a: Format, b: Format, codes: tuple[np.ndarray, np.ndarray]) -> Vectors:
    accumulator = "float" if isinstance(a, Single) else real_type(a, b)
    x, y = a.decode(codes[0]), b.decode(codes[1])
    tests = (x < y, x <= y, x == y, x >= y, x > y, x != y)
    bits = sum(test.astype(np.int64) << index for index, test in enumerate(tests))
    return Vectors(f"&compare<{accumulator}, {a.c_type}, {b.c_type}>", *codes, np.asarray(bits), np.zeros(len(x)))


def dot(a: Format, b: Format, out: Format, window: Window, codes: tuple[np.ndarray, np.ndarray], shift: int) -> Vectors:
    """Sums of (sums, terms) codes in a window, started at the first a * 4."""
    name = f"&dot<{window.c_type}, {a.c_type}, {b.c_type}, {out.c_type}, {shift}>"
    units, clipped = window.multiply(a.decode(codes[0]), b.decode(codes[1]))
    start, over = window.start(a.decode(codes[0][:, 0]), 2)
    value = window.value(units.sum(axis=1) + start)
    made = _vectors(name, *codes, value, shift, out)
    return Vectors(name, *codes, made.codes, made.saturations + clipped.sum(axis=1) + over)


def single_dot(a: Single, out: Format, codes: tuple[np.ndarray, np.ndarray], shift: int) -> Vectors:
    """Sums in element order in single precision."""
    x, y = a.decode(codes[0]).astype(np.float32), a.decode(codes[1]).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        total = single_functions.scaled(x[:, 0], 2)
        for k in range(x.shape[1]):
            total = total + x[:, k] * y[:, k]
    name = f"&dot<float, {a.c_type}, {a.c_type}, {out.c_type}, {shift}>"
    return _vectors(name, *codes, Exact(total.astype(np.float64), np.zeros(len(total))), shift, out)


def function(name: str, bits: np.ndarray) -> Vectors:
    """A function of float32 bit patterns."""
    with np.errstate(all="ignore"):
        result = single_functions.FUNCTIONS[name](bits.astype(np.uint32).view(np.float32)).astype(np.float32)
    codes = np.where(np.isnan(result), 0x7FC00000, result.view(np.uint32))
    zeros = np.zeros_like(bits)
    return Vectors(f"&function<&hil::single::{name}>", bits, zeros, codes.astype(np.int64), zeros)


def arithmetic(name: str, a: np.ndarray, b: np.ndarray) -> Vectors:
    """Operation `name` of two float32 bit patterns: of the compiler, but for division."""
    x, y = a.astype(np.uint32).view(np.float32), b.astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        result = {
            "plus": lambda: x + y,
            "times": lambda: x * y,
            "hil::single::divide": lambda: single_functions.divide(x, y),
            "times_power": lambda: single_functions.scaled(x, y.astype(np.int64)).astype(np.float32),
        }[name]()
    codes = np.where(np.isnan(result), 0x7FC00000, result.view(np.uint32))
    return Vectors(f"&function2<&{name}>", a, b, codes.astype(np.int64), np.zeros_like(a))
