"""Functions of asymmetric integers that TensorFlow Lite Micro alone defines code by code, so that their float model is
their integers (whole.py): squared differences, quotients, products of matrices, logarithms of Softmax, sums and
means, and comparisons.

Products are rounded twice (`rescale`), sums of products of int16 once (`rescale_wide`), as in
tensorflow/lite/kernels/internal/reference; reciprocals come from three steps of Newton's method (affine_softmax.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinyhil.formats.affine import MULTIPLIER_BITS, multiplier, rescale, rescale_wide
from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.kernel import Arrays
from tinyhil.ops.affine_softmax import INTEGER_BITS, ONE, SUM_DROP, exp_factor, exp_table_of, reciprocal_of
from tinyhil.ops.cells import clipped
from tinyhil.ops.operator import refuse
from tinyhil.ops.whole import Params, Routine, Table, pair_shape, period_of

MOST_INNER = 1 << 15  # products of bytes in one sum of 32 bits
ROOT_HALF, LN_2 = 1518500250, 1488522236  # with 31 fraction bits


def wrapped_shift(sums: np.ndarray, left: int) -> np.ndarray:
    """sums * 2**left in 32 bits, which wrap."""
    return (sums << max(left, 0)).astype(np.int32).astype(np.int64)


def _rescaled(sums: np.ndarray, factor: int, power: int) -> np.ndarray:
    return rescale(wrapped_shift(sums, power), factor, min(power, 0))


def _times(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
    return rescale(a, b, 0)


def _halved(x: np.ndarray, times: np.ndarray | int) -> np.ndarray:
    """x / 2**times, ties away from zero."""
    return rescale(x, ONE + 1, -np.asarray(times))


def _factors(node: Node, *prefixes: str) -> dict[str, int]:
    names = [f"{prefix}{part}" for prefix in prefixes for part in ("multiplier", "power")]
    return {name: int(node.attrs[name]) for name in names}


def _pair_params(node: Node, shapes: Sequence[Shape], *prefixes: str) -> dict[str, int]:
    out, grids = pair_shape(node, shapes), node.attrs["grids"]
    periods = [period_of(node, shape, out) for shape in shapes]
    sizes = {"count": element_count(out), "a_period": periods[0], "b_period": periods[1]}
    zeros = {"a_zero": int(grids[2]), "b_zero": int(grids[5]), "zero": int(grids[8])}
    return {**sizes, **zeros, **_factors(node, *prefixes)}


def _pairs(p: Params, arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    a, b = (np.tile(array, (1, p["count"] // array.shape[1])) for array in arrays)
    return a - p["a_zero"], b - p["b_zero"]


# ---- squared differences

_SQUARE = ("a_multiplier", "a_power", "b_multiplier", "b_power", "multiplier", "power")


def _square_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    bits = int(node.attrs["grids"][6])
    return {**_pair_params(node, shapes, "a_", "b_", ""), "lift": 7 if bits == 8 else 0, "bits": bits}


def _squares(p: Params, arrays: Arrays) -> np.ndarray:
    a, b = (x << p["lift"] for x in _pairs(p, arrays))
    d = rescale(a, p["a_multiplier"], p["a_power"]) - rescale(b, p["b_multiplier"], p["b_power"])
    return clipped(_rescaled(d * d, p["multiplier"], p["power"]) + p["zero"], p["bits"])


SQUARED_DIFFERENCE = Routine(
    "CodeSquares",
    "code_squares",
    "squared differences of int8 or int16",
    pair_shape,
    _square_params,
    ("count", "a_period", "b_period", "a_zero", "b_zero", *_SQUARE, "zero", "lift", "bits"),
    _squares,
    _SQUARE,
    operands=2,
)


# ---- quotients


def _divide_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    found = _pair_params(node, shapes, "")
    if found["power"] > 20:
        raise refuse(node, f"a quotient of scales of 2^{found['power']}", "calibrate it again")
    return found


def _quotients(p: Params, arrays: Arrays) -> np.ndarray:
    """Of nothing by nothing: 0; of a number by nothing: the end on its side."""
    a, b = _pairs(p, arrays)
    a = np.where(b < 0, -a, a)
    size = np.maximum(np.abs(b), 1)
    zeros = 31 - np.floor(np.log2(size)).astype(np.int64)
    inverse = reciprocal_of((size << zeros) >> 1)
    reach = np.where(a >= 0, 2 * a + 1, 2 * -a - 1)  # one bit more than a needs, but for powers of two below 0
    headroom = 31 - np.floor(np.log2(np.maximum(reach, 1))).astype(np.int64)
    product = _times(_times(a << headroom, inverse), p["multiplier"])
    right = 31 - zeros + headroom - p["power"]
    small = np.clip(right, 0, 31)
    quotient = np.where(right > 31, 0, _halved(product, small))
    quotient = np.where(b == 0, np.sign(a) * 255, quotient)
    return clipped(quotient + p["zero"], 8)


QUOTIENT = Routine(
    "CodeQuotients",
    "code_quotients",
    "quotients of int8",
    pair_shape,
    _divide_params,
    ("count", "a_period", "b_period", "a_zero", "b_zero", "multiplier", "power", "zero"),
    _quotients,
    ("multiplier", "power"),
    operands=2,
)


# ---- products of matrices


def _matmul_shape(node: Node, shapes: Sequence[Shape]) -> Shape:
    a, b = shapes
    if min(len(a), len(b)) < 2 or a[-1] != b[-2]:
        raise refuse(node, f"matrices {list(a)} and {list(b)}", "the file is damaged")
    return (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])


def _matmul_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    out, grids = _matmul_shape(node, shapes), node.attrs["grids"]
    batch, bits = out[:-2], int(grids[6])
    periods = [period_of(node, shape[:-2], batch) for shape in shapes]
    inner = shapes[0][-1]
    if bits == 8 and inner > MOST_INNER:
        raise refuse(node, f"sums of {inner} products", f"the limit is {MOST_INNER}")
    sizes = {"batches": element_count(batch), "a_batches": periods[0], "b_batches": periods[1]}
    sizes |= {"rows": out[-2], "inner": inner, "columns": out[-1]}
    zeros = {"a_zero": int(grids[2]), "b_zero": int(grids[5]), "zero": int(grids[8])}
    return {**sizes, **zeros, **_factors(node, ""), "bits": bits}


def _products(p: Params, arrays: Arrays) -> np.ndarray:
    a = (arrays[0] - p["a_zero"]).reshape(-1, p["a_batches"], p["rows"], p["inner"])
    b = (arrays[1] - p["b_zero"]).reshape(-1, p["b_batches"], p["inner"], p["columns"])
    a, b = (np.tile(x, (1, p["batches"] // x.shape[1], 1, 1)) for x in (a, b))
    sums = np.matmul(a, b)
    if p["bits"] == 8:
        codes = _rescaled(sums, p["multiplier"], p["power"])
    else:
        codes = rescale_wide(sums, p["multiplier"], p["power"])
    return clipped(codes + p["zero"], p["bits"]).reshape(len(sums), -1)


PRODUCT = Routine(
    "CodeProducts",
    "code_products",
    "products of two matrices of int8 or int16",
    _matmul_shape,
    _matmul_params,
    (
        *("batches", "a_batches", "b_batches", "rows", "inner", "columns", "a_zero", "b_zero"),
        *("multiplier", "power", "zero", "bits"),
    ),
    _products,
    ("multiplier", "power"),
    operands=2,
)


# ---- logarithms of Softmax


def _bits(x: np.ndarray) -> np.ndarray:
    """Leading zeros of 32 bits."""
    return 31 - np.floor(np.log2(np.maximum(x, 1).astype(np.float64))).astype(np.int64)


def logarithm(total: np.ndarray) -> np.ndarray:
    """ln of sums in units of 2**-19, with 26 fraction bits: of the nearer of two powers of two, then a fraction of
    polynomials (gemmlowp's log_x_for_x_greater_than_or_equal_to_1_impl)."""
    quarter = 1 << 23  # with 25 fraction bits
    high = _bits(total)
    a = np.clip(2 * _times(total << (high - 1), ROOT_HALF), -ONE - 1, ONE)
    below = _bits(_times(total, ROOT_HALF))
    b = total << (below - 1)
    v = np.minimum(a, b)
    z = np.maximum(((12 - high) << 25) + quarter, ((13 - below) << 25) - quarter)
    middle = 1805811301
    p, q = _half(v + middle), 2 * (v - middle)
    c = _times(q, q)
    above = _times(q, v) + _times(_times(q, c), 117049297)
    under = _times(p, 1057819769 + q + _times(c, 127690142)) + _times(q, 638450708)
    fraction = _times(_halved(above, 6), reciprocal_of(_half(under + ONE)))
    return 2 * (_times(z, LN_2) + fraction)


def _half(total: np.ndarray) -> np.ndarray:
    """Half of a sum, away from zero."""
    return np.sign(total) * ((np.abs(total) + 1) >> 1)


def _log_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    count, scale = shapes[0][-1], float(node.attrs["grids"][1])
    if count >= 1 << 12:
        raise refuse(node, f"{count} numbers", "the limit is 4095")
    m, power = exp_factor(scale)
    back, back_power = multiplier(1 / math.ldexp(m, power - MULTIPLIER_BITS))
    entries = len(exp_table_of(m, power))
    least = -math.floor(math.ldexp(31.0, MULTIPLIER_BITS - INTEGER_BITS - power)) - 1
    numbers = {"outer": element_count(shapes[0][:-1]), "count": count, "entries": entries}
    return {**numbers, "factor": m, "power": power, "back": back, "back_power": back_power, "least": max(least, -256)}


def _log_tables(p: Params) -> Sequence[Table]:
    distances = _rescaled(-np.arange(256), p["factor"], p["power"])
    return [("exponentials", exp_table_of(p["factor"], p["power"]), "int32"), ("distances", distances, "int32")]


def _logarithms(p: Params, arrays: Arrays) -> np.ndarray:
    exponentials, distances = (array.reshape(-1) for array in arrays[:2])
    x = arrays[2].reshape(len(arrays[2]), p["outer"], p["count"])
    d = x.max(axis=2, keepdims=True) - x
    counts = d < p["entries"]
    terms = _halved(exponentials[np.minimum(d, p["entries"] - 1)], SUM_DROP)
    ln = logarithm(np.where(counts, terms, 0).sum(axis=2, keepdims=True))
    least = np.maximum(p["least"], _rescaled(ln - (ONE + 1), p["back"], p["back_power"]))
    codes = _halved(distances[d] - ln, 22) + 127
    return np.where(-d > least, clipped(codes, 8), -128).reshape(len(x), -1)


LOG_SOFTMAX = Routine(
    "CodeLogSoftmax",
    "code_log_softmax",
    "logarithms of Softmax of int8 along the last axis",
    lambda node, shapes: shapes[0],
    _log_params,
    ("outer", "count", "entries", "back", "back_power", "least"),
    _logarithms,
    (),
    _log_tables,
)


# ---- sums and means


def _total_shape(node: Node, shapes: Sequence[Shape]) -> Shape:
    first, last = int(node.attrs["first"]), int(node.attrs["last"])
    return (*shapes[0][:first], *[1] * (last - first + 1), *shapes[0][last + 1 :])


def _total_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    (shape,), first, last, grids = shapes, int(node.attrs["first"]), int(node.attrs["last"]), node.attrs["grids"]
    along = element_count(shape[first : last + 1])
    if along > MOST_INNER:
        raise refuse(node, f"{along} elements in one sum", f"the limit is {MOST_INNER}")
    sizes = {"outer": element_count(shape[:first]), "along": along, "inner": element_count(shape[last + 1 :])}
    zeros = {"x_zero": int(grids[2]), "zero": int(grids[5]), "bits": int(grids[3])}
    return {**sizes, **zeros, **_factors(node, "")}


def _totals(p: Params, arrays: Arrays) -> np.ndarray:
    x = arrays[0].reshape(len(arrays[0]), p["outer"], p["along"], p["inner"])
    sums = x.sum(axis=2) - p["along"] * p["x_zero"]
    return clipped(_rescaled(sums, p["multiplier"], p["power"]) + p["zero"], p["bits"]).reshape(len(x), -1)


TOTAL = Routine(
    "CodeTotals",
    "code_totals",
    "sums and means of int8 or int16",
    _total_shape,
    _total_params,
    ("outer", "along", "inner", "x_zero", "multiplier", "power", "zero", "bits"),
    _totals,
    ("first", "last", "multiplier", "power"),
)


# ---- comparisons

COMPARISONS = ("less", "less_equal", "equal", "not_equal")


def _compared_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    found = _pair_params(node, shapes, "a_", "b_")
    return {**found, "mode": COMPARISONS.index(node.attrs["comparison"])}


def _compared(p: Params, arrays: Arrays) -> np.ndarray:
    a, b = (
        rescale(x << 8, p[f"{side}_multiplier"], p[f"{side}_power"])
        for side, x in zip("ab", _pairs(p, arrays), strict=True)
    )
    return np.asarray(getattr(np, COMPARISONS[p["mode"]])(a, b), np.int64)


_COMPARED = ("a_multiplier", "a_power", "b_multiplier", "b_power")
COMPARED = Routine(
    "CodeComparisons",
    "code_comparisons",
    "comparisons of int8 in units of 2^-8: 0 or 1",
    pair_shape,
    _compared_params,
    ("count", "a_period", "b_period", "a_zero", "b_zero", *_COMPARED, "mode"),
    _compared,
    (*_COMPARED, "comparison"),
    operands=2,
)
ROUTINES = (SQUARED_DIFFERENCE, QUOTIENT, PRODUCT, LOG_SOFTMAX, TOTAL, COMPARED)
KERNELS = tuple(routine.kernel for routine in ROUTINES)
OPERATORS = tuple(routine.operator for routine in ROUTINES)
