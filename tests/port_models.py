"""Small ONNX models with several inputs, several outputs, and states that are both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(15)
STEPS = 12


def _weights(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array((RANDOM.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32), name)


def _info(name: str, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *shape])


def _saved(path: Path, nodes: list[onnx.NodeProto], inputs: list, outputs: list, weights: list) -> Path:  # type: ignore[type-arg]
    graph = helper.make_graph(nodes, "net", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def fusion(path: Path) -> Path:
    """Two inputs whose values differ a thousandfold, two outputs that differ a hundredfold: scores and a distance."""
    node = helper.make_node
    nodes = [
        node("Gemm", ["image", "w1", "b1"], ["a"]),
        node("Gemm", ["weather", "w2"], ["b"]),
        node("Add", ["a", "b"], ["c"]),
        node("Relu", ["c"], ["d"]),
        node("MatMul", ["d", "w3"], ["scores"]),
        node("MatMul", ["d", "w4"], ["distance"]),
    ]
    w2 = numpy_helper.from_array((RANDOM.normal(size=(3, 8)) / 2000).astype(np.float32), "w2")
    w4 = numpy_helper.from_array((np.abs(RANDOM.normal(size=(8, 1))) * 100).astype(np.float32), "w4")
    weights = [_weights("w1", 10, 8), _weights("b1", 8), w2, _weights("w3", 8, 4), w4]
    return _saved(
        path, nodes, [_info("image", 10), _info("weather", 3)], [_info("scores", 4), _info("distance", 1)], weights
    )


def fusion_inputs(samples: int) -> dict[str, np.ndarray]:
    return {
        "image": RANDOM.normal(size=(samples, 10)).astype(np.float32),
        "weather": (RANDOM.normal(size=(samples, 3)) * 1000).astype(np.float32),
    }


def cell(path: Path, state: tuple[str, str] = ("h_in", "h_out")) -> Path:
    """One step of a recurrent network: frame and state in, scores and state out."""
    node = helper.make_node
    before, after = state
    nodes = [
        node("Gemm", ["frame", "w", "b"], ["p"]),
        node("MatMul", [before, "u"], ["q"]),
        node("Add", ["p", "q"], ["r"]),
        node("Tanh", ["r"], [after]),
        node("MatMul", [after, "v"], ["scores"]),
    ]
    weights = [_weights("w", 5, 8), _weights("b", 8), _weights("u", 8, 8), _weights("v", 8, 3)]
    return _saved(path, nodes, [_info("frame", 5), _info(before, 8)], [_info("scores", 3), _info(after, 8)], weights)


def streams(samples: int) -> np.ndarray:
    return RANDOM.normal(size=(samples, STEPS, 5)).astype(np.float32)
