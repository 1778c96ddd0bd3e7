"""Weights chosen at run time, read where they lie: what is fused, equal bits with and without, on every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from kernel_cases import UNDEFINED, Case, first_difference, run_natively, run_on_board
from onnx import TensorProto
from onnx_models import load, node, samples_for, simple
from random_models import extreme_inputs
from search_models import host_engine

from models.training.graphs import Bonsai, bonsai
from tinyhil.codegen.kernel_calls import name_of
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import formats, lower
from tinyhil.fuse import fuse_graph
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program, walk
from tinyhil.memplan import plan
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import run_reference

PLAIN = ("gathered",)


def rnd(*shape: int, seed: int = 3, scale: float = 1.0) -> np.ndarray:
    return samples_for(shape, 1, seed, scale)[0]


def chosen(table: np.ndarray, product: str, shape: tuple[int, ...], index: Sequence[int] = (), **gather: Any) -> Any:
    """`product` of x and a row of `table`: the one x's sign bits say, beyond both ends at times."""
    nodes = [
        node("ReduceSum", "x axes", "sum", keepdims=0),
        node("Mul", "sum spread", "far"),
        node("Cast", "far", "whole", to=TensorProto.INT64),
        node("Expand", "whole shape", "k"),
        node("Gather", "table k", "w", **gather),
        node("MatMul", product, "y"),
    ]
    constants: dict[str, Any] = {"axes": list(range(len(shape))), "spread": 3.0, "table": table}
    constants["shape"] = np.array(index, np.int64)
    return simple(nodes, {"x": shape}, constants)


def tree(classes: int = 3, hard: bool = False) -> onnx.ModelProto:
    def normal(*shape: int) -> np.ndarray:
        return np.random.default_rng(sum(shape)).normal(size=shape)

    weights = Bonsai(normal(12, 6), normal(6), normal(7, 6, classes), normal(7, 6, classes), normal(3, 6, 1), hard)
    return bonsai("tree", weights, (1, 12))


FUSED = {
    "bonsai": tree(),
    "bonsai of one score": tree(1, hard=True),
    "a matrix": chosen(rnd(5, 8, 3), "x w", (1, 8)),
    "a matrix for rows": chosen(rnd(5, 8, 3), "x w", (4, 8)),
    "a matrix chosen by one of one": chosen(rnd(5, 8, 3), "x w", (1, 8), (1,)),
    "a vector": chosen(rnd(4, 8), "x w", (8,)),
    "a matrix on the left": chosen(rnd(5, 3, 8), "w x", (8, 1)),
    "a vector on the left": chosen(rnd(5, 8), "w x", (8,), axis=-2),
}
NOT_FUSED = {
    "a matrix on the left of several columns": chosen(rnd(5, 3, 8), "w x", (8, 2)),
    "columns": chosen(rnd(8, 5, 3), "x w", (1, 8), axis=1),
    "two rows": chosen(rnd(5, 8), "x w", (1, 2), (2,)),
}


def inputs_of(graph: Graph, count: int = 8) -> np.ndarray:
    return samples_for(graph.shapes[graph.inputs[0]], count)


def lowered(graph: Graph, without: Sequence[str], default: str, mix: Mapping[str, str] | None = None) -> Program:
    return lower(graph, Assignment(default, mix or {}), calibrate(graph, inputs_of(graph), {}), without)


def whole_inputs(graph: Graph, default: str) -> dict[str, str]:
    """The formats that leave the input, and what an index is computed from, in fixed point."""
    if default.startswith("fixed"):
        return {}
    return {name: "fixed16" for name in ("x", "sum", "far") if name in graph.all_shapes()}


def kernels(program: Program) -> list[str]:
    return [name_of(op.kernel) for op in walk(program.body)]


@pytest.mark.parametrize("name", [*FUSED, *NOT_FUSED])
def test_what_is_fused(name: str, tmp_path: Path) -> None:
    graph = load((FUSED | NOT_FUSED)[name], tmp_path)
    fused, plain = (kernels(lowered(graph, without, "fixed16")) for without in ((), PLAIN))
    assert ("dense_at" in fused) == (name in FUSED)
    assert ("gather_at" in fused) == (name in NOT_FUSED)
    assert "dense_at" not in plain
    assert "gather_at" in plain


