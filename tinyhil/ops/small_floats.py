"""FloatCast: real numbers as ONNX's floats of 8 and 4 bits hold them, whatever an assignment says.

What is beyond the largest becomes it (`saturate` 1), or what ONNX makes of it: infinity in E5M2, NaN in the others.
Formats keep no such values, so a board gives the largest and counts it as saturated. `top` says what the highest codes
stand for, as `policy` of tinyhil/formats/minifloat.py: 0 numbers, 1 NaN, 2 infinities and NaN. `towards`, if not 0,
says that the number is a power of two, E8M0, and how it is rounded: 1 up, 2 down, 3 to the nearest. Zeros and negative
numbers are none: without `saturate` NaN, else the smallest.
"""

from __future__ import annotations

import numpy as np

from tinyhil.formats.e8m0 import E8M0, ROUNDINGS
from tinyhil.formats.minifloat import FINITE, IEEE, NAN, Minifloat
from tinyhil.language.graph import Node
from tinyhil.ops.operator import Arrays

FLOAT_CAST = "FloatCast"
ATTRIBUTES = ("exponent_bits", "mantissa_bits", "bias", "top", "saturate", "towards")
POLICIES = (FINITE, NAN, IEEE)
SmallFloat = Minifloat | E8M0
SMALLEST_WITH_NAN = 8  # bits: E2M1 has none, in ONNX as here


def small_float(node: Node) -> SmallFloat:
    """The format that the attributes describe."""
    towards = int(node.attrs.get("towards", 0))
    if towards:
        return E8M0(ROUNDINGS[towards - 1])
    exponent, mantissa, bias, top = (int(node.attrs[name]) for name in ATTRIBUTES[:4])
    return Minifloat(exponent, mantissa, bias, POLICIES[top])


def attributes_of(fmt: SmallFloat, saturate: bool) -> dict[str, int]:
    """Of a FloatCast to `fmt`."""
    towards = ROUNDINGS.index(fmt.towards) + 1 if fmt.towards else 0
    values = (fmt.exponent_bits, fmt.mantissa_bits, fmt.bias, POLICIES.index(fmt.policy), int(saturate), towards)
    return dict(zip(ATTRIBUTES, values, strict=True))


def nearest_float(values: np.ndarray, fmt: SmallFloat, saturate: bool) -> np.ndarray:
    """`values` (any shape) as `fmt` holds them, float32: rounded once, as the format does."""
    codes, clipped = fmt.encode(values)
    made = fmt.decode(codes)
    is_nan = np.isnan(values)
    if not saturate:
        beyond = np.copysign(np.inf, values) if fmt.policy == IEEE else np.full_like(made, np.nan)
        made = np.where(clipped & ~is_nan, beyond, made)
    none = np.nan if fmt.bits >= SMALLEST_WITH_NAN else 0.0
    return np.asarray(np.where(is_nan, none, made), np.float32)


def evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    """As ONNX's Cast."""
    return [nearest_float(arrays[0], small_float(node), bool(node.attrs["saturate"]))]
