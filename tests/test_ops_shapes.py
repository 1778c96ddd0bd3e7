"""Moving, reducing, comparing and normalising: floats as onnxruntime, integers near them, kernels equal to numpy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from boards_under_test import EMULATED, by_compiler
from kernel_cases import UNDEFINED, Case, first_difference, run_natively, run_on_board
from onnx_models import compiled, load, node, onnxruntime_outputs, samples_for, simple
from random_models import cases_of, extreme_inputs
from test_ops_windows import MODELS as WINDOWS

from tinyhil.harness.settings.config import load_boards
from tinyhil.language.form import Limit
from tinyhil.language.program import walk
from tinyhil.ops import conv, movement, norm, piecewise, pool, reduce, softmax
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

IMAGE = (1, 4, 3, 5)
WIDE = samples_for((4, 1, 1), 1, 3)[0]
BATCH_NORM = {
    "s": [0.5, -1.5, 2.0, 0.1],
    "b": [0.1, 0.0, -1.0, 3.0],
    "m": [0.0, 0.5, -0.5, 1.0],
    "v": [1.0, 0.3, 2.0, 0.05],
}
CONV = {"w": samples_for((4, 4, 3, 3), 1, 4, 0.3)[0], "c": np.array([0.1, 0.2, -0.3, 0.4])}
GEMM = {"w": samples_for((4, 6), 1, 4, 0.3)[0], "c": np.array([0.1, 0.2, -0.3, 0.4])}

Model = tuple[list[onnx.NodeProto], Sequence[int], dict[str, Any]]


def one(op: str, shape: Sequence[int] = IMAGE, inputs: str = "x", **attrs: Any) -> Model:
    return [node(op, inputs, "y", **attrs)], shape, {}


def fed(op: str, inputs: str, constants: dict[str, Any], shape: Sequence[int] = IMAGE, **attrs: Any) -> Model:
    return [node(op, inputs, "y", **attrs)], shape, constants


MODELS: dict[str, Model] = {
    "concat channels": (
        [node("Relu", "x", "r"), node("Neg", "x", "n"), node("Concat", "r x n", "y", axis=1)],
        IMAGE,
        {},
    ),
    "concat columns": ([node("Abs", "x", "a"), node("Concat", "a x", "y", axis=-1)], IMAGE, {}),
    "concat a constant": fed("Concat", "w x", {"w": np.full((1, 2, 3, 5), 0.3)}, axis=1),
    "slice": fed("Slice", "x s e a t", {"s": [1, -1], "e": [4, -9], "a": [1, 3], "t": [2, -1]}),
    "slice default axes": fed("Slice", "x s e", {"s": [0, 1], "e": [1, 99]}),
    "split": (
        [node("Split", "x p", "a b", axis=1), node("Sub", "b m", "d"), node("Concat", "d a", "y", axis=1)],
        IMAGE,
        {"p": [1, 3], "m": np.array([0.5])},
    ),
    "split evenly": (
        [node("Split", "x", "a b", axis=1), node("Add", "a b", "y")],
        IMAGE,
        {},
    ),
    "transpose": one("Transpose", perm=[0, 2, 3, 1]),
    "transpose all": one("Transpose", (2, 3, 4, 2), perm=[3, 1, 0, 2]),
    "transpose by default": one("Transpose", (3, 4)),
    "expand": fed("Expand", "x s", {"s": [2, 3, 1]}, (1, 3, 4)),
    "pad": fed("Pad", "x p v", {"p": [0, 1, 0, 2, 0, 0, 3, 1], "v": np.array(0.7, np.float32)}),
    "pad with zeros": fed("Pad", "x p", {"p": [0, 0, 1, 1, 0, 0, 1, 1]}, mode="constant"),
    "gather": fed("Gather", "x i", {"i": [[2, -1], [0, 2]]}, axis=1),
    "gather one": fed("Gather", "x i", {"i": np.array(3)}, axis=3),
    "mean": one("ReduceMean", axes=[2, 3], keepdims=0),
    "mean of channels": one("ReduceMean", axes=[1]),
    "sum": fed("ReduceSum", "x a", {"a": [-1]}),
    "sum of all": one("ReduceSum", (1, 6), keepdims=0),
    "largest": one("ReduceMax", axes=[1, 2], keepdims=0),
    "smallest": one("ReduceMin", axes=[3]),
    "arg max": one("ArgMax", axis=1, keepdims=0),
    "softmax": one("Softmax", (1, 9)),
    "softmax of channels": one("Softmax", axis=1),
    "clip": fed("Clip", "x l h", {"l": np.array(-0.4, np.float32), "h": np.array(0.9, np.float32)}),
    "clip above": (
        [onnx.helper.make_node("Clip", ["x", "", "h"], ["y"], name="Clip_y")],
        IMAGE,
        {"h": np.array(0.6, np.float32)},
    ),
    "relu 6": fed("Clip", "x l h", {"l": np.array(0.0, np.float32), "h": np.array(6.0, np.float32)}),
    "leaky relu": one("LeakyRelu", alpha=0.3),
    "leaky relu by default": one("LeakyRelu"),
    "neg": one("Neg"),
    "abs": one("Abs"),
    "hard sigmoid": one("HardSigmoid"),
    "hard sigmoid sharp": one("HardSigmoid", alpha=1.7, beta=0.1),
    "hard swish": one("HardSwish"),
    "min": fed("Min", "x w", {"w": WIDE}),
    "max": ([node("Neg", "x", "n"), node("Max", "x n", "y")], IMAGE, {}),
    "add per channel": fed("Add", "x w", {"w": WIDE}),
    "mul per channel": fed("Mul", "w x", {"w": WIDE}),
    "sub per row": fed("Sub", "x w", {"w": samples_for((3, 1), 1, 3)[0]}),
    "mul by a computed scale": (
        [node("GlobalAveragePool", "x", "g"), node("Sigmoid", "g", "h"), node("Mul", "x h", "y")],
        IMAGE,
        {},
    ),
    "batch norm alone": fed("BatchNormalization", "x s b m v", BATCH_NORM),
    "batch norm of a vector": fed("BatchNormalization", "x s b m v", BATCH_NORM, (1, 4)),
    "batch norm after conv": (
        [node("Conv", "x w c", "k"), node("BatchNormalization", "k s b m v", "y", epsilon=1e-3)],
        IMAGE,
        {**CONV, **BATCH_NORM},
    ),
    "batch norm after conv without bias": (
        [node("Conv", "x w", "k"), node("BatchNormalization", "k s b m v", "y")],
        IMAGE,
        {"w": CONV["w"], **BATCH_NORM},
    ),
    "batch norm after gemm": (
        [node("Gemm", "x w c", "k", transB=1), node("BatchNormalization", "k s b m v", "y")],
        (1, 6),
        {**GEMM, **BATCH_NORM},
    ),
}


def proto(name: str) -> onnx.ModelProto:
    nodes, shape, constants = MODELS[name]
    made = simple(nodes, {"x": shape}, constants)
    if nodes[-1].op_type == "ArgMax":
        made.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    return made


@pytest.mark.parametrize("name", MODELS)
def test_floats_equal_onnxruntime(name: str, tmp_path: Path) -> None:
    x = samples_for(MODELS[name][1], 4)
    got = evaluate(load(proto(name), tmp_path), x)
    assert np.abs(got.reshape(len(x), -1) - onnxruntime_outputs(proto(name), x)).max() < 2e-5


def test_the_tables_cover_every_operator_and_kernel(tmp_path: Path) -> None:
    families = (conv, movement, norm, piecewise, pool, reduce, softmax)
    tables = {**{name: (proto(name), MODELS[name][1]) for name in MODELS}}
    tables.update({name: make(name) for name, make in WINDOWS.items()})
    operators = {n.op_type for made, _ in tables.values() for n in made.graph.node}
    assert operators >= {operator.name for family in families for operator in family.OPERATORS}
    programs = [compiled(load(made, tmp_path), samples_for(shape, 2)) for made, shape in tables.values()]
    kernels = {op.kernel for program in programs for op in walk(program.body)}
    wanted = [kernel for family in families if family is not norm for kernel in family.KERNELS]
    # tests/test_fuse_layers.py has those with limits, tests/test_attention_kernels.py what a pass makes
    without = {kernel.form for kernel in wanted if kernel.form.limit is Limit.NONE} - {softmax.LOOKED_UP.form}
    assert kernels >= without


# units of 2^-12: inputs are rounded to 2^-13, weights to 2^-15 and finer, each result once
TOLERANCE = {"sum of all": 4, "sum": 4, "batch norm": 20, "mul": 4}


@pytest.mark.parametrize("name", MODELS)
def test_integers_stay_near_the_floats(name: str, tmp_path: Path) -> None:
    x = samples_for(MODELS[name][1], 8)
    graph = load(proto(name), tmp_path)
    program = compiled(graph, x)
    run = run_reference(program, quantize_inputs(program, x)[0])
    error = np.abs(dequantize_outputs(program, run.outputs) - evaluate(graph, x).reshape(len(x), -1)).max()
    units = next((units for start, units in TOLERANCE.items() if name.startswith(start)), 2)
    assert error <= units * 2.0**-12


def cases(folder: Path, default: str, names: Iterable[str], rows: int = 7) -> list[Case]:
    return cases_of(folder, default, ((name, proto(name), MODELS[name][1]) for name in names), rows)


@pytest.mark.parametrize("default", ["fixed8", "fixed16"])
def test_kernels_equal_the_reference(default: str, tmp_path: Path) -> None:
    made = cases(tmp_path, default, MODELS)
    assert first_difference(made, run_natively(made, tmp_path, *UNDEFINED)) == ""


ON_BOARDS = {
    "first": ["concat channels", "slice", "softmax", "clip", "hard swish", "min"],
    "second": ["pad", "gather", "mean", "arg max", "leaky relu", "hard sigmoid sharp", "batch norm alone"],
}


@pytest.mark.parametrize("board", by_compiler(EMULATED))
@pytest.mark.parametrize("names", ON_BOARDS)
def test_kernels_on_boards(board: str, names: str, tmp_path: Path) -> None:
    made = cases(tmp_path, "fixed16", ON_BOARDS[names], rows=2)[::2]
    results = run_on_board(made, load_boards().board(board), tmp_path / "cache")
    assert first_difference(made, results) == ""


@pytest.mark.parametrize("exponent", [-20, -15, -12, -8, -3, 0, 4, 30])
def test_exponential_error_bound(exponent: int) -> None:
    """Every distance two 16-bit numbers can have."""
    distance = np.arange(1 << 16)
    got = softmax.exp_negative(distance, exponent, softmax.exp_table()) / 2.0**19
    assert np.abs(got - np.exp(-distance * 2.0**exponent)).max() <= softmax.WORST_ERROR
    assert got[0] == 1


@pytest.mark.parametrize("exponent", [-14, -11, -9, -3, 3, 20])
def test_softmax_of_far_apart_scales(exponent: int, tmp_path: Path) -> None:
    graph = load(proto("softmax"), tmp_path)
    scale = 2.0 ** (exponent + 15)
    program = compiled(graph, np.clip(samples_for((1, 9), 6), -1.9, 1.9) * np.float32(scale / 2))
    made = [Case(f"scale {scale}", program, extreme_inputs(program, 3, 20))]
    assert first_difference(made, run_natively(made, tmp_path, *UNDEFINED)) == ""


@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("batch norm after")])
def test_batch_norm_disappears_into_the_layer(name: str, tmp_path: Path) -> None:
    graph = load(proto(name), tmp_path)
    assert [n.op for n in graph.nodes] == [MODELS[name][0][0].op_type]
    assert len(list(walk(compiled(graph, samples_for(MODELS[name][1], 2)).body))) == 1


def test_batch_norm_stays_where_the_layer_is_read_twice(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w", "k"), node("BatchNormalization", "k s b m v", "n"), node("Add", "k n", "y")]
    made = simple(nodes, {"x": IMAGE}, {"w": CONV["w"], **BATCH_NORM})
    graph = load(made, tmp_path)
    assert "BatchNormalization" in [n.op for n in graph.nodes]
    x = samples_for(IMAGE, 3)
    assert np.abs(evaluate(graph, x).reshape(3, -1) - onnxruntime_outputs(made, x)).max() < 2e-5


@pytest.mark.parametrize("keepdims", [0, 1])
def test_axes_that_are_no_neighbours_are_moved_behind_the_others(keepdims: int, tmp_path: Path) -> None:
    made = simple([node("ReduceMean", "x", "y", axes=[1, 3], keepdims=keepdims)], {"x": IMAGE})
    graph, x = load(made, tmp_path), samples_for(IMAGE, 2)
    assert np.abs(evaluate(graph, x).reshape(2, -1) - onnxruntime_outputs(made, x).reshape(2, -1)).max() < 1e-6
    compiled(graph, x)
