"""The float gate: no operator in any format is further from the float model than its formats explain; defects are."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hil_command import hil
from onnx import TensorProto, helper
from onnx_models import graph as onnx_graph
from onnx_models import load, model, node, samples_for, simple
from random_models import random_model
from test_ops_engine import graphs

from tinyhil.agreement import Agreement, agreement
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import formats, lower, tied_values
from tinyhil.errors import ConfigError, DataError, ModelError
from tinyhil.formats import FORMATS
from tinyhil.formats.format import Format
from tinyhil.frontend.onnx import load_onnx
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.lowering_context import loaded
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

QUICK = ("fixed16", "fixed8", "posit16es1", "float32", "int8")
PRECISE = ("fixed16", "fixed32", "posit16es1", "posit32es2", "float16", "float32")
WHOLE_INPUT = "more cast to whole"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    """Every operator, window, shape and fusion."""
    return graphs(tmp_path_factory.mktemp("tables"))


def samples(name: str, graph: Graph) -> np.ndarray:
    x = samples_for(graph.shapes[graph.inputs[0]], 4, 8)
    return np.rint(x) if name == WHOLE_INPUT else x


def held(graph: Graph, assignment: Assignment, x: np.ndarray) -> Agreement | None:
    """None where the assignment is not possible."""
    ranges = calibrate(graph, x, {})
    try:
        program = lower(graph, assignment, ranges)
    except (ModelError, ConfigError):
        return None
    return agreement(graph, program, formats(graph, assignment, ranges), x)


def faults(tables: dict[str, Graph], assign: Callable[[str, Graph], Assignment]) -> list[str]:
    """What is degraded; and everything if hardly anything was compared."""
    found, compared = [], 0
    for name, graph in tables.items():
        made = held(graph, assign(name, graph), samples(name, graph))
        if made is not None:
            compared += bool(made.checked)
            found += [f"{name}: {finding}" for finding in made.findings]
    return found if compared > 0.9 * len(tables) else [*found, f"only {compared} models were compared"]


@pytest.mark.parametrize(
    "name", [fmt.name if fmt.name in QUICK else pytest.param(fmt.name, marks=pytest.mark.slow) for fmt in FORMATS]
)
def test_every_operator_in_every_format(name: str, tables: dict[str, Graph]) -> None:
    assert faults(tables, lambda *_: Assignment(name)) == []


def into_signs(default: str, graph: Graph) -> Assignment:
    """Results, of fixed point everything that is computed, are signs: small numbers lose theirs if rounded before."""
    given = (
        {*graph.inputs, *graph.all_constants()} if default == "fixed16" else {*graph.all_shapes()} - {*graph.outputs}
    )
    return Assignment(default, {group[0]: "sign" for group in tied_values(graph) if given.isdisjoint(group)})


@pytest.mark.parametrize("default", ["fixed16", "int8"])
def test_a_sign_is_that_of_the_exact_result(default: str, tables: dict[str, Graph]) -> None:
    assert faults(tables, lambda _, graph: into_signs(default, graph)) == []


def mixed(graph: Graph, seed: int, names: tuple[str, ...]) -> Assignment:
    random = np.random.default_rng(seed)
    return Assignment("fixed16", {group[0]: str(random.choice(names)) for group in tied_values(graph)})


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 12))])
def test_every_operator_in_mixtures(seed: int, tables: dict[str, Graph]) -> None:
    names = PRECISE if seed % 3 else tuple(fmt.name for fmt in FORMATS)
    assert faults(tables, lambda name, graph: mixed(graph, seed * 1000 + len(name), names)) == []


@pytest.mark.parametrize("first", [0, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_graphs_in_mixtures(first: int, tmp_path: Path) -> None:
    compared = 0
    for seed in range(first, first + (1000 if first else 60)):
        chance = np.random.default_rng(seed)
        try:
            graph = load(random_model(chance), tmp_path)
        except ModelError:  # the output became constant
            continue
        try:
            made = held(graph, mixed(graph, seed, PRECISE), samples_for(graph.shapes["x"], 4, seed))
        except DataError:  # values that float32 can not hold
            continue
        if made is not None:
            assert made.findings == (), seed
            assert made.unchecked == (), seed
            compared += len(made.checked)
    assert compared > 100


def test_what_saturates_everywhere_is_said_not_to_be_compared(tmp_path: Path) -> None:
    """A sum of products of 2**90 at least, in 16 bits for a thousandth of that."""
    square = [node("MatMul", "x x", "y")]
    graph = load(simple(square, {"x": (3, 3)}), tmp_path)
    ranges = calibrate(graph, np.full((1, 3, 3), 0.01, np.float32), {})
    assignment, x = Assignment("fixed16", {"x": "float32"}), np.full((4, 3, 3), 1e3, np.float32)
    made = agreement(graph, lower(graph, assignment, ranges), formats(graph, assignment, ranges), x)
    assert (made.checked, made.unchecked, made.saturated) == ((), (), ("y",))


# ---- defects it was made for


def coarse_bias(bias: Format, unit: int, _: str) -> tuple[Format, int]:
    """As if sums of floats were made of whole numbers."""
    granule = loaded(bias).exponent - bias.exponent
    bias = bias.scaled(max(bias.exponent, unit - granule))
    return bias, bias.exponent + granule - unit


def coarse_epsilon(_: Any, scaled: float, exponent: int, __: int) -> tuple[int, int]:
    return 0, math.floor(math.ldexp(scaled, -2 * exponent) + 0.5)


def within(*_: Any) -> bool:
    """As if integer kernels rounded into every format."""
    return False


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=shape) * 0.5


CONV = ([node("Conv", "x w b", "y")], {"w": weights(3, 2, 3, 3), "b": weights(3)}, (1, 2, 6, 6))
TRANSPOSED = ([node("ConvTranspose", "x w b", "y")], {"w": weights(2, 3, 3, 3), "b": weights(3)}, (1, 2, 4, 4))
SOFTMAX = ([node("Softmax", "x", "y")], {}, (1, 6))
SIGN = ([node("Sign", "x", "s"), node("Softmax", "s", "y")], {}, (1, 6))
GELU = ([node("Gelu", "x", "y", approximate="tanh")], {}, (1, 40))
NORM = ([node("LayerNormalization", "x s", "y", epsilon=0.3)], {"s": np.ones(4)}, (1, 3, 4))
TOKENS = ([node("Cast", "x", "i", to=7), node("Gather", "w i", "y")], {"w": weights(900, 2)}, (1, 5))
FINE = {"y.normalize": "fixed16"}
DEFECTS: dict[str, tuple[Any, dict[str, Any], str, dict[str, str], str]] = {
    "bias of floats": (CONV, {"tinyhil.ops.sums.joining": coarse_bias}, "float32", {"b": "fixed16"}, "y"),
    "bias of posits": (CONV, {"tinyhil.ops.sums.joining": coarse_bias}, "posit16es1", {"b": "fixed12"}, "y"),
    "bias transposed": (TRANSPOSED, {"tinyhil.ops.upsample.joining": coarse_bias}, "float32", {"b": "fixed8"}, "y"),
    "softmax to floats": (SOFTMAX, {"tinyhil.compiler.lower._is_beyond": within}, "fixed16", {"y": "float32"}, "y"),
    "softmax to posits": (SOFTMAX, {"tinyhil.compiler.lower._is_beyond": within}, "fixed8", {"y": "posit16es1"}, "y"),
    "softmax of signs": (SIGN, {"tinyhil.compiler.lower._is_beyond": within}, "float32", {}, "y"),
    "gelu": (GELU, {"tinyhil.ops.real_functions._function_of": lambda node: node.op}, "float32", {}, "y"),
    "epsilon": (NORM, {"tinyhil.ops.normalize._epsilon": coarse_epsilon}, "fixed8", FINE, "y.normalize"),
    "indices": (TOKENS, {"tinyhil.compiler.lower.integral_formats": lambda *_: {}}, "fixed8", {"i": "fixed16"}, "x"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_found_and_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (nodes, constants, shape), broken, default, mix, tensor = DEFECTS[name]
    opset = 20 if name == "gelu" else 17
    graph = load(model(onnx_graph(nodes, {"x": shape}, "y", constants), opset), tmp_path)
    x = samples_for(shape, 6, 2)
    if name == "epsilon":  # one row sets the scale, the others differ by a unit or two
        x *= np.array([[40.0], [1.0], [2.0]], np.float32)
    x = np.random.default_rng(1).integers(0, 900, x.shape).astype(np.float32) if name == "indices" else x
    sound = held(graph, Assignment(default, mix), x)
    assert sound is not None
    assert sound.findings == ()
    for target, replacement in broken.items():
        monkeypatch.setattr(target, replacement)
    found = held(graph, Assignment(default, mix), x)
    assert found is not None
    assert tensor in [finding.tensor for finding in found.findings]


@pytest.mark.parametrize("name", ["fixed8pc", "fixed16pc", "int8", "fp8e4m3pc"])
def test_a_row_of_zeros_is_its_bias(name: str, tmp_path: Path) -> None:
    """In the unit of the row, which nothing but the bias asks for."""
    w = weights(4, 3) * [0.01, 0.0, 0.0]
    graph = load(simple([node("Gemm", "x w b", "y")], {"x": (1, 4)}, {"w": w, "b": [0.2, 0.0597, -0.2113]}), tmp_path)
    made = held(
        graph,
        Assignment("fixed8", {"w": name, "b": "fixed16", "y": "fixed16", **({"x": name} if name == "int8" else {})}),
        samples_for((1, 4), 4),
    )
    assert made is not None
    assert made.findings == ()


@pytest.mark.parametrize(("op", "attrs"), [("HardSigmoid", {}), ("HardSwish", {}), ("LeakyRelu", {"alpha": 0.17})])
@pytest.mark.parametrize("result", ["int16x8", "int8", "float32"])
def test_slopes_of_integers_in_single_precision(op: str, attrs: dict[str, float], result: str, tmp_path: Path) -> None:
    """Results that integers do not round to: slopes of 24 bits, not of 16."""
    graph = load(simple([node(op, "x", "y", **attrs)], {"x": (1, 400)}), tmp_path)
    made = held(graph, Assignment("fixed16", {"y": result}), samples_for((1, 400), 8))
    assert made is not None
    assert (made.checked, made.findings) == (("y",), ())


@pytest.mark.parametrize("name", ["fixed8", "int8", "int16x8", "posit8es0"])
def test_a_value_that_is_always_zero_while_calibrating(name: str, tmp_path: Path) -> None:
    """Its scale is nobody's business, but layers have to be rescaled to it."""
    nodes = [node("Conv", "x w b", "c"), node("Relu", "c", "r"), node("Conv", "r v", "y")]
    constants = {"w": weights(3, 2, 3, 3), "b": np.full(3, -40.0), "v": weights(2, 3, 1, 1)}
    graph = load(simple(nodes, {"x": (1, 2, 5, 5)}, constants), tmp_path)
    x = samples_for((1, 2, 5, 5), 4)
    made = held(graph, Assignment(name), x)
    assert made is not None
    assert made.findings == ()