@pytest.mark.parametrize("name", FUSED)
def test_a_fused_graph_means_the_same(name: str, tmp_path: Path) -> None:
    graph = load(FUSED[name], tmp_path)
    x = inputs_of(graph, 40)
    known = formats(graph, Assignment("fixed16"), calibrate(graph, x, {}))
    fused = fuse_graph(graph, known)
    assert any(one.op == "MatMulAt" for one in fused.walk())
    np.testing.assert_allclose(evaluate(fused, x), evaluate(graph, x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("format_", ["fixed8", "fixed16", "fixed12", "posit16es1", "bfloat16", "float32"])
@pytest.mark.parametrize("name", FUSED)
def test_no_bit_changes(name: str, format_: str, tmp_path: Path) -> None:
    """Where the chosen row has the table's scale, nothing was rounded between them; indices beyond are counted."""
    graph = load(FUSED[name], tmp_path)
    x = inputs_of(graph)
    given = calibrate(graph, x, {})
    tables = {one.outputs[0]: one.inputs[0] for one in graph.walk() if one.op == "GatherAt"}
    constants = graph.all_constants()
    ends = {row: (-size, size) for row, table in tables.items() for size in [float(np.abs(constants[table]).max())]}
    ranges = replace(given, values={**given.values, **ends})
    chosen = Assignment(format_, whole_inputs(graph, format_))
    fused, plain = (lower(graph, chosen, ranges, without) for without in ((), PLAIN))
    codes = extreme_inputs(plain, 4, 20)
    a, b = run_reference(fused, codes), run_reference(plain, codes)
    np.testing.assert_array_equal(a.outputs, b.outputs)
    np.testing.assert_array_equal(a.saturations, b.saturations)
    assert plan(problem_of(fused)).peak_bytes < plan(problem_of(plain)).peak_bytes


def cases_of(folder: Path, names: Sequence[str], kinds: Sequence[str] = ("fixed8", "fixed16")) -> list[Case]:
    found = []
    for name in names:
        graph = load(FUSED[name], folder)
        table = next(one.inputs[0] for one in graph.walk() if one.op == "GatherAt")
        for default in kinds:
            mixes = [whole_inputs(graph, default)]
            if default == "fixed16":
                mixes += [{table: "fixed8"}, {"x": "fixed8"}]
            for mix in mixes:
                program = lowered(graph, (), default, mix)
                found.append(Case(f"{name} {default} {mix}", program, extreme_inputs(program, 5)))
    return found


def test_kernels_equal_the_reference(tmp_path: Path) -> None:
    made = cases_of(tmp_path, tuple(FUSED))
    made += cases_of(
        tmp_path, ["bonsai", "a matrix for rows"], ["fixed4", "posit8es1", "fp8e4m3", "bfloat16", "float32"]
    )
    assert first_difference(made, run_natively(made, tmp_path, *UNDEFINED)) == ""


@pytest.mark.parametrize("board", ["uno", pytest.param("due", marks=pytest.mark.slow), "h747"])
def test_kernels_on_boards(board: str, tmp_path: Path) -> None:
    made = cases_of(tmp_path, ["bonsai", "a matrix for rows"]) + cases_of(tmp_path, ["a vector"], ["posit8es1"])
    results = run_on_board(made, load_boards().board(board), tmp_path / "cache")
    assert first_difference(made, results) == ""


def test_the_engine_runs_them(tmp_path: Path) -> None:
    engine = host_engine(default_cache_dir())
    for case in cases_of(tmp_path, tuple(FUSED)):
        found, wanted = engine.run(case.program, case.inputs), run_reference(case.program, case.inputs)
        np.testing.assert_array_equal(found.outputs, wanted.outputs, case.name)
        np.testing.assert_array_equal(found.saturations, wanted.saturations, case.name)
