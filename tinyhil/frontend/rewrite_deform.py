"""DeformConv whose offsets are constant: what each tap of the kernel sees of a plane is a product with a constant."""

from __future__ import annotations

import numpy as np

from tinyhil.frontend.rewrite import Results, Rewrite, Site
from tinyhil.frontend.rewrite_linear import MOST_BASIS, reshaped


def _sampled(side_h: int, side_w: int, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """(pixels, samples): the shares of the pixels of a plane in samples between them; beyond the plane is 0."""
    near = [
        np.maximum(0, 1 - np.abs(at.reshape(1, -1) - np.arange(side)[:, None]))
        for at, side in ((rows, side_h), (columns, side_w))
    ]
    return np.einsum("ys,xs->yxs", *near).reshape(side_h * side_w, -1)


def _pair_of(site: Site, name: str, default: int) -> list[int]:
    found = [int(value) for value in site.attr(name, None) or [default] * 2]
    if len(found) != 2:
        raise site.refuse(f"{name} {found}", "planes of two axes are supported")
    return found


def _deform_conv(site: Site) -> Results:
    """Columns of each group of offsets, of which a matrix of weights makes the planes of the result."""
    x, weights = site.input(0), site.input(1)
    offsets, mask = site.static(2, "offset"), site.static(4, "mask") if site.input(4) else None
    (batch, channels, height, width), (outputs, inner, *kernel) = site.shape(x), site.shape(weights)
    groups, parts = int(site.attr("group", 1)), int(site.attr("offset_group", 1))
    steps, apart = _pair_of(site, "strides", 1), _pair_of(site, "dilations", 1)
    pads = [int(pad) for pad in site.attr("pads", None) or [0] * 4]
    out, taps = offsets.shape[2:], int(np.prod(kernel))
    if batch != 1 or len(offsets) != 1 or groups < 1 or parts < 1 or channels % parts or inner * groups != channels:
        what = f"planes {list(site.shape(x))} in {groups} groups, offsets {list(offsets.shape)}"
        raise site.refuse(what, "a batch of 1 in whole groups is supported")
    if height * width * taps * int(np.prod(out)) > MOST_BASIS * 16:
        what = f"{taps} taps at {list(out)} places of planes {height} x {width}"
        raise site.refuse(what, f"products up to {MOST_BASIS * 16} are supported")
    offsets = offsets.reshape(parts, *kernel, 2, *out)
    shares = np.ones((parts, *kernel, *out)) if mask is None else mask.reshape(parts, *kernel, *out)
    places = np.meshgrid(*(np.arange(side) for side in (*kernel, *out)), indexing="ij")
    at = [places[axis] * apart[axis] + places[axis + 2] * steps[axis] - pads[axis] for axis in (0, 1)]
    each, columns = channels // parts, []
    for part in range(parts):
        rows, across = (at[axis] + offsets[part, :, :, axis] for axis in (0, 1))
        matrix = _sampled(height, width, rows, across) * shares[part].reshape(1, -1)
        ends = {"starts": [part * each], "ends": [(part + 1) * each], "axes": [1]}
        planes = site.make("Slice", x, *(site.constant(name, value, np.int64) for name, value in ends.items()))
        columns.append(site.make("MatMul", reshaped(site, planes, each, height * width), site.constant("taps", matrix)))
    joined = site.make("Concat", *columns, axis=0) if parts > 1 else columns[0]
    count = int(np.prod(out))
    stacks = reshaped(site, joined, groups, inner * taps, count)
    layers = reshaped(site, weights, groups, outputs // groups, inner * taps)
    made = reshaped(site, site.make("MatMul", layers, stacks), 1, outputs, *out)
    if not site.input(3):
        return site.last("Identity", made)
    return site.last("Add", made, reshaped(site, site.input(3), 1, outputs, 1, 1))


REWRITES = (
    Rewrite(
        "DeformConv",
        "as MatMul; constant offsets and masks",
        _deform_conv,
        ("dilations", "group", "kernel_shape", "offset_group", "pads", "strides"),
    ),
)
