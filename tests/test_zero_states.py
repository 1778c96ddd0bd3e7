"""Loops that begin at zero begin at the code of zero, in every format: 0 is another number beside a zero point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from given_data import SHIPPED
from onnx_models import load, node
from scan_models import HIDDEN, STEPS, WIDTH, cell, classifier, scan

from benchmarks.peers import fastgrnn_as_scan
from tinyhil.codegen.kernel_calls import name_of
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.formats import FORMAT_BY_NAME
from tinyhil.formats.codec import dequantize
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import walk
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

PEERS = SHIPPED / "models" / "peer_bench"


def positive_states() -> onnx.ModelProto:
    """States of 0 to 4, whose zero is the lowest code of an 8-bit range."""
    body = cell([node("MatMul", "x_t W", "xw"), node("Abs", "xw", "a"), node("Add", "h a", "h_next")])
    return classifier([scan("h0 x", "h_n", body)])


@pytest.mark.parametrize("name", FORMAT_BY_NAME)
def test_states_begin_at_zero(name: str, tmp_path: Path) -> None:
    g = load(positive_states(), tmp_path)
    x = np.random.default_rng(0).normal(size=(8, STEPS, 1, WIDTH)).astype(np.float32)
    program = lower(g, Assignment(name), calibrate(g, x, {}))
    fills = [op for op in walk(program.body) if name_of(op.kernel) == "fill"]
    assert len(fills) == 1
    assert program.tensors[fills[0].output].count == HIDDEN
    fmt = program.tensors[fills[0].output].format
    assert dequantize(np.array([fills[0].params["value"]]), fmt) == 0


def test_fastgrnn_in_int8(tmp_path: Path) -> None:
    """At least what TensorFlow Lite's int8 makes of the same weights, unrolled: .967, agreement .983."""
    g = load(fastgrnn_as_scan(PEERS / "rnn.npz"), tmp_path)
    x, y = np.load(PEERS / "har_x.npy"), np.load(PEERS / "har_y.npy")
    program = lower(g, Assignment("int8"), calibrate(g, x, {}))
    run = run_reference(program, quantize_inputs(program, x)[0])
    labels = dequantize_outputs(program, run.outputs).argmax(1)
    assert (labels == y).mean() >= 0.967
    assert (labels == evaluate(g, x).reshape(len(x), -1).argmax(1)).mean() >= 0.983
