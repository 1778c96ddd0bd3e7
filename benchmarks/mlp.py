"""Networks to be trained from scratch: a multilayer perceptron, a small convolutional one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def mlp_model(sizes: tuple[int, ...], activation: str, seed: int, factor: float = 1) -> onnx.ModelProto:
    """Gemm after Gemm, weights uniform, `activation` between them: Relu, Sign or Clip (a hard tanh). `factor`: of the
    inputs, by which the last layer's are divided again."""
    random, value = np.random.default_rng(seed), "flat"
    nodes = [helper.make_node("Flatten", ["x"], ["flat"], name="flat")]
    constants: dict[str, Any] = {"low": np.float32(-1), "high": np.float32(1), "factor": np.float32(factor)}
    if factor != 1:
        value = "larger"
        nodes.append(helper.make_node("Mul", ["flat", "factor"], [value], name=value))
    for number, (inputs, outputs) in enumerate(pairwise(sizes), 1):
        last = number == len(sizes) - 1
        if last and factor != 1:
            nodes.append(helper.make_node("Div", [value, "factor"], ["smaller"], name="smaller"))
            value = "smaller"
        constants[f"fc{number}_w"] = _uniform(random, (inputs, outputs), inputs)
        constants[f"fc{number}_b"] = np.zeros(outputs, np.float32)
        result = "logits" if last else f"fc{number}"
        nodes.append(helper.make_node("Gemm", [value, f"fc{number}_w", f"fc{number}_b"], [result], name=result))
        if not last:
            more = ["low", "high"] if activation == "Clip" else []
            nodes.append(helper.make_node(activation, [result, *more], [f"act{number}"], name=f"act{number}"))
        value = f"act{number}"
    return _model("mlp", nodes, constants, ([1, sizes[0]], [1, sizes[-1]]))


def small_cnn(seed: int) -> onnx.ModelProto:
    """Two convolutions of stride 2, maxima of 2 x 2 and a layer of ten outputs, for pictures (3, 32, 32)."""
    random, value, nodes = np.random.default_rng(seed), "x", []
    constants: dict[str, Any] = {}
    for number, (channels, outputs, side) in enumerate(((3, 12, 5), (12, 24, 3)), 1):
        constants[f"conv{number}_w"] = _uniform(random, (outputs, channels, side, side), channels * side * side)
        constants[f"conv{number}_b"] = np.zeros(outputs, np.float32)
        given = [value, f"conv{number}_w", f"conv{number}_b"]
        attributes: dict[str, Any] = {"strides": [2, 2], "pads": 4 * [side // 2]}
        nodes.append(helper.make_node("Conv", given, [f"conv{number}"], name=f"conv{number}", **attributes))
        value = f"act{number}"
        nodes.append(helper.make_node("Relu", [f"conv{number}"], [value], name=value))
    nodes.append(helper.make_node("MaxPool", [value], ["pool"], name="pool", kernel_shape=[2, 2], strides=[2, 2]))
    nodes.append(helper.make_node("Flatten", ["pool"], ["flat"], name="flat"))
    constants["fc_w"] = _uniform(random, (24 * 16, 10), 24 * 16)
    constants["fc_b"] = np.zeros(10, np.float32)
    nodes.append(helper.make_node("Gemm", ["flat", "fc_w", "fc_b"], ["logits"], name="logits"))
    return _model("cnn", nodes, constants, ([1, 3, 32, 32], [1, 10]))


def lenet(seed: int) -> onnx.ModelProto:
    """Convolutions 5 x 5 of 8 and 16 maps, maxima of 2 x 2 behind each, and 128 units, for digits (1, 28, 28)."""
    random, value, nodes = np.random.default_rng(seed), "x", []
    constants: dict[str, Any] = {}
    for number, (channels, outputs) in enumerate(((1, 8), (8, 16)), 1):
        constants[f"conv{number}_w"] = _uniform(random, (outputs, channels, 5, 5), channels * 25)
        constants[f"conv{number}_b"] = np.zeros(outputs, np.float32)
        given = [value, f"conv{number}_w", f"conv{number}_b"]
        nodes.append(helper.make_node("Conv", given, [f"conv{number}"], name=f"conv{number}"))
        nodes.append(helper.make_node("Relu", [f"conv{number}"], [f"act{number}"], name=f"act{number}"))
        value = f"pool{number}"
        pool = helper.make_node("MaxPool", [f"act{number}"], [value], name=value, kernel_shape=[2, 2], strides=[2, 2])
        nodes.append(pool)
    nodes.append(helper.make_node("Flatten", [value], ["flat"], name="flat"))
    for name, inputs, outputs in (("hidden", 256, 128), ("fc", 128, 10)):
        constants[f"{name}_w"] = _uniform(random, (inputs, outputs), inputs)
        constants[f"{name}_b"] = np.zeros(outputs, np.float32)
    nodes.append(helper.make_node("Gemm", ["flat", "hidden_w", "hidden_b"], ["hidden"], name="hidden"))
    nodes.append(helper.make_node("Relu", ["hidden"], ["act3"], name="act3"))
    nodes.append(helper.make_node("Gemm", ["act3", "fc_w", "fc_b"], ["logits"], name="logits"))
    return _model("lenet", nodes, constants, ([1, 1, 28, 28], [1, 10]))


def _uniform(random: np.random.Generator, shape: tuple[int, ...], inputs: int) -> np.ndarray:
    """Weights that leave values as large as they are."""
    reach = (3 / inputs) ** 0.5
    return random.uniform(-reach, reach, shape).astype(np.float32)


def _model(
    name: str, nodes: list[onnx.NodeProto], constants: dict[str, Any], ends: tuple[list[int], list[int]]
) -> onnx.ModelProto:
    source, output = (
        helper.make_tensor_value_info(end, TensorProto.FLOAT, shape)
        for end, shape in zip(("x", "logits"), ends, strict=True)
    )
    weights = [numpy_helper.from_array(np.asarray(array), key) for key, array in constants.items()]
    proto = helper.make_model(helper.make_graph(nodes, name, [source], [output], weights))
    onnx.checker.check_model(proto)
    return proto
