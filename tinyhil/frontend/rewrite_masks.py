"""Masks of minus infinity, as attention has them: no number a board could hold, so they become one far enough below.

What is masked gets the smallest of all elements less `DISTANCE`: the exponential of that is lost in what Softmax
rounds, and the range that a scale must cover stays near theirs. Plus infinity likewise, above the largest.
"""

from __future__ import annotations

import numpy as np

from tinyhil.compiler.masks import DISTANCE
from tinyhil.frontend.rewrite import Results, Rewrite, Site


def _infinite(site: Site, name: str) -> np.ndarray | None:
    """Where the constant `name` is infinite; None if it is nowhere, or no constant."""
    value = site.value(name)
    if value is None or value.dtype.kind != "f" or not np.isinf(value).any():
        return None
    if np.unique(value[np.isinf(value)]).size > 1:
        raise site.refuse(f"operand '{name}' is infinite on both sides", "bound one of them by Clip")
    return np.isinf(value)


def _far(site: Site, x: str, mask: str) -> str:
    """A scalar beyond all elements of `x`, on the side of the infinities of `mask`."""
    value = site.value(mask)
    below = value is not None and value[np.isinf(value)][0] < 0
    end = site.make("ReduceMin" if below else "ReduceMax", x, keepdims=0)
    return site.make("Add", end, site.constant("distance", -DISTANCE if below else DISTANCE))


def _finite(site: Site, name: str, where: np.ndarray) -> str:
    return site.constant("finite", np.where(where, 0, site.static(site.call.inputs.index(name), "mask")))


def _where(site: Site) -> Results:
    condition, a, b = site.call.inputs
    for mask, x in ((a, b), (b, a)):
        infinite = _infinite(site, mask)
        if infinite is None or site.value(x) is not None:
            continue
        far = _far(site, x, mask)
        if not infinite.all():
            far = site.make("Where", site.constant("mask", infinite, bool), far, _finite(site, mask, infinite))
        return site.last("Where", condition, *((far, x) if mask == a else (x, far)))
    return None


def _add(site: Site) -> Results:
    for mask, x in (site.call.inputs, site.call.inputs[::-1]):
        infinite = _infinite(site, mask)
        if infinite is None or site.value(x) is not None:
            continue
        finite = _finite(site, mask, infinite)
        moved = site.make("Add", x, finite)
        return site.last("Where", site.constant("mask", infinite, bool), _far(site, moved, mask), moved)
    return None


REWRITES = (
    Rewrite("Where", "a where the condition holds, else b; broadcast; a constant may be infinite", _where),
    Rewrite("Add", "sum; broadcast along any axes; a constant may be minus infinity in places", _add),
)
