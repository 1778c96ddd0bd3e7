"""Rewrites of what constant places choose: rows turned around, rows kept, parts of no elements."""

from __future__ import annotations

import numpy as np
import onnx

from tinyhil.frontend.rewrite import Results, Rewrite, Site
from tinyhil.frontend.rewrite_linear import reshaped
from tinyhil.language.graph import element_count


def _reverse_sequence(site: Site) -> Results:
    """The first elements of every row in reverse: one choice among the rows of both axes."""
    x, lengths = site.input(0), site.static(1, "sequence_lens").reshape(-1).astype(int)
    shape, batch, time = site.shape(x), int(site.attr("batch_axis", 1)), int(site.attr("time_axis", 0))
    if {batch, time} != {0, 1} or len(shape) < 2 or lengths.size != shape[batch] or lengths.max() > shape[time]:
        raise site.refuse(f"{lengths.size} lengths for {list(shape)}", "the file is damaged")
    steps, rows = np.meshgrid(np.arange(shape[time]), np.arange(shape[batch]), indexing="ij")
    turned = np.where(steps < lengths, lengths - 1 - steps, steps)
    places = turned * shape[1] + rows if time == 0 else (rows * shape[1] + turned).T
    flat = reshaped(site, x, shape[0] * shape[1], *shape[2:])
    made = site.make("Gather", flat, site.constant("places", places.reshape(-1), np.int64), axis=0)
    return site.last("Reshape", made, site.constant("shape", shape, np.int64))


def _compress(site: Site) -> Results:
    """Rows, or elements where no axis is named, for which the constant condition holds."""
    x, rows = site.input(0), np.flatnonzero(site.static(1, "condition"))
    if not rows.size:
        raise site.refuse("a condition that nothing fulfils", "nothing would be computed")
    axis = site.attr("axis", None)
    if axis is None:
        x, axis = reshaped(site, x, element_count(site.shape(x))), 0
    return site.last("Gather", x, site.constant("places", rows, np.int64), axis=int(axis))


def _eye_like(site: Site) -> Results:
    shape = site.shape(site.input(0))
    if len(shape) != 2:
        raise site.refuse(f"{len(shape)} axes", "it takes a matrix")
    to = int(site.attr("dtype", onnx.TensorProto.FLOAT))
    kind = np.float32 if to in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE) else np.int64
    return (site.constant("eye", np.eye(*shape, int(site.attr("k", 0))), kind),)


def _split(site: Site) -> Results:
    """Parts of no elements are constants; None if there are none."""
    if not site.input(1):
        return None
    x, sizes = site.input(0), site.static(1, "split").reshape(-1).astype(int).tolist()
    shape = site.shape(x)
    axis = range(len(shape))[int(site.attr("axis", 0))]
    if 0 not in sizes or sum(sizes) != shape[axis] or min(sizes) < 0:
        return None
    parts = [(name, size) for name, size in zip(site.call.outputs, sizes, strict=True) if size]
    if len(parts) > 1:
        raise site.refuse(f"parts {sizes}", "leave out those of no elements")
    empty = site.constant("empty", np.zeros((*shape[:axis], 0, *shape[axis + 1 :])))
    return tuple(site.named(at, "Identity", x) if size else empty for at, size in enumerate(sizes))


def _concat(site: Site) -> Results:
    """Without what has no elements; None if all have some."""
    parts = [name for name in site.call.inputs if 0 not in site.shape(name)]
    if len(parts) == len(site.call.inputs) or not parts:
        return None
    return site.last("Concat" if len(parts) > 1 else "Identity", *parts, **(site.call.attrs if len(parts) > 1 else {}))


REWRITES = (
    Rewrite("ReverseSequence", "constant lengths", _reverse_sequence, ("batch_axis", "time_axis")),
    Rewrite("Compress", "constant condition", _compress, ("axis",)),
    Rewrite("EyeLike", "folded", _eye_like, ("dtype", "k")),
    Rewrite("Split", "constant parts", _split, ("axis", "num_outputs")),
    Rewrite("Concat", "any axis", _concat, ("axis",)),
)
