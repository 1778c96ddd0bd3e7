"""Operators of ai.onnx.ml, as scikit-learn's converter writes them, in terms of plain ONNX.

Linear models become one Gemm, trees loops; labels are not computed (the class is the largest score). Sources of the
semantics: the ai.onnx.ml operator documentation and the outputs of onnxruntime, which the tests compare with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tinyhil.errors import ModelError
from tinyhil.frontend.classical_trees import Forest, read_forest, walk_forest

DOMAIN = "ai.onnx.ml"
Attributes = dict[str, Any]
Plain = tuple[list[onnx.NodeProto], list[onnx.TensorProto]]


def rewrite_classical(graph: onnx.GraphProto) -> onnx.GraphProto:
    """The graph without operators of ai.onnx.ml; the graph itself if it has none."""
    if not any(node.domain == DOMAIN for node in graph.node):
        return graph
    made = onnx.GraphProto()
    made.CopyFrom(graph)
    del made.node[:]
    normalized = set[str]()  # values that sum to one already
    read = {name for node in graph.node for name in node.input} | {info.name for info in graph.output}
    for index, node in enumerate(graph.node):
        if node.domain != DOMAIN:
            made.node.append(node)
            continue
        nodes, weights = _plain(node, index, normalized, read)
        made.node.extend(nodes)
        made.initializer.extend(weights)
    return made


def _plain(node: onnx.NodeProto, index: int, normalized: set[str], read: set[str]) -> Plain:
    name = node.name or f"{node.op_type}_{index}"
    where = f"node '{name}' ({DOMAIN}.{node.op_type})"
    rewrite = REWRITES.get(node.op_type)
    if rewrite is None:
        raise ModelError(
            f"node '{name}': operator {DOMAIN}.{node.op_type} is not supported; of {DOMAIN} there are "
            f"{', '.join(sorted(REWRITES))}"
        )
    if node.op_type.endswith("Classifier") and node.output[0] in read:
        raise ModelError(f"{where}: its labels are used; export the scores alone (docs/exporters.md)")
    attrs = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    named = onnx.NodeProto()
    named.CopyFrom(node)
    named.name = name
    try:
        return rewrite(named, attrs, normalized)
    except (ValueError, LookupError, TypeError, ArithmeticError, MemoryError) as error:
        raise ModelError(f"{where}: its attributes make no sense ({error}); the file is damaged") from None


def _weights(name: str, values: Any, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(values, np.float32).reshape(shape), name)


def _node(op: str, inputs: list[str], output: str, **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, [output], name=f"{output}.{op}", **attrs)


def _text(attrs: Attributes, key: str, default: str) -> str:
    value = attrs.get(key, default)
    return value.decode() if isinstance(value, bytes) else str(value)


def _linear_classifier(node: onnx.NodeProto, attrs: Attributes, normalized: set[str]) -> Plain:
    intercepts = np.asarray(attrs["intercepts"], np.float32)
    classes, scores = len(intercepts), node.output[1]
    labels = len(attrs.get("classlabels_ints") or attrs.get("classlabels_strings") or intercepts)
    if labels != classes:
        raise ModelError(f"node '{node.name}': {classes} scores for {labels} classes; give every class its own")
    coefficients = np.asarray(attrs["coefficients"], np.float32).reshape(classes, -1)
    transform = _text(attrs, "post_transform", "NONE")
    after = {"NONE": "", "SOFTMAX": "Softmax", "LOGISTIC": "Sigmoid"}.get(transform)
    if after is None:
        raise ModelError(f"node '{node.name}': post_transform {transform} is not supported; use NONE or SOFTMAX")
    opposite = classes == 2 and bool((coefficients[0] == -coefficients[1]).all() and intercepts[0] == -intercepts[1])
    if after == "Softmax" or (after == "Sigmoid" and opposite):
        normalized.add(scores)
    linear = scores if not after else f"{scores}.linear"
    names = [f"{scores}.weights", f"{scores}.bias"]
    nodes = [_node("Gemm", [node.input[0], *names], linear, transB=1)]
    if after:
        nodes.append(_node(after, [linear], scores))
    return nodes, [_weights(names[0], coefficients, *coefficients.shape), _weights(names[1], intercepts, classes)]


def _linear_regressor(node: onnx.NodeProto, attrs: Attributes, _: set[str]) -> Plain:
    if _text(attrs, "post_transform", "NONE") != "NONE":
        raise ModelError(f"node '{node.name}': post_transform of a LinearRegressor is not supported; use NONE")
    targets, out = int(attrs.get("targets", 1)), node.output[0]
    coefficients = np.asarray(attrs["coefficients"], np.float32).reshape(targets, -1)
    intercepts = attrs.get("intercepts") or [0.0] * targets
    names = [f"{out}.weights", f"{out}.bias"]
    weights = [_weights(names[0], coefficients, *coefficients.shape), _weights(names[1], intercepts, targets)]
    return [_node("Gemm", [node.input[0], *names], out, transB=1)], weights


def _scaler(node: onnx.NodeProto, attrs: Attributes, _: set[str]) -> Plain:
    """(x - offset) * scale."""
    offset, scale, out = np.asarray(attrs["offset"]), np.asarray(attrs["scale"]), node.output[0]
    names = [f"{out}.offset", f"{out}.scale"]
    centred = f"{out}.centred"
    nodes = [_node("Sub", [node.input[0], names[0]], centred), _node("Mul", [centred, names[1]], out)]
    return nodes, [_weights(names[0], offset, 1, offset.size), _weights(names[1], scale, 1, scale.size)]


def _normalizer(node: onnx.NodeProto, attrs: Attributes, normalized: set[str]) -> Plain:
    (x,), (out,) = node.input, node.output
    norm = _text(attrs, "norm", "MAX")
    if norm == "L1" and x in normalized:
        return [_node("Identity", [x], out)], []
    size, total = f"{out}.size", f"{out}.norm"
    axes = numpy_helper.from_array(np.array([-1]), f"{out}.axes")
    if norm == "L2":
        nodes = [_node("Mul", [x, x], size), _node("ReduceSum", [size, axes.name], f"{out}.sum", keepdims=1)]
        nodes.append(_node("Sqrt", [f"{out}.sum"], total))
    elif norm in ("L1", "MAX"):
        reduce = "ReduceSum" if norm == "L1" else "ReduceMax"
        nodes = [_node("Abs", [x], size), _node(reduce, [size, axes.name], total, keepdims=1)]
    else:
        raise ModelError(f"node '{node.name}': norm {norm} is not supported; use L1, L2 or MAX")
    return [*nodes, _node("Div", [x, total], out)], [axes]


def _forest(node: onnx.NodeProto, attrs: Attributes, kind: str, out: str) -> Plain:
    """The ensemble whose scores are `out`."""
    results = int(attrs.get("n_targets", 1)) if kind == "target" else _label_count(attrs)
    forest = read_forest(attrs, kind, results)
    base = np.array(attrs.get("base_values") or [0.0] * results)
    if kind == "class" and results == 2 and set(attrs["class_ids"]) == {0}:
        forest, base = _of_both(node, forest, attrs)
    aggregate = _text(attrs, "aggregate_function", "SUM")
    if aggregate not in ("SUM", "AVERAGE"):
        raise ModelError(f"node '{node.name}': aggregate_function {aggregate} is not supported; use SUM or AVERAGE")
    if aggregate == "AVERAGE":
        forest = replace(forest, weights=(forest.weights / len(forest.roots)).astype(np.float32))
    transform = _text(attrs, "post_transform", "NONE")
    after = {"NONE": "", "SOFTMAX": "Softmax", "LOGISTIC": "Sigmoid"}.get(transform)
    if after is None:
        raise ModelError(f"node '{node.name}': post_transform {transform} is not supported; use NONE or SOFTMAX")
    scores = f"{out}.scores" if after else out
    nodes, weights = walk_forest(forest, node.input[0], scores, base)
    return ([*nodes, _node(after, [scores], out)] if after else nodes), weights


def _of_both(node: onnx.NodeProto, forest: Forest, attrs: Attributes) -> tuple[Forest, np.ndarray]:
    """Scores of two classes where, as a converter's shorthand, class 0 carries p of class 1: 1 - p and p."""
    weights = forest.weights.sum(axis=1, keepdims=True)
    if min(attrs["class_weights"]) < 0 or _text(attrs, "post_transform", "NONE") != "NONE" or attrs.get("base_values"):
        raise ModelError(f"node '{node.name}': scores of one class of two that are no probabilities; regress instead")
    return replace(forest, weights=np.hstack([-weights, weights])), np.array([1.0, 0.0])


def _label_count(attrs: Attributes) -> int:
    return len(attrs.get("classlabels_int64s") or attrs.get("classlabels_strings") or ())


def _tree_classifier(node: onnx.NodeProto, attrs: Attributes, _: set[str]) -> Plain:
    return _forest(node, attrs, "class", node.output[1])


def _tree_regressor(node: onnx.NodeProto, attrs: Attributes, _: set[str]) -> Plain:
    return _forest(node, attrs, "target", node.output[0])


REWRITES: dict[str, Callable[[onnx.NodeProto, Attributes, set[str]], Plain]] = {
    "LinearClassifier": _linear_classifier,
    "LinearRegressor": _linear_regressor,
    "Normalizer": _normalizer,
    "Scaler": _scaler,
    "TreeEnsembleClassifier": _tree_classifier,
    "TreeEnsembleRegressor": _tree_regressor,
}
