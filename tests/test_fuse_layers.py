"""Activations and residuals inside of layers: what is fused, the one rounding, what it saves, domains and boards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from boards_under_test import EMULATED, by_compiler
from kernel_cases import UNDEFINED, Case, first_difference, run_natively, run_on_board
from onnx_models import load, node, samples_for, simple
from random_models import extreme_inputs, random_cases
from search_models import host_engine

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import formats, lower
from tinyhil.fuse import fuse_graph
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.form import Limit
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program, walk
from tinyhil.memplan import plan
from tinyhil.memplan.arena.placement import place
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.ops import conv, linear
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

PARTS = ("activation", "pair", "residual")
FIXED = ("fixed8", "fixed16")
OTHERS = ("int8", "int16x8", "posit8es0", "posit16es1", "fp8e4m3", "float16", "float32", "fixed8pc", "fp8e4m3pc")


def rnd(*shape: int, seed: int = 3, scale: float = 1.0) -> np.ndarray:
    return samples_for(shape, 1, seed, scale)[0]


PLANES = {"w": rnd(5, 5, 3, 3), "b": rnd(5), "u": rnd(5, 5, 3, 3, seed=7), "low": 0.0, "high": 6.0, "under": -2.5}
MATRICES = {"w": rnd(20, 20, scale=0.3), "b": rnd(20), "u": rnd(20, 20, seed=9, scale=0.3), "low": -1.0, "high": 1.5}
IMAGE, ROWS = (1, 5, 7, 6), (3, 20)
SAME = {"pads": [1, 1, 1, 1]}
SKIP = [
    node("Conv", "x w b", "m", **SAME),
    node("Relu", "m", "r"),
    node("Conv", "r u b", "n", **SAME),
    node("Add", "n m", "s"),
    node("Relu", "s", "y"),
]
# Every layer with every activation: what comes before, the layer's nodes from x to z, the shape of x, constants, kernel
SIDE = [node("Tanh", "x", "t")]
SECOND = {**MATRICES, "p": rnd(20, 7, scale=0.2), "v": rnd(7, 20, seed=4, scale=0.2)}
PRODUCTS = [
    node("MatMul", "x p", "s"), node("Tanh", "s", "t"), node("MatMul", "t v", "m"), node("MatMul", "x w", "n"),
]  # fmt: skip
LAYERS: dict[str, tuple[list[onnx.NodeProto], tuple[int, ...], dict[str, Any], list[str]]] = {
    "conv bias": ([node("Conv", "x w b", "z", **SAME)], IMAGE, PLANES, ["conv_bias"]),
    "conv": ([node("Conv", "x w", "z", **SAME)], IMAGE, PLANES, ["conv"]),
    "conv sum": (
        [*SIDE, node("Conv", "x w", "n", **SAME), node("Add", "n t", "z")],
        IMAGE,
        PLANES,
        ["tanh", "conv_sum"],
    ),
    "conv bias sum": (
        [*SIDE, node("Conv", "x w b", "n", **SAME), node("Add", "n t", "z")],
        IMAGE,
        PLANES,
        ["tanh", "conv_bias_sum"],
    ),
    "dense sum": ([*SIDE, node("MatMul", "x w", "n"), node("Add", "n t", "z")], ROWS, MATRICES, ["tanh", "dense_sum"]),
    "dense bias sum": (
        [*SIDE, node("Gemm", "x w b", "n"), node("Add", "n t", "z")],
        ROWS,
        MATRICES,
        ["tanh", "dense_bias_sum"],
    ),
    "pair": ([*PRODUCTS, node("Add", "m n", "z")], ROWS, SECOND, ["dense", "tanh", "dense_pair"]),
    "bias pair": (
        [*PRODUCTS[:-1], node("Gemm", "x w b", "n"), node("Add", "m n", "z")],
        ROWS,
        SECOND,
        ["dense", "tanh", "dense_bias_pair"],
    ),
}
ENDS = {"relu": node("Relu", "z", "y"), "clip": node("Clip", "z low high", "y")}


def _form(layer: str, end: str) -> tuple[list[onnx.NodeProto], tuple[int, ...], dict[str, Any], list[str]]:
    nodes, shape, constants, found = LAYERS[layer]
    return [*nodes, ENDS[end]], shape, constants, [*found[:-1], f"{found[-1]}_{end}"]


# the nodes, the shape of x, constants, and what becomes of them in fixed point
MODELS: dict[str, tuple[list[onnx.NodeProto], tuple[int, ...], dict[str, Any], list[str]]] = {
    "gemm relu": ([node("Gemm", "x w b", "z"), node("Relu", "z", "y")], ROWS, MATRICES, ["dense_bias_relu"]),
    "matmul relu": ([node("MatMul", "x w", "z"), node("Relu", "z", "y")], ROWS, MATRICES, ["dense_relu"]),
    "left matmul": (
        [node("MatMul", "w x", "z"), node("Clip", "z low high", "y")],
        (20, 1),
        MATRICES,
        ["dense_clip"],
    ),
    "bias clip": (
        [node("MatMul", "x w", "m"), node("Add", "m b", "z"), node("Clip", "z low high", "y")],
        ROWS,
        MATRICES,
        ["dense_bias_clip"],
    ),
    "conv relu": ([node("Conv", "x w", "z", **SAME), node("Relu", "z", "y")], IMAGE, PLANES, ["conv_relu"]),
    "conv clip": (
        [node("Conv", "x w b", "z", **SAME), node("Clip", "z under high", "y")],
        IMAGE,
        PLANES,
        ["conv_bias_clip"],
    ),
    "depthwise": (
        [node("Conv", "x d b", "z", group=5), node("Clip", "z low high", "y")],
        IMAGE,
        {**PLANES, "d": rnd(5, 1, 3, 2)},
        ["conv_bias_clip"],
    ),
    "sparse": (
        [node("Gemm", "x t b", "z"), node("Relu", "z", "y")],
        ROWS,
        {**MATRICES, "t": rnd(20, 20) * (np.arange(400).reshape(20, 20) % 7 == 0)},
        ["sparse_dense_bias_relu"],
    ),
    "residual": (SKIP, IMAGE, PLANES, ["conv_bias", "relu", "conv_bias_sum_relu"]),
    "residual of the input": (
        [node("Conv", "x w", "n", **SAME), node("Add", "x n", "z"), node("Clip", "z under high", "y")],
        IMAGE,
        PLANES,
        ["conv_sum_clip"],
    ),
    "residual depthwise": (
        [node("Sigmoid", "x", "a"), node("Conv", "x d", "n", group=5, pads=[1, 1, 1, 1]), node("Add", "a n", "y")],
        IMAGE,
        {"d": rnd(5, 1, 3, 3)},
        ["sigmoid", "conv_sum"],
    ),
    "residual rows": (
        [node("Gemm", "x w b", "m"), node("Tanh", "x", "t"), node("Gemm", "t u b", "n"), node("Add", "m n", "y")],
        ROWS,
        MATRICES,
        ["dense_bias", "tanh", "dense_bias_sum"],
    ),
    "pair": ([*PRODUCTS, node("Add", "m n", "y")], ROWS, SECOND, ["dense", "tanh", "dense_pair"]),
    "residual of what it reads": (
        [node("Tanh", "x", "t"), node("MatMul", "t w", "n"), node("Add", "t n", "y")],
        ROWS,
        MATRICES,
        ["tanh", "dense_sum"],
    ),
    **{f"{layer} {end}": _form(layer, end) for layer in LAYERS for end in ENDS},
}


def graph_of(name: str, folder: Path) -> Graph:
    nodes, shape, constants, _ = MODELS[name]
    used = {value for made in nodes for value in made.input}
    return load(simple(nodes, {"x": shape}, {key: v for key, v in constants.items() if key in used}), folder)


def inputs_of(graph: Graph, count: int = 6) -> np.ndarray:
    return samples_for(graph.shapes[graph.inputs[0]], count)


def lowered(graph: Graph, default: str, without: Sequence[str] = ()) -> Program:
    return lower(graph, Assignment(default), calibrate(graph, inputs_of(graph), {}), without)


def kernels(program: Program) -> list[str]:
    return [name_of(op.kernel) for op in walk(program.body)]


@pytest.mark.parametrize("name", MODELS)
def test_what_becomes_one_kernel(name: str, tmp_path: Path) -> None:
    assert kernels(lowered(graph_of(name, tmp_path), "fixed16")) == MODELS[name][3]


@pytest.mark.parametrize("name", MODELS)
def test_a_fused_graph_means_the_same(name: str, tmp_path: Path) -> None:
    graph = graph_of(name, tmp_path)
    x = inputs_of(graph)
    chosen = formats(graph, Assignment("fixed16"), calibrate(graph, x, {}))
    np.testing.assert_allclose(evaluate(fuse_graph(graph, chosen), x), evaluate(graph, x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_each_can_be_left_out(name: str, tmp_path: Path) -> None:
    graph = graph_of(name, tmp_path)
    found = kernels(lowered(graph, "fixed16", PARTS))
    assert not any("sum" in kernel or kernel.endswith(("_relu", "_clip")) for kernel in found)
    assert not any("_sum" in kernel for kernel in kernels(lowered(graph, "fixed16", ["residual"])))
    found = kernels(lowered(graph, "fixed16", ["activation"]))
    assert not any(kernel.endswith(("_relu", "_clip")) for kernel in found)


@pytest.mark.parametrize("default", FIXED)
@pytest.mark.parametrize("name", MODELS)
def test_errors_are_no_larger(name: str, default: str, tmp_path: Path) -> None:
    """One rounding of the result instead of two or three: at most half a unit and what the operands bring along."""
    graph = graph_of(name, tmp_path)
    x, wanted = inputs_of(graph), evaluate(graph, inputs_of(graph)).reshape(6, -1)
    errors = []
    for without in ((), PARTS):
        program = lowered(graph, default, without)
        codes = quantize_inputs(program, x)[0]
        errors.append(np.abs(dequantize_outputs(program, run_reference(program, codes).outputs) - wanted))
    unit = 2.0 ** program.tensors[program.output].format.exponent
    assert errors[0].mean() <= errors[1].mean() + 0.01 * unit
    assert errors[0].max() <= errors[1].max() + unit


@pytest.mark.parametrize("default", FIXED)
def test_limits_before_saturation(default: str, tmp_path: Path) -> None:
    """What an activation cuts off is no saturation; what it lets through and does not fit is one."""
    graph = graph_of("gemm relu", tmp_path)
    fused, plain = lowered(graph, default), lowered(graph, default, PARTS)
    out = fused.tensors[fused.output].format
    run = run_reference(fused, extreme_inputs(fused, 3, 20))
    assert run.outputs.min() == 0
    np.testing.assert_array_equal(run.saturations, (run.outputs == out.highest).sum(axis=1))
    assert run.saturations.sum() < run_reference(plain, extreme_inputs(plain, 3, 20)).saturations.sum()


def test_the_result_takes_the_place_of_the_addend(tmp_path: Path) -> None:
    graph = graph_of("residual", tmp_path)
    peaks = [place(lowered(graph, "fixed8", left), {"rows"}).plan.peak_bytes for left in ((), PARTS)]
    tensor, patch = 5 * 7 * 6, 5 * 3 * 3
    assert peaks[0] == 2 * tensor + patch
    assert peaks[0] <= peaks[1]
    own = graph_of("residual of what it reads", tmp_path)
    assert plan(problem_of(lowered(own, "fixed8"))).peak_bytes == 2 * 60


NOT_FUSED = {
    "another reader": [node("Gemm", "x w b", "z"), node("Relu", "z", "r"), node("Mul", "r z", "y")],
    "a layer made before its addend": [node("Gemm", "x w b", "m"), node("Tanh", "x", "t"), node("Add", "m t", "y")],
    "a smaller addend": [node("Gemm", "x w b", "m"), node("ReduceSum", "x a", "t"), node("Add", "m t", "y")],
}


@pytest.mark.parametrize("name", NOT_FUSED)
def test_what_stays_apart(name: str, tmp_path: Path) -> None:
    used = {value for made in NOT_FUSED[name] for value in made.input}
    constants = {key: value for key, value in {**MATRICES, "a": [1]}.items() if key in used}
    program = lowered(load(simple(NOT_FUSED[name], {"x": ROWS}, constants), tmp_path), "fixed16")
    assert "dense_bias" in kernels(program)


def cases(folder: Path, names: Sequence[str], defaults: Sequence[str]) -> list[Case]:
    found = []
    for name in names:
        graph = graph_of(name, folder)
        for default in defaults:
            program = lowered(graph, default)
            x = inputs_of(graph, 4)
            codes = np.concatenate([quantize_inputs(program, factor * x)[0] for factor in (1, 9)])
            if default in FIXED:
                codes = np.concatenate([codes, extreme_inputs(program, 5)])
            found.append(Case(f"{name} {default}", program, codes))
    return found


@pytest.mark.parametrize("defaults", [FIXED, OTHERS], ids=["fixed", "others"])
def test_kernels_equal_the_reference(defaults: tuple[str, ...], tmp_path: Path) -> None:
    few = ("gemm relu", "conv clip", "depthwise", "conv relu")
    made = cases(tmp_path, tuple(MODELS) if defaults == FIXED else few, defaults)
    assert any(kernel.endswith("_relu") for case in made for kernel in kernels(case.program))
    assert first_difference(made, run_natively(made, tmp_path, *UNDEFINED)) == ""


def test_the_models_cover_every_form(tmp_path: Path) -> None:
    """What the tables of tests/test_kernels.py and tests/test_ops_shapes.py leave to this file."""
    graphs = [graph_of(name, tmp_path) for name in MODELS]
    found = {kernel for graph in graphs for kernel in kernels(lowered(graph, "fixed16"))}
    assert found >= {
        name_of(kernel.form)
        for family in (linear, conv)
        for kernel in family.KERNELS
        if kernel.form.limit is not Limit.NONE
    }


def test_line_buffers(tmp_path: Path) -> None:
    """Row by row: the limits go with the convolutions."""
    graph = graph_of("residual", tmp_path)
    nodes = [
        node("Conv", "x w b", "c", **SAME),
        node("Relu", "c", "r"),
        node("Conv", "r u b", "d", **SAME),
        node("Clip", "d low high", "e"),
        node("MaxPool", "e", "y", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    graph = load(simple(nodes, {"x": (1, 5, 12, 6)}, {k: PLANES[k] for k in ("w", "b", "u", "low", "high")}), tmp_path)
    made = []
    for default in FIXED:
        program = place(lowered(graph, default)).program
        assert {"conv_bias_relu_rows", "conv_bias_clip_rows"} <= set(kernels(program))
        made.append(Case(default, program, extreme_inputs(program, 2)))
    assert first_difference(made, run_natively(made, tmp_path, *UNDEFINED)) == ""


@pytest.mark.parametrize("board", by_compiler(EMULATED))
def test_kernels_on_boards(board: str, tmp_path: Path) -> None:
    names = ("matmul relu", "conv clip", "sparse", "residual", "residual depthwise", "residual rows")
    made = [*cases(tmp_path, names, FIXED)[::2], *cases(tmp_path, ("gemm relu",), ("fixed8", "int8", "posit8es0"))]
    made = [Case(case.name, case.program, case.inputs[:3]) for case in made]
    assert first_difference(made, run_on_board(made, load_boards().board(board), tmp_path / "cache")) == ""


def test_the_engine_runs_them(tmp_path: Path) -> None:
    engine = host_engine(default_cache_dir())
    for case in cases(tmp_path, tuple(MODELS), FIXED):
        found, wanted = engine.run(case.program, case.inputs), run_reference(case.program, case.inputs)
        np.testing.assert_array_equal(found.outputs, wanted.outputs, case.name)
        np.testing.assert_array_equal(found.saturations, wanted.saturations, case.name)


@pytest.mark.slow
def test_random_models(tmp_path: Path) -> None:
    made = random_cases(9000, 60, tmp_path)
    forms = {kernel for case in made for kernel in kernels(case.program)}
    assert {"dense_relu", "dense_sum"} <= forms
    assert first_difference(made, run_natively(made, tmp_path, *UNDEFINED)) == ""
