"""Asymmetric integers where layers are not: moves and MaxPool of codes, Relu and Clip as clamps or by table, means.

Codes order as their values do, so choosing among codes of one scale needs no arithmetic. A mean is the exact sum of
code less zero point, times a 31-bit multiplier that holds both scales and the count, one rounding.
"""

from __future__ import annotations

import numpy as np

from tinyhil.formats.affine import as_affine, multiplier, reciprocal_above, rescale_away
from tinyhil.formats.format import Format
from tinyhil.language.graph import Node
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops import movement, window
from tinyhil.ops.affine import BYTE, WORD, limited
from tinyhil.ops.limits import forms, limited_form
from tinyhil.ops.operator import Arithmetic, Arrays, Form, Kernel, Limit, Lower, attr, refuse
from tinyhil.ops.reciprocal import MAX_COUNT
from tinyhil.ops.window import Window

Codes = tuple[np.ndarray, np.ndarray]
_BLOCK = ("Block", movement.FIELDS)
_WINDOW = ("Window", window.FIELDS)


def _unsaturated(codes: np.ndarray) -> Codes:
    """Nothing saturates."""
    return codes, np.zeros((len(codes), 0), bool)


def _execute_move(op: Op, arrays: Arrays, _: Format) -> Codes:
    return _unsaturated(arrays[0][:, movement.indices(dict(op.params))])


def _execute_place(op: Op, arrays: Arrays, _: Format) -> Codes:
    part = arrays[0]
    whole = arrays[1] if len(arrays) == 2 else np.zeros((1, op.params["count"]), np.int64)
    samples = max(len(part), len(whole))
    whole = np.broadcast_to(whole, (samples, whole.shape[1])).copy()
    whole[:, movement.indices(dict(op.params))] = part
    return _unsaturated(whole)


def _execute_gather(op: Op, arrays: Arrays, _: Format) -> Codes:
    p = op.params
    x = arrays[1].reshape(-1, p["outer"], p["size"], p["inner"])
    return _unsaturated(x[:, :, arrays[0].reshape(-1)].reshape(len(x), -1))


def _patches(x: np.ndarray, w: Window, padding: int, reduce: str) -> np.ndarray:
    """(samples, channels, pixels)"""
    planes = x.reshape(-1, w.channels, w.height, w.width)
    out = np.empty((len(planes), w.channels, w.pixels), np.int64)
    for part in window.batches(len(planes), w.channels * w.positions * w.pixels):
        out[part] = getattr(w.patches(planes[part], padding), reduce)(axis=2)
    return out


def _execute_max(op: Op, arrays: Arrays, _: Format) -> Codes:
    top = _patches(arrays[0], window.window_of(op.params), -(1 << 15), "max")
    return _unsaturated(top.reshape(len(top), -1))


# ---- means


def _execute_mean(op: Op, arrays: Arrays, out: Format) -> Codes:
    w, p = window.window_of(op.params), op.params
    counts = w.valid_counts()
    sums = _patches(arrays[2], w, p["x_zero"], "sum") - w.positions * p["x_zero"]
    at = counts - 1 if p["varies"] else np.zeros(len(counts), np.int64)
    codes = rescale_away(sums, arrays[0].reshape(-1)[at], arrays[1].reshape(-1)[at]) + p["zero"]
    return limited(codes.reshape(len(codes), -1), op, out)


