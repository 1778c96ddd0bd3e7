"""Operators of ai.onnx.ml, as scikit-learn's converter writes them, in terms of plain ONNX.

Linear models become one Gemm, trees loops; labels are not computed (the class is the largest score). Sources of the
semantics: the ai.onnx.ml operator documentation and the outputs of onnxruntime, which the tests compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tinyhil.errors import ModelError
from tinyhil.frontend.classical_encoders import imputer, joined, label_encoder, labels, one_hot
from tinyhil.frontend.classical_nodes import Attributes, Plain, constant, plain_node, text, whole
from tinyhil.frontend.classical_transformers import without_infinities
from tinyhil.frontend.classical_trees import Forest, of_rows, read_forest, read_joined, walk_forest
from tinyhil.frontend.classical_vectors import svm_classifier, svm_regressor
from tinyhil.frontend.onnx_outputs import ML_DOMAIN as DOMAIN
from tinyhil.frontend.onnx_outputs import origin


def rewrite_classical(graph: onnx.GraphProto, functions: Sequence[onnx.FunctionProto] = ()) -> onnx.GraphProto:
    """The graph, whose file has `functions`, without operators of ai.onnx.ml; the graph itself if it has none."""
    graph = without_infinities(graph, functions)
    if not any(node.domain == DOMAIN for node in graph.node):
        return graph
    _check_pairs(graph)
    _check_samples(graph)
    made = onnx.GraphProto()
    made.CopyFrom(graph)
    del made.node[:]
    normalized = set[str]()  # values that sum to one already
    read = {name for node in graph.node for name in node.input} | {info.name for info in graph.output}
    for index, node in enumerate(graph.node):
        if node.domain != DOMAIN:
            made.node.append(node)
            if node.op_type in ("Cast", "Identity") and node.input[0] in normalized:
                normalized.add(node.output[0])
            continue
        nodes, weights = _plain(_with_ranks(node, graph), index, normalized, read)
        made.node.extend(nodes)
        made.initializer.extend(weights)
    return made


def _check_pairs(graph: onnx.GraphProto) -> None:
    """ModelError if the model ends in decisions between pairs of classes: the largest of them names no class."""
    makers = {name: node for node in graph.node for name in node.output}
    for info in graph.output:
        node = origin(makers, info.name)
        if node is not None and (node.domain, node.op_type) == (DOMAIN, "SVMClassifier"):
            attrs = {attribute.name: attribute.ints for attribute in node.attribute}
            if len(attrs.get("vectors_per_class", ())) > 2 and not any(a.name == "prob_a" for a in node.attribute):
                what = "its scores are of pairs of classes, none of one class"
                raise ModelError(f"node '{node.name}': {what}; train with decision_function_shape='ovr'")


def _check_samples(graph: onnx.GraphProto) -> None:
    """ModelError for trees that read several samples at once: a walk is that of one."""
    batches = {info.name: info.type.tensor_type.shape.dim[:1] for info in (*graph.input, *graph.value_info)}
    for node in graph.node:
        count = max((dim.dim_value for dim in batches.get(node.input[0], ())), default=1) if node.input else 1
        if node.domain == DOMAIN and node.op_type in ("TreeEnsembleClassifier", "TreeEnsembleRegressor") and count > 1:
            raise ModelError(
                f"node '{node.name}' ({DOMAIN}.{node.op_type}): a batch of {count}; export it with one sample"
            )


def _plain(node: onnx.NodeProto, index: int, normalized: set[str], read: set[str]) -> Plain:
    name = node.name or f"{node.op_type}_{index}"
    where = f"node '{name}' ({DOMAIN}.{node.op_type})"
    rewrite = REWRITES.get(node.op_type)
    if rewrite is None:
        raise ModelError(
            f"node '{name}': operator {DOMAIN}.{node.op_type} is not supported; of {DOMAIN} there are "
            f"{', '.join(sorted(REWRITES))}"
        )
    wants_labels = node.op_type.endswith("Classifier") and node.output[0] in read
    if wants_labels and node.op_type == "SVMClassifier":
        raise ModelError(f"{where}: its labels are used; export the scores alone (`hil docs exporters`)")
    attrs = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    named = onnx.NodeProto()
    named.CopyFrom(node)
    named.name = name
    try:
        made = rewrite(named, attrs, normalized)
        return joined(made, labels(named, attrs)) if wants_labels else made
    except (ValueError, LookupError, TypeError, ArithmeticError, MemoryError) as error:
        raise ModelError(f"{where}: its attributes make no sense ({error}); the file is damaged") from None


def _linear_classifier(node: onnx.NodeProto, attrs: Attributes, normalized: set[str]) -> Plain:
    intercepts = np.asarray(attrs["intercepts"], np.float32)
    classes, scores = len(intercepts), node.output[1]
    labels = len(attrs.get("classlabels_ints") or attrs.get("classlabels_strings") or intercepts)
    if labels != classes:
        raise ModelError(f"node '{node.name}': {classes} scores for {labels} classes; give every class its own")
    coefficients = np.asarray(attrs["coefficients"], np.float32).reshape(classes, -1)
    transform = text(attrs, "post_transform", "NONE")
    after = {"NONE": "", "SOFTMAX": "Softmax", "LOGISTIC": "Sigmoid"}.get(transform)
    if after is None:
        raise ModelError(f"node '{node.name}': post_transform {transform} is not supported; use NONE or SOFTMAX")
    opposite = classes == 2 and bool((coefficients[0] == -coefficients[1]).all() and intercepts[0] == -intercepts[1])
    if after == "Softmax" or (after == "Sigmoid" and opposite):
        normalized.add(scores)
    linear = scores if not after else f"{scores}.linear"
    names = [f"{scores}.weights", f"{scores}.bias"]
    nodes = [plain_node("Gemm", [node.input[0], *names], linear, transB=1)]
    if after:
        nodes.append(plain_node(after, [linear], scores))
    return nodes, [constant(names[0], coefficients, *coefficients.shape), constant(names[1], intercepts, classes)]


def _linear_regressor(node: onnx.NodeProto, attrs: Attributes, _: set[str]) -> Plain:
    if text(attrs, "post_transform", "NONE") != "NONE":
        raise ModelError(f"node '{node.name}': post_transform of a LinearRegressor is not supported; use NONE")
    targets, out = int(attrs.get("targets", 1)), node.output[0]
    coefficients = np.asarray(attrs["coefficients"], np.float32).reshape(targets, -1)
    intercepts = attrs.get("intercepts") or [0.0] * targets
    names = [f"{out}.weights", f"{out}.bias"]
    values = [constant(names[0], coefficients, *coefficients.shape), constant(names[1], intercepts, targets)]
    return [plain_node("Gemm", [node.input[0], *names], out, transB=1)], values


def _scaler(node: onnx.NodeProto, attrs: Attributes, _: set[str]) -> Plain:
    """(x - offset) * scale."""
    offset, scale, out = np.asarray(attrs["offset"]), np.asarray(attrs["scale"]), node.output[0]
    names = [f"{out}.offset", f"{out}.scale"]
    centred = f"{out}.centred"
    nodes = [plain_node("Sub", [node.input[0], names[0]], centred), plain_node("Mul", [centred, names[1]], out)]
    return nodes, [constant(names[0], offset, 1, offset.size), constant(names[1], scale, 1, scale.size)]


def _normalizer(node: onnx.NodeProto, attrs: Attributes, normalized: set[str]) -> Plain:
    (x,), (out,) = node.input, node.output
    norm = text(attrs, "norm", "MAX")
    if norm == "L1" and x in normalized:
        return [plain_node("Identity", [x], out)], []
    size, total = f"{out}.size", f"{out}.norm"
    axes = whole(f"{out}.axes", -1)
    if norm == "L2":
        nodes = [plain_node("Mul", [x, x], size), plain_node("ReduceSum", [size, axes.name], f"{out}.sum", keepdims=1)]
        nodes.append(plain_node("Sqrt", [f"{out}.sum"], total))
    elif norm in ("L1", "MAX"):
        reduce = "ReduceSum" if norm == "L1" else "ReduceMax"
        nodes = [plain_node("Abs", [x], size), plain_node(reduce, [size, axes.name], total, keepdims=1)]
    else:
        raise ModelError(f"node '{node.name}': norm {norm} is not supported; use L1, L2 or MAX")
    return [*nodes, plain_node("Div", [x, total], out)], [axes]


def _forest(node: onnx.NodeProto, attrs: Attributes, kind: str, out: str) -> Plain:
    """The ensemble whose scores are `out`."""
    results = int(attrs.get("n_targets", 1)) if kind == "target" else _label_count(attrs)
    forest = read_forest(attrs, kind, results)
    base = np.array(attrs.get("base_values") or [0.0] * results)
    if kind == "class" and results == 2 and set(attrs["class_ids"]) == {0}:
        forest, base = _of_both(node, forest, attrs, base)
    aggregate = text(attrs, "aggregate_function", "SUM")
    if aggregate not in ("SUM", "AVERAGE"):
        raise ModelError(f"node '{node.name}': aggregate_function {aggregate} is not supported; use SUM or AVERAGE")
    if aggregate == "AVERAGE":
        forest = replace(forest, weights=(forest.weights / len(forest.roots)).astype(np.float32))
    transform = text(attrs, "post_transform", "NONE")
    after = {"NONE": "", "SOFTMAX": "Softmax", "LOGISTIC": "Sigmoid"}.get(transform)
    if after is None:
        raise ModelError(f"node '{node.name}': post_transform {transform} is not supported; use NONE or SOFTMAX")
    scores = f"{out}.scores" if after else out
    nodes, weights = walk_forest(forest, node.input[0], scores, base)
    return ([*nodes, plain_node(after, [scores], out)] if after else nodes), weights


def _of_both(node: onnx.NodeProto, forest: Forest, attrs: Attributes, base: np.ndarray) -> tuple[Forest, np.ndarray]:
    """Scores of two classes where, as a converter's shorthand, class 0 carries those of class 1: the probability p
    becomes 1 - p and p, the sum s in front of a sigmoid -s and s."""
    weights = forest.weights.sum(axis=1, keepdims=True)
    both, transform = np.hstack([-weights, weights]), text(attrs, "post_transform", "NONE")
    if transform == "LOGISTIC":
        return replace(forest, weights=both), np.array([-base.sum(), base.sum()])
    if min(attrs["class_weights"]) < 0 or transform != "NONE" or attrs.get("base_values"):
        raise ModelError(f"node '{node.name}': scores of one class of two that are no probabilities; regress instead")
    return replace(forest, weights=both), np.array([1.0, 0.0])


def _label_count(attrs: Attributes) -> int:
    return len(attrs.get("classlabels_int64s") or attrs.get("classlabels_strings") or ())


def _tree_classifier(node: onnx.NodeProto, attrs: Attributes, _: set[str]) -> Plain:
    return _forest(node, attrs, "class", node.output[1])


def _tree_regressor(node: onnx.NodeProto, attrs: Attributes, _: set[str]) -> Plain:
    return _forest(node, attrs, "target", node.output[0])


def _tree_ensemble(node: onnx.NodeProto, attrs: Attributes, _: set[str]) -> Plain:
    """Of ai.onnx.ml 5: sums or means (aggregate_function 1, 0) of the leaves' weights as they are, or after Softmax or
    Sigmoid (post_transform 0, 2, 1)."""
    numbers = {
        key: numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
        for key, value in attrs.items()
    }
    forest, out = read_joined(numbers), node.output[0]
    aggregate, transform = int(attrs.get("aggregate_function", 1)), int(attrs.get("post_transform", 0))
    if aggregate not in (0, 1) or transform not in (0, 1, 2):
        what = f"aggregate_function {aggregate}, post_transform {transform}"
        raise ModelError(f"node '{node.name}': {what} is not supported; use sums or means (1, 0), and 0, 1 or 2")
    if aggregate == 0:
        forest = replace(forest, weights=(forest.weights / len(forest.roots)).astype(np.float32))
    after = ("", "Sigmoid", "Softmax")[transform]
    scores = f"{out}.scores" if after else out
    node, weights = of_rows(forest, node.input[0], scores)
    return ([node, plain_node(after, [scores], out)] if after else [node]), weights


def _with_ranks(node: onnx.NodeProto, graph: onnx.GraphProto) -> onnx.NodeProto:
    """A copy of an ArrayFeatureExtractor that says whether it chooses from a list; other nodes as they are."""
    if node.op_type != "ArrayFeatureExtractor":
        return node
    flat = any(tensor.name == node.input[0] and len(tensor.dims) == 1 for tensor in graph.initializer)
    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.attribute.append(helper.make_attribute("flat", int(flat)))
    return made


def _columns(node: onnx.NodeProto, attrs: Attributes, _: set[str]) -> Plain:
    """Elements of the last axis by a list of indices; from a list they become a row."""
    x, indices = node.input
    out, flat = node.output[0], attrs["flat"]
    shape = whole(f"{out}.shape", *((1, -1) if flat else (-1,)))
    nodes = [plain_node("Reshape", [indices, shape.name], f"{out}.indices")]
    return [*nodes, plain_node("Gather", [x, f"{out}.indices"], out, axis=0 if flat else -1)], [shape]


def _binarizer(node: onnx.NodeProto, attrs: Attributes, _: set[str]) -> Plain:
    """1 above the threshold, else 0."""
    out = node.output[0]
    limit = constant(f"{out}.threshold", attrs.get("threshold", 0.0))
    above = plain_node("Greater", [node.input[0], limit.name], f"{out}.above")
    return [above, plain_node("Cast", [f"{out}.above"], out, to=onnx.TensorProto.FLOAT)], [limit]


REWRITES: dict[str, Callable[[onnx.NodeProto, Attributes, set[str]], Plain]] = {
    "ArrayFeatureExtractor": _columns,
    "Binarizer": _binarizer,
    "Imputer": imputer,
    "LabelEncoder": label_encoder,
    "LinearClassifier": _linear_classifier,
    "LinearRegressor": _linear_regressor,
    "Normalizer": _normalizer,
    "OneHotEncoder": one_hot,
    "SVMClassifier": svm_classifier,
    "SVMRegressor": svm_regressor,
    "Scaler": _scaler,
    "TreeEnsemble": _tree_ensemble,
    "TreeEnsembleClassifier": _tree_classifier,
    "TreeEnsembleRegressor": _tree_regressor,
}
