"""Support vector machines in terms of plain ONNX: kernels of all vectors at once, one Gemm over them.

Kernel values k (1, vectors) are exp(-gamma |x - v|²), (gamma x·v + c)^d, tanh(gamma x·v + c) or x·v. A classifier has
one decision for each pair of classes i < j: its row of the Gemm holds the coefficients of the vectors of i and of j,
and zeros. Of two classes the one with the larger score is the label; onnxruntime gives these scores the other sign.
Sources: the ai.onnx.ml operator documentation, and onnxruntime's outputs.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx

from tinyhil.errors import ModelError
from tinyhil.frontend.classical_nodes import Attributes, Plain, constant, plain_node, text, whole


def svm_regressor(node: onnx.NodeProto, attrs: Attributes, _: set[str]) -> Plain:
    """An SVMRegressor as plain nodes; ModelError for what is not supported."""
    out = node.output[0]
    if text(attrs, "post_transform", "NONE") != "NONE":
        raise ModelError(f"node '{node.name}': post_transform of an SVMRegressor is not supported; use NONE")
    coefficients = np.asarray(attrs["coefficients"], np.float32).reshape(1, -1)
    sided = bool(attrs.get("one_class", 0))
    total = f"{out}.sum" if sided else out
    if attrs.get("n_supports", 0):
        nodes, constants = _scored(node, attrs, coefficients, np.asarray(attrs["rho"][:1]), total)
    else:
        nodes, constants = _linear(node, coefficients, attrs["rho"][0], total)
    if sided:  # 1 above zero, else -1
        nodes.append(plain_node("Greater", [total, f"{out}.zero"], f"{out}.inside"))
        nodes.append(plain_node("Where", [f"{out}.inside", f"{out}.one", f"{out}.minus"], out))
        constants += [constant(f"{out}.{name}", value) for name, value in (("zero", 0), ("one", 1), ("minus", -1))]
    return nodes, constants


def svm_classifier(node: onnx.NodeProto, attrs: Attributes, normalized: set[str]) -> Plain:
    """An SVMClassifier as plain nodes; ModelError for what is not supported."""
    out, labels = node.output[1], attrs.get("classlabels_ints") or attrs.get("classlabels_strings") or ()
    per_class = [int(count) for count in attrs.get("vectors_per_class") or ()]
    transform = text(attrs, "post_transform", "NONE")
    if transform != "NONE":
        raise ModelError(
            f"node '{node.name}': post_transform {transform} of an SVMClassifier is not supported; use NONE"
        )
    coefficients = np.asarray(attrs["coefficients"], np.float32)
    if not per_class:
        return _linear(node, coefficients.reshape(len(labels), -1), attrs["rho"][0], out)
    classes, likely = len(per_class), bool(attrs.get("prob_a"))
    if likely and classes > 2:
        raise ModelError(
            f"node '{node.name}': probabilities of {classes} classes, which couples them by an iteration of its own; "
            "train with probability=False"
        )
    rows, rho = _pairs(coefficients.reshape(classes - 1, -1), per_class), np.asarray(attrs["rho"], np.float32)
    if classes > 2:
        return _scored(node, attrs, rows, rho, out)
    if not likely:
        return _scored(node, attrs, np.vstack([rows, -rows]), np.array([rho[0], -rho[0]]), out)
    a, b = float(attrs["prob_a"][0]), float(attrs["prob_b"][0])  # of class 0: 1 / (1 + exp(a f + b))
    offset = a * rho[0] + b
    nodes, constants = _scored(node, attrs, np.vstack([-a * rows, a * rows]), np.array([-offset, offset]), f"{out}.f")
    normalized.add(out)
    return [*nodes, plain_node("Sigmoid", [f"{out}.f"], out)], constants


def _linear(node: onnx.NodeProto, coefficients: np.ndarray, offset: float, out: str) -> Plain:
    """Without vectors: lines with one offset for all."""
    values = [constant(f"{out}.weights", coefficients), constant(f"{out}.bias", np.full(len(coefficients), offset))]
    return [plain_node("Gemm", [node.input[0], *(value.name for value in values)], out, transB=1)], values


def _pairs(coefficients: np.ndarray, per_class: list[int]) -> np.ndarray:
    """(pairs, vectors): the vectors of the one class have their row for the other."""
    spans = [slice(a, b) for a, b in pairwise(np.cumsum([0, *per_class]))]
    rows = []
    for i in range(len(spans)):
        for j in range(i + 1, len(spans)):
            row = np.zeros(coefficients.shape[1], np.float32)
            row[spans[i]] = coefficients[j - 1, spans[i]]
            row[spans[j]] = coefficients[i, spans[j]]
            rows.append(row)
    return np.array(rows)


def _scored(node: onnx.NodeProto, attrs: Attributes, rows: np.ndarray, offsets: np.ndarray, out: str) -> Plain:
    """out (1, rows) = kernels rows^T + offsets; of a linear kernel both products are one."""
    count = rows.shape[1]
    names = [f"{out}.weights", f"{out}.bias"]
    kind = text(attrs, "kernel_type", "LINEAR")
    nodes, constants, x = list[onnx.NodeProto](), list[onnx.TensorProto](), node.input[0]
    if kind == "LINEAR":
        vectors = np.asarray(attrs["support_vectors"], np.float64).reshape(count, -1)
        rows = rows.astype(np.float64) @ vectors
    else:
        nodes, constants, x = _kernels(node, attrs, kind, f"{out}.kernels", count)
    nodes.append(plain_node("Gemm", [x, *names], out, transB=1))
    return nodes, [*constants, constant(names[0], rows), constant(names[1], offsets, len(rows))]


def _kernels(
    node: onnx.NodeProto, attrs: Attributes, kind: str, k: str, count: int
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto], str]:
    """Nodes and constants of the kernel values (1, count), and their name."""
    vectors = np.asarray(attrs["support_vectors"], np.float32).reshape(count, -1)
    gamma, offset, degree = (float(number) for number in [*(attrs.get("kernel_params") or ()), 0.0, 0.0, 0.0][:3])
    x = node.input[0]
    if kind == "RBF":
        nodes = [
            plain_node("Sub", [x, f"{k}.vectors"], f"{k}.difference"),
            plain_node("Mul", [f"{k}.difference"] * 2, f"{k}.square"),
            plain_node("ReduceSum", [f"{k}.square", f"{k}.axes"], f"{k}.distance", keepdims=0),
            plain_node("Mul", [f"{k}.distance", f"{k}.gamma"], f"{k}.exponent"),
            plain_node("Exp", [f"{k}.exponent"], f"{k}.values"),
            plain_node("Reshape", [f"{k}.values", f"{k}.row"], k),
        ]
        constants = [constant(f"{k}.vectors", vectors), constant(f"{k}.gamma", -gamma), whole(f"{k}.axes", -1)]
        return nodes, [*constants, whole(f"{k}.row", 1, count)], k
    if kind not in ("POLY", "SIGMOID"):
        raise ModelError(f"node '{node.name}': kernel_type {kind} is not supported; use RBF, POLY, SIGMOID or LINEAR")
    power = [f"{k}.degree"] if kind == "POLY" else []
    nodes = [
        plain_node("Gemm", [x, f"{k}.vectors", f"{k}.offset"], f"{k}.product", transB=1),
        plain_node("Pow" if power else "Tanh", [f"{k}.product", *power], k),
    ]
    constants = [constant(f"{k}.vectors", gamma * vectors), constant(f"{k}.offset", np.full(count, offset))]
    return nodes, [*constants, *(constant(name, degree) for name in power)], k
