"""Operators that are linear in their first operand where all others are constant: products with a matrix that is known
when the model is read. Transforms of Fourier, grids of samples, columns to images, whatever Resize interpolates.

Their sums are those of MatMul and Conv: accumulators are proven wide enough from these constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tinyhil.frontend.constant_folding import folded
from tinyhil.frontend.rewrite import Results, Rewrite, Site
from tinyhil.language.graph import element_count

MOST_ENTRIES = 1 << 20  # of a matrix: it lies in flash, and onnx's evaluator makes some of them, which is slow
MOST_BASIS = 1 << 16
DFT_OPERANDS = 20  # the opset since which the axis is an operand


def reshaped(site: Site, value: str, *shape: int) -> str:
    """`value` in another shape."""
    return site.make("Reshape", value, site.constant("shape", shape, np.int64))


def moved(site: Site, value: str, axis: int, to: int) -> str:
    """`value` with one axis at another place."""
    rank = len(site.shape(value))
    order = [n for n in range(rank) if n != axis]
    order.insert(to % rank, axis)
    return value if order == list(range(rank)) else site.make("Transpose", value, perm=order)


def along(site: Site, x: str, axis: int, matrix: np.ndarray, added: np.ndarray | None = None) -> str:
    """Rows of `x` along `axis` times `matrix` (elements before, elements after), plus a row. ModelError if it is too
    large."""
    if matrix.size > MOST_ENTRIES:
        raise site.refuse(f"a matrix of {matrix.shape[0]} times {matrix.shape[1]}", f"the limit is {MOST_ENTRIES}")
    last = moved(site, x, axis, -1)
    shape = site.shape(last)
    rows = reshaped(site, last, element_count(shape[:-1]), shape[-1])
    made = site.make("MatMul", rows, site.constant("matrix", matrix))
    if added is not None and added.any():
        made = site.make("Add", made, site.constant("added", added))
    return moved(site, reshaped(site, made, *shape[:-1], matrix.shape[1]), len(shape) - 1, axis)


def map_of(evaluate: Callable[[np.ndarray], np.ndarray], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Matrix (count, results) and row (results) of an affine function of rows: what it makes of units and of zeros."""
    made = evaluate(np.concatenate([np.zeros((1, count)), np.eye(count)]).astype(np.float32)).astype(np.float64)
    return made[1:] - made[0], made[0]


# ---- transforms of Fourier


def _fourier(count: int, length: int, is_onesided: bool, is_inverse: bool, parts: int) -> np.ndarray:
    """(count, parts, bins, 2): re and im of what `length` numbers of `parts` (re and im) become, those behind
    `count` being 0."""
    bins = length // 2 + 1 if is_onesided else length
    places = np.arange(min(count, length))[:, None] * np.arange(bins)
    angle = 2 * np.pi * (places % length) / length * (1 if is_inverse else -1)
    wave = np.zeros((count, parts, bins, 2))
    real, imaginary = np.cos(angle), np.sin(angle)
    wave[: len(angle), 0] = np.stack([real, imaginary], axis=-1)
    if parts == 2:
        wave[: len(angle), 1] = np.stack([-imaginary, real], axis=-1)
    return wave / length if is_inverse else wave


def _inverse_of_one_side(count: int, length: int) -> np.ndarray:
    """(count, 2, length, 1): real numbers of `count` bins, of which all but the ends stand for two."""
    bins = np.arange(count)
    angle = 2 * np.pi * (bins[:, None] * np.arange(length) % length) / length
    weight = np.where((bins == 0) | (2 * bins == length), 1, 2)[:, None] / length
    weight = weight * (2 * bins[:, None] <= length)
    return np.stack([weight * np.cos(angle), -weight * np.sin(angle)], axis=1)[..., None]


def _dft(site: Site) -> Results:
    x = site.input(0)
    shape = site.shape(x)
    usual = site.attr("axis", 1) if site.builder.opset < DFT_OPERANDS else -2
    axis = site.static(2, "axis").reshape(-1)[0] if site.input(2) else usual
    axis, parts = range(len(shape))[int(axis)], shape[-1]
    if axis == len(shape) - 1 or parts not in (1, 2):
        raise site.refuse(f"axis {axis} of {list(shape)}", "the last axis is of real numbers (1) or of pairs (2)")
    is_onesided, is_inverse = bool(site.attr("onesided", 0)), bool(site.attr("inverse", 0))
    usual_length = 2 * (shape[axis] - 1) if is_onesided and is_inverse else shape[axis]
    length = int(site.static(1, "length").reshape(-1)[0]) if site.input(1) else usual_length
    if length < 1 or (is_onesided and parts != 1 + is_inverse):
        raise site.refuse(f"length {length}, one side of {parts} parts", "one side is of real numbers")
    if is_onesided and is_inverse:
        wave = _inverse_of_one_side(shape[axis], length)
    else:
        wave = _fourier(shape[axis], length, is_onesided, is_inverse, parts)
    bins, results = wave.shape[2:]
    pairs = moved(site, x, axis, -2)
    rest = site.shape(pairs)[:-2]
    rows = reshaped(site, pairs, *rest, shape[axis] * parts)
    made = along(site, rows, len(rest), wave.reshape(shape[axis] * parts, bins * results))
    back = reshaped(site, made, *rest, bins, results)
    return site.last("Identity", moved(site, back, len(rest), axis))


