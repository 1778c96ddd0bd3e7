"""Normalize: each row less its mean, divided by its standard deviation; what LayerNormalization and its kin consist of.

y = (n x - S) / sqrt(n Q - S**2 + e), S the sum, Q the sum of squares, both exact integers; without centring S counts as
0. The radicand has as many fraction bits as e needs. The root is taken of the radicand moved to 46..48 bits, right to
2**-23 of itself, and the quotient is rounded once. With `unit` 1 in place of n the row is divided by its Euclidean
length.

Operands or results that are no integers: the mean, the differences from it, the mean of their squares, its root and the
quotients, in single precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinyhil.formats import single_functions as single
from tinyhil.formats.codec import requantize
from tinyhil.formats.format import SINGLE, Format
from tinyhil.language.arithmetic import sum_along
from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops.division import rounded_quotient, whole_root
from tinyhil.ops.operator import Arithmetic, Arrays, Form, Kernel, Operator, axis_of, by_domain, refuse

MAX_COUNT = 1 << 14  # n Q - S**2 stays below 2**58
ROOT_BITS = 24
EPSILON_BITS = 12
MAX_SHIFT = 62


def _infer(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    axis_of(node, node.attrs["axis"], len(shapes[0]))
    return [shapes[0]]


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    """Rows are the axes from `axis` on; a `last` of 0 makes them this one axis."""
    x = arrays[0].astype(np.float64)
    root = root_of(node, x)
    return [np.where(root == 0, 0, _centred(node, x) / np.where(root == 0, 1, root)).astype(np.float32)]


def root_of(node: Node, x: np.ndarray) -> np.ndarray:
    """What the rows are divided by, with axes of 1."""
    squares = np.square(_centred(node, x))
    reduced = squares.mean if node.attrs["mean"] else squares.sum
    root: np.ndarray = np.sqrt(reduced(axis=row_axes(node, x), keepdims=True) + node.attrs["epsilon"])
    return root


def _centred(node: Node, x: np.ndarray) -> np.ndarray:
    return x - x.mean(axis=row_axes(node, x), keepdims=True) if node.attrs["centre"] else x


def row_axes(node: Node, x: np.ndarray) -> tuple[int, ...]:
    """The axes of a row, of x (samples, ...)."""
    first = axis_of(node, node.attrs["axis"], x.ndim - 1) + 1
    return tuple(range(first, x.ndim)) if node.attrs["to_end"] else (first,)


def _extent(node: Node, lowering: Lowering) -> dict[str, int]:
    """Rows of `along` elements; ModelError if they are too long."""
    shape = lowering.shape(node.inputs[0])
    axis = axis_of(node, node.attrs["axis"], len(shape))
    end = len(shape) if node.attrs["to_end"] else axis + 1
    along = element_count(shape[axis:end])
    if along > MAX_COUNT:
        raise refuse(node, f"rows of {along} elements, the limit is {MAX_COUNT}", "normalize shorter rows")
    return {"outer": element_count(shape[:axis]), "along": along, "inner": element_count(shape[end:])}


def _lower(node: Node, lowering: Lowering) -> None:
    extent = _extent(node, lowering)
    along = extent["along"]
    x, fmt = lowering.operand(node.inputs[0]), lowering.loaded(node.inputs[0])
    out = lowering.define(node.outputs[0])
    unit = along if node.attrs["mean"] else 1
    lift, epsilon = _epsilon(node, node.attrs["epsilon"] * unit * unit, fmt.exponent, unit * along * fmt.lowest**2)
    params = {
        **extent,
        "unit": unit,
        "centre": int(node.attrs["centre"]),
        "epsilon_low": epsilon & 0x7FFFFFFF,
        "epsilon_high": epsilon >> 31,
        "lift": lift,
        "exponent": out.format.exponent,
    }
    if not -24 <= out.format.exponent <= 24:
        raise refuse(node, f"results in units of 2^{out.format.exponent}", "calibrate on other inputs")
    lowering.emit(node, Op(NORMALIZE.form, node.name, (x,), out.name, params, 63))


def _epsilon(node: Node, scaled: float, exponent: int, bound: int) -> tuple[int, int]:
    """(lift, e): the radicand, up to `bound`, is computed times 4**lift, in which e is right to 2**-EPSILON_BITS of
    itself, or as right as 63 bits allow: then it is small beside the least radicand that is not 0."""
    if scaled <= 0:
        return 0, 0
    power = math.log2(scaled) - 2 * exponent
    if power >= 60:
        raise refuse(node, f"epsilon {node.attrs['epsilon']} for operands in units of 2^{exponent}", "use 8 bits")
    wanted = max(0, math.ceil((EPSILON_BITS - power) / 2))
    lift = min(wanted, (62 - bound.bit_length()) // 2)
    return lift, math.floor(math.ldexp(scaled, 2 * (lift - exponent)) + 0.5)


def _lower_single(node: Node, lowering: Lowering) -> None:
    x, out = lowering.operand(node.inputs[0]), lowering.define(node.outputs[0])
    params = {
        **_extent(node, lowering),
        "centre": int(node.attrs["centre"]),
        "mean": int(node.attrs["mean"]),
        "epsilon": int(np.array(node.attrs["epsilon"], np.float32).view(np.uint32)),
        "power": lowering.loaded(node.inputs[0]).exponent,
        "shift": out.format.exponent,
    }
    lowering.emit(node, Op(SINGLE_NORMALIZE.form, node.name, (x,), out.name, params, domain=SINGLE))


def _execute_single(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p, count = op.params, np.array(op.params["along"], np.float32)
    x = single.scaled(arrays[0], p["power"]).reshape(-1, p["outer"], p["along"], p["inner"])
    with np.errstate(all="ignore"):
        centred = x - single.divide(sum_along(x, 2), count)[:, :, None] if p["centre"] else x
        power = sum_along(centred * centred, 2)
        power = single.divide(power, count) if p["mean"] else power
        root = single.sqrt(power + np.array(p["epsilon"], np.uint32).view(np.float32))[:, :, None]
        y = np.where(root == 0, np.float32(0), single.divide(centred, root))
    return requantize(y.reshape(len(x), -1), p["shift"], out)


def _bit_length(x: np.ndarray) -> np.ndarray:
    length = np.zeros(x.shape, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        more = x >> (length + step - 1) != 0
        length = np.where(more, length + step, length)
    return length


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    x = arrays[0].reshape(-1, p["outer"], p["along"], p["inner"])
    total = x.sum(axis=2, keepdims=True) * p["centre"]
    epsilon = p["epsilon_low"] + (p["epsilon_high"] << 31)
    radicand = ((p["unit"] * (x * x).sum(axis=2, keepdims=True) - total * total) << (2 * p["lift"])) + epsilon
    halves = (2 * ROOT_BITS - _bit_length(radicand)) >> 1  # the radicand times 4**halves has 47 or 48 bits
    moved = np.where(halves >= 0, radicand << (2 * np.maximum(halves, 0)), radicand >> (2 * np.maximum(-halves, 0)))
    root = whole_root(moved)
    power = np.minimum(halves + p["lift"] - p["exponent"], MAX_SHIFT)  # beyond it every numerator is 0
    numerator = (p["unit"] * x - total) << np.maximum(power, 0)
    denominator = np.where(root == 0, 1, root) << np.maximum(-power, 0)
    codes, clipped = requantize(rounded_quotient(numerator, denominator).reshape(len(x), -1), 0, out)
    zero = np.broadcast_to(root == 0, x.shape).reshape(len(x), -1)
    return np.where(zero, 0, codes), clipped & ~zero


_PARAMS = ("outer", "along", "inner", "unit", "centre", "epsilon_low", "epsilon_high", "lift", "exponent")
NORMALIZE = Kernel(
    Form("normalize"),
    "rows less their mean over their deviation: exact sums, a root of 24 bits, one rounding",
    _execute,
    _PARAMS,
)
SINGLE_NORMALIZE = Kernel(
    Form("normalize", Arithmetic.SINGLE),
    "rows less their mean over their deviation in single precision",
    _execute_single,
    ("outer", "along", "inner", "centre", "mean", "epsilon", "power", "shift"),
    ("centre", "mean", "power", "shift"),
    coded=SINGLE,
)
KERNELS = (NORMALIZE, SINGLE_NORMALIZE)

OPERATORS = (
    Operator(
        "Normalize",
        "rows less their mean over their deviation, or over their length: part of LayerNormalization and its kin",
        _infer,
        _evaluate,
        by_domain(_lower, _lower_single),
        ("axis", "to_end", "centre", "mean", "epsilon"),
        integers_only=True,
    ),
)
