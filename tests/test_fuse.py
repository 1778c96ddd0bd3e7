"""Fusions: what they make, that they may be left out, fused kernels equal to their reference, what they are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from boards_under_test import ARM, EMULATED, by_compiler, each
from kernel_cases import UNDEFINED, Case, first_difference, run_natively, run_on_board
from onnx_models import load, node, samples_for, simple
from random_models import extreme_inputs
from scan_models import CELL, HIDDEN, cell, classifier, scan
from search_models import host_engine
from test_kernels_formats import inputs

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import formats, lower
from tinyhil.formats import named
from tinyhil.fuse import GRAPH_FUSIONS, NAMES, fuse_graph
from tinyhil.fuse.sparse import list_pays
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program, walk
from tinyhil.memplan import plan
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.ops.sparse import index_lists, matrix
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference


def rnd(*shape: int, seed: int = 3, scale: float = 1.0) -> np.ndarray:
    return samples_for(shape, 1, seed, scale)[0]


def thinned(array: np.ndarray, every: int) -> np.ndarray:
    """Most weights zero, one row of them all."""
    nonzero = array * (np.arange(array.size).reshape(array.shape) % every == 0)
    nonzero[:, 0] = 0
    return nonzero.astype(np.float32)


def prototypes(axes: Sequence[int] = (1,), keepdims: int = 0, power: bool = False) -> onnx.ModelProto:
    """ProtoNN: a projection, its distances to prototypes, their similarities, a vote."""
    square = node("Pow", "d two", "q") if power else node("Mul", "d d", "q")
    nodes = [
        node("MatMul", "x w", "m"),
        node("Add", "m c", "z"),
        node("Sub", "z p", "d"),
        square,
        node("ReduceSum", "q axes", "s", keepdims=keepdims),
        node("Mul", "s gamma", "e"),
        node("Exp", "e", "k"),
        node("Reshape", "k row", "r"),
        node("MatMul", "r v", "y"),
    ]
    constants: dict[str, Any] = {"w": rnd(20, 6, scale=0.4), "c": rnd(6), "p": rnd(9, 6, seed=5), "axes": list(axes)}
    constants |= {"gamma": np.array([-0.11], np.float32), "row": [1, -1], "v": rnd(9, 3), "two": 2.0}
    return simple(nodes, {"x": (1, 20)}, constants)


def sparse(bias: bool, rows: int = 1, every: int = 9) -> onnx.ModelProto:
    constants = {"w": thinned(rnd(20, 12), every), **({"b": rnd(12)} if bias else {})}
    return simple([node("Gemm", "x w b" if bias else "x w", "y")], {"x": (rows, 20)}, constants)


def shifted() -> onnx.ModelProto:
    """A number without axes is no bias of outputs."""
    return simple([node("MatMul", "x w", "m"), node("Add", "m c", "y")], {"x": (1, 5)}, {"w": rnd(5, 4), "c": 0.3})


def recurrent() -> onnx.ModelProto:
    """A bias inside of a loop's body."""
    nodes = [node("MatMul", "h U", "hu"), node("Add", "hu b", "hb"), CELL[1], node("Add", "hb xw", "s"), CELL[3]]
    return classifier([scan("h0 x", "h_n", cell(nodes))], constants={"b": rnd(HIDDEN)})


def lowered(
    graph: Graph,
    x: np.ndarray,
    without: Sequence[str] = (),
    default: str = "fixed16",
    mix: Mapping[str, str] | None = None,
) -> Program:
    return lower(graph, Assignment(default, mix or {}), calibrate(graph, x, {}), without)


def test_all_are_made_unless_left_out(tmp_path: Path) -> None:
    graph = load(prototypes(), tmp_path)
    program = lower(graph, Assignment("fixed16"), calibrate(graph, inputs_of(graph), {}))
    assert kernels(program) == ["dense_bias", "squared_distance", "exp", "dense"]


def kernels(program: Program) -> list[str]:
    return [name_of(op.kernel) for op in walk(program.body)]


def arena_bytes(program: Program) -> int:
    return plan(problem_of(program)).peak_bytes


def inputs_of(graph: Graph, count: int = 6) -> np.ndarray:
    return samples_for(graph.shapes[graph.inputs[0]], count)


