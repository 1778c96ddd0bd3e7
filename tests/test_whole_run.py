"""The verdict over a whole run: sound runs of every operator are explained by rounding, wrong ones are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hil_command import hil
from onnx import TensorProto
from onnx_models import graph as onnx_graph
from onnx_models import load, model, node, samples_for, simple
from ops_models import ALL, ROWS, proto
from test_ops_engine import graphs

from tinyhil.agreement import Lowered, WholeRun, whole_run
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.columns import scaled_columns
from tinyhil.compiler.lower import formats, lower
from tinyhil.errors import ConfigError, ModelError
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program
from tinyhil.ops import OPERATOR_BY_NAME
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

QUICK = ("fixed16", "fixed8", "int8", "posit16es1", "float32")
COARSE = ("fixed8", "int8", "posit8es1", "fp8e4m3", "fixed8pc")
MORE = ("posit8es1", "fixed32", "float16", "int16x8", "fp8e4m3", "fixed8pc")
FORMATS = [
    "fixed16",
    "int8",
    *(pytest.param(name, marks=pytest.mark.slow) for name in (*QUICK[1:2], *QUICK[3:], *MORE)),
]
# what 8 bits can not tell: equality of rounded numbers, whole numbers made of such, shares of exponentials
UNREADABLE = ("more equal", "more gather a row", "more remainder of whole", "more unit sum")
LOGARITHMS = ("more length of planes",)  # of 857 to 2,423, which four significant bits do not tell apart


def judged(graph: Graph, assignment: Assignment, x: np.ndarray, broken: Any = None) -> WholeRun:
    """ModelError, ConfigError where the assignment is not possible."""
    ranges = calibrate(graph, x, {})
    program: Program = lower(graph, assignment, ranges)
    outputs = dequantize_outputs(program, run_reference(program, quantize_inputs(program, x)[0]).outputs)
    scaled = scaled_columns(graph, assignment, ranges)
    lowered = Lowered(scaled.graph, program, formats(scaled.graph, scaled.assignment, scaled.ranges))
    wanted = evaluate(graph, x).reshape(len(x), -1).astype(np.float64)
    return whole_run(lowered, x, outputs if broken is None else broken(outputs), wanted, 4)


def findings(models: dict[str, Graph], name: str, make: Callable[[Graph], np.ndarray]) -> list[str]:
    found, compared = [], 0
    for key, graph in models.items():
        try:
            found += [f"{key}: {finding}" for finding in judged(graph, Assignment(name), make(graph)).findings]
        except (ModelError, ConfigError):
            continue
        compared += 1
    return found if compared > 0.9 * len(models) else [*found, f"only {compared} models were compared"]


def unexpected(models: dict[str, Graph], name: str, make: Callable[[Graph], np.ndarray]) -> list[str]:
    known = (UNREADABLE if name in COARSE else ()) + (LOGARITHMS if name == "fp8e4m3" else ())
    return [text for text in findings(models, name, make) if not text.startswith(known)]


def inputs_of(graph: Graph) -> np.ndarray:
    return samples_for(graph.shapes[graph.inputs[0]], 6, 8)


def whole_inputs_of(graph: Graph) -> np.ndarray:
    return np.rint(samples_for(graph.shapes[graph.inputs[0]], 6, 8, 3.0))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    return graphs(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def whole_tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    """Every operator of whole numbers: its operand is cut to such, so it is held as one whatever the format is."""
    folder = tmp_path_factory.mktemp("whole")
    return {name: load(of_whole_numbers(proto(name)), folder) for name in ALL}


def of_whole_numbers(made: onnx.ModelProto) -> onnx.ModelProto:
    nodes = [node("Cast", "x", "x.cut", to=TensorProto.INT64), node("Cast", "x.cut", "x.whole", to=TensorProto.FLOAT)]
    for item in made.graph.node:
        item.input[:] = ["x.whole" if name == "x" else name for name in item.input]
    nodes += made.graph.node
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


@pytest.mark.parametrize("name", FORMATS)
def test_every_operator_is_explained_by_rounding(name: str, tables: dict[str, Graph]) -> None:
    assert unexpected(tables, name, inputs_of) == []


@pytest.mark.parametrize("name", FORMATS)
def test_every_operator_of_whole_numbers_is_explained_by_rounding(name: str, whole_tables: dict[str, Graph]) -> None:
    """Flags, indices and counters are exact, so that results which are no whole numbers must not be cut to such."""
    found = {f"more {key}": graph for key, graph in whole_tables.items()}
    assert unexpected(found, name, whole_inputs_of) == []


# ---- fractional ends, slopes and divisors of what is whole

C = {"a": 0.0, "lo": -0.7, "hi": 0.4, "s": [0.3]}
FLAG = [node("Greater", "x a", "c"), node("Cast", "c", "d", to=TensorProto.FLOAT)]
CUT = [node("Cast", "x", "c", to=TensorProto.INT32), node("Cast", "c", "d", to=TensorProto.FLOAT)]
CLIPPED = [node("Clip", "d lo hi", "y")]
WHOLE: dict[str, list[onnx.NodeProto]] = {
    "clip a comparison": [*FLAG, *CLIPPED],
    "clip a sign": [node("Sign", "x", "d"), *CLIPPED],
    "clip a floor": [node("Floor", "x", "d"), *CLIPPED],
    "clip a cast": [*CUT, *CLIPPED],
    "clip an index": [node("ArgMax", "x", "i", axis=-1), node("Cast", "i", "d", to=TensorProto.FLOAT), *CLIPPED],
    "smaller of a flag": [*FLAG, node("Min", "d hi", "y")],
    "slope of a sign": [node("Sign", "x", "d"), node("LeakyRelu", "d", "y", alpha=0.1)],
    "slope of a cast": [*CUT, node("PRelu", "d s", "y")],
    "mean of flags": [*FLAG, node("ReduceMean", "d", "y", axes=[-1], keepdims=1)],
    "line of a flag": [*FLAG, node("HardSigmoid", "d", "y")],
    "quotient of a cast": [*CUT, node("Div", "d hi", "y")],
    "root of a flag": [*FLAG, node("Sqrt", "d", "y")],
}
WHOLE_X = np.rint(np.random.default_rng(2).normal(size=(16, *ROWS)) * 4).astype(np.float32)
LARGEST = {"fixed16": 5e-4, "int8": 0.08, "fixed8": 0.08, "posit16es1": 2e-3, "float32": 5e-6}


@pytest.mark.every_cell
@pytest.mark.parametrize("key", WHOLE)
@pytest.mark.parametrize("name", QUICK)
def test_whole_operands_give_what_is_not_whole(name: str, key: str, tmp_path: Path) -> None:
    graph = load(simple(WHOLE[key], {"x": ROWS}, C), tmp_path)
    ranges = calibrate(graph, WHOLE_X, {})
    program = lower(graph, Assignment(name, {"x": "fixed16"}), ranges)
    outputs = dequantize_outputs(program, run_reference(program, quantize_inputs(program, WHOLE_X)[0]).outputs)
    assert np.abs(outputs - evaluate(graph, WHOLE_X).reshape(16, -1)).max() < LARGEST[name] * (
        10 if "quotient" in key else 1
    )


@pytest.mark.parametrize("key", ["clip a comparison", "clip a sign", "clip a floor", "clip an index"])
def test_ends_that_are_cut_to_whole_numbers_are_found(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tinyhil.ops.piecewise.END_ERROR", np.inf)
    graph = load(simple(WHOLE[key], {"x": ROWS}, C), tmp_path)
    for name in ("fixed16", "posit16es1", "float32"):
        assert judged(graph, Assignment(name, {"x": "fixed16"}), WHOLE_X).findings, name


# ---- what it was made for


def test_it_is_no_bound_that_anything_meets(tables: dict[str, Graph]) -> None:
    """What rounding explains is a few hundredths of the result in 8 bits, and of 16 bits a hundredth of that."""
    shares: dict[str, list[float]] = {name: [] for name in ("fixed16", "fixed8")}
    for key, graph in tables.items():
        x = inputs_of(graph)
        reach = float(np.ptp(evaluate(graph, x)))
        for name, found in shares.items():
            if key.startswith(("window", "shape")) and reach > 0:
                found.append(judged(graph, Assignment(name), x).explained / reach)
    assert np.median(shares["fixed16"]) < 0.001
    assert np.median(shares["fixed8"]) < 0.15


def test_one_output_that_is_off_is_found_and_named(tmp_path: Path) -> None:
    weights = np.random.default_rng(1).normal(size=(8, 4))
    layers = [node("MatMul", "x w", "h"), node("Tanh", "h", "t"), node("MatMul", "t v", "y")]
    graph = load(simple(layers, {"x": (1, 8)}, {"w": weights, "v": weights[:4]}), tmp_path)
    x = samples_for((1, 8), 12)
    assert judged(graph, Assignment("fixed16"), x).findings == ()

    def broken(outputs: np.ndarray) -> np.ndarray:
        moved = outputs.copy()
        moved[9, 2] += 0.05
        return moved

    (finding,) = judged(graph, Assignment("fixed16"), x, broken).findings
    assert (finding.tensor, finding.node, finding.elements) == ("y", "the whole run", 1)
    assert finding.error > 5 * finding.allowed > 0


def test_outputs_that_do_not_depend_on_the_sample_are_found(tmp_path: Path) -> None:
    graph = load(simple([node("MatMul", "x w", "y")], {"x": (1, 8)}, {"w": np.eye(8)}), tmp_path)
    (finding,) = judged(graph, Assignment("fixed2"), samples_for((1, 8), 12), lambda y: 0 * y).findings
    assert finding.node == "the whole run"
    assert finding.error <= finding.allowed


def test_operators_are_all_in_the_tables() -> None:
    used = {item.op_type for name in ALL for item in proto(name).graph.node}
    assert len(used & set(OPERATOR_BY_NAME)) > 25


def test_models_that_only_reshape_run(tmp_path: Path) -> None:
    """Nothing is written, so nothing is compared, and that is no division by zero."""
    shape = {"s": np.array([1, 2, 3])}
    made = model(onnx_graph([node("Reshape", "x s", "y")], {"x": (1, 6)}, "y", shape))
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    np.savez(tmp_path / "x.npz", x=samples_for((1, 6), 4))
    arguments = ["--model", tmp_path / "m.onnx", "--inputs", tmp_path / "x.npz", "--calibrate", tmp_path / "x.npz"]
    done = hil("run", "--board", "host", *arguments, cwd=tmp_path)
    assert "4 of 4 equal" in done.stdout
