"""Small networks of random weights, of which each has operations that the networks of others have not, or not apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from benchmarks.peers import Network
from tools.measured import ARM, BOARDS

FEW = ("nucleo_l4r5", "nucleo_g0b1", "nucleo_u575")  # boards of which golden records are few
GROUPS = ((2, 24, 12), (4, 32, 16), (8, 64, 8))  # in a convolution of 3 x 3 and a pointwise one; channels, side
AROUND, HALF = [1] * 4, [2, 2]
Shapes = Mapping[str, tuple[int, ...]]


def isolated(folder: Path) -> Iterator[Network]:
    """Files of all of them, and the boards they are measured on."""
    for groups, channels, side in GROUPS:
        yield _network(folder, *_grouped(groups, channels, side), boards=(*ARM, *FEW))
    for made in (_attention(16, 12), _attention(8, 20), _functions(96), _functions(40), _depthwise(8, 12, 3)):
        yield _network(folder, *made, boards=(*BOARDS, *FEW))
    yield _network(folder, *_depthwise(16, 10, 5), boards=(*BOARDS, *FEW))
    for sizes in ((1, 8, 8, 3), (3, 6, 12, 3), (1, 6, 16, 5)):
        yield _network(folder, *_small_planes(*sizes), boards=(*BOARDS, *FEW))
    for made in (_inside(1, 8, 10), _inside(6, 12, 1), _tiny(12, 6), _classifier(13, 16, 3), _classifier(64, 24, 10)):
        yield _network(folder, *made, boards=(*BOARDS, *FEW))


def _grouped(groups: int, channels: int, side: int) -> tuple[str, Sequence[NodeProto], Shapes, tuple[int, ...]]:
    weights: dict[str, tuple[int, ...]] = {"first": (channels, 3, 3, 3), "window": (channels, channels // groups, 3, 3)}
    weights |= {"point": (channels, channels // groups, 1, 1), "last": (channels * side * side // 4, 10)}
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["a"], pads=AROUND),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "window"], ["c"], pads=AROUND, group=groups),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Conv", ["d", "point"], ["e"], group=groups),
        helper.make_node("MaxPool", ["e"], ["f"], kernel_shape=HALF, strides=HALF),
        helper.make_node("Flatten", ["f"], ["g"]),
        helper.make_node("MatMul", ["g", "last"], ["y"]),
    ]
    return f"{groups} groups of {channels // groups} channels", nodes, weights, (3, side, side)


def _attention(rows: int, width: int) -> tuple[str, Sequence[NodeProto], Shapes, tuple[int, ...]]:
    """Products of two computed tensors, softmax, a norm and means: floats, where a format has no integers for them."""
    weights: dict[str, tuple[int, ...]] = dict.fromkeys("QKV", (width, width))
    weights |= {"scale": (width,), "shift": (width,), "last": (width, 6)}
    nodes = [helper.make_node("MatMul", ["x", name], [name.lower()]) for name in "QKV"]
    nodes += [
        helper.make_node("Transpose", ["k"], ["k2"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "k2"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["o"]),
        helper.make_node("Add", ["o", "x"], ["r"]),
        helper.make_node("LayerNormalization", ["r", "scale", "shift"], ["n"], axis=-1),
        helper.make_node("ReduceMean", ["n"], ["m"], axes=[1], keepdims=0),
        helper.make_node("MatMul", ["m", "last"], ["y"]),
    ]
    return f"attention {rows} x {width}", nodes, weights, (rows, width)


def _functions(count: int) -> tuple[str, Sequence[NodeProto], Shapes, tuple[int, ...]]:
    """Functions of an element, quotients, products, choices and a softmax, between two layers."""
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("Sigmoid", ["a"], ["c"]),
        helper.make_node("Mul", ["b", "c"], ["d"]),
        helper.make_node("Exp", ["d"], ["e"]),
        helper.make_node("Div", ["d", "e"], ["f"]),
        helper.make_node("Max", ["f", "a"], ["g"]),
        helper.make_node("Softmax", ["g"], ["h"], axis=-1),
        helper.make_node("Sub", ["h", "b"], ["i"]),
        helper.make_node("MatMul", ["i", "last"], ["y"]),
    ]
    return f"functions of {count}", nodes, {"first": (16, count), "last": (count, 4)}, (16,)


def _depthwise(channels: int, side: int, kernel: int) -> tuple[str, Sequence[NodeProto], Shapes, tuple[int, ...]]:
    """Depthwise and pointwise layers, the first of stride 1, the second of 2, and a mean over what is left."""
    weights = {"one": (channels, 1, kernel, kernel), "point": (12, channels, 1, 1), "two": (12, 1, kernel, kernel)}
    around = [kernel // 2] * 4
    nodes = [
        helper.make_node("Conv", ["x", "one"], ["a"], pads=around, group=channels),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "point"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Conv", ["d", "two"], ["e"], pads=around, strides=HALF, group=12),
        helper.make_node("GlobalAveragePool", ["e"], ["f"]),
        helper.make_node("Flatten", ["f"], ["g"]),
        helper.make_node("MatMul", ["g", "last"], ["y"]),
    ]
    return f"depthwise {kernel} x {kernel} of {channels}", nodes, {**weights, "last": (12, 4)}, (channels, side, side)


def _small_planes(
    inputs: int, channels: int, side: int, kernel: int
) -> tuple[str, Sequence[NodeProto], Shapes, tuple[int, ...]]:
    """The network that everybody begins with: padded convolutions of few channels, whose planes are mostly edges."""
    last = 2 * channels * (side // 4) ** 2
    weights = {"one": (channels, inputs, kernel, kernel), "two": (2 * channels, channels, 3, 3), "last": (last, 10)}
    weights |= {"b1": (channels,), "b2": (2 * channels,), "b3": (10,)}
    nodes = [
        helper.make_node("Conv", ["x", "one", "b1"], ["a"], pads=[kernel // 2] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=HALF, strides=HALF),
        helper.make_node("Conv", ["c", "two", "b2"], ["d"], pads=AROUND),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("MaxPool", ["e"], ["f"], kernel_shape=HALF, strides=HALF),
        helper.make_node("Flatten", ["f"], ["g"]),
        helper.make_node("Gemm", ["g", "last", "b3"], ["y"]),
    ]
    return f"small planes {kernel} x {kernel} of {inputs} and {channels}", nodes, weights, (inputs, side, side)


def _inside(inputs: int, channels: int, height: int) -> tuple[str, Sequence[NodeProto], Shapes, tuple[int, ...]]:
    """Convolutions without padding, of an image or, where `height` is 1, of a signal of 48 steps."""
    width = 48 if height == 1 else height
    window, pool = ((1, 5), [1, 2]) if height == 1 else ((3, 3), HALF)
    after = [(size - each + 1) // part for size, each, part in zip((height, width), window, pool, strict=True)]
    weights = {"one": (channels, inputs, *window), "b1": (channels,), "two": (channels, channels, window[0], 3)}
    nodes = [
        helper.make_node("Conv", ["x", "one", "b1"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=pool, strides=pool),
        helper.make_node("Conv", ["c", "two", "b1"], ["d"]),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("Gemm", ["f", "last", "b2"], ["y"]),
    ]
    left = channels * (after[0] - window[0] + 1) * (after[1] - 2)
    title = f"inside {height} x {width} of {inputs} and {channels}"
    return title, nodes, {**weights, "last": (left, 5), "b2": (5,)}, (inputs, height, width)


def _tiny(inputs: int, hidden: int) -> tuple[str, Sequence[NodeProto], Shapes, tuple[int, ...]]:
    """Two layers, so few products that all else shows."""
    nodes = [
        helper.make_node("Gemm", ["x", "one", "b1"], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("Gemm", ["b", "two", "b2"], ["y"]),
    ]
    weights = {"one": (inputs, hidden), "b1": (hidden,), "two": (hidden, 3), "b2": (3,)}
    return f"tiny {inputs} and {hidden}", nodes, weights, (inputs,)


def _classifier(inputs: int, hidden: int, classes: int) -> tuple[str, Sequence[NodeProto], Shapes, tuple[int, ...]]:
    """As scikit-learn's perceptrons are exported, behind their Scaler: sums apart, shares at the end."""
    nodes = [
        helper.make_node("MatMul", ["x", "one"], ["a"]),
        helper.make_node("Add", ["a", "b1"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "two"], ["d"]),
        helper.make_node("Add", ["d", "b2"], ["e"]),
        helper.make_node("Softmax", ["e"], ["y"], axis=-1),
    ]
    weights = {"one": (inputs, hidden), "b1": (hidden,), "two": (hidden, classes), "b2": (classes,)}
    return f"classifier of {inputs}, {hidden} and {classes}", nodes, weights, (inputs,)


def _network(
    folder: Path, title: str, nodes: Sequence[NodeProto], weights: Shapes, shape: tuple[int, ...], boards: Sequence[str]
) -> Network:
    random = np.random.default_rng(len(title))
    constants = [numpy_helper.from_array(random.normal(0, 0.2, s).astype(np.float32), n) for n, s in weights.items()]
    inputs = [helper.make_tensor_value_info("x", 1, (1, *shape))]
    outputs = [helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph(nodes, "isolated", inputs, outputs, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    made.graph.output[0].CopyFrom(onnx.shape_inference.infer_shapes(made).graph.output[0])
    model, samples = folder / f"{title.replace(' ', '_')}.onnx", folder / f"{title.replace(' ', '_')}.npz"
    onnx.save(made, model)
    np.savez(samples, x=random.normal(size=(8, *shape)).astype(np.float32))
    return Network(title, model, samples, 1, {}, {}, tuple(boards))
