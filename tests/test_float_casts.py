"""Casts to floats of 8 and 4 bits inside of a model: ml_dtypes and onnx's own reference are the oracles."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from kernel_cases import Case, first_difference, run_natively
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_models import compiled, floats, load, tensors

from tinyhil.errors import ModelError
from tinyhil.formats.e8m0 import DOWN, E8M0, NEAREST, UP
from tinyhil.formats.minifloat import FINITE
from tinyhil.frontend.whole_types import SMALL_FLOATS
from tinyhil.ops.small_floats import nearest_float
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

NAMES = {
    "FLOAT8E4M3FN": "float8_e4m3fn",
    "FLOAT8E4M3FNUZ": "float8_e4m3fnuz",
    "FLOAT8E5M2": "float8_e5m2",
    "FLOAT8E5M2FNUZ": "float8_e5m2fnuz",
    "FLOAT4E2M1": "float4_e2m1fn",
}
SHAPE = (1, 24)
RNG = np.random.default_rng(36)
X = (RNG.normal(size=(12, *SHAPE)) * 4).astype(np.float32)


def kind(name: str) -> int:
    return int(getattr(onnx.TensorProto, name))


def proto(
    nodes: list, constants: dict, source: onnx.ValueInfoProto | None = None, columns: int = 24
) -> onnx.ModelProto:
    inputs, outputs = [source or floats("x", SHAPE)], [floats("y", (1, columns))]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


def there_and_back(name: str) -> onnx.ModelProto:
    nodes = [helper.make_node("Cast", ["x"], ["s"], "to", to=kind(name)), helper.make_node("Cast", ["s"], ["y"], to=1)]
    return proto(nodes, {})


def layer(name: str) -> onnx.ModelProto:
    """A layer of small weights that reads small inputs, its result halved: formats of several kinds meet."""
    weights = helper.make_node("Cast", ["w"], ["ws"], "ws", to=kind(name))
    cast = helper.make_node("Cast", ["h"], ["s"], "s", to=kind(name))
    nodes = [weights, helper.make_node("Mul", ["x", "half"], ["h"]), cast]
    nodes += [helper.make_node("Cast", [one], [f"{one}f"], f"{one}f", to=1) for one in ("s", "ws")]
    nodes.append(helper.make_node("MatMul", ["sf", "wsf"], ["y"]))
    return proto(nodes, {"w": RNG.normal(size=(24, 6)).astype(np.float32), "half": np.float32(0.7)}, columns=6)


@pytest.mark.parametrize("name", NAMES)
def test_casts_round_as_ml_dtypes_does(name: str) -> None:
    fmt = SMALL_FLOATS[kind(name)]
    steps = np.arange(-(1 << 15), 1 << 15).astype(np.int16).view(np.float16).astype(np.float32)  # every float16
    values = np.concatenate([steps[np.isfinite(steps)], RNG.normal(size=5000).astype(np.float32)])
    with np.errstate(all="ignore"):
        wanted = values.astype(np.dtype(getattr(ml_dtypes, NAMES[name]))).astype(np.float32)
    within = np.abs(values) <= fmt.largest
    np.testing.assert_array_equal(nearest_float(values, fmt, True)[within], wanted[within])
    saturated = nearest_float(values, fmt, True)[~within]
    np.testing.assert_array_equal(saturated, np.sign(values[~within]) * np.float32(fmt.largest))
    if name != "FLOAT4E2M1":  # ml_dtypes' saturates, ONNX has no other
        np.testing.assert_array_equal(nearest_float(values, fmt, False), wanted)
    assert (fmt.policy == FINITE) == ("FNUZ" in name or ("4E" in name and "E4" not in name))


@pytest.mark.parametrize("name", NAMES)
def test_a_cast_is_a_format_whatever_the_assignment_says(name: str, tmp_path: Path) -> None:
    model = there_and_back(name)
    wanted = ReferenceEvaluator(model).run(None, {"x": X.reshape(-1, 24)})[0].reshape(X.shape)
    graph = load(model, tmp_path)
    np.testing.assert_array_equal(evaluate(graph, X), wanted)
    for chosen in ("float32", "fixed16", "int8"):
        program = compiled(graph, X, chosen)
        assert program.tensors[program.output].format == SMALL_FLOATS[kind(name)]
        codes = quantize_inputs(program, X)[0]
        found = dequantize_outputs(program, run_reference(program, codes).outputs)
        np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)  # the host rounds what only casts read


FEW = ("FLOAT8E4M3FN", "FLOAT8E5M2FNUZ"), ("fixed16", "int8", "float32")
ALL = tuple(NAMES), ("fixed16", "fixed8", "int8", "float32", "posit8es1", "fp8e4m3")


@pytest.mark.parametrize(("names", "formats"), [FEW, pytest.param(*ALL, marks=pytest.mark.slow)], ids=["few", "all"])
def test_layers_between_casts_equal_onnx_and_the_kernels_equal_the_reference(
    names: tuple[str, ...], formats: tuple[str, ...], tmp_path: Path
) -> None:
    cases = []
    for name in names:
        model = layer(name)
        graph = load(model, tmp_path)
        wanted = np.stack([ReferenceEvaluator(model).run(None, {"x": one})[0] for one in X])
        np.testing.assert_allclose(evaluate(graph, X), wanted, atol=1e-5)
        for chosen in formats:
            program = compiled(graph, X, chosen)
            cases.append(Case(f"{name} {chosen}", program, quantize_inputs(program, X)[0]))
            run = dequantize_outputs(program, run_reference(program, cases[-1].inputs).outputs).reshape(wanted.shape)
            limit = {"float32": 0, "fixed16": 0.01}.get(chosen, 0.2)
            assert np.abs(run - wanted).max() <= limit * np.abs(wanted).max()
    assert first_difference(cases, run_natively(cases, tmp_path)) == ""


def test_an_input_of_small_floats_has_their_format(tmp_path: Path) -> None:
    source = helper.make_tensor_value_info("x", kind("FLOAT8E5M2"), SHAPE)
    cast = helper.make_node("Cast", ["x"], ["f"], to=1)
    model = proto([cast, helper.make_node("Add", ["f", "one"], ["y"])], {"one": np.float32(1)}, source)
    program = compiled(load(model, tmp_path), X)
    assert program.tensors[program.input].format == SMALL_FLOATS[kind("FLOAT8E5M2")]


POWERS = {"up": UP, "down": DOWN, "nearest": NEAREST}
EDGES = np.float32([1, 1.25, 1.5, 1.75, 2, 3, 3e38, 2.0**-126, 2.0**-127, 2.0**-128, 0, 1e-42, 0.124, 6, 7, 100] * 2)


def powers(round_mode: str, nodes: list, constants: dict, columns: int) -> onnx.ModelProto:
    """`nodes` behind a cast of x to E8M0 and back, f."""
    there = helper.make_node("Cast", ["x"], ["s"], "to", to=kind("FLOAT8E8M0"), round_mode=round_mode)
    model = proto([there, helper.make_node("Cast", ["s"], ["f"], to=1), *nodes], constants, columns=columns)
    model.opset_import[0].version = 24
    return model


@pytest.mark.parametrize("round_mode", POWERS)
def test_floats_of_exponents_alone_round_as_onnx_does(round_mode: str) -> None:
    fmt = E8M0(POWERS[round_mode])
    values = np.exp2(RNG.uniform(-126, 127.9, 20000)).astype(np.float32)
    values = np.concatenate([values, EDGES[EDGES >= 2.0**-126]])
    for saturate in (True, False):
        wanted = numpy_helper.to_float8e8m0(values, saturate, round_mode).astype(np.float32)
        np.testing.assert_array_equal(nearest_float(values, fmt, saturate), wanted)
    special = np.float32([0, np.nan, np.inf, 2.0**-130, 2.0**-127])  # the operator's table; the reference is unlike it
    low, top = np.float32(2.0**-127), np.float32(2.0**127)
    np.testing.assert_array_equal(nearest_float(special, fmt, True), [low, np.nan, top, low, low])
    np.testing.assert_array_equal(nearest_float(special, fmt, False), [*[np.nan] * 4, low])
    steps = np.array([-1.0, 0.0, 1.0])  # residues: what float64 leaves out of 4 and of 6
    found = {UP: [4, 4, 8, 8, 8, 8], DOWN: [2, 4, 4, 4, 4, 4], NEAREST: [4, 4, 4, 4, 8, 8]}[fmt.towards]
    codes, _ = fmt.encode(np.repeat([4.0, 6.0], 3), np.tile(steps, 2))
    np.testing.assert_array_equal(fmt.decode(codes), found)


@pytest.mark.parametrize("chosen", ["float32", "fixed16", "int8", "posit8es1"])
def test_floats_of_exponents_alone_in_kernels_equal_the_reference(chosen: str, tmp_path: Path) -> None:
    cases, small = [], np.abs(X)
    small[0, 0] = EDGES[:24]
    small[1] *= -1
    weights = {"w": RNG.normal(size=(24, 6)).astype(np.float32)}
    for round_mode, towards in POWERS.items():
        for nodes, columns in (([], 24), ([helper.make_node("MatMul", ["f", "w"], ["y"])], 6)):
            back = nodes or [helper.make_node("Identity", ["f"], ["y"])]
            graph = load(powers(round_mode, back, weights if nodes else {}, columns), tmp_path)
            program = compiled(graph, small[2:], chosen)
            given = quantize_inputs(program, small)[0]
            cases.append(Case(f"{round_mode} {columns} {chosen}", program, given))
            if not nodes:
                assert program.tensors[program.output].format == E8M0(towards)
                wanted = nearest_float(small[2:], E8M0(towards), True)
                found = dequantize_outputs(program, run_reference(program, given[2:]).outputs)
                np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)
    assert first_difference(cases, run_natively(cases, tmp_path)) == ""


def test_a_rounding_that_no_cast_has_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"\(Cast\): round_mode sideways; up, down and nearest are supported"):
        load(powers("sideways", [helper.make_node("Identity", ["f"], ["y"])], {}, 24), tmp_path)
