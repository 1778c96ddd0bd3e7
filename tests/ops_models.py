"""Small models of every operator, as tests of operators share them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx_models import graph as onnx_graph
from onnx_models import model, node, samples_for
from plane_models import PLANES

from tinyhil.ops import batched, curve, decisions, division, exponential, index, normalize, slope, top, upsample

FAMILIES = (batched, decisions, curve, division, exponential, index, normalize, slope, top, upsample)
ROWS, IMAGE = (3, 4), (1, 4, 3, 5)
Model = tuple[list[onnx.NodeProto], Sequence[int], dict[str, Any]]


def rnd(*shape: int, seed: int = 3, scale: float = 1.0) -> np.ndarray:
    return samples_for(shape, 1, seed, scale)[0]


def one(op: str, shape: Sequence[int] = ROWS, inputs: str = "x", **attrs: Any) -> Model:
    return [node(op, inputs, "y", **attrs)], shape, {}


def fed(op: str, inputs: str, constants: dict[str, Any], shape: Sequence[int] = ROWS, **attrs: Any) -> Model:
    return [node(op, inputs, "y", **attrs)], shape, constants


def positive(op: str, inputs: str = "p", constants: dict[str, Any] | None = None, **attrs: Any) -> Model:
    """Of |x| + 0.1."""
    nodes = [node("Abs", "x", "a"), node("Add", "a tenth", "p"), node(op, inputs, "y", **attrs)]
    return nodes, ROWS, {"tenth": 0.1, **(constants or {})}


def within(op: str) -> Model:
    """Of numbers between -0.8 and 0.8."""
    return [node("Tanh", "x", "t"), node("Mul", "t most", "b"), node(op, "b", "y")], ROWS, {"most": 0.8}


def decided(op: str, *operands: str) -> Model:
    """A decision as a number, so that every runtime returns a float."""
    nodes = [node(op, " ".join(operands), "b"), node("Cast", "b", "y", to=TensorProto.FLOAT)]
    return nodes, ROWS, {"w": np.round(rnd(4) * 2) / 2}


def logic(op: str) -> Model:
    nodes = [node("Greater", "x w", "a"), node("Less", "x v", "b"), node(op, "a b", "c")]
    return [*nodes, node("Cast", "c", "y", to=TensorProto.FLOAT)], ROWS, {"w": rnd(4), "v": rnd(4, seed=4)}


def whole(nodes: Sequence[onnx.NodeProto], constants: dict[str, Any]) -> Model:
    """`i` is a whole number of 0..5 computed from x."""
    first = [
        node("ReduceSum", "x", "s", keepdims=0),
        node("Abs", "s", "t"),
        node("Cast", "t", "j", to=TensorProto.INT64),
    ]
    return [*first, node("Min", "j five", "i"), *nodes], ROWS, {"five": np.array(5), **constants}


def branch(nodes: Sequence[onnx.NodeProto], output: str, constants: dict[str, Any] | None = None) -> onnx.GraphProto:
    return onnx_graph(nodes, {}, output, constants, "branch")


def conditional() -> Model:
    then = branch([node("MatMul", "x w", "t")], "t")
    otherwise = branch([node("Mul", "x k", "u"), node("MatMul", "u w", "e")], "e", {"k": 0.5})
    nodes = [node("ReduceSum", "x", "s", keepdims=0), node("Greater", "s zero", "c")]
    nodes.append(helper.make_node("If", ["c"], ["y"], name="if", then_branch=then, else_branch=otherwise))
    return nodes, ROWS, {"zero": 0.0, "w": rnd(4, 2)}


def loop_body(
    nodes: Sequence[onnx.NodeProto], inputs: dict[str, Sequence[int]], outputs: Sequence[str], shapes: Sequence[Any]
) -> onnx.GraphProto:
    """`i` and `go` are the step number and the condition; the latter is passed on."""
    taken = [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", 9, [])]
    taken += [helper.make_tensor_value_info(n, 1, s) for n, s in inputs.items()]
    given = [helper.make_tensor_value_info("go_on", 9, [])]
    given += [helper.make_tensor_value_info(n, 1, s) for n, s in zip(outputs, shapes, strict=True)]
    return helper.make_graph([node("Identity", "go", "go_on"), *nodes], "body", taken, given)


def counted_loop() -> Model:
    """Reads rows by the step number, keeps a state, stacks results."""
    nodes = [node("Gather", "x i", "row", axis=0), node("Mul", "h half", "d"), node("Add", "d row", "h_next")]
    nodes.append(node("Neg", "h_next", "all"))
    body = loop_body(nodes, {"h": (4,)}, ["h_next", "all"], [(4,), (4,)])
    loop = helper.make_node("Loop", ["three", "true", "h0"], ["h_n", "stack"], name="loop", body=body)
    end = [node("ReduceSum", "stack", "s", keepdims=0), node("Add", "h_n s", "y")]
    constants = {"three": np.array(3), "h0": np.full(4, 0.25), "half": 0.5}
    return [loop, *end], ROWS, constants


def tree_walk() -> Model:
    """The path from the root of a tree of depth 2: a node's weights are gathered, its sign chooses a child."""
    nodes = [
        node("Gather", "theta at", "w", axis=0),
        node("MatMul", "flat w", "s"),
        node("Greater", "s zero", "right"),
        node("Cast", "right", "r", to=TensorProto.INT64),
        node("Mul", "at two", "twice"),
        node("Add", "twice one", "left"),
        node("Add", "left r", "at_next"),
        node("Gather", "leaf at", "v", axis=0),
        node("Add", "sum v", "sum_next"),
    ]
    body = loop_body(nodes, {"at": (), "sum": (2,)}, ["at_next", "sum_next"], [(), (2,)])
    for info in (body.input[2], body.output[1]):
        info.type.tensor_type.elem_type = TensorProto.INT64
    loop = helper.make_node("Loop", ["two", "true", "root", "none"], ["last", "y"], name="walk", body=body)
    constants = {"two": np.array(2), "one": np.array(1), "root": np.array(0), "none": np.zeros(2), "zero": 0.0}
    constants |= {"theta": rnd(7, 12), "leaf": rnd(7, 2, seed=8), "shape": [12]}
    return [node("Reshape", "x shape", "flat"), loop], ROWS, constants


