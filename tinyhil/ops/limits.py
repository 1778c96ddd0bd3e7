"""Layers with their activation inside: the limits of Relu and Clip at the one rounding of the exact sum.

Each layer kernel has two more forms. `_relu` keeps negative sums at zero before they are rounded, in every domain.
`_clip` clamps the rounded sum to two codes of the result, before saturation. What is cut off counts as no saturation.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tinyhil.formats.format import AFFINE, Format
from tinyhil.graph import Node
from tinyhil.kernel import Kernel

RELU, CLIP = "_relu", "_clip"
NO_END = (1 << 31) - 1  # farther out than any code: saturates, and is counted
ENDS = ("low", "high")  # attributes of a layer's node that has an activation
ADDEND = "addend"  # and the tensor that joins its sum, while it is lowered (tinyhil/ops/residual.py)


def forms(kernels: tuple[Kernel, ...], only_clip: bool = False) -> tuple[Kernel, ...]:
    """The forms of `kernels` with limits."""
    clipping = tuple(
        replace(
            k,
            name=k.name + CLIP,
            summary=f"{k.name}, clamped to two codes",
            limit="within",
            template=k.template or k.name,
        )
        for k in kernels
    )
    if only_clip:
        return clipping
    return clipping + tuple(
        replace(
            k, name=k.name + RELU, summary=f"{k.name}, not below 0", limit="non_negative", template=k.template or k.name
        )
        for k in kernels
    )


def ends_of(node: Node) -> tuple[float, float] | None:
    """The limits inside of a layer's node; None if it has no activation."""
    return (float(node.attrs["low"]), float(node.attrs["high"])) if "low" in node.attrs else None


def clamped(node: Node, values: np.ndarray) -> np.ndarray:
    """Float results of a layer's node with its activation."""
    ends = ends_of(node)
    return values if ends is None else np.clip(values, np.float32(ends[0]), np.float32(ends[1]))


def limit_of(node: Node, out: Format) -> tuple[str, dict[str, int]]:
    """What to add to the name of the kernel of a layer, and to its parameters."""
    ends = ends_of(node)
    if ends is None:
        return "", {}
    if ends == (0.0, math.inf) and out.domain != AFFINE:
        return RELU, {"low": 0}
    assert out.grid is not None
    low, high = (_code(end, *out.grid) for end in ends)
    return CLIP, {"low": min(low, high), "high": high}


def _code(value: float, scale: float, zero: int) -> int:
    units = value / scale
    return int(math.copysign(NO_END, value)) if abs(units) >= NO_END - 512 else math.floor(units + 0.5) + zero
