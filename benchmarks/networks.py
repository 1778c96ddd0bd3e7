"""Published networks with random weights as ONNX models: what executing them asks for, and planning them as `hil` does.

MobileNetV1 and V2 of any width and side, SqueezeNet 1.1, from their published architectures, batch normalisation
folded. Weights are drawn so that a layer keeps the size of its values: integers of calibrated ranges clip now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


@dataclass
class Network:
    """A model as it grows; `last` is the tensor that the next layer reads, `channels` what that has."""

    side: int
    channels: int = 3
    last: str = "x"
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._shape = (1, self.channels, self.side, self.side)
        self._random = np.random.default_rng(self.side)

    def add(self, op: str, *more: str, **attrs: Any) -> Network:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.last, *more], [name], name=name, **attrs))
        self.last = name
        return self

    def constant(self, values: np.ndarray) -> str:
        name = f"c{len(self.weights)}"
        self.weights[name] = values.astype(np.float32)
        return name

    def conv(self, outputs: int, kernel: int = 1, stride: int = 1, pad: int | None = None, group: int = 1) -> Network:
        inner = self.channels // group * kernel * kernel
        made = self._random.normal(size=(outputs, self.channels // group, kernel, kernel)) * np.sqrt(2 / inner)
        more = (self.constant(made), self.constant(self._random.normal(size=outputs) / 8))
        self.channels, around = outputs, kernel // 2 if pad is None else pad
        return self.add("Conv", *more, strides=[stride] * 2, pads=[around] * 4, group=group)

    def relu(self) -> Network:
        return self.add("Relu")

    def depthwise(self, stride: int) -> Network:
        return self.conv(self.channels, 3, stride, group=self.channels)

    def pool(self, op: str, kernel: int, stride: int, **attrs: int) -> Network:
        return self.add(op, kernel_shape=[kernel] * 2, strides=[stride] * 2, **attrs)

    def model(self) -> onnx.ModelProto:
        self.add("Flatten")
        self.nodes[-1].output[0] = "y"
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self._shape)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        constants = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        main = helper.make_graph(self.nodes, "network", [x], [y], constants)
        made = helper.make_model(main, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        return onnx.shape_inference.infer_shapes(made)


def _channels(width: float, channels: int) -> int:
    """Rounded to a multiple of 8, never less than nine tenths of it (the networks' own rule)."""
    wanted = width * channels
    rounded = max(8, int(wanted + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * wanted else rounded


def mobilenet_v1(side: int, width: float, classes: int = 2) -> onnx.ModelProto:
    net = Network(side).conv(int(32 * width), 3, 2).relu()
    layers = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
    for outputs, stride in layers:
        net.depthwise(stride).relu().conv(int(outputs * width)).relu()
    return net.add("GlobalAveragePool").conv(classes).model()


def mobilenet_v2(side: int, width: float, classes: int = 1000, blocks: int = 7) -> onnx.ModelProto:
    """`blocks`: how many of the kinds of blocks, all of them or those in front."""
    net = Network(side).conv(_channels(width, 32), 3, 2).relu()
    kinds = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expansion, channels, count, stride in kinds[:blocks]:
        for number in range(count):
            begin, before = net.last, net.channels
            if expansion > 1:
                net.conv(before * expansion).relu()
            net.depthwise(stride if number == 0 else 1).relu().conv(_channels(width, channels))
            if number > 0:
                net.add("Add", begin)
    if blocks == len(kinds):
        net.conv(1280).relu()
    return net.add("GlobalAveragePool").conv(classes).model()


# Of inverted bottlenecks: channels, expansion, stride, side of the window. As msf-CNN (arXiv:2505.11483) plans them.
VWW_5FPS = (
    *((16, 6, 2, 3), (16, 3, 1, 3), (16, 3, 1, 3), (24, 3, 2, 7), (24, 6, 1, 3), (24, 5, 1, 5), (40, 6, 2, 7)),
    *((40, 6, 1, 7), (48, 6, 1, 3), (48, 4, 1, 3), (96, 5, 2, 5), (96, 5, 1, 3), (96, 4, 1, 3), (160, 3, 1, 7)),
)
KB_320 = (
    *((16, 3, 2, 7), (16, 5, 1, 3), (16, 5, 1, 7), (16, 4, 1, 5), (24, 5, 2, 5), (24, 5, 1, 5), (24, 5, 1, 5)),
    *((40, 5, 2, 3), (40, 6, 1, 7), (40, 4, 1, 5), (48, 5, 1, 5), (48, 5, 1, 7), (48, 5, 1, 3), (96, 6, 2, 3)),
    *((96, 5, 1, 7), (96, 4, 1, 3), (160, 5, 1, 7)),
)
V2_035 = (
    *((8, 6, 2, 3), (8, 6, 1, 3), (11, 6, 2, 3), (11, 6, 1, 3), (11, 6, 1, 3), (22, 6, 2, 3), *[(22, 6, 1, 3)] * 3),
    *((33, 6, 1, 3), (33, 6, 1, 3), (33, 6, 1, 3), (56, 6, 2, 3), (56, 6, 1, 3), (56, 6, 1, 3), (112, 6, 1, 3)),
)


def bottlenecks(
    side: int, first: tuple[int, int], blocks: tuple[tuple[int, int, int, int], ...], last: int = 0, classes: int = 1000
) -> onnx.ModelProto:
    """A chain of inverted bottlenecks without shortcuts, as msf-CNN plans MCUNet's and MobileNetV2: `first` are the
    channels of the convolution in front and of the block that expands nothing, `last` those of a convolution behind."""
    net = Network(side).conv(first[0], 3, 2).relu().depthwise(1).relu().conv(first[1])
    for channels, expansion, stride, kernel in blocks:
        net.conv(net.channels * expansion).relu()
        net.conv(net.channels, kernel, stride, group=net.channels).relu().conv(channels)
    if last:
        net.conv(last).relu()
    return net.add("GlobalAveragePool").conv(classes).model()


def squeezenet(side: int, classes: int = 1000, fires: int = 8) -> onnx.ModelProto:
    """SqueezeNet 1.1; `fires`: how many of its modules, all of them or those in front."""
    net = Network(side).conv(64, 3, 2, pad=0).relu().pool("MaxPool", 3, 2)
    kinds = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
    for number, (squeeze, expand) in enumerate(kinds[:fires], 2):
        begin = net.conv(squeeze).relu().last
        one = net.conv(expand).relu().last
        net.last, net.channels = begin, squeeze
        net.conv(expand, 3).relu().add("Concat", one, axis=1)
        net.channels = 2 * expand
        if number in (3, 5):
            net.pool("MaxPool", 3, 2, ceil_mode=1)
    return net.conv(classes).relu().add("GlobalAveragePool").model()


NETWORKS: tuple[tuple[str, Callable[[], onnx.ModelProto]], ...] = (
    ("MobileNetV1 0.25, 96 x 96", lambda: mobilenet_v1(96, 0.25)),
    ("MobileNetV1 0.25, 128 x 128", lambda: mobilenet_v1(128, 0.25)),
    ("MobileNetV2 0.35, 144 x 144", lambda: mobilenet_v2(144, 0.35)),
    ("MobileNetV2 0.35, 144 x 144, as msf-CNN has it", lambda: bottlenecks(144, (11, 5), V2_035, 448)),
    ("MCUNet-VWW 5 fps, 80 x 80", lambda: bottlenecks(80, (16, 8), VWW_5FPS, classes=2)),
    ("MCUNet-320KB, 176 x 176", lambda: bottlenecks(176, (16, 8), KB_320)),
    ("SqueezeNet 1.1, 224 x 224", lambda: squeezenet(224)),
)
