"""Rewrites of what looks at planes: three axes of windows, where the largest elements lie, neighbouring channels,
regions of interest."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyhil.frontend.rewrite import Results, Rewrite, Site
from tinyhil.frontend.rewrite_linear import reshaped
from tinyhil.frontend.rewrite_shapes import average_pool
from tinyhil.language.graph import Node, element_count
from tinyhil.ops.index import MOST_ROWS
from tinyhil.ops.pool import MEAN
from tinyhil.ops.window import Window, infer_window

MOST_PAIRS = 1 << 16  # of elements and the places that they may have
_WINDOW = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
PER_AXIS = ("kernel_shape", "strides", "dilations")

# ---- windows of three axes


def _split_options(site: Site) -> tuple[dict[str, Any], dict[str, Any]]:
    """Attributes of a pool of rows and columns, and of one of depths as if these were rows."""
    plain = {key: value for key, value in site.call.attrs.items() if key not in (*PER_AXIS, "pads")}
    planes, depths = dict(plain), dict(plain)
    for key in PER_AXIS:
        values = [int(value) for value in site.attr(key, None) or [1] * 3]
        if len(values) != 3:
            raise site.refuse(f"{key} {values}", "the file is damaged")
        planes[key], depths[key] = values[1:], [values[0], 1]
    pads = [int(pad) for pad in site.attr("pads", None) or [0] * 6]
    if len(pads) != 6:
        raise site.refuse(f"pads {pads}", "the file is damaged")
    planes["pads"], depths["pads"] = [*pads[1:3], *pads[4:6]], [pads[0], 0, pads[3], 0]
    return planes, depths


def _deep_pool(site: Site) -> Results:
    """Largest elements and means of boxes: of planes first, then along the depth. Both are exact in real numbers:
    as many elements lie in each plane of a box."""
    op, x = site.call.op, site.input(0)
    _, channels, depth, *sides = site.shape(x)
    planes, depths = _split_options(site)
    flat = site.make(op, reshaped(site, x, 1, channels * depth, *sides), **planes)
    sides = list(site.shape(flat)[2:])
    columns = reshaped(site, flat, 1, channels, depth, element_count(tuple(sides)))
    pooled = site.make(op, columns, **depths)
    shape = (1, channels, site.shape(pooled)[2], *sides)
    return site.last("Reshape", pooled, site.constant("shape", shape, np.int64))


def _is_deep(site: Site) -> bool:
    return len(site.shape(site.input(0))) == 5 and site.shape(site.input(0))[0] == 1


def _average_pool(site: Site) -> Results:
    return _deep_pool(site) if _is_deep(site) else average_pool(site)


def _max_pool(site: Site) -> Results:
    if _is_deep(site) and not site.wants(1):
        return _deep_pool(site)
    return _with_places(site) if site.wants(1) else None


def _global_pool(site: Site) -> Results:
    """Of three axes and more."""
    shape = site.shape(site.input(0))
    if len(shape) < 5:
        return None
    pooled = site.make(site.call.op, reshaped(site, site.input(0), *shape[:2], element_count(shape[2:])))
    return site.last("Reshape", pooled, site.constant("shape", (*shape[:2], *[1] * (len(shape) - 2)), np.int64))


# ---- where the largest elements lie


def _places(w: Window) -> np.ndarray:
    """(positions, pixels) flat places of what lies under each window; what hangs over is the first that does not."""
    rows, columns = w.rows()[:, :, None, None], w.columns()[None, None]
    inside = (rows >= 0) & (rows < w.height) & (columns >= 0) & (columns < w.width)
    flat = np.broadcast_to(rows * w.width + columns, inside.shape)
    order = (1, 3, 0, 2)  # kernel row, kernel column, output row, output column
    flat, inside = (np.transpose(a, order).reshape(w.positions, w.pixels) for a in (flat, inside))
    first = flat[inside.argmax(axis=0), np.arange(w.pixels)]
    return np.asarray(np.where(inside, flat, first))


def _with_places(site: Site) -> Results:
    """The largest elements and their flat places: the first of the largest of each window, looked up in a table."""
    x, attrs = site.input(0), dict(site.call.attrs)
    by_column = int(attrs.pop("storage_order", 0))
    shape = site.shape(x)
    w = infer_window(Node(site.call.op, site.call.name, (), (), attrs), shape, tuple(attrs["kernel_shape"]))
    places = _places(w)
    if places.size >= MOST_ROWS:
        raise site.refuse(f"{places.size} places under its windows", f"the limit is {MOST_ROWS - 1}")
    flat = reshaped(site, x, w.channels, w.height * w.width)
    taken = site.make("Gather", flat, site.constant("places", places.reshape(-1), np.int64), axis=1)
    best = site.make("ArgMax", reshaped(site, taken, w.channels, w.positions, w.pixels), axis=1, keepdims=0)
    number = site.make("Mul", best, site.constant("pixels", w.pixels, np.int64))
    number = site.make("Add", number, site.constant("pixel", np.arange(w.pixels), np.int64))
    if by_column:
        places = places % w.width * w.height + places // w.width
    found = site.make("Gather", site.constant("table", places.reshape(-1), np.int64), number, axis=0)
    planes = np.arange(w.channels)[:, None] * (w.height * w.width)
    found = site.make("Add", found, site.constant("planes", planes, np.int64))
    values = site.named(0, "MaxPool", x, **attrs)
    sides = site.constant("shape", site.shape(values), np.int64)
    return values, site.named(1, "Reshape", found, sides)


def _max_unpool(site: Site) -> Results:
    """Every element at its place, 0 elsewhere. The places may be computed at run time."""
    x, axes = site.input(0), len(site.shape(site.input(0))) - 2
    batch, channels, *sides = site.shape(x)
    kernel, strides, pads = (
        [int(n) for n in site.attr(key, None) or default]
        for key, default in (("kernel_shape", ()), ("strides", [1] * axes), ("pads", [0] * 2 * axes))
    )
    if batch != 1 or len(kernel) != axes or any(s < k for s, k in zip(strides, kernel, strict=True)):
        raise site.refuse(f"windows {kernel} at every {strides} that overlap, or several samples", "take larger steps")
    ends = zip(sides, strides, kernel, pads, pads[axes:], strict=False)
    whole = [(side - 1) * step + width - front - back for side, step, width, front, back in ends]
    count, size = element_count(tuple(sides)), element_count(tuple(whole))
    if channels * count * size > MOST_PAIRS:
        raise site.refuse(f"{count} elements at {size} places of {channels} planes", f"the limit is {MOST_PAIRS} pairs")
    planes = site.constant("planes", np.arange(channels)[:, None] * size, np.int64)
    own = site.make("Sub", reshaped(site, site.input(1), channels, count), planes)
    every = site.constant("every", np.arange(size)[None, None], np.int64)
    here = site.make("Equal", reshaped(site, own, channels, count, 1), every)
    values = site.make("Where", here, reshaped(site, x, channels, count, 1), site.constant("zero", 0.0))
    spread = site.make("ReduceSum", values, site.constant("axes", [1], np.int64), keepdims=0)
    made = reshaped(site, spread, 1, channels, *whole)
    if not site.input(2):
        return site.last("Identity", made)
    wanted = [int(side) for side in site.static(2, "output shape")][2:]
    behind = [side - has for side, has in zip(wanted, whole, strict=True)]
    return site.last("Pad", made, site.constant("behind", [0] * (axes + 4) + behind, np.int64))


# ---- neighbouring channels, regions


def _local_response(site: Site) -> Results:
    """x (bias + alpha mean)^-beta, of the squares of `size` neighbouring channels."""
    x, size = site.input(0), int(site.attr("size", 0))
    alpha, beta, bias = (float(site.attr(key, n)) for key, n in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    shape = site.shape(x)
    if size < 1 or len(shape) < 3 or bias <= 0 or alpha < 0:
        raise site.refuse(f"size {size}, bias {bias:g} and alpha {alpha:g} for {list(shape)}", "the file is damaged")
    squares = reshaped(site, site.make("Mul", x, x), 1, *shape[:2], element_count(shape[2:]))
    around = {"kernel_shape": [size, 1], "pads": [(size - 1) // 2, 0, size // 2, 0], "count_include_pad": 1}
    means = reshaped(site, site.make("AveragePool", squares, **around), *shape)
    base = site.make("Add", site.make("Mul", means, site.constant("alpha", alpha)), site.constant("bias", bias))
    return site.last("Mul", x, site.make("Pow", base, site.constant("beta", -beta)))


def _roi_align(site: Site) -> Results:
    """Means of samples between pixels: one matrix takes rows of them, one columns. Or largest shares of pixels."""
    x, rois, samples = site.input(0), site.input(1), int(site.attr("sampling_ratio", 0))
    mode, shape, count = site.attr("mode", "avg"), site.shape(x), site.shape(rois)[0]
    half = site.attr("coordinate_transformation_mode", "half_pixel")
    if shape[0] != 1 or len(shape) != 4 or mode not in ("avg", "max"):
        raise site.refuse(f"mode {mode} of {list(shape)}", "avg and max of one sample's planes are supported")
    if samples < 1:
        raise site.refuse("as many samples as a region is large, which values decide", "give a sampling_ratio")
    scale, moved = float(site.attr("spatial_scale", 1.0)), 0.5 * (half == "half_pixel")
    if mode == "max":
        return _largest(site, site.static(1, "regions of mode max") * scale - moved, bool(moved), samples)
    ends = site.make("Sub", site.make("Mul", rois, site.constant("scale", scale)), site.constant("moved", moved))
    taken = []
    for axis, key in ((1, "output_height"), (0, "output_width")):
        out, side = int(site.attr(key, 1)), shape[3 - axis]
        taken.append(_samples(site, _ends(site, ends, axis, bool(moved)), (count, out, samples, side)))
    rows = site.make("MatMul", reshaped(site, taken[0], count, 1, *site.shape(taken[0])[1:]), x)
    columns = site.make("Transpose", taken[1], perm=[0, 2, 1])
    return site.last("MatMul", rows, reshaped(site, columns, count, 1, *site.shape(columns)[1:]))


def _largest(site: Site, regions: np.ndarray, is_exact: bool, samples: int) -> Results:
    """The largest of the pixels around all samples of a part, each times its share: ONNX takes no sums of the four."""
    x, count = site.input(0), len(regions)
    channels, *sides = site.shape(x)[1:]
    out = [int(site.attr(key, 1)) for key in ("output_height", "output_width")]
    near = [_around(regions[:, [1 - a, 3 - a]], is_exact, out[a], samples, sides[a]) for a in (0, 1)]
    index = near[0][0][:, :, None, :, None] * sides[1] + near[1][0][:, None, :, None]  # (regions, *out, pixels, pixels)
    share = near[0][1][:, :, None, :, None] * near[1][1][:, None, :, None]
    if channels * index.size > MOST_PAIRS:
        raise site.refuse(f"{index.size} pixels of {channels} planes", f"the limit is {MOST_PAIRS} products")
    parts, width = count * out[0] * out[1], index.shape[3] * index.shape[4]
    place = site.constant("pixels", index.reshape(-1), np.int64)
    pixels = site.make("Gather", reshaped(site, x, channels, sides[0] * sides[1]), place, axis=1)
    shares = site.constant("share", share.reshape(1, parts, width))
    products = site.make("Mul", reshaped(site, pixels, channels, parts, width), shares)
    best = site.make("ReduceMax", products, site.constant("axes", [2], np.int64), keepdims=0)
    return site.last("Transpose", reshaped(site, best, channels, count, *out), perm=[1, 0, 2, 3])


def _around(ends: np.ndarray, is_exact: bool, out: int, samples: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Places and shares (regions, out, 2 * samples) of the pixels on both sides of each sample along an axis."""
    size = ends[:, 1:] - ends[:, :1]
    size = size if is_exact else np.maximum(size, 1.0)
    at = ends[:, :1] + size * ((np.arange(out * samples) + 0.5) / (out * samples))
    inside = np.clip(at, 0, side - 1)
    low = np.floor(inside).astype(np.int64)
    high = np.minimum(low + 1, side - 1)
    shares = np.stack([1 - (inside - low), inside - low], axis=-1) * ((at >= -1) & (at <= side))[..., None]
    shape = (len(ends), out, 2 * samples)
    return np.stack([low, high], axis=-1).reshape(shape), shares.reshape(shape)


