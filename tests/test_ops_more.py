"""Exponentials, quotients, decisions, choices at run time, curves, normalisation, recurrent layers, branches.

Floats as onnxruntime, integers near them, kernels equal to numpy natively and on boards, stated bounds for every input.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from boards_under_test import ARM, each
from kernel_cases import Case, first_difference, run_natively, run_on_board
from onnx import TensorProto, helper
from onnx_models import compiled, given_ranges, load, model, node, onnxruntime_outputs, samples_for, simple
from onnx_models import graph as onnx_graph
from random_models import extreme_inputs
from search_models import host_engine
from test_kernels_formats import inputs

from tinyhil.assignment import Assignment
from tinyhil.calibrate import calibrate
from tinyhil.errors import ModelError
from tinyhil.evaluate import evaluate
from tinyhil.formats.fixed import Fixed
from tinyhil.frontend import rewrite_quantized
from tinyhil.frontend.rewrites import CONTROL, REWRITES
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.config import load_boards
from tinyhil.lower import lower, tied_values
from tinyhil.ops import batched, compare, curve, division, exponential, index, normalize, slope, top, upsample
from tinyhil.program import Program, walk
from tinyhil.reference import dequantize_outputs, quantize_inputs, run_reference

SANITIZED = ("-O0", "-fsanitize=undefined", "-fno-sanitize-recover=all")
FAMILIES = (batched, compare, curve, division, exponential, index, normalize, slope, top, upsample)
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
    "bounded mask": (
        ([node("Clip", "inf low", "m"), node("Add", "x m", "y")], ROWS, {"inf": [-np.inf, 1, 2, 3], "low": -2.0}),
        17,
    ),
}
NEWER |= REWRITTEN
ALL |= NEWER

RUNTIME_LACKS = {"rms normalization"}  # onnxruntime of older releases


@pytest.mark.parametrize("name", [name for name in ALL if name not in RUNTIME_LACKS])
def test_floats_equal_onnxruntime(name: str, tmp_path: Path) -> None:
    x = samples_for(shape_of(name), 6)
    got = evaluate(load(proto(name), tmp_path), x)
    wanted = onnxruntime_outputs(proto(name), x)
    assert np.abs(got.reshape(len(x), -1) - wanted).max() < 3e-5 * max(1, np.abs(wanted).max())


def test_the_table_covers_every_operator_rewrite_and_kernel(tmp_path: Path) -> None:
    written = {item.op_type for made, _ in ALL.values() for item in made[0]}
    quantized = {
        rewrite.name for rewrite in rewrite_quantized.REWRITES
    }  # tests/test_quantized_onnx.py and the backend have those
    assert ({rewrite.name for rewrite in REWRITES} | set(CONTROL)) - quantized - written == set()
    chosen = [*((name, "fixed16") for name in ALL), ("layer normalization", "float16")]
    programs = [compiled(load(proto(name), tmp_path), samples_for(shape_of(name), 2), fmt) for name, fmt in chosen]
    kernels = {op.kernel for program in programs for op in walk(program.body)}
    assert kernels >= {kernel.name for family in FAMILIES for kernel in family.KERNELS}


# units of 2^-12: inputs are rounded to 2^-13, weights to 2^-15 and finer, each result once; what is steep multiplies it
TOLERANCE: dict[str, float] = {"exp": 24, "reciprocal": 200, "pow -0.5": 60, "log": 24, "div a constant": 200}
TOLERANCE |= {"pow 3": 80, "pow 2": 20, "layer norm": 30, "instance norm": 16, "sqrt": 6, "pow 0.5": 6, "pow of 2": 12}
TOLERANCE |= {"einstein": 20, "cumulated in": 80}
TOLERANCE |= {"batches": 24, "gemm": 24, "tree": 4, "transposed": 30, "lstm": 6, "gru": 6, "rnn": 12, "if": 8}
TOLERANCE |= {"div per row": 6, "unit length": 6, "rms": 12}


@pytest.mark.parametrize("name", ALL)
def test_integers_stay_near_the_floats(name: str, tmp_path: Path) -> None:
    x = samples_for(shape_of(name), 8)
    graph = load(proto(name), tmp_path)
    program = compiled(graph, x)
    integers, _ = quantize_inputs(program, x)
    run = run_reference(program, integers)
    # the float model sees what the board sees: a decision may fall differently within half a step
    seen = (integers * 2.0 ** program.tensors[program.input].format.exponent).astype(np.float32)
    wanted = evaluate(graph, seen.reshape(x.shape)).reshape(len(x), -1)
    error = np.abs(dequantize_outputs(program, run.outputs) - wanted).max()
    units = next((units for start, units in TOLERANCE.items() if name.startswith(start)), 3)
    assert error <= units * 2.0**-12


def cases(folder: Path, default: str, names: Sequence[str], rows: int = 7) -> list[Case]:
    found = []
    for name in names:
        graph = load(proto(name), folder)
        for exceptions in ({}, {"x": "fixed8" if default == "fixed16" else "fixed16"}):
            program = compiled(graph, samples_for(shape_of(name), 4), default, **exceptions)
            found.append(Case(f"{name} {default} {exceptions}", program, extreme_inputs(program, 3)[-rows:]))
    return found


@pytest.mark.parametrize("default", ["fixed8", "fixed16"])
def test_kernels_equal_the_reference(default: str, tmp_path: Path) -> None:
    made = cases(tmp_path, default, tuple(ALL))
    assert first_difference(made, run_natively(made, tmp_path, *SANITIZED)) == ""


ON_BOARDS = {
    "choices": ["largest three", "smallest two of rows", "where the largest three are", "round"],
    "numbers": ["exp", "log", "div", "div per row", "sqrt", "erf", "elu of 2.5", "softplus", "p relu"],
    "decisions": ["less", "greater or equal", "and", "sign", "cast to whole", "where", "gather a row", "tree"],
    "layers": ["layer normalization", "transposed conv padded", "resize linear", "batches", "loop", "if"],
    "recurrent": ["rnn backward", "gru", "lstm both"],
}


@pytest.mark.parametrize("board", ["uno", pytest.param("due", marks=pytest.mark.slow)])
@pytest.mark.parametrize("names", ON_BOARDS)
def test_kernels_on_boards(board: str, names: str, tmp_path: Path) -> None:
    made = cases(tmp_path, "fixed16", ON_BOARDS[names], rows=2)[::2]
    results = run_on_board(made, load_boards().board(board), tmp_path / "cache")
    assert first_difference(made, results) == ""


# ---- stated error bounds, over every input


def everywhere(op: str, x: Fixed, out: Fixed, folder: Path, **attrs: Any) -> tuple[np.ndarray, np.ndarray, Program]:
    """(operands as reals, results in units of the last place) for every code of `x`."""
    codes = np.arange(x.lowest, x.highest + 1)
    opset = 20 if op == "Gelu" else 17
    made = model(onnx_graph([node(op, "x", "y", **attrs)], {"x": (1, len(codes))}, "y"), opset)
    ranges = given_ranges(x=0.75 * 2.0 ** (x.exponent + x.bits - 1), y=0.75 * 2.0 ** (out.exponent + out.bits - 1))
    assignment = Assignment("fixed16", {"x": f"fixed{x.bits}", "y": f"fixed{out.bits}"})
    program = lower(load(made, folder), assignment, ranges)
    assert program.tensors["y"].format == out
    return np.ldexp(codes.astype(np.float64), x.exponent), run_reference(program, codes[None]).outputs[0], program


def within(exact: np.ndarray, out: Fixed) -> np.ndarray:
    """Where the exact result, in units of the last place, does not saturate."""
    inside: np.ndarray = (exact > out.lowest + 1) & (exact < out.highest - 1)
    return inside


@pytest.mark.parametrize("exponent", range(-20, 4, 3))
@pytest.mark.parametrize("out", [Fixed(16, -15), Fixed(16, -8), Fixed(16, 3), Fixed(8, -7), Fixed(8, 2)], ids=str)
def test_every_exponential(exponent: int, out: Fixed, tmp_path: Path) -> None:
    with np.errstate(over="ignore"):
        for bits in (8, 16):
            x, got, _ = everywhere("Exp", Fixed(bits, exponent), out, tmp_path)
            exact = np.ldexp(np.exp(x), -out.exponent)
            assert np.abs(got - np.clip(exact, out.lowest, out.highest)).max() <= exponential.WORST_ULP


@pytest.mark.parametrize("factor", [-0.37, -1.0, 2.5, -1e-3, 40.0])
def test_every_exponential_of_a_factor(factor: float) -> None:
    """The factor that a product in front of an exponential becomes."""
    x = np.arange(-(1 << 15), 1 << 15)
    op = exponential.Op("exp", "e", (), "y", exponential.exp_params(factor, -12, -15))
    codes, _ = exponential.EXP.execute(op, [exponential.power_table()[None], x[None]], Fixed(16, -15))
    exact = np.exp(np.minimum(factor * x * 2.0**-12, 1)) * 2.0**15
    assert np.abs(codes[0] - np.minimum(exact, 32767)).max() <= exponential.WORST_ULP


@pytest.mark.parametrize("exponent", [-20, -15, -9, -3, 0, 7, 30])
@pytest.mark.parametrize("out", [Fixed(16, -15), Fixed(16, -11), Fixed(8, -3)], ids=str)
def test_every_logarithm(exponent: int, out: Fixed, tmp_path: Path) -> None:
    x, got, _ = everywhere("Log", Fixed(16, exponent), out, tmp_path)
    exact = np.ldexp(np.log(x[x > 0]), -out.exponent)
    error = np.abs(got[x > 0] - exact)[within(exact, out)]
    assert error.max(initial=0) <= 0.5 + exponential.LOG_ERROR * 2.0**-out.exponent
    assert (got[x <= 0] == out.lowest).all()


@pytest.mark.parametrize("exponent", [-16, -15, -8, -3, 0, 5])
@pytest.mark.parametrize("out", [Fixed(16, -15), Fixed(16, -7), Fixed(16, 2), Fixed(8, -4)], ids=str)
def test_every_square_root_is_rounded_once(exponent: int, out: Fixed, tmp_path: Path) -> None:
    x, got, _ = everywhere("Sqrt", Fixed(16, exponent), out, tmp_path)
    exact = np.ldexp(np.sqrt(np.maximum(x, 0)), -out.exponent)
    assert np.abs(got - np.minimum(exact, out.highest)).max() <= 0.5
    assert (got[x < 0] == 0).all()


@pytest.mark.parametrize("exponent", [-18, -13, -7, -2, 1])
@pytest.mark.parametrize("out", [Fixed(16, -15), Fixed(16, -9), Fixed(16, 1), Fixed(8, -6)], ids=str)
def test_every_quotient_is_rounded_once(exponent: int, out: Fixed, tmp_path: Path) -> None:
    x, got, _ = everywhere("Reciprocal", Fixed(16, exponent), out, tmp_path)
    exact = np.ldexp(1 / x[x != 0], -out.exponent)
    assert np.abs(got[x != 0] - np.clip(exact, out.lowest, out.highest)).max() <= 0.5


CURVES: dict[str, tuple[str, dict[str, Any], curve.Curve]] = {
    "erf": ("Erf", {}, curve.ERF),
    "gelu": ("Gelu", {}, curve.GELU),
    "gelu tanh": ("Gelu", {"approximate": "tanh"}, curve.GELU_TANH),
    "softplus": ("Softplus", {}, curve.SOFTPLUS),
    "elu": ("Elu", {}, curve.elu(1.0)),
    "elu 3.7": ("Elu", {"alpha": 3.7}, curve.elu(3.7)),
}


@pytest.mark.parametrize("exponent", [-20, -16, -13, -10, -5, 1])
@pytest.mark.parametrize("out", [Fixed(16, -15), Fixed(16, -12), Fixed(8, -5)], ids=str)
@pytest.mark.parametrize("name", CURVES)
def test_every_value_of_a_curve(name: str, exponent: int, out: Fixed, tmp_path: Path) -> None:
    op, attrs, shape = CURVES[name]
    x, got, _ = everywhere(op, Fixed(16, exponent), out, tmp_path, **attrs)
    h = shape.h(np.abs(x))
    exact = np.ldexp(shape.line * np.maximum(x, 0) + np.where(x < 0, shape.below, shape.above) * h, -out.exponent)
    error = np.abs(got - np.clip(exact, out.lowest, out.highest))
    # operands finer than 2^-17 lose their lowest bits before the look-up
    dropped = 2.0**-17 if exponent < -17 else 0.0
    assert error.max() <= 0.5 + np.ldexp(shape.worst_error + 1.2 * dropped, -out.exponent)


# ---- what is chosen at run time


def test_indices_outside_are_clamped_and_counted(tmp_path: Path) -> None:
    nodes = [node("Cast", "x", "i", to=TensorProto.INT64), node("Gather", "table i", "y", axis=0)]
    graph = load(simple(nodes, {"x": (1,)}, {"table": rnd(3, 2)}), tmp_path)
    program = compiled(graph, np.array([[100.0], [-100.0]], np.float32), "fixed16")
    step = 2.0 ** program.tensors["x"].format.exponent
    run = run_reference(program, (np.array([[0], [2], [-1], [3], [-4]]) / step).astype(np.int64))
    rows = run.outputs[[0, 1, 1, 1, 0]]
    assert (run.outputs == rows).all()
    assert run.saturations.tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("default", ["fixed8", "fixed16"])
def test_whole_numbers_stay_whole(default: str, tmp_path: Path) -> None:
    """A walk through a tree whose calibration never left the root's left child."""
    graph = load(proto("tree"), tmp_path)
    x = samples_for(ROWS, 64)
    first = compiled(graph, x[:1], default)
    assert first.tensors["at"].format == Fixed(16, 0)
    program = lower(graph, Assignment(default), given_ranges(**dict.fromkeys(graph.all_shapes(), 8.0)))
    paths = []
    for made in (first, program):
        seen: list[np.ndarray] = []
        run_reference(made, quantize_inputs(made, x)[0], lambda n, a, s=seen: s.append(a[:, 0]) if n == "at" else None)
        paths.append(seen[-1])
    assert set(paths[0]) <= {3, 4, 5, 6}
    assert len(set(paths[0])) > 2


