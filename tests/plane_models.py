"""Models of operators on planes, boxes, matrices and bits, for the tables of ops_models.py: name, model, opset."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import TensorProto
from onnx_models import node, samples_for

PLANE, DEEP, CODES = (1, 2, 6, 7), (1, 2, 4, 5, 6), (4, 6)
REGIONS = {"r": [[0.5, 1.0, 4.0, 5.5], [2.0, 0.0, 6.5, 3.0], [-1.0, -2.0, 3.0, 9.0]], "b": [0, 0, 0]}
SIZES: dict[str, Any] = {"output_height": 3, "output_width": 2, "sampling_ratio": 2}
OF_X = {"s": [0, 0, 0, 0], "e": [1, 1, 2, 4], "shape": [2, 4], "far": [[0.0, 0.0, 3.0, 3.0]], "b": [0, 0]}
PARTS = [node("Slice", "x zero four two", "boxes"), node("Slice", "x four five two", "s")]
ENDS = {"zero": [0], "four": [4], "five": [5], "two": [2], "most": 2, "overlap": 0.99}

RUNS: dict[str, Any] = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0}
RUNS |= {"ngram_counts": [0], "ngram_indexes": [0, 1, 2], "pool_int64s": [0, 1, -1]}


def bits(*nodes: onnx.NodeProto) -> tuple[list[onnx.NodeProto], tuple[int, ...], dict[str, Any]]:
    """Between the whole part of 40 x as int32, and the result as float."""
    before = [node("Mul", "x forty", "m"), node("Cast", "m", "i", to=TensorProto.INT32)]
    behind = node("Cast", "r", "y", to=TensorProto.FLOAT)
    mask = node("Cast", "c", "k", to=TensorProto.INT32)
    return [*before, mask, *nodes, behind], CODES, {"forty": 40.0, "c": [21, -4, 7, 64, 1, -128]}


def flag(op: str, **attrs: Any) -> tuple[list[onnx.NodeProto], tuple[int, ...], dict[str, Any]]:
    return [node(op, "x", "f", **attrs), node("Cast", "f", "y", to=TensorProto.FLOAT)], CODES, {}


PLANES: dict[str, tuple[tuple[list[onnx.NodeProto], tuple[int, ...], dict[str, Any]], int]] = {
    "largest of boxes": (([node("MaxPool", "x", "y", kernel_shape=[2, 3, 2], strides=[2, 1, 2])], DEEP, {}), 17),
    "means of boxes": (
        ([node("AveragePool", "x", "y", kernel_shape=[2, 2, 3], pads=[1, 0, 1, 0, 1, 1])], DEEP, {}),
        17,
    ),
    "largest of all planes": (([node("GlobalMaxPool", "x", "y")], DEEP, {}), 17),
    "mean of all planes": (([node("GlobalAveragePool", "x", "y")], DEEP, {}), 17),
    "where the largest are": (
        (
            [
                node("MaxPool", "x", "v i", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
                node("Cast", "i", "y", to=TensorProto.FLOAT),
            ],
            PLANE,
            {},
        ),
        17,
    ),
    "where the largest of a row are": (
        ([node("MaxPool", "x", "v i", kernel_shape=[3]), node("Cast", "i", "y", to=TensorProto.FLOAT)], (1, 3, 9), {}),
        17,
    ),
    "unpooled": (
        (
            [
                node("MaxPool", "x", "v i", kernel_shape=[2, 2], strides=[2, 2]),
                node("MaxUnpool", "v i", "y", kernel_shape=[2, 2], strides=[2, 2]),
            ],
            (1, 2, 4, 6),
            {},
        ),
        17,
    ),
    "neighbouring channels": (([node("LRN", "x", "y", size=3, alpha=0.5, beta=0.75)], (1, 5, 3, 4), {}), 17),
    "regions": (([node("RoiAlign", "x r b", "y", **SIZES)], PLANE, REGIONS), 16),
    "regions not moved": (([node("RoiAlign", "x r b", "y", spatial_scale=0.5, **SIZES)], PLANE, REGIONS), 15),
    "regions of largest": (([node("RoiAlign", "x r b", "y", mode="max", **SIZES)], PLANE, REGIONS), 16),
    "optional": (
        (
            [
                node("Relu", "x", "r"),
                node("OptionalGetElement", "r", "o"),
                node("OptionalHasElement", "o", "h"),
                node("Cast", "h", "c", to=1),
                node("Add", "o c", "y"),
            ],
            PLANE,
            {},
        ),
        18,
    ),
    "regions at run time": (
        (
            [
                node("Slice", "x s e", "part"),
                node("Reshape", "part shape", "rows"),
                node("Abs", "rows", "near"),
                node("Add", "near far", "r"),
                node("RoiAlign", "x r b", "y", **SIZES),
            ],
            PLANE,
            OF_X,
        ),
        16,
    ),
    "determinant": (([node("Det", "x", "y")], (2, 4, 4), {}), 17),
    "elements added": (
        (
            [node("ScatterElements", "x i u", "y", axis=1, reduction="add")],
            (2, 4),
            {"i": [[1, 0, 1], [3, 3, 3]], "u": samples_for((2, 3), 1)[0]},
        ),
        18,
    ),
    "largest at places": (
        (
            [node("ScatterND", "x i u", "y", reduction="max")],
            (3, 4),
            {"i": [[1], [1], [2]], "u": samples_for((3, 4), 1)[0]},
        ),
        18,
    ),
    "elements written": (
        ([node("Scatter", "x i u", "y", axis=0)], (3, 2), {"i": [[2, 0]], "u": samples_for((1, 2), 1)[0]}),
        10,
    ),
    "bits of another type": (
        (
            [
                node("Cast", "x", "i", to=TensorProto.INT8),
                node("BitCast", "i", "u", to=TensorProto.UINT8),
                node("Cast", "u", "y", to=TensorProto.FLOAT),
            ],
            CODES,
            {},
        ),
        26,
    ),
    "runs of numbers": (
        ([node("Cast", "x", "n", to=TensorProto.INT64), node("TfIdfVectorizer", "n", "y", **RUNS)], CODES, {}),
        17,
    ),
    "normalized samples": (
        ([node("BatchNormalization", "x s b m v", "y")], (2, 3, 2, 2), {key: [0.5, 1.0, 2.0] for key in "sbmv"}),
        17,
    ),
    "deformed layer": (
        (
            [node("DeformConv", "x w o", "y")],
            (1, 2, 4, 4),
            {"w": samples_for((2, 2, 2, 2), 1)[0], "o": samples_for((1, 8, 3, 3), 1, scale=0.5)[0]},
        ),
        19,
    ),
    "bits of both": (bits(node("BitwiseAnd", "i k", "r")), 18),
    "bits of one": (bits(node("BitwiseOr", "i k", "r")), 18),
    "bits of one alone": (bits(node("BitwiseXor", "i k", "a"), node("BitwiseAnd", "a i", "r")), 18),
    "other bits": (bits(node("BitwiseNot", "i", "r")), 18),
    "no number": (flag("IsNaN"), 17),
    "infinite": (flag("IsInf", detect_negative=0), 17),
    "best boxes": (
        (
            [
                *PARTS,
                node("Transpose", "s", "scores", perm=[0, 2, 1]),
                node("NonMaxSuppression", "boxes scores most overlap", "f"),
                node("Cast", "f", "y", to=TensorProto.FLOAT),
            ],
            (1, 7, 5),
            ENDS,
        ),
        17,
    ),
}