def _ends(site: Site, rois: str, axis: int, is_exact: bool) -> tuple[str, str]:
    """Start and size (count, 1) of regions along an axis; regions that are not moved have a size of 1 at least."""
    start, end = (
        site.make("Gather", rois, site.constant("column", [column], np.int64), axis=1) for column in (axis, axis + 2)
    )
    size = site.make("Sub", end, start)
    return start, size if is_exact else site.make("Max", size, site.constant("one", 1.0))


def _samples(site: Site, ends: tuple[str, str], sizes: tuple[int, int, int, int]) -> str:
    """(count, out, side): the share of each pixel in the mean of the samples of each part of a region."""
    count, out, samples, side = sizes
    parts = (np.arange(out * samples) + 0.5) / (out * samples)
    at = site.make("Add", ends[0], site.make("Mul", ends[1], site.constant("parts", parts[None])))
    low, high = site.constant("low", 0.0), site.constant("high", side - 1.0)
    inside = site.make("Min", site.make("Max", at, low), high)
    distance = site.make("Sub", reshaped(site, inside, count, out * samples, 1), site.constant("at", np.arange(side)))
    near = site.make("Relu", site.make("Sub", site.constant("one", 1.0), site.make("Abs", distance)))
    seen = site.make(
        "And",
        site.make("GreaterOrEqual", at, site.constant("first", -1.0)),
        site.make("LessOrEqual", at, site.constant("last", float(side))),
    )
    near = site.make("Where", reshaped(site, seen, count, out * samples, 1), near, site.constant("none", 0.0))
    shares = reshaped(site, near, count, out, samples, side)
    return site.make("ReduceMean", shares, axes=[2], keepdims=0)


REWRITES = (
    Rewrite(
        "MaxPool",
        "one to three axes; any padding, dilations, ceil_mode; where the largest elements are",
        _max_pool,
        (*_WINDOW, "storage_order"),
    ),
    Rewrite(
        "AveragePool",
        f"one to three axes; any padding, ceil_mode; {MEAN}",
        _average_pool,
        (*_WINDOW, "count_include_pad"),
    ),
    Rewrite("GlobalMaxPool", "largest element of each channel", _global_pool),
    Rewrite("GlobalAveragePool", MEAN, _global_pool),
    Rewrite("MaxUnpool", "places computed at run time or not; windows that do not overlap", _max_unpool, _WINDOW[3:]),
    Rewrite(
        "LRN", "as AveragePool of the squares along the channels", _local_response, ("alpha", "beta", "bias", "size")
    ),
    Rewrite(
        "RoiAlign",
        "as MatMul; regions computed at run time or not; a given sampling_ratio; largest of constant regions",
        _roi_align,
        (
            "coordinate_transformation_mode",
            "mode",
            "output_height",
            "output_width",
            "sampling_ratio",
            "spatial_scale",
        ),
    ),
)
