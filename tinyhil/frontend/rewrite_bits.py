"""Rewrites of what looks at the bits of numbers: shifts, masks, and what no number is."""

from __future__ import annotations

import numpy as np
import onnx

from tinyhil.frontend.rewrite import Results, Rewrite, Site
from tinyhil.frontend.whole_types import NARROW

MOST_BITS = 24  # of whole numbers that float32 holds
OF_32 = (onnx.TensorProto.INT32, onnx.TensorProto.UINT32)
SIGNED = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)


def _bit_shift(site: Site) -> Results:
    """By constant counts: a product, or the whole part of a quotient. Types of 8 and 16 bits lose what leaves them;
    by as many bits as a type has, and by counts below 0, nothing is left, to the right the sign."""
    x, counts = site.input(0), site.static(1, "count").astype(np.int64)
    direction, kind = site.attr("direction", ""), site.builder.kinds.get(x)
    low, values = NARROW.get(kind, (-1, 0)) if kind is not None else (-1, 0)
    width = values.bit_length() - 1 if values else 32 if kind in OF_32 else 64
    counts = np.where((counts < 0) | (counts > width), width, counts)
    if direction == "RIGHT":
        counts = np.minimum(counts, MOST_BITS if not values else width - (low < 0))
    used = counts[counts < width] if direction == "LEFT" else counts
    if direction not in ("LEFT", "RIGHT") or used.max(initial=0) > MOST_BITS - (direction == "LEFT"):
        raise site.refuse(
            f"direction '{direction}' by {used.max(initial=0)} bits", f"0 to {MOST_BITS - 1} are supported"
        )
    factors = np.where(counts < width, 2.0**counts, 0) if direction == "LEFT" else 2.0**-counts
    moved = site.make("Mul", x, site.constant("factors", factors))
    if direction == "RIGHT":
        return site.last("Floor", moved)
    if not values:
        return site.last("Identity", moved)
    return _wrapped(site, moved, low, values)


def _wrapped(site: Site, x: str, low: int, values: int) -> tuple[str]:
    """What a type of so many values, `low` the lowest, keeps of whole numbers."""
    inside = site.make("Mod", site.make("Sub", x, site.constant("low", low)), site.constant("values", values))
    return site.last("Add", inside, site.constant("back", low))


def _bit_cast(site: Site) -> Results:
    """From one type of whole numbers to another of as many bits."""
    x, target = site.input(0), int(site.attr("to", 0))
    kind = onnx.TensorProto.UINT8 if x in site.builder.flags else site.builder.kinds.get(x, 0)
    known = {one: values for one, (_, values) in NARROW.items()}
    if kind not in known or known[kind] != known.get(target):
        raise site.refuse("bits of numbers with a point, or of 32 bits", "whole numbers of 2 to 16 bits are supported")
    return _wrapped(site, x, *NARROW[target])


def _bitwise(site: Site) -> Results:
    """Types of 64 bits without a sign hold numbers that no board's 32 bits do."""
    if any(site.builder.kinds.get(name) == onnx.TensorProto.UINT64 for name in site.call.inputs):
        raise site.refuse("whole numbers of 64 bits without a sign", "use a type of 32 bits")
    return None


def _bitwise_not(site: Site) -> Results:
    """-1 - x; of a type without a sign the largest number less x."""
    x = site.input(0)
    kind = site.builder.kinds.get(x)
    if kind in NARROW:
        low, values = NARROW[kind]
        return site.last("Sub", site.constant("all", 2 * low + values - 1), x)
    if kind is not None and kind not in SIGNED:
        raise site.refuse("all bits of a type of 32 bits without a sign", "whole numbers are below 2^24; use 16 bits")
    return site.last("Sub", site.constant("all", -1.0), x)


def _is_nan(site: Site) -> Results:
    """What is not equal to itself: never, but in floats."""
    return site.last("Not", site.make("Equal", site.input(0), site.input(0)))


def _is_inf(site: Site) -> Results:
    """What leaves no 0 where it is taken from itself, and is not NaN: never, but in floats."""
    x = site.input(0)
    zero = site.constant("zero", 0.0)
    here = site.make("Not", site.make("Equal", site.make("Sub", x, x), zero))
    here = site.make("And", here, site.make("Equal", x, x))
    for option, op in (("detect_positive", "Less"), ("detect_negative", "Greater")):
        if not int(site.attr(option, 1)):
            here = site.make("And", here, site.make(op, x, zero))
    return site.last("Identity", here)


_BITS = "of whole numbers, run-time or constant; broadcast"
REWRITES = (
    Rewrite("BitShift", "by constant counts; results below 2^24", _bit_shift, ("direction",)),
    Rewrite("BitCast", "of whole numbers of up to 16 bits", _bit_cast, ("to",)),
    *(Rewrite(f"Bitwise{name}", _BITS, _bitwise) for name in ("And", "Or", "Xor")),
    Rewrite("BitwiseNot", "of whole numbers", _bitwise_not),
    Rewrite("IsNaN", "never, but in formats of floats", _is_nan),
    Rewrite("IsInf", "never, but in formats of floats", _is_inf, ("detect_negative", "detect_positive")),
)
