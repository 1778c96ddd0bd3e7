"""Compact convolutional transformers with random weights, as ONNX models, for measurements and tests of their speed.

CCT-2 (Hassani et al., "Escaping the Big Data Paradigm with Compact Transformers"): a convolution of 7 x 7 and a pooling
of 3 x 3 make 64 tokens of 128 channels of an image of 32 x 32, two encoders of two heads follow, then pooling by
attention. Weights are drawn by a seed; normalised activations keep their ranges like those of trained ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
MASKED = -1e9  # as exporters write minus infinity


@dataclass(frozen=True, slots=True)
class Shape:
    """Of a compact convolutional transformer: image (square), channels, heads, encoders, the convolution's kernel and
    stride, hidden channels of an encoder's layers; `causal`: no token sees a later one."""

    image: int = 32
    channels: int = 128
    heads: int = 2
    encoders: int = 2
    kernel: int = 7
    stride: int = 2
    hidden: int = 128
    classes: int = 10
    causal: bool = False

    @property
    def tokens(self) -> int:
        """After convolution and pooling, both padded."""
        side = -(-self.image // self.stride)
        return (-(-side // 2)) ** 2


class _Graph:
    """Nodes and weights, in order."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def normal(self, *shape: int, deviation: float) -> str:
        return self.constant((self.draw.standard_normal(shape) * deviation).astype(np.float32))

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def dense(self, x: str, inner: int, outputs: int) -> str:
        product = self.add("MatMul", x, self.normal(inner, outputs, deviation=inner**-0.5))
        return self.add("Add", product, self.normal(outputs, deviation=0.1))

    def normalized(self, x: str, channels: int) -> str:
        ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
        return self.add("LayerNormalization", x, self.constant(ones), self.constant(zeros), axis=-1)

    def shaped(self, x: str, *shape: int) -> str:
        return self.add("Reshape", x, self.constant(np.array(shape, np.int64)))


def _attention(g: _Graph, x: str, s: Shape) -> str:
    size = s.channels // s.heads
    parts = [g.shaped(g.dense(x, s.channels, s.channels), 1, s.tokens, s.heads, size) for _ in range(3)]
    q, v = (g.add("Transpose", parts[at], perm=[0, 2, 1, 3]) for at in (0, 2))
    scores = g.add("MatMul", q, g.add("Transpose", parts[1], perm=[0, 2, 3, 1]))
    scaled = g.add("Mul", scores, g.constant(np.array(size**-0.5, np.float32)))
    if s.causal:
        scaled = g.add("Add", scaled, g.constant(np.triu(np.full((s.tokens, s.tokens), MASKED, np.float32), 1)))
    mixed = g.add("MatMul", g.add("Softmax", scaled, axis=-1), v)
    rows = g.shaped(g.add("Transpose", mixed, perm=[0, 2, 1, 3]), 1, s.tokens, s.channels)
    return g.dense(rows, s.channels, s.channels)


def _gelu(g: _Graph, x: str) -> str:
    erf = g.add("Erf", g.add("Mul", x, g.constant(np.array(0.5**0.5, np.float32))))
    half = g.add("Mul", x, g.constant(np.array(0.5, np.float32)))
    return g.add("Mul", half, g.add("Add", erf, g.constant(np.array(1, np.float32))))


def compact(shape: Shape, seed: int = 0) -> onnx.ModelProto:
    """The transformer of `shape`: an image (1, 3, image, image) to scores (1, classes)."""
    g, s = _Graph(seed), shape
    pad, inner = s.kernel // 2, 3 * s.kernel**2
    weights = g.constant(
        (g.draw.standard_normal((s.channels, 3, s.kernel, s.kernel)) * (2 / inner) ** 0.5).astype(np.float32)
    )
    conv = g.add("Conv", "x", weights, kernel_shape=[s.kernel] * 2, strides=[s.stride] * 2, pads=[pad] * 4)
    pooled = g.add("MaxPool", g.add("Relu", conv), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    x = g.add("Transpose", g.shaped(pooled, 1, s.channels, s.tokens), perm=[0, 2, 1])
    x = g.add("Add", x, g.normal(1, s.tokens, s.channels, deviation=0.2))
    for _ in range(s.encoders):
        x = g.normalized(g.add("Add", x, _attention(g, g.normalized(x, s.channels), s)), s.channels)
        x = g.add("Add", x, g.dense(_gelu(g, g.dense(x, s.channels, s.hidden)), s.hidden, s.channels))
    x = g.normalized(x, s.channels)
    weighed = g.add("Transpose", g.dense(x, s.channels, 1), perm=[0, 2, 1])
    pooled = g.shaped(g.add("MatMul", g.add("Softmax", weighed, axis=-1), x), 1, s.channels)
    y = g.dense(pooled, s.channels, s.classes)
    g.nodes[-1].output[0] = "y"
    assert y
    graph = helper.make_graph(
        g.nodes,
        "compact_transformer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, s.image, s.image])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, s.classes])],
        g.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
