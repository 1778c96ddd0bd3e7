"""Resize and Upsample: along one axis after the other, nearest by Gather, linear by Interpolate.

Where an output element lies in the input is known when the model is read, so every coordinate mode costs the same.
Source: the ONNX specification of Resize, attribute coordinate_transformation_mode.
"""

from __future__ import annotations

import numpy as np

from tinyhil.frontend.rewrite import Results, Rewrite, Site
from tinyhil.frontend.rewrite_linear import interpolated

MOST_ELEMENTS = 1 << 16
CROP = "tf_crop_and_resize"


def _resize(site: Site) -> Results:
    shape = site.shape(site.input(0))
    axes = [int(axis) % len(shape) for axis in site.attr("axes", None) or range(len(shape))]
    sizes, scales = _targets(site, axes)
    mode = site.attr("mode", "nearest")
    is_cropped = site.attr("coordinate_transformation_mode", "half_pixel") == CROP
    roi = site.static(1, "roi").reshape(2, -1) if is_cropped else np.array([[0.0] * len(axes), [1.0] * len(axes)])
    by_matrix = mode == "cubic" or is_cropped or int(site.attr("antialias", 0)) or int(site.attr("exclude_outside", 0))
    x = site.input(0)
    for axis, size, scale, ends in zip(axes, sizes, scales, roi.T, strict=True):
        if size == shape[axis] and scale == 1 and not is_cropped:
            continue
        if not 1 <= size <= MOST_ELEMENTS:
            raise site.refuse(f"{size} elements along axis {axis}", f"1 to {MOST_ELEMENTS} are supported")
        if by_matrix:
            x = interpolated(site, x, axis, size, scale, ends.tolist())
            continue
        where = _coordinates(site, shape[axis], size, scale)
        x = _nearest(site, x, axis, where) if mode == "nearest" else _linear(site, x, axis, where)
    return site.last("Identity", x)


def _targets(site: Site, axes: list[int]) -> tuple[list[int], list[float]]:
    """Output elements and scale of each axis."""
    shape = site.shape(site.input(0))
    upsample = site.call.op == "Upsample"
    given_sizes = site.input(3)
    if given_sizes:
        sizes = [int(v) for v in site.static(3, "sizes").reshape(-1)]
        sides = [shape[axis] for axis in axes]
        if len(sizes) != len(axes):
            raise site.refuse(f"sizes {sizes} for {len(axes)} axes", "the file is damaged")
        policy = site.attr("keep_aspect_ratio_policy", "stretch")
        if policy == "stretch":
            return sizes, [size / side for size, side in zip(sizes, sides, strict=True)]
        choose = min if policy == "not_larger" else max
        scale = choose(size / side for size, side in zip(sizes, sides, strict=True))
        return [int(np.floor(scale * side + 0.5)) for side in sides], [scale] * len(axes)
    scales = [float(v) for v in site.static(1 if upsample else 2, "scales").reshape(-1)]
    if len(scales) != len(axes) or min(scales, default=1.0) <= 0:
        raise site.refuse(f"scales {scales} for {len(axes)} axes", "the file is damaged")
    return [int(np.floor(shape[axis] * scale)) for axis, scale in zip(axes, scales, strict=True)], scales


def _coordinates(site: Site, side: int, size: int, scale: float) -> np.ndarray:
    """Where each of `size` outputs lies in an input of `side` elements."""
    mode, at = site.attr("coordinate_transformation_mode", "half_pixel"), np.arange(size, dtype=np.float64)
    if site.call.op == "Upsample":
        mode = "asymmetric"
    if mode == "half_pixel":
        return (at + 0.5) / scale - 0.5
    if mode == "asymmetric":
        return at / scale
    if mode == "align_corners":
        return at * (side - 1) / (size - 1) if size > 1 else at * 0
    if mode == "pytorch_half_pixel":
        return (at + 0.5) / scale - 0.5 if size > 1 else at * 0
    if mode == "half_pixel_symmetric":
        whole = side * scale
        return side / 2 * (1 - size / whole) + (at + 0.5) / scale - 0.5
    raise site.refuse(f"coordinate_transformation_mode {mode}", "use half_pixel, asymmetric or align_corners")


def _nearest(site: Site, x: str, axis: int, where: np.ndarray) -> str:
    rule = site.attr("nearest_mode", "round_prefer_floor" if site.call.op == "Resize" else "floor")
    rules = {
        "round_prefer_floor": np.ceil(where - 0.5),
        "round_prefer_ceil": np.floor(where + 0.5),
        "floor": np.floor(where),
        "ceil": np.ceil(where),
    }
    if rule not in rules:
        raise site.refuse(f"nearest_mode {rule}", f"use {', '.join(rules)}")
    index = np.clip(rules[rule], 0, site.shape(x)[axis] - 1)
    return site.make("Gather", x, site.constant("positions", index, np.int64), axis=axis)


def _linear(site: Site, x: str, axis: int, where: np.ndarray) -> str:
    side = site.shape(x)[axis]
    inside = np.clip(where, 0, side - 1)
    low = np.minimum(np.floor(inside), max(side - 2, 0))
    return site.make("Interpolate", x, axis=axis, low=low.astype(int).tolist(), weight=(inside - low).tolist())


_ATTRIBUTES = ("antialias", "axes", "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside")
_MORE = ("extrapolation_value", "keep_aspect_ratio_policy", "mode", "nearest_mode")

REWRITES = (
    Rewrite(
        "Resize",
        "any axes; sizes or scales constant; all coordinate modes; cubic, antialias and cropped as MatMul",
        _resize,
        (*_ATTRIBUTES, *_MORE),
    ),
)
