"""Operators of PULP's integer dialect, as its kernels compute them (Deeploy, QuantLib): whole numbers alone.

WholeDense is a product with constant bytes that is requantized at once: one layer of asymmetric integers whose scales
are 1. What the others compute is in their functions; firmware/kernels/common/pulp.hpp is the same in C++.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.lowering_context import Lowering
from tinyhil.ops import affine, linear
from tinyhil.ops.operator import Arrays, Operator, by_domain, refuse
from tinyhil.ops.whole import KIND, Params, Routine, same_shape, truncated


def _rows(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    return {"rows": element_count(shapes[0][:-1]), "inner": shapes[0][-1]}


def _numbers(node: Node, *names: str) -> dict[str, int]:
    return {name: int(node.attrs[name]) for name in names}


# ---- (x * factor + addend + half) >> shift, within levels


def _requant_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    """`channels` factors, each for `inner` elements in turn."""
    count, channels = element_count(shapes[0]), shapes[1][0]
    inner = int(node.attrs["inner"])
    if shapes[1] != shapes[2] or count % (channels * inner):
        raise refuse(node, f"{list(shapes[1])} factors for {list(shapes[0])}", "the file is damaged")
    return {"count": count, "channels": channels, "inner": inner, **_numbers(node, "shift", "low", "high")}


def _requant(p: Params, arrays: Sequence[np.ndarray]) -> np.ndarray:
    x = arrays[0].reshape(len(arrays[0]), -1, p["channels"], p["inner"])
    factor, addend = (array.reshape(-1, 1) for array in arrays[1:])
    half = (1 << p["shift"]) >> 1
    return np.clip((x * factor + addend + half) >> p["shift"], p["low"], p["high"]).reshape(len(x), -1)


REQUANT = Routine(
    "WholeRequant",
    "whole_requant",
    "whole numbers times a factor, plus an addend, divided by a power of two to the nearest, within two ends",
    same_shape,
    _requant_params,
    ("count", "channels", "inner", "shift", "low", "high"),
    _requant,
    ("inner", "shift", "low", "high"),
    operands=3,
)

# ---- x * weight / root of the mean square


def _rms_norm(p: Params, arrays: Sequence[np.ndarray]) -> np.ndarray:
    x, weight = arrays[0].reshape(-1, p["rows"], p["inner"]), arrays[1].reshape(-1)
    mean = (x * x).sum(axis=-1, keepdims=True) // p["inner"] + 1
    root = np.floor(np.sqrt(mean.astype(np.float64))).astype(np.int64)
    return np.clip(truncated(x * weight, root) >> p["shift"], p["low"], p["high"]).reshape(len(x), -1)


RMS_NORM = Routine(
    "WholeRmsNorm",
    "whole_rms_norm",
    "whole numbers of a row times weights, by the whole root of their mean square",
    same_shape,
    lambda node, shapes: {**_rows(node, shapes), **_numbers(node, "shift", "low", "high")},
    ("rows", "inner", "shift", "low", "high"),
    _rms_norm,
    ("shift", "low", "high"),
    operands=2,
)

# ---- softmax by a parabola between powers of two


def _softmax(p: Params, arrays: Sequence[np.ndarray]) -> np.ndarray:
    x = arrays[0].reshape(-1, p["rows"], p["inner"])
    distance = x.max(axis=-1, keepdims=True) - x
    halvings = distance // p["log2"]
    rest = halvings * p["log2"] - distance
    exponential = ((rest + p["b"]) ** 2 + p["c"]) >> np.minimum(halvings, 31)
    total = exponential.sum(axis=-1, keepdims=True)
    return (exponential * p["most"] // np.maximum(total, 1) + p["low"]).reshape(len(x), -1)


SOFTMAX = Routine(
    "WholeSoftmax",
    "whole_softmax",
    "shares of a row's sum of exponentials, by a parabola between halvings",
    same_shape,
    lambda node, shapes: {**_rows(node, shapes), **_numbers(node, "b", "c", "log2", "most", "low")},
    ("rows", "inner", "b", "c", "log2", "most", "low"),
    _softmax,
    ("b", "c", "log2", "most", "low"),
)

# ---- softmax by powers of two (ITAMax)


def _halves(p: Params, arrays: Sequence[np.ndarray]) -> np.ndarray:
    x = arrays[0].reshape(-1, p["rows"], p["inner"])
    shift = (x.max(axis=-1, keepdims=True) - x + 16) >> 5
    total = (256 >> shift).sum(axis=-1, keepdims=True)
    return ((p["most"] * 256 // total >> shift) + p["low"]).reshape(len(x), -1)


HALVES = Routine(
    "WholeHalves",
    "whole_halves",
    "shares of a row's sum of powers of two, halved for every 32 below the largest",
    same_shape,
    lambda node, shapes: {**_rows(node, shapes), **_numbers(node, "most", "low")},
    ("rows", "inner", "most", "low"),
    _halves,
    ("most", "low"),
)

# ---- (x - mean) * weight / deviation + bias


def _layer_norm(p: Params, arrays: Sequence[np.ndarray]) -> np.ndarray:
    x, (weight, bias) = arrays[0].reshape(-1, p["rows"], p["inner"]), (one.reshape(-1) for one in arrays[1:])
    inner = np.asarray(p["inner"])
    apart = x - truncated(x.sum(axis=-1, keepdims=True), inner)
    root = np.floor(np.sqrt(((apart * apart).sum(axis=-1, keepdims=True) // inner + 1).astype(np.float64)))
    return (truncated(apart * weight, root.astype(np.int64)) + bias >> p["shift"]).reshape(len(x), -1)


LAYER_NORM = Routine(
    "WholeLayerNorm",
    "whole_layer_norm",
    "a row's distances from its mean times weights, by their whole root of the mean square, plus a bias",
    same_shape,
    lambda node, shapes: {**_rows(node, shapes), **_numbers(node, "shift")},
    ("rows", "inner", "shift"),
    _layer_norm,
    ("shift",),
    operands=3,
)

# ---- means of rows


def _mean_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    """`shift`: of a row whose length is a power of two, else -1."""
    rows = _rows(node, shapes)
    shift = rows["inner"].bit_length() - 1
    return {**rows, "shift": shift if rows["inner"] == 1 << shift else -1}


def _mean(p: Params, arrays: Sequence[np.ndarray]) -> np.ndarray:
    total = arrays[0].reshape(-1, p["rows"], p["inner"]).sum(axis=-1)
    half = p["inner"] >> 1
    if p["shift"] >= 0:
        return np.asarray((total + half) >> p["shift"])
    return truncated(total + np.where(total < 0, -half, half), np.asarray(p["inner"]))


MEAN = Routine(
    "WholeMean",
    "whole_mean",
    "means of rows to the nearest whole number",
    lambda node, shapes: shapes[0][:-1],
    _mean_params,
    ("rows", "inner", "shift"),
    _mean,
)

# ---- x * factor / (y * more + least), to the nearest


def _division(p: Params, arrays: Sequence[np.ndarray]) -> np.ndarray:
    above, below = arrays[0] * p["factor"], arrays[1] * p["more"] + p["least"]
    return truncated(above + np.where(above < 0, -(below >> 1), below >> 1), below)


DIVISION = Routine(
    "WholeDivision",
    "whole_division",
    "whole numbers times a factor by others, to the nearest, in 64 bits",
    same_shape,
    lambda node, shapes: {"count": element_count(shapes[0]), **_numbers(node, "factor", "more", "least")},
    ("count", "factor", "more", "least"),
    _division,
    ("factor", "more", "least"),
    operands=2,
)

# ---- x * factor / divisor, in 64 bits


def _quotient(p: Params, arrays: Sequence[np.ndarray]) -> np.ndarray:
    return truncated(arrays[0] * p["factor"] * p["more"], np.asarray(p["divisor"]))


QUOTIENT = Routine(
    "WholeQuotient",
    "whole_quotient",
    "whole numbers times two factors by a divisor, towards zero, in 64 bits",
    same_shape,
    lambda node, shapes: {"count": element_count(shapes[0]), **_numbers(node, "factor", "more", "divisor")},
    ("count", "factor", "more", "divisor"),
    _quotient,
    ("factor", "more", "divisor"),
)

# ---- products of two computed matrices


def _product_shape(node: Node, shapes: Sequence[Shape]) -> Shape:
    a, b = shapes
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise refuse(node, f"operands {list(a)} and {list(b)}", "check the exported model")
    return (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])


def _product_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    """`batches` matrices; one of an operand that has no batch is read again and again."""
    batches = element_count(_product_shape(node, shapes)[:-2])
    own = [element_count(shape[:-2]) for shape in shapes]
    if any(n not in (1, batches) for n in own):
        raise refuse(node, f"batches {list(shapes[0])} and {list(shapes[1])}", "make both batches one axis")
    a, b = shapes
    return {
        "batches": batches,
        **{"rows": a[-2], "inner": a[-1], "columns": b[-1]},
        "a_step": a[-2] * a[-1] if own[0] > 1 else 0,
        "b_step": b[-2] * b[-1] if own[1] > 1 else 0,
    }


def _product(p: Params, arrays: Sequence[np.ndarray]) -> np.ndarray:
    a = arrays[0].reshape(len(arrays[0]), -1, p["rows"], p["inner"])
    b = arrays[1].reshape(len(arrays[1]), -1, p["inner"], p["columns"])
    made = np.matmul(a, b)
    return made.reshape(len(made), -1)


PRODUCT = Routine(
    "WholeProduct",
    "whole_product",
    "products of two matrices of whole numbers",
    _product_shape,
    _product_params,
    ("batches", "rows", "inner", "columns", "a_step", "b_step"),
    _product,
    operands=2,
)


# ---- a layer: bytes times constant bytes, requantized


def _infer_dense(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    return [(*shapes[0][:-1], shapes[1][-1])]


def _evaluate_dense(node: Node, arrays: Arrays) -> list[np.ndarray]:
    x, weights, bias, factor = (array.astype(np.int64) for array in arrays)
    shift = int(node.attrs["shift"])
    total = np.matmul(x, weights[0]) + bias[0]
    made = (total * factor[0] + ((1 << shift) >> 1)) >> shift
    return [np.clip(made, int(node.attrs["low"]), int(node.attrs["high"])).astype(np.float32)]


def _lower_dense(node: Node, lowering: Lowering) -> None:
    x, w, *_ = node.inputs
    weights, bias, factor = (lowering.constant(name) for name in node.inputs[1:])
    assert weights is not None  # the front end makes no other
    assert bias is not None
    assert factor is not None
    scales = np.ldexp(np.broadcast_to(factor, bias.shape).astype(np.float64), -int(node.attrs["shift"]))
    made = affine.Layer(w, weights.T.astype(np.int64), bias * scales, scales)
    params = {"rows": lowering.count(x) // len(weights), "outputs": len(bias), "inner": len(weights)}
    affine.emit_layer(node, lowering, linear.DENSE.form, x, made, params, None)


DENSE = Operator(
    "WholeDense",
    "bytes times constant bytes, plus a bias, times a factor, divided by a power of two to the nearest",
    _infer_dense,
    _evaluate_dense,
    by_domain(_lower_dense),
    (KIND, "shift", "low", "high"),
)

ROUTINES = (REQUANT, RMS_NORM, SOFTMAX, HALVES, LAYER_NORM, MEAN, DIVISION, QUOTIENT, PRODUCT)
KERNELS = tuple(routine.kernel for routine in ROUTINES)
OPERATORS = (*(routine.operator for routine in ROUTINES), DENSE)
