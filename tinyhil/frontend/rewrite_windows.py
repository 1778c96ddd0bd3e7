"""Convolutions of several samples, and with weights that are computed at run time."""

from __future__ import annotations

import numpy as np

from tinyhil.frontend.rewrite import Results, Rewrite, Site
from tinyhil.frontend.rewrite_linear import reshaped
from tinyhil.language.graph import element_count

MOST_SAMPLES, MOST_TAPS = 16, 64


def sliced(site: Site, x: str, axis: int, start: int, end: int, step: int = 1) -> str:
    """Part of `x` along one axis."""
    numbers = [
        site.constant(part, [n], np.int64) for part, n in (("at", start), ("to", end), ("of", axis), ("by", step))
    ]
    return site.make("Slice", x, *numbers)


def _one_by_one(site: Site) -> Results:
    """Of every sample the operator, and these behind each other; None if there is one, or one that is no plane."""
    x = site.input(0)
    shape = site.shape(x)
    if not 1 < shape[0] <= MOST_SAMPLES or len(shape) not in (3, 4) or site.value(x) is not None:
        return None
    parts = [sliced(site, x, 0, n, n + 1) for n in range(shape[0])]
    made = [site.make(site.call.op, part, *site.call.inputs[1:], **site.call.attrs) for part in parts]
    return site.last("Concat", *made, axis=0)


def _conv(site: Site) -> Results:
    """With run-time weights the taps lie in columns, which a product of matrices sums."""
    x, weights = site.input(0), site.input(1)
    if site.value(weights) is not None or len(site.shape(x)) not in (3, 4) or len(site.shape(weights)) < 3:
        return _one_by_one(site)
    if site.shape(x)[0] != 1:
        return _one_by_one(site)
    outputs, inputs, *kernel = site.shape(weights)
    groups, axes = int(site.attr("group", 1)), len(kernel)
    if element_count(tuple(kernel)) > MOST_TAPS or axes != len(site.shape(x)) - 2:
        raise site.refuse(f"a kernel {kernel} computed at run time", f"up to {MOST_TAPS} taps are supported")
    columns, planes = _columns(site, x, kernel)
    made = []
    for group in range(groups):
        part = sliced(site, columns, 0, group * inputs, (group + 1) * inputs) if groups > 1 else columns
        rows = reshaped(site, part, inputs * element_count(tuple(kernel)), element_count(tuple(planes)))
        share = outputs // groups
        own = sliced(site, weights, 0, group * share, (group + 1) * share) if groups > 1 else weights
        flat = reshaped(site, own, share, inputs * element_count(tuple(kernel)))
        made.append(site.make("MatMul", flat, rows))
    sums = site.make("Concat", *made, axis=0) if groups > 1 else made[0]
    if site.input(2):
        sums = site.make("Add", sums, reshaped(site, site.input(2), outputs, 1))
    return site.last("Reshape", sums, site.constant("planes", (1, outputs, *planes), np.int64))


def _columns(site: Site, x: str, kernel: list[int]) -> tuple[str, list[int]]:
    """(channels, taps, elements of a plane of results), and the sides of such a plane."""
    axes, shape = len(kernel), site.shape(x)
    strides, dilations = ([int(n) for n in site.attr(name, None) or [1] * axes] for name in ("strides", "dilations"))
    reach = [(side - 1) * step + 1 for side, step in zip(kernel, dilations, strict=True)]
    pads = _pads(site, shape[2:], reach, strides)
    if any(pads):
        x = site.make("Pad", x, site.constant("pads", [0, 0, *pads[:axes], 0, 0, *pads[axes:]], np.int64))
    sides = site.shape(x)[2:]
    planes = [(side - wide) // step + 1 for side, wide, step in zip(sides, reach, strides, strict=True)]
    if min(planes) < 1:
        raise site.refuse(f"a kernel {kernel} on {list(shape)}", "the file is damaged")
    taps = []
    for place in np.ndindex(*kernel):
        tap = x
        for axis in range(axes):
            start = place[axis] * dilations[axis]
            tap = sliced(site, tap, axis + 2, start, start + (planes[axis] - 1) * strides[axis] + 1, strides[axis])
        taps.append(reshaped(site, tap, shape[1], 1, element_count(tuple(planes))))
    return site.make("Concat", *taps, axis=1) if len(taps) > 1 else taps[0], planes


def _pads(site: Site, sides: tuple[int, ...], reach: list[int], strides: list[int]) -> list[int]:
    """In front of each axis, then behind."""
    auto, axes = site.attr("auto_pad", "NOTSET"), len(sides)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        whole = [
            max((-(-side // step) - 1) * step + wide - side, 0)
            for side, wide, step in zip(sides, reach, strides, strict=True)
        ]
        less, more = [n // 2 for n in whole], [n - n // 2 for n in whole]
        return [*less, *more] if auto == "SAME_UPPER" else [*more, *less]
    given = [int(n) for n in site.attr("pads", None) or [0] * 2 * axes]
    if len(given) != 2 * axes or min(given) < 0:
        raise site.refuse(f"pads {given}", "the file is damaged")
    return given if auto == "NOTSET" else [0] * 2 * axes


_WINDOW = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
REWRITES = (
    Rewrite("Conv", "1-D and 2-D; groups, depthwise, dilations, strides, any padding", _conv, _WINDOW),
    Rewrite(
        "ConvTranspose",
        "1-D and 2-D; groups, dilations, strides, any padding; constant weights",
        _one_by_one,
        (*_WINDOW, "output_padding", "output_shape"),
    ),
)
