"""The zoo's model families as ONNX: one canonical form each, which the compiler's fusions recognise (docs/zoo.md).

Weights are float32 arrays in the orientation of row vectors: x W, not W x. Batch 1, opset 17, IR version 8, which run
on onnxruntime 1.12 and later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 8
Nodes = Sequence[tuple[str, Sequence[str], str]]


@dataclass(frozen=True, slots=True)
class ProtoNn:
    """score = sum_i label_i exp(-gamma^2 |x projection + bias - prototype_i|^2) (Gupta et al., ICML 2017).

    `projection` (inputs, d), `bias` (d,), `prototypes` (m, d), `labels` (m, classes).
    """

    projection: np.ndarray
    bias: np.ndarray
    prototypes: np.ndarray
    labels: np.ndarray
    gamma_squared: float

    @property
    def cost(self) -> int:
        """Multiply-accumulates of one inference, zeros included."""
        return self.projection.size + self.prototypes.size + self.labels.size


@dataclass(frozen=True, slots=True)
class Bonsai:
    """score = sum over the path of (z score_w_k) * tanh(z score_v_k), z = x projection + bias.

    Kumar et al., ICML 2017. From node k the path goes to 2 k + 1, or to 2 k + 2 where z branch_k < 0. `score_w` and
    `score_v` are (2^(depth + 1) - 1, d, classes), `branch` is (2^depth - 1, d, 1). With one class the sign of the
    score decides. `hard_tanh` clips to -1..1 instead.
    """

    projection: np.ndarray
    bias: np.ndarray
    score_w: np.ndarray
    score_v: np.ndarray
    branch: np.ndarray
    hard_tanh: bool = False

    @property
    def depth(self) -> int:
        return int(len(self.branch) + 1).bit_length() - 1

    @property
    def cost(self) -> int:
        """Multiply-accumulates of one inference, zeros included: depth + 1 nodes of the tree, not all."""
        scores = 2 * (self.depth + 1) * self.score_w[0].size
        return self.projection.size + scores + self.depth * self.branch[0].size


@dataclass(frozen=True, slots=True)
class FastGrnn:
    """c = x_t w + h u, g = sigmoid(c + b_g), h~ = tanh(c + b_h), h' = g h + (zeta (1 - g) + nu) h~ (NeurIPS 2018).

    `w` and `u` are one matrix, or two whose product they are. logits = h classifier + classifier_bias.
    """

    w: tuple[np.ndarray, ...]
    u: tuple[np.ndarray, ...]
    b_g: np.ndarray
    b_h: np.ndarray
    classifier: np.ndarray
    classifier_bias: np.ndarray
    zeta: float = 1.0
    nu: float = 0.0

    @property
    def step_cost(self) -> int:
        """Multiply-accumulates of the matrix products of one step."""
        return sum(factor.size for factor in (*self.w, *self.u))


def float_value(name: str, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def finish(
    name: str,
    nodes: Sequence[onnx.NodeProto],
    input_shape: Sequence[int],
    outputs: int,
    constants: Mapping[str, np.ndarray],
) -> onnx.ModelProto:
    """A checked model from `x` (input_shape) to `logits` [1, outputs]."""
    graph = helper.make_graph(
        nodes,
        name,
        [float_value("x", *input_shape)],
        [float_value("logits", 1, outputs)],
        [numpy_helper.from_array(np.asarray(array, order="C"), key) for key, array in constants.items()],
    )
    opset = [helper.make_opsetid("", OPSET)]
    proto = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="tinyhil")
    onnx.checker.check_model(proto, full_check=True)
    return proto


def make_nodes(nodes: Nodes, **attributes: object) -> list[onnx.NodeProto]:
    """Nodes named after their results; `attributes` belong to the node whose result has that name."""
    made = []
    for op, inputs, output in nodes:
        given = attributes.get(output, {})
        assert isinstance(given, dict)
        made.append(helper.make_node(op, list(inputs), [output], name=output, **given))
    return made


def _projected(input_shape: Sequence[int]) -> tuple[Nodes, str]:
    """Nodes from x to `z` [1, d]: flattened if it has more axes than two, times the projection, plus the bias."""
    flat: Nodes = () if len(input_shape) == 2 else (("Flatten", ("x",), "flat"),)
    source = "flat" if flat else "x"
    return (*flat, ("MatMul", (source, "projection"), "projected"), ("Add", ("projected", "bias"), "z")), source


def protonn(name: str, weights: ProtoNn, input_shape: Sequence[int]) -> onnx.ModelProto:
    """Sub, Mul, ReduceSum, Mul, Exp on [prototypes, d], then one MatMul with the labels."""
    projected, _ = _projected(input_shape)
    nodes: Nodes = (
        *projected,
        ("Sub", ("z", "prototypes"), "difference"),
        ("Mul", ("difference", "difference"), "square"),
        ("ReduceSum", ("square", "last_axis"), "distance"),
        ("Mul", ("distance", "minus_gamma_squared"), "exponent"),
        ("Exp", ("exponent",), "similarity"),
        ("Unsqueeze", ("similarity", "first_axis"), "similarity_row"),
        ("MatMul", ("similarity_row", "labels"), "logits"),
    )
    constants = {
        "projection": weights.projection.astype(np.float32),
        "bias": weights.bias.astype(np.float32),
        "prototypes": weights.prototypes.astype(np.float32),
        "labels": weights.labels.astype(np.float32),
        "minus_gamma_squared": np.array(-weights.gamma_squared, np.float32),
        "last_axis": np.array([1], np.int64),
        "first_axis": np.array([0], np.int64),
    }
    made = make_nodes(nodes, distance={"keepdims": 0})
    return finish(name, made, input_shape, weights.labels.shape[1], constants)


def _node_score(prefix: str, node: str, before: str, after: str, hard_tanh: bool) -> Nodes:
    """after = before + (z score_w[node]) * tanh(z score_v[node])."""
    gate = ("Clip", (f"{prefix}zv", "minus_one", "plus_one")) if hard_tanh else ("Tanh", (f"{prefix}zv",))
    return (
        ("Gather", ("score_w", node), f"{prefix}w_k"),
        ("Gather", ("score_v", node), f"{prefix}v_k"),
        ("MatMul", ("z", f"{prefix}w_k"), f"{prefix}zw"),
        ("MatMul", ("z", f"{prefix}v_k"), f"{prefix}zv"),
        (*gate, f"{prefix}gate"),
        ("Mul", (f"{prefix}zw", f"{prefix}gate"), f"{prefix}term"),
        ("Add", (before, f"{prefix}term"), after),
    )


def _descent(classes: int, hard_tanh: bool) -> onnx.GraphProto:
    """The loop's body: add the score of `node`, then choose its child. Only this node's weights are read."""
    nodes: Nodes = (
        ("Identity", ("go_on",), "go_on_next"),
        *_node_score("", "node", "score", "score_next", hard_tanh),
        ("Gather", ("branch", "node"), "branch_k"),
        ("MatMul", ("z", "branch_k"), "side"),
        ("Less", ("side", "zero"), "is_right"),
        ("Cast", ("is_right",), "right"),
        ("Squeeze", ("right",), "right_scalar"),
        ("Mul", ("node", "two"), "twice"),
        ("Add", ("twice", "one"), "left_child"),
        ("Add", ("left_child", "right_scalar"), "node_next"),
    )
    make = helper.make_tensor_value_info
    return helper.make_graph(
        make_nodes(nodes, right={"to": TensorProto.INT64}),
        "descent",
        [
            make("level", TensorProto.INT64, []),
            make("go_on", TensorProto.BOOL, []),
            make("node", TensorProto.INT64, []),
            float_value("score", 1, classes),
        ],
        [
            make("go_on_next", TensorProto.BOOL, []),
            make("node_next", TensorProto.INT64, []),
            float_value("score_next", 1, classes),
        ],
    )


def bonsai(name: str, weights: Bonsai, input_shape: Sequence[int]) -> onnx.ModelProto:
    """A Loop of `depth` steps from the root, then the leaf. With one class, logits = [-score, score]."""
    projected, _ = _projected(input_shape)
    classes = weights.score_w.shape[2]
    body = _descent(classes, weights.hard_tanh)
    loop = helper.make_node("Loop", ["depth", "", "root", "score_0"], ["leaf", "score_path"], name="path", body=body)
    total = "logits" if classes > 1 else "score_total"
    tail: Nodes = _node_score("leaf_", "leaf", "score_path", total, weights.hard_tanh)
    if classes == 1:
        tail = (*tail, ("MatMul", (total, "signs"), "logits"))
    constants = {
        "projection": weights.projection.astype(np.float32),
        "bias": weights.bias.astype(np.float32),
        "score_w": weights.score_w.astype(np.float32),
        "score_v": weights.score_v.astype(np.float32),
        "branch": weights.branch.astype(np.float32),
        "depth": np.array(weights.depth, np.int64),
        "root": np.array(0, np.int64),
        "score_0": np.zeros((1, classes), np.float32),
        "zero": np.array(0, np.float32),
        "one": np.array(1, np.int64),
        "two": np.array(2, np.int64),
    }
    if classes == 1:
        constants["signs"] = np.array([[-1, 1]], np.float32)
    if weights.hard_tanh:
        constants |= {"minus_one": np.array(-1, np.float32), "plus_one": np.array(1, np.float32)}
    return finish(name, [*make_nodes(projected), loop, *make_nodes(tail)], input_shape, max(classes, 2), constants)


def _product(prefix: str, source: str, factors: int) -> tuple[Nodes, str]:
    """source times one matrix, or times two after each other (low rank)."""
    if factors == 1:
        return (("MatMul", (source, prefix), f"{prefix}_product"),), f"{prefix}_product"
    return (
        ("MatMul", (source, f"{prefix}1"), f"{prefix}_low"),
        ("MatMul", (f"{prefix}_low", f"{prefix}2"), f"{prefix}_product"),
    ), f"{prefix}_product"


def _cell(weights: FastGrnn, channels: int, hidden: int) -> onnx.GraphProto:
    """One step: (h, x_t) -> h_next. With zeta = 1 and nu = 0 their two operations are left out."""
    from_x, wx = _product("w", "x_t", len(weights.w))
    from_h, uh = _product("u", "h", len(weights.u))
    share: Nodes = (("Sub", ("one", "gate"), "share"),)
    if (weights.zeta, weights.nu) != (1.0, 0.0):
        # zeta (1 - g) + nu = (zeta + nu) - zeta g
        share = (("Mul", ("gate", "zeta"), "zeta_gate"), ("Sub", ("zeta_plus_nu", "zeta_gate"), "share"))
    nodes: Nodes = (
        *from_x,
        *from_h,
        ("Add", (wx, uh), "c"),
        ("Add", ("c", "b_g"), "c_g"),
        ("Sigmoid", ("c_g",), "gate"),
        ("Add", ("c", "b_h"), "c_h"),
        ("Tanh", ("c_h",), "h_tilde"),
        *share,
        ("Mul", ("share", "h_tilde"), "update"),
        ("Mul", ("gate", "h"), "keep"),
        ("Add", ("keep", "update"), "h_next"),
    )
    inputs = [float_value("h", 1, hidden), float_value("x_t", 1, channels)]
    return helper.make_graph(make_nodes(nodes), "fastgrnn_cell", inputs, [float_value("h_next", 1, hidden)])


def fastgrnn(name: str, weights: FastGrnn, input_shape: Sequence[int]) -> onnx.ModelProto:
    """A Scan over axis 1 of x [1, steps, channels], then the classifier."""
    hidden, channels = weights.classifier.shape[0], input_shape[2]
    body = _cell(weights, channels, hidden)
    scan = helper.make_node(
        "Scan", ["h_0", "x"], ["h_final"], name="cell", body=body, num_scan_inputs=1, scan_input_axes=[1]
    )
    tail: Nodes = (
        ("MatMul", ("h_final", "classifier"), "classified"),
        ("Add", ("classified", "classifier_bias"), "logits"),
    )
    constants: dict[str, np.ndarray] = {"h_0": np.zeros((1, hidden))}
    for prefix, factors in (("w", weights.w), ("u", weights.u)):
        names = [prefix] if len(factors) == 1 else [f"{prefix}{i + 1}" for i in range(len(factors))]
        constants |= dict(zip(names, factors, strict=True))
    constants |= {"b_g": weights.b_g.reshape(-1), "b_h": weights.b_h.reshape(-1)}
    if (weights.zeta, weights.nu) == (1.0, 0.0):
        constants["one"] = np.ones(1)
    else:
        constants |= {"zeta": np.full(1, weights.zeta), "zeta_plus_nu": np.full(1, weights.zeta + weights.nu)}
    constants |= {"classifier": weights.classifier, "classifier_bias": weights.classifier_bias.reshape(-1)}
    constants = {key: array.astype(np.float32) for key, array in constants.items()}
    return finish(name, [scan, *make_nodes(tail)], input_shape, weights.classifier.shape[1], constants)