REFUSED: dict[str, tuple[Model, str]] = {
    "pow at run time": (fed("Pow", "x x", {}), "an exponent computed at run time"),
    "pow of different": (fed("Pow", "x k", {"k": [1.0, 2.0, 3.0, 4.0]}), "exponents that differ"),
    "top 9": (([node("TopK", "x k", "y i", axis=1)], ROWS, {"k": [9]}), r"k = \[9\] of 4 elements"),
    "division by zero": (fed("Div", "x k", {"k": np.array(0.0)}), "division by a constant 0"),
    "cubic": (fed("Resize", "x - s", {"s": [1.0, 2.0]}, mode="cubic"), "mode cubic"),
    "unknown activation": (recurrent("RNN", "a", activations=["Affine"]), "activation Affine"),
    "endless loop": (
        (
            [
                helper.make_node(
                    "Loop", ["", "true", "x"], ["y"], name="loop", body=loop_body([], {"h": ROWS}, ["h"], [ROWS])
                )
            ],
            ROWS,
            {},
        ),
        "a trip count that is not known",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, message = REFUSED[name]
    monkeypatch.setitem(ALL, name, (made, 17))
    with pytest.raises(ModelError, match=f"node '.*{message}") as caught:
        load(proto(name), tmp_path)
    assert "\n" not in str(caught.value)


# ---- other number formats

CODED = ["less", "greater or equal", "equal", "and", "sign", "where", "where per row", "tree", "loop", "if"]
CODED += ["rnn backward", "gru", "lstm both", "exp", "div"]
SUMS = ["p relu", "p relu per channel", "layer normalization", "instance normalization", "unit length", "batches"]
SUMS += ["batches of a constant", "batches of the left", "transposed conv", "transposed conv padded", "resize linear"]
SUMS += ["transposed conv in groups", "transposed conv of a shape", "transposed conv 1-D", "resize linear to sizes"]
SUMS += ["cast to whole", "gather a row"]
ON_SMALL = ["p relu per channel", "layer normalization", "batches", "transposed conv in groups", "resize linear"]
QUICK = ("posit16es1", "float16", "int8")
SLOW = (
    "posit8es2",
    "fixed5",
    "posit8es0",
    "posit6es3",
    "posit32es2",
    "fp8e4m3",
    "fp8e5m2",
    "fp4e2m1",
    "float32",
    "bfloat16",
    "fixed32",
)
SLOW += ("int16x8", "nf4", "kmeans16", "ternary", "fixed8pc", "fp8e4m3pc", "fixed12")


def in_format(names: Sequence[str], default: str, folder: Path, rows: int = 24) -> list[Case]:
    """On real inputs and on codes of all sorts."""
    made = []
    for name in names:
        x = samples_for(shape_of(name), 12)
        program = compiled(load(proto(name), folder), x, default)
        codes = inputs(program.tensors[program.input].format, 2 * x, 8)
        made.append(Case(f"{name} {default}", program, codes[:: max(1, len(codes) // rows)]))
    return made


@pytest.mark.parametrize("default", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_kernels_in_other_formats(default: str, tmp_path: Path) -> None:
    made = in_format([*CODED, *SUMS], default, tmp_path)
    assert first_difference(made, run_natively(made, tmp_path, *SANITIZED)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("default", [*QUICK, *SLOW])
def test_every_model_in_other_formats(default: str, tmp_path: Path) -> None:
    made = in_format(list(MODELS), default, tmp_path)
    assert first_difference(made, run_natively(made, tmp_path, *SANITIZED)) == ""


@pytest.mark.parametrize("default", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_the_host_engine_in_other_formats(default: str, tmp_path: Path) -> None:
    engine = host_engine(default_cache_dir())
    for case in in_format([*CODED, *SUMS], default, tmp_path):
        found, wanted = engine.run(case.program, case.inputs), run_reference(case.program, case.inputs)
        np.testing.assert_array_equal(found.outputs, wanted.outputs, case.name)
        np.testing.assert_array_equal(found.saturations, wanted.saturations, case.name)


@pytest.mark.parametrize("board", each(ARM))
def test_sums_in_other_formats_on_arm(board: str, tmp_path: Path) -> None:
    made = [case for default in ("posit8es0", "bfloat16") for case in in_format(SUMS, default, tmp_path, 8)]
    assert first_difference(made, run_on_board(made, load_boards().board(board), tmp_path / "cache")) == ""


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("layer normalization", "posit8es0"),
        *(
            pytest.param(n, f, marks=pytest.mark.slow)
            for n in ON_SMALL
            for f in ("posit8es2", "posit16es1", "bfloat16")
        ),
    ],
)
def test_sums_in_other_formats_on_the_uno(name: str, default: str, tmp_path: Path) -> None:
    made = in_format([name], default, tmp_path, 4)
    assert first_difference(made, run_on_board(made, load_boards().board("uno"), tmp_path / "cache")) == ""


@pytest.mark.parametrize(
    ("default", "tolerance"),
    [("fixed16", 2e-4), ("posit16es1", 5e-4), ("float16", 1e-3), ("float32", 2e-5), ("int8", 0.05)],
)
def test_sums_in_other_formats_are_near_the_float_model(default: str, tolerance: float, tmp_path: Path) -> None:
    for name in SUMS[:-2]:
        graph, x = load(proto(name), tmp_path), samples_for(shape_of(name), 12)
        program = compiled(graph, x, default)
        outputs = dequantize_outputs(program, run_reference(program, quantize_inputs(program, x)[0]).outputs)
        wanted = evaluate(graph, x).reshape(len(x), -1)
        assert np.abs(outputs - wanted).max() < tolerance * np.abs(wanted).max(), name


# ---- integers whose results are something else

RESULTS = ["exp", "log", "sqrt", "reciprocal", "div", "pow 1.5", "log softmax", "layer normalization", "unit length"]
RESULTS += [name for name in SUMS if name not in RESULTS] + ["where", "erf", "gelu", "elu"]


@pytest.mark.parametrize(
    ("default", "result"), [("fixed16", "posit12es1"), ("fixed8", "float16"), ("fixed16", "fixed32")]
)
def test_integers_round_into_other_formats(default: str, result: str, tmp_path: Path) -> None:
    made = []
    for name in RESULTS:
        graph, x = load(proto(name), tmp_path), samples_for(shape_of(name), 12)
        formats = {group[0]: result for group in tied_values(graph) if graph.outputs[0] in group}
        program = lower(graph, Assignment(default, formats), calibrate(graph, x, {}))
        made.append(Case(name, program, quantize_inputs(program, 2 * x)[0]))
    assert first_difference(made, run_natively(made, tmp_path, *SANITIZED)) == ""