def test_a_code_beside_the_right_one_is_found(tmp_path: Path) -> None:
    """The check is as sharp as a format: one code of 16 bits in one element is too much."""
    graph = load(simple([node("MatMul", "x w", "y")], {"x": (1, 8)}, {"w": weights(8, 4)}), tmp_path)
    x, assignment = samples_for((1, 8), 4), Assignment("fixed16")
    ranges = calibrate(graph, x, {})
    program, chosen = lower(graph, assignment, ranges), formats(graph, assignment, ranges)
    assert agreement(graph, program, chosen, x).findings == ()
    codes = program.constants["w"].copy()
    codes[5] += 40
    wrong = replace(program, constants={**program.constants, "w": codes})
    (finding,) = agreement(graph, wrong, chosen, x).findings
    assert finding.tensor == "y"
    assert finding.error > finding.allowed > 0


# ---- inputs of whole numbers


def tokens(folder: Path, kind: int) -> Path:
    nodes = [node("Gather", "e x", "g"), node("ReduceMean", "g", "m", axes=[1], keepdims=0), node("MatMul", "m w", "y")]
    made = onnx_graph(nodes, {}, {"y": (1, 3)}, {"e": weights(2000, 4), "w": weights(4, 3)})
    made.input.append(helper.make_tensor_value_info("x", kind, (1, 6)))
    path = folder / "tokens.onnx"
    path.write_bytes(model(made).SerializeToString())
    onnx.checker.check_model(str(path))
    return path


