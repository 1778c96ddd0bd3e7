"""Layers with their activation inside: the limits of Relu and Clip at the one rounding of the exact sum.

Each layer kernel has two more forms. RELU keeps negative sums at zero before they are rounded, in every domain. CLIP
clamps the rounded sum to two codes of the result, before saturation. What is cut off counts as no saturation.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tinyhil.formats.format import AFFINE, Format
from tinyhil.language.form import Form, Limit
from tinyhil.language.graph import Node
from tinyhil.language.kernel import Kernel

NO_END = (1 << 31) - 1  # farther out than any code: saturates, and is counted
ENDS = ("low", "high")  # attributes of a layer's node that has an activation
NARROW = "narrow"  # of a layer of asymmetric 16 bits whose sums have 32 by its file
ADDEND = "addend"  # and the tensor that joins its sum, while it is lowered (tinyhil/ops/residual.py)


def forms(kernels: tuple[Kernel, ...], limits: tuple[Limit, ...] = (Limit.CLIP, Limit.RELU)) -> tuple[Kernel, ...]:
    """The forms of `kernels` with these limits."""
    return tuple(replace(k, form=replace(k.form, limit=limit)) for limit in limits for k in kernels)


def ends_of(node: Node) -> tuple[float, float] | None:
    """The limits inside of a layer's node; None if it has no activation."""
    return (float(node.attrs["low"]), float(node.attrs["high"])) if "low" in node.attrs else None


def clamped(node: Node, values: np.ndarray) -> np.ndarray:
    """Float results of a layer's node with its activation."""
    ends = ends_of(node)
    return values if ends is None else np.clip(values, np.float32(ends[0]), np.float32(ends[1]))


def limited_form(form: Form, node: Node, out: Format) -> tuple[Form, dict[str, int]]:
    """A layer's form with the activation of its node inside, and the params that this adds."""
    ends = ends_of(node)
    if ends is None:
        return form, {}
    if ends == (0.0, math.inf) and out.domain != AFFINE:
        return replace(form, limit=Limit.RELU), {"low": 0}
    assert out.grid is not None
    low, high = (_code(end, *out.grid) for end in ends)
    return replace(form, limit=Limit.CLIP), {"low": min(low, high), "high": high}


def _code(value: float, scale: float, zero: int) -> int:
    units = value / scale
    return int(math.copysign(NO_END, value)) if abs(units) >= NO_END - 512 else math.floor(units + 0.5) + zero
