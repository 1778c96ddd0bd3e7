"""Masks of attention in front of Softmax: whatever number stands for minus infinity, the result is that of infinity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, TensorProto
from onnx_models import load, node, onnxruntime_outputs, samples_for, simple

from tinyhil.agreement import Lowered, agreement, whole_run
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.columns import scaled_columns
from tinyhil.compiler.lower import formats, lower
from tinyhil.language.assignment import Assignment
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

SHAPE = (1, 6, 6)
FAR = (-100.0, -1e4, -1e9, float(np.finfo(np.float32).min))
LATER = np.triu(np.ones((6, 6), bool), 1)
BIAS = np.random.default_rng(5).normal(size=(6, 6))
LARGEST_ERROR = {"fixed16": 4e-4, "fixed8": 0.06, "int8": 0.03, "posit16es1": 4e-4, "float32": 1e-6}  # of 0..1
SOFTMAX = [node("Softmax", "m", "y", axis=-1)]
VIEWED = [
    node("Reshape", "m s", "r"),
    node("Softmax", "r", "q", axis=-1),
    node("Reshape", "q t", "y"),
]
SHAPES = {"s": np.array([1, 1, 6, 6]), "t": np.array([1, 6, 6])}
FLAGS = node("Cast", "c", "b", to=TensorProto.BOOL)
WHERE, ADD = [FLAGS, node("Where", "b v x", "m")], [node("Add", "x v", "m")]


def masked(kind: str, far: float) -> tuple[list[NodeProto], dict[str, np.ndarray]]:
    """The nodes and constants of an attention that sees nothing later."""
    number = np.array(far, np.float32)
    table = {
        "where": (WHERE + SOFTMAX, {"c": LATER * 1.0, "v": number}),
        "where the other way": ([FLAGS, node("Where", "b x v", "m"), *SOFTMAX], {"c": 1.0 - LATER, "v": number}),
        "where of several numbers": (WHERE + SOFTMAX, {"c": LATER * 1.0, "v": np.where(LATER, number, -2.5)}),
        "add": (ADD + SOFTMAX, {"v": np.where(LATER, number, 0.0)}),
        "add to a bias": (ADD + SOFTMAX, {"v": np.where(LATER, number, BIAS)}),
        "behind a view": (ADD + VIEWED, {"v": np.where(LATER, number, 0.0), **SHAPES}),
    }
    nodes, constants = table[kind]
    return nodes, {name: a.astype(np.float32) if a.dtype.kind == "f" else a for name, a in constants.items()}


KINDS = ("where", "where the other way", "where of several numbers", "add", "add to a bias", "behind a view")


@pytest.mark.every_cell
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LARGEST_ERROR)
def test_a_mask_of_any_number_is_one_of_minus_infinity(name: str, kind: str, tmp_path: Path) -> None:
    x = samples_for(SHAPE, 8)
    for far in FAR:
        proto = simple(masked(kind, far)[0], {"x": SHAPE}, masked(kind, far)[1])
        wanted = onnxruntime_outputs(proto, x).reshape(len(x), -1)
        graph, assignment = load(proto, tmp_path), Assignment(name)
        ranges = calibrate(graph, x, {})
        program = lower(graph, assignment, ranges)
        outputs = dequantize_outputs(program, run_reference(program, quantize_inputs(program, x)[0]).outputs)
        assert np.abs(outputs - wanted).max() < LARGEST_ERROR[name], far
        scaled = scaled_columns(graph, assignment, ranges)
        lowered = Lowered(scaled.graph, program, formats(scaled.graph, scaled.assignment, scaled.ranges))
        assert agreement(scaled.graph, program, lowered.formats, x).findings == ()
        assert whole_run(lowered, x, outputs, wanted, 4).findings == ()


# what also shows how far below the others an element is keeps its constants
SEEN = {
    "result": [*WHERE, node("Softmax", "m", "p"), node("Concat", "m p", "y", axis=1)],
    "logarithm": [*WHERE, node("LogSoftmax", "m", "y", axis=-1)],
    "sigmoid": [*WHERE, node("Sigmoid", "m", "y")],
    "the mask itself": [*WHERE, node("Add", "m v", "y")],
}


@pytest.mark.parametrize("name", SEEN)
def test_a_constant_that_anything_else_sees_stays(name: str, tmp_path: Path) -> None:
    graph = load(simple(SEEN[name], {"x": SHAPE}, {"c": LATER * 1.0, "v": np.float32(-60)}), tmp_path)
    x = samples_for(SHAPE, 4)
    ranges = calibrate(graph, x, {})
    assert scaled_columns(graph, Assignment("fixed16"), ranges).graph is graph


def test_a_constant_within_reach_of_the_others_stays(tmp_path: Path) -> None:
    """exp(-9) is no nothing."""
    graph = load(simple([*WHERE, *SOFTMAX], {"x": SHAPE}, {"c": LATER * 1.0, "v": np.float32(-9)}), tmp_path)
    ranges = calibrate(graph, samples_for(SHAPE, 4), {})
    assert scaled_columns(graph, Assignment("fixed16"), ranges).graph is graph


@pytest.mark.parametrize("kind", ["where", "add"])
def test_scores_that_a_mask_has_made_unreadable_are_degraded(kind: str, tmp_path: Path) -> None:
    """Without the pass: a scale for -1e9, of which nothing can tell a score of 2 from one of 0."""
    x = samples_for(SHAPE, 8)
    proto = simple(masked(kind, -1e9)[0], {"x": SHAPE}, masked(kind, -1e9)[1])
    wanted = onnxruntime_outputs(proto, x).reshape(len(x), -1)
    graph = load(proto, tmp_path)
    ranges = calibrate(graph, x, {})
    for name in ("fixed16", "int8", "fixed8", "posit16es1"):
        program = lower(graph, Assignment(name), ranges, ["masks"])
        outputs = dequantize_outputs(program, run_reference(program, quantize_inputs(program, x)[0]).outputs)
        lowered = Lowered(graph, program, formats(graph, Assignment(name), ranges))
        (finding,) = whole_run(lowered, x, outputs, wanted, 4).findings
        assert finding.node == "the whole run"
        assert finding.error <= finding.allowed  # explained, as anything would be