def recurrent(op: str, outputs: str, shape: Sequence[int] = (5, 1, 3), extra: str = "", **attrs: Any) -> Model:
    """The outputs asked for, flattened and joined."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    constants: dict[str, Any] = {
        "W": rnd(directions, gates * 4, 3, scale=0.6),
        "R": rnd(directions, gates * 4, 4, seed=4, scale=0.5),
        "B": rnd(directions, 2 * gates * 4, seed=5, scale=0.3),
        "h": rnd(directions, 1, 4, seed=6),
        "c": rnd(directions, 1, 4, seed=7),
        "P": rnd(directions, 12, seed=8, scale=0.4),
        "flat": [1, -1],
    }
    inputs = ["x", "W", "R", "B", "", *extra.split()]
    names = [name if name != "-" else "" for name in outputs.split()]
    layer = helper.make_node(op, inputs, names, name=op, hidden_size=4, **attrs)
    asked = [name for name in names if name]
    nodes = [layer, *(node("Reshape", f"{name} flat", f"{name}_f") for name in asked)]
    used = {name: value for name, value in constants.items() if name in inputs or name == "flat"}
    return [*nodes, node("Concat", " ".join(f"{name}_f" for name in asked), "y", axis=1)], shape, used


def rnn_pool(shape: Sequence[int], size: int, stride: int, hidden: Sequence[int] = (3, 2)) -> Model:
    """An image (1, channels, height, width) under two small cells."""
    constants = {}
    for number, (inputs, units) in enumerate(zip((shape[1], *hidden), hidden, strict=False), 1):
        sides = {"W": (inputs, units), "U": (units, units), "B": (2, units)}
        constants |= {f"{key}{number}": rnd(*of, seed=number + len(of), scale=0.8) for key, of in sides.items()}
    attrs = {"kernel_shape": [size, size], "strides": [stride, stride]}
    return [node("RNNPool", f"x {' '.join(constants)}", "y", domain="tinyhil", **attrs)], shape, constants


MODELS: dict[str, Model] = {
    "exp": one("Exp"),
    "log": positive("Log"),
    "reciprocal": positive("Reciprocal"),
    "sqrt": positive("Sqrt"),
    "div": ([node("Abs", "x", "a"), node("Add", "a w", "b"), node("Div", "x b", "y")], ROWS, {"w": np.full(4, 0.5)}),
    "div per row": (
        [node("Abs", "x", "a"), node("ReduceSum", "a axes", "s"), node("Div", "x s", "y")],
        ROWS,
        {"axes": [1]},
    ),
    "div a constant": positive("Div", "k p", {"k": np.array(1.5)}),
    "div by a constant": fed("Div", "x k", {"k": rnd(4) + 3}),
    "pow 2": fed("Pow", "x k", {"k": 2.0}),
    "pow 3": fed("Pow", "x k", {"k": 3.0}),
    "pow 0": fed("Pow", "x k", {"k": 0.0}),
    "pow 1.5": positive("Pow", "p k", {"k": 1.5}),
    "pow 0.5": positive("Pow", "p k", {"k": 0.5}),
    "pow -0.5": positive("Pow", "p k", {"k": -0.5}),
    "pow of 2": fed("Pow", "k x", {"k": 2.0}),
    "less": decided("Less", "x", "w"),
    "less or equal": decided("LessOrEqual", "w", "x"),
    "greater": decided("Greater", "x", "w"),
    "greater or equal": decided("GreaterOrEqual", "w", "x"),
    "equal": ([node("Relu", "x", "r"), node("Equal", "r x", "b"), node("Cast", "b", "y", to=1)], ROWS, {}),
    "and": logic("And"),
    "or": logic("Or"),
    "xor": logic("Xor"),
    "not": ([node("Less", "x w", "a"), node("Not", "a", "b"), node("Cast", "b", "y", to=1)], ROWS, {"w": rnd(4)}),
    "sign": one("Sign"),
    "cast to whole": ([node("Cast", "x", "i", to=TensorProto.INT32), node("Cast", "i", "y", to=1)], ROWS, {}),
    "cast to bool": (
        [node("Relu", "x", "r"), node("Cast", "r", "b", to=TensorProto.BOOL), node("Cast", "b", "y", to=1)],
        ROWS,
        {},
    ),
    "where": (
        [node("Less", "x w", "c"), node("Neg", "x", "n"), node("Where", "c n v", "y")],
        ROWS,
        {"w": rnd(4), "v": 7.0},
    ),
    "where per row": (
        [node("ReduceMax", "x", "m", axes=[1]), node("Less", "m k", "c"), node("Where", "c x v", "y")],
        ROWS,
        {"k": 0.5, "v": rnd(4)},
    ),
    "gather a row": whole([node("Gather", "table i", "y", axis=0)], {"table": rnd(6, 4)}),
    "gather along the inner axis": whole([node("Gather", "table i", "y", axis=1)], {"table": rnd(3, 6, scale=5.0)}),
    "gather of the input": whole([node("Min", "i two", "k"), node("Gather", "x k", "y", axis=0)], {"two": np.array(2)}),
    "top 1": ([node("TopK", "x k", "v i", axis=1), node("Add", "v v", "y")], ROWS, {"k": [1]}),
    "top 1 index": (
        [node("TopK", "x k", "v i", axis=0, largest=0), node("Cast", "i", "f", to=1), node("Add", "v f", "y")],
        ROWS,
        {"k": [1]},
    ),
    "erf": one("Erf"),
    "softplus": one("Softplus"),
    "elu": one("Elu"),
    "elu of 2.5": one("Elu", alpha=2.5),
    "celu": one("Celu", alpha=0.7),
    "selu": one("Selu"),
    "p relu": fed("PRelu", "x s", {"s": rnd(4)}),
    "p relu per channel": fed("PRelu", "x s", {"s": rnd(4, 1, 1)}, IMAGE),
    "log softmax": one("LogSoftmax"),
    "log softmax of channels": one("LogSoftmax", IMAGE, axis=1),
    "layer normalization": fed("LayerNormalization", "x s b", {"s": rnd(4), "b": rnd(4, seed=9)}),
    "layer normalization without bias": fed("LayerNormalization", "x s", {"s": rnd(3, 5)}, IMAGE, axis=-2),
    "instance normalization": fed("InstanceNormalization", "x s b", {"s": rnd(4), "b": rnd(4, seed=9)}, IMAGE),
    "unit length": one("LpNormalization", axis=-1, p=2),
    "layer normalization with mean": (
        [
            node("LayerNormalization", "x s", "n m d"),
            node("Add", "n m", "a"),
            node("Mul", "d tenth", "e"),
            node("Add", "a e", "y"),
        ],
        ROWS,
        {"s": rnd(4), "tenth": 0.1},
    ),
    "unit sum": ([node("Exp", "x", "e"), node("LpNormalization", "e", "y", axis=0, p=1)], ROWS, {}),
    "pad by the edge": fed("Pad", "x p", {"p": [0, 0, 1, 2, 0, 0, 0, 3]}, IMAGE, mode="edge"),
    "pad by reflection": fed("Pad", "x p", {"p": [0, 1, 2, -1, 0, 0, 1, 3]}, IMAGE, mode="reflect"),
    "arg max from behind": (
        [node("Sign", "x", "s"), node("ArgMax", "s", "i", axis=1, select_last_index=1), node("Cast", "i", "y", to=1)],
        ROWS,
        {},
    ),
    "dropout with its mask": (
        [node("Dropout", "x", "d m"), node("Cast", "m", "k", to=1), node("Add", "d k", "y")],
        ROWS,
        {},
    ),
    "min of three": fed("Min", "x w v", {"w": rnd(4), "v": rnd(4, seed=5)}),
    "max of three": fed("Max", "x w v", {"w": rnd(4), "v": rnd(4, seed=5)}),
    "sum of three": fed("Sum", "x w x", {"w": rnd(4)}),
    "mean of three": fed("Mean", "x w x", {"w": rnd(4)}),
    "transposed conv": fed("ConvTranspose", "x w b", {"w": rnd(4, 3, 3, 2), "b": rnd(3)}, IMAGE, strides=[2, 3]),
    "transposed conv padded": fed(
        "ConvTranspose", "x w", {"w": rnd(4, 2, 3, 3)}, IMAGE, strides=[2, 2], pads=[1, 0, 1, 1], output_padding=[1, 0]
    ),
    "transposed conv in groups": fed(
        "ConvTranspose", "x w b", {"w": rnd(4, 3, 2, 3), "b": rnd(6)}, IMAGE, group=2, dilations=[2, 1]
    ),
    "transposed conv of a shape": fed(
        "ConvTranspose", "x w", {"w": rnd(4, 2, 3, 3)}, IMAGE, strides=[3, 2], output_shape=[9, 10]
    ),
    "transposed conv 1-D": fed("ConvTranspose", "x w", {"w": rnd(3, 2, 4)}, (1, 3, 6), strides=[2], pads=[1, 2]),
    "resize nearest": fed("Resize", "x - s", {"s": [1.0, 1.0, 2.0, 1.6]}, IMAGE),
    "resize nearest down": fed(
        "Resize",
        "x - s",
        {"s": [1.0, 1.0, 0.5, 0.7]},
        IMAGE,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    "resize linear": fed("Resize", "x - s", {"s": [1.0, 1.0, 2.0, 1.6]}, IMAGE, mode="linear"),
    "resize linear to sizes": fed(
        "Resize", "x - - z", {"z": [1, 4, 7, 2]}, IMAGE, mode="linear", coordinate_transformation_mode="align_corners"
    ),
    "batches": (
        [node("Reshape", "x a_shape", "a"), node("Reshape", "x b_shape", "b"), node("MatMul", "a b", "y")],
        (1, 24),
        {"a_shape": [2, 1, 3, 4], "b_shape": [2, 4, 3]},
    ),
    "batches of a constant": fed("MatMul", "x w", {"w": rnd(3, 5, 2)}, (1, 3, 4, 5)),
    "batches of the left": fed("MatMul", "w x", {"w": rnd(2, 1, 2, 4)}, (3, 4, 5)),
    "gemm of everything": (
        [node("Gemm", "x w b", "y", alpha=0.5, beta=2.0, transA=1, transB=1)],
        ROWS,
        {"w": rnd(5, 3), "b": rnd(4, 5)},
    ),
    "gemm at run time": ([node("Relu", "x", "r"), node("Gemm", "x r", "y", transB=1, alpha=0.25)], ROWS, {}),
    "arg min": ([node("ArgMin", "x", "i", axis=1), node("Cast", "i", "y", to=1)], ROWS, {}),
    "shapes": (
        [
            node("Shape", "x", "s"),
            node("Gather", "s one", "columns"),
            node("Size", "x", "size"),
            node("Div", "size columns", "rows"),
            node("Range", "one columns two", "r"),
            node("ConstantOfShape", "s", "zeros"),
            node("Unsqueeze", "rows nil", "u"),
            node("Concat", "u m", "shape", axis=0),
            node("Add", "x zeros", "a"),
            node("Reshape", "a shape", "b"),
            node("Cast", "r", "q", to=1),
            node("ReduceSum", "q", "k", keepdims=0),
            node("Mul", "b k", "y"),
        ],
        ROWS,
        {"one": np.array(1), "two": np.array(2), "nil": [0], "m": [-1]},
    ),
    "if": conditional(),
    "loop": counted_loop(),
    "tree": tree_walk(),
    "rnn": recurrent("RNN", "a h_n"),
    "rnn backward": recurrent("RNN", "a h_n", direction="reverse", extra="h"),
    "rnn relu both": recurrent("RNN", "a h_n", direction="bidirectional", activations=["Relu", "Tanh"]),
    "gru": recurrent("GRU", "- h_n", extra="h"),
    "gru backward": recurrent("GRU", "a h_n", direction="reverse", linear_before_reset=1),
    "gru both": recurrent("GRU", "a -", direction="bidirectional"),
    "lstm": recurrent("LSTM", "- h_n c_n"),
    "lstm backward": recurrent("LSTM", "a", direction="reverse", extra="h c P"),
    "lstm both": recurrent("LSTM", "a h_n c_n", direction="bidirectional", extra="h c"),
    "rnn pool": rnn_pool((1, 2, 6, 5), 3, 2),
    "rnn pool of a row": rnn_pool((1, 2, 2, 5), 2, 1),
}
NEWER: dict[str, tuple[Model, int]] = {
    "gelu": (one("Gelu"), 20),
    "gelu by tanh": (one("Gelu", approximate="tanh"), 20),
    "rms normalization": (fed("RMSNormalization", "x s", {"s": rnd(4)}), 23),
}
ALL = {**{name: (made, 17) for name, made in MODELS.items()}, **NEWER}


def proto(name: str) -> onnx.ModelProto:
    (nodes, shape, constants), opset = ALL[name]
    for item in nodes:  # "-" stands for an input left out
        inputs = ["" if value == "-" else value for value in item.input]
        del item.input[:]
        item.input.extend(inputs)
    main = onnx_graph(nodes, {"x": shape}, "y", constants)
    if any("true" in item.input for item in nodes):
        main.initializer.append(onnx.numpy_helper.from_array(np.array(True), "true"))
    return model(main, opset)


def shape_of(name: str) -> Sequence[int]:
    return ALL[name][0][1]


FLAT = (1, 2, 6, 6)
REWRITTEN: dict[str, tuple[Model, int]] = {
    "tile": (fed("Tile", "x r", {"r": [2, 3]}), 17),
    "depth to space": (one("DepthToSpace", (1, 8, 3, 5), blocksize=2), 17),
    "depth to space by columns": (one("DepthToSpace", (1, 8, 3, 5), blocksize=2, mode="CRD"), 17),
    "space to depth": (one("SpaceToDepth", (1, 3, 4, 6), blocksize=2), 17),
    "cumulated": (fed("CumSum", "x a", {"a": np.array(0)}), 17),
    "cumulated from behind": (fed("CumSum", "x a", {"a": np.array(1)}, exclusive=1, reverse=1), 17),
    "cumulated in a loop": (fed("CumSum", "x a", {"a": np.array(0)}, (70, 2), exclusive=1), 17),
    "floor": (one("Floor"), 17),
    "ceil": (one("Ceil"), 17),
    "round": (one("Round"), 17),
    "remainder": (fed("Mod", "x b", {"b": 0.75}, fmod=1), 17),
    "remainder of whole": (
        whole([node("Mod", "i three", "m"), node("Cast", "m", "y", to=1)], {"three": np.array(3)}),
        17,
    ),
    "sine": (one("Sin"), 17),
    "cosine": (one("Cos"), 17),
    "mish": (one("Mish"), 18),
    "l1": (fed("ReduceL1", "x a", {"a": [1]}), 18),
    "l2": (fed("ReduceL2", "x a", {"a": [0]}, keepdims=0), 18),
    "sum of squares": (one("ReduceSumSquare", axes=[1]), 17),
    "log of a sum": (positive("ReduceLogSum", keepdims=0), 17),
    "log of a sum of exponentials": (fed("ReduceLogSumExp", "x a", {"a": [1]}, keepdims=0), 18),
    "mean of columns": (one("ReduceMean", axes=[0]), 17),
    "least of columns": (fed("ReduceMin", "x a", {"a": [0]}, keepdims=0), 18),
    "three axes turned": (one("Transpose", (2, 3, 4), perm=[2, 0, 1]), 17),
    "product of elements": (one("ReduceProd", axes=[1]), 17),
    "largest three": (([node("TopK", "x k", "y i")], ROWS, {"k": [3]}), 17),
    "smallest two of rows": (([node("TopK", "x k", "y i", axis=0, largest=0)], (5, 3), {"k": [2]}), 17),
    "where the largest three are": (
        ([node("TopK", "x k", "v i", axis=1), node("Cast", "i", "y", to=1)], (2, 5, 2), {"k": [3]}),
        17,
    ),
    "rows times a vector": (fed("MatMul", "x w", {"w": rnd(4)}, (2, 3, 4)), 17),
    "vector times a vector": (fed("MatMul", "x w", {"w": rnd(4)}, (4,)), 17),
    "sum over what two share": (fed("Einsum", "x w", {"w": rnd(3, 5, 4)}, (2, 3, 4), equation="bhc,hkc->bhk"), 17),
    "sum with itself": (fed("Einsum", "x x", {}, (2, 3, 4), equation="...ij,...kj->...ik"), 17),
    "einstein sum of three": (
        fed("Einsum", "x w v", {"w": rnd(4, 5), "v": rnd(5, 2)}, equation="ij,jk,kl"),
        17,
    ),
    "mean beyond the plane": (
        one("AveragePool", FLAT, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        17,
    ),
    "mean beyond the plane and padding": (
        one(
            "AveragePool",
            FLAT,
            kernel_shape=[3, 3],
            strides=[2, 2],
            ceil_mode=1,
            count_include_pad=1,
            pads=[1, 0, 1, 1],
        ),
        17,
    ),
    "masked by Where": (
        (
            [node("Less", "x w", "c"), node("Where", "c low x", "m"), node("Softmax", "m", "y")],
            ROWS,
            {"low": -np.inf, "w": np.full(4, -0.5)},
        ),
        17,
    ),
    "masked by Add": (
        ([node("Add", "x m", "s"), node("Softmax", "s", "y")], (3, 3), {"m": np.triu(np.full((3, 3), -np.inf), 1)}),
        17,
    ),
    "swish": (one("Swish", alpha=1.3), 24),
    "normalization in groups": (
        fed("GroupNormalization", "x s b", {"s": rnd(4), "b": rnd(4)}, (1, 4, 3, 3), num_groups=2),
        21,
    ),
    "length pool": (one("LpPool", FLAT, kernel_shape=[2, 2], strides=[2, 2], p=2), 17),
    "length of planes": (one("GlobalLpPool", FLAT, p=3), 17),
    "product cumulated": (fed("CumProd", "x a", {"a": np.array(1)}, exclusive=1), 26),
    "triangle": (fed("Trilu", "x k", {"k": np.array(-1)}, (3, 3), upper=0), 17),
    "one hot": (
        ([node("ArgMax", "x", "i", axis=1, keepdims=0), node("OneHot", "i d v", "y")], ROWS, {"d": 4, "v": [0.0, 1.0]}),
        17,
    ),
    "hard max": (one("Hardmax", axis=1), 17),
    "elements gathered": (fed("GatherElements", "x i", {"i": [[3, 0], [1, 1], [2, 0]]}, axis=1), 17),
    "places gathered": (fed("GatherND", "x i", {"i": [[0, 1], [2, 3]]}), 17),
    "elements scattered": (
        fed("ScatterElements", "x i u", {"i": [[1, 0, 2]], "u": rnd(1, 3)}, axis=1),
        17,
    ),
    "places scattered": (fed("ScatterND", "x i u", {"i": [[0, 1], [2, 3]], "u": rnd(2)}), 17),
    **{f"arc {op}": (within(op), 17) for op in ("Tan", "Sinh", "Cosh", "Atanh", "Asinh", "Atan", "Asin", "Acos")},
    "arc Acosh": (
        ([node("Abs", "x", "a"), node("Add", "a one", "p"), node("Acosh", "p", "y")], ROWS, {"one": 1.1}),
        17,
    ),
    "power at run time": (positive("Pow", "p x"), 17),
    "whole quotient": (whole([node("Div", "i two", "m"), node("Cast", "m", "y", to=1)], {"two": np.array(2)}), 17),
    "bits moved": (
        whole(
            [
                node("Cast", "i", "u", to=TensorProto.UINT8),
                node("Cast", "n", "k", to=TensorProto.UINT8),
                node("BitShift", "u k", "moved", direction="LEFT"),
                node("Cast", "moved", "y", to=1),
            ],
            {"n": np.array(1)},
        ),
        17,
    ),
    "fourier": (fed("DFT", "x - a", {"a": np.array(1)}, (1, 6, 1), onesided=1), 20),
    "fourier of frames": (fed("STFT", "x s w", {"s": np.array(2), "w": rnd(4)}, (1, 10, 1)), 17),
    "samples of a grid": (fed("GridSample", "x g", {"g": rnd(1, 3, 2, 2)}, (1, 2, 4, 4)), 17),
    "columns to planes": (fed("Col2Im", "x i b", {"i": [5, 5], "b": [2, 3]}, (1, 12, 12)), 18),
    "cubic": (fed("Resize", "x - s", {"s": [1.0, 1.0, 2.0, 1.5]}, (1, 1, 4, 4), mode="cubic"), 18),
    "weights at run time": (
        (
            [node("Slice", "x a b c", "w"), node("Conv", "x w v", "y", pads=[1, 0, 0, 1], strides=[2, 1])],
            (1, 2, 4, 4),
            {"a": [1, 1], "b": [3, 3], "c": [2, 3], "v": [0.5]},
        ),
        17,
    ),
    "layer of two samples": (fed("Conv", "x w", {"w": rnd(3, 2, 3)}, (2, 2, 5)), 17),
    "transposed layer of two samples": (fed("ConvTranspose", "x w", {"w": rnd(2, 3, 2)}, (2, 2, 4)), 17),
    "rows reversed": (fed("ReverseSequence", "x n", {"n": [1, 3, 2, 3]}, (3, 4)), 17),
    "rows kept": (
        (
            [node("Cast", "c", "k", to=TensorProto.BOOL), node("Compress", "x k", "y", axis=0)],
            (3, 4),
            {"c": [1, 0, 1]},
        ),
        17,
    ),
    "diagonal": (([node("EyeLike", "x", "e"), node("Add", "x e", "y")], (3, 3), {}), 17),
    "nothing split off": (
        ([node("Split", "x n", "a b", axis=1), node("Concat", "b a", "y", axis=1)], (3, 4), {"n": [4, 0]}),
        17,
    ),
    "bounded mask": (
        ([node("Clip", "inf low", "m"), node("Add", "x m", "y")], ROWS, {"inf": [-np.inf, 1, 2, 3], "low": -2.0}),
        17,
    ),
}
NEWER |= REWRITTEN
ALL |= NEWER | PLANES

RUNTIME_LACKS = {"rms normalization", "swish", "product cumulated"}  # onnxruntime of older releases
RUNTIME_LACKS |= {"bits of another type", "deformed layer"}
RUNTIME_LACKS |= {"rnn pool", "rnn pool of a row"}  # of this project's own domain: tests/test_rnn_pool.py
