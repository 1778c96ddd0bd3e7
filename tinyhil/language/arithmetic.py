"""How kernels compute: operands loaded as the domain asks, sums and products without rounding.

The numpy counterpart of the C++ accumulators: int64 for `Sum` and `Wide`, float64 (exact) for `Real`, float32 for
single precision. Every kernel's reference is written over these and ends in one `requantize`.
"""

from __future__ import annotations

import numpy as np

from tinyhil.formats.codec import Accumulator, requantize
from tinyhil.formats.exact import Exact, exact_product, exact_sum
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import CODED, INTEGER, SINGLE, Domain, Format
from tinyhil.formats.quire import Window
from tinyhil.language.program import Op

WHOLE = Fixed(63, 0)  # rounded sums, not yet saturated


def load(codes: np.ndarray, fmt: Format, domain: Domain) -> np.ndarray:
    """Codes as the numbers an operation in `domain` sees, in units of 2**exponent of `lowering.loaded(fmt)`."""
    if domain == INTEGER and fmt.is_binary_point:
        return codes
    values = fmt.decode(codes)
    if fmt.domain != SINGLE:  # no encoder makes these of numbers; as operands they count as 0
        values = np.where(np.isfinite(values), values, 0.0)
    if fmt.domain == INTEGER:
        values = np.ldexp(values, -fmt.granule)
    if domain == INTEGER:
        return values.astype(np.int64)
    return values if domain == CODED else values.astype(np.float32)


def scaled(numbers: np.ndarray, power: int) -> np.ndarray:
    """numbers * 2**power; integers take powers of at least 0."""
    return numbers << power if numbers.dtype.kind == "i" else np.ldexp(numbers, power)


def plus(a: np.ndarray, b: np.ndarray) -> Accumulator:
    """a + b: exact, or one rounding in single precision."""
    return exact_sum(a, b) if a.dtype == np.float64 else a + b


def times(a: np.ndarray, b: np.ndarray) -> Accumulator:
    """a * b: exact, or one rounding in single precision."""
    return exact_product(a, b) if a.dtype == np.float64 else a * b


def like(value: float, numbers: np.ndarray) -> np.ndarray:
    """A constant in the arithmetic of `numbers`; infinities become the ends of what elements can be."""
    if numbers.dtype.kind == "i":
        return np.asarray(min(max(value, -(1 << 15)), (1 << 15) - 1) if np.isinf(value) else value, np.int64)
    return np.asarray(value, numbers.dtype)


def sum_along(numbers: np.ndarray, axis: int) -> np.ndarray:
    """The sum along `axis`: exact for integers, in order from the first to the last for floating point."""
    if numbers.dtype.kind == "i":
        return np.asarray(numbers.sum(axis=axis))
    total = np.zeros_like(np.take(numbers, 0, axis=axis))
    for k in range(numbers.shape[axis]):
        total = total + np.take(numbers, k, axis=axis)
    return total


def first_extreme(numbers: np.ndarray, axis: int, sign: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest (sign 1) or smallest (-1) number along `axis` and its index: the first that no later one beats."""
    if numbers.dtype.kind == "i":
        index = (sign * numbers).argmax(axis=axis)
        return np.take_along_axis(numbers, np.expand_dims(index, axis), axis).squeeze(axis), index
    best = np.take(numbers, 0, axis=axis)
    index = np.zeros(best.shape, np.int64)
    for k in range(1, numbers.shape[axis]):
        value = np.take(numbers, k, axis=axis)
        better = value > best if sign > 0 else value < best
        best, index = np.where(better, value, best), np.where(better, k, index)
    return best, index


def start_of_sums(op: Op, bias: np.ndarray, addend: np.ndarray | None) -> np.ndarray:
    """What joins integer sums of products: bias * 2**bias_shift + addend * 2**add_shift."""
    start = scaled(bias, op.params.get("bias_shift", 0))
    return start if addend is None else start + scaled(addend, op.params["add_shift"])


def sum_of_products(op: Op, a: np.ndarray, b: np.ndarray, bias: np.ndarray) -> tuple[Accumulator, np.ndarray]:
    """a @ b + bias * 2**bias_shift, and how often a term was clipped.

    a (..., r, k), b (..., k, n), bias broadcast to (..., r, n). Integers are exact, the window cuts each product to its
    lowest bit, single precision begins with the bias and rounds every step in the order of k.
    """
    power = op.params.get("bias_shift", 0)
    if op.domain == INTEGER:
        total = np.matmul(a, b) + scaled(bias, power)
        return total, np.zeros(total.shape, np.int64)
    if op.domain == CODED:
        window = Window(op.accumulator_bits, op.low, op.guard)
        units, clipped = window.matmul(a, b)
        start, also_clipped = window.start(bias, power)
        return window.value(units + start), clipped + also_clipped
    shape = np.matmul(a[..., :1], b[..., :1, :]).shape
    total = np.broadcast_to(scaled(bias, power), shape)
    for k in range(a.shape[-1]):
        total = total + a[..., :, k, None] * b[..., None, k, :]
    return total, np.zeros(shape, np.int64)


def rounded(total: Accumulator, clipped: np.ndarray, op: Op, out: Format) -> tuple[np.ndarray, np.ndarray]:
    """(samples, count) codes of a sum and how often anything saturated."""
    samples = len(clipped)
    flat = total.reshape(samples, -1)
    codes, saturated = limited(flat, op.params["shift"], op, out)
    return codes, saturated + clipped.reshape(samples, -1)


def limited(total: Accumulator, shift: int, op: Op, out: Format) -> tuple[np.ndarray, np.ndarray]:
    """`requantize` of a layer that has its activation inside (tinyhil/ops/limits.py): the parameter `low` alone keeps
    negative sums at zero, `low` and `high` are codes of the result. What an activation cuts off is no saturation."""
    if "low" not in op.params:
        return requantize(total, shift, out)
    if "high" not in op.params:
        return requantize(_non_negative(total), shift, out)
    whole, _ = requantize(total, shift, WHOLE)
    codes = np.clip(whole, op.params["low"], op.params["high"])
    in_range = np.clip(codes, out.lowest, out.highest)
    return in_range, in_range != codes


def _non_negative(total: Accumulator) -> Accumulator:
    if isinstance(total, Exact):
        below = total.value < 0
        return Exact(np.where(below, 0.0, total.value), np.where(below, 0.0, total.residue))
    return np.where((total < 0) | (total == 0), total.dtype.type(0), total)  # -0.0 becomes 0.0