def _stft(site: Site) -> Results:
    """A convolution along the signal: its kernels are waves under the window, its stride is the step of frames."""
    x, step = site.input(0), int(site.static(1, "frame_step").reshape(-1)[0])
    shape = site.shape(x)
    window = site.static(2, "window").reshape(-1) if site.input(2) else None
    length = int(site.static(3, "frame_length").reshape(-1)[0]) if site.input(3) else 0
    length = length or (shape[1] if window is None else window.size)
    parts = shape[2] if len(shape) == 3 else 1
    if len(shape) not in (2, 3) or shape[0] != 1 or parts not in (1, 2) or not 1 <= length <= shape[1] or step < 1:
        raise site.refuse(f"frames of {length} of {list(shape)}", "it takes (1, samples, 1 or 2)")
    if window is not None and window.size != length:
        raise site.refuse(f"a window of {window.size} for frames of {length}", "the file is damaged")
    is_onesided = bool(site.attr("onesided", 1)) and parts == 1
    wave = _fourier(length, length, is_onesided, False, parts)
    if window is not None:
        wave = wave * window[:, None, None, None]
    bins = wave.shape[2]
    if wave.size > MOST_ENTRIES:
        raise site.refuse(f"{bins} bins of frames of {length}", f"the limit are {MOST_ENTRIES} numbers")
    kernels = site.constant("waves", wave.transpose(2, 3, 1, 0).reshape(bins * 2, parts, length))
    signal = moved(site, reshaped(site, x, 1, shape[1], parts), 2, 1)
    made = site.make("Conv", signal, kernels, strides=[step])
    frames = site.shape(made)[2]
    return site.last("Reshape", moved(site, made, 1, 2), site.constant("bins", (1, frames, bins, 2), np.int64))


# ---- what onnx's own evaluator makes of units


def _evaluated(site: Site, first: np.ndarray, others: Sequence[np.ndarray | None], **attrs: object) -> np.ndarray:
    """The operator's only result of `first`; ModelError if the evaluator has none."""
    call = replace(site.call, attrs={**site.call.attrs, **attrs}, outputs=site.call.outputs[:1])
    arrays = folded(call, [first, *others], site.builder.opset)
    if arrays is None:
        raise site.refuse("operands that make no sense", "the file is damaged")
    return arrays[0]


def _grid_sample(site: Site) -> Results:
    """Planes times what the grid takes of each of their elements."""
    x, grid = site.input(0), site.static(1, "grid")
    shape = site.shape(x)
    count = element_count(shape[2:])
    if shape[0] != 1 or len(grid) != 1 or count * max(element_count(grid.shape[1:-1]), count) > MOST_BASIS * 16:
        raise site.refuse(f"a grid {list(grid.shape)} for planes {list(shape)}", "one sample, 1024 elements a plane")

    def sampled(rows: np.ndarray) -> np.ndarray:
        return _evaluated(site, rows.reshape(1, len(rows), *shape[2:]), [grid])[0].reshape(len(rows), -1)

    matrix, added = map_of(sampled, count)
    made = along(site, reshaped(site, x, shape[1], count), 1, matrix, added)
    return site.last("Reshape", made, site.constant("planes", (1, shape[1], *grid.shape[1:-1]), np.int64))


def _col2im(site: Site) -> Results:
    """Columns (1, channels * block, blocks) are added up to planes: the same of every channel."""
    x, others = site.input(0), [site.static(1, "image shape"), site.static(2, "block shape")]
    shape, block = site.shape(x), element_count(tuple(int(side) for side in others[1]))
    if len(shape) != 3 or block < 1 or shape[1] % block or block * shape[2] > 1 << 10:
        raise site.refuse(f"columns {list(shape)} of blocks of {block}", "up to 1024 elements of a channel")
    channels, count = shape[0] * shape[1] // block, block * shape[2]

    def added(rows: np.ndarray) -> np.ndarray:
        return _evaluated(site, rows.reshape(len(rows), block, shape[2]), others).reshape(len(rows), -1)

    matrix, _ = map_of(added, count)
    made = along(site, reshaped(site, x, channels, count), 1, matrix)
    image = tuple(int(side) for side in others[0])
    return site.last("Reshape", made, site.constant("planes", (shape[0], channels // shape[0], *image), np.int64))


def interpolated(site: Site, x: str, axis: int, size: int, scale: float, ends: Sequence[float]) -> str:
    """Resize along one axis by what onnx's evaluator makes of units; `ends`: the part that is kept (roi).

    ModelError if the axis is too long.
    """
    side = site.shape(x)[axis]
    if side * max(side, size) > MOST_BASIS:
        raise site.refuse(f"{side} to {size} elements", f"products up to {MOST_BASIS} are supported in this mode")
    roi = np.array([0, ends[0], 1, ends[1]], np.float32)
    given = [roi, None, np.array([0, size], np.int64)] if scale <= 0 else [roi, np.array([1, scale], np.float32)]

    def resized(rows: np.ndarray) -> np.ndarray:
        others = [one if one is None or number < 2 else np.array([len(rows), size]) for number, one in enumerate(given)]
        return _evaluated(site, rows, others, axes=[0, 1])

    matrix, added = map_of(resized, side)
    return along(site, x, axis, matrix, added)


REWRITES = (
    Rewrite("DFT", "as MatMul; constant length and axis", _dft, ("axis", "inverse", "onesided")),
    Rewrite("STFT", "as Conv with waves under the window; constant step, window and length", _stft, ("onesided",)),
    Rewrite(
        "GridSample",
        "as MatMul; constant grid, planes of up to 1,024 elements",
        _grid_sample,
        ("align_corners", "mode", "padding_mode"),
    ),
    Rewrite("Col2Im", "as MatMul; up to 1,024 elements of a channel", _col2im, ("dilations", "pads", "strides")),
)