@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32])
@pytest.mark.parametrize("default", ["fixed8", "fixed16", "int8", "posit8es0", "float32"])
def test_tokens_keep_their_value_in_every_format(kind: int, default: str, tmp_path: Path) -> None:
    path = tokens(tmp_path, kind)
    graph = load_onnx(path).graph
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    x = np.random.default_rng(2).integers(0, 2000, (30, 1, 6)).astype(dtype)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = np.stack([session.run(None, {"x": row})[0].reshape(-1) for row in x])
    np.testing.assert_allclose(evaluate(graph, x).reshape(len(x), -1), wanted, rtol=1e-5, atol=1e-6)
    program = lower(graph, Assignment(default), calibrate(graph, x[:20], {}))  # others come
    codes, clipped = quantize_inputs(program, x.astype(np.float32))
    assert clipped == 0
    outputs = dequantize_outputs(program, run_reference(program, codes).outputs)
    assert np.abs(outputs - wanted).max() < 0.25 * np.abs(wanted).max()


def test_the_record_says_degraded_and_where(tmp_path: Path) -> None:
    """Where a model takes whole numbers they are cut as its casts do; those beyond 16 bits are lost."""
    nodes, constants, shape = TOKENS
    (tmp_path / "m.onnx").write_bytes(simple(nodes, {"x": shape}, constants).SerializeToString())
    whole = np.arange(20.0, dtype=np.float32).reshape(4, *shape)
    np.savez(tmp_path / "train.npz", x=whole)
    for name, x in (("whole", whole), ("halves", whole + 0.5), ("far", whole + 40000)):
        np.savez(tmp_path / "x.npz", x=x)
        arguments = [
            "--model",
            tmp_path / "m.onnx",
            "--inputs",
            tmp_path / "x.npz",
            "--calibrate",
            tmp_path / "train.npz",
        ]
        done = hil("run", "--board", "host", *arguments, cwd=tmp_path)
        record = json.loads(next(tmp_path.glob("results/host/m/*.json")).read_text())
        shutil.rmtree(tmp_path / "results")
        assert record["bit_exact"]
        assert record["float_check"]["samples"] == 4
        assert [found["tensor"] for found in record["degraded"]] == (["x"] if name == "far" else [])
        assert ("DEGRADED: tensor 'x' (node 'input'" in done.stdout) == (name == "far")