def lower_mean(node: Node, lowering: Lowering) -> None:
    """AveragePool and GlobalAveragePool; ModelError if a window is too large."""
    x, shape = as_affine(lowering.format(node.inputs[0])), lowering.shape(node.inputs[0])
    is_global = node.op.startswith("Global")
    w = window.infer_window(node, shape, shape[2:] if is_global else tuple(node.attrs["kernel_shape"]))
    valid = np.unique(w.valid_counts())
    counts = np.array([w.positions]) if attr(node, "count_include_pad", 0) else valid
    if int(counts.max()) > MAX_COUNT:
        raise refuse(node, f"windows of {counts.max()} elements, the limit is {MAX_COUNT}", "pool in two steps")
    varies = len(counts) > 1
    out = lowering.define(node.outputs[0])
    result = as_affine(out.format)
    used = range(1, int(counts.max()) + 1) if varies else counts.tolist()
    # of codes of one format TensorFlow Lite takes the mean as they are, which tells on which side of zero a tie lies;
    # `origin`: the code that is 0 in the file, of uint8 the lowest
    raw = x == result and np.array_equal(counts, valid)
    pairs = [reciprocal_above(count) if raw else multiplier(x.scale / (result.scale * count)) for count in used]
    names = (
        lowering.add_codes(f"{out.name}.multipliers", np.array([m for m, _ in pairs]), WORD),
        lowering.add_codes(f"{out.name}.shifts", np.array([shift for _, shift in pairs]), BYTE),
        lowering.operand(node.inputs[0]),
    )
    origin = int(attr(node, "origin", 0))
    x_zero, zero = (origin, origin) if raw else (x.zero, result.zero)
    params = {**w.params(), "x_zero": x_zero, "zero": zero, "varies": int(varies)}
    form, ends = limited_form(MEAN.form, node, out.format)
    params |= ends
    lowering.emit(node, Op(form, node.name, names, out.name, params))


def of_words(otherwise: Lower) -> Lower:
    """What lowers AveragePool of 16 bits from a grid into the same; `otherwise` what does so else."""

    def lower(node: Node, lowering: Lowering) -> None:
        is_same = lowering.format(node.inputs[0]) == lowering.format(node.outputs[0])
        (lower_mean if is_same else otherwise)(node, lowering)

    return lower


# ---- clamps and tables


def _execute_clamp(op: Op, arrays: Arrays, _: Format) -> Codes:
    return _unsaturated(np.clip(arrays[0], op.params["low"], op.params["high"]))


def _ends(node: Node) -> tuple[float, float]:
    return (0.0, np.inf) if node.op == "Relu" else (float(node.attrs["min"]), float(node.attrs["max"]))


def clamp(otherwise: Lower) -> Lower:
    """What lowers Relu and Clip: a clamp of codes where operand and result have one format."""

    def lower(node: Node, lowering: Lowering) -> None:
        (_lower_clamp if lowering.format(node.inputs[0]) == lowering.format(node.outputs[0]) else otherwise)(
            node, lowering
        )

    return lower


def _lower_clamp(node: Node, lowering: Lowering) -> None:
    fmt = as_affine(lowering.format(node.inputs[0]))
    x, out = lowering.operand(node.inputs[0]), lowering.define(node.outputs[0])
    low, high = (int(np.clip(np.rint(end / fmt.scale) + fmt.zero, fmt.lowest, fmt.highest)) for end in _ends(node))
    params = {"count": out.count, "low": low, "high": high}
    lowering.emit(node, Op(CLAMP.form, node.name, (x,), out.name, params))


# ---- records

MOVE = Kernel(Form("move").on_codes, "read codes with strides", _execute_move, (), struct=_BLOCK, codes=(0,))
PLACE = Kernel(
    Form("place").on_codes, "write codes as a block of a larger tensor", _execute_place, (), struct=_BLOCK, codes=(0,)
)
PLACE_MORE = Kernel(
    Form("place_more").on_codes, "the same beside what is there", _execute_place, (), struct=_BLOCK, codes=(0, 1)
)
GATHER = Kernel(
    Form("gather_rows", Arithmetic.CODES),
    "rows of codes chosen by a constant table",
    _execute_gather,
    ("outer", "chosen", "size", "inner"),
    codes=(1,),
)
_LARGEST = "largest code of each window"
MAX_POOL = Kernel(Form("max_pool").on_codes, _LARGEST, _execute_max, (), struct=_WINDOW, codes=(0,))
MEAN = Kernel(
    Form("average_pool", Arithmetic.AFFINE),
    "mean of what lies inside of the plane: exact sum, multiplier and shift, one rounding, ties away from zero",
    _execute_mean,
    ("x_zero", "zero", "varies"),
    ("x_zero", "zero", "varies"),
    struct=_WINDOW,
    codes=(0, 1, 2),
)
CLAMP = Kernel(
    Form("clamp", Arithmetic.CODES),
    "codes clamped to two ends",
    _execute_clamp,
    ("count", "low", "high"),
    ("count",),
    in_place=True,
    codes=(0,),
)
KERNELS = (MOVE, PLACE, PLACE_MORE, GATHER, MAX_POOL, MEAN, CLAMP, *forms((MEAN,), (Limit.CLIP,)))