EXPECTED = {
    "prototypes": (prototypes(), ["dense_bias", "squared_distance", "exp", "dense"]),
    "prototypes of a power": (prototypes(keepdims=1, power=True), ["dense_bias", "squared_distance", "exp", "dense"]),
    "recurrent": (recurrent(), ["fill", "dense_bias_pair", "tanh", "copy", "dense"]),
    "one number": (shifted(), ["dense", "add"]),
    "sparse": (sparse(False), ["sparse_dense"]),
    "sparse with a bias": (sparse(True), ["sparse_dense_bias"]),
    "sparse rows": (sparse(True, 3), ["sparse_dense_bias"]),
    "dense enough": (sparse(True, every=2), ["dense_bias"]),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_becomes_one_kernel(name: str, tmp_path: Path) -> None:
    made, wanted = EXPECTED[name]
    graph = load(made, tmp_path)
    assert kernels(lowered(graph, inputs_of(graph))) == wanted


def test_each_can_be_left_out(tmp_path: Path) -> None:
    graph = load(prototypes(), tmp_path)
    x = inputs_of(graph)
    plain = ["dense", "add", "sub", "mul", "reduce_sum", "mul", "exp", "dense"]
    assert kernels(lowered(graph, x, NAMES)) == plain
    assert "squared_distance" not in kernels(lowered(graph, x, ["distance"]))
    assert kernels(lowered(graph, x, ["exponent"])).count("mul") == 1
    assert kernels(lowered(graph, x, ["bias"]))[:2] == ["dense", "add"]
    thin = load(sparse(True), tmp_path)
    assert kernels(lowered(thin, inputs_of(thin), ["sparse"])) == ["dense_bias"]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_fused_graph_means_the_same(name: str, tmp_path: Path) -> None:
    graph = load(EXPECTED[name][0], tmp_path)
    x = inputs_of(graph)
    chosen = formats(graph, Assignment("fixed16"), calibrate(graph, x, {}))
    np.testing.assert_allclose(evaluate(fuse_graph(graph, chosen, ()), x), evaluate(graph, x), rtol=1e-4, atol=1e-5)
    left = fuse_graph(graph, chosen, [fusion.name for fusion in GRAPH_FUSIONS])
    assert left == graph


def test_fused_is_no_worse_than_its_parts(tmp_path: Path) -> None:
    """Fewer roundings: the error shrinks; two matrices less: so does the arena."""
    graph = load(prototypes(), tmp_path)
    x = inputs_of(graph, 200)
    errors, arenas = [], []
    for without in ((), NAMES):
        program = lowered(graph, x, without)
        run = run_reference(program, quantize_inputs(program, x)[0])
        errors.append(np.abs(dequantize_outputs(program, run.outputs) - evaluate(graph, x).reshape(200, -1)).mean())
        arenas.append(arena_bytes(program))
    assert errors[0] <= errors[1]
    assert arenas[0] < arenas[1] / 2


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("name", [name for name in EXPECTED if name.startswith("sparse")])
def test_index_lists_change_no_bit(name: str, bits: int, tmp_path: Path) -> None:
    graph = load(EXPECTED[name][0], tmp_path)
    x = inputs_of(graph)
    listed, plain = (lowered(graph, x, without, f"fixed{bits}") for without in ((), ["sparse"]))
    assert kernels(listed) != kernels(plain)
    codes = extreme_inputs(plain, 4, 20)
    a, b = run_reference(listed, codes), run_reference(plain, codes)
    np.testing.assert_array_equal(a.outputs, b.outputs)
    np.testing.assert_array_equal(a.saturations, b.saturations)

    def stored(program: Program) -> int:
        return sum(len(values) * program.tensors[n].format.storage_bytes for n, values in program.constants.items())

    assert stored(listed) < stored(plain)


def test_index_lists_hold_the_matrix() -> None:
    weights = np.array([[0, 3, 0, -1], [0, 0, 0, 0], [5, 6, 7, 8]])
    table, values = index_lists(weights)
    assert table.tolist() == [2, 1, 3, 0, 4, 0, 1, 2, 3]
    assert values.tolist() == [3, -1, 5, 6, 7, 8]
    np.testing.assert_array_equal(matrix(table, values, 3, 4), weights)


@pytest.mark.parametrize(("nonzero", "pays"), [(0, False), (1, True), (33, True), (34, False), (100, False)])
def test_the_cost_rule(nonzero: int, pays: bool) -> None:
    weights = (np.arange(100) < nonzero).astype(np.int64).reshape(4, 25)
    assert list_pays(weights, 2) == pays


def test_what_is_read_elsewhere_stays(tmp_path: Path) -> None:
    """The difference, the square or the product has another reader."""
    for extra, missing in (("d", "squared_distance"), ("q", "squared_distance")):
        nodes = [node("Sub", "x p", "d"), node("Mul", "d d", "q"), node("ReduceSum", "q a", "s", keepdims=1)]
        nodes.append(node("Add", f"s {extra}", "y"))
        graph = load(simple(nodes, {"x": (3, 4)}, {"p": rnd(4), "a": [1]}), tmp_path)
        assert missing not in kernels(lowered(graph, inputs_of(graph)))


def fused_cases(folder: Path, names: Sequence[str]) -> list[Case]:
    found = []
    for name in names:
        graph = load(EXPECTED[name][0], folder)
        for default in ("fixed8", "fixed16"):
            for mix in ({}, {"x": "fixed8" if default == "fixed16" else "fixed16"}, {"d": "fixed8"}):
                known = {value: fmt for value, fmt in mix.items() if value in graph.all_shapes()}
                program = lowered(graph, inputs_of(graph), (), default, known)
                found.append(Case(f"{name} {default} {mix}", program, extreme_inputs(program, 5)))
    return found


def test_kernels_equal_the_reference(tmp_path: Path) -> None:
    made = fused_cases(tmp_path, tuple(EXPECTED))
    assert first_difference(made, run_natively(made, tmp_path, *UNDEFINED)) == ""


EVERYWHERE = (
    "fixed5",
    "fixed32",
    "posit8es0",
    "posit8es2",
    "posit16es1",
    "posit32es2",
    "fp8e4m3",
    "bfloat16",
    "nf4",
    "int8",
)
MIXED = (*EVERYWHERE, "fixed8", "fixed16", "fixed8pc", "posit12es3", "fp8e5m2", "float16", "float32")


def distances(folder: Path, names: Sequence[str], mixtures: int = 0) -> list[Case]:
    """Squared distances in these formats, and with a format of its own for every value, on codes of all sorts."""
    graph, random = load(prototypes(), folder), np.random.default_rng(7)
    chosen: list[tuple[str, dict[str, str]]] = [(name, {}) for name in names]
    for _ in range(mixtures):
        chosen.append(("fixed16", {value: str(random.choice(MIXED)) for value in "xwzpdsek"}))
    made = []
    for default, mix in chosen:
        program = lowered(graph, inputs_of(graph, 40), (), default, mix)
        assert "squared_distance" in kernels(program), (default, mix)
        made.append(
            Case(f"{default} {mix}", program, inputs(program.tensors[program.input].format, inputs_of(graph, 12), 1))
        )
    return made


def test_squared_distances_in_every_format(tmp_path: Path) -> None:
    made = distances(tmp_path, MIXED, mixtures=12)
    assert first_difference(made, run_natively(made, tmp_path, *UNDEFINED)) == ""


@pytest.mark.parametrize("board", each(ARM))
def test_squared_distances_on_arm(board: str, tmp_path: Path) -> None:
    made = distances(tmp_path, EVERYWHERE)
    assert first_difference(made, run_on_board(made, load_boards().board(board), tmp_path / "cache")) == ""


@pytest.mark.parametrize(
    "names",
    [("posit8es0", "fp8e4m3"), *(pytest.param((n,), marks=pytest.mark.slow) for n in EVERYWHERE)],
)
def test_squared_distances_on_the_uno(names: Sequence[str], tmp_path: Path) -> None:
    made = distances(tmp_path, names)
    assert first_difference(made, run_on_board(made, load_boards().board("uno"), tmp_path / "cache")) == ""


@pytest.mark.parametrize("name", ["posit8es0", "posit8es1", "posit16es1", "fp8e4m3", "bfloat16", "int8"])
def test_distances_of_other_formats_need_no_matrices(name: str, tmp_path: Path) -> None:
    graph = load(prototypes(), tmp_path)
    x = inputs_of(graph, 200)
    errors = []
    for without in ((), ["distance"]):
        program = lowered(graph, x, without, name)
        run = run_reference(program, quantize_inputs(program, x)[0])
        errors.append(np.abs(dequantize_outputs(program, run.outputs) - evaluate(graph, x).reshape(200, -1)).mean())
    assert errors[0] < errors[1]
    wide = "fixed16" if named(name).bits == 16 else "fixed8"
    assert arena_bytes(lowered(graph, x, (), name)) == arena_bytes(lowered(graph, x, (), wide))


@pytest.mark.parametrize("board", by_compiler(EMULATED))
def test_kernels_on_boards(board: str, tmp_path: Path) -> None:
    made = fused_cases(tmp_path, ["prototypes", "sparse with a bias", "sparse"])[::2]
    results = run_on_board(made, load_boards().board(board), tmp_path / "cache")
    assert first_difference(made, results) == ""


def test_the_engine_runs_them(tmp_path: Path) -> None:
    engine = host_engine(default_cache_dir())
    for case in fused_cases(tmp_path, tuple(EXPECTED)):
        found, wanted = engine.run(case.program, case.inputs), run_reference(case.program, case.inputs)
        np.testing.assert_array_equal(found.outputs, wanted.outputs, case.name)
        np.testing.assert_array_equal(found.saturations, wanted.saturations, case.name)
