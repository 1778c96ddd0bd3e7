"""ResNet-18 and -50 and YOLOv5s in their published shapes, with random weights: what a user's files would hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RESNETS = {"resnet18": (2, 2, 2, 2), "resnet50": (3, 4, 6, 3)}  # blocks of each stage
WIDTHS = (64, 128, 256, 512)
HEADS = 255  # planes of a YOLO head: three anchors, 85 numbers


class _Nodes:
    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self._random = np.random.default_rng(0)

    def add(self, op: str, inputs: list[str], name: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def weights(self, name: str, *shape: int, gain: float = 1.0) -> list[str]:
        spread = gain * np.sqrt(2 / np.prod(shape[1:]))
        self.constants[f"{name}_w"] = self._random.normal(0, spread, shape).astype(np.float32)
        self.constants[f"{name}_b"] = self._random.normal(0, 0.1, shape[0]).astype(np.float32)
        return [f"{name}_w", f"{name}_b"]

    def conv(self, x: str, name: str, channels: tuple[int, int], size: int, stride: int = 1, gain: float = 1.0) -> str:
        weights = self.weights(name, channels[1], channels[0], size, size, gain=gain)
        return self.add("Conv", [x, *weights], name, strides=[stride] * 2, pads=[size // 2] * 4)

    def relu(self, x: str) -> str:
        return self.add("Relu", [x], f"{x}_relu")


def resnet(name: str) -> onnx.ModelProto:
    """He et al., CVPR 2016, table 1; batch normalisation folded, stride in the 3 x 3 convolution."""
    net, wide = _Nodes(), name == "resnet50"
    x, inputs = net.relu(net.conv("x", "conv1", (3, 64), 7, 2)), 64
    x = net.add("MaxPool", [x], "pool1", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, (count, width) in enumerate(zip(RESNETS[name], WIDTHS, strict=True)):
        outputs = 4 * width if wide else width
        for number in range(count):
            at, stride = f"s{stage}b{number}", 2 if number == 0 and stage > 0 else 1
            if wide:
                y = net.relu(net.conv(x, f"{at}_a", (inputs, width), 1))
                y = net.relu(net.conv(y, f"{at}_b", (width, width), 3, stride))
                y = net.conv(y, f"{at}_c", (width, outputs), 1, gain=0.3)
            else:
                y = net.relu(net.conv(x, f"{at}_a", (inputs, width), 3, stride))
                y = net.conv(y, f"{at}_b", (width, width), 3, gain=0.3)
            is_same = inputs == outputs and stride == 1
            shortcut = x if is_same else net.conv(x, f"{at}_short", (inputs, outputs), 1, stride)
            x, inputs = net.relu(net.add("Add", [y, shortcut], f"{at}_sum")), outputs
    flat = net.add("Flatten", [net.add("GlobalAveragePool", [x], "pool")], "flat")
    logits = net.add("Gemm", [flat, *net.weights("fc", 1000, inputs)], "logits", transB=1)
    constants = [numpy_helper.from_array(array, name) for name, array in net.constants.items()]
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
        for name, shape in (("x", (1, 3, 224, 224)), (logits, (1, 1000)))
    ]
    graph = helper.make_graph(net.nodes, name, *ends, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def yolov5s(yolov5n: Path) -> onnx.ModelProto:
    """YOLOv5n with twice as many planes everywhere but in pictures and heads: that is what YOLOv5s is (width multiples
    0.25 and 0.5, the depth the same)."""
    model, random = onnx.load(yolov5n), np.random.default_rng(0)
    for tensor in model.graph.initializer:
        array, kind = numpy_helper.to_array(tensor), tensor.name.rpartition(".")[2]
        if not tensor.name.startswith("model.") or kind not in ("w", "b"):
            continue
        doubled = [side if side in (3, HEADS) else 2 * side for side in array.shape[:2]]
        shape = (*doubled, *array.shape[2:])
        spread = np.sqrt(2 / np.prod(shape[1:])) if kind == "w" else 0.1
        tensor.CopyFrom(numpy_helper.from_array(random.normal(0, spread, shape).astype(np.float32), tensor.name))
    return model
