"""Files of one operator between different grids: sums and means along any axes, codes beside constants."""

from __future__ import annotations

import numpy as np
from tflite_files import INT8, INT16, INT32, OPERATOR, Grid, Writer

CODES = {"int8": INT8, "int16": INT16}
TOTALS = {  # axes, whether they stay
    "planes": ([1, 2], False), "planes_stay": ([1, 2], True), "rows": ([1], False), "channels": ([-1], True),
    "all": ([1, 2, 3], False), "apart": ([1, 3], False), "apart_stay": ([1, 3], True),
}  # fmt: skip


def totals(op: str, name: str, kind: str, pooled: bool) -> bytes:
    """Of (1, 7, 10, 3), behind a pool or not: from there on channels come first."""
    w, (axes, stay) = Writer(), TOTALS[name]
    grids: list[Grid] = [([0.06428], [-26], 0), ([0.0493 if op == "MEAN" else 0.9], [-57], 0)]
    if kind == "int16":
        grids = [([0.0006428], [0], 0), ([0.000493 if op == "MEAN" else 0.01], [0], 0)]
    shape = [1, 7, 10, 3]
    reduced = [axis % 4 for axis in axes]
    result = [1 if axis in reduced else size for axis, size in enumerate(shape) if stay or axis not in reduced]
    x = source = w.tensor("x", shape, CODES[kind], None, grids[0])
    if pooled:
        source = w.tensor("p", shape, CODES[kind], None, grids[0])
        pool = {"StrideH": 1, "StrideW": 1, "Padding": 0, "FilterHeight": 2, "FilterWidth": 2}
        w.operator(OPERATOR.MAX_POOL_2D, [x], source, "Pool2DOptions", **pool)
    y = w.tensor("y", result, CODES[kind], None, grids[1])
    places = w.tensor("axes", [len(axes)], INT32, np.array(axes, np.int32))
    w.operator(getattr(OPERATOR, op), [source, places], y, "ReducerOptions", KeepDims=stay)
    return w.file(x, y)


def beside_codes(op: str, same: bool) -> bytes:
    """PRELU, MAXIMUM or MINIMUM of (1, 4, 6, 5) and constants, or RELU of it; results on the same grid or not."""
    w, rng, shape = Writer(), np.random.default_rng(2), [1, 4, 6, 5]
    x = w.tensor("x", shape, INT8, None, ([0.0593], [40], 0))
    y = w.tensor("y", shape, INT8, None, ([0.0593], [40], 0) if same else ([0.0313], [-27], 0))
    grid: Grid = ([0.0171], [-11], 0) if op == "PRELU" else ([0.0593], [40], 0)
    codes = rng.integers(-110, 110, shape[3:]).astype(np.int8).reshape(1, 1, 5)
    others = [] if op == "RELU" else [w.tensor("c", codes.shape, INT8, codes, grid)]
    kind = "MaximumMinimumOptions" if op.startswith("M") else ""
    w.operator(getattr(OPERATOR, op), [x, *others], y, kind)
    return w.file(x, y)


BESIDE = [(op, same) for op in ("PRELU", "RELU") for same in (True, False)] + [("MAXIMUM", True), ("MINIMUM", True)]
